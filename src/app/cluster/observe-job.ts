// Observes a job in its cluster: its pods, their events, and what explains a pod that is not scheduled.

import { exitCode, JobmanError } from '../errors.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterContainer, ClusterJob, ClusterPod } from './objects.ts';
import { mainContainer as mainOf } from './job-object.ts';
import { isClusterFinished, type ClusterObservation } from './job-result.ts';

/** The container that jobman creates, otherwise the first that is not an init container. */
export function mainContainer(containers: readonly ClusterContainer[]): ClusterContainer | undefined {
  return mainOf(containers.filter(({ init }) => !init));
}

/** Without a name the main container, with a note if the pod has others. Throws JobmanError (not found). */
export function chooseContainer(
  pod: ClusterPod,
  named: string | undefined,
): { readonly container: ClusterContainer; readonly note: string | null } {
  const container =
    named === undefined ? mainContainer(pod.containers) : pod.containers.find(({ name }) => name === named);
  const names = pod.containers.map(({ name }) => name).join(', ');
  if (container === undefined) {
    throw new JobmanError(`${pod.name} has no container ${named ?? ''}; it has ${names}.`, exitCode.notFound);
  }
  const isChoice = named === undefined && pod.containers.filter(({ init }) => !init).length > 1;
  const note = `${pod.name} has several containers (${names}); this is ${container.name}. --container chooses another.`;
  return { container, note: isChoice ? note : null };
}

/** Oldest first, without pods of an earlier Job of the same name, which may still be ending. */
export async function podsOf(cluster: Cluster, { name, uid }: ClusterJob): Promise<readonly ClusterPod[]> {
  const all = (await Array.fromAsync(cluster.pods({ job: name }))).flat();
  const own = all.filter(({ job, jobUid }) => job === name && (jobUid ?? uid) === uid);
  return own.toSorted((one, other) => one.createdAt - other.createdAt || (one.index ?? 0) - (other.index ?? 0));
}

/**
 * Nodes and their pods are many: read only for an unschedulable pod. Quotas: only for a job without pods and without an
 * event with the reason (events live for an hour). Only the newest pods' events are read, because more say the same.
 */
export async function observeJob(cluster: Cluster, job: ClusterJob): Promise<ClusterObservation> {
  const pods = await podsOf(cluster, job);
  const events = await cluster.events({ names: [job.name, ...pods.slice(-maxEventPods).map(({ name }) => name)] });
  const isRefused = job.active === 0 && pods.length === 0 && !job.suspended && !isClusterFinished(job);
  const hasCause = events?.some(({ reason }) => reason === 'FailedCreate') === true;
  const quotas = isRefused && !hasCause ? await cluster.quotas() : null;
  const isUnschedulable = pods.some(({ conditions }) =>
    conditions.some(
      ({ type, status, reason }) => type === 'PodScheduled' && status === 'False' && reason === 'Unschedulable',
    ),
  );
  const nodes = isUnschedulable ? await cluster.nodes() : null;
  const otherPods = nodes === null ? null : await listAllPods(cluster);
  return { job, pods, events: events ?? [], mayListEvents: events !== null, quotas, nodes, allPods: otherPods };
}

const maxEventPods = 5;

async function listAllPods(cluster: Cluster): Promise<readonly ClusterPod[] | null> {
  try {
    return (await Array.fromAsync(cluster.pods({ allNamespaces: true }))).flat();
  } catch (error) {
    if (error instanceof JobmanError && error.code === exitCode.failed) return null;
    throw error;
  }
}
