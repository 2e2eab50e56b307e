// At rest: checks that a world has come to rest, and that it then stays quiet.

import { holdsSlot, waitsForSlot } from '../src/core/policy/admission.ts';
import { heldAllocations } from '../src/core/model/job.ts';
import type { Job } from '../src/core/model/job.ts';
import { minute, second } from '../src/core/model/time.ts';
import { fileLease, sharedLease } from '../src/controller/lease.ts';
import { zoneOf } from './cloud.ts';
import type { ControllerProcess } from './controllers.ts';
import type { InvariantChecker } from './invariants.ts';
import type { WallClock } from './faults.ts';
import { isGivenUp } from './invariants/context.ts';
import { isAlive } from './world.ts';
import type { World } from './world.ts';

export interface RestContext {
  readonly world: World;
  readonly checker: InvariantChecker;
  readonly processes: readonly ControllerProcess[];
  readonly hasServers: boolean;
  readonly wallClock: WallClock;
}

/**
 * The last controller has died or lost its lease, and the next has not started; it will copy what is printed meanwhile.
 */
export function hasNoController({ processes }: RestContext): boolean {
  const last = processes.reduce<ControllerProcess | null>(
    (late, one) => ((late?.endedAt ?? -1) > (one.endedAt ?? -1) ? late : one),
    null,
  );
  const isFollowed = last?.exitReason === null || last?.exitReason === 'lease_lost';
  return processes.every(({ endedAt }) => endedAt !== null) && isFollowed;
}

/** An owner's command takes effect within minutes, even if its wake-up was lost and the next pass is hours away. */
export function checkCommandsTakeEffect({ world: { timeline }, checker }: RestContext, faultsStoppedAt: number): void {
  for (const job of checker.jobs()) {
    const attempt = job.attempts.at(-1);
    if (job.desired === 'running' || job.removed || attempt === undefined) continue;
    if (attempt.ending !== null || attempt.endedAt !== null) continue;
    if (timeline.now - Math.max(faultsStoppedAt, checker.lastCommandAt(job.id)) > 15 * minute)
      checker.fail(
        10,
        `job ${job.id}: the desired state is ${job.desired}, but its attempt continues: ${describeJob(job)}`,
      );
  }
}

/** Finished and without capacity, or running a command that never ends, or holding capacity as its owner wants. */
export function isAtRest(parts: RestContext, job: Job): boolean {
  const { world, checker } = parts;
  const { timeline } = world;
  // It is asked to end a program on its silent host until the host answers.
  if (job.removed) return !hasLeftoverRun(world, job) && (job.spec.capacity.kind !== 'hosts' || !holdsSlot(job));
  if (job.finish !== null) {
    if (isHidden(world, job)) return true;
    if (job.desired === 'deleted') return false;
    const { capacity, keepForMs } = job.spec.finish;
    const isKept = job.desired === 'stopped' || (capacity === 'keep' && keepForMs === null);
    // Kept capacity may still be released, by a limit or by the owner's command.
    const isLeaving = isBudgeted(world, job) || heldAllocations(job).some(({ releasedAt }) => releasedAt !== null);
    return (isKept && !isLeaving) || heldAllocations(job).length === 0;
  }
  // New capacity is not requested before this one is deleted.
  if (isHidden(world, job) && job.allocations.at(-1)?.requestedAt === null) return true;
  // It waits forever behind a program that never ends, which is correct.
  if (waitsForSlot(job) && checker.jobs().some((other) => holdsSlot(other) && isAtRest(parts, other))) return true;
  // The owner's command is not carried out yet.
  if (job.desired !== 'running' || job.startRequest !== null) return false;
  const attempt = job.attempts.at(-1);
  if (attempt === undefined || attempt.runningAt === null || attempt.ending !== null) return false;
  // jobman will give up a silent worker.
  if (job.allocations.at(-1)?.unreachableAt !== null) return false;
  // A limit will end it. A clock that was set back delays that.
  if (job.spec.limits.maxRuntimeMs !== null || isBudgeted(world, job)) return false;
  const alive = world.runs.filter((one) => one.job === job.id && one.attempt === attempt.ordinal && isAlive(one));
  // A program that may still end by itself is not at rest yet.
  return (
    alive.length > 0 &&
    alive.every((one) => one.plan.duration === null) &&
    (job.spec.limits.silenceTimeoutMs === null || alive.some((one) => one.plan.silentAfter === null)) &&
    timeline.now - (alive[0]?.startedAt ?? 0) > minute
  );
}

