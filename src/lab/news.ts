// News: what happened to the jobs of a user since they last looked, a group for each job, the newest last.

import { lengthText, reasonWords, sentencePart } from '../app/figures.ts';
import type { Event } from '../core/decision.ts';
import type { Instant } from '../core/time.ts';
import { errorOf } from './check.ts';
import type { LabAttempt, LabEvent, LabJob } from './record.ts';
import { localTimes } from './local-time.ts';

export interface JobNews {
  readonly job: LabJob;
  /** The numbers of its windows, by attempt; one that never opened has none. */
  readonly windows: readonly number[];
  /** Oldest first; never empty. */
  readonly lines: readonly NewsLine[];
}

interface NewsLine {
  readonly at: Instant;
  readonly says: string;
}

/** Events that a person wants to hear of: not observations, setup, or what the next event says again. */
export const newsKinds = [
  'created',
  'asked',
  'attempt_created',
  'attempt_started',
  'attempt_ending',
  'allocation_refused',
  'allocation_released',
  'step_failed',
  'settled',
  'removed',
] as const satisfies readonly Event['kind'][];

export type NewsEvent = LabEvent<(typeof newsKinds)[number]>;

/**
 * The news by job, the job with the newest last. `windows` are all of these jobs, cleared ones too; `jobs` those without
 * windows, and others. A job that the lab does not know is left out.
 */
export function newsOf(
  events: readonly NewsEvent[],
  jobs: readonly LabJob[],
  windows: readonly LabAttempt[],
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
  /** Refusals in a row: a wait of a night is one line. */
  let refusals = 0;
  let firstRefusal = 0;
  for (const { event } of events) {
    if (event.kind === 'allocation_refused') {
      if (refusals > 0) lines.pop();
      else firstRefusal = event.at;
      refusals += 1;
      const often = refusals === 1 ? '' : `, ${refusals} times in ${lengthText(event.at - firstRefusal)}`;
      lines.push({ at: event.at, says: `its TPU was not given${often}: ${sentencePart(event.error.message)}` });
      continue;
    }
    const says = newsIn(event, job, windows);
    if (says === null) continue;
    refusals = 0;
    lines.push({ at: event.at, says });
  }
  return lines;
}

/** Null for what is no news after all: a beginning, and what its owner has wanted. */
function newsIn(
  event: Exclude<NewsEvent['event'], { readonly kind: 'allocation_refused' }>,
  job: LabJob,
  windows: ReadonlyMap<number, number>,
): string | null {
  switch (event.kind) {
    case 'created':
      return event.by === job.user ? 'created' : `created by ${event.by}`;
    case 'asked':
      return askedText(event, job);
    case 'attempt_created':
      if (event.attempt === 1) return null;
      return event.how === 'resume'
        ? `is resumed, for the ${ordinal(event.stage + job.baseStage)} time`
        : 'begins anew';
    case 'attempt_started': {
      const window = windows.get(event.attempt);
      return window === undefined ? 'its script began' : `its script began, in window ${window}`;
    }
    case 'attempt_ending': {
      if (event.reason === 'succeeded' || event.reason === 'stopped') return null;
      const detail = sentencePart(event.evidence.detail);
      // The same word as in `tpu check`.
      const error = errorOf(event) ?? reasonWords[event.reason];
      return detail === '' ? error : `${error}: ${detail}`;
    }
    case 'allocation_released':
      return `its TPU is made anew: ${sentencePart(event.why)}`;
    case 'step_failed':
      return `setup step ${event.step} failed on worker ${event.worker}: ${sentencePart(event.detail)}`;
    case 'settled':
      return event.verdict === 'succeeded' ? 'finished' : event.verdict === 'cancelled' ? 'killed' : event.verdict;
    case 'removed':
      return 'was deleted';
  }
}

function askedText({ verb, by }: Extract<Event, { readonly kind: 'asked' }>, job: LabJob): string | null {
  if (verb === 'judge') return null;
  if (verb === 'last') return 'its window was closed: no rule brings it back';
  // The next line tells what the owner's own command led to.
  if (by === job.user) return null;
  return verb === 'cancel' || verb === 'stop' || verb === 'delete' ? `${by} ended it` : `${by} said ${verb}`;
}

function ordinal(count: number): string {
  const rest = count % 100;
  const ending = rest >= 11 && rest <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th');
  return `${count}${ending}`;
}

/** Formats times for a user of that zone (a setting): `21 Nov 02:10`, with the year unless it is the present one. */
export function clockOf(zone: string, now: Instant): (at: Instant) => string {
  const timeOf = localTimes(zone);
  const present = timeOf(now).year;
  return (at) => {
    const { day, month, year, time } = timeOf(at);
    return `${String(day).padStart(2, '0')} ${month}${year === present ? '' : ` ${year}`} ${time.slice(0, 5)}`;
  };
}
