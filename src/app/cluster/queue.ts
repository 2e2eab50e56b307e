// Queue: the jobs of a cluster that are active, which is waiting or running, counted by flavor and by what a pod of theirs asks
// for; and the lines in which the waiting ones stand. Values in, values out.

import { isSettledPhase } from '../../core/phase.ts';
import type { Instant } from '../../core/time.ts';
import type { ClusterJob, ClusterPriority } from './cluster.ts';
import { amountsKey, gpuCount, isGpu, sumAmounts, type Amounts } from './flavor.ts';
import { clusterPhase } from './verdict.ts';

/**
 * Where an active job is. `waiting`: it has no pods yet, or none of them runs and one has no node. `running`: its pods have
 * their nodes, be it that they still pull an image. `unknown`: a list that others wrote does not say.
 */
export type QueueState = 'waiting' | 'running' | 'unknown';

/** An active job, trimmed to the fields that are counted and sorted by. */
export interface QueuedJob {
  readonly namespace: string;
  readonly name: string;
  readonly flavor: string | null;
  readonly requests: Amounts;
  /** The login name of whoever submitted it; null where no label says it. */
  readonly owner: string | null;
  readonly state: QueueState;
  readonly pods: number;
  readonly createdAt: Instant;
  /** That of its PriorityClass; while Kueue holds it back, that of Kueue's class where it has one. */
  readonly priority: number;
  /** Kueue's queue, while that holds it back; null for those that wait for a node. */
  readonly queue: string | null;
}

/** Facts about the cluster in addition to the Jobs. */
export interface QueueSurroundings {
  /** `namespace/name` of the Jobs with a pod that has no node; null where we may not list pods. */
  readonly homeless: ReadonlySet<string> | null;
  /** Null where we may not list them: then all are of one priority. */
  readonly priorities: readonly ClusterPriority[] | null;
  /** Kueue's own; null where it is not there, or they were not needed. */
  readonly queuePriorities: readonly ClusterPriority[] | null;
}

/** The Job, trimmed; undefined if it is not active: it has ended, or its owner has suspended it. */
export function queuedJob(job: ClusterJob, surroundings: QueueSurroundings): QueuedJob | undefined {
  const { homeless, priorities, queuePriorities } = surroundings;
  const state = stateOf(job, homeless);
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
    pods: Math.max(1, job.active, Math.min(job.parallelism, job.completions ?? job.parallelism)),
    createdAt,
    priority: priority?.value ?? 0,
    queue: job.suspended ? job.queueName : null,
  };
}

/** Whether it is held back in a queue of Kueue that orders it by a priority of its own. */
export function isOrderedByQueue({ suspended, queueName, queuePriority = null }: ClusterJob): boolean {
  return suspended && queueName !== null && queuePriority !== null;
}

/** Whether it waits or runs, as far as a Job tells it without its pods. */
export function isActive(job: ClusterJob): boolean {
  return stateOf(job, null) !== undefined;
}

function stateOf(job: ClusterJob, homeless: QueueSurroundings['homeless']): QueueState | undefined {
  const phase = clusterPhase(job);
  if (isSettledPhase(phase)) return undefined;
  if (job.active === 0) return phase === 'stopping' ? undefined : 'waiting';
  if (job.ready > 0 || phase === 'stopping') return 'running';
  return homeless === null || homeless.has(queueKey(job)) ? 'waiting' : 'running';
}

