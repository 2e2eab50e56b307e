// The overview of a job: its timeline, its attempts and its facts; before the first start also the plan.

import type { AttemptView, JobView } from '../../app/client.ts';
import { attemptSpans, formatAttemptEnd, type AttemptSpans } from '../../app/attempt-timeline.ts';
import { escapeLine, formatDuration } from '../../app/format.ts';
import { jobFacts } from '../../app/job-facts.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { now } from '../clock.ts';
import { pageHref } from '../location.ts';
import { Facts } from '../parts/facts.tsx';
import { Failure } from '../parts/messages.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { client } from '../session.ts';
import type { SectionProps } from './page.tsx';
import { Plan } from './plan.tsx';
import { useRead } from './read.ts';
import { shownAttempt, showAttempt } from './sections.ts';
import { Timeline } from './timeline.tsx';

export function OverviewSection({ view, log }: SectionProps) {
  const last = view.attempts.at(-1);
  // The ledger changes with the state of an attempt.
  const key = [view.attempts.length, last?.startedAt, last?.endedAt, view.phase].join(' ');
  const usage = useRead(view.id, key, () => client.usage({ jobs: [view.id] }));
  const isBeforeStart = !isFinishedPhase(view.phase) && view.attempts.every(({ startedAt }) => startedAt === null);
  return (
    <>
      {log.failure !== null && <Failure lines={log.failure} retry={null} />}
      {isBeforeStart && <Plan view={view} />}
      {view.attempts.length === 0 ? (
        <p class="quiet">No attempt has begun.</p>
      ) : (
        <>
          <Timeline
            view={view}
            events={log.events?.map(({ event }) => event) ?? noEvents}
            usage={usage.value ?? noUsage}
          />
          <Attempts view={view} />
        </>
      )}
      <AllFacts view={view} />
    </>
  );
}

const noEvents = [] as const;
const noUsage = [] as const;

function AllFacts({ view }: { readonly view: JobView }) {
  return (
    <section aria-label="Facts">
      <h2>Facts</h2>
      <Facts rows={jobFacts(view, { now: now.value, machine: null })} />
    </section>
  );
}

interface AttemptRow extends AttemptView, AttemptSpans {
  readonly end: string;
  readonly view: JobView;
}

const span = (length: number | null): string => (length === null ? '-' : formatDuration(length));

const columns: readonly Column<AttemptRow>[] = [
  {
    name: 'attempt',
    title: 'Attempt',
    width: '6rem',
    align: 'right',
    cell: ({ attempt }) => (
      <button class="plain" aria-label={`Attempt ${attempt}`} onClick={() => showAttempt(attempt)}>
        {attempt}
      </button>
    ),
  },
  {
    name: 'start',
    title: 'Start',
    width: '11rem',
    wide: true,
    cell: ({ startMode, startedBy }) => `${startMode}, by ${startedBy === 'owner' ? 'the owner' : 'a rule'}`,
  },
  { name: 'created', title: 'Created', width: '13rem', wide: true, cell: ({ createdAt }) => <Time at={createdAt} /> },
  { name: 'allocation', title: 'Alloc.', width: '4.5rem', align: 'right', wide: true, cell: (row) => row.allocation },
  { name: 'waited', title: 'Waited', width: '5rem', align: 'right', wide: true, cell: ({ waited }) => span(waited) },
  { name: 'setup', title: 'Setup', width: '5rem', align: 'right', wide: true, cell: ({ setup }) => span(setup) },
  { name: 'ran', title: 'Ran', width: '5rem', align: 'right', cell: ({ ran }) => span(ran) },
  {
    name: 'end',
    title: 'Ended (UTC)',
    cell: ({ end }) => <span title={end}>{end}</span>,
  },
  {
    name: 'logs',
    title: 'Logs',
    width: '4rem',
    wide: true,
    cell: ({ view, attempt, startedAt }) =>
      startedAt === null ? (
        '-'
      ) : (
        <a href={pageHref(['jobs', view.id, 'logs'], { attempt: String(attempt) })} aria-label={`Logs of ${attempt}`}>
          logs
        </a>
      ),
  },
];

function Attempts({ view }: { readonly view: JobView }) {
  const rows = view.attempts
    .map((attempt) => ({
      ...attempt,
      ...attemptSpans(attempt, view.allocations, now.value),
      end: escapeLine(formatAttemptEnd(view, attempt, now.value)),
      view,
    }))
    .toReversed();
  const chosen = rows.find(({ attempt }) => attempt === shownAttempt());
  return (
    <section aria-label="Attempts">
      <h2>Attempts</h2>
      <Table
        label="Attempts, the newest first"
        rows={rows}
        columns={columns}
        keyOf={({ attempt }) => String(attempt)}
        onOpen={({ attempt }) => showAttempt(attempt)}
      />
      {chosen !== undefined && (
        <p>
          Attempt {chosen.attempt}: {chosen.endedAt === null ? 'not ended yet' : `ended ${chosen.end}`}.{' '}
          <a href={pageHref(['jobs', view.id, 'logs'], { attempt: String(chosen.attempt) })}>
            Logs of attempt {chosen.attempt}
          </a>
        </p>
      )}
    </section>
  );
}
