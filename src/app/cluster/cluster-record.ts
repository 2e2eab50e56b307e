// A cluster's job as its source has found it, with what its commands need.

import { exitCode, JobmanError } from '../errors.ts';
import type { ArchivedCopy, FoundJob } from '../job-source.ts';
import type { Io, Services } from '../services.ts';
import type { ArchiveQuery, ArchivedJob, ClusterJob } from './objects.ts';
import type { Cluster } from './cluster.ts';

export interface ClusterParts extends Pick<
  Services,
  'client' | 'cluster' | 'clusterSubmissions' | 'clusterSettings' | 'namedSecret'
> {
  readonly io: Pick<Io, 'now' | 'env'>;
}

/** Newest first. Opens no database if no job was submitted from here. */
export async function archivedJobs(
  { clusterSubmissions, client }: Pick<Services, 'clusterSubmissions' | 'client'>,
  query: ArchiveQuery,
): Promise<readonly ArchivedJob[]> {
  return (await clusterSubmissions()).isUsed ? (await client()).archivedJobs(query) : [];
}

export interface ClusterRecord {
  readonly found: FoundJob;
  readonly job: ClusterJob;
  /** Open in the namespace of the job; null if it cannot be reached. */
  readonly cluster: Cluster | null;
  /** Null while the cluster has the job. */
  readonly archived: ArchivedJob | null;
}

/** The error for what only a job in its cluster has, such as pods to attach to. */
export function absentError({ id, copy }: FoundJob): JobmanError {
  const lines = [`Its logs and history remain: jobman logs ${id}, jobman history ${id}`];
  return copy?.isGone === true
    ? new JobmanError(`Job ${id} is deleted. ${copy.message}`, exitCode.notFound, lines)
    : new JobmanError(`Job ${id} cannot be reached. ${copy?.message ?? ''}`, exitCode.unreachable, lines);
}

export function recordOfJob(
  job: ClusterJob,
  {
    context,
    copy,
    ...rest
  }: Omit<ClusterRecord, 'found' | 'job'> & { readonly context: string; readonly copy: ArchivedCopy | null },
): ClusterRecord {
  const { name, namespace, uid } = job;
  return { found: { id: name, cluster: { context, namespace, uid }, copy, note: null }, job, ...rest };
}

/** The cluster of a job that a cluster has. */
export function expectCluster(cluster: Cluster | null): Cluster {
  if (cluster === null) throw new Error('a job that the cluster has was found without a cluster');
  return cluster;
}
