// Checks of the usage ledger: invariant 16.

import type { Allocation, Job } from '../../src/core/model/job.ts';
import { isForceRemoved, lateAllocations } from '../../src/core/model/job.ts';
import { readyPeriodsOf, type ReadyPeriod } from '../../src/core/model/ready-periods.ts';
import { minute } from '../../src/core/model/time.ts';
import { usageOf } from '../../src/reports/usage.ts';
import { zoneOf } from '../cloud.ts';
import type { Machine } from '../world.ts';
import { epoch } from './context.ts';
import type { CheckContext, Ledger } from './context.ts';

/**
 * Longest time by which the ready time of an allocation may differ from the world's: while the controller is away or
 * the cloud does not answer, nothing is observed.
 */
const maxLag = 30 * minute;

/** When the world is at rest: the ledger has every machine that was ever ours, as long as it was ready. */
export function checkUsage(context: CheckContext, { job, events }: Ledger): void {
  const { machines } = context.world();
  // The ledger has the controllers' time, which says little after a jump. A removed job has no pass that notices one.
  const wasSetBack =
    events.some(({ kind }) => kind === 'clock_set_back') ||
    job.attempts.some(({ createdAt }) => createdAt < job.createdAt) ||
    (isForceRemoved(job) && context.wasClockSetBack);
  const isClockKept = context.clockJumps.length === 0 && !wasSetBack;
  checkStretches(context, job, isClockKept);
  for (const allocation of job.allocations) {
    if (allocation.ownership === 'persistent') continue;
    const ours = machines.filter(({ labels }) => labels?.job === job.id && labels.allocation === allocation.ordinal);
    const parts = [allocation, ...lateAllocations(allocation)];
    const zoneOfPart = (part: Allocation): string => zoneOf({ job, allocation: part });
    for (const zone of new Set([...parts.map(zoneOfPart), ...ours.map((machine) => machine.zone)])) {
      const there = ours.filter((machine) => machine.zone === zone);
      const name = `job ${job.id}: ${allocation.name} in ${zone}`;
      const periods = parts.filter((part) => zoneOfPart(part) === zone).flatMap((part) => readyPeriodsOf(part));
      checkReadyNow(context, name, job, periods, there);
      // No controller waits for the end of a machine of a job that was removed by force.
      const isUnended = isForceRemoved(job) && periods.some(({ until }) => until === null);
      if (isClockKept && !isUnended) checkReadyTime(context, name, job, periods, there);
    }
  }
}

function checkStretches(context: CheckContext, job: Job, isClockKept: boolean): void {
  const rows = usageOf(job);
  for (const [index, row] of rows.entries()) {
    const before = rows[index - 1];
    const isOrdered = row.until === null || row.until > row.from;
    if (!isOrdered) context.fail(16, `job ${job.id}: a stretch of ${row.name} ends before it begins`);
    if (before?.allocation !== row.allocation || before.location !== row.location) continue;
    const gap = before.until === null ? Number.NaN : row.from - before.until;
    const mayHaveGap =
      !isClockKept || row.ownership === 'persistent' || (row.use === 'waiting' && before.use === 'waiting');
    if (gap !== 0 && !(mayHaveGap && gap > 0))
      context.fail(16, `job ${job.id}: two stretches of ${row.name} overlap or have a gap of ${gap} ms`);
  }
}

/** Of a job that was removed by force, only orphan collection observes machines, and no controller waits for that. */
function checkReadyNow(
  context: CheckContext,
  name: string,
  job: Job,
  periods: readonly ReadyPeriod[],
  ours: readonly Machine[],
): void {
  const isCharged = periods.some(({ until }) => until === null);
  const ready = ours.filter(({ state }) => state === 'ready');
  const isReady = ready.length > 0;
  // After a jump forward the controller no longer expects late requests, and exits before it lists one that took effect.
  const mayBeUnseen = isForceRemoved(job) || context.clockJumps.length > 0;
  const isExcused = mayBeUnseen && ready.every((machine) => isUnseen(context, machine, machine.readyPeriods.at(-1)));
  if (isReady && !isCharged && !isExcused) context.fail(16, `${name} is ready, and the ledger does not charge it`);
  if (isCharged && !isReady && !isForceRemoved(job))
    context.fail(16, `${name} is not ready, and the ledger charges it`);
}

/** No list has shown the machine since it became ready for that period. */
function isUnseen(context: CheckContext, { zone }: Machine, period: { readonly from: number } | undefined): boolean {
  return (period?.from ?? 0) > (context.world().listedAt.get(zone) ?? -Infinity);
}

function checkReadyTime(
  context: CheckContext,
  name: string,
  job: Job,
  periods: readonly ReadyPeriod[],
  ours: readonly Machine[],
): void {
  const { now } = context.world().timeline;
  const seen = ours.flatMap((machine) =>
    machine.readyPeriods.filter((period) => !isForceRemoved(job) || !isUnseen(context, machine, period)),
  );
  const truth = totalOf(seen, now);
  const recorded = totalOf(periods, epoch + now + context.clockOffset);
  if (Math.abs(recorded - truth) > maxLag)
    context.fail(16, `${name} was ready for ${truth} ms, and the ledger has ${recorded} ms`);
}

function totalOf(periods: readonly { readonly from: number; readonly until: number | null }[], now: number): number {
  return periods.reduce((sum, { from, until }) => sum + ((until ?? now) - from), 0);
}
