// Checks of capacity: invariants 1, 3, 6, 12 and 13.

import { lateAllocations, type Allocation, type Job, type Slot } from '../../src/core/model/job.ts';
import { readyPeriodsOf } from '../../src/core/model/ready-periods.ts';
import { hour, second, minute } from '../../src/core/model/time.ts';
import { zoneOf } from '../cloud.ts';
import { findMachine, lastPrintedAt, isAlive, runName } from '../world.ts';
import type { Machine, Run } from '../world.ts';
import { epoch, isGivenUp, maxDrainTime, maxReplyTime } from './context.ts';
import type { CheckContext, Ledger } from './context.ts';
import type { AllocationRef } from '../../src/app/ports.ts';
import { alternativesOf, operationOf } from '../../src/core/model/spec.ts';
import { persistentTpuOf } from '../../src/core/decide/allocate.ts';
import { usesPersistentTpu } from '../../src/core/policy/admission.ts';
import { ruleOf } from '../../src/core/decide/recover.ts';

// ------------------------------------------------------------------------------------------ 6: a finished job holds
// only capacity that it should keep

export function checkGone(context: CheckContext, job: Job, allocation: Allocation): void {
  const { now } = context.world().timeline;
  const machine = findMachine(context.world(), zoneOf({ job, allocation }), allocation.name);
  if (machine === undefined || !isAllocation(machine, job, allocation)) return;
  // An observation that began earlier cannot contain an effect of just now.
  if (now - machine.createdAt < 40 * second) return;
  // One observation missed the machine before, and a list omits the one that a late request has created since.
  const isSecond = context.world().machines.some((one) => one.name === machine.name && one.goneAt !== null);
  if (isSecond && machine.wasOmitted) return;
  context.fail(
    6,
    `job ${job.id}: allocation ${allocation.ordinal} counts as gone, but ${machine.name} is ${machine.state}`,
  );
}

/**
 * True if that machine is the allocation. Several machines in turn may have the name of a persistent allocation: its
 * creation time identifies it once it was seen ready, and the labels of its request before that.
 */
function isAllocation({ labels, createdAt }: Machine, job: Job, { ordinal, creationTime }: Allocation): boolean {
  if (creationTime !== undefined) return creationTime === `${createdAt}`;
  return labels?.job === job.id && labels.allocation === ordinal;
}

export function checkEmpty(scene: CheckContext, { job, wasForceRemoved }: Ledger): void {
  if (job.finish === null) return;
  const { finish } = job.spec;
  const isHeld = job.finish.verdict === 'failed' && finish.holdOnFailureMs !== undefined;
  const isKept = job.desired === 'stopped' || finish.capacity === 'keep' || isHeld;
  if (isKept) return;
  for (const machine of scene.world().machines) {
    if (machine.state === 'gone' || machine.isPersistent || machine.labels?.job !== job.id) continue;
    // Capacity that a forced delete leaves behind is recorded as an orphan, and a user releases it.
    const isGone = job.allocations[machine.labels.allocation - 1]?.goneAt !== null;
    if (wasForceRemoved && !isGone) continue;
    // A jump of the clock may shorten the wait for a late request. Its resource has our label, so `gc` lists it.
    if (isGone && scene.clockJumps.some((at) => at >= machine.createdAt - maxDrainTime)) continue;
    scene.fail(6, `job ${job.id} has finished, but ${machine.name} is still ${machine.state}`);
  }
}

// ------------------------------------------------------------------------------------------ 3, 6 and 10: the releases
// that are allowed, and the end of the wait for capacity

/**
 * A persistent allocation is released only by a rule that wants it recreated. A failed job holds its hosts as long as
 * its owner wants, unless the owner gives another command or the machine is lost. A wait ends only at its limit.
 */
