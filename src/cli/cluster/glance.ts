// Glance: what pods tell of jobs that have some which do not run. A Job alone says that its pod does not run yet, for hours if its
// image does not exist; why, only the pod knows. It is asked for beside the list, in one request, and does without an answer.

import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { clusterGlance, clusterPhase, type ClusterVerdict } from '../../app/cluster/verdict.ts';
import { JobmanError } from '../../app/errors.ts';
import { isSettledPhase } from '../../core/phase.ts';
import type { Instant } from '../../core/time.ts';
import { besideMost } from './within.ts';

/** What a row is told otherwise with. */
export type Glance = Pick<ClusterVerdict, 'phase' | 'reason'>;

/** The newest jobs of which pods are asked for. Their names stand in one address, which proxies allow a few thousand letters. */
const jobsMost = 100;

/** Whether a pod of it exists and does not run, as far as the Job tells. */
export function isUnready(job: ClusterJob): boolean {
  return job.active > job.ready && !job.suspended && !job.deleting && !isSettledPhase(clusterPhase(job));
}

/** Those among which are the newest, of many jobs that come one by one. */
export function createNewest(): { add(job: ClusterJob): void; jobs(): readonly ClusterJob[] } {
  let kept: ClusterJob[] = [];
  const newest = (): ClusterJob[] => kept.toSorted((one, other) => other.createdAt - one.createdAt).slice(0, jobsMost);
  return {
    add(job) {
      kept.push(job);
      // Ten thousand that wait are not held for the sake of a hundred.
      if (kept.length >= 10 * jobsMost) kept = newest();
    },
    jobs: newest,
  };
}

/**
 * By their uids, where pods add something to what the Job tells. Asks nothing when there are none; what does not come in time,
 * or may not be seen, is left out.
 */
export async function glances(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  now: Instant,
  left?: AbortSignal,
): Promise<ReadonlyMap<string, Glance>> {
  const found = new Map<string, Glance>();
  if (jobs.length === 0) return found;
  const names = jobs.map(({ name }) => name).join(',');
  const late = AbortSignal.timeout(besideMost);
  const signal = left === undefined ? late : AbortSignal.any([late, left]);
  const query = {
    labels: `job-name in (${names})`,
    fields: 'status.phase!=Succeeded,status.phase!=Failed',
    signal,
  };
  const pods: ClusterPod[] = [];
  try {
    for await (const page of cluster.pods(query)) pods.push(...page);
  } catch (error) {
    if (!(error instanceof JobmanError) && !signal.aborted) throw error;
  }
  for (const job of jobs) {
    const own = pods.filter((pod) => pod.job === job.name && (pod.jobUid ?? job.uid) === job.uid);
    const glance = clusterGlance(job, own, now);
    if (glance !== null) found.set(job.uid, glance);
  }
  return found;
}
