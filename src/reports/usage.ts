// Usage: the ledger of what each job has used. A row is one stretch of one allocation with one use and one price. The
// rows of a job follow from the job alone, so its events reproduce them. All cost and usage reports read these rows.

import { chipCount } from '../catalogue/accelerators.ts';
import { firstPriceTable } from '../catalogue/prices.ts';
import { capacityOf, isForceRemoved, isLost, lateAllocations } from '../core/model/job.ts';
import type { Allocation, Attempt, Job } from '../core/model/job.ts';
import { readyPeriodsOf, type ReadyPeriod } from '../core/model/ready-periods.ts';
import { emulatorProject, type CapacitySpec, type Pricing } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import { podPrice, type FlavorPrice } from './prices.ts';

/**
 * - waiting: requested and not ready, or under repair; not charged
 * - setup: ready, and the command of the attempt does not run yet
 * - useful: the command runs, and its work is kept, as far as jobman knows (`workKeptUntil`)
 * - lost: the command ran, and its work was lost
 * - idle: ready, but no attempt uses it: backoff, ending, releasing, superseded, orphan
 * - kept: ready after the job has finished
 */
type Use = 'waiting' | 'setup' | 'useful' | 'lost' | 'idle' | 'kept';

/**
 * The stretches of one allocation at one location do not overlap. There are gaps between the uses of persistent capacity,
 * and between two waits of a job that was stopped meanwhile. A TPU that appeared in an alternative after the job had left
 * it has rows of its own, with the values of that alternative.
 */
export interface UsageRow {
  /** Id of the job; for a job in a cluster its name there. */
  readonly job: string;
  /** Of a job in a cluster, where a later job may have the same name; otherwise null. */
  readonly uid: string | null;
  readonly source: 'tpu' | 'hosts' | 'kubernetes';
  /** From 1. In a cluster the number of the pod, in the order of their creation. */
  readonly allocation: number;
  /** Its name in the cloud; in a cluster the name of the pod. */
  readonly name: string;
  readonly owner: string | null;
  readonly jobName: string;
  readonly tags: readonly string[];
  /** The Google Cloud project; the context of the cluster. Null on this machine. */
  readonly project: string | null;
  /** The zone; in a cluster `context/namespace`. Null on this machine. */
  readonly location: string | null;
  /** The accelerator type; in a cluster the flavor. Null without one. */
  readonly accelerator: string | null;
  readonly pricing: Pricing | null;
  /** TPU chips or GPUs of the whole allocation. Null if their number is unknown. */
  readonly chips: number | null;
  readonly ownership: 'ephemeral' | 'persistent';
  readonly use: Use;
  /** The attempt, with `setup`, `useful` and `lost`. */
  readonly attempt: number | null;
  readonly from: Instant;
  /** Null: it continues. */
  readonly until: Instant | null;
  /** US dollars for the whole allocation. 0 while nothing is charged, null if no price is known. */
  readonly pricePerHourUsd: number | null;
  /** Date of the price table (`2026-08-01`), or `settings`. Null without a price, and while nothing is charged. */
  readonly pricesOf: string | null;
  /** True on the TPU emulator: the prices are Google's, and it is free. */
  readonly simulated: boolean;
}

/** Oldest allocation first, each in the order of time. */
export function usageOf(job: Job): readonly UsageRow[] {
  return job.allocations
    .flatMap((one) => [one, ...lateAllocations(one)])
    .flatMap((allocation) => {
      const capacity = capacityOf(job, allocation);
      const about = describeAllocation(job, allocation, capacity);
      const stretches = stretchesOf(job, allocation, sliceCountOf(capacity));
      const rows = stretches.flatMap(({ from, until, chargedShare }) =>
        usesOf(job, allocation, chargedShare === null).flatMap((one): readonly UsageRow[] => {
          const start = Math.max(from, one.from);
          const end = earlier(until, one.until);
          if (end !== null && end <= start) return [];
          const { use, attempt } = one;
          return [{ ...about, use, attempt, from: start, until: end, ...priceAt(capacity, chargedShare) }];
        }),
      );
      return joined(rows.toSorted((one, other) => one.from - other.from)).map((row) => sinceCreation(job, row));
    });
}