export function checkReleases(context: CheckContext, before: Job, job: Job, ledger: Ledger): void {
  const { now } = context.world().timeline;
  const { recovery, finish, limits } = job.spec;
  const hasJustFinished = job.finish !== null && before.finish === null;
  if (hasJustFinished) ledger.failedAt = job.finish.verdict === 'failed' ? now : null;
  for (const { ordinal, ownership, name, releasedAt, readyAt, lastObserved } of job.allocations) {
    if (releasedAt === null || before.allocations[ordinal - 1]?.releasedAt !== null) continue;
    const { kind: operation, withCommand } = operationOf(job.spec) ?? {};
    const isFirst = ordinal === 1 && operation === 'recreate';
    // A TPU that is lost holds no program and no disk, so a job that may create it also replaces it: until it was ready,
    // or until its own command has started.
    const isBeforeStart = withCommand === true && job.attempts.every(({ startedAt }) => startedAt === null);
    const isFailed = (isBeforeStart || (operation === 'create' && readyAt === null)) && lastObserved?.state === 'lost';
    const hasRule = recovery.rules.some(({ answer }) => answer.on === 'new');
    const mayRelease = operation === 'delete' || isFirst || isFailed || hasRule;
    const isRecreated = job.finish === null && mayRelease;
    if (ownership === 'persistent' && !isRecreated)
      context.fail(3, `job ${job.id}: the persistent ${name} is released`);
    const { holdOnFailureMs = 0 } = finish;
    const failedAt = job.desired === 'running' && job.finish !== null ? ledger.failedAt : null;
    const isShort =
      failedAt !== null && now < failedAt + holdOnFailureMs * 0.9 && !context.clockJumps.some((at) => at >= failedAt);
    const isHeld = ownership === 'ephemeral' && lastObserved?.state === 'ready' && ordinal === job.allocations.length;
    if (isHeld && isShort && !hasUsedBudget(context, job))
      context.fail(6, `job ${job.id}: ${name} is released after ${now - failedAt} ms instead of ${holdOnFailureMs}`);
  }
  const isEphemeral = job.spec.capacity.ownership === 'ephemeral';
  const hasGivenUp = hasJustFinished && job.finish.reason === 'allocation_failed' && ledger.refused.size === 0;
  // A name that another resource has also ends the wait.
  const isTaken = job.allocations.some(({ name }) =>
    context.world().machines.some((one) => one.name === name && one.isPersistent),
  );
  if (isEphemeral && hasGivenUp && limits.capacityWaitMs === null && !isTaken)
    context.fail(10, `job ${job.id} has given up waiting for capacity without a limit`);
}

/** Between a release and its deletion another job may replace a persistent TPU by one of the same name. */
export function checkDeletion(context: CheckContext, machine: Machine, { job, allocation }: AllocationRef): void {
  const { releasedAt, ownership } = allocation;
  const createdAt = epoch + machine.createdAt + context.clockOffset;
  if (ownership !== 'persistent' || releasedAt === null || context.clockJumps.length > 0) return;
  if (createdAt > releasedAt)
    context.fail(3, `job ${job.id}: ${machine.name}, which was created after the release, is deleted`);
}

// ------------------------------------------------------------------------------------------ 1: unknown is not absent.
// A controller ends a program or releases a machine only for a reason that exists in the world

/**
 * Every reason for a controller to end a program or to release a machine, as the world and the owner know it: the
 * owner's command, the cloud's act, a program that ended or ran too long, a host that was silent too long.
 */
