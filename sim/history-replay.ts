// History replay: computes the state of a job from its events alone. Invariant 9 compares it with the job: otherwise
// `history` and `events.jsonl` would be worth nothing.

import type { Event } from '../src/core/model/event.ts';
import { correctBackoff, correctTime } from '../src/core/decide/clock.ts';
import type { Allocation, AllocationFields, Attempt, ExitSeen, Job, TriedAlternative } from '../src/core/model/job.ts';
import { foldLateTpu, foldRecreated, foldSlices, slicesIn } from '../src/core/model/ready-periods.ts';
import type { LateTpu, ReadyPeriod, SliceState } from '../src/core/model/ready-periods.ts';
import type { CapacitySpec } from '../src/core/model/spec.ts';
import { omitUndefined } from '../src/core/model/omit-undefined.ts';
import type { Instant } from '../src/core/model/time.ts';

/** The fields of a job that its events must reproduce. */
export interface HistoryState {
  readonly desired: Job['desired'];
  readonly cancelRequested: boolean;
  readonly workdirCopy: number | undefined;
  readonly workdirTree: Job['workdirTree'];
  readonly budgetUsd: number | undefined;
  readonly recoveryDisabled: true | undefined;
  readonly budgetWarning: Job['budgetWarning'];
  readonly ownerBudgetWarnings: Job['ownerBudgetWarnings'];
  readonly attempts: readonly object[];
  readonly allocations: readonly object[];
  readonly finish: Job['finish'];
  readonly removed: boolean;
}

type UntypedRecord = Record<string, unknown>;

/** The times from which the attempt's backoff counts. */
type Backoff = Pick<Attempt, 'createdAt' | 'movedAt' | 'notBeforeAt'>;

/** Computes the state of a job with that capacity from its history, oldest event first. */
function replay(events: readonly Event[], { ownership }: CapacitySpec): HistoryState {
  const attempts: UntypedRecord[] = [];
  const allocations: UntypedRecord[] = [];
  let desired: Job['desired'] = 'running';
  let cancelRequested = false;
  let given: Pick<Job, 'workdirCopy' | 'workdirTree' | 'budgetUsd'> = {};
  let recoveryDisabled: true | undefined;
  let budgetWarning: Job['budgetWarning'];
  let ownerBudgetWarnings: Job['ownerBudgetWarnings'];
  let finish: Job['finish'] = null;
  let removed = false;
  const allocation = (ordinal: number): UntypedRecord => allocationIn(allocations, ordinal);
  const attempt = (ordinal: number): UntypedRecord => attempts[ordinal - 1] ?? {};
  for (const event of events) {
    switch (event.kind) {
      case 'command_received':
        ({ desired } = event);
        given = { ...given, ...optionsOf(event) };
        if (event.verb === 'disable-recovery') recoveryDisabled = true;
        else if (event.verb === 'accept-exit') Object.assign(attempt(attempts.length), { exitAcceptedAt: event.at });
        else if (event.desired === 'running') {
          recoveryDisabled = undefined;
          budgetWarning = undefined;
          ownerBudgetWarnings = undefined;
          finish = null;
          cancelRequested = false;
        } else if (event.verb !== 'stop') cancelRequested = true;
        break;
      case 'attempt_created':
        allocation(event.allocation);
        attempts.push(createdAttempt(event));
        break;
      case 'attempt_moved':
        // The same allocation in another alternative: it was refused, and is not requested yet.
        if (attempt(event.attempt)['allocation'] === event.allocation) {
          const one = allocation(event.allocation);
          if (one['requestedAt'] !== null) one['waitingSince'] ??= one['requestedAt'];
          Object.assign(one, { requestedAt: null, alternative: undefined });
        }
        allocation(event.allocation);
        Object.assign(attempt(event.attempt), {
          allocation: event.allocation,
          notBeforeAt: event.notBeforeAt,
          movedAt: event.at,
        });
        break;
      case 'clock_set_back': {
        const begun = correctTimes(attempts, allocations, ownership, event.at);
        finish = correctFinishTime(finish, event.at, begun);
        break;
      }
      case 'alternative_exhausted': {
        const { alternative, answer, at } = event;
        const open = attempt(attempts.length);
        const tried = (open['alternativesTried'] ?? []) as readonly TriedAlternative[];
        const before = tried.find((one) => one.alternative === alternative);
        const failedRequests = (before?.failedRequests ?? 0) + 1;
        open['alternativesTried'] = [
          ...tried.filter((one) => one !== before),
          { alternative, failedRequests, answer, at },
        ];
        break;
      }
      case 'attempt_started':
      case 'attempt_running':
      case 'attempt_resumed':
      case 'exit_seen':
      case 'attempt_ending':
      case 'attempt_ended':
        replayAttempt(attempt(event.attempt), event);
        break;
      case 'budget_warning':
        if (event.ownerBudget === undefined) budgetWarning = { spentUsd: event.spentUsd, budgetUsd: event.budgetUsd };
        else
          ownerBudgetWarnings = [
            ...(ownerBudgetWarnings ?? []).filter(({ endsAt }) => endsAt > event.at),
            event.ownerBudget,
          ];
        break;
      case 'finished':
        finish = { at: event.at, verdict: event.verdict, reason: event.reason };
        break;
      case 'removed':
        removed = true;
        break;
      case 'allocation_requested':
      case 'allocation_seen':
      case 'allocation_released':
      case 'allocation_gone':
      case 'orphan_seen':
        replayAllocation(allocation(event.allocation), event);
        break;
      case 'created':
      case 'allocation_refused':
      case 'alternative_skipped':
      case 'step_failed':
      case 'step_run_manually':
      case 'rule_applied':
      case 'unreachable':
      case 'reachable':
        break;
    }
  }
  return {
    desired,
    cancelRequested,
    workdirCopy: given.workdirCopy,
    workdirTree: given.workdirTree,
    budgetUsd: given.budgetUsd,
    recoveryDisabled,
    budgetWarning,
    ownerBudgetWarnings,
    attempts,
    allocations,
    finish,
    removed,
  };
}

