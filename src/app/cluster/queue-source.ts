// Sources of the queue: the whole cluster if we may list its jobs, else the list published for users who may not, else
// the namespace alone.

import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { parseInstant, type Instant } from '../../core/model/time.ts';
import { exitCode, JobmanError } from '../errors.ts';
import type { JobScope } from '../job-source.ts';
import type { Client } from '../client.ts';
import type { Cluster, ClusterContext, ClusterOptions, ClusterQuery } from './cluster.ts';
import type { ClusterJob } from './objects.ts';
import type { ClusterParts } from './cluster-record.ts';
import { clusterLabels, ownerLabels } from './job-object.ts';
import {
  isActive,
  isOrderedByQueue,
  queuedJob,
  type QueuedJob,
  queueKey,
  type QueueState,
  queueView,
  type QueueView,
} from './queue.ts';
import type { ClusterSettings } from './settings.ts';
import type { Amounts } from './amounts.ts';

type PublishedQueueSettings = Pick<ClusterSettings['jobsQueue'], 'namespace' | 'configmap'>;

/** The reads of a cluster that its queue needs. */
export type QueueCluster = Pick<
  Cluster,
  'context' | 'jobs' | 'unscheduledPods' | 'priorityClasses' | 'queuePriorityClasses' | 'configMap'
>;

export type QueueSource =
  | { readonly kind: 'cluster' }
  | {
      readonly kind: 'published';
      /** Time of the whole list. With `isOwnFresh`, the jobs of our own namespace are current. */
      readonly updatedAt: Instant | null;
      readonly isOwnFresh: boolean;
      readonly skipped: number;
    }
  | { readonly kind: 'namespace' };

export interface ObservedQueue {
  readonly source: QueueSource;
  readonly jobs: readonly QueuedJob[];
}

export interface QueueReport {
  readonly source: QueueSource;
  readonly view: QueueView;
  readonly context: ClusterContext;
  /** The setting of the published list. */
  readonly published: PublishedQueueSettings;
}

/** The parts of the program that a queue needs. A page has them over HTTP. */
export interface QueueParts {
  readonly cluster: (options: ClusterOptions) => Promise<QueueCluster & Pick<Cluster, 'close'>>;
  readonly clusterSettings: () => Promise<{ readonly settings: Pick<ClusterSettings, 'jobsQueue'> }>;
  readonly client: () => Promise<Pick<Client, 'whoAmI'>>;
}

/** Throws JobmanError without a cluster, or if we may not even list its jobs of the namespace. */
export function readQueue(parts: QueueParts, scope: JobScope): Promise<QueueReport> {
  return withCluster(parts, scope, async (cluster, { gpuResources, ...published }) => {
    const { source, jobs } = await observeQueue(cluster, published);
    const context = cluster.context();
    const view = queueView(jobs, {
      namespace: scope.allNamespaces === true ? null : context.namespace,
      owners: ownerLabels(await (await parts.client()).whoAmI()),
      gpuResources,
    });
    return { source, view, context, published };
  });
}

/** Publishes the active jobs of the whole cluster. Throws JobmanError with the missing right. */
export function publishJobs(
  parts: ClusterParts,
  scope: JobScope,
  now: Instant,
): Promise<Omit<QueueReport, 'source' | 'view'> & { readonly jobCount: number }> {
  return withCluster(parts, scope, async (cluster, published) => {
    const jobCount = await publishQueue(cluster, published, now);
    return { jobCount, context: cluster.context(), published };
  });
}

async function withCluster<Reads extends QueueCluster, T>(
  parts: Omit<QueueParts, 'cluster'> & {
    readonly cluster: (options: ClusterOptions) => Promise<Reads & Pick<Cluster, 'close'>>;
  },
  { context, namespace }: JobScope,
  use: (cluster: Reads, settings: ClusterSettings['jobsQueue']) => Promise<T>,
): Promise<T> {
  const { jobsQueue } = (await parts.clusterSettings()).settings;
  const cluster = await parts.cluster(omitUndefined({ context, namespace }));
  try {
    return await use(cluster, jobsQueue);
  } finally {
    await cluster.close();
  }
}

