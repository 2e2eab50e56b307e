// Pass invariants: conditions that hold in every pass, as named predicates. Tables, enumerations, random walks and the
// simulator use them. They compute from the job and the observation what `reconcile` must not do, and share no code
// with it, because a mistake in shared code would hide itself. The simulator checks whether the outside agrees with the
// database.

import { budgetsOf, usedBudgetOf } from '../src/core/decide/spending.ts';
import type { Action, Decision } from '../src/core/model/decision.ts';
import { commandWorkers, heldAllocations, stepsOf } from '../src/core/model/job.ts';
import type { Allocation, Attempt, Job, TriedAlternative } from '../src/core/model/job.ts';
import { ruleOf } from '../src/core/decide/recover.ts';
import type { AllocationStatus, Observation, WorkerStatus } from '../src/core/model/observation.ts';
import { releasingAllocations } from '../src/core/decide/allocate.ts';
import { reconcile } from '../src/core/decide/reconcile.ts';
import { operationOf } from '../src/core/model/spec.ts';
import type { Reason, WorkerId } from '../src/core/model/spec.ts';
import { minute, second } from '../src/core/model/time.ts';
import type { Instant } from '../src/core/model/time.ts';

export interface Pass {
  readonly before: Job;
  readonly observation: Observation;
  readonly now: Instant;
  readonly decision: Decision;
}

export interface PassInvariant {
  /** Its number in sim/invariants/context.ts. */
  readonly number: number;
  readonly name: string;
  readonly check: (pass: Pass) => readonly string[];
}

/** The invariants that one pass can break. Invariant 9 needs the whole history: see history-replay.ts. */
export const passInvariants: readonly PassInvariant[] = [
  { number: 1, name: 'unknown is not absent', check: unknownIsNotAbsent },
  { number: 2, name: 'commit before act', check: commitBeforeAct },
  { number: 3, name: 'only our own resources', check: onlyWhatIsOurs },
  { number: 4, name: 'one command at a time', check: oneCommandAtATime },
  { number: 5, name: 'setup before start', check: setupBeforeStart },
  { number: 6, name: 'finished jobs hold nothing', check: finishedMeansEmpty },
  { number: 7, name: 'bounded', check: bounded },
  { number: 8, name: 'quiet at rest', check: quietAtRest },
  { number: 10, name: 'convergence', check: neverForgotten },
  { number: 12, name: 'alternatives in order', check: alternativesInTurn },
];

/** Every invariant that the pass breaks, as `4 one command at a time: …`. */
export function violationsOf(pass: Pass): readonly string[] {
  return passInvariants.flatMap(({ number, name, check }) =>
    check(pass).map((message) => `${number} ${name}: ${message}`),
  );
}

// ------------------------------------------------------------------------------------------ observations

function allocationStatus(observation: Observation, ordinal: number): AllocationStatus | undefined {
  const observed = observation.allocations.find(({ allocation }) => allocation === ordinal)?.observed;
  return observed?.kind === 'known' ? observed.value : undefined;
}

function workerStatus(observation: Observation, ordinal: number, worker: WorkerId): WorkerStatus | undefined {
  const observed = observation.workers.find(
    (one) => one.worker === worker && (worker === 'controller' || one.allocation === ordinal),
  )?.observed;
  return observed?.kind === 'known' ? observed.value : undefined;
}

function newEndings({ before, decision }: Pass): readonly Attempt[] {
  return decision.job.attempts.filter(
    (one) => one.ending !== null && !(before.attempts[one.ordinal - 1]?.ending ?? null),
  );
}

function newlyEnded({ before, decision }: Pass): readonly Attempt[] {
  return decision.job.attempts.filter(
    (one) => one.endedAt !== null && (before.attempts[one.ordinal - 1]?.endedAt ?? null) === null,
  );
}

function allocationIn(job: Job, ordinal: number): Allocation | undefined {
  return job.allocations[ordinal - 1];
}

// ------------------------------------------------------------------------------------------ 1

/** Reasons that need no observation: the owner's command, time limits, and outcomes. */
const reasonsWithoutObservation: readonly Reason[] = [
  'stopped',
  'timed_out',
  'budget',
  'allocation_failed',
  'setup_failed',
];

