// Invariant 12: of several alternatives none is asked before its pace, and every one is asked in each round.

import type { AllocationRef } from '../../src/app/ports.ts';
import type { Job } from '../../src/core/job.ts';
import { placesOf } from '../../src/core/spec.ts';
import { ruleOf } from '../../src/core/recover.ts';
import { minute, second } from '../../src/core/time.ts';
import { replyMost } from './scene.ts';
import type { Scene, Ledger } from './scene.ts';

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