/**
 * If the clock was set back and later corrected, a row may begin before its job was created. It then begins at the
 * creation, because the earlier time may not have passed. A row that continues keeps its beginning: the clock may have
 * been wrong at the creation instead, and no budget may overlook what is being spent.
 */
function sinceCreation({ createdAt }: Job, row: UsageRow): UsageRow {
  const { from, until } = row;
  return from < createdAt && until !== null && until > createdAt ? { ...row, from: createdAt } : row;
}

/**
 * Adjacent rows that differ only in their times, as one. If the clock was set back, two rows may claim the same time, and
 * the earlier one gets it.
 */
function joined(rows: readonly UsageRow[]): readonly UsageRow[] {
  const result: UsageRow[] = [];
  for (const row of rows) {
    const last = result.at(-1);
    const { use, attempt, pricePerHourUsd, until } = row;
    if (last === undefined) {
      result.push(row);
      continue;
    }
    if (last.until === null || (until !== null && until <= last.until)) continue;
    const isContinued = last.until >= row.from;
    if (isContinued && last.use === use && last.attempt === attempt && last.pricePerHourUsd === pricePerHourUsd)
      result[result.length - 1] = { ...last, until };
    else result.push({ ...row, from: Math.max(row.from, last.until) });
  }
  return result;
}

function describeAllocation(
  job: Job,
  { ordinal, name, ownership }: Allocation,
  capacity: CapacitySpec,
): Omit<UsageRow, 'use' | 'attempt' | 'from' | 'until' | 'pricePerHourUsd' | 'pricesOf'> {
  const isTpu = capacity.kind === 'tpu';
  return {
    job: job.id,
    uid: null,
    source: capacity.kind,
    allocation: ordinal,
    name,
    owner: job.owner,
    jobName: job.spec.name,
    tags: job.spec.tags,
    project: isTpu ? capacity.project : null,
    location: isTpu ? capacity.zone : null,
    accelerator: isTpu ? capacity.accelerator : null,
    pricing: isTpu ? capacity.pricing : null,
    chips: isTpu ? chipCount(capacity.accelerator, sliceCountOf(capacity)) : null,
    ownership,
    simulated: isTpu && capacity.project === emulatorProject,
  };
}

function sliceCountOf(capacity: CapacitySpec): number {
  return capacity.kind === 'tpu' ? (capacity.nodeCount ?? 1) : 1;
}

/** `chargedShare` is the charged part of its slices, from 0 to 1; null while none is ready. */
function priceAt(
  { pricePerHourUsd = null, pricesOf = firstPriceTable }: CapacitySpec,
  chargedShare: number | null,
): Pick<UsageRow, 'pricePerHourUsd' | 'pricesOf'> {
  if (chargedShare === null || chargedShare === 0) return { pricePerHourUsd: 0, pricesOf: null };
  if (pricePerHourUsd === null) return { pricePerHourUsd: null, pricesOf: null };
  return { pricePerHourUsd: pricePerHourUsd * chargedShare, pricesOf };
}

// ------------------------------------------------------------------------------------------ readiness

interface Stretch {
  readonly from: Instant;
  readonly until: Instant | null;
  readonly chargedShare: number | null;
}

/** The allocation's time from its request on, divided wherever a slice becomes ready or stops being ready. */
function stretchesOf(job: Job, allocation: Allocation, slices: number): readonly Stretch[] {
  const periods = readyPeriodsOf(allocation);
  const start = allocation.waitingSince ?? allocation.requestedAt ?? periods[0]?.from;
  if (start === undefined) return [];
  const end = endOf(job, allocation, periods);
  const times = periods.flatMap(({ from, until }) => (until === null ? [from] : [from, until]));
  const borders = [...new Set([start, ...times])]
    .filter((at) => at >= start && (end === null || at < end))
    .toSorted((one, other) => one - other);
  return borders.map((from, index) => {
    const ready = periods.filter((one) => one.from <= from && (one.until === null || one.until > from));
    const charged = ready.filter(({ free }) => free !== true).length;
    return { from, until: borders[index + 1] ?? end, chargedShare: ready.length === 0 ? null : charged / slices };
  });
}

