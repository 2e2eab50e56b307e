import { pluralize } from '../format.ts';
import type { JobSelection } from '../job-source.ts';
import type { Cluster } from './cluster.ts';
import { archivedJobs, recordOfJob, type ClusterParts, type ClusterRecord } from './cluster-record.ts';
import { archivedRow, rowsOf } from './job-list.ts';
import { clusterLabels, ownerLabels } from './job-object.ts';

type Selection = Omit<JobSelection, 'jobs'> & { readonly records: readonly ClusterRecord[] };

/** All jobs of the namespace, or with `own` those that the actor has submitted. */
export async function selectInNamespace(
  { io, client }: ClusterParts,
  cluster: Cluster,
  own: boolean,
): Promise<Selection> {
  const { context, namespace } = cluster.context();
  const where = `${context}/${namespace}`;
  const names = ownerLabels(await (await client()).whoAmI());
  const labels = `${clusterLabels.managedBy}=jobman,${clusterLabels.owner} in (${names.join(',')})`;
  const jobs = (await Array.fromAsync(cluster.jobs(own ? { labels } : {}))).flat();
  const foreign = jobs.filter(({ owner }) => owner === null || !names.includes(owner)).length;
  const others = foreign === 0 ? '' : `, ${foreign} of them not yours`;
  return {
    records: jobs.map((job) => recordOfJob(job, { context, cluster, archived: null, copy: null })),
    rows: await rowsOf(cluster, jobs, io.now()),
    description: `${pluralize(jobs.length, 'job')} in ${where}${others}`,
    nothing: own ? `You have no jobs in ${where}.` : `There are no jobs in ${where}.`,
  };
}

/** The actor's own jobs that no cluster has any more. */
export async function selectArchived(parts: ClusterParts): Promise<Selection> {
  const { io, client } = parts;
  const names = ownerLabels(await (await client()).whoAmI());
  const archived = (await archivedJobs(parts, {})).filter(
    ({ goneAt, job: { owner } }) => goneAt !== null && owner !== null && names.includes(owner),
  );
  return {
    records: archived.map((one) =>
      recordOfJob(one.job, { context: one.context, cluster: null, archived: one, copy: null }),
    ),
    rows: archived.map((one) => archivedRow(one, io.now())),
    description: pluralize(archived.length, 'finished job'),
    nothing: 'Nothing to clean.',
  };
}
