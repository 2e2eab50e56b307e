// Queue: a cluster's active (waiting or running) jobs, counted by flavor and by the requests of one pod, and the order
// of the waiting ones. Values in, values out.

import { compareText } from '../../core/model/compare-text.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import type { Instant } from '../../core/model/time.ts';
import type { PriorityClass } from './cluster.ts';
import type { ClusterJob } from './objects.ts';
import { amountsKey, gpuCount, isGpu, sumAmounts, type Amounts } from './amounts.ts';
import { clusterPhase } from './job-result.ts';

/** `waiting`: it has no pods, or none runs and one has no node. `unknown`: a list of another program does not say. */
export type QueueState = 'waiting' | 'running' | 'unknown';

export interface QueuedJob {
  readonly namespace: string;
  readonly name: string;
  readonly flavor: string | null;
  readonly requests: Amounts;
  readonly owner: string | null;
  readonly state: QueueState;
  readonly podCount: number;
  readonly createdAt: Instant;
  /** The value of its PriorityClass; while Kueue holds the job back, of its WorkloadPriorityClass if it has one. */
  readonly priority: number;
  /** The Kueue queue that holds the job back; null for a job that waits for a node. */
  readonly queue: string | null;
}

export interface QueueContext {
  /** `namespace/name` of each Job with a pod without a node; null if we may not list pods. */
  readonly unscheduled: ReadonlySet<string> | null;
  /** Null if we may not list them; all priorities then count as equal. */
  readonly priorities: readonly PriorityClass[] | null;
  /** Null without Kueue or if not needed. */
  readonly queuePriorities: readonly PriorityClass[] | null;
}

/** Undefined if the job has finished or its owner has suspended it. */
export function queuedJob(job: ClusterJob, context: QueueContext): QueuedJob | undefined {
  const { unscheduled, priorities, queuePriorities } = context;
  const state = stateOf(job, unscheduled);
  if (state === undefined) return undefined;
  const { namespace, name, flavor, requests, owner, createdAt, priorityClass } = job;
  const inQueue = isOrderedByQueue(job) ? queuePriorities?.find((one) => one.name === job.queuePriority) : undefined;
  const priority =
    inQueue ?? priorities?.find((one) => (priorityClass === null ? one.isDefault : one.name === priorityClass));
  return {
    namespace,
    name,
    flavor,
    requests,
    owner,
    state,
    podCount: Math.max(1, job.active, Math.min(job.parallelism, job.completions ?? job.parallelism)),
    createdAt,
    priority: priority?.value ?? 0,
    queue: job.suspended ? job.queueName : null,
  };
}

/** True if a Kueue queue holds the job back and orders it by Kueue's own priority. */
export function isOrderedByQueue({ suspended, queueName, queuePriority = null }: ClusterJob): boolean {
  return suspended && queueName !== null && queuePriority !== null;
}

/** From the Job alone, without its pods. */
export function isActive(job: ClusterJob): boolean {
  return stateOf(job, null) !== undefined;
}

function stateOf(job: ClusterJob, unscheduled: QueueContext['unscheduled']): QueueState | undefined {
  const phase = clusterPhase(job);
  if (isFinishedPhase(phase)) return undefined;
  if (job.active === 0) return phase === 'stopping' ? undefined : 'waiting';
  if (job.ready > 0 || phase === 'stopping') return 'running';
  return unscheduled === null || unscheduled.has(queueKey(job)) ? 'waiting' : 'running';
}

