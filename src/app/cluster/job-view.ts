import type { V1Job } from '@kubernetes/client-node';
import type { Instant } from '../../core/model/time.ts';
import type { JobCost } from '../../reports/cost.ts';
import type { JobRow, Why } from '../client.ts';
import type { ClusterContext } from './cluster.ts';
import type { ClusterEvent, ClusterJob, ClusterPod } from './objects.ts';

/** A job in a cluster, as the cluster or the archive of it reports it. */
export interface ClusterJobView extends JobRow, Omit<ClusterContext, 'user'> {
  readonly backend: 'kubernetes';
  /** The explanation of its phase. */
  readonly why: Why;
  /** The user of the kubeconfig; null if the job is only in jobman's archive. */
  readonly clusterUser: string | null;
  /** Time of the last observation; null if the cluster itself answered. */
  readonly archivedAt: Instant | null;
  /** Time at which the job was found to be gone from its cluster. */
  readonly goneAt: Instant | null;
  /** Of all archived jobs of that name there, as `cost` reports it; null if the archive has none. */
  readonly cost: JobCost | null;
  /** The Job; null if it was not submitted from this installation and is only in jobman's archive. */
  readonly object: V1Job | null;
  /** The fields of the Job, its pods and their events that jobman reads. */
  readonly job: ClusterJob;
  readonly pods: readonly ClusterPod[];
  readonly events: readonly ClusterEvent[];
}

/** On the Job: the resources that the cluster has replaced, as a text for people. */
export const replacedResourcesAnnotation = 'jobman/replaced-resources';

/** The parts of a cluster job's `zone`. A context may contain slashes. */
export function splitZone(zone: string | null): { readonly context: string; readonly namespace: string } {
  const [context = '', namespace = ''] = (zone ?? '').split(/\/(?=[^/]*$)/);
  return { context, namespace };
}