export function hasReason(context: CheckContext, ledger: Ledger, machine: Machine | undefined): boolean {
  const { now } = context.world().timeline;
  const { job } = ledger;
  if (job.desired !== 'running' || ledger.commandCount > 0) return true;
  // A job that only sets up ends after its setup; checkSetupOnlyJob compares its end with the world.
  if (job.spec.command.isSetupOnly === true && job.finish?.verdict === 'succeeded') return true;
  // An operation begins with the release of its TPU.
  const operation = operationOf(job.spec);
  if (operation !== undefined && 'creationTime' in operation && machine?.isPersistent === true) return true;
  const { limits, recovery } = job.spec;
  if (ledger.workerFailures >= limits.setupTries) return true;
  if (ledger.refused.size > 0) return true;
  if (hasUsedBudget(context, job)) return true;
  const runs = context.world().runs.filter((run) => run.job === job.id);
  if (runs.some((run) => run.endedAt !== null)) return true;
  const { failedCallTimeoutMs = Infinity } = limits;
  if (runs.some(({ hungAt }) => hungAt !== null && now - hungAt >= failedCallTimeoutMs * 0.9)) return true;
  for (const run of runs) {
    if (run.startedAt === null) continue;
    if (limits.maxRuntimeMs !== null && now - run.startedAt >= limits.maxRuntimeMs * 0.9) return true;
    const gang = runs.filter(({ attempt }) => attempt === run.attempt);
    const { silenceTimeoutMs } = limits;
    if (silenceTimeoutMs !== null && gang.every((one) => now - lastPrintedAt(one, now) >= silenceTimeoutMs * 0.9))
      return true;
  }
  if (limits.capacityWaitMs !== null && now - ledger.createdAt >= limits.capacityWaitMs * 0.9) return true;
  if (machine === undefined) return true;
  if (hasWaitedLongEnough(ledger, machine) || isLateEffect(ledger, machine)) return true;
  // A late message may have recreated a lost or released machine.
  const ofThatName = context.world().machines.filter((one) => one.name === machine.name);
  if (ofThatName.some((one) => one.lostAt !== null || one.deletionRequestedAt !== null)) return true;
  if (machine.wasInterrupted || machine.hosts.some((host) => host.restarts > 0)) return true;
  // Two silences without an observation in between look like one.
  const silentLongest = Math.max(...machine.hosts.map((host) => host.longestOutage(now)));
  if (silentLongest + context.world().longestNetworkCut >= recovery.unreachableGraceMs * 0.8) return true;
  return context.clockJumps.some((at) => at >= ledger.createdAt);
}

/** True if the budget of the job, or its owner's for all jobs, may be used up. An hour of a machine costs a dollar. */
function hasUsedBudget(context: CheckContext, { id, spec }: Job): boolean {
  const { ledgers, clockOffset } = context;
  const { timeline, ownerBudgetUsd } = context.world();
  const now = epoch + timeline.now + clockOffset;
  const { budgetUsd = Infinity } = spec.limits;
  if (budgetUsd === Infinity && ownerBudgetUsd === null) return false;
  // The time of a jump counts as ready time.
  if (context.clockJumps.length > 0) return true;
  // Not the machines' own time: until its end is observed, which takes minutes, a machine counts as ready. Invariant 16
  // compares the two.
  const hours = (ofJob: (job: Job) => boolean): number => {
    const jobs = [...ledgers.values()].map((ledger) => ledger.job).filter(ofJob);
    const allocations = jobs.flatMap((job) => job.allocations).flatMap((one) => [one, ...lateAllocations(one)]);
    return (
      allocations
        .flatMap(readyPeriodsOf)
        .reduce((sum, { from, until }) => sum + Math.max(0, (until ?? now) - from), 0) / hour
    );
  };
  return hours((job) => job.id === id) >= budgetUsd * 0.9 || hours(() => true) >= (ownerBudgetUsd ?? Infinity) * 0.9;
}

/**
 * A queue in which the request waited as long as the owner allows, and that had no capacity at the last observation.
 */
function hasWaitedLongEnough({ job, firstRequestedAt, supersededAt }: Ledger, machine: Machine): boolean {
  const { capacity } = job.spec;
  const patience = capacity.kind === 'tpu' ? capacity.alternativesWaitMs : undefined;
  const ordinal = job.allocations.find((one) => one.name === machine.name)?.ordinal ?? 0;
  const requestedAt = firstRequestedAt.get(ordinal);
  const supersededTime = supersededAt.get(ordinal);
  if (patience === undefined || requestedAt === undefined || supersededTime === undefined) return false;
  // A list may be some seconds old, and the rest of the pass takes some more.
  const wasEmpty = machine.readyAt === null || machine.readyAt > supersededTime - 15 * second;
  return wasEmpty && supersededTime - requestedAt >= patience * 0.9;
}

/**
 * A machine of a request without an answer that no list had shown when the job moved to another alternative: it was
 * created later, or the last list was old or partial.
 */
function isLateEffect({ job, refusals, supersededAt }: Ledger, machine: Machine): boolean {
  const { ordinal = 0, confirmedAt } = job.allocations.find((one) => one.name === machine.name) ?? {};
  const supersededTime = supersededAt.get(ordinal);
  const wasRefused = [...refusals.values()].some((one) => one.allocation === ordinal);
  if (!wasRefused || supersededTime === undefined) return false;
  if (machine.createdAt >= supersededTime) return true;
  return confirmedAt === null && (machine.wasOmitted || machine.createdAt >= supersededTime - 15 * second);
}

