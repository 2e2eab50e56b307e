// Rest: when a world has come to where it belongs, and whether it is quiet there.

import { holdsSlot, waitsForSlot } from '../src/core/admit.ts';
import { heldAllocations } from '../src/core/job.ts';
import type { Job } from '../src/core/job.ts';
import { minute, second } from '../src/core/time.ts';
import { zoneOf } from './cloud.ts';
import type { Life } from './controllers.ts';
import type { Judge } from './laws.ts';
import type { Wall } from './storm.ts';
import { isAlive } from './world.ts';
import type { World } from './world.ts';

export interface RestParts {
  readonly world: World;
  readonly judge: Judge;
  readonly lives: readonly Life[];
  readonly wall: Wall;
}

/** The last controller has died or lost its lease, and the next has not begun: what is printed meanwhile is copied later. */
export function isAbandoned({ lives }: RestParts): boolean {
  const last = lives.reduce<Life | null>(
    (late, life) => ((late?.overAt ?? -1) > (life.overAt ?? -1) ? late : life),
    null,
  );
  const isFollowed = last?.hasLeft === null || last?.hasLeft === 'lease_lost';
  return lives.every(({ overAt }) => overAt !== null) && isFollowed;
}

/** The owner's command reaches a controller within minutes, also where its wake-up was lost and the next pass is hours away. */
export function checkHeard({ world: { timeline }, judge }: RestParts, calmAt: number): void {
  for (const job of judge.jobs) {
    const attempt = job.attempts.at(-1);
    if (job.desired === 'run' || job.removed || attempt === undefined) continue;
    if (attempt.ending !== null || attempt.endedAt !== null) continue;
    if (timeline.now - Math.max(calmAt, judge.wordAt(job.id)) > 15 * minute)
      judge.break(10, `job ${job.id}: its owner said ${job.desired}, and its attempt goes on: ${describe(job)}`);
  }
}

/** Settled and empty, or truly running what never ends, or told to hold. */
export function isResting(parts: RestParts, job: Job): boolean {
  const { world, judge } = parts;
  const { timeline } = world;
  if (job.removed) return !isLooseEnd(world, job);
  if (job.settled !== null) {
    if (isOutOfSight(world, job)) return true;
    if (job.desired === 'delete') return false;
    const { capacity, keepFor } = job.spec.finish;
    const isKept = job.desired === 'hold' || (capacity === 'keep' && keepFor === null);
    // Kept capacity may be released all the same: by a limit, or by the owner's command.
    const isLeaving = heldAllocations(job).some(({ releasedAt }) => releasedAt !== null);
    return (isKept && !isLeaving) || heldAllocations(job).length === 0;
  }
  // New capacity is not requested before that is gone.
  if (isOutOfSight(world, job) && job.allocations.at(-1)?.requestedAt === null) return true;
  // Behind a program that never ends it waits for ever, as it should.
  if (waitsForSlot(job) && judge.jobs.some((other) => holdsSlot(other) && isResting(parts, other))) return true;
  // The owner's command is still to be carried out.
  if (job.desired !== 'run' || job.wish !== null) return false;
  const attempt = job.attempts.at(-1);
  if (attempt === undefined || attempt.runningAt === null || attempt.ending !== null) return false;
  // A silent worker will be given up one day.
  if (job.allocations.at(-1)?.silentSince !== null) return false;
  // A limit ends it one day; when that is, a clock that was set back decides as well.
  if (job.spec.limits.maxRuntime !== null) return false;
  const alive = world.runs.filter((one) => one.job === job.id && one.attempt === attempt.ordinal && isAlive(one));
  // A program that may still end by itself is not at rest yet.
  return (
    alive.length > 0 &&
    alive.every((one) => one.plan.length === null) &&
    (job.spec.limits.silenceTimeout === null || alive.some((one) => one.plan.silentAfter === null)) &&
    timeline.now - (alive[0]?.startedAt ?? 0) > minute
  );
}

/**
 * The capacity that it may still hold is in a zone where we may neither list nor delete, and an answer to a request there was lost, with
 * its controller perhaps: only a person can say that nothing came of it.
 */
function isOutOfSight(world: World, job: Job): boolean {
  const held = heldAllocations(job);
  return (
    held.length > 0 &&
    held.every(
      (allocation) =>
        (allocation.isAsking === true || allocation.isDoubtful === true) &&
        world.closed.has(zoneOf({ job, allocation })),
    )
  );
}

/** A program of a job off the list that runs on where nothing else ends it, although somebody there has answered of late. */
function isLooseEnd(world: World, job: Job): boolean {
  if (job.allocations.some(({ silentSince }) => silentSince !== null)) return false;
  return world.runs.some(
    (one) => one.job === job.id && isAlive(one) && (one.host.machine === world.here || one.host.machine.isStanding),
  );
}

/** Law 8: where nothing is wanted and nothing changes, nothing is done, nothing written, and nobody wakes for nothing. */
export async function checkQuiet(parts: RestParts, isBroken: () => boolean): Promise<void> {
  const { world, judge, lives, wall } = parts;
  const { timeline } = world;
  if (judge.jobs.some((job) => isOutOfSight(world, job))) return;
  const before = { ...judge.counts };
  // A controller that only waits for the lease is kept from beginning by the machine's lock, outside the simulator.
  const begun = lives.filter((life) => life.hasBegun);
  const wakeupsNow = (): number => begun.reduce((sum, { incarnation }) => sum + incarnation.wakeups, 0);
  const wakeups = wakeupsNow();
  const length = 3 * minute;
  await timeline.play(timeline.now + length, isBroken);
  const { acts, commits, looks } = judge.counts;
  const watched = judge.jobs.filter(
    (job) => !job.removed && (job.settled === null || heldAllocations(job).length > 0),
  ).length;
  if (acts > before.acts) judge.break(8, `at rest, ${acts - before.acts} things were done in three minutes`);
  if (commits > before.commits + 1) judge.break(8, `at rest, the record was written ${commits - before.commits} times`);
  const woken = wakeupsNow() - wakeups;
  // The lease is renewed every ten seconds, a job that runs is looked at as often, and a little comes on top.
  const wakeupsMost = (1 + watched) * (length / (10 * second)) * 1.2 + 10;
  // One that took over meanwhile, from another that has left, has a minute of its own to see that nothing is left.
  const alive = begun.filter((life) => !life.incarnation.isDead && life.hasLeft === null);
  if (watched === 0) {
    // Where the clock was set back, something that was let go before seems to have been let go just now, and is waited out;
    // and what has ended long ago seems to have logs left to copy, to a controller that has just begun.
    const isPuzzled = wall.setBack > 0;
    if (looks > before.looks && !isPuzzled)
      judge.break(8, `nothing is left to watch, and ${looks - before.looks} looks were made`);
    if (alive.length > 0 && !isPuzzled) judge.break(8, 'nothing is left to watch, and the controller has not left');
  } else if (woken > wakeupsMost) {
    judge.break(8, `at rest, the controller woke ${woken} times in three minutes`);
  }
}

export function describe(job: Job): string {
  const attempt = job.attempts.at(-1);
  const allocation = job.allocations.at(-1);
  return [
    `desired ${job.desired}, ${job.settled === null ? 'not settled' : `settled ${job.settled.verdict}`}`,
    `attempt ${attempt?.ordinal ?? 0}${attempt?.ending === null ? '' : ` ending ${attempt?.ending.reason ?? ''}`}`,
    `allocation ${allocation?.ordinal ?? 0} ${allocation?.seen?.state ?? 'never seen'}`,
  ].join(', ');
}
