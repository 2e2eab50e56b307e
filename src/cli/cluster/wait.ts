import type { Why } from '../../app/client.ts';
import type { ClusterRecord } from '../../app/cluster/cluster-record.ts';
import { clusterWhy } from '../../app/cluster/job-source.ts';
import { clusterPhase, clusterResult } from '../../app/cluster/job-result.ts';
import { observeJob } from '../../app/cluster/observe-job.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Jobs } from '../../app/jobs.ts';
import { isFinishedPhase, type Phase } from '../../core/decide/phase.ts';
import { printError, verdictCode, type Cli } from '../context.ts';
import { whyLines } from '../render/show.ts';
import { layoutOf } from '../screen.ts';

/** Prints the result of the job and resolves with its exit code, or with null if the signal came first. */
export async function waitForClusterJob(
  cli: Cli,
  jobs: Jobs,
  { found, archived, cluster, job }: ClusterRecord,
  signal: AbortSignal,
): Promise<number | null> {
  const print = (why: Why): number => {
    if (cli.json) cli.printJson(why);
    else cli.printAll(whyLines(why, layoutOf(cli)));
    return verdictCode(why);
  };
  if (archived !== null || cluster === null) {
    const why = await jobs.why(found);
    if (found.copy !== null) cli.note(found.copy.message);
    if (isFinishedPhase(why.phase) && found.copy?.isCertain === true) return print(why);
    throw new JobmanError(`Job ${found.id} cannot be watched: its cluster cannot be reached.`, exitCode.unreachable);
  }
  let before: Phase | undefined;
  const onLost = (why: string | null): void =>
    cli.note(why === null ? 'The cluster answers again.' : `The cluster does not answer (${why}); still trying.`);
  for await (const change of cluster.watchJobs({ name: job.name, signal, onLost })) {
    const isAbsent = change.kind === 'synced' && before === undefined;
    if (isAbsent || (change.kind === 'gone' && change.object.uid === job.uid)) {
      return printError(cli, `Job ${job.name} was deleted meanwhile.`, exitCode.failed, { job: job.name });
    }
    if (change.kind !== 'changed' || change.object.uid !== job.uid) continue;
    const phase = clusterPhase(change.object);
    if (phase === before) continue;
    before = phase;
    const observation = await observeJob(cluster, change.object);
    const why = { ...clusterWhy(job, clusterResult(observation, { now: cli.io.now() })), phase };
    if (isFinishedPhase(phase)) return print(why);
    if (!cli.json) cli.note(why.message);
  }
  return null;
}