function optionsOf({ workdirCopy, workdirTree, budgetUsd }: Extract<Event, { readonly kind: 'command_received' }>) {
  return omitUndefined({ workdirCopy, workdirTree, budgetUsd });
}

/** That allocation; those before it are created too, because no event about them came yet. */
function allocationIn(allocations: UntypedRecord[], ordinal: number): UntypedRecord {
  while (allocations.length < ordinal) {
    const next = allocations.length + 1;
    allocations.push({
      ordinal: next,
      requestedAt: null,
      lastObserved: null,
      readyAt: null,
      readyPeriods: [],
      lateTpus: [],
      releasedAt: null,
      goneAt: null,
    });
  }
  return allocations[ordinal - 1] ?? {};
}

type AttemptEvent = Extract<
  Event,
  { readonly kind: `attempt_${'started' | 'running' | 'resumed' | 'ending' | 'ended'}` | 'exit_seen' }
>;

function replayAttempt(one: UntypedRecord, event: AttemptEvent): void {
  switch (event.kind) {
    case 'attempt_started':
      one['startedAt'] = event.at;
      break;
    case 'attempt_running':
      one['runningAt'] = event.at;
      break;
    case 'attempt_resumed':
      one['resumedFrom'] = { entry: event.entry, savedAt: event.savedAt };
      break;
    case 'exit_seen': {
      const { kind: _kind, attempt: _attempt, ...seen } = event;
      one['exitSeen'] = seen;
      break;
    }
    case 'attempt_ending':
      one['ending'] = {
        reason: event.reason,
        evidence: event.evidence,
        startedAt: event.programEndedAt ?? event.at,
      };
      break;
    case 'attempt_ended':
      one['endedAt'] = event.endedAt ?? event.at;
      one['exits'] = event.exits;
      break;
  }
}

type AllocationEvent = Extract<
  Event,
  { readonly kind: `allocation_${'requested' | 'seen' | 'released' | 'gone'}` | 'orphan_seen' }
>;