function unknownIsNotAbsent(pass: Pass): readonly string[] {
  const { before, observation, decision, now } = pass;
  const found: string[] = [];
  for (const { ordinal, ending, allocation, startedAt } of newEndings(pass)) {
    const reason = ending?.reason ?? 'stopped';
    if (reason === 'budget' && usedBudgetOf(budgetsOf(before, observation.ownerSpending, now)) === undefined)
      found.push(`attempt ${ordinal} ends for a budget that is not known to be used up`);
    if (reasonsWithoutObservation.includes(reason)) continue;
    const isSeen = allocationStatus(observation, allocation) !== undefined || goneBefore(before, allocation);
    const answering = observation.workers.filter(({ observed }) => observed.kind === 'known').length;
    if (!isSeen && answering === 0) found.push(`attempt ${ordinal} ends as ${reason} without an observation`);
    if (reason === 'preempted' && !isSeen) found.push(`attempt ${ordinal} is preempted, but the cloud did not answer`);
    const hasEvidence = wasSilentLongEnough(pass, allocation) || (startedAt !== null && hasLostRun(pass, ordinal));
    if (reason === 'unreachable' && !hasEvidence)
      found.push(`attempt ${ordinal} ends as unreachable before the grace is over`);
  }
  for (const action of decision.actions) {
    const isAbsent = 'allocation' in action && allocationStatus(observation, action.allocation)?.state === 'absent';
    if (action.kind === 'request' && !isAbsent && !isHiddenForGood(before, observation, action.allocation)) {
      found.push(`allocation ${action.allocation} is requested, but no observation shows it as absent`);
    }
  }
  for (const { ordinal, releasedAt } of decision.job.allocations) {
    const was = allocationIn(before, ordinal);
    if (releasedAt === null || was === undefined || was.releasedAt !== null) continue;
    const isAsked = before.desired === 'cancelled' || before.desired === 'deleted';
    const wasEnding = before.finish !== null || before.attempts.at(-1)?.ending !== null;
    const isSeen =
      observation.allocations.some(({ observed }) => observed.kind === 'known') ||
      observation.workers.some(({ observed }) => observed.kind === 'known');
    const isBlind = newEndings(pass).some(
      ({ ending }) => ending !== null && reasonsWithoutObservation.includes(ending.reason),
    );
    if (!isAsked && !wasEnding && !isSeen && !isBlind)
      found.push(`allocation ${ordinal} is released without an observation at ${now}`);
  }
  return found;
}

/** The cloud permanently refuses to show an allocation whose request it never accepted. */
function isHiddenForGood(before: Job, observation: Observation, ordinal: number): boolean {
  const fact = observation.allocations.find(({ allocation }) => allocation === ordinal)?.observed;
  const isRefused =
    fact?.kind === 'unknown' && ['permission', 'invalid', 'not_found'].includes(fact.refused ?? 'internal');
  const was = allocationIn(before, ordinal);
  return isRefused && was?.ownership === 'ephemeral' && was.confirmedAt === null && was.lastObserved === null;
}

function goneBefore(before: Job, ordinal: number): boolean {
  return (allocationIn(before, ordinal)?.goneAt ?? null) !== null;
}

/** True if, by the database, one worker has not answered for that whole time. */
function wasSilentLongEnough({ before, observation, now }: Pass, ordinal: number): boolean {
  const since = allocationIn(before, ordinal)?.unreachableAt ?? null;
  const silent = observation.workers.flatMap(({ allocation, worker, observed }) =>
    observed.kind === 'unknown' && (worker === 'controller' || allocation === ordinal) ? [observed.since] : [],
  );
  const grace = before.spec.recovery.unreachableGraceMs;
  return since !== null && now - since >= grace && silent.some((one) => now - one >= grace);
}

/** A worker that answers and has neither a live nor a cleanly ended run of it. */
function hasLostRun({ observation }: Pass, attempt: number): boolean {
  return observation.workers.some(({ observed }) => {
    if (observed.kind === 'unknown') return false;
    const run = observed.value.runs.find((one) => one.attempt === attempt);
    return run === undefined || run.state === 'vanished' || run.state === 'starting';
  });
}

// ------------------------------------------------------------------------------------------ 2

