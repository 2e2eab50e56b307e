import { hostname } from 'node:os';
import { attemptSpans, formatAttemptEnd, type AttemptSpans } from '../../app/attempt-timeline.ts';
import type { AttemptView, JobView, Why, WorkerView } from '../../app/client.ts';
import { escapeLine, formatAge, formatDuration, formatStatus, pluralize, type ReadingTime } from '../../app/format.ts';
import { jobFacts, whyRows, type Fact } from '../../app/job-facts.ts';
import type { JobDetails } from '../../app/job-source.ts';
import { lastState, unusualWorkers } from '../../app/worker-order.ts';
import type { Duration } from '../../core/model/time.ts';
import { glyph, type Layout, stylePhase } from '../screen.ts';
import { fittedTable, labelled, type Column } from './aligned.ts';
import { fillLines, wrap } from './cell.ts';
import { clusterFacts } from '../../app/cluster/job-facts.ts';
import { clusterJobLines } from './cluster-job.ts';
import { formatJobName } from './job-phrases.ts';

export type ShowLayout = Layout & ReadingTime;

/** Workers and attempts beyond this many are counted, not listed; `--json` has all. */
const maxRows = 20;

/** For `show`. */
export function showLines(details: JobDetails, layout: ShowLayout): readonly string[] {
  return details.backend === 'kubernetes' ? clusterJobLines(details, layout) : storedJobLines(details, layout);
}

/** Labels and texts about the job as a whole, in order. */
export function factRows(details: JobDetails, layout: ShowLayout): readonly (readonly [label: string, text: string])[] {
  return details.backend === 'kubernetes' ? clusterFacts(details, layout) : storedFactRows(details, layout);
}

function storedJobLines(view: JobView, layout: ShowLayout): readonly string[] {
  return [
    ...heading(view, layout),
    ...labelled(storedFactRows(view, layout), layout.columns),
    ...attempts(view, layout),
    ...workers(view, layout),
    ...commands(view, layout.columns),
  ];
}

function storedFactRows(view: JobView, layout: ShowLayout): readonly Fact[] {
  const { why } = view;
  return [['why', why.message], ...whyRows(why, layout), ...jobFacts(view, { ...layout, machine: hostname() })];
}

function heading(view: JobView, layout: ShowLayout): readonly string[] {
  const status = `${glyph(layout, view.phase)} ${escapeLine(formatStatus(view))} for ${formatDuration(layout.now - view.phaseStartedAt)}`;
  const attempt = view.attempt === 0 ? '' : `attempt ${view.attempt}, stage ${view.stage}`;
  const parts = [
    layout.styler('bold', formatJobName(view)),
    stylePhase(layout.styler, view.phase, status),
    attempt,
  ].filter(Boolean);
  return fillLines(parts, '  ', layout.columns);
}

function attempts(view: JobView, layout: ShowLayout): readonly string[] {
  if (view.attempts.length === 0) return [];
  const shown = view.attempts.slice(-maxRows);
  const rows = shown.map((attempt) => {
    return { ...attempt, ...attemptSpans(attempt, view.allocations, layout.now) };
  });
  const end = { title: 'ENDED (UTC)', text: (attempt: AttemptView) => formatAttemptEnd(view, attempt, layout.now) };
  const columns = [...columnsFor(attemptColumns, layout), end];
  const lines = fittedTable(columns, rows, [], layout.columns, 'wrap');
  const earlier = view.attempts.length - shown.length;
  return earlier === 0
    ? lines
    : [...lines, `${pluralize(earlier, 'earlier attempt')}: jobman history ${Number(view.id)}`];
}

const minTableWidth = 80;

/** `isDropped`: in a narrow terminal. */
type ShownColumn<Row> = Column<Row> & { readonly isDropped?: true };

function columnsFor<Row>(columns: readonly ShownColumn<Row>[], { columns: terminal }: ShowLayout) {
  const isNarrow = terminal !== null && terminal < minTableWidth;
  return columns.filter(({ isDropped }) => !isNarrow || isDropped !== true);
}

function formatSpan(span: Duration | null): string {
  return span === null ? '-' : formatDuration(span);
}

const attemptColumns: readonly ShownColumn<AttemptView & AttemptSpans>[] = [
  { title: 'ATTEMPT', side: 'right', text: ({ attempt }) => String(attempt) },
  { title: 'STAGE', side: 'right', isDropped: true, text: ({ stage }) => String(stage) },
  { title: 'ALLOCATION', side: 'right', isDropped: true, text: ({ allocation }) => String(allocation) },
  { title: 'WAITED', side: 'right', isDropped: true, text: ({ waited }) => formatSpan(waited) },
  { title: 'SETUP', side: 'right', isDropped: true, text: ({ setup }) => formatSpan(setup) },
  { title: 'RAN', side: 'right', text: ({ ran }) => formatSpan(ran) },
];

function workers(view: JobView, layout: ShowLayout): readonly string[] {
  if (view.workers.length === 0) return [];
  const shown = view.workers.length <= maxRows ? view.workers : unusualWorkers(view.workers, maxRows);
  const lines = fittedTable(columnsFor(workerColumns, layout), shown, [], layout.columns);
  const more = view.workers.length - shown.length;
  return more === 0
    ? lines
    : [...lines, `${pluralize(more, 'more worker')}, like the others: jobman show ${Number(view.id)} --json`];
}

/** A narrow terminal drops the address: the last line is more useful, and `ssh` knows the address. */
const workerColumns: readonly ShownColumn<WorkerView>[] = [
  { title: 'WORKER', side: 'right', text: ({ worker }) => String(worker) },
  { title: 'HOST', isDropped: true, text: ({ address }) => address ?? '-' },
  { title: 'STATE', text: ({ message }) => message },
  { title: 'LOG AGE', side: 'right', text: ({ logAgeMs }) => (logAgeMs === null ? '-' : formatAge(logAgeMs)) },
  { title: 'LAST LINE', text: ({ lastLine }) => lastState(lastLine ?? '') },
];

function commands(view: JobView, columns: number | null): readonly string[] {
  const id = Number(view.id);
  return fillLines(
    ['logs', 'history', 'why'].map((verb) => `jobman ${verb} ${id}`),
    ' | ',
    columns,
  );
}

export function whyLines(why: Why, { columns, now }: Layout, isExplained = false): readonly string[] {
  const sentence = escapeLine(why.message);
  const head = columns === null ? [sentence] : wrap(sentence, columns);
  return [
    ...head,
    ...labelled(
      [...whyRows(why, { now }), ...(isExplained && why.backend !== 'kubernetes' ? [situationRow(why)] : [])],
      columns,
    ),
  ];
}

function situationRow({ situation }: Why): readonly [string, string] {
  if (situation === null) return ['situation', 'none yet'];
  const { name, description } = situation;
  return ['situation', description === null ? name : `${name}: ${description}`];
}
