// Sight: everything that is asked of a cluster to say why one of its jobs is as it is.

import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { type ClusterSight, clusterVerdict, type ClusterVerdict, isClusterSettled } from '../../app/cluster/verdict.ts';
import type { Cli } from '../context.ts';
import { labelled } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';

/** The pods of a job, oldest first. Those of an earlier Job of the name, which may still be ending, are not its own. */
export async function podsOf(cluster: Cluster, { name, uid }: ClusterJob): Promise<readonly ClusterPod[]> {
  const all = (await Array.fromAsync(cluster.pods({ job: name }))).flat();
  const own = all.filter(({ jobUid }) => (jobUid ?? uid) === uid);
  return own.toSorted((one, other) => one.createdAt - other.createdAt || (one.index ?? 0) - (other.index ?? 0));
}

/**
 * The job with its pods and the events of both. Nodes, and the pods on them, are asked for only where a pod finds no place:
 * they are many. Quotas are asked for only where the job gets no pod and no event says why: an event lives for an hour. Events of more than a few pods all say the same.
 */
export async function sightOf(cluster: Cluster, job: ClusterJob): Promise<ClusterSight> {
  const pods = await podsOf(cluster, job);
  const events = await cluster.events({ names: [job.name, ...pods.slice(-eventsMost).map(({ name }) => name)] });
  const isRefused = job.active === 0 && pods.length === 0 && !job.suspended && !isClusterSettled(job);
  const hasSaid = events?.some(({ reason }) => reason === 'FailedCreate') === true;
  const quotas = isRefused && !hasSaid ? await cluster.quotas() : null;
  const isHomeless = pods.some(({ conditions }) =>
    conditions.some(
      ({ type, status, reason }) => type === 'PodScheduled' && status === 'False' && reason === 'Unschedulable',
    ),
  );
  const nodes = isHomeless ? await cluster.nodes() : null;
  const neighbours = nodes === null ? null : await everyPod(cluster);
  return { job, pods, events: events ?? [], mayListEvents: events !== null, quotas, nodes, neighbours };
}

const eventsMost = 5;

async function everyPod(cluster: Cluster): Promise<readonly ClusterPod[] | null> {
  try {
    return (await Array.fromAsync(cluster.pods({ everywhere: true }))).flat();
  } catch (error) {
    if (error instanceof JobmanError && error.code === exitCode.failed) return null;
    throw error;
  }
}

/** With --json one object with the phase. */
export async function printWhy(cli: Cli, cluster: Cluster, job: ClusterJob): Promise<number> {
  return printVerdict(cli, job.name, clusterVerdict(await sightOf(cluster, job), cli.io.now()));
}

/** The verdict on the job of that name. */
export function printVerdict(cli: Cli, name: string, { phase, sentence, because }: ClusterVerdict): number {
  if (cli.json) cli.print(JSON.stringify({ id: name, phase, sentence, because }));
  else {
    cli.tell(sentence);
    if (because !== null)
      for (const line of labelled([['because', because]], columnsOf(cli.io.stdout))) cli.print(line);
  }
  return exitCode.ok;
}
