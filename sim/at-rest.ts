// Rest: when a world has come to where it belongs, and whether it is quiet there.

import { holdsSlot, waitsForSlot } from '../src/core/policy/admission.ts';
import { heldAllocations } from '../src/core/model/job.ts';
import type { Job } from '../src/core/model/job.ts';
import { minute, second } from '../src/core/model/time.ts';
import { zoneOf } from './cloud.ts';
import type { ControllerProcess } from './controllers.ts';
import type { InvariantChecker } from './invariants.ts';
import type { WallClock } from './faults.ts';
import { isAlive } from './world.ts';
import type { World } from './world.ts';

export interface RestContext {
  readonly world: World;
  readonly checker: InvariantChecker;
  readonly processes: readonly ControllerProcess[];
  readonly wallClock: WallClock;
}

/** The last controller has died or lost its lease, and the next has not begun: what is printed meanwhile is copied later. */
export function hasNoController({ processes }: RestContext): boolean {
  const last = processes.reduce<ControllerProcess | null>(
    (late, one) => ((late?.endedAt ?? -1) > (one.endedAt ?? -1) ? late : one),
    null,
  );
  const isFollowed = last?.exitReason === null || last?.exitReason === 'lease_lost';
  return processes.every(({ endedAt }) => endedAt !== null) && isFollowed;
}

/** The owner's command reaches a controller within minutes, also where its wake-up was lost and the next pass is hours away. */
export function checkCommandsTakeEffect({ world: { timeline }, checker }: RestContext, faultsStoppedAt: number): void {
  for (const job of checker.jobs) {
    const attempt = job.attempts.at(-1);
    if (job.desired === 'running' || job.removed || attempt === undefined) continue;
    if (attempt.ending !== null || attempt.endedAt !== null) continue;
    if (timeline.now - Math.max(faultsStoppedAt, checker.lastCommandAt(job.id)) > 15 * minute)
      checker.fail(10, `job ${job.id}: its owner said ${job.desired}, and its attempt goes on: ${describeJob(job)}`);
  }
}

/** Settled and empty, or truly running what never ends, or told to hold. */
export function isAtRest(parts: RestContext, job: Job): boolean {
  const { world, checker } = parts;
  const { timeline } = world;
  if (job.removed) return !hasLeftoverRun(world, job);
  if (job.finish !== null) {
    if (isUnobservable(world, job)) return true;
    if (job.desired === 'deleted') return false;
    const { capacity, keepForMs } = job.spec.finish;
    const isKept = job.desired === 'stopped' || (capacity === 'keep' && keepForMs === null);
    // Kept capacity may be released all the same: by a limit, or by the owner's command.
    const isLeaving = heldAllocations(job).some(({ releasedAt }) => releasedAt !== null);
    return (isKept && !isLeaving) || heldAllocations(job).length === 0;
  }
  // New capacity is not requested before that is gone.
  if (isUnobservable(world, job) && job.allocations.at(-1)?.requestedAt === null) return true;
  // Behind a program that never ends it waits for ever, as it should.
  if (waitsForSlot(job) && checker.jobs.some((other) => holdsSlot(other) && isAtRest(parts, other))) return true;
  // The owner's command is still to be carried out.
  if (job.desired !== 'running' || job.startRequest !== null) return false;
  const attempt = job.attempts.at(-1);
  if (attempt === undefined || attempt.runningAt === null || attempt.ending !== null) return false;
  // A silent worker will be given up one day.
  if (job.allocations.at(-1)?.unreachableAt !== null) return false;
  // A limit ends it one day; when that is, a clock that was set back decides as well.
  if (job.spec.limits.maxRuntimeMs !== null) return false;
  const alive = world.runs.filter((one) => one.job === job.id && one.attempt === attempt.ordinal && isAlive(one));
  // A program that may still end by itself is not at rest yet.
  return (
    alive.length > 0 &&
    alive.every((one) => one.plan.duration === null) &&
    (job.spec.limits.silenceTimeoutMs === null || alive.some((one) => one.plan.silentAfter === null)) &&
    timeline.now - (alive[0]?.startedAt ?? 0) > minute
  );
}

/**
 * The capacity that it may still hold is in a zone where we may neither list nor delete, and an answer to a request there was lost, with
 * its controller perhaps: only a person can say that nothing came of it.
 */
function isUnobservable(world: World, job: Job): boolean {
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

/** A program of a job off the list that runs on where nothing else ends it, although somebody there has answered of late. */
function hasLeftoverRun(world: World, job: Job): boolean {
  if (job.allocations.some(({ unreachableAt }) => unreachableAt !== null)) return false;
  return world.runs.some(
    (one) =>
      one.job === job.id &&
      isAlive(one) &&
      (one.host.machine === world.controllerMachine || one.host.machine.isPersistent),
  );
}

/** Law 8: where nothing is wanted and nothing changes, nothing is done, nothing written, and nobody wakes for nothing. */
export async function checkQuiet(parts: RestContext, isBroken: () => boolean): Promise<void> {
  const { world, checker, processes, wallClock } = parts;
  const { timeline } = world;
  if (checker.jobs.some((job) => isUnobservable(world, job))) return;
  const before = { ...checker.counts };
  // A controller that only waits for the lease is kept from beginning by the machine's lock, outside the simulator.
  const begun = processes.filter((life) => life.hasLease);
  const wakeupsNow = (): number => begun.reduce((sum, { process }) => sum + process.wakeups, 0);
  const wakeups = wakeupsNow();
  const length = 3 * minute;
  await timeline.run(timeline.now + length, isBroken);
  const { actions, commits, observations } = checker.counts;
  const watched = checker.jobs.filter(
    (job) => !job.removed && (job.finish === null || heldAllocations(job).length > 0),
  ).length;
  if (actions > before.actions)
    checker.fail(8, `at rest, ${actions - before.actions} things were done in three minutes`);
  if (commits > before.commits + 1)
    checker.fail(8, `at rest, the record was written ${commits - before.commits} times`);
  const woken = wakeupsNow() - wakeups;
  // The lease is renewed every ten seconds, a job that runs is looked at as often, and a little comes on top.
  const wakeupsMost = (1 + watched) * (length / (10 * second)) * 1.2 + 10;
  // One that took over meanwhile, from another that has left, has a minute of its own to see that nothing is left.
  const alive = begun.filter((life) => !life.process.isDead && life.exitReason === null);
  if (watched === 0) {
    // Where the clock was set back, something that was let go before seems to have been let go just now, and is waited out;
    // and what has ended long ago seems to have logs left to copy, to a controller that has just begun.
    const hasClockGoneBack = wallClock.setBack > 0;
    if (observations > before.observations && !hasClockGoneBack)
      checker.fail(8, `nothing is left to watch, and ${observations - before.observations} looks were made`);
    if (alive.length > 0 && !hasClockGoneBack)
      checker.fail(8, 'nothing is left to watch, and the controller has not left');
  } else if (woken > wakeupsMost) {
    checker.fail(8, `at rest, the controller woke ${woken} times in three minutes`);
  }
}

export function describeJob(job: Job): string {
  const attempt = job.attempts.at(-1);
  const allocation = job.allocations.at(-1);
  return [
    `desired ${job.desired}, ${job.finish === null ? 'not settled' : `settled ${job.finish.verdict}`}`,
    `attempt ${attempt?.ordinal ?? 0}${attempt?.ending === null ? '' : ` ending ${attempt?.ending.reason ?? ''}`}`,
    `allocation ${allocation?.ordinal ?? 0} ${allocation?.lastObserved?.state ?? 'never seen'}`,
  ].join(', ');
}
