// Wait: until jobs of a cluster are over. A watch tells of each, so nothing is asked again and again.

import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { keptPhase, keptVerdict } from '../../app/cluster/kept.ts';
import { clusterPhase, clusterVerdict } from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { lengthText } from '../../app/figures.ts';
import { isSettledPhase, type Phase } from '../../core/phase.ts';
import type { Duration } from '../../core/time.ts';
import { type Cli, complainAbout, verdictCode } from '../context.ts';
import { callAfter, leaveOnSignal } from '../leave.ts';
import { onlyKept, type Meant, type PlaceFlags } from './either.ts';
import { printVerdict, sightOf } from './verdict.ts';

export interface WaitFlags extends PlaceFlags {
  readonly timeout?: Duration | undefined;
  readonly jobName?: string | undefined;
}

/** Resolves with the worst verdict of those that are not of the record: 130 when the reader left, 1 when the time was over. */
export async function waitForCluster(cli: Cli, { meanings }: Meant, flags: WaitFlags): Promise<number> {
  const { signal: left, release } = leaveOnSignal(cli);
  const late = new AbortController();
  const callOff = callAfter(flags.timeout, () => late.abort());
  const signal = AbortSignal.any([left, late.signal]);
  const open = new Set<string>();

  const one = async (meaning: Meant['meanings'][number]): Promise<number> => {
    try {
      switch (meaning.kind) {
        case 'record':
          return exitCode.ok;
        case 'none':
          throw meaning.error;
        case 'kept': {
          const phase = keptPhase(meaning.job);
          if (meaning.job.hidden) throw onlyKept(meaning);
          cli.note(meaning.note);
          if (!isSettledPhase(phase) || !meaning.isSure) {
            throw new JobmanError(
              `${meaning.job.job.name} cannot be waited for: its cluster cannot be asked.`,
              exitCode.unreachable,
            );
          }
          return said(meaning.job.job.name, keptVerdict(meaning.job, cli.io.now()));
        }
        case 'cluster': {
          open.add(meaning.job.name);
          const code = await waitFor(cli, meaning.cluster, meaning.job, signal);
          if (code !== null) open.delete(meaning.job.name);
          return code ?? exitCode.ok;
        }
      }
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      return complainAbout(error, cli);
    }
  };
  const said = (name: string, verdict: Parameters<typeof printVerdict>[2]): number => {
    printVerdict(cli, name, verdict);
    return verdictCode(verdict);
  };

  try {
    const worst = Math.max(...(await Promise.all(meanings.map(one))));
    if (open.size === 0) return worst;
    const names = [...open].join(', ');
    if (left.aborted) {
      cli.complain(`Left; ${names} ${open.size === 1 ? 'goes' : 'go'} on. Back: jobman wait ${[...open].join(' ')}`);
      return exitCode.interrupted;
    }
    cli.complain(`Not settled after ${lengthText(flags.timeout ?? 0)}: ${names}. The wait is over; the jobs go on.`);
    return Math.max(worst, exitCode.failed);
  } finally {
    callOff();
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
      cli.complain(`${job.name} was deleted meanwhile.`);
      return exitCode.failed;
    }
    if (change.kind !== 'changed' || change.object.uid !== job.uid) continue;
    const phase = clusterPhase(change.object);
    if (phase === before) continue;
    before = phase;
    const verdict = clusterVerdict(await sightOf(cluster, change.object), cli.io.now());
    if (isSettledPhase(phase)) {
      printVerdict(cli, job.name, verdict);
      return verdictCode({ phase });
    }
    if (!cli.json) cli.note(verdict.sentence);
  }
  return null;
}