/** Uses the widest permitted source. Throws the cluster's JobmanError if we may not even list the namespace. */
export async function observeQueue(cluster: QueueCluster, settings: PublishedQueueSettings): Promise<ObservedQueue> {
  const all = await resultOrRefusal(activeJobs(cluster, { allNamespaces: true }));
  if (!(all instanceof JobmanError)) {
    const { namespace } = cluster.context();
    if (!all.some((job) => job.namespace === namespace)) await resultOrRefusal(checkNamespace(cluster));
    return { source: { kind: 'cluster' }, jobs: all };
  }
  const { configmap } = settings;
  const [data, own] = await Promise.all([
    cluster.configMap(configmap, settings.namespace),
    resultOrRefusal(activeJobs(cluster, {})),
  ]);
  const list = data === null ? undefined : await parsePublishedQueue(configmap, data);
  if (list === undefined) {
    if (own instanceof JobmanError) throw own;
    return { source: { kind: 'namespace' }, jobs: own };
  }
  const { updatedAt, skipped } = list;
  const isOwnFresh = !(own instanceof JobmanError);
  const source = { kind: 'published', updatedAt, isOwnFresh, skipped } as const;
  if (!isOwnFresh) return { source, jobs: list.jobs };
  // The published list does not contain new jobs yet.
  const { namespace } = cluster.context();
  const others = list.jobs.filter((job) => job.namespace !== namespace);
  return { source, jobs: [...others, ...own] };
}

/** Throws JobmanError (not found) for an absent namespace: `Cluster.jobs` checks it if it has no job. */
async function checkNamespace(cluster: QueueCluster): Promise<void> {
  for await (const page of cluster.jobs({})) if (page.length > 0) return;
}

/**
 * A failed request shows the missing right, in the cluster or on the server in use. A review of our rights would be one more
 * request, which some clusters refuse.
 */
async function resultOrRefusal<T>(request: Promise<T>): Promise<T | JobmanError> {
  try {
    return await request;
  } catch (error) {
    if (error instanceof JobmanError && (error.code === exitCode.failed || error.errorCode === 'forbidden'))
      return error;
    throw error;
  }
}

/** Publishes all active jobs of the cluster; returns their number. Throws JobmanError with the missing right. */
export async function publishQueue(cluster: Cluster, settings: PublishedQueueSettings, now: Instant): Promise<number> {
  const { namespace, configmap } = settings;
  const jobs = await activeJobs(cluster, { allNamespaces: true });
  await cluster.writeConfigMap(configmap, namespace, await queueData(configmap, jobs, now));
  return jobs.length;
}

/** Drops ended Jobs page by page: they are most of ten thousand. */
async function activeJobs(
  cluster: QueueCluster,
  query: Pick<ClusterQuery, 'allNamespaces'>,
): Promise<readonly QueuedJob[]> {
  const [jobs, unscheduled, priorities] = await Promise.all([
    unfinishedJobs(cluster, query),
    resultOrRefusal(unscheduledJobs(cluster, query)),
    cluster.priorityClasses(),
  ]);
  const queuePriorities = jobs.some(isOrderedByQueue) ? await cluster.queuePriorityClasses() : null;
  const context = { unscheduled: unscheduled instanceof JobmanError ? null : unscheduled, priorities, queuePriorities };
  return jobs.flatMap((job) => queuedJob(job, context) ?? []);
}

async function unfinishedJobs(cluster: QueueCluster, query: ClusterQuery): Promise<readonly ClusterJob[]> {
  const pages = await Array.fromAsync(cluster.jobs({ ...query, labels: `${clusterLabels.uncounted}!=true` }));
  return pages.flat().filter(isActive);
}

/** Jobs with a pod without a node. Requests only those pods: they are few where the others are thousands. */
async function unscheduledJobs(cluster: QueueCluster, query: ClusterQuery): Promise<ReadonlySet<string>> {
  const keys = new Set<string>();
  for await (const page of cluster.unscheduledPods(query)) {
    for (const { namespace, job } of page) if (job !== null) keys.add(queueKey({ namespace, name: job }));
  }
  return keys;
}

