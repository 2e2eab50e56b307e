// To the verdict: a job of a cluster is followed until it has ended, and how it ended is the command's own end.

import type { Cluster } from '../../app/cluster/cluster.ts';
import { clusterPhase } from '../../app/cluster/verdict.ts';
import { exitCode } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { followClusterLogs } from './logs.ts';

/**
 * 0 when it succeeded, 1 when it did not or is gone, 130 when the reader left, which `leave` tells. Several pods are told side by
 * side.
 */
export async function followToVerdict(cli: Cli, cluster: Cluster, name: string, leave: AbortSignal): Promise<number> {
  const job = await cluster.job(name);
  if (job === null) return exitCode.failed;
  const end = await followClusterLogs(cli, cluster, job, { follow: true, allPods: job.parallelism > 1 }, leave);
  if (end === 'left') {
    // Nobody reads what a pipe that was closed would be told.
    if (!cli.io.stdout.closed) cli.complain(`Left; ${name} goes on. Back: jobman logs ${name} -f`);
    return exitCode.interrupted;
  }
  const ended = await cluster.job(name);
  return ended !== null && clusterPhase(ended) === 'succeeded' ? exitCode.ok : exitCode.failed;
}
