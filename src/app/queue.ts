// Queue: the jobs that wait, and the reason for the wait of each: a slot of a host, a TPU in use, or capacity of a cloud.

import { lastAllocation, openAttempt, type Job } from '../core/model/job.ts';
import { hostNamesOf, type HostName } from '../core/model/spec.ts';
import { phaseOf } from '../core/decide/phase.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { Actor } from '../core/model/user.ts';
import {
  queuePositions,
  queuesOf,
  waitsForSlot,
  withTpus,
  type Pool,
  type PoolQueue,
  type QueuePosition,
} from '../core/policy/admission.ts';
import { permissionOf } from '../core/policy/permissions.ts';
import type { JobRow } from './client.ts';
import { lastRequestFailure } from './cloud-status.ts';
import { pluralize } from './format.ts';
import { readJobs, type QueueSources } from './host-queues.ts';
import { formatCapacity, phrasesOf } from './phrases.ts';
import type { Store } from './ports.ts';
import { awaitsCapacity, knownTypicalWait, waitsSince } from './typical-wait.ts';
import { jobRow, releasingAllocations } from './views.ts';
import { blockingSentence, whyOf } from './why.ts';

/**
 * `slot`: of a host. `tpu`: another job uses it. `job`: the end of a job that this one replaces. `host`: the settings do not
 * name it. `backoff`: a pause after a failure, until `untilAt`. `release`: the deletion of the old TPU. `creation`: of the
 * TPU. `answer`: of the cloud. `controller`: no controller has checked the job yet.
 */
type WaitKind =
  | 'slot'
  | 'tpu'
  | 'job'
  | 'host'
  | 'backoff'
  | 'quota'
  | 'capacity'
  | 'release'
  | 'creation'
  | 'answer'
  | 'controller';

export interface BlockedBy {
  readonly kind: WaitKind;
  /** The name of the host or TPU, or the ids of the jobs; null for the other kinds. */
  readonly object: string | null;
  /** The end of the backoff; null for the other kinds. */
  readonly untilAt: Instant | null;
}

/** The position in the order of jobman. Clouds do not publish theirs. */
export interface QueuedPosition {
  /** The host or the TPU. `localhost` is this machine. */
  readonly pool: HostName;
  /** From 1. */
  readonly position: number;
  /** The number of jobs that wait there. */
  readonly queueLength: number;
  /** The GPUs of the slots that the jobs ahead wait for; null on a host without GPUs, and for a TPU. */
  readonly gpusAhead: number | null;
}

/** The wait for capacity of similar jobs of this installation in the last 30 days. */
export interface TypicalWaitView {
  /** Half of the waits were not longer. */
  readonly medianMs: Duration;
  /** 9 of 10 waits were not longer. */
  readonly percentile90Ms: Duration;
  /** The number of waits; 5 at least. */
  readonly samples: number;
}

/** A job that waits. */
export interface QueuedRow extends JobRow {
  /** The requested capacity: `1 slot`, `v5litepod-16 spot in us-west4-a`. */
  readonly requests: string;
  /** The reason for the wait. */
  readonly blockedBy: BlockedBy;
  /** The message of `why` without its subject; null for a job that the actor may not read. */
  readonly sentence: string | null;
  /** Null for capacity of a cloud. */
  readonly queuePosition: QueuedPosition | null;
  /** Time of its request, or of the end of the pause before it. */
  readonly waitsSinceAt: Instant;
  /** Null with fewer than five waits, and for a slot or a TPU in use. */
  readonly typicalWait: TypicalWaitView | null;
  /** Time of the next request or check of the controller; null if no time is fixed. */
  readonly nextAt: Instant | null;
}

export interface QueueList {
  /** By host and TPU in the order in which jobman starts them, then the requests to clouds, the longest wait first. */
  readonly rows: readonly QueuedRow[];
  /** The number of waiting jobs that are left out. */
  readonly more: number;
  /** The hosts of the settings; this machine is the first. */
  readonly hosts: readonly PoolQueue[];
}

/** A longer list is of no use to people. */
const maxRows = 1000;

