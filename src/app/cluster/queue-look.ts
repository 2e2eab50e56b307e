// Looking at the queue: from the whole cluster where we may list its jobs, else from the list that is published for those who may
// not, else from the namespace alone.

import { given } from '../../core/given.ts';
import type { Instant } from '../../core/time.ts';
import { exitCode, JobmanError } from '../errors.ts';
import type { Cluster, ClusterJob, ClusterQuery } from './cluster.ts';
import { clusterLabels } from './job-object.ts';
import { queueData, publishedQueue } from './queue-list.ts';
import { isActive, isOrderedByQueue, queuedJob, queueKey, type QueuedJob } from './queue.ts';
import type { ClusterSettings } from './settings.ts';

/** Where the published list is: the section `jobsQueue` of the settings. */
type QueuePlaceSettings = Pick<ClusterSettings['jobsQueue'], 'namespace' | 'configmap'>;

/** The source of the jobs. */
export type QueueSource =
  | { readonly kind: 'cluster' }
  | {
      readonly kind: 'published';
      /** Of the whole list; jobs of our own namespace are of this moment where `isOwnFresh`. */
      readonly updatedAt: Instant | null;
      readonly isOwnFresh: boolean;
      /** Entries that could not be read. */
      readonly unread: number;
    }
  | { readonly kind: 'namespace' };

/** The active jobs that were seen, and where. */
export interface QueueSeen {
  readonly source: QueueSource;
  readonly jobs: readonly QueuedJob[];
}

/**
 * The active jobs, of the widest source that is open to us. Throws the JobmanError of the cluster, which names the missing
 * right when not even the namespace may be listed.
 */
export async function lookAtQueue(cluster: Cluster, settings: QueuePlaceSettings): Promise<QueueSeen> {
  const all = await unlessRefused(activeJobs(cluster, { everywhere: true }));
  if (!(all instanceof JobmanError)) {
    const { namespace } = cluster.place();
    if (!all.some((job) => job.namespace === namespace)) await unlessRefused(expectNamespace(cluster));
    return { source: { kind: 'cluster' }, jobs: all };
  }
  const { configmap } = settings;
  const [data, own] = await Promise.all([
    cluster.configMap(configmap, settings.namespace),
    unlessRefused(activeJobs(cluster, {})),
  ]);
  const list = data === null ? undefined : publishedQueue(configmap, data);
  if (list === undefined) {
    if (own instanceof JobmanError) throw own;
    return { source: { kind: 'namespace' }, jobs: own };
  }
  const { updatedAt, unread } = list;
  const isOwnFresh = !(own instanceof JobmanError);
  const source = { kind: 'published', updatedAt, isOwnFresh, unread } as const;
  if (!isOwnFresh) return { source, jobs: list.jobs };
  // A job that was just submitted is not in the list yet.
  const { namespace } = cluster.place();
  const others = list.jobs.filter((job) => job.namespace !== namespace);
  return { source, jobs: [...others, ...own] };
}

/** Throws JobmanError (not found) for a namespace that does not exist, which a list without jobs may be of. */
export async function expectNamespace(cluster: Cluster, signal?: AbortSignal): Promise<void> {
  for await (const page of cluster.jobs(given({ signal }))) if (page.length > 0) return;
}

/**
 * Its result, or the refusal of the cluster. A review of one's own rights would cost a request more, and in some clusters
 * not even that may be asked.
 */
async function unlessRefused<T>(look: Promise<T>): Promise<T | JobmanError> {
  try {
    return await look;
  } catch (error) {
    if (error instanceof JobmanError && error.code === exitCode.failed) return error;
    throw error;
  }
}

/** Writes the list of all active jobs of the cluster; how many they are. Throws JobmanError, with the right that is missing. */
export async function publishQueue(cluster: Cluster, settings: QueuePlaceSettings, now: Instant): Promise<number> {
  const { namespace, configmap } = settings;
  const jobs = await activeJobs(cluster, { everywhere: true });
  await cluster.writeConfigMap(configmap, namespace, queueData(configmap, jobs, now));
  return jobs.length;
}

/** Those that wait or run. Of ten thousand Jobs most have ended, and are dropped page by page. */
async function activeJobs(cluster: Cluster, query: Pick<ClusterQuery, 'everywhere'>): Promise<readonly QueuedJob[]> {
  const [jobs, homeless, priorities] = await Promise.all([
    unsettledJobs(cluster, query),
    unlessRefused(homelessJobs(cluster, query)),
    cluster.priorities(),
  ]);
  const queuePriorities = jobs.some(isOrderedByQueue) ? await cluster.queuePriorities() : null;
  const surroundings = { homeless: homeless instanceof JobmanError ? null : homeless, priorities, queuePriorities };
  return jobs.flatMap((job) => queuedJob(job, surroundings) ?? []);
}

async function unsettledJobs(cluster: Cluster, query: ClusterQuery): Promise<readonly ClusterJob[]> {
  const all: ClusterJob[] = [];
  for await (const page of cluster.jobs({ ...query, labels: `${clusterLabels.uncounted}!=true` }))
    all.push(...page.filter(isActive));
  return all;
}

/** The Jobs with a pod that has no node. Only those pods are asked for: they are few where the others are thousands. */
async function homelessJobs(cluster: Cluster, query: ClusterQuery): Promise<ReadonlySet<string>> {
  const keys = new Set<string>();
  for await (const page of cluster.homeless(query)) {
    for (const { namespace, job } of page) if (job !== null) keys.add(queueKey({ namespace, name: job }));
  }
  return keys;
}
