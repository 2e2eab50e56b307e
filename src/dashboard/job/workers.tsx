// The workers of the newest attempt side by side: state, age of the log, figures of the machine, last line. Workers that
// differ from the others are first, with a sign.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { JobView, WorkerView } from '../../app/client.ts';
import { openAttemptView } from '../../app/attempt-timeline.ts';
import { escapeLine, formatAge, formatBinaryBytes, pluralize } from '../../app/format.ts';
import { differingFirst, lastState } from '../../app/worker-order.ts';
import type { FiguresAnswer, MachineFigures } from '../../app/worker-figures.ts';
import type { Duration } from '../../core/model/time.ts';
import { now } from '../clock.ts';
import { goTo, pageHref } from '../location.ts';
import { Empty } from '../parts/messages.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { measureWorkers, type FiguresByWorker } from './figures.ts';
import type { SectionProps } from './page.tsx';

interface Row extends WorkerView {
  readonly job: string;
  readonly attempt: number;
  readonly isDifferent: boolean;
  readonly logAge: Duration | null;
  readonly answer: FiguresAnswer | undefined;
}

function logsHref({ job, attempt, worker }: Row): string {
  return pageHref(['jobs', job, 'logs'], { attempt: String(attempt), workers: String(worker) });
}

const figure = (row: Row, format: (figures: MachineFigures) => string | null) => {
  const { answer } = row;
  if (answer === undefined) return '';
  if (answer.kind === 'unknown') return <span title={escapeLine(answer.reason)}>?</span>;
  return format(answer.figures) ?? '-';
};
const percent = (value: number | null): string | null => (value === null ? null : `${Math.round(value)}%`);
const share = (used: number | null, total: number | null): string | null =>
  used === null || total === null || total === 0
    ? null
    : `${Math.round((100 * used) / total)}% of ${formatBinaryBytes(total)}`;

const columns: readonly Column<Row>[] = [
  {
    name: 'worker',
    title: 'Worker',
    width: '5.5rem',
    cell: (row) => (
      <>
        <a href={logsHref(row)} aria-label={`Logs of worker ${row.worker}`}>
          {row.worker}
        </a>
        {row.isDifferent && (
          <span class="differs" role="img" aria-label="differs from the others" title="differs from the others">
            {' ≠'}
          </span>
        )}
      </>
    ),
  },
  { name: 'address', title: 'Host', width: '9rem', wide: true, cell: ({ address }) => escapeLine(address ?? '-') },
  { name: 'state', title: 'State', width: '6.5rem', cell: ({ message }) => escapeLine(message) },
  {
    name: 'log',
    title: 'Log age',
    width: '5.5rem',
    align: 'right',
    cell: ({ logAge }) => (logAge === null ? '-' : formatAge(logAge)),
  },
  {
    name: 'cpu',
    title: 'CPU',
    width: '4rem',
    align: 'right',
    wide: true,
    cell: (row) => figure(row, ({ cpuPercent }) => percent(cpuPercent)),
  },
  {
    name: 'memory',
    title: 'Memory',
    width: '10.5rem',
    align: 'right',
    wide: true,
    cell: (row) => figure(row, ({ memoryUsedBytes, memoryTotalBytes }) => share(memoryUsedBytes, memoryTotalBytes)),
  },
  {
    name: 'disk',
    title: 'Disk',
    width: '10.5rem',
    align: 'right',
    wide: true,
    cell: (row) => figure(row, ({ diskUsedBytes, diskTotalBytes }) => share(diskUsedBytes, diskTotalBytes)),
  },
  {
    name: 'duty',
    title: 'Chips busy',
    width: '7rem',
    align: 'right',
    wide: true,
    cell: (row) => figure(row, ({ dutyPercent }) => percent(dutyPercent)),
  },
  {
    name: 'line',
    title: 'Last line',
    cell: ({ lastLine }) => {
      const text = escapeLine(lastState(lastLine ?? ''));
      return (
        <code class="line" title={text}>
          {text}
        </code>
      );
    },
  },
];

export function WorkersSection({ view, readAt }: SectionProps) {
  const figures = useSignal<FiguresByWorker>(new Map());
  const attempt = view.attempts.at(-1)?.attempt ?? 0;
  const isRunning = (openAttemptView(view.attempts)?.startedAt ?? null) !== null;
  const workers = view.workers.map(({ worker }) => worker);
  useEffect(() => {
    figures.value = new Map();
    if (!isRunning) return undefined;
    const targets = workers.map((worker) => ({ worker, attempt }));
    return measureWorkers(view.id, targets, (next) => (figures.value = next));
  }, [view.id, attempt, isRunning, workers.join(' ')]);
  if (view.workers.length === 0)
    return <Empty command={`jobman show ${view.id}`}>The job has no workers: no attempt has begun.</Empty>;
  const rows = rowsOf(view, attempt, now.value - readAt, figures.value);
  const different = rows.filter(({ isDifferent }) => isDifferent);
  const measured = [...figures.value.values()].flatMap((answer) => (answer.kind === 'known' ? [answer.at] : []));
  return (
    <section aria-label="Workers">
      <div class="bar">
        <h2>
          {pluralize(rows.length, 'worker')} of attempt {attempt}
        </h2>
        <span>
          {different.length === 0
            ? 'All workers are alike.'
            : `${pluralize(different.length, 'worker differs', 'workers differ')} from the others: ${different
                .slice(0, 8)
                .map(({ worker }) => worker)
                .join(', ')}.`}
        </span>
        {measured.length > 0 && (
          <span class="quiet">figures at most {formatAge(now.value - Math.min(...measured))} old</span>
        )}
      </div>
      {view.slowWorker !== null && <p class="warning">{escapeLine(view.slowWorker)}</p>}
      <Table
        label="Workers"
        rows={rows}
        columns={columns}
        keyOf={({ worker }) => String(worker)}
        onOpen={(row) => goTo(logsHref(row))}
      />
    </section>
  );
}

function rowsOf(view: JobView, attempt: number, sinceRead: Duration, figures: FiguresByWorker): readonly Row[] {
  const isEnded = openAttemptView(view.attempts) === undefined;
  return differingFirst(view.workers).map(({ worker, isDifferent }) => ({
    ...worker,
    job: view.id,
    attempt,
    isDifferent,
    logAge: worker.logAgeMs === null ? null : worker.logAgeMs + (isEnded ? 0 : Math.max(0, sinceRead)),
    answer: figures.get(worker.worker),
  }));
}