function commitBeforeAct({ decision: { job, actions } }: Pass): readonly string[] {
  return actions.flatMap((action) => {
    const allocation = allocationIn(job, action.allocation);
    if (allocation === undefined) return [`${describeAction(action)} acts on an unknown allocation`];
    const isKept = isRecorded(job, allocation, action);
    return isKept ? [] : [`${describeAction(action)} is requested without a commit`];
  });
}

function isRecorded(job: Job, allocation: Allocation, action: Action): boolean {
  switch (action.kind) {
    case 'request':
      return allocation.requestedAt !== null && allocation.releasedAt === null;
    case 'release':
      return allocation.releasedAt !== null && allocation.goneAt === null;
    case 'step': {
      const attempt = job.attempts[action.attempt - 1];
      return attempt !== undefined && attempt.ending === null && attempt.allocation === action.allocation;
    }
    case 'start': {
      const attempt = job.attempts[action.attempt - 1];
      return attempt !== undefined && attempt.startedAt !== null && attempt.ending === null;
    }
    case 'stop': {
      const attempt = job.attempts[action.attempt - 1];
      return attempt === undefined || (attempt.ending !== null && attempt.ending.stopRequestedAt !== null);
    }
  }
}

function describeAction(action: Action): string {
  switch (action.kind) {
    case 'request':
    case 'release':
      return `${action.kind} of allocation ${action.allocation}`;
    case 'step':
      return `step ${action.step} on worker ${action.worker} of allocation ${action.allocation}`;
    case 'start':
      return `start of attempt ${action.attempt} on worker ${action.worker}`;
    case 'stop':
      return `${action.signal} of attempt ${action.attempt} on worker ${action.worker}`;
  }
}

// ------------------------------------------------------------------------------------------ 3

function onlyWhatIsOurs({ before, observation, decision }: Pass): readonly string[] {
  const found: string[] = [];
  const newest = decision.job.allocations.length;
  for (const action of decision.actions) {
    if (action.kind === 'release' && allocationIn(decision.job, action.allocation)?.releasedAt === null) {
      found.push(`${describeAction(action)}, but it was not released`);
    }
    if (action.kind !== 'step' && action.kind !== 'start') continue;
    if (action.allocation !== newest) found.push(`${describeAction(action)}, but the newest allocation is ${newest}`);
    if (workerStatus(observation, action.allocation, action.worker) === undefined) {
      found.push(`${describeAction(action)}, but that worker was not observed`);
    }
  }
  for (const { ordinal, confirmedAt } of decision.job.allocations) {
    const was = allocationIn(before, ordinal)?.confirmedAt ?? null;
    if (confirmedAt === null || confirmedAt === was) continue;
    const hasReply = hasDone(observation, 'request', ordinal) || hasDone(observation, 'release', ordinal);
    const seen = allocationStatus(observation, ordinal);
    if (!hasReply && (seen === undefined || seen.state === 'absent')) {
      found.push(`allocation ${ordinal} counts as accepted by an outcome of another one`);
    }
  }
  for (const { ordinal, ownership, name, releasedAt } of decision.job.allocations) {
    const isNews = releasedAt !== null && (allocationIn(before, ordinal)?.releasedAt ?? null) === null;
    if (isNews && ownership === 'persistent' && !isReapplied(decision.job, ordinal))
      found.push(`the persistent ${name} is released without a rule`);
  }
  return found;
}

/**
 * True if an operation begins with the release, or if a rule wants a new allocation after the last end on it, or after an earlier one without a ready allocation
 * since.
 */
function isReapplied(job: Job, ordinal: number): boolean {
  const operation = operationOf(job.spec)?.kind ?? 'prepare';
  if (ordinal === 1 && operation !== 'prepare' && operation !== 'create') return true;
  // The TPU that it creates, or finds, may be lost before it is ready.
  if (operation !== 'prepare' && ['lost', 'releasing'].includes(allocationIn(job, ordinal)?.lastObserved?.state ?? ''))
    return true;
  const { rules } = job.spec.recovery;
  const endings = job.attempts.flatMap((one) =>
    one.allocation === ordinal && one.ending !== null ? [one.ending] : [],
  );
  const hasRule = endings.some(({ reason }) =>
    rules.some((rule) => rule.reason === reason && rule.answer.on === 'new'),
  );
  const isUnderWay = job.allocations.some((one) => one.ordinal < ordinal && one.releasedAt !== null);
  return hasRule || (isUnderWay && allocationIn(job, ordinal)?.readyAt === null);
}

