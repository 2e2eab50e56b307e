// History: the state of a job as its events alone tell it. The record is what is used; that both agree is the ninth law,
// and what makes `history` and `events.jsonl` worth keeping.

import type { Event } from '../src/core/decision.ts';
import { rightBackoff, rightMoment } from '../src/core/fold.ts';
import type { Allocation, AllocationFields, Attempt, ExitSeen, Job } from '../src/core/job.ts';
import type { Instant } from '../src/core/time.ts';

/** The parts of a job's record that must be tellable from its events. */
export interface Tale {
  readonly desired: Job['desired'];
  readonly cancelled: boolean;
  readonly copy: number | undefined;
  readonly answersNothing: true | undefined;
  readonly attempts: readonly object[];
  readonly allocations: readonly object[];
  readonly settled: Job['settled'];
  readonly removed: boolean;
}

type Loose = Record<string, unknown>;

/** Of an attempt: the moments that its backoff is counted by. */
type Backoff = Pick<Attempt, 'createdAt' | 'movedAt' | 'notBefore'>;

/** Tells the state of a job from its history, oldest event first. */
function tell(events: readonly Event[]): Tale {
  const attempts: Loose[] = [];
  const allocations: Loose[] = [];
  let desired: Job['desired'] = 'run';
  let cancelled = false;
  let copy: number | undefined;
  let answersNothing: true | undefined;
  let settled: Job['settled'] = null;
  let removed = false;
  const allocation = (ordinal: number): Loose => grown(allocations, ordinal);
  const attempt = (ordinal: number): Loose => attempts[ordinal - 1] ?? {};
  for (const event of events) {
    switch (event.kind) {
      case 'asked':
        ({ desired } = event);
        copy = event.copy ?? copy;
        if (event.verb === 'last') answersNothing = true;
        else if (event.verb === 'judge') Object.assign(attempt(attempts.length), { judgeAt: event.at });
        else if (event.desired === 'run') {
          answersNothing = undefined;
          settled = null;
          cancelled = false;
        } else if (event.verb !== 'stop') cancelled = true;
        break;
      case 'attempt_created':
        allocation(event.allocation);
        attempts.push(createdAttempt(event));
        break;
      case 'attempt_moved':
        // The same one in another place: it was refused where it was asked for, and is asked for nowhere now.
        if (attempt(event.attempt)['allocation'] === event.allocation)
          Object.assign(allocation(event.allocation), { requestedAt: null, place: undefined });
        allocation(event.allocation);
        Object.assign(attempt(event.attempt), {
          allocation: event.allocation,
          notBefore: event.notBefore,
          movedAt: event.at,
        });
        break;
      case 'clock_set_back': {
        const begun = rightAttempt(attempts.at(-1), event.at);
        for (const one of allocations) rightAllocation(one, event.at, begun);
        settled = rightEnd(settled, event.at, begun);
        break;
      }
      case 'allocation_requested':
        Object.assign(allocation(event.allocation), { requestedAt: event.at, place: event.place });
        break;
      case 'allocation_seen': {
        const one = allocation(event.allocation);
        one['seen'] = { state: event.state, detail: event.detail, at: event.at };
        // Ready for use is what can be used: what was let go before never is.
        if (event.state === 'ready' && one['releasedAt'] === null) one['readyAt'] ??= event.at;
        break;
      }
      case 'allocation_released':
        allocation(event.allocation)['releasedAt'] = event.at;
        break;
      case 'allocation_gone':
        allocation(event.allocation)['goneAt'] = event.at;
        break;
      case 'place_passed_over': {
        const { place, answer, at } = event;
        const open = attempt(attempts.length);
        const passed = (open['placesPassed'] ?? []) as readonly { readonly place: number; readonly asks: number }[];
        const asks = (passed.find((one) => one.place === place)?.asks ?? 0) + 1;
        open['placesPassed'] = [...passed.filter((one) => one.place !== place), { place, asks, answer, at }];
        break;
      }
      case 'attempt_started':
        attempt(event.attempt)['startedAt'] = event.at;
        break;
      case 'attempt_running':
        attempt(event.attempt)['runningAt'] = event.at;
        break;
      case 'exit_seen': {
        const { kind: _kind, attempt: ordinal, ...seen } = event;
        attempt(ordinal)['exitSeen'] = seen;
        break;
      }
      case 'attempt_ending':
        attempt(event.attempt)['ending'] = {
          reason: event.reason,
          evidence: event.evidence,
          since: event.since ?? event.at,
        };
        break;
      case 'attempt_ended':
        attempt(event.attempt)['endedAt'] = event.endedAt ?? event.at;
        attempt(event.attempt)['exits'] = event.exits;
        break;
      case 'settled':
        settled = { at: event.at, verdict: event.verdict, reason: event.reason };
        break;
      case 'removed':
        removed = true;
        break;
      case 'created':
      case 'allocation_refused':
      case 'place_skipped':
      case 'step_failed':
      case 'step_by_hand':
      case 'rule_applied':
      case 'silent':
      case 'answering':
        break;
    }
  }
  return { desired, cancelled, copy, answersNothing, attempts, allocations, settled, removed };
}

/** The allocation of that number; those before it are there too, since nothing was told of them yet. */
function grown(allocations: Loose[], ordinal: number): Loose {
  while (allocations.length < ordinal) {
    const next = allocations.length + 1;
    allocations.push({ ordinal: next, requestedAt: null, seen: null, readyAt: null, releasedAt: null, goneAt: null });
  }
  return allocations[ordinal - 1] ?? {};
}