function replayAllocation(one: UntypedRecord, event: AllocationEvent): void {
  switch (event.kind) {
    case 'allocation_requested':
      Object.assign(one, { requestedAt: event.at, alternative: event.alternative });
      break;
    case 'allocation_seen':
      one['lastObserved'] = { state: event.state, detail: event.message, at: event.at };
      // A released allocation never becomes ready.
      if (event.state === 'ready' && one['releasedAt'] === null) one['readyAt'] ??= event.at;
      foldReady(one, event.slices ?? slicesIn(event.state), event.missedAt ?? event.at);
      if ((event.slices ?? slicesIn(event.state)).includes('ready'))
        foldLate(one, (one['alternative'] as number | undefined) ?? 0, [], event.at);
      break;
    case 'allocation_released':
      one['releasedAt'] = event.at;
      break;
    case 'allocation_gone':
      one['goneAt'] = event.at;
      foldReady(one, [], event.missedAt ?? event.at);
      break;
    case 'orphan_seen':
      if (event.alternative === undefined)
        foldReady(one, event.slices, event.at, one['goneAt'] === null ? foldSlices : foldRecreated);
      else foldLate(one, event.alternative, event.slices, event.at);
      break;
  }
}

function foldReady(
  allocation: UntypedRecord,
  slices: readonly SliceState[],
  at: Instant,
  fold: typeof foldSlices = foldSlices,
): void {
  allocation['readyPeriods'] = fold(allocation['readyPeriods'] as readonly ReadyPeriod[], slices, at);
}

function foldLate(allocation: UntypedRecord, alternative: number, slices: readonly SliceState[], at: Instant): void {
  allocation['lateTpus'] = foldLateTpu(allocation['lateTpus'] as readonly LateTpu[], alternative, slices, at);
}

function createdAttempt(event: Extract<Event, { readonly kind: 'attempt_created' }>): UntypedRecord {
  const { kind: _kind, at, attempt: ordinal, ...attempt } = event;
  return { ...attempt, ordinal, createdAt: at, startedAt: null, runningAt: null, ending: null, endedAt: null };
}

/** Returns the former time of the creation of the open attempt, if there is one. */
function correctTimes(
  attempts: readonly UntypedRecord[],
  allocations: readonly UntypedRecord[],
  ownership: CapacitySpec['ownership'],
  now: Instant,
): Instant | undefined {
  const open = attempts.find(({ endedAt }) => endedAt === null);
  const begun = open?.['createdAt'] as Instant | undefined;
  const kept = allocations.filter(({ goneAt }) => ownership === 'ephemeral' && goneAt === null);
  for (const one of attempts)
    if (one === open || kept.some(({ ordinal }) => ordinal === one['allocation'])) correctAttemptTimes(one, now, begun);
  for (const one of allocations) correctAllocationTimes(one, now, begun);
  return begun;
}

/** `begun` is the former time of the creation of the open attempt. */
function correctAttemptTimes(attempt: UntypedRecord, now: Instant, begun: Instant | undefined): void {
  const { createdAt, movedAt, notBeforeAt } = attempt as unknown as Backoff;
  attempt['notBeforeAt'] = correctBackoff({ createdAt, notBeforeAt, ...(movedAt !== undefined && { movedAt }) }, now);
  correctFields(attempt, ['createdAt', 'movedAt', 'startedAt', 'runningAt', 'endedAt'], now, begun);
  correctFields(attempt['ending'], ['startedAt'], now, begun);
  const { alternativesTried } = attempt;
  if (Array.isArray(alternativesTried)) for (const one of alternativesTried) correctFields(one, ['at'], now, begun);
}

function correctAllocationTimes(allocation: UntypedRecord, now: Instant, attemptStart: Instant | undefined): void {
  correctFields(allocation, ['requestedAt', 'waitingSince'], now, attemptStart);
  if (allocation['goneAt'] !== null) return;
  correctFields(allocation, ['readyAt', 'releasedAt'], now, attemptStart);
  correctFields(allocation['lastObserved'], ['at'], now, attemptStart);
  allocation['readyPeriods'] = (allocation['readyPeriods'] as readonly ReadyPeriod[]).map((one) => {
    const period = { ...one };
    correctFields(period, ['from', 'until'], now, attemptStart);
    return period;
  });
}

function correctFinishTime(finish: Job['finish'], now: Instant, attemptStart: Instant | undefined): Job['finish'] {
  return finish === null ? null : { ...finish, at: correctTime(finish.at, now, attemptStart) };
}

function correctFields(part: unknown, keys: readonly string[], now: Instant, attemptStart: Instant | undefined): void {
  if (typeof part !== 'object' || part === null) return;
  const loose = part as UntypedRecord;
  for (const key of keys) {
    const time = loose[key];
    if (typeof time === 'number') loose[key] = correctTime(time, now, attemptStart);
  }
}

