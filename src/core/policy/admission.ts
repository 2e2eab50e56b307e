// Admission: the order in which jobs get their shares of pools: the slots of this machine, or a persistent TPU, which one
// job uses at a time. A cloud has its own queue for the others.

import { capacityTraits, persistentTpuOf } from '../decide/allocate.ts';
import { compareText } from '../model/compare-text.ts';
import { openAttempt } from '../model/job.ts';
import type { Job } from '../model/job.ts';
import { minute } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';

/** A job keeps its slot in a backoff up to this length, so that a quick restart need not wait for a long job. */
const shortBackoff: Duration = minute;

/** Capacity that several jobs queue for, in units such as the slots of a machine. */
export interface Pool {
  readonly name: string;
  readonly units: number;
}

/** The units of one pool that a job needs or has. */
export interface PoolShare {
  readonly job: string;
  readonly pool: string;
  readonly units: number;
}

/** A share that a job waits for. */
export interface Demand extends PoolShare {
  /** Time of the start request, or of the creation without a request. The earliest comes first. */
  readonly since: Instant;
  /** The end of a long backoff, in which the job gets no share. */
  readonly notBefore: Instant;
  /** Admitted already, and not in the usage yet. It comes before the others, so that no unit is given twice. */
  readonly isAdmitted: boolean;
}

/**
 * Ids of the jobs that may continue: each one in the usage, and those whose demand fits into their pool. A demand that does
 * not fit holds back all later ones of its pool, so that smaller ones cannot pass it for ever. A pool that does not exist
 * (a host that left the settings) admits none.
 */
export function admit(
  pools: readonly Pool[],
  demands: readonly Demand[],
  usage: readonly PoolShare[],
  now: Instant,
): ReadonlySet<string> {
  const free = new Map(pools.map(({ name, units }) => [name, units]));
  for (const { pool, units } of usage) free.set(pool, (free.get(pool) ?? 0) - units);
  const admitted = demands
    .filter(({ notBefore }) => notBefore <= now)
    .toSorted((a, b) => Number(b.isAdmitted) - Number(a.isAdmitted) || compareDemands(a, b))
    .filter(({ pool, units }) => {
      const left = (free.get(pool) ?? 0) - units;
      free.set(pool, left);
      return left >= 0;
    });
  return new Set([...usage, ...admitted].map(({ job }) => job));
}

function compareDemands(a: Demand, b: Demand): number {
  return a.since - b.since || compareText(a.job, b.job);
}

/** Undefined for a job whose capacity has no pool. */
function shareOf({ id, spec }: Job): PoolShare | undefined {
  const { pool } = capacityTraits(spec.capacity);
  return pool === null ? undefined : { job: id, pool, units: 1 };
}

export function needsSlot(job: Job): boolean {
  return shareOf(job) !== undefined;
}

/** The pools, with those of the persistent TPUs of these jobs. */
export function withTpus(pools: readonly Pool[], jobs: readonly Job[]): readonly Pool[] {
  const tpus = new Set(jobs.map(({ spec }) => persistentTpuOf(spec.capacity)).filter((tpu) => tpu !== null));
  return [...pools, ...[...tpus].map((name) => ({ name, units: 1 }))];
}

/** True from a start request until the end of the last attempt, unless the request waits for another job there. */
export function usesPersistentTpu(job: Job): boolean {
  if (persistentTpuOf(job.spec.capacity) === null || job.finish !== null || job.removed) return false;
  return openAttempt(job) !== undefined || (job.startRequest !== null && job.startRequest.waitsForTpu !== true);
}

/**
 * True from the first attempt until the job finishes, except in a long backoff: slots are for programs that run. A job
 * keeps its persistent TPU in a backoff, too.
 */
export function holdsSlot(job: Job): boolean {
  if (job.spec.capacity.kind === 'tpu') return usesPersistentTpu(job);
  return needsSlot(job) && job.finish === null && openAttempt(job) !== undefined && longBackoffEnd(job) === undefined;
}

/** True for a job that would run if it had a slot, now or after its backoff. */
export function waitsForSlot(job: Job): boolean {
  if (!needsSlot(job) || job.finish !== null || job.desired !== 'running' || job.removed) return false;
  if (job.spec.capacity.kind === 'tpu') return !usesPersistentTpu(job);
  return openAttempt(job) === undefined || longBackoffEnd(job) !== undefined;
}

export function usageOf(jobs: readonly Job[]): readonly PoolShare[] {
  return jobs.filter(holdsSlot).flatMap((job) => shareOf(job) ?? []);
}

/** `admitted` is the latest result of `admit`. */
export function demandsOf(jobs: readonly Job[], admitted: ReadonlySet<string> = new Set()): readonly Demand[] {
  return jobs.filter(waitsForSlot).flatMap((job) => {
    const share = shareOf(job);
    if (share === undefined) return [];
    const since = job.startRequest?.at ?? job.createdAt;
    return [{ ...share, since, notBefore: longBackoffEnd(job) ?? -Infinity, isAdmitted: admitted.has(job.id) }];
  });
}

/** The end of the long backoff with which the open attempt began. Undefined once the attempt has started. */
function longBackoffEnd(job: Job): Instant | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.startedAt !== null || attempt.ending !== null) return undefined;
  const since = attempt.movedAt ?? attempt.createdAt;
  return attempt.notBeforeAt > since + shortBackoff ? attempt.notBeforeAt : undefined;
}

/** Units of the job's pool, used units, and number of waiting jobs before this one. */
export interface QueuePosition {
  readonly slots: number;
  readonly slotsUsed: number;
  /** The ids of the jobs that use them. */
  readonly usedBy: readonly string[];
  readonly ahead: number;
}

/** Undefined for a job that waits for no slot. */
export function queuePositionOf(pools: readonly Pool[], jobs: readonly Job[], job: Job): QueuePosition | undefined {
  const [own] = demandsOf([job]);
  if (own === undefined) return undefined;
  const isSamePool = ({ pool }: PoolShare) => pool === own.pool;
  const ahead = demandsOf(jobs).filter((other) => isSamePool(other) && compareDemands(other, own) < 0);
  const used = usageOf(jobs).filter(isSamePool);
  return {
    slots: withTpus(pools, [job]).find(({ name }) => name === own.pool)?.units ?? 0,
    slotsUsed: used.reduce((sum, { units }) => sum + units, 0),
    usedBy: used.map((share) => share.job),
    ahead: ahead.length,
  };
}

/** True if the job is in the result of `admit`, or needs no slot. */
export function isAdmitted(admitted: ReadonlySet<string>, job: Job): boolean {
  return !needsSlot(job) || admitted.has(job.id);
}
