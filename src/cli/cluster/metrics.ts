// Metrics of a cluster's job: its pods print them, and each line of their logs has the cluster's time. Each pod of one
// number is an attempt, the oldest first.

import type { MetricPointView, MetricsQuery, MetricsView } from '../../app/client.ts';
import type { ClusterArchive } from '../../app/cluster/commands.ts';
import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { readPieces } from '../../app/files.ts';
import { metricPointsOfPods, metricsOfPods, type PodLog } from '../../app/metrics.ts';
import type { Cli } from '../context.ts';
import { containerOf } from './pods.ts';
import { podsOf } from '../../app/cluster/observe-job.ts';

export async function clusterMetrics(
  cli: Cli,
  archive: ClusterArchive,
  cluster: Cluster | null,
  job: ClusterJob,
  query: MetricsQuery,
): Promise<MetricsView> {
  return metricsOfPods(job.name, await podLogs(cli, archive, cluster, job, query), query);
}

export async function* clusterMetricPoints(
  cli: Cli,
  archive: ClusterArchive,
  cluster: Cluster | null,
  job: ClusterJob,
  query: MetricsQuery,
): AsyncIterable<MetricPointView> {
  yield* metricPointsOfPods(job.name, await podLogs(cli, archive, cluster, job, query), query);
}

async function podLogs(
  cli: Cli,
  archive: ClusterArchive,
  cluster: Cluster | null,
  job: ClusterJob,
  query: MetricsQuery,
): Promise<readonly PodLog[]> {
  const { worker = 0, attempt: wanted } = query;
  if (worker === 'controller') throw usageError('-w controller is not for a job in a cluster: its pods have numbers.');
  const current = cluster === null ? [] : await podsOf(cluster, job);
  const archived = archive.isUsed ? await archive.job(job.uid) : undefined;
  const copies = archived === undefined ? [] : await archive.logs(archived);
  const deleted = (archived?.pods ?? []).filter(({ name }) => !current.some((pod) => pod.name === name));
  const isOfWorker = ({ index }: ClusterPod): boolean => (index ?? 0) === worker;
  const logOf = (pod: ClusterPod): AsyncIterable<Uint8Array> | undefined => {
    const { name: container, state } = containerOf(cli, pod, undefined);
    if (cluster !== null && current.includes(pod))
      return state === 'waiting' ? undefined : cluster.logs(pod.name, container, { timestamps: true });
    const copy = copies.find((one) => one.pod === pod.name && one.container === container);
    return copy === undefined ? undefined : readPieces(copy.path);
  };
  const logs = [...deleted, ...current]
    .filter(isOfWorker)
    .map((pod, index) => ({ attempt: index + 1, worker, pieces: logOf(pod) }))
    .flatMap(({ pieces, ...log }) => (pieces === undefined ? [] : [{ ...log, pieces }]));
  if (wanted !== undefined && !logs.some(({ attempt }) => attempt === wanted))
    throw new JobmanError(`Job ${job.name} has no attempt ${wanted} with a log.`, exitCode.notFound);
  return wanted === undefined ? logs : logs.filter(({ attempt }) => attempt === wanted);
}