export function recordedState(job: Job): HistoryState {
  return {
    desired: job.desired,
    cancelRequested: job.cancelRequested,
    workdirCopy: job.workdirCopy,
    workdirTree: job.workdirTree,
    budgetUsd: job.budgetUsd,
    recoveryDisabled: job.recoveryDisabled,
    budgetWarning: job.budgetWarning,
    ownerBudgetWarnings: job.ownerBudgetWarnings,
    attempts: job.attempts.map(({ failures: _failures, ending, alternativesTried, exitSeen, ...rest }) => ({
      ...rest,
      exitSeen: exitSeen === undefined ? undefined : withoutPattern(exitSeen),
      alternativesTried: alternativesTried?.map(({ error: _error, ...one }) => one),
      ending:
        ending === null ? null : { reason: ending.reason, evidence: ending.evidence, startedAt: ending.startedAt },
    })),
    allocations: job.allocations.map(
      ({
        ordinal,
        requestedAt,
        waitingSince,
        alternative,
        lastObserved,
        readyAt,
        readyPeriods,
        lateTpus,
        releasedAt,
        goneAt,
      }) => ({
        ordinal,
        requestedAt,
        waitingSince,
        // A planned allocation may still change its alternative.
        alternative: requestedAt === null ? undefined : alternative,
        lastObserved,
        readyAt,
        readyPeriods: readyPeriods ?? [],
        lateTpus: lateTpus ?? [],
        releasedAt,
        goneAt,
      }),
    ),
    finish: job.finish,
    removed: job.removed,
  };
}

/** The pattern is for people and is in no event. */
function withoutPattern({ pattern: _pattern, ...seen }: ExitSeen): Omit<ExitSeen, 'pattern'> {
  return seen;
}

/** Invariant 9: the events and the job agree, and each allocation fits its lifecycle. */
export function historyMismatches(events: readonly Event[], job: Job): readonly string[] {
  const replayed = canonical(replay(events, job.spec.capacity));
  const recorded = canonical(recordedState(job));
  const differs =
    replayed === recorded ? [] : [`9 events reproduce the state: the events give ${replayed}, the job has ${recorded}`];
  return [...differs, ...job.allocations.flatMap(lifecycleMismatches)];
}

/** The fields that must be null and those that must not, for each lifecycle of an allocation. */
const fieldsOf: Readonly<Record<Allocation['lifecycle'], readonly [unset: readonly Field[], set: readonly Field[]]>> = {
  planned: [['requestedAt', 'confirmedAt', 'readyAt', 'workers', 'hosts', 'firstMissedAt', 'releasedAt', 'goneAt'], []],
  requested: [['confirmedAt', 'readyAt', 'workers', 'hosts', 'releasedAt', 'goneAt'], ['requestedAt']],
  confirmed: [
    ['readyAt', 'workers', 'hosts', 'releasedAt', 'goneAt'],
    ['requestedAt', 'confirmedAt'],
  ],
  ready: [
    ['releasedAt', 'goneAt'],
    ['requestedAt', 'confirmedAt', 'readyAt', 'workers'],
  ],
  lost: [
    ['releasedAt', 'goneAt'],
    ['requestedAt', 'lastObserved'],
  ],
  releasing: [['unreachableAt', 'unreachableWho', 'goneAt'], ['releasedAt']],
  gone: [['unreachableAt', 'unreachableWho', 'firstMissedAt'], ['goneAt']],
};

type Field = Exclude<keyof AllocationFields, 'ordinal' | 'ownership' | 'name'>;

function lifecycleMismatches(allocation: Allocation): readonly string[] {
  const [unset, set] = fieldsOf[allocation.lifecycle];
  const wrong = [...unset.filter((key) => allocation[key] !== null), ...set.filter((key) => allocation[key] === null)];
  return wrong.map(
    (key) => `9 allocation ${allocation.ordinal} is ${allocation.lifecycle}, but its ${key} does not fit`,
  );
}

/** JSON with sorted keys, so that equal values give equal texts. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const entries = Object.entries(value).filter(([, part]) => part !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, part]) => `${JSON.stringify(key)}:${canonical(part)}`).join(',')}}`;
}