/**
 * Another allocation of a job follows the end of the one before, as the world knows it: the cloud took it, or a host of it
 * was silent too long. A request without an answer, or a controller that stopped, is no reason.
 */
export function checkReplacement(context: CheckContext, before: Job, job: Job, ledger: Ledger): void {
  const previous = before.allocations.at(-1);
  if (previous === undefined || previous.ownership === 'persistent') return;
  if (job.allocations.length === before.allocations.length) return;
  if (job.allocations[previous.ordinal - 1]?.superseded !== undefined) return;
  if (ledger.commandCount > 0 || context.clockJumps.length > 0) return;
  const { timeline, machines, longestNetworkCut } = context.world();
  const { rules, unreachableGraceMs } = job.spec.recovery;
  if (rules.some(({ reason, answer }) => reason !== 'preempted' && answer.on === 'new')) return;
  const ofThatName = machines.filter(({ name }) => name === previous.name);
  const isSilent = ofThatName.some(({ hosts }) =>
    hosts.some((host) => host.longestOutage(timeline.now) + longestNetworkCut >= unreachableGraceMs * 0.8),
  );
  if (isSilent || ofThatName.some(({ isPersistent, lostAt }) => isPersistent || lostAt !== null)) return;
  context.fail(1, `job ${job.id}: allocation ${job.allocations.length} replaces ${previous.name} without a reason`);
}

/** A second machine is requested while the first is healthy and not released. */
export function checkSingleMachine(context: CheckContext, ref: AllocationRef, ledger: Ledger): void {
  if (ref.allocation.ordinal < 2) return;
  for (const machine of context.world().machines) {
    const { labels } = machine;
    if (labels === null || labels.job !== ref.job.id || labels.allocation >= ref.allocation.ordinal) continue;
    if (machine.state !== 'ready' || machine.deletionRequestedAt !== null) continue;
    const wasReleased = ledger.accepted.has(`release/${labels.allocation}`);
    if (!wasReleased)
      context.fail(1, `job ${ref.job.id}: ${ref.allocation.name} is requested while ${machine.name} is healthy`);
  }
}

// ------------------------------------------------------------------------------------------ 12: no alternative is
// requested before its delay is over, and every one is requested in each round

/** The time of an allocation in one alternative. */
export function requestKey(ref: AllocationRef, ledger: Ledger): string {
  const key = alternativeKey(ref, ledger);
  return `${ref.allocation.ordinal}/${key}/${ledger.rounds.get(key) ?? 0}`;
}

/** The attempt and alternative of that allocation. */
export function alternativeKey({ allocation }: AllocationRef, { job }: Ledger): string {
  return `${job.attempts.length}/${allocation.alternative ?? 0}`;
}

/**
 * No alternative is requested again right after it had no capacity, or soon after a missing permission, and none before
 * every other open one was requested as often. If the clock jumped forward meanwhile, the delay may be over; a clock
 * that is set back shortens no delay.
 */
export function checkAlternatives(context: CheckContext, ref: AllocationRef, ledger: Ledger): void {
  const { job } = ledger;
  const { capacity } = job.spec;
  const { alternative = 0 } = ref.allocation;
  const others = capacity.kind === 'tpu' ? (capacity.alternatives?.length ?? 0) : 0;
  const attempt = job.attempts.at(-1);
  if (others === 0 || attempt === undefined || (ledger.requests.get(requestKey(ref, ledger)) ?? []).length > 1) return;
  const key = alternativeKey(ref, ledger);
  const refusal = ledger.refusals.get(key);
  const soon = refusal?.isForbidden === true ? 7 * minute : 20 * second;
  const isSoon = refusal !== undefined && ledger.rounds.has(key) && context.world().timeline.now < refusal.at + soon;
  if (isSoon && !context.clockJumps.some((at) => at >= refusal.at - maxReplyTime))
    context.fail(12, `job ${job.id}: alternative ${alternative} is requested again too soon after it had no capacity`);
  const isForbidden = (which: number): boolean =>
    ledger.refusals.get(`${job.attempts.length}/${which}`)?.isForbidden === true;
  const rounds = (which: number): number => ledger.rounds.get(`${job.attempts.length}/${which}`) ?? 0;
  for (let other = 0; other <= others; other += 1) {
    if (
      !isForbidden(alternative) &&
      !isForbidden(other) &&
      rounds(other) < rounds(alternative) &&
      !isAvoided(job, other)
    )
      context.fail(12, `job ${job.id}: alternative ${alternative} is requested again before alternative ${other}`);
  }
  if (isAvoided(job, alternative))
    context.fail(12, `job ${job.id}: alternative ${alternative} is requested, although a rule avoids its zone`);
}

