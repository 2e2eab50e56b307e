// What is requested, held and released: invariants 1, 3, 6, 12 and 13.

import type { Allocation, Job } from '../../src/core/job.ts';
import { second, minute } from '../../src/core/time.ts';
import { zoneOf } from '../cloud.ts';
import { findMachine, printedAt, isAlive, runName } from '../world.ts';
import type { Machine, Run } from '../world.ts';
import { drainMost, replyMost, slots } from './scene.ts';
import type { Scene, Ledger } from './scene.ts';
import type { AllocationRef } from '../../src/app/ports.ts';
import { placesOf } from '../../src/core/spec.ts';
import { ruleOf } from '../../src/core/recover.ts';

// ------------------------------------------------------------------------------------------ 6: a finished job holds nothing that it was not told to keep

export function checkGone(scene: Scene, job: Job, allocation: Allocation): void {
  const { now } = scene.world().timeline;
  const machine = findMachine(scene.world(), zoneOf({ job, allocation }), allocation.name);
  if (machine === undefined || !isAllocation(machine, job, allocation)) return;
  // An effect of just now cannot have been seen by an observation that began before.
  if (now - machine.madeAt < 40 * second) return;
  scene.breakLaw(
    6,
    `job ${job.id}: allocation ${allocation.ordinal} counts as gone while ${machine.name} is ${machine.state}`,
  );
}

/**
 * True if that machine is the allocation. Several machines in turn may have the name of a persistent allocation: its creation
 * time identifies it once it was seen ready, and the labels of its request before that.
 */
function isAllocation({ labels, madeAt }: Machine, job: Job, { ordinal, made }: Allocation): boolean {
  if (made !== undefined) return made === `${madeAt}`;
  return labels?.job === job.id && labels.allocation === ordinal;
}

export function checkEmpty(scene: Scene, { job, isForced }: Ledger): void {
  if (job.settled === null) return;
  const { finish } = job.spec;
  const isHeld = job.settled.verdict === 'failed' && finish.holdOnFailure !== undefined;
  const isKept = job.desired === 'hold' || finish.capacity === 'keep' || isHeld;
  if (isKept) return;
  for (const machine of scene.world().machines) {
    if (machine.state === 'gone' || machine.isStanding || machine.labels?.job !== job.id) continue;
    // Capacity that a forced delete leaves behind is recorded as an orphan, for a person to release.
    const isGone = job.allocations[machine.labels.allocation - 1]?.goneAt !== null;
    if (isForced && !isGone) continue;
    // The late effect of a request is waited for by the clock, and may miss a wait that a jump has cut
    // short. It carries our label: `gc` lists it.
    if (isGone && scene.jumps.some((at) => at >= machine.madeAt - drainMost)) continue;
    scene.breakLaw(6, `job ${job.id} is settled and ${machine.name} is still ${machine.state}`);
  }
}

// ------------------------------------------------------------------------------------------ 3, 6 and 10: what may be released, and when waiting for capacity may end

/**
 * A persistent allocation is released only by a rule that wants it recreated. The hosts of a failed job are held for
 * as long as its owner said, unless he has another word or the machine is lost. Waiting ends where it has a limit.
 */
export function checkLetGo(scene: Scene, before: Job, job: Job, ledger: Ledger): void {
  const { now } = scene.world().timeline;
  const { recovery, finish, limits } = job.spec;
  const isNews = job.settled !== null && before.settled === null;
  if (isNews) ledger.failedAt = job.settled.verdict === 'failed' ? now : null;
  for (const { ordinal, ownership, name, releasedAt, seen } of job.allocations) {
    if (releasedAt === null || before.allocations[ordinal - 1]?.releasedAt !== null) continue;
    const isMadeAnew = job.settled === null && recovery.rules.some(({ answer }) => answer.on === 'new');
    if (ownership === 'standing' && !isMadeAnew)
      scene.breakLaw(3, `job ${job.id}: ${name}, which was there before it, is let go`);
    const { holdOnFailure = 0 } = finish;
    const failedAt = job.desired === 'run' && job.settled !== null ? ledger.failedAt : null;
    const isShort =
      failedAt !== null && now < failedAt + holdOnFailure * 0.9 && !scene.jumps.some((at) => at >= failedAt);
    if (ownership === 'owned' && isShort && seen?.state === 'ready' && ordinal === job.allocations.length)
      scene.breakLaw(
        6,
        `job ${job.id}: ${name} is let go after ${now - failedAt} ms, and was to be held for ${holdOnFailure}`,
      );
  }
  const isOwned = job.spec.capacity.ownership === 'owned';
  const hasGivenUp = isNews && job.settled.reason === 'allocation_failed' && ledger.refused.size === 0;
  // A name that somebody else has taken is an end, too.
  const isTaken = job.allocations.some(({ name }) =>
    scene.world().machines.some((one) => one.name === name && one.isStanding),
  );
  if (isOwned && hasGivenUp && limits.capacityWait === null && !isTaken)
    scene.breakLaw(10, `job ${job.id} has given up waiting for capacity, and its owner has set no limit`);
}