// ------------------------------------------------------------------------------------------ 4

function oneCommandAtATime(pass: Pass): readonly string[] {
  const { before, observation, decision, now } = pass;
  const { job } = decision;
  const found: string[] = [];
  for (const action of decision.actions) {
    if (action.kind !== 'start') continue;
    const open = job.attempts.filter((one) => one.ordinal < action.attempt && one.endedAt === null);
    if (open.length > 0) found.push(`${describeAction(action)} while attempt ${open[0]?.ordinal} has not ended`);
    for (const { worker, observed } of observation.workers) {
      const other =
        observed.kind === 'known'
          ? observed.value.runs.find((run) => run.attempt !== action.attempt && isAliveState(run.state))
          : undefined;
      if (other !== undefined)
        found.push(`${describeAction(action)} while attempt ${other.attempt} is alive on worker ${worker}`);
    }
    const isFirst = before.attempts[action.attempt - 1]?.startedAt === null;
    const unseen = allWorkers(job, action.allocation).find(
      (worker) => workerStatus(observation, action.allocation, worker) === undefined,
    );
    if (isFirst && unseen !== undefined)
      found.push(`${describeAction(action)} although worker ${unseen} did not answer`);
  }
  for (const attempt of newlyEnded(pass)) {
    const worker = workersOfCommand(before, attempt).find((worker) => mayBeAlive(pass, attempt, worker, now));
    if (attempt.startedAt !== null && worker !== undefined) {
      found.push(`attempt ${attempt.ordinal} counts as ended, but worker ${worker} has not reported its end`);
    }
  }
  return found;
}

function isAliveState(state: string): boolean {
  return state === 'running' || state === 'starting';
}

function allWorkers(job: Job, ordinal: number): readonly WorkerId[] {
  const workers = Array.from({ length: allocationIn(job, ordinal)?.workers ?? 0 }, (_, index): WorkerId => index);
  return job.spec.command.runsOn === 'controller' ? [...workers, 'controller'] : workers;
}

function workersOfCommand(job: Job, attempt: Attempt): readonly WorkerId[] {
  return commandWorkers(job.spec.command, allocationIn(job, attempt.allocation)?.workers ?? 0);
}

function mayBeAlive(
  { before, observation, decision }: Pass,
  attempt: Attempt,
  worker: WorkerId,
  now: Instant,
): boolean {
  const allocation = allocationIn(decision.job, attempt.allocation);
  const isGone = (allocation?.goneAt ?? null) !== null;
  if (worker !== 'controller' && isGone) return false;
  const status = workerStatus(observation, attempt.allocation, worker);
  const run = status?.runs.find((one) => one.attempt === attempt.ordinal);
  if (run !== undefined && (run.state === 'exited' || run.state === 'vanished')) return false;
  const hasConfirmedStop = attempt.ending?.stopConfirmedBy.includes(worker) === true;
  if (status !== undefined && run === undefined) return !hasConfirmedStop;
  if (run?.state === 'starting') return !(hasConfirmedStop && Math.abs(now - run.since) > 2 * minute);
  if (run !== undefined) return true;
  if (worker !== 'controller' && isAbandoned(before, observation, attempt.allocation, now)) return false;
  // No observation will show a lost persistent allocation as deleted: after the grace its silent workers count as
  // ended.
  const state = allocation?.lastObserved?.state;
  const isTaken = allocation?.ownership === 'persistent' && (state === 'lost' || state === 'releasing');
  return !(
    isTaken &&
    worker !== 'controller' &&
    now - (allocation.lastObserved?.at ?? now) >= before.spec.recovery.unreachableGraceMs
  );
}

/** A persistent TPU that the cloud reports as ready, with a worker that has been silent for ten graces. Never a host. */
function isAbandoned(before: Job, observation: Observation, ordinal: number, now: Instant): boolean {
  if (before.spec.capacity.kind === 'hosts') return false;
  const allocation = allocationIn(before, ordinal);
  if (allocation?.ownership !== 'persistent' || allocation.unreachableWho !== 'worker') return false;
  if (allocationStatus(observation, ordinal)?.state !== 'ready') return false;
  return now >= (allocation.unreachableAt ?? now) + 10 * before.spec.recovery.unreachableGraceMs;
}