/** The key of `QueueSurroundings.homeless`. */
export function queueKey({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}

/** Whose view it is. */
export interface QueueViewer {
  /** Null: every namespace. */
  readonly namespace: string | null;
  readonly owner: string;
  /** The resources that count as GPUs (`jobsQueue.gpuResources`). */
  readonly gpuResources: readonly string[];
}

/** Without a namespace the name decides alone. In a namespace, jobs without an owner's label are the viewer's too. */
function isYours({ namespace, owner }: QueuedJob, viewer: QueueViewer): boolean {
  if (viewer.namespace === null) return owner === viewer.owner;
  return namespace === viewer.namespace && (owner === null || owner === viewer.owner);
}

/** The active jobs of one flavor that ask for the same. */
export interface QueueGroup {
  /** Null: their resources have no name. */
  readonly flavor: string | null;
  /** The requests of one pod, in the canonical form of quantity.ts. */
  readonly requests: Amounts;
  readonly gpus: number;
  /** Of the requests, what is neither cpu, memory nor a GPU. */
  readonly others: Amounts;
  readonly jobs: number;
  readonly yours: number;
  readonly waiting: number;
  readonly pods: number;
  /** Jobs that ask for something else go by the same name. */
  readonly isConflict: boolean;
}

/** A job that waits, and where it stands. */
export interface QueuePlace {
  readonly job: QueuedJob;
  readonly isYours: boolean;
  readonly place: number;
  /** The last place that it may have: a cluster records creation times to the second, so jobs of one second have no known order. */
  readonly last: number;
  readonly of: number;
}

/** The queue as one user sees it. */
export interface QueueView {
  /** The largest first. */
  readonly groups: readonly QueueGroup[];
  /** Line by line, each from its first place. */
  readonly places: readonly QueuePlace[];
  readonly jobs: number;
  readonly yours: number;
}

/** The view of these active jobs that somebody has. */
export function queueView(jobs: readonly QueuedJob[], viewer: QueueViewer): QueueView {
  return {
    groups: groupsOf(jobs, viewer),
    places: placesOf(jobs, viewer),
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
      others: Object.fromEntries(Object.entries(requests).filter(([name]) => isOther(name))),
      jobs: all.length,
      yours: all.filter((job) => isYours(job, viewer)).length,
      waiting: all.filter(({ state }) => state === 'waiting').length,
      pods: all.reduce((sum, { pods }) => sum + pods, 0),
      isConflict: flavor !== null && (named.get(flavor)?.length ?? 0) > 1,
    };
  });
  // Jobs with the same name are in one group.
  const allOf = ({ flavor, jobs: own }: QueueGroup): number =>
    flavor === null ? own : (named.get(flavor)?.reduce((sum, all) => sum + all.length, 0) ?? own);
  return groups.toSorted(
    (one, other) =>
      allOf(other) - allOf(one) ||
      compareTexts(one.flavor ?? '', other.flavor ?? '') ||
      other.jobs - one.jobs ||
      compareTexts(amountsKey(one.requests), amountsKey(other.requests)),
  );
}

/** The key of a job's group. Thousands of jobs share the object of their requests, whose key is then made once. */
function keyOf(): (job: QueuedJob) => string {
  const known = new Map<Amounts, string>();
  return ({ flavor, requests }) => {
    let asked = known.get(requests);
    if (asked === undefined) known.set(requests, (asked = amountsKey(requests)));
    return JSON.stringify([flavor, asked]);
  };
}

/**
 * A cluster's scheduler has one line, and each queue of Kueue in each namespace has its own. The higher priority stands before
 * the lower, and the older job before the newer; that is the order in which they are tried, not a promise: who fits may pass.
 */
function placesOf(jobs: readonly QueuedJob[], viewer: QueueViewer): readonly QueuePlace[] {
  const waiting = jobs.filter(({ state }) => state === 'waiting');
  const lines = Map.groupBy(waiting, ({ namespace, queue }) => (queue === null ? '' : `${namespace}/${queue}`));
  const inOrder = [...lines].toSorted(([one], [other]) => compareTexts(one, other));
  const turnOf = ({ priority, createdAt }: QueuedJob): string => `${priority} ${createdAt}`;
  return inOrder.flatMap(([, line]) => {
    const ordered = line.toSorted(
      (one, other) =>
        other.priority - one.priority ||
        one.createdAt - other.createdAt ||
        compareTexts(queueKey(one), queueKey(other)),
    );
    let before = 0;
    return [...Map.groupBy(ordered, turnOf).values()].flatMap((equal) => {
      const [place, last] = [before + 1, before + equal.length];
      before = last;
      return equal.map((job) => ({ job, isYours: isYours(job, viewer), place, last, of: line.length }));
    });
  });
}

/** By code units: the same on every machine, whatever its language. */
function compareTexts(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