export async function readQueue(
  sources: QueueSources & { readonly store: Pick<Store, 'list' | 'loadMany' | 'similarJobs'> },
  actor: Actor,
  now: Instant,
): Promise<QueueList> {
  const [pools, { jobs }] = await readJobs(sources);
  const waiting = jobs.filter(isWaiting);
  const all = withTpus(pools, waiting);
  const queues = new Map(queuesOf(all, jobs).map((queue) => [queue.pool, queue]));
  const positionOf = queuePositions(pools, jobs);
  const ordered = waiting
    .map((job) => ({ job, position: positionOf(job) }))
    .toSorted((one, other) => compare(one, other, [...queues.keys()], now));
  const shown = ordered.slice(0, maxRows);
  const stored = new Map(
    (await sources.store.loadMany(shown.map(({ job }) => job.id))).map((one) => [one.job.id, one]),
  );
  const rows = await Promise.all(
    shown.map(async ({ job: { id }, position }): Promise<readonly QueuedRow[]> => {
      const { job, wakeAt = null } = stored.get(id) ?? {};
      // It may have started since.
      if (job === undefined || !isWaiting(job)) return [];
      const typical = await knownTypicalWait(sources.store, job, now);
      const context = { events: [], queuePosition: position, nextCheckAt: wakeAt };
      const { nextAt, nextCheckAt } = whyOf(job, now, context);
      const mayRead = permissionOf(actor, job, 'read') === 'allow';
      return [
        {
          ...jobRow(job, now),
          requests: formatRequest(job),
          blockedBy: blockedByOf(job, position, now),
          sentence: mayRead ? blockingSentence(job, now, context) : null,
          queuePosition: position === undefined ? null : positionView(position, queues.get(position.pool), all),
          waitsSinceAt: waitsSince(job, now),
          typicalWait:
            typical === null
              ? null
              : { medianMs: typical.median, percentile90Ms: typical.percentile90, samples: typical.samples },
          nextAt: nextAt ?? nextCheckAt,
        },
      ];
    }),
  );
  return {
    rows: rows.flat(),
    more: ordered.length - shown.length,
    hosts: pools.flatMap(({ name }) => queues.get(name) ?? []),
  };
}

/** It waits for a slot, for a TPU or for capacity, or no controller has checked it yet. */
function isWaiting(job: Job): boolean {
  if (job.removed || job.finish !== null) return false;
  const phase = phaseOf(job);
  return phase === 'queued' || phase === 'provisioning' || waitsForSlot(job) || awaitsCapacity(job);
}

interface Waiting {
  readonly job: Job;
  readonly position: QueuePosition | undefined;
}

function compare(one: Waiting, other: Waiting, pools: readonly string[], now: Instant): number {
  // A host that the settings do not name comes after the others, and a cloud last.
  const rank = ({ position }: Waiting): number => {
    if (position === undefined) return pools.length + 1;
    return pools.includes(position.pool) ? pools.indexOf(position.pool) : pools.length;
  };
  return (
    rank(one) - rank(other) ||
    (one.position?.ahead ?? 0) - (other.position?.ahead ?? 0) ||
    waitsSince(one.job, now) - waitsSince(other.job, now) ||
    Number(one.job.id) - Number(other.job.id)
  );
}

/** The pool of a TPU has its whole path, of which the request names the zone. */
function poolName(pool: string): string {
  return pool.slice(pool.lastIndexOf('/') + 1);
}

function positionView(
  { pool, ahead }: QueuePosition,
  queue: PoolQueue | undefined,
  pools: readonly Pool[],
): QueuedPosition {
  const { gpus = null, slots = 1 } = pools.find(({ name }) => name === pool) ?? {};
  return {
    pool: poolName(pool),
    position: ahead + 1,
    queueLength: queue?.waiting.length ?? ahead + 1,
    gpusAhead: gpus === null ? null : (ahead * gpus) / slots,
  };
}

function formatRequest(job: Job): string {
  const hosts = hostNamesOf(job.spec.capacity);
  return hosts.length > 0 ? pluralize(hosts.length, 'slot') : formatCapacity(job, lastAllocation(job)?.alternative);
}

function blockedByOf(job: Job, position: QueuePosition | undefined, now: Instant): BlockedBy {
  const blocked = (kind: WaitKind, object: string | null = null): BlockedBy => ({ kind, object, untilAt: null });
  const attempt = openAttempt(job);
  if (attempt !== undefined && attempt.ending === null && attempt.notBeforeAt > now)
    return { kind: 'backoff', object: null, untilAt: attempt.notBeforeAt };
  if (position !== undefined) {
    const { after, slots, slotsUsed, ahead, pool } = position;
    if (after.length > 0) return blocked('job', after.join(', '));
    if (slots === null) return blocked('host', pool);
    if (ahead < slots - slotsUsed) return blocked('controller');
    return phrasesOf(job).hasCloud ? blocked('tpu', poolName(pool)) : blocked('slot', pool);
  }
  const allocation = lastAllocation(job);
  if (attempt === undefined || allocation === undefined) return blocked('controller');
  if (allocation.unreachableAt !== null) return blocked('answer');
  if (phaseOf(job) === 'provisioning') return blocked('creation');
  if (allocation.requestedAt === null && releasingAllocations(job).length > 0) return blocked('release');
  const { error } = allocation.lastError ?? lastRequestFailure(job, attempt) ?? {};
  return blocked(error?.kind === 'quota' ? 'quota' : 'capacity');
}