// ------------------------------------------------------------------------------------------ 1: unknown is not absent. A controller ends a program or releases a machine only for a reason that the world knows

/**
 * Every reason for a controller to end a program or to release a machine, as far as the world and the owner know of it:
 * the owner's word, the cloud's act, a program that ended or overstayed, a host that was silent for too long.
 */
export function hasGround(scene: Scene, ledger: Ledger, machine: Machine | undefined): boolean {
  const { now } = scene.world().timeline;
  const { job } = ledger;
  if (job.desired !== 'run' || ledger.words > 0) return true;
  // A job that only sets up is done when it has; checkSetUp holds its end against the world.
  if (job.spec.command.isSetupOnly === true && job.settled?.verdict === 'succeeded') return true;
  const { limits, recovery } = job.spec;
  if (ledger.troubles >= limits.setupTries) return true;
  if (ledger.refused.size > 0) return true;
  const runs = scene.world().runs.filter((run) => run.job === job.id);
  if (runs.some((run) => run.endedAt !== null)) return true;
  const { troubleTimeout = Infinity } = limits;
  if (runs.some(({ hungAt }) => hungAt !== null && now - hungAt >= troubleTimeout * 0.9)) return true;
  for (const run of runs) {
    if (run.startedAt === null) continue;
    if (limits.maxRuntime !== null && now - run.startedAt >= limits.maxRuntime * 0.9) return true;
    const gang = runs.filter(({ attempt }) => attempt === run.attempt);
    const { silenceTimeout } = limits;
    if (silenceTimeout !== null && gang.every((one) => now - printedAt(one, now) >= silenceTimeout * 0.9)) return true;
  }
  if (limits.capacityWait !== null && now - ledger.madeAt >= limits.capacityWait * 0.9) return true;
  if (machine === undefined) return true;
  if (isWaitedOut(ledger, machine) || isLate(ledger, machine)) return true;
  // One that was lost or let go may have come back by a late message.
  const ofThatName = scene.world().machines.filter((one) => one.name === machine.name);
  if (ofThatName.some((one) => one.lostAt !== null || one.releaseAskedAt !== null)) return true;
  if (machine.wasInterrupted || machine.hosts.some((host) => host.restarts > 0)) return true;
  // Two silences with no look between them are one to whoever looks.
  const silentLongest = Math.max(...machine.hosts.map((host) => host.silentLongest(now)));
  if (silentLongest + scene.world().lineCutLongest >= recovery.unreachableGrace * 0.8) return true;
  return scene.jumps.some((at) => at >= ledger.madeAt);
}

/** A queue that was waited in for as long as the owner allows, and that had given nothing when it was last looked at. */
function isWaitedOut({ job, firstAsked, passedOver }: Ledger, machine: Machine): boolean {
  const { capacity } = job.spec;
  const patience = capacity.kind === 'tpu' ? capacity.alternativesWait : undefined;
  const ordinal = job.allocations.find((one) => one.name === machine.name)?.ordinal ?? 0;
  const askedAt = firstAsked.get(ordinal);
  const passedAt = passedOver.get(ordinal);
  if (patience === undefined || askedAt === undefined || passedAt === undefined) return false;
  // A list may be some seconds old, and a pass takes some after it.
  const wasEmpty = machine.readyAt === null || machine.readyAt > passedAt - 15 * second;
  return wasEmpty && passedAt - askedAt >= patience * 0.9;
}

/** A machine of a request that got no answer, made after its place had nothing and was passed over for that. */
function isLate({ job, nothing, passedOver }: Ledger, machine: Machine): boolean {
  const ordinal = job.allocations.find((one) => one.name === machine.name)?.ordinal ?? 0;
  const passedAt = passedOver.get(ordinal);
  const wasTold = [...nothing.values()].some((one) => one.allocation === ordinal);
  return wasTold && passedAt !== undefined && machine.madeAt >= passedAt;
}