/** The time from which it cannot be ready any more. Null while it may wait, be ready or become ready again. */
function endOf(job: Job, allocation: Allocation, periods: readonly ReadyPeriod[]): Instant | null {
  const { releasedAt, goneAt, lastObserved } = allocation;
  if (periods.some(({ until }) => until === null)) return null;
  const lostAt = isLost(allocation) ? (lastObserved?.at ?? goneAt) : null;
  const removedAt = isForceRemoved(job) ? job.desiredAt : null;
  const end = [releasedAt, goneAt, lostAt, removedAt].reduce(earlier);
  if (end === null || periods.length === 0) return end;
  // It may become ready after its release was requested, and be charged until its deletion.
  return Math.max(...periods.map(({ until }) => until ?? 0));
}

/** Null is later than any time. */
function earlier(one: Instant | null, other: Instant | null): Instant | null {
  if (one === null || other === null) return one ?? other;
  return Math.min(one, other);
}

// ------------------------------------------------------------------------------------------ uses

interface AllocationUse {
  readonly use: Use;
  readonly attempt: number | null;
  readonly from: Instant;
  readonly until: Instant | null;
}

/**
 * The uses of the allocation over all time. While the allocation is not ready, its only use is waiting. Persistent
 * capacity counts only while the job uses it, because it exists before and after the job.
 */
function usesOf(job: Job, allocation: Allocation, isWaiting: boolean): readonly AllocationUse[] {
  const attempts = job.attempts.filter((one) => one.allocation === allocation.ordinal);
  const uses = attempts.flatMap((attempt) => usesByAttempt(job, attempt));
  const releasedAt = earlier(allocation.releasedAt, isForceRemoved(job) ? job.desiredAt : null);
  const cut = uses.flatMap((one): readonly AllocationUse[] => {
    const until = earlier(one.until, releasedAt);
    return until !== null && until <= one.from ? [] : [{ ...one, until }];
  });
  // A finished job does not wait for capacity that was never ready, and does not keep persistent capacity.
  const isPersistent = allocation.ownership === 'persistent';
  const isKept = !isPersistent && readyPeriodsOf(allocation).length > 0;
  const used = isKept ? cut : cut.filter(({ use }) => use !== 'kept');
  // The attempt after the last use may have moved to another allocation, long before the release of this one.
  const unusedSince = (isKept ? used.at(-1)?.until : null) ?? releasedAt;
  const whole = isPersistent
    ? used
    : [
        { ...idle, from: -Infinity, until: used[0]?.from ?? releasedAt },
        ...used,
        ...(unusedSince === null ? [] : [{ ...idle, from: unusedSince, until: null }]),
      ];
  return isWaiting ? whole.map((one) => ({ ...one, use: 'waiting' as const, attempt: null })) : whole;
}

const idle = { use: 'idle', attempt: null } as const;

/** From the creation of the attempt to that of the next one. */
function usesByAttempt(job: Job, attempt: Attempt): readonly AllocationUse[] {
  const { ordinal, createdAt, notBeforeAt, runningAt, startedAt, ending, endedAt } = attempt;
  const next = job.attempts[ordinal];
  const endingAt = ending?.startedAt ?? null;
  // A start that failed on some worker never ran the command.
  const ranAt = runningAt ?? (endingAt !== null && ending?.reason !== 'setup_failed' ? startedAt : null);
  const keptUntil = workKeptUntil(job, attempt);
  const uses: AllocationUse[] = [];
  let at = createdAt;
  const add = (use: Use, until: Instant | null): void => {
    if (at === Infinity || (until !== null && until <= at)) return;
    uses.push({ use, attempt: use === 'idle' || use === 'kept' ? null : ordinal, from: at, until });
    at = until ?? Infinity;
  };
  add('idle', earlier(Math.max(at, notBeforeAt), endingAt));
  add('setup', earlier(ranAt, endingAt));
  if (ranAt !== null) {
    add('useful', earlier(keptUntil, endingAt));
    add('lost', endingAt);
  }
  add('idle', endedAt);
  // An attempt of the owner follows a job that had finished.
  add(next === undefined || next.startedByOwner ? 'kept' : 'idle', next?.createdAt ?? null);
  return uses;
}

