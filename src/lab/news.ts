// News: what happened to the jobs of a user since they last looked, a group for each job, the newest last.

import { lengthText } from '../app/figures.ts';
import { reasonWords, sentencePart } from '../app/reason-words.ts';
import type { Event } from '../core/decision.ts';
import type { Instant } from '../core/time.ts';
import type { LabAttempt, LabEvent } from './record.ts';
import { localTimes } from './local-time.ts';
import type { LabJob } from './windows.ts';

/** What happened to one job. */
export interface JobNews {
  readonly job: LabJob;
  /** The numbers of its windows, by attempt; one that never opened has none. */
  readonly windows: readonly number[];
  /** Oldest first; never empty. */
  readonly lines: readonly NewsLine[];
}

export interface NewsLine {
  readonly at: Instant;
  readonly says: string;
}

/**
 * The events that a person wants to hear of, by job, the job with the newest of them last. `windows` are all of these jobs, cleared
 * ones too. A job that the lab does not know is left out.
 */
export function newsOf(
  events: readonly LabEvent[],
  jobs: readonly LabJob[],
  windows: readonly LabAttempt[],
): readonly JobNews[] {
  const byJob = new Map<string, LabEvent[]>();
  for (const event of events) {
    // Put back at the end, so that the job with the newest word is the last.
    const before = byJob.get(event.job) ?? [];
    byJob.delete(event.job);
    byJob.set(event.job, [...before, event]);
  }
  return [...byJob].flatMap(([id, own]): readonly JobNews[] => {
    const job = jobs.find((one) => one.job === id);
    if (job === undefined) return [];
    const numbers = new Map(
      windows.filter(({ window }) => window.job === id).map(({ window }) => [window.attempt, window.window]),
    );
    const lines = linesOf(
      own.map(({ event }) => event),
      job,
      numbers,
    );
    return lines.length === 0 ? [] : [{ job, windows: [...numbers.values()], lines }];
  });
}

function linesOf(events: readonly Event[], job: LabJob, windows: ReadonlyMap<number, number>): readonly NewsLine[] {
  const lines: NewsLine[] = [];
  /** How often the cloud has said no in a row: a wait of a night is one line. */
  let refusals = 0;
  let firstRefusal = 0;
  for (const event of events) {
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

/** Null for what is no news: looks, setup, and what the next line says again. */
function newsIn(
  event: Exclude<Event, { readonly kind: 'allocation_refused' }>,
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
      return detail === '' ? reasonWords[event.reason] : `${reasonWords[event.reason]}: ${detail}`;
    }
    case 'allocation_released':
      return `its TPU is made anew: ${sentencePart(event.why)}`;
    case 'step_failed':
      return `setup step ${event.step} failed on worker ${event.worker}: ${sentencePart(event.detail)}`;
    case 'settled':
      return event.verdict === 'succeeded' ? 'finished' : event.verdict === 'cancelled' ? 'killed' : event.verdict;
    case 'removed':
      return 'was deleted';
    case 'attempt_ended':
    case 'attempt_moved':
    case 'attempt_running':
    case 'allocation_requested':
    case 'allocation_seen':
    case 'allocation_gone':
    case 'place_passed_over':
    case 'place_skipped':
    case 'step_by_hand':
    case 'rule_applied':
    case 'silent':
    case 'answering':
    case 'exit_seen':
    case 'clock_set_back':
      return null;
  }
}

function askedText({ verb, by }: Extract<Event, { readonly kind: 'asked' }>, job: LabJob): string | null {
  if (verb === 'last') return 'its window was closed: no rule brings it back';
  // What one's own word came to is told by the next line.
  if (by === job.user) return null;
  return verb === 'cancel' || verb === 'stop' || verb === 'delete' ? `${by} ended it` : `${by} said ${verb}`;
}

function ordinal(count: number): string {
  const rest = count % 100;
  const ending = rest >= 11 && rest <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th');
  return `${count}${ending}`;
}

/** How a moment is written for somebody in that zone (a setting): `21 Nov 02:10`. */
export function clockOf(zone: string): (at: Instant) => string {
  const timeOf = localTimes(zone);
  return (at) => {
    const { day, month, time } = timeOf(at);
    return `${String(day).padStart(2, '0')} ${month} ${time.slice(0, 5)}`;
  };
}
