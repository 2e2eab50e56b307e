// A job of which only the archive has a copy: the cluster has deleted the job, or cannot be reached.

import type { V1Job } from '@kubernetes/client-node';
import type { ClusterArchive, ClusterVerb } from '../../app/cluster/commands.ts';
import type { Cluster } from '../../app/cluster/cluster.ts';
import { mayBeActive, archivedPhase, archivedResult, type ArchivedJob } from '../../app/cluster/archive.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { printDone, printRefusal, type Cli } from '../context.ts';
import type { JobHandle } from '../jobs/handle.ts';
import { clusterHistory, clusterWhy, printVerdict } from './cluster-job.ts';
import { archivedDetails } from './details.ts';
import { rerun } from './verbs.ts';

export interface ArchivedCopy {
  readonly job: ArchivedJob;
  readonly note: string;
  /** True if nothing can have changed since. */
  readonly isCertain: boolean;
  /** True if the cluster has reported that it does not have the job. */
  readonly isGone: boolean;
  readonly cluster: Cluster | null;
}

export function archivedJob(cli: Cli, archive: ClusterArchive, copy: ArchivedCopy): JobHandle {
  const { job: archived, note, cluster, isCertain, isGone } = copy;
  const { name, uid } = archived.job;
  /** The exit code says that the answer may be old. */
  const code = isCertain ? exitCode.ok : exitCode.unreachable;
  const result = () => archivedResult(archived, cli.io.now());

  function refuse(): never {
    const lines = [`Its logs and history remain: jobman logs ${name}, jobman history ${name}`];
    throw isGone
      ? new JobmanError(`${name} is deleted. ${note}`, exitCode.notFound, lines)
      : new JobmanError(`${name} cannot be reached. ${note}`, exitCode.unreachable, lines);
  }
  function expectListed(): void {
    if (archived.hidden) refuse();
    cli.note(note);
  }
  function expectGone(): void {
    if (isGone) return;
    throw new JobmanError(`Nothing changed: ${name} may still run in its cluster. ${note}`, exitCode.unreachable);
  }

  return {
    id: name,
    isStored: false,
    async show() {
      expectListed();
      return { ...archivedDetails(cli, archived), exitCode: code };
    },
    async why() {
      expectListed();
      return { ...clusterWhy(cli, name, result()), exitCode: code };
    },
    async history(isTimeline) {
      cli.note(note);
      return { ...(await clusterHistory(cli, archive, archived.job, null, isTimeline)), exitCode: code };
    },
    async logs(flags) {
      cli.note(note);
      if (flags.previous === true) {
        const message = 'The archive does not separate the output before a restart of the container.';
        throw new JobmanError(message, exitCode.notFound);
      }
      const { printClusterLogs } = await import('./logs.ts');
      await printClusterLogs(cli, { cluster: null, job: archived.job, reason: async () => result().message }, flags);
      return code;
    },
    async perform(verb) {
      expectGone();
      if (verb === 'rerun') cli.note(note);
      else expectListed();
      return performArchived(cli, archive, archived, cluster, verb);
    },
    async delete() {
      expectGone();
      expectListed();
      if (cluster === null)
        throw new JobmanError(`${name} cannot be deleted: its cluster cannot be reached.`, exitCode.unreachable);
      await archive.hide(uid);
      const kept = 'its logs and history stay until they are cleaned';
      return printDone(cli, name, `${name} is off the list; ${kept}: jobman clean ${name}`);
    },
    async clean() {
      cli.note(note);
      return Math.max(code, await cleanArchived(cli, archive, archived));
    },
    async wait() {
      expectListed();
      if (isFinishedPhase(archivedPhase(archived)) && isCertain) return printVerdict(cli, name, result());
      throw new JobmanError(`${name} cannot be watched: its cluster cannot be reached.`, exitCode.unreachable);
    },
    followLast: refuse,
    machines: refuse,
    portTarget: refuse,
    ssh: refuse,
  };
}

/** For a job that is not in its cluster only `rerun` works, if the cluster answers. */
async function performArchived(
  cli: Cli,
  archive: ClusterArchive,
  { job: { name }, object }: ArchivedJob,
  cluster: Cluster | null,
  verb: ClusterVerb,
): Promise<number> {
  if (verb !== 'rerun' || cluster === null) {
    return printRefusal(cli, name, `${name} is not in its cluster, so there is nothing to ${verb}.`);
  }
  if (object === null) return printRefusal(cli, name, `What ${name} ran was not kept, so it cannot be run again.`);
  return rerun(cli, archive, cluster, JSON.parse(object) as V1Job);
}

export async function cleanArchived(cli: Cli, archive: ClusterArchive, archived: ArchivedJob): Promise<number> {
  const { name, owner } = archived.job;
  if (owner !== null && owner !== cli.io.user)
    return printRefusal(cli, name, `${name} belongs to ${owner}; only its owner may clean it.`);
  if (archived.goneAt === null && mayBeActive(archived) && archivedPhase(archived) !== 'stopped') {
    return printRefusal(cli, name, `${name} was not over when it was last seen, so its logs are kept.`);
  }
  await archive.remove(archived);
  return printDone(cli, name, `The logs and history of ${name} are removed.`);
}