/** True if a budget is used up some time as long as the job holds capacity. */
function isBudgeted({ ownerBudgetUsd }: World, { spec: { capacity, limits } }: Job): boolean {
  const isCharged = capacity.kind === 'tpu' && capacity.ownership === 'ephemeral';
  return isCharged && (limits.budgetUsd !== undefined || ownerBudgetUsd !== null);
}

/**
 * True if the job may hold capacity in a zone without permission, where a request got no answer: only a user can find
 * out whether it exists.
 */
function isHidden(world: World, job: Job): boolean {
  const held = heldAllocations(job);
  return (
    held.length > 0 &&
    held.every(
      (allocation) =>
        (allocation.isRequestInFlight === true || allocation.hasUnansweredRequest === true) &&
        world.forbiddenZones.has(zoneOf({ job, allocation })),
    )
  );
}

/**
 * A program of a removed job that only we can end, on a worker that has answered lately. A later pass of the removed job
 * forgets the silence of a worker, so the world decides whether it was given up.
 */
function hasLeftoverRun(world: World, job: Job): boolean {
  if (job.allocations.some(({ unreachableAt }) => unreachableAt !== null)) return false;
  return world.runs.some(
    (one) =>
      one.job === job.id &&
      isAlive(one) &&
      (one.host.machine === world.controllerMachine || one.host.machine.isPersistent) &&
      !isGivenUp({ world: () => world }, one, job),
  );
}

/** Invariant 8: at rest nothing is done, nothing is written, and nothing wakes without need. */
export async function checkQuiet(parts: RestContext, isBroken: () => boolean): Promise<void> {
  const { world, checker, processes, hasServers, wallClock } = parts;
  const { timeline } = world;
  if (checker.jobs().some((job) => isHidden(world, job))) return;
  const before = { ...checker.counts };
  // On a real machine the lock keeps a controller that only waits for the lease from running.
  const begun = processes.filter(({ leasedAt }) => leasedAt !== null);
  const wakeupsNow = (): number => begun.reduce((sum, { process }) => sum + process.wakeups, 0);
  const wakeups = wakeupsNow();
  const length = 3 * minute;
  await timeline.run(timeline.now + length, isBroken);
  const { actions, commits, observations } = checker.counts;
  const watched = checker
    .jobs()
    .filter((job) => !job.removed && (job.finish === null || heldAllocations(job).length > 0)).length;
  if (actions > before.actions) checker.fail(8, `at rest, ${actions - before.actions} actions began in three minutes`);
  if (commits > before.commits + 1)
    checker.fail(8, `at rest, the database was written ${commits - before.commits} times`);
  const woken = wakeupsNow() - wakeups;
  // The lease is renewed, and a running job is observed every ten seconds.
  const { renewal } = hasServers ? sharedLease : fileLease;
  const wakeupsMost = (length / renewal + watched * (length / (10 * second))) * 1.2 + 10;
  // A controller that took over lately waits for late requests before it finds that nothing is left.
  const alive = begun.filter(
    ({ process, exitReason, leasedAt }) =>
      !process.isDead && exitReason === null && (leasedAt ?? 0) < timeline.now - 5 * minute,
  );
  if (watched === 0) {
    // If the clock was set back, an old release seems to be recent and is waited for, and a new controller may try to
    // copy old logs.
    const hasClockGoneBack = wallClock.setBack > 0;
    if (observations > before.observations && !hasClockGoneBack)
      checker.fail(8, `nothing is left to watch, but ${observations - before.observations} observations were made`);
    if (alive.length > 0 && !hasClockGoneBack)
      checker.fail(8, 'nothing is left to watch, but the controller has not exited');
  } else if (woken > wakeupsMost) {
    checker.fail(8, `at rest, the controller woke ${woken} times in three minutes`);
  }
}

export function describeJob(job: Job): string {
  const attempt = job.attempts.at(-1);
  const allocation = job.allocations.at(-1);
  return [
    `desired ${job.desired}, ${job.finish === null ? 'not finished' : `finished ${job.finish.verdict}`}`,
    `attempt ${attempt?.ordinal ?? 0}${attempt?.ending === null ? '' : ` ending ${attempt?.ending.reason ?? ''}`}`,
    `allocation ${allocation?.ordinal ?? 0} ${allocation?.lastObserved?.state ?? 'never seen'}`,
  ].join(', ');
}
