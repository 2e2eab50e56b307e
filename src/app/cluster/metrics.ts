// Metrics of a cluster's job: its pods print them, and each line of their logs has the cluster's time. Each pod of one
// number is an attempt, the oldest first.

import type { MetricPointView, MetricsQuery, MetricsStep } from '../client.ts';
import { exitCode, JobmanError, usageError } from '../errors.ts';
import { metricPointsOfPods, metricsOfPods, type PodLog } from '../metrics.ts';
import type { ArchivedJob } from './archive.ts';
import type { Cluster, ClusterJob, ClusterPod } from './cluster.ts';
import type { ClusterArchive } from './commands.ts';
import { mainContainer, podsOf } from './observe-job.ts';

interface MetricsOrigin {
  readonly job: ClusterJob;
  readonly cluster: Cluster | null;
  /** Null while the cluster has the job. */
  readonly archived: ArchivedJob | null;
}

export async function* metricsOfJob(
  archive: ClusterArchive,
  origin: MetricsOrigin,
  query: MetricsQuery,
): AsyncIterable<MetricsStep> {
  yield* metricsOfPods(origin.job.name, await podLogs(archive, origin, query), query);
}

export async function* metricPointsOfJob(
  archive: ClusterArchive,
  origin: MetricsOrigin,
  query: MetricsQuery,
): AsyncIterable<MetricPointView> {
  yield* metricPointsOfPods(origin.job.name, await podLogs(archive, origin, query), query);
}

async function podLogs(
  archive: ClusterArchive,
  { job, cluster, archived: copy }: MetricsOrigin,
  { worker = 0, attempt: wanted }: MetricsQuery,
): Promise<readonly PodLog[]> {
  if (worker === 'controller') throw usageError('-w controller is not for a job in a cluster: its pods have numbers.');
  const live = copy === null ? cluster : null;
  const current = live === null ? [] : await podsOf(live, job);
  const archived = copy ?? (archive.isUsed ? await archive.job(job.uid) : undefined);
  const copies = archived === undefined ? [] : await archive.logs(archived);
  const deleted = (archived?.pods ?? []).filter(({ name }) => !current.some((pod) => pod.name === name));
  const isOfWorker = ({ index }: ClusterPod): boolean => (index ?? 0) === worker;
  const logOf = (pod: ClusterPod): AsyncIterable<Uint8Array> | undefined => {
    const main = mainContainer(pod.containers);
    if (main === undefined) return undefined;
    if (live !== null && current.includes(pod))
      return main.state === 'waiting' ? undefined : live.logs(pod.name, main.name, { timestamps: true });
    const log = copies.find((one) => one.pod === pod.name && one.container === main.name);
    return log && archive.readLog(job, log, { timestamps: true });
  };
  const logs = [...deleted, ...current]
    .filter(isOfWorker)
    .map((pod, index) => ({ attempt: index + 1, worker, pieces: logOf(pod) }))
    .flatMap(({ pieces, ...log }) => (pieces === undefined ? [] : [{ ...log, pieces }]));
  if (wanted !== undefined && !logs.some(({ attempt }) => attempt === wanted))
    throw new JobmanError(`Job ${job.name} has no attempt ${wanted} with a log.`, exitCode.notFound);
  return wanted === undefined ? logs : logs.filter(({ attempt }) => attempt === wanted);
}
