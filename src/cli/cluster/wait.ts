import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { archivedPhase, archivedResult } from '../../app/cluster/archive.ts';
import { clusterPhase, clusterResult } from '../../app/cluster/job-result.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatDuration } from '../../app/format.ts';
import { isFinishedPhase, type Phase } from '../../core/decide/phase.ts';
import type { Duration } from '../../core/model/time.ts';
import { type Cli, reportError, verdictCode, printError } from '../context.ts';
import { callAfter, abortOnSignal } from '../interrupt.ts';
import { onlyArchivedError, type Resolution, type JobFlags } from './resolve-jobs.ts';
import { printClusterResult, observeJob } from './observe.ts';

export interface WaitFlags extends JobFlags {
  readonly timeout?: Duration | undefined;
}

/** The worst exit code of the jobs outside the store: 130 if the user left, 1 after the timeout. */
export async function waitForCluster(cli: Cli, { jobs, names }: Resolution, flags: WaitFlags): Promise<number> {
  const { signal: left, release } = abortOnSignal(cli);
  const late = new AbortController();
  const cancelTimeout = callAfter(flags.timeout, () => late.abort());
  const signal = AbortSignal.any([left, late.signal]);
  const open = new Set<string>();

  const one = async (resolved: Resolution['jobs'][number], at: number): Promise<number> => {
    try {
      switch (resolved.kind) {
        case 'stored':
          return exitCode.ok;
        case 'none':
          throw resolved.error;
        case 'archived': {
          const phase = archivedPhase(resolved.job);
          if (resolved.job.hidden) throw onlyArchivedError(resolved);
          cli.note(resolved.note);
          if (!isFinishedPhase(phase) || !resolved.isCertain) {
            throw new JobmanError(
              `${resolved.job.job.name} cannot be watched: its cluster cannot be reached.`,
              exitCode.unreachable,
            );
          }
          return printFinal(resolved.job.job.name, archivedResult(resolved.job, cli.io.now()));
        }
        case 'cluster': {
          open.add(resolved.job.name);
          const code = await waitFor(cli, resolved.cluster, resolved.job, signal);
          if (code !== null) open.delete(resolved.job.name);
          return code ?? exitCode.ok;
        }
      }
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      return reportError(error, cli, { job: names[at] });
    }
  };
  const printFinal = (name: string, result: Parameters<typeof printClusterResult>[2]): number => {
    printClusterResult(cli, name, result);
    return verdictCode(result);
  };

  try {
    const worst = Math.max(...(await Promise.all(jobs.map(one))));
    if (open.size === 0) return worst;
    const names = [...open].join(', ');
    if (left.aborted) {
      cli.printStderr(
        `Detached. ${names} ${open.size === 1 ? 'keeps' : 'keep'} running. Attach again: jobman wait ${[...open].join(' ')}`,
      );
      return exitCode.interrupted;
    }
    printError(cli, `Not finished after ${formatDuration(flags.timeout ?? 0)}: ${names}. The jobs keep running.`);
    return Math.max(worst, exitCode.failed);
  } finally {
    cancelTimeout();
    release();
  }
}

async function waitFor(cli: Cli, cluster: Cluster, job: ClusterJob, signal: AbortSignal): Promise<number | null> {
  let before: Phase | undefined;
  const onLost = (why: string | null): void =>
    cli.note(why === null ? 'The cluster answers again.' : `The cluster does not answer (${why}); still trying.`);
  for await (const change of cluster.watchJobs({ name: job.name, signal, onLost })) {
    const isAbsent = change.kind === 'synced' && before === undefined;
    if (isAbsent || (change.kind === 'gone' && change.object.uid === job.uid)) {
      return printError(cli, `${job.name} was deleted meanwhile.`, exitCode.failed, { job: job.name });
    }
    if (change.kind !== 'changed' || change.object.uid !== job.uid) continue;
    const phase = clusterPhase(change.object);
    if (phase === before) continue;
    before = phase;
    const result = clusterResult(await observeJob(cluster, change.object), cli.io.now());
    if (isFinishedPhase(phase)) {
      printClusterResult(cli, job.name, result);
      return verdictCode({ phase });
    }
    if (!cli.json) cli.note(result.message);
  }
  return null;
}