// ------------------------------------------------------------------------------------------ the published list

// The format of the older jobman's CronJob: `{ updated, jobs: [{ namespace, name, updated, resources: { flavor,
// requests } }] }` under a key named like the ConfigMap. Other fields are ours and optional.

/** A ConfigMap holds 1 MiB (https://kubernetes.io/docs/concepts/configuration/configmap/), with its name and labels. */
const maxConfigMapBytes = 1_000_000;
/** Enough for some hundred thousand jobs; a larger list is not ours. */
const maxUnpackedBytes = 64 * 1024 * 1024;

const gzipSuffix = '.gz';

interface PublishedQueue {
  readonly updatedAt: Instant | null;
  readonly jobs: readonly QueuedJob[];
  readonly skipped: number;
}

/** Omits owners: all users of the cluster can read it. Throws JobmanError if it is too large even compressed. */
export async function queueData(
  configmap: string,
  jobs: readonly QueuedJob[],
  now: Instant,
): Promise<Readonly<Record<string, string>>> {
  const updated = new Date(now).toISOString();
  const text = JSON.stringify({ updated, jobs: jobs.map((job) => entryOf(job, updated)) });
  if (new TextEncoder().encode(text).length <= maxConfigMapBytes) return { [configmap]: text };
  const gzip = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
  const compressed = (await allBytes(gzip)).toBase64();
  if (compressed.length <= maxConfigMapBytes) return { [`${configmap}${gzipSuffix}`]: compressed };
  throw new JobmanError(
    `Nothing was published: the list of ${jobs.length} active jobs is too large for a ConfigMap.`,
    exitCode.failed,
  );
}

function entryOf(job: QueuedJob, updated: string): object {
  const { namespace, name, flavor, requests, state, podCount: pods, createdAt, priority, queue } = job;
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

/** Undefined without a list. Invalid entries are omitted and counted in `skipped`. */
export async function parsePublishedQueue(
  configmap: string,
  data: Readonly<Record<string, string>>,
): Promise<PublishedQueue | undefined> {
  const list = objectIn(await textIn(configmap, data));
  if (list === undefined || !Array.isArray(list['jobs'])) return undefined;
  const entries = list['jobs'] as readonly unknown[];
  const jobs = entries.flatMap((entry) => readEntry(entry) ?? []);
  return { updatedAt: parseTime(list['updated']), jobs, skipped: entries.length - jobs.length };
}

async function textIn(configmap: string, data: Readonly<Record<string, string>>): Promise<string> {
  const compressed = data[`${configmap}${gzipSuffix}`];
  if (compressed === undefined) return data[configmap] ?? '';
  try {
    const bytes = Uint8Array.fromBase64(compressed);
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new TextDecoder().decode(await allBytes(unpacked));
  } catch {
    return '';
  }
}

/** Rejects for more bytes than a list may have. */
async function allBytes(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  for (let size = 0; size <= maxUnpackedBytes;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer());
    chunks.push(value);
    size += value.length;
  }
  await reader.cancel();
  throw new RangeError('the list is too large');
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
    podCount: typeof pods === 'number' && Number.isSafeInteger(pods) && pods > 0 ? pods : 1,
    createdAt: parseTime(entry['created']) ?? parseTime(entry['updated']) ?? 0,
    priority: typeof priority === 'number' ? priority : 0,
    queue: typeof queue === 'string' ? queue : null,
  };
}

function isState(value: unknown): value is QueueState {
  return value === 'waiting' || value === 'running';
}

/** Kubernetes accepts numbers as amounts in JSON too. */
function amountsIn(value: unknown): Amounts {
  const amounts = Object.entries(objectOf(value) ?? {}).filter(
    ([, amount]) => typeof amount === 'string' || typeof amount === 'number',
  );
  return Object.fromEntries(amounts.map(([name, amount]) => [name, String(amount)]));
}

function parseTime(value: unknown): Instant | null {
  return typeof value === 'string' ? parseInstant(value) : null;
}