/** A second machine is asked for while the first is well and nobody has let it go. */
export function checkSecond(scene: Scene, ref: AllocationRef, ledger: Ledger): void {
  if (ref.allocation.ordinal < 2) return;
  for (const machine of scene.world().machines) {
    const { labels } = machine;
    if (labels === null || labels.job !== ref.job.id || labels.allocation >= ref.allocation.ordinal) continue;
    if (machine.state !== 'ready' || machine.releaseAskedAt !== null) continue;
    const wasLetGo = ledger.accepted.has(`release/${labels.allocation}`);
    if (!wasLetGo)
      scene.breakLaw(1, `job ${ref.job.id}: ${ref.allocation.name} is asked for while ${machine.name} is well`);
  }
}

// ------------------------------------------------------------------------------------------ 12: of several alternatives none is asked before its pace, and every one is asked in each round

/** One stay of an allocation in a place. */
export function visitKey(ref: AllocationRef, ledger: Ledger): string {
  const key = placeKey(ref, ledger);
  return `${ref.allocation.ordinal}/${key}/${ledger.rounds.get(key) ?? 0}`;
}

/** Which place of which attempt that allocation is for. */
export function placeKey({ allocation }: AllocationRef, { job }: Ledger): string {
  return `${job.attempts.length}/${allocation.place ?? 0}`;
}

/**
 * Of several places none is asked for something new right after it has said that it has nothing, or soon after it has said
 * that we lack a right, and none before every other that is open has been asked as often. Where the clock jumped forward
 * meanwhile, or while that was being said, the wait may be over by it; a clock that is set back makes no wait short.
 */
export function checkPlaces(scene: Scene, ref: AllocationRef, ledger: Ledger): void {
  const { job } = ledger;
  const { capacity } = job.spec;
  const { place = 0 } = ref.allocation;
  const others = capacity.kind === 'tpu' ? (capacity.alternatives?.length ?? 0) : 0;
  const attempt = job.attempts.at(-1);
  if (others === 0 || attempt === undefined || (ledger.requests.get(visitKey(ref, ledger)) ?? []).length > 1) return;
  const key = placeKey(ref, ledger);
  const told = ledger.nothing.get(key);
  const soon = told?.isForbidden === true ? 7 * minute : 20 * second;
  const isSoon = told !== undefined && ledger.rounds.has(key) && scene.world().timeline.now < told.at + soon;
  if (isSoon && !scene.jumps.some((at) => at >= told.at - replyMost))
    scene.breakLaw(12, `job ${job.id}: place ${place} is asked again too soon after it said that it has nothing`);
  const isBarred = (which: number): boolean =>
    ledger.nothing.get(`${job.attempts.length}/${which}`)?.isForbidden === true;
  const rounds = (which: number): number => ledger.rounds.get(`${job.attempts.length}/${which}`) ?? 0;
  for (let other = 0; other <= others; other += 1) {
    if (!isBarred(place) && !isBarred(other) && rounds(other) < rounds(place) && !isAvoided(job, other))
      scene.breakLaw(12, `job ${job.id}: place ${place} is asked again before place ${other}`);
  }
  if (isAvoided(job, place))
    scene.breakLaw(12, `job ${job.id}: place ${place} is asked, whose zone a rule has turned from`);
}

/** A zone that a rule has turned from since the owner's newest word or the last success, as long as another is left. */
function isAvoided(job: Job, place: number): boolean {
  const { capacity, recovery } = job.spec;
  if (capacity.kind !== 'tpu') return false;
  const zones = placesOf(capacity).map(({ zone }) => zone);
  const chance = job.attempts.findLastIndex(
    ({ asked, ordinal }) => asked || job.attempts[ordinal - 2]?.ending?.reason === 'succeeded',
  );
  const left = new Set(
    job.attempts.slice(Math.max(0, chance)).flatMap(({ ending, allocation }) => {
      const isTurned = ending !== null && ruleOf(recovery, ending)?.avoidZone === true;
      return isTurned ? [zones[job.allocations[allocation - 1]?.place ?? 0]] : [];
    }),
  );
  return left.has(zones[place]) && zones.some((zone) => !left.has(zone));
}

// ------------------------------------------------------------------------------------------ 13: this machine never runs more jobs at once than it has slots

/** No more jobs of this machine's own capacity have a program alive at once than there are slots. */
export function checkSlots(scene: Scene, run: Run, { job }: Ledger): void {
  if (job.spec.capacity.kind !== 'local') return;
  const alive = new Set(
    scene
      .world()
      .runs.filter((one) => one === run || isAlive(one))
      .filter((one) => scene.ledgerOf(one.job).job.spec.capacity.kind === 'local')
      .map((one) => one.job),
  );
  if (alive.size > slots)
    scene.breakLaw(13, `${runName(run)} begins as one of ${alive.size}, and there are ${slots} slots`);
}