// ------------------------------------------------------------------------------------------ 5

function setupBeforeStart({ before, observation, decision }: Pass): readonly string[] {
  const found: string[] = [];
  for (const action of decision.actions) {
    if (action.kind !== 'start') continue;
    if (isCommandOnly(decision.job, action.attempt)) continue;
    for (const worker of allWorkers(decision.job, action.allocation)) {
      if (worker === 'controller') continue;
      const proofs = workerStatus(observation, action.allocation, worker)?.proofs ?? [];
      const missing = stepsOf(before).find(({ key }) => !proofs.includes(key));
      if (missing !== undefined)
        found.push(`${describeAction(action)} before ${missing.name} is proven on worker ${worker}`);
    }
  }
  return found;
}

/** The owner wanted no steps, on machines that were held ready at the time of the command. */
function isCommandOnly(job: Job, ordinal: number): boolean {
  const attempt = job.attempts[ordinal - 1];
  const readyAt = attempt === undefined ? null : (allocationIn(job, attempt.allocation)?.readyAt ?? null);
  return attempt?.commandOnly === true && attempt.startedByOwner && readyAt !== null && readyAt <= attempt.createdAt;
}

// ------------------------------------------------------------------------------------------ 6

function finishedMeansEmpty({ before, observation, decision, now }: Pass): readonly string[] {
  const found: string[] = [];
  for (const allocation of decision.job.allocations) {
    const was = allocationIn(before, allocation.ordinal);
    if (allocation.goneAt === null || was === undefined || was.goneAt !== null) continue;
    const fact = observation.allocations.find((one) => one.allocation === allocation.ordinal)?.observed;
    const state = fact?.kind === 'known' ? fact.value.state : undefined;
    // An allocation whose requests were all refused never existed.
    if (isRefusedOutright(observation, was)) continue;
    if (state !== 'absent' && state !== 'foreign')
      found.push(`allocation ${allocation.ordinal} counts as gone, but no observation missed it`);
    // After a release nothing new can appear, so the second observation may come sooner.
    const apart = was.releasedAt === null ? 10 * second : 3 * second;
    const isFirstMiss =
      was.firstMissedAt === null || fact?.kind !== 'known' || fact.observedAt - was.firstMissedAt < apart;
    if (isFirstMiss && state === 'absent')
      found.push(`allocation ${allocation.ordinal} counts as gone after one observation that missed it`);
    if (was.releasedAt !== null && was.confirmedAt === null && !hasDone(observation, 'release', allocation.ordinal)) {
      found.push(`allocation ${allocation.ordinal} counts as gone, but its release was not confirmed`);
    }
  }
  if (before.finish !== null && decision.job.finish !== null && !decision.job.removed) {
    for (const held of heldAllocations(decision.job)) {
      if (held.releasedAt === null && !mayKeep(decision.job, held, now))
        found.push(`the job has finished, but keeps ${held.name}`);
    }
  }
  if (decision.job.removed && !before.removed && heldAllocations(decision.job).length > 0) {
    found.push('the job leaves the list while it holds capacity');
  }
  return found;
}

/** Its newest request was refused, no request was ever unanswered or accepted, and it was never observed. */
function isRefusedOutright({ outcomes }: Observation, was: Allocation): boolean {
  if (was.ownership !== 'ephemeral' || !isUnseen(was)) return false;
  const replies = outcomes
    .filter(({ subject }) => subject.kind === 'request' && subject.allocation === was.ordinal)
    .map(({ result }) => result.kind);
  const isInDoubt = was.hasUnansweredRequest === true || replies.some((kind) => kind === 'done' || kind === 'unclear');
  return !isInDoubt && (replies.length > 0 || (was.isRequestInFlight !== true && was.lastError !== null));
}

/** No request was accepted, nothing was observed and nothing is released. */
function isUnseen({ confirmedAt, lastObserved, readyAt, releasedAt }: Allocation): boolean {
  return confirmedAt === null && lastObserved === null && readyAt === null && releasedAt === null;
}