export function queueKey({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}

export interface QueueViewer {
  /** Null: every namespace. */
  readonly namespace: string | null;
  /** Values of the label. */
  readonly owners: readonly string[];
  readonly gpuResources: readonly string[];
}

/** Across namespaces only the owner counts. In a namespace, jobs without an owner label also count as the viewer's. */
function isYours({ namespace, owner }: QueuedJob, viewer: QueueViewer): boolean {
  if (owner !== null && viewer.owners.includes(owner))
    return viewer.namespace === null || namespace === viewer.namespace;
  return owner === null && namespace === viewer.namespace;
}

export interface QueueGroup {
  readonly flavor: string | null;
  /** The requests of one pod, in the canonical form of quantity.ts. */
  readonly requests: Amounts;
  readonly gpus: number;
  /** The requests other than cpu, memory and GPUs. */
  readonly otherRequests: Amounts;
  readonly jobCount: number;
  readonly yourJobCount: number;
  readonly waitingCount: number;
  readonly podCount: number;
  /** True if the flavor stands for different requests. */
  readonly conflict: boolean;
}

export interface QueuePosition {
  readonly job: QueuedJob;
  readonly yours: boolean;
  readonly position: number;
  /** The last possible position: creation times have whole seconds, so jobs of one second have no known order. */
  readonly lastPosition: number;
  readonly queueLength: number;
}

export interface QueueView {
  /** Largest first. */
  readonly groups: readonly QueueGroup[];
  /** Queue by queue, each from position 1. */
  readonly positions: readonly QueuePosition[];
  readonly jobs: number;
  readonly yours: number;
}

export function queueView(jobs: readonly QueuedJob[], viewer: QueueViewer): QueueView {
  return {
    groups: groupsOf(jobs, viewer),
    positions: positionsOf(jobs, viewer),
    jobs: jobs.length,
    yours: jobs.filter((job) => isYours(job, viewer)).length,
  };
}

function groupsOf(jobs: readonly QueuedJob[], viewer: QueueViewer): readonly QueueGroup[] {
  const together = Map.groupBy(jobs, keyOf());
  const named = Map.groupBy(together.values(), ([first]) => first?.flavor ?? null);
  const groups = [...together.values()].map((all): QueueGroup => {
    const { flavor = null, requests: written = {} } = all[0] ?? {};
    const requests = sumAmounts([written]);
    const isOther = (name: string): boolean => name !== 'cpu' && name !== 'memory' && !isGpu(name, viewer.gpuResources);
    return {
      flavor,
      requests,
      gpus: gpuCount(requests, viewer.gpuResources),
      otherRequests: Object.fromEntries(Object.entries(requests).filter(([name]) => isOther(name))),
      jobCount: all.length,
      yourJobCount: all.filter((job) => isYours(job, viewer)).length,
      waitingCount: all.filter(({ state }) => state === 'waiting').length,
      podCount: all.reduce((sum, { podCount }) => sum + podCount, 0),
      conflict: flavor !== null && (named.get(flavor)?.length ?? 0) > 1,
    };
  });
  // Sorting keeps all groups of one flavor name together.
  const allOf = ({ flavor, jobCount: own }: QueueGroup): number =>
    flavor === null ? own : (named.get(flavor)?.reduce((sum, all) => sum + all.length, 0) ?? own);
  return groups.toSorted(
    (one, other) =>
      allOf(other) - allOf(one) ||
      compareText(one.flavor ?? '', other.flavor ?? '') ||
      other.jobCount - one.jobCount ||
      compareText(amountsKey(one.requests), amountsKey(other.requests)),
  );
}

/** The key of a job's group. Thousands of jobs share one requests object, so its key is computed once. */
function keyOf(): (job: QueuedJob) => string {
  const known = new Map<Amounts, string>();
  return ({ flavor, requests }) => {
    let key = known.get(requests);
    if (key === undefined) known.set(requests, (key = amountsKey(requests)));
    return JSON.stringify([flavor, key]);
  };
}

/**
 * The scheduler has one queue, and each Kueue queue in each namespace is another. Higher priority comes first, then the
 * older job. This is the order of attempts and not a promise: a smaller job may be scheduled earlier.
 */
function positionsOf(jobs: readonly QueuedJob[], viewer: QueueViewer): readonly QueuePosition[] {
  const waiting = jobs.filter(({ state }) => state === 'waiting');
  const lines = Map.groupBy(waiting, ({ namespace, queue }) => (queue === null ? '' : `${namespace}/${queue}`));
  const inOrder = [...lines].toSorted(([one], [other]) => compareText(one, other));
  const orderKey = ({ priority, createdAt }: QueuedJob): string => `${priority} ${createdAt}`;
  return inOrder.flatMap(([, line]) => {
    const ordered = line.toSorted(
      (one, other) =>
        other.priority - one.priority || one.createdAt - other.createdAt || compareText(queueKey(one), queueKey(other)),
    );
    let before = 0;
    return [...Map.groupBy(ordered, orderKey).values()].flatMap((equal) => {
      const [position, lastPosition] = [before + 1, before + equal.length];
      before = lastPosition;
      return equal.map((job) => ({
        job,
        yours: isYours(job, viewer),
        position,
        lastPosition,
        queueLength: line.length,
      }));
    });
  });
}
