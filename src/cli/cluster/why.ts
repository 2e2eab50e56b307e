// Why a job of a cluster is as it is: the sentence, and the cluster's own words that it rests on.

import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { clusterVerdict, type ClusterVerdict } from '../../app/cluster/verdict.ts';
import { exitCode } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { labelled } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import { sightOf } from './sight.ts';

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