function hasDone(observation: Observation, kind: 'request' | 'release', ordinal: number): boolean {
  return observation.outcomes.some(
    ({ subject, result }) => subject.kind === kind && subject.allocation === ordinal && result.kind === 'done',
  );
}

function mayKeep(job: Job, held: Allocation, now: Instant): boolean {
  if (job.desired === 'stopped') return held.readyAt !== null;
  const { capacity, keepForMs, holdOnFailureMs } = job.spec.finish;
  if (job.desired !== 'running' || job.finish === null) return false;
  const isHeld = job.finish.verdict === 'failed' && now < job.finish.at + (holdOnFailureMs ?? 0);
  return isHeld || (capacity === 'keep' && (keepForMs === null || now < job.finish.at + keepForMs));
}

// ------------------------------------------------------------------------------------------ 7

const failures: readonly Reason[] = ['command_failed', 'hung'];
const losses: readonly Reason[] = ['preempted', 'unreachable'];

function bounded(pass: Pass): readonly string[] {
  const { before, observation, decision, now } = pass;
  const { job } = decision;
  const isUnwanted =
    before.recoveryDisabled === true && before.startRequest === null && job.attempts.length > before.attempts.length;
  return [
    ...waitsForUnreachable(job, observation, now),
    ...budgetSpentOnUnreachable(pass),
    ...growsByRefusals(job),
    ...exceedsBudgets(job),
    ...(isUnwanted ? ['another attempt was created, but the owner disabled recovery'] : []),
    ...exceedsLimits(pass),
  ];
}

/** Every ended attempt except the last was followed by another one. */
function exceedsBudgets(job: Job): readonly string[] {
  const { recovery } = job.spec;
  const firstCounted = job.attempts.findLastIndex(
    (one) => one.startedByOwner || job.attempts[one.ordinal - 2]?.ending?.reason === 'succeeded',
  );
  const ended = job.attempts.slice(Math.max(0, firstCounted), -1).flatMap(({ ending, runningAt }) => {
    return ending === null ? [] : [{ reason: ending.reason, rule: ruleOf(recovery, ending), runningAt }];
  });
  const found: string[] = [];
  for (const rule of recovery.rules) {
    const answered = ended.filter((one) => one.rule === rule).length;
    if (rule.limit !== undefined && answered > rule.limit)
      found.push(`a rule that may answer ${rule.limit} ends answered ${answered}`);
  }
  let setupFailures = 0;
  for (const { reason, runningAt } of ended) {
    if (runningAt !== null || failures.includes(reason)) setupFailures = 0;
    else if (reason === 'setup_failed') setupFailures += 1;
    if (setupFailures > recovery.budget.setupFailures)
      found.push(`${setupFailures} failures of the setup in a row were followed by another attempt`);
  }
  const count = (reasons: readonly Reason[]): number =>
    ended.filter(({ reason, rule }) => reasons.includes(reason) && rule?.limit === undefined).length;
  if (count(failures) > recovery.budget.failures)
    found.push(`${count(failures)} failures were followed by another attempt`);
  if (count(losses) > recovery.budget.preemptions)
    found.push(`${count(losses)} losses were followed by another attempt`);
  return found;
}

/** A time limit is exceeded if a pass after it changes nothing. */
function exceedsLimits({ before, observation, decision: { job }, now }: Pass): readonly string[] {
  const attempt = job.attempts.at(-1);
  if (attempt === undefined || attempt.endedAt !== null || attempt.ending !== null || job.removed) return [];
  const { maxRuntimeMs, capacityWaitMs, setupTries } = job.spec.limits;
  const found: string[] = [];
  const { runningAt, startedByOwner, createdAt } = attempt;
  const isUnchanged = job === before;
  if (isUnchanged && maxRuntimeMs !== null && runningAt !== null && now > runningAt + maxRuntimeMs)
    found.push('the command runs beyond its limit');
  if (isUnchanged && usedBudgetOf(budgetsOf(job, observation.ownerSpending, now)) !== undefined)
    found.push('the job runs beyond a budget');
  const isWaiting = allocationIn(job, attempt.allocation)?.readyAt === null && startedByOwner;
  if (isUnchanged && isWaiting && capacityWaitMs !== null && now > createdAt + capacityWaitMs)
    found.push('the wait for capacity exceeds its limit');
  for (const { task, tries } of attempt.failures) {
    if (task.kind !== 'stop' && tries > setupTries) found.push(`${JSON.stringify(task)} was tried ${tries} times`);
  }
  return found;
}

