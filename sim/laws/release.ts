// Invariants 3, 6 and 10: what may be released, and when, and when waiting for capacity may end.

import type { Job } from '../../src/core/job.ts';
import type { Scene, Ledger } from './scene.ts';

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