/**
 * Zones that rules have avoided since the owner's last command or the last success, as long as another zone is left.
 */
function isAvoided(job: Job, alternative: number): boolean {
  const { capacity, recovery } = job.spec;
  if (capacity.kind !== 'tpu') return false;
  const zones = alternativesOf(capacity).map(({ zone }) => zone);
  const firstCounted = job.attempts.findLastIndex(
    ({ startedByOwner, ordinal }) => startedByOwner || job.attempts[ordinal - 2]?.ending?.reason === 'succeeded',
  );
  const left = new Set(
    job.attempts.slice(Math.max(0, firstCounted)).flatMap(({ ending, allocation }) => {
      const isAvoidedNow = ending !== null && ruleOf(recovery, ending)?.avoidZone === true;
      return isAvoidedNow ? [zones[job.allocations[allocation - 1]?.alternative ?? 0]] : [];
    }),
  );
  return left.has(zones[alternative]) && zones.some((zone) => !left.has(zone));
}

// ------------------------------------------------------------------------------------------ 13: no two running jobs
// share a slot of a host or one of its GPUs, nor a persistent TPU

export function checkLiveJobs(context: CheckContext, job: Job): void {
  if (!usesPersistentTpu(job)) return;
  const tpu = persistentTpuOf(job.spec.capacity);
  for (const { job: other } of context.ledgers.values())
    if (other.id !== job.id && usesPersistentTpu(other) && persistentTpuOf(other.spec.capacity) === tpu)
      context.fail(13, `jobs ${other.id} and ${job.id} both use ${tpu}`);
}

/** The live programs of jobs on one host have a slot each, with GPUs of its own. */
export function checkSlots(scene: CheckContext, run: Run, { job }: Ledger): void {
  const { capacity } = job.spec;
  if (capacity.kind !== 'hosts') {
    checkSharedTpu(scene, run, job);
    return;
  }
  const own = slotOf(scene, run);
  for (const other of scene.world().runs) {
    if (other.job === run.job || !isAlive(other) || other.host !== run.host) continue;
    const { job: otherJob } = scene.ledgerOf(other.job);
    if (otherJob.spec.capacity.kind !== 'hosts' || isGivenUp(scene, other, otherJob)) continue;
    const taken = slotOf(scene, other);
    const isShared = own === undefined || taken === undefined || own.slot === taken.slot;
    if (isShared || own.gpus?.some((gpu) => taken.gpus?.includes(gpu)) === true)
      scene.fail(13, `${runName(run)} starts in slot ${own?.slot}, in which ${runName(other)} is alive`);
  }
}

function slotOf(scene: CheckContext, { job: id, attempt, worker }: Run): Slot | undefined {
  const { job } = scene.ledgerOf(id);
  return job.allocations[(job.attempts[attempt - 1]?.allocation ?? 0) - 1]?.slots?.[Number(worker)];
}

/** Another job may have a live program there only if it left the list, or on a host that was given up. */
function checkSharedTpu(scene: CheckContext, run: Run, { id, spec }: Job): void {
  const { capacity } = spec;
  if (capacity.kind !== 'tpu' || capacity.ownership !== 'persistent') return;
  const other = scene.world().runs.find((one) => {
    if (one.job === id || !isAlive(one)) return false;
    const { job } = scene.ledgerOf(one.job);
    const isThere = job.spec.capacity.kind === 'tpu' && job.spec.capacity.name === capacity.name;
    return isThere && !job.removed && !isGivenUp(scene, one, job);
  });
  if (other !== undefined)
    scene.fail(13, `${runName(run)} starts on ${capacity.name} while ${runName(other)} is alive there`);
}
