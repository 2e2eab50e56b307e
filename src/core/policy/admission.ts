// Admission: the order in which jobs get their shares of pools: the slots of hosts, or a persistent TPU, which one job uses
// at a time. A cloud has its own queue for the others.

import { capacityTraits, persistentTpuOf } from '../decide/allocate.ts';
import { compareText } from '../model/compare-text.ts';
import { lastAllocation, mayOutliveRemoval, openAttempt, usableAllocation, type Job, type Slot } from '../model/job.ts';
import { isOnThisMachine } from '../model/spec.ts';
import { minute, type Duration, type Instant } from '../model/time.ts';

/** A job keeps its slots in a backoff up to this length, so that a quick restart need not wait for a long job. */
const shortBackoff: Duration = minute;

/** Capacity that several jobs queue for, in slots. */
export interface Pool {
  readonly name: string;
  readonly slots: number;
  /** The slots share them evenly, in contiguous groups. Null: none. */
  readonly gpus: number | null;
}

/** The slots that a job has, one in each of the pools. `slots` is undefined if their numbers are not recorded. */
export interface Usage {
  readonly job: string;
  readonly pools: readonly string[];
  readonly slots: readonly Slot[] | undefined;
}

/** The pools in each of which a job waits for a slot. */
export interface Demand {
  readonly job: string;
  readonly pools: readonly string[];
  /** Time of the start request, or of the creation without a request. The earliest comes first. */
  readonly since: Instant;
  /** The end of a long backoff, in which the job gets no slot. */
  readonly notBefore: Instant;
  /** The slots that the job was admitted with, while the usage does not have them yet. No other job gets them. */
  readonly given: readonly Slot[] | undefined;
}

/** The slots of each admitted job, in the order of its pools. */
export type Admitted = ReadonlyMap<string, readonly Slot[]>;

/**
 * The jobs that may continue: those in the usage, and those for which each of their pools has a free slot. A job gets
 * all of its slots or none. One that does not get all of them reserves a free slot of each pool, so that later jobs
 * cannot overtake it indefinitely. A job that names a pool that does not exist (a host that was removed from the
 * settings) waits and reserves nothing.
 */
export function admit(
  pools: readonly Pool[],
  demands: readonly Demand[],
  usage: readonly Usage[],
  now: Instant,
): Admitted {
  const due = demands.filter(
    ({ notBefore, pools: named }) =>
      notBefore <= now && named.every((name) => pools.some((pool) => pool.name === name)),
  );
  const given = due.filter((demand) => demand.given !== undefined).map((one) => ({ ...one, slots: one.given }));
  const free = new Map(pools.map((pool) => [pool.name, freeSlots(pool, [...usage, ...given])]));
  const admitted = new Map([...usage, ...given].map(({ job, slots = [] }) => [job, slots]));
  for (const demand of due.filter((one) => one.given === undefined).toSorted(compareDemands)) {
    const slots = demand.pools.map((pool) => free.get(pool)?.shift()).filter((slot) => slot !== undefined);
    if (slots.length === demand.pools.length) admitted.set(demand.job, slots);
  }
  return admitted;
}

/** Lowest first. After a change of the settings a used slot can overlap several of the new ones. */
function freeSlots(pool: Pool, usage: readonly Usage[]): Slot[] {
  const users = usage.filter(({ pools }) => pools.includes(pool.name));
  const used = users.flatMap(({ pools, slots }) => slots?.[pools.indexOf(pool.name)] ?? []);
  const free = slotsOf(pool).filter((slot) => !used.some((other) => overlap(slot, other)));
  return free.slice(0, Math.max(0, pool.slots - users.length));
}

/** Includes those whose GPUs a job has from earlier settings. */
function usedSlots(pool: Pool, usage: readonly Usage[]): number {
  return pool.slots - freeSlots(pool, usage).length;
}