function createdAttempt(event: Extract<Event, { readonly kind: 'attempt_created' }>): Loose {
  const { kind: _kind, at, attempt: ordinal, ...attempt } = event;
  return { ...attempt, ordinal, createdAt: at, startedAt: null, runningAt: null, ending: null, endedAt: null };
}

/** Sets the times of the open attempt right, if there is one; the time at which it had begun, before. */
function rightAttempt(attempt: Loose | undefined, now: Instant): Instant | undefined {
  if (attempt?.['endedAt'] !== null) return undefined;
  const { createdAt, movedAt, notBefore } = attempt as unknown as Backoff;
  attempt['notBefore'] = rightBackoff({ createdAt, notBefore, ...(movedAt !== undefined && { movedAt }) }, now);
  rightParts(attempt, ['createdAt', 'movedAt', 'startedAt', 'runningAt'], now, createdAt);
  rightParts(attempt['ending'], ['since'], now, createdAt);
  const { placesPassed } = attempt;
  if (Array.isArray(placesPassed)) for (const one of placesPassed) rightParts(one, ['at'], now, createdAt);
  return createdAt;
}

function rightAllocation(allocation: Loose, now: Instant, begun: Instant | undefined): void {
  rightParts(allocation, ['requestedAt'], now, begun);
  if (allocation['goneAt'] !== null) return;
  rightParts(allocation, ['readyAt', 'releasedAt'], now, begun);
  rightParts(allocation['seen'], ['at'], now, begun);
}

function rightEnd(settled: Job['settled'], now: Instant, begun: Instant | undefined): Job['settled'] {
  return settled === null ? null : { ...settled, at: rightMoment(settled.at, now, begun) };
}

function rightParts(part: unknown, keys: readonly string[], now: Instant, begun: Instant | undefined): void {
  if (typeof part !== 'object' || part === null) return;
  const loose = part as Loose;
  for (const key of keys) {
    const moment = loose[key];
    if (typeof moment === 'number') loose[key] = rightMoment(moment, now, begun);
  }
}

export function taleOf(job: Job): Tale {
  return {
    desired: job.desired,
    cancelled: job.cancelled,
    copy: job.copy,
    answersNothing: job.answersNothing,
    attempts: job.attempts.map(({ failures: _failures, ending, placesPassed, exitSeen, ...rest }) => ({
      ...rest,
      exitSeen: exitSeen === undefined ? undefined : withoutPattern(exitSeen),
      placesPassed: placesPassed?.map(({ error: _error, ...one }) => one),
      ending: ending === null ? null : { reason: ending.reason, evidence: ending.evidence, since: ending.since },
    })),
    allocations: job.allocations.map(({ ordinal, requestedAt, place, seen, readyAt, releasedAt, goneAt }) => ({
      ordinal,
      requestedAt,
      // Where something is not asked for yet, its place may still be another.
      place: requestedAt === null ? undefined : place,
      seen,
      readyAt,
      releasedAt,
      goneAt,
    })),
    settled: job.settled,
    removed: job.removed,
  };
}

/** The pattern is for people: no line of history tells it. */
function withoutPattern({ pattern: _pattern, ...seen }: ExitSeen): Omit<ExitSeen, 'pattern'> {
  return seen;
}

/** The ninth law: what history says and what the record says are the same. Also, each allocation fits its life. */
export function historyTellsTheState(events: readonly Event[], job: Job): readonly string[] {
  const told = canonical(tell(events));
  const kept = canonical(taleOf(job));
  const differs = told === kept ? [] : [`9 history tells the state: history says ${told}, the record ${kept}`];
  return [...differs, ...job.allocations.flatMap(misfits)];
}

/** The fields that are null, and those that are not, in each part of an allocation's life, as its type says. */
const fieldsOf: Readonly<Record<Allocation['life'], readonly [unset: readonly Field[], set: readonly Field[]]>> = {
  planned: [['requestedAt', 'acceptedAt', 'readyAt', 'workers', 'hosts', 'missedAt', 'releasedAt', 'goneAt'], []],
  requested: [['acceptedAt', 'readyAt', 'workers', 'hosts', 'releasedAt', 'goneAt'], ['requestedAt']],
  accepted: [
    ['readyAt', 'workers', 'hosts', 'releasedAt', 'goneAt'],
    ['requestedAt', 'acceptedAt'],
  ],
  ready: [
    ['releasedAt', 'goneAt'],
    ['requestedAt', 'acceptedAt', 'readyAt', 'workers'],
  ],
  lost: [
    ['releasedAt', 'goneAt'],
    ['requestedAt', 'seen'],
  ],
  releasing: [['silentSince', 'silentWho', 'goneAt'], ['releasedAt']],
  gone: [['silentSince', 'silentWho', 'missedAt'], ['goneAt']],
};

type Field = Exclude<keyof AllocationFields, 'ordinal' | 'ownership' | 'name'>;

function misfits(allocation: Allocation): readonly string[] {
  const [unset, set] = fieldsOf[allocation.life];
  const wrong = [...unset.filter((key) => allocation[key] !== null), ...set.filter((key) => allocation[key] === null)];
  return wrong.map((key) => `9 allocation ${allocation.ordinal} is ${allocation.life}, and its ${key} is not as there`);
}

/** JSON with the keys of every object in order, so that equal values give equal texts. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const entries = Object.entries(value).filter(([, part]) => part !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, part]) => `${JSON.stringify(key)}:${canonical(part)}`).join(',')}}`;
}
