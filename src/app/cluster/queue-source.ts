// Looking at the queue: from the whole cluster where we may list its jobs, else from the list that is published for those who may
// not, else from the namespace alone.

import { given } from '../../core/given.ts';
import type { Instant } from '../../core/time.ts';
import { exitCode, JobmanError } from '../errors.ts';
import type { Cluster, ClusterJob, ClusterQuery } from './cluster.ts';
import { clusterLabels } from './job-object.ts';
import { isActive, isOrderedByQueue, queuedJob, type QueuedJob, queueKey, type QueueState } from './queue.ts';
import type { ClusterSettings } from './settings.ts';
import type { Amounts } from './flavor.ts';
import { gunzipSync, gzipSync } from 'node:zlib';

type QueuePlaceSettings = Pick<ClusterSettings['jobsQueue'], 'namespace' | 'configmap'>;

/** The source of the jobs. */
export type QueueSource =
  | { readonly kind: 'cluster' }
  | {
      readonly kind: 'published';
      /** Of the whole list; jobs of our own namespace are of this moment where `isOwnFresh`. */
      readonly updatedAt: Instant | null;
      readonly isOwnFresh: boolean;
      readonly unread: number;
    }
  | { readonly kind: 'namespace' };

/** The active jobs that were seen, and where. */
export interface QueueSeen {
  readonly source: QueueSource;
  readonly jobs: readonly QueuedJob[];
}

/** The active jobs of the widest source that is open to us. Throws the cluster's JobmanError if not even the namespace may be listed. */
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

/** Its result, or the cluster's refusal. A review of one's own rights would cost another request, which some clusters refuse too. */
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

// ------------------------------------------------------------------------------------------ the published list

// It has the form that the older jobman's CronJob wrote, `{ updated, jobs: [{ namespace, name, updated, resources: { flavor, requests } }] }`
// under a key that is called like the ConfigMap; other fields are ours, and a list without them is read too.

/** A ConfigMap holds a mebibyte (https://kubernetes.io/docs/concepts/configuration/configmap/); a little is left for its name and labels. */
const most = 1_000_000;
/** A list of some hundred thousand jobs; what unpacks to more is none of ours. */
const unpackedMost = 64 * 1024 * 1024;

/** Follows the name of the ConfigMap in the key of a compressed list: gzip, as base64. */
const packed = '.gz';

interface PublishedQueue {
  /** Null where it says no moment. */
  readonly updatedAt: Instant | null;
  readonly jobs: readonly QueuedJob[];
  readonly unread: number;
}

/** The data of the ConfigMap, without owners, because everybody in the cluster reads it. Throws JobmanError if it is too large even when packed. */
export function queueData(
  configmap: string,
  jobs: readonly QueuedJob[],
  now: Instant,
): Readonly<Record<string, string>> {
  const updated = new Date(now).toISOString();
  const text = JSON.stringify({ updated, jobs: jobs.map((job) => entryOf(job, updated)) });
  if (Buffer.byteLength(text) <= most) return { [configmap]: text };
  const small = gzipSync(text).toString('base64');
  if (small.length <= most) return { [`${configmap}${packed}`]: small };
  throw new JobmanError(
    `The list of ${jobs.length} active jobs is larger than a ConfigMap may be; nothing was published.`,
    exitCode.failed,
  );
}

function entryOf(job: QueuedJob, updated: string): object {
  const { namespace, name, flavor, requests, state, pods, createdAt, priority, queue } = job;
  return {
    namespace,
    name,
    updated,
    resources: { flavor, requests },
    state,
    created: new Date(createdAt).toISOString(),
    ...(pods === 1 ? {} : { pods }),
    ...(priority === 0 ? {} : { priority }),
    ...(queue === null ? {} : { queue }),
  };
}

/** The list that the data hold; undefined where they hold none. Whatever is not as it should be is left out and counted. */
export function publishedQueue(configmap: string, data: Readonly<Record<string, string>>): PublishedQueue | undefined {
  const list = objectIn(textIn(configmap, data));
  if (list === undefined || !Array.isArray(list['jobs'])) return undefined;
  const entries = list['jobs'] as readonly unknown[];
  const jobs = entries.flatMap((entry) => readEntry(entry) ?? []);
  return { updatedAt: momentIn(list['updated']), jobs, unread: entries.length - jobs.length };
}

function textIn(configmap: string, data: Readonly<Record<string, string>>): string {
  const small = data[`${configmap}${packed}`];
  if (small === undefined) return data[configmap] ?? '';
  try {
    return gunzipSync(Buffer.from(small, 'base64'), { maxOutputLength: unpackedMost }).toString('utf8');
  } catch {
    return '';
  }
}

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Readonly<Record<string, unknown>>) : undefined;
}

function readEntry(value: unknown): QueuedJob | undefined {
  const entry = objectOf(value);
  if (entry === undefined) return undefined;
  const { namespace, name, state, pods, priority, queue } = entry;
  if (typeof namespace !== 'string' || typeof name !== 'string') return undefined;
  const { flavor, requests } = objectOf(entry['resources']) ?? {};
  return {
    namespace,
    name,
    flavor: typeof flavor === 'string' && flavor !== '' ? flavor : null,
    requests: amountsIn(requests),
    owner: null,
    state: isState(state) ? state : 'unknown',
    pods: typeof pods === 'number' && Number.isSafeInteger(pods) && pods > 0 ? pods : 1,
    createdAt: momentIn(entry['created']) ?? momentIn(entry['updated']) ?? 0,
    priority: typeof priority === 'number' ? priority : 0,
    queue: typeof queue === 'string' ? queue : null,
  };
}

function isState(value: unknown): value is QueueState {
  return value === 'waiting' || value === 'running';
}

/** Amounts may be numbers, as Kubernetes takes them in JSON too. */
function amountsIn(value: unknown): Amounts {
  const amounts = Object.entries(objectOf(value) ?? {}).filter(
    ([, amount]) => typeof amount === 'string' || typeof amount === 'number',
  );
  return Object.fromEntries(amounts.map(([name, amount]) => [name, String(amount)]));
}

function momentIn(value: unknown): Instant | null {
  const at = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}
