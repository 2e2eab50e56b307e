// News: the events of a user's jobs since the user last read them, grouped by job, newest job last.

import { formatDuration, reasonPhrases, asClause } from '../app/format.ts';
import type { Event } from '../core/model/event.ts';
import type { Instant } from '../core/model/time.ts';
import { errorOf } from './check-rows.ts';
import type { WindowWithJob, LabEvent, LabJob } from './lab-store.ts';
import { localTimeConverter } from './local-time.ts';

export interface JobNews {
  readonly job: LabJob;
  /** Window numbers by attempt. An attempt without a window has none. */
  readonly windows: readonly number[];
  /** Oldest first; never empty. */
  readonly lines: readonly NewsLine[];
}

interface NewsLine {
  readonly at: Instant;
  readonly message: string;
}

/** Events for users, without observations, setup, and events that the next event repeats. */
export const newsEventKinds = [
  'created',
  'command_received',
  'attempt_created',
  'attempt_started',
  'attempt_ending',
  'allocation_refused',
  'allocation_released',
  'step_failed',
  'finished',
  'removed',
] as const satisfies readonly Event['kind'][];

export type NewsEvent = LabEvent<(typeof newsEventKinds)[number]>;

/** `windows` has all windows of these jobs; `jobs` has at least the jobs without windows. */
export function groupNews(
  events: readonly NewsEvent[],
  jobs: readonly LabJob[],
  windows: readonly WindowWithJob[],
): readonly JobNews[] {
  const known = new Map([...jobs, ...windows.map(({ job }) => job)].map((job) => [job.job, job]));
  const numbers = Map.groupBy(windows, ({ window }) => window.job);
  const byJob = Map.groupBy(events, ({ job }) => job);
  const inOrder = [...new Set(events.toReversed().map(({ job }) => job))].toReversed();
  return inOrder.flatMap((id): readonly JobNews[] => {
    const job = known.get(id);
    if (job === undefined) return [];
    const own = new Map((numbers.get(id) ?? []).map(({ window }) => [window.attempt, window.window]));
    const lines = linesOf(byJob.get(id) ?? [], job, own);
    return lines.length === 0 ? [] : [{ job, windows: [...own.values()], lines }];
  });
}

function linesOf(events: readonly NewsEvent[], job: LabJob, windows: ReadonlyMap<number, number>): readonly NewsLine[] {
  const lines: NewsLine[] = [];
  /** Consecutive refusals are one line: a wait may take all night. */
  let refusals = 0;
  let firstRefusal = 0;
  for (const { event } of events) {
    if (event.kind === 'allocation_refused') {
      if (refusals > 0) lines.pop();
      else firstRefusal = event.at;
      refusals += 1;
      const often = refusals === 1 ? '' : `, ${refusals} times in ${formatDuration(event.at - firstRefusal)}`;
      lines.push({ at: event.at, message: `request for the TPU refused${often}: ${asClause(event.error.message)}` });
      continue;
    }
    const message = formatEvent(event, job, windows);
    if (message === null) continue;
    refusals = 0;
    lines.push({ at: event.at, message });
  }
  return lines;
}

/** Null for an event that is not news: a first attempt, or a command of the owner. */
function formatEvent(
  event: Exclude<NewsEvent['event'], { readonly kind: 'allocation_refused' }>,
  job: LabJob,
  windows: ReadonlyMap<number, number>,
): string | null {
  switch (event.kind) {
    case 'created':
      return event.by === job.user ? 'created' : `created by ${event.by}`;
    case 'command_received':
      return formatRequest(event, job);
    case 'attempt_created':
      if (event.attempt === 1) return null;
      return event.startMode === 'resume'
        ? `resumes from its last checkpoint, stage ${event.stage + job.baseStage}`
        : 'starts from the beginning';
    case 'attempt_started': {
      const window = windows.get(event.attempt);
      return window === undefined ? 'script started' : `script started in window ${window}`;
    }
    case 'attempt_ending': {
      if (event.reason === 'succeeded' || event.reason === 'stopped') return null;
      const detail = asClause(event.evidence.message);
      const error = errorOf(event) ?? reasonPhrases[event.reason];
      return detail === '' ? error : `${error}: ${detail}`;
    }
    case 'allocation_released':
      return `creating the TPU again: ${asClause(event.message)}`;
    case 'step_failed':
      return `setup step ${event.step} failed on worker ${event.worker}: ${asClause(event.message)}`;
    case 'finished':
      return event.verdict === 'cancelled' ? 'killed' : event.verdict;
    case 'removed':
      return 'deleted';
  }
}

function formatRequest(
  { verb, by }: Extract<Event, { readonly kind: 'command_received' }>,
  job: LabJob,
): string | null {
  if (verb === 'accept-exit') return null;
  if (verb === 'disable-recovery') return 'window closed: recovery is off';
  if (by === job.user) return null;
  return `${verb} by ${by}`;
}

/** `21 Nov 02:10`, with the year unless it is the current one. */
export function newsTimeFormatter(zone: string, now: Instant): (at: Instant) => string {
  const timeOf = localTimeConverter(zone);
  const present = timeOf(now).year;
  return (at) => {
    const { day, month, year, time } = timeOf(at);
    return `${String(day).padStart(2, '0')} ${month}${year === present ? '' : ` ${year}`} ${time.slice(0, 5)}`;
  };
}
