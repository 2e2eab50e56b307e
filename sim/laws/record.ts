// Invariants 2, 3 and 4, for calls as they arrive: the record says so first, and of the thing that is meant.

import type { AllocationRef, Stray } from '../../src/app/ports.ts';
import type { Allocation, Job } from '../../src/core/job.ts';
import type { Scene, Ledger } from './scene.ts';

export function checkRecorded(scene: Scene, kind: string, ref: AllocationRef, detail: string, ledger: Ledger): void {
  const { ordinal } = ref.allocation;
  const allocation = ledger.job.allocations[ordinal - 1];
  const name = `job ${ref.job.id}: ${kind} ${ordinal} ${detail}`;
  if (allocation === undefined) {
    scene.breakLaw(2, `${name} was done, and the record has no such allocation`);
    return;
  }
  const [first = '', worker = ''] = detail.split('/');
  switch (kind) {
    case 'request':
      if (allocation.requestedAt === null) scene.breakLaw(2, `${name} was done before the record said so`);
      return;
    case 'release':
      if (allocation.releasedAt === null) scene.breakLaw(2, `${name} was done before the record said so`);
      return;
    case 'step':
      if (allocation.releasedAt !== null) scene.breakLaw(3, `${name} was done on an allocation that was let go`);
      return;
    case 'start':
    case 'stop': {
      const attempt = ledger.job.attempts[Number(first) - 1];
      if (attempt === undefined) {
        scene.breakLaw(2, `${name} was done, and the record has no such attempt`);
        return;
      }
      if (attempt.allocation !== ordinal)
        scene.breakLaw(3, `${name} is about attempt ${first}, which is not on that allocation`);
      if (kind === 'start' && attempt.startedAt === null)
        scene.breakLaw(2, `${name} was done before the record said so`);
      const isOver = attempt.endedAt !== null || attempt.ending !== null;
      if (kind === 'start' && isOver) scene.breakLaw(4, `${name} starts what the record has ended on ${worker}`);
      if (kind === 'stop' && attempt.ending === null) scene.breakLaw(2, `${name} was done before the record said so`);
    }
  }
}

export function checkAccepted(
  scene: Scene,
  job: Job,
  allocation: Allocation,
  old: Allocation | undefined,
  ledger: Ledger,
): void {
  if (allocation.acceptedAt === null || allocation.acceptedAt === old?.acceptedAt) return;
  const kind = allocation.releasedAt === null ? 'request' : 'release';
  if (ledger.accepted.has(`${kind}/${allocation.ordinal}`)) return;
  const hasExisted = scene.world().machines.some((one) => one.name === allocation.name);
  if (kind === 'request' && hasExisted) return;
  scene.breakLaw(
    3,
    `job ${job.id}: the ${kind} of allocation ${allocation.ordinal} counts as accepted, and nobody said so`,
  );
}

/** Orphan collection deletes only what an allocation of ours was, and what that allocation does not claim any more. */
export function checkStray(scene: Scene, stray: Stray): void {
  const ledger = scene.ledgers.get(stray.job);
  if (ledger === undefined) {
    scene.breakLaw(3, `${stray.resource} was deleted, and no job here has ever claimed it`);
    return;
  }
  const allocation = ledger.job.allocations[stray.allocation - 1];
  if (allocation === undefined)
    scene.breakLaw(3, `${stray.resource} was deleted, and no allocation here has that number`);
  else if (allocation.goneAt === null) scene.breakLaw(3, `${stray.resource} was swept away while its job claims it`);
}