/** Refusals add no allocations, however long a job tries its alternatives. */
function growsByRefusals(job: Job): readonly string[] {
  const refused = job.allocations.filter(
    (one) =>
      one.requestedAt !== null && isUnseen(one) && one.hasUnansweredRequest !== true && one.isRequestInFlight !== true,
  ).length;
  const attempts = job.attempts.length;
  return refused > attempts ? [`${refused} refused allocations belong to ${attempts} attempts`] : [];
}

/**
 * The owner's command started an attempt on held capacity, no worker answered there, and that counted as an attempt.
 */
function budgetSpentOnUnreachable(pass: Pass): readonly string[] {
  const { before, observation, now } = pass;
  return newEndings(pass)
    .filter(({ ending, startedByOwner, startedAt, commandOnly }) => {
      return ending?.reason === 'unreachable' && startedByOwner && startedAt === null && commandOnly !== true;
    })
    .filter(({ ordinal, allocation }) =>
      before.attempts.some((one) => one.ordinal < ordinal && one.allocation === allocation),
    )
    .filter(({ allocation }) => !isAbandoned(before, observation, allocation, now))
    .filter(() => before.spec.command.runsOn !== 'controller')
    .map(({ ordinal }) => `attempt ${ordinal} ends on held capacity that does not answer`);
}

/** A TPU that the cloud reports as ready, with a worker that will never report the end of its program. */
function waitsForUnreachable(job: Job, observation: Observation, now: Instant): readonly string[] {
  if (job.spec.capacity.kind === 'hosts') return [];
  const attempt = job.attempts.at(-1);
  const allocation = attempt === undefined ? undefined : allocationIn(job, attempt.allocation);
  if (attempt?.endedAt !== null || attempt.ending === null || allocation === undefined) return [];
  if (job.removed || job.spec.command.runsOn === 'controller' || allocation.releasedAt !== null) return [];
  if (allocation.unreachableWho !== 'worker' || allocationStatus(observation, attempt.allocation)?.state !== 'ready')
    return [];
  const since = Math.max(attempt.ending.startedAt, allocation.unreachableAt ?? now);
  const isTooLong = now > since + 10 * job.spec.recovery.unreachableGraceMs;
  return isTooLong ? [`attempt ${attempt.ordinal} waits without end for a worker that does not answer`] : [];
}

// ------------------------------------------------------------------------------------------ 8

/** Maximum number of passes over an unchanged world until nothing changes any more. */
const maxPassesToSettle = 8;

function quietAtRest({ observation, decision, now }: Pass): readonly string[] {
  const still: Observation = { ...observation, outcomes: [] };
  let { job } = decision;
  for (let count = 0; count < maxPassesToSettle; count += 1) {
    const next = reconcile(job, still, now);
    if (next.job === job && next.events.length === 0) return [];
    ({ job } = next);
  }
  return [`the job still changes after ${maxPassesToSettle} passes over one and the same observation`];
}

// ------------------------------------------------------------------------------------------ 10

/** The part of convergence that one pass can break: work is left, and no further pass is planned. */
function neverForgotten({ observation, decision, now }: Pass): readonly string[] {
  const { job, wakeAt, actions } = decision;
  if (job.removed) return wakeAt === undefined ? leftoverRuns(job, observation) : [];
  const found: string[] = [];
  const isQueued = !observation.admitted && job.desired === 'running';
  const isLeaving = releasingAllocations(job).length > 0;
  const isHeld = heldAllocations(job).length > 0;
  if (wakeAt === undefined && ((job.finish === null && !isQueued) || isLeaving || isHeld)) {
    found.push('work is left, but no further pass is planned');
  }
  const attempt = job.attempts.at(-1);
  if (attempt?.endedAt !== null) return found;
  if (allocationIn(job, attempt.allocation)?.releasedAt !== null) return found;
  for (const worker of workersOfCommand(job, attempt)) {
    const run = workerStatus(observation, attempt.allocation, worker)?.runs.find(
      (one) => one.attempt === attempt.ordinal,
    );
    const isPaced = attempt.failures.some(({ task }) => task.kind === 'stop' && task.worker === worker);
    const isKilled = actions.some(
      (one) => one.kind === 'stop' && one.attempt === attempt.ordinal && one.worker === worker && one.signal === 'kill',
    );
    const isConfirmed = attempt.ending?.stopConfirmedBy.includes(worker) === true;
    const sentAt =
      attempt.ending?.stopSentAt?.find((one) => one.worker === worker)?.at ??
      (isConfirmed ? attempt.ending?.stopRequestedAt : null);
    const isDue = now >= (sentAt ?? Infinity) + job.spec.stop.graceMs;
    if (isKilled && !isDue && job.spec.stop.graceMs > 0)
      found.push(`worker ${worker} is killed before the grace of its first stop`);
    if (run?.state === 'running' && !isPaced && !isKilled && isDue)
      found.push(`worker ${worker} ignores its stop signal and is not killed`);
  }
  return found;
}

