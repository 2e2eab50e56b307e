// One job: its state with the reason, its commands, and the chosen section.

import './job.css';
import { useSignal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import type { JobView } from '../../app/client.ts';
import { escapeLine, formatAge, formatDuration, pluralize } from '../../app/format.ts';
import { whyRows } from '../../app/job-facts.ts';
import { formatWorker } from '../../core/model/spec.ts';
import { now } from '../clock.ts';
import { useKeys } from '../keys.ts';
import { address, firstErrorPosition, goTo, pageHref } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Facts } from '../parts/facts.tsx';
import { Failure } from '../parts/messages.tsx';
import { PhaseLabel } from '../parts/phase.tsx';
import { Time } from '../parts/time.tsx';
import { Commands } from './commands.tsx';
import { CostSection } from './cost.tsx';
import { followEvents, type EventLog } from './event-log.ts';
import { HistorySection } from './history.tsx';
import { followJob, type JobState } from './job-state.ts';
import { ManifestSection } from './manifest.tsx';
import { MetricsSection } from './metrics.tsx';
import { OverviewSection } from './overview.tsx';
import { ReplaySection } from './replay.tsx';
import { sections, showAttempt, shownAttempt, shownSection, showSection, type SectionName } from './sections.ts';
import { WorkersSection } from './workers.tsx';

export interface SectionProps {
  readonly view: JobView;
  readonly log: EventLog;
  readonly readAt: number;
}

const contents: Readonly<Record<SectionName, ComponentType<SectionProps>>> = {
  overview: OverviewSection,
  workers: WorkersSection,
  metrics: MetricsSection,
  cost: CostSection,
  manifest: ManifestSection,
  history: HistorySection,
  replay: ReplaySection,
};

export function JobPage() {
  const id = address.value.path[1] ?? '';
  const state = useSignal<JobState | null>(null);
  const log = useSignal<EventLog>({ events: null, failure: null });
  useEffect(() => {
    state.value = null;
    return followJob(id, (next) => (state.value = next));
  }, [id]);
  const storedId = state.value?.view?.id ?? null;
  useEffect(() => {
    log.value = { events: null, failure: null };
    return storedId === null ? undefined : followEvents(storedId, (next) => (log.value = next));
  }, [storedId]);
  const { view, actions, failure, readAt } = state.value ?? { view: null, actions: null, failure: null, readAt: 0 };
  if (view === null)
    return (
      <article class="page">
        {failure === null ? <p class="quiet">Reading job {id}…</p> : <Failure lines={failure} retry={null} />}
      </article>
    );
  const Section = contents[shownSection()];
  return (
    <article class="page job">
      <Head view={view} />
      {failure !== null && (
        <Failure
          lines={[...failure, `The page shows the job as it was ${formatAge(now.value - readAt)} ago.`]}
          retry={null}
        />
      )}
      <Reason view={view} readAt={readAt} />
      {actions !== null && <Commands view={view} actions={actions} />}
      <Tabs view={view} />
      <Section view={view} log={log.value} readAt={readAt} />
    </article>
  );
}

function Head({ view }: { readonly view: JobView }) {
  return (
    <div class="bar job-head">
      <h1>
        {view.id} {escapeLine(view.name)}
      </h1>
      <PhaseLabel row={view} />
      <span class="quiet">
        for {formatDuration(now.value - view.phaseStartedAt)}, {escapeLine(view.owner)}
        {view.attempt > 0 && `, attempt ${view.attempt}`}
      </span>
      <PageCommand text={commandOf(view)} />
    </div>
  );
}

/** The command that shows what the section shows. */
function commandOf({ id }: JobView): string {
  const attempt = shownAttempt();
  const ofAttempt = attempt === null ? '' : ` --attempt ${attempt}`;
  switch (shownSection()) {
    case 'history':
      return `jobman history ${id}`;
    case 'replay':
      return `jobman replay ${id}${ofAttempt}`;
    case 'metrics':
      return `jobman plot ${id}${ofAttempt}`;
    case 'cost':
      return `jobman cost ${id}`;
    case 'overview':
    case 'workers':
    case 'manifest':
      return `jobman show ${id}`;
  }
}

function Reason({ view, readAt }: { readonly view: JobView; readonly readAt: number }) {
  const { why, createdAt } = view;
  const log = why.logTail.map(escapeLine);
  const rows = whyRows({ ...why, logTail: [] }, { now: now.value });
  return (
    <section aria-label="Reason" class="reason">
      <p class="why">
        {escapeLine(why.message)} <span class="quiet">read {formatAge(now.value - readAt)} ago</span>
      </p>
      <Facts rows={[...rows, ['created', <Time key="created" at={createdAt} />]]} />
      {log.length > 0 && (
        <pre tabIndex={0} aria-label="Last lines of the log">
          {log.join('\n')}
        </pre>
      )}
      {log.length > 0 && <OtherWorkers view={view} />}
    </section>
  );
}

/** The worker whose program ended first is often not the one with the first error. */
function OtherWorkers({ view: { id, attempts } }: { readonly view: JobView }) {
  const { attempt, workers = [], evidence = null } = attempts.at(-1) ?? {};
  if (evidence?.worker === undefined || workers.length < 2) return null;
  const first = pageHref(['jobs', id, 'logs'], { attempt: String(attempt), position: firstErrorPosition });
  return (
    <p>
      These are the last lines of {formatWorker(evidence.worker)}. Another worker may have failed before:{' '}
      <a href={first}>first error of all {workers.length} workers</a>
    </p>
  );
}

function Tabs({ view }: { readonly view: JobView }) {
  const attempt = shownAttempt();
  const last = view.attempts.at(-1)?.attempt ?? 0;
  const query = { attempt: attempt === null ? null : String(attempt) };
  const logs = pageHref(['jobs', view.id, 'logs'], query);
  const step = (by: 1 | -1): void => {
    if (last === 0) return;
    const from = attempt ?? (by > 0 ? 0 : last + 1);
    showAttempt(Math.min(last, Math.max(1, from + by)));
  };
  useKeys(
    [
      ...sections.map(({ name, title }, index) => ({
        key: String(index + 1),
        summary: `Show ${title.toLowerCase()}`,
        act: () => showSection(name),
      })),
      { key: '[', summary: 'Previous attempt', act: () => step(-1) },
      { key: ']', summary: 'Next attempt', act: () => step(1) },
      { key: 'l', summary: 'Open the logs', act: () => goTo(logs) },
    ],
    [attempt, last, logs],
  );
  const shown = shownSection();
  return (
    <nav class="tabs" aria-label="Sections">
      {sections.map(({ name, title }) => (
        <a
          key={name}
          href={pageHref(['jobs', view.id], { section: name === 'overview' ? null : name, ...query })}
          aria-current={name === shown ? 'page' : undefined}
        >
          {title}
        </a>
      ))}
      <a href={logs}>Logs</a>
      {last > 0 && (
        <span class="attempt-choice">
          <button class="plain" aria-label="Previous attempt" disabled={attempt === 1} onClick={() => step(-1)}>
            ‹
          </button>
          {attempt === null ? `all ${pluralize(last, 'attempt')}` : `attempt ${attempt} of ${last}`}
          <button class="plain" aria-label="Next attempt" disabled={attempt === last} onClick={() => step(1)}>
            ›
          </button>
          {attempt !== null && (
            <button class="plain" onClick={() => showAttempt(null)}>
              all
            </button>
          )}
        </span>
      )}
    </nav>
  );
}
