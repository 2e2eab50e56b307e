// Metrics of a cluster's job: its pods print them, and each line of their logs has the cluster's time. Each pod of one
// number is an attempt, the oldest first.

import type { MetricsQuery } from '../client.ts';
import { exitCode, JobmanError, usageError } from '../errors.ts';
import { logBytes } from '../job-source.ts';
import type { PodLog } from '../metrics.ts';
import type { ClusterParts, ClusterRecord } from './cluster-record.ts';
import { createClusterLogs } from './logs.ts';

/** Read each log before the next one. Throws JobmanError (3) for an attempt without a log. */
export async function* podLogs(
  parts: Pick<ClusterParts, 'io' | 'client' | 'clusterSubmissions'>,
  record: ClusterRecord,
  { worker = 0, attempt: wanted }: MetricsQuery,
): AsyncIterable<PodLog> {
  if (worker === 'controller') throw usageError('-w controller is not for a job in a cluster: its pods have numbers.');
  const logs = createClusterLogs(parts);
  const pods: string[] = [];
  const query = { allPods: true, timestamps: true };
  for await (const step of logs.logs(record, () => Promise.resolve(''), query, new AbortController().signal)) {
    for (const log of step.kind === 'logs' ? step.logs : []) {
      if (log.pod === null || (log.worker ?? 0) !== worker) continue;
      // A pod whose log the cluster has lost has a second one, of the archive.
      if (!pods.includes(log.pod.name)) pods.push(log.pod.name);
      const attempt = pods.indexOf(log.pod.name) + 1;
      if (wanted === undefined || wanted === attempt)
        yield { attempt, worker, pieces: logBytes((...part) => logs.readLog(record, ...part), log) };
    }
  }
  if (wanted !== undefined && wanted > pods.length)
    throw new JobmanError(`Job ${record.job.name} has no attempt ${wanted} with a log.`, exitCode.notFound);
}
