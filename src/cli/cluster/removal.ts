// Removal: a job is deleted in its cluster, until it is seen gone or the reader leaves. What the cluster was told stays told.

import type { Cluster, ClusterJob, ClusterRemoval } from '../../app/cluster/cluster.ts';
import type { Cli } from '../context.ts';

/** Null when the signal came first, which is said. */
export async function removal(
  cli: Cli,
  cluster: Cluster,
  { name, active }: Pick<ClusterJob, 'name' | 'active'>,
  signal: AbortSignal,
): Promise<ClusterRemoval | null> {
  if (active > 0) cli.note(`${name}: its pods are asked to end; they may take half a minute.`);
  try {
    return await cluster.remove(name, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
    cli.complain(`Left before ${name} was seen gone; what the cluster was told stays told. See: jobman why ${name}`);
    return null;
  }
}