// ------------------------------------------------------------------------------------------ 12

/** No delay after a refusal is shorter: the first delay of each kind, minus the quarter by which it varies. */
const minRetryDelays: Readonly<Record<string, number>> = {
  stockout: 22 * second,
  quota: 45 * second,
  permission: 7 * minute,
};

/**
 * No alternative is requested again before the delay of its answer is over, none after it rejected the request itself,
 * and none while another one that may have capacity was requested less often. Alternatives without permission do not
 * count for this order.
 */
function alternativesInTurn({ before, decision, now }: Pass): readonly string[] {
  const { job, actions } = decision;
  const { capacity } = job.spec;
  const attempt = job.attempts.at(-1);
  const count = capacity.kind === 'tpu' ? (capacity.alternatives?.length ?? 0) : 0;
  if (count === 0 || attempt === undefined) return [];
  const newlyRequested = actions.flatMap((action) => {
    const was = action.kind === 'request' ? allocationIn(before, action.allocation) : undefined;
    return was !== undefined && was.requestedAt === null ? [was] : [];
  });
  const tried = (alternative: number): TriedAlternative | undefined =>
    attempt.alternativesTried?.find((one) => one.alternative === alternative);
  const failedRequests = (alternative: number): number => tried(alternative)?.failedRequests ?? 0;
  const isRefusedForGood = (alternative: number): boolean =>
    ['invalid', 'not_found'].includes(tried(alternative)?.answer ?? '');
  const isForbidden = (alternative: number): boolean => tried(alternative)?.answer === 'permission';
  const others = Array.from({ length: count + 1 }, (_, other) => other).filter(
    (other) => !isForbidden(other) && !isRefusedForGood(other),
  );
  return newlyRequested.flatMap(({ ordinal, alternative = 0 }) => {
    const requests = `allocation ${ordinal} requests alternative ${alternative}`;
    const last = tried(alternative);
    const isEarly = last !== undefined && now < last.at + (minRetryDelays[last.answer] ?? 0);
    const skipped = others.filter((other) => failedRequests(other) < failedRequests(alternative));
    return [
      ...(isRefusedForGood(alternative) ? [`${requests}, which has permanently refused`] : []),
      ...(isEarly ? [`${requests} again ${now - last.at} ms after its ${last.answer}`] : []),
      ...(isForbidden(alternative) ? [] : skipped.map((other) => `${requests} again before alternative ${other}`)),
    ];
  });
}

/** Programs of a removed job that answer and that nothing will end: on this machine, or on a persistent allocation. */
function leftoverRuns(job: Job, observation: Observation): readonly string[] {
  const attempt = job.attempts.at(-1);
  if (attempt === undefined || attempt.startedAt === null || attempt.endedAt !== null) return [];
  const isPersistent = allocationIn(job, attempt.allocation)?.ownership === 'persistent';
  return workersOfCommand(job, attempt)
    .filter((worker) => worker === 'controller' || isPersistent)
    .filter((worker) => {
      const runs = workerStatus(observation, attempt.allocation, worker)?.runs ?? [];
      return runs.some((run) => run.attempt === attempt.ordinal && run.state === 'running');
    })
    .map((worker) => `the job is off the list, and its program on worker ${worker} keeps running`);
}