function slotsOf({ slots, gpus }: Pool): readonly Slot[] {
  const share = (gpus ?? 0) / slots;
  return Array.from({ length: slots }, (_, slot) =>
    gpus === null ? { slot } : { slot, gpus: Array.from({ length: share }, (_gpu, index) => slot * share + index) },
  );
}

function overlap(one: Slot, other: Slot): boolean {
  if (one.gpus === undefined || other.gpus === undefined) return one.slot === other.slot;
  return one.gpus.some((gpu) => other.gpus?.includes(gpu));
}

function compareDemands(a: Demand, b: Demand): number {
  return a.since - b.since || compareText(a.job, b.job);
}

function poolsOf({ spec }: Job): readonly string[] {
  return capacityTraits(spec.capacity).pools;
}

export function needsSlot(job: Job): boolean {
  return poolsOf(job).length > 0;
}

/** The pools, with those of the persistent TPUs of these jobs. */
export function withTpus(pools: readonly Pool[], jobs: readonly Job[]): readonly Pool[] {
  const tpus = new Set(jobs.map(({ spec }) => persistentTpuOf(spec.capacity)).filter((tpu) => tpu !== null));
  return [...pools, ...[...tpus].map((name) => ({ name, slots: 1, gpus: null }))];
}

/** True from a start request until the end of the last attempt, unless the request waits for another job there. */
export function usesPersistentTpu(job: Job): boolean {
  if (persistentTpuOf(job.spec.capacity) === null || job.finish !== null || job.removed) return false;
  return openAttempt(job) !== undefined || (job.startRequest !== null && job.startRequest.waitsForTpu !== true);
}

/**
 * True from the first attempt until the job finishes, except in a long backoff: slots are for programs that run. A job
 * keeps its persistent TPU in a backoff, too. After a forced delete it keeps the slots until its hosts answer and its
 * program has ended, because the next job would share the GPUs. A program on the machine of another controller uses no slot
 * of this one.
 */
export function holdsSlot(job: Job): boolean {
  if (job.spec.capacity.kind === 'tpu') return usesPersistentTpu(job);
  if (!needsSlot(job) || job.finish !== null || openAttempt(job) === undefined) return false;
  if (job.removed && !mayOutliveRemoval(job)) return false;
  if (lastAllocation(job)?.unreachableWho === 'machine' && isOnThisMachine(job.spec)) return false;
  return longBackoffEnd(job) === undefined;
}

/** True for a job that would run if it had a slot, now or after its backoff. */
export function waitsForSlot(job: Job): boolean {
  if (!needsSlot(job) || job.finish !== null || job.desired !== 'running' || job.removed) return false;
  if (job.spec.capacity.kind === 'tpu') return !usesPersistentTpu(job);
  return openAttempt(job) === undefined || longBackoffEnd(job) !== undefined;
}

export function usageOf(jobs: readonly Job[]): readonly Usage[] {
  return jobs
    .filter(holdsSlot)
    .map((job) => ({ job: job.id, pools: poolsOf(job), slots: usableAllocation(job)?.slots }));
}

/** `admitted` is the latest result of `admit`. */
export function demandsOf(jobs: readonly Job[], admitted: Admitted = new Map()): readonly Demand[] {
  return jobs.filter(waitsForSlot).map((job) => {
    const since = job.startRequest?.at ?? job.createdAt;
    const notBefore = unendedBefore(job, jobs).length > 0 ? Infinity : (longBackoffEnd(job) ?? -Infinity);
    return { job: job.id, pools: poolsOf(job), since, notBefore, given: admitted.get(job.id) };
  });
}

/** The jobs that this one replaces and that still use their TPU. */
function unendedBefore({ startRequest }: Job, jobs: readonly Job[]): readonly string[] {
  const after = startRequest?.after ?? [];
  return after.length === 0 ? [] : jobs.flatMap((job) => (after.includes(job.id) && holdsSlot(job) ? [job.id] : []));
}

