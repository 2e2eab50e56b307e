// View job: what a cluster, or the archive of it, knows about one job.

import type { V1Job } from '@kubernetes/client-node';
import { reportedJobCost, type JobCost } from '../../reports/cost.ts';
import type { Why } from '../client.ts';
import type { ReadingTime } from '../format.ts';
import { archivedResult } from './archive.ts';
import type { ClusterContext } from './cluster.ts';
import { expectCluster, type ClusterParts, type ClusterRecord } from './cluster-record.ts';
import { archivedRow, clusterRow } from './job-list.ts';
import { clusterResult, type ClusterObservation, type ClusterResult } from './job-result.ts';
import type { ClusterJobView } from './job-view.ts';
import type { ClusterJob } from './objects.ts';
import { observeJob } from './observe-job.ts';

/** The archive's observation of a job that the cluster does not report. */
export async function observe({ job, cluster, archived }: ClusterRecord): Promise<ClusterObservation> {
  if (archived !== null) return { ...archived, nodes: null, allPods: null };
  return observeJob(expectCluster(cluster), job);
}

/** The Job; null if it was not submitted from this installation and the cluster does not report it. */
export async function objectOf({ job, cluster, archived }: ClusterRecord): Promise<V1Job | null> {
  if (archived === null) return expectCluster(cluster).raw(job.name);
  return archived.object === null ? null : (JSON.parse(archived.object) as V1Job);
}

/** Reads all that `show` and the page of the job show. */
export async function viewJob(
  parts: ClusterParts,
  record: ClusterRecord,
  reading: ReadingTime,
): Promise<ClusterJobView> {
  const { job, archived } = record;
  const [observation, object, cost] = await Promise.all([observe(record), objectOf(record), costOf(parts, job.uid)]);
  const result = resultOf(record, observation, reading);
  const { user = null, ...at } = contextOf(record);
  return {
    ...(archived === null ? clusterRow(job, at, reading.now, result) : archivedRow(archived, reading.now)),
    backend: 'kubernetes',
    why: clusterWhy(job, result),
    cost,
    ...at,
    clusterUser: user,
    archivedAt: archived?.observedAt ?? null,
    goneAt: archived?.goneAt ?? null,
    object,
    job: observation.job,
    pods: observation.pods,
    events: observation.events,
  };
}

async function costOf({ client }: ClusterParts, uid: string): Promise<JobCost | null> {
  const report = await (await client()).cost({ by: 'job', jobs: [uid] });
  return report.groups.length === 0 ? null : reportedJobCost(report);
}

/** Its phase with the reason. */
export function resultOf(
  { archived }: ClusterRecord,
  observation: ClusterObservation,
  reading: ReadingTime,
): ClusterResult {
  return archived === null ? clusterResult(observation, reading) : archivedResult(archived, reading);
}

/** The result as the answer of `why`. */
export function clusterWhy({ name }: ClusterJob, { phase, message, evidence }: ClusterResult): Why {
  // The cluster has no rules of jobman, and nothing follows but what its own controllers do.
  const none = { rule: null, typicalWait: null, next: null, nextAt: null, nextCheckAt: null, situation: null };
  return { id: name, backend: 'kubernetes', phase, message, evidence, logTail: [], ...none };
}

/** Without `user` for an archived job: another kubeconfig may have submitted it. */
function contextOf({
  job,
  cluster,
  archived,
}: ClusterRecord): Omit<ClusterContext, 'user'> & { readonly user?: string } {
  if (archived === null) return expectCluster(cluster).context();
  return { context: archived.context, server: archived.server, namespace: job.namespace };
}
