// Invariant 6: a finished job holds nothing that it was not told to keep.

import type { Allocation, Job } from '../../src/core/job.ts';
import { second } from '../../src/core/time.ts';
import { zoneOf } from '../cloud.ts';
import { findMachine } from '../world.ts';
import type { Machine } from '../world.ts';
import { drainMost } from './scene.ts';
import type { Scene, Ledger } from './scene.ts';

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