/** The end of the long backoff with which the open attempt began. Undefined once the attempt has started. */
function longBackoffEnd(job: Job): Instant | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.startedAt !== null || attempt.ending !== null) return undefined;
  const since = attempt.movedAt ?? attempt.createdAt;
  return attempt.notBeforeAt > since + shortBackoff ? attempt.notBeforeAt : undefined;
}

/** The ids of the jobs of one pool: those that hold a slot, and those that wait, the next one first. */
export interface PoolQueue {
  readonly pool: string;
  readonly slots: number;
  readonly slotsUsed: number;
  readonly usedBy: readonly string[];
  readonly waiting: readonly string[];
}

export function queuesOf(pools: readonly Pool[], jobs: readonly Job[]): readonly PoolQueue[] {
  const usage = usageOf(jobs);
  const demands = demandsOf(jobs).toSorted(compareDemands);
  return pools.map((pool) => ({
    pool: pool.name,
    slots: pool.slots,
    slotsUsed: usedSlots(pool, usage),
    usedBy: usage.flatMap((one) => (one.pools.includes(pool.name) ? [one.job] : [])),
    waiting: demands.flatMap((one) => (one.pools.includes(pool.name) ? [one.job] : [])),
  }));
}

/** The queue of one pool in which a job waits: its slots, the used ones, and the number of waiting jobs before this one. */
export interface QueuePosition {
  readonly pool: string;
  /** Null if the pool does not exist: a host that the settings do not name. */
  readonly slots: number | null;
  readonly slotsUsed: number;
  /** The ids of the jobs that use them. */
  readonly usedBy: readonly string[];
  readonly ahead: number;
  /** The jobs that this one replaces and that have not ended. */
  readonly after: readonly string[];
}

/**
 * The position in the pool that keeps the job waiting: a pool that does not exist, otherwise the fullest one. Undefined
 * for a job that waits for no slot.
 */
export function queuePositionOf(pools: readonly Pool[], jobs: readonly Job[], job: Job): QueuePosition | undefined {
  return queuePositions(pools, jobs)(job);
}

/** As `queuePositionOf`, for several jobs: the jobs that use slots and that wait are determined once. */
export function queuePositions(pools: readonly Pool[], jobs: readonly Job[]): (job: Job) => QueuePosition | undefined {
  const usage = usageOf(jobs);
  const demands = demandsOf(jobs).toSorted(compareDemands);
  const known = new Map<string, Omit<QueuePosition, 'ahead' | 'after'> & { readonly line: readonly Demand[] }>();
  const stateOf = (name: string, all: readonly Pool[]) => {
    const usedBy = usage.flatMap((one) => (one.pools.includes(name) ? [one.job] : []));
    const pool = all.find((one) => one.name === name);
    return {
      pool: name,
      slots: pool?.slots ?? null,
      slotsUsed: pool === undefined ? usedBy.length : usedSlots(pool, usage),
      usedBy,
      line: demands.filter((one) => one.pools.includes(name)),
    };
  };
  return (job) => {
    const [own] = demandsOf([job]);
    if (own === undefined) return undefined;
    const after = unendedBefore(job, jobs);
    const positions = own.pools.map((name): QueuePosition => {
      const { line, ...state } = known.get(name) ?? stateOf(name, withTpus(pools, [job]));
      known.set(name, { line, ...state });
      const behind = line.findIndex((one) => compareDemands(one, own) >= 0);
      return { ...state, ahead: behind === -1 ? line.length : behind, after };
    });
    const spare = ({ slots, slotsUsed, ahead }: QueuePosition): number =>
      slots === null ? -Infinity : slots - slotsUsed - ahead;
    return positions.toSorted((one, other) => spare(one) - spare(other))[0];
  };
}

/** True if the job is in the result of `admit`, or needs no slot. */
export function isAdmitted(admitted: Admitted, job: Job): boolean {
  return !needsSlot(job) || admitted.has(job.id);
}