/**
 * The time until which the work of an attempt is kept. Null: all of it. -Infinity: none.
 *
 * The next attempt that resumes decides: the work after its checkpoint is lost, or all work if it found no checkpoint.
 * This is known once its program runs, and only for checkpoints in a folder: jobman does not read a `gs://` URL.
 * Without a known resume, all work is kept if the attempt succeeded, was stopped, reached a limit of its owner or still
 * runs. The work of a failed attempt is kept while the job may still resume, and after a resume from an unknown checkpoint.
 * It is lost if the job failed with this attempt, or if a rule or the owner began again.
 */
function workKeptUntil(job: Job, attempt: Attempt): Instant | null {
  const { ending, ordinal } = attempt;
  if (ending === null || ending.reason === 'succeeded') return null;
  const later = job.attempts.slice(ordinal).filter(({ startedAt }) => startedAt !== null);
  const restart = later.findIndex(({ startMode }) => startMode !== 'resume');
  const resumes = restart < 0 ? later : later.slice(0, restart);
  const saved = resumes.flatMap(({ resumedFrom }) =>
    resumedFrom === undefined ? [] : [resumedFrom.savedAt ?? -Infinity],
  );
  if (saved.length > 0) return Math.min(...saved);
  const isOrderly = ['stopped', 'timed_out', 'budget'].includes(ending.reason);
  if (isOrderly || resumes.length > 0) return null;
  return restart < 0 && job.finish === null ? null : -Infinity;
}

// ------------------------------------------------------------------------------------------ clusters

/** A job in a cluster, as the archive has it. */
export interface ClusterJobUsage {
  readonly uid: string;
  readonly name: string;
  readonly owner: string | null;
  readonly context: string;
  readonly namespace: string;
  readonly flavor: string | null;
  readonly flavorPrice: FlavorPrice | null;
  /** In the order of their creation. */
  readonly pods: readonly {
    readonly name: string;
    readonly gpus: number;
    readonly createdAt: Instant;
    /** Null before its first container has started. */
    readonly startedAt: Instant | null;
    /** Null while it may run. */
    readonly endedAt: Instant | null;
    readonly hasFailed: boolean;
  }[];
}

/** Each pod waits from its creation, and uses its requests from its start to its end. Only a flavor has a price. */
export function clusterUsageOf(job: ClusterJobUsage): readonly UsageRow[] {
  const { uid, name, owner, context, namespace, flavor, flavorPrice, pods } = job;
  return pods.flatMap((pod, index) => {
    const about = {
      job: name,
      uid,
      source: 'kubernetes',
      allocation: index + 1,
      name: pod.name,
      owner,
      jobName: name,
      tags: [],
      project: context,
      location: `${context}/${namespace}`,
      accelerator: flavor,
      pricing: null,
      chips: pod.gpus,
      ownership: 'ephemeral',
      simulated: false,
    } as const;
    const { createdAt, startedAt, endedAt } = pod;
    const work = pod.hasFailed ? 'lost' : 'useful';
    const waiting: UsageRow = {
      ...about,
      use: 'waiting',
      attempt: null,
      from: createdAt,
      until: startedAt ?? endedAt,
      pricePerHourUsd: 0,
      pricesOf: null,
    };
    const running: UsageRow = {
      ...about,
      use: work,
      attempt: index + 1,
      from: startedAt ?? 0,
      until: endedAt,
      pricePerHourUsd: flavorPrice === null ? null : podPrice(flavorPrice, pod.gpus),
      pricesOf: flavorPrice === null ? null : 'settings',
    };
    const rows = startedAt === null ? [waiting] : [waiting, running];
    return rows.filter(({ from, until }) => until === null || until > from);
  });
}
