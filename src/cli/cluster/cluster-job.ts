// A job of a cluster, and a job of which only the archive has a copy: the cluster has deleted it or cannot be reached.

import type { ClusterArchive, ClusterVerb } from '../../app/cluster/commands.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { ownerLabels } from '../../app/cluster/job-object.ts';
import {
  clusterJobEvents,
  mayBeActive,
  archivedPhase,
  archivedResult,
  type ArchivedJob,
  type ClusterJobEvent,
} from '../../app/cluster/archive.ts';
import { clusterPhase, clusterResult, type ClusterResult } from '../../app/cluster/job-result.ts';
import { exitCode, usageError, JobmanError } from '../../app/errors.ts';
import { escapeLine } from '../../app/format.ts';
import { isFinishedPhase, type Phase } from '../../core/decide/phase.ts';
import { printError, printRefusal, verdictCode, type Cli, printDone } from '../context.ts';
import type { JobHandle, JobText } from '../jobs/handle.ts';
import { labelled } from '../render/aligned.ts';
import { wrap } from '../render/cell.ts';
import { historyLines } from '../render/history.ts';
import { columnsOf } from '../screen.ts';
import { observeJob } from '../../app/cluster/observe-job.ts';
import type { V1Job } from '@kubernetes/client-node';
import { archivedDetails, detailsText, observeDetails } from './details.ts';
import { rerun } from './verbs.ts';

export function clusterJob(cli: Cli, archive: ClusterArchive, cluster: Cluster, job: ClusterJob): JobHandle {
  const { name } = job;
  return {
    id: name,
    isStored: false,
    async show() {
      return detailsText(cli, await observeDetails(cli, cluster, job, { now: cli.io.now() }));
    },
    why: async () => clusterWhy(cli, name, clusterResult(await observeJob(cluster, job), { now: cli.io.now() })),
    history: (isTimeline) => clusterHistory(cli, archive, job, cluster, isTimeline),
    async report() {
      const { clusterReport } = await import('../report/cluster.ts');
      const details = await observeDetails(cli, cluster, job, { now: cli.io.now(), isKept: true });
      const archived = archive.isUsed ? await archive.job(job.uid) : undefined;
      const events = await allEvents(archive, job, clusterJobEvents(details.observation));
      return clusterReport(cli, { details, archive, archived, cluster, events, exitCode: exitCode.ok, notes: [] });
    },
    async diffSide(attempt) {
      refuseAttempt(name, attempt);
      const [observation, object, { clusterDiffSide }] = await Promise.all([
        observeJob(cluster, job),
        cluster.raw(name),
        import('../../app/cluster/diff-side.ts'),
      ]);
      return clusterDiffSide({ ...observation, object, result: clusterResult(observation, { now: cli.io.now() }) });
    },
    usageJob: async () => ({ key: job.uid, name, title: `job ${name}` }),
    async logs(flags) {
      const { followClusterLogs, printClusterLogs } = await import('./logs.ts');
      if (flags.follow === true) {
        const end = await followClusterLogs(cli, cluster, job, flags);
        return end === 'left' ? exitCode.interrupted : exitCode.ok;
      }
      const reason = async () => clusterResult(await observeJob(cluster, job), { now: cli.io.now() }).message;
      await printClusterLogs(cli, { cluster, job, reason }, flags);
      return exitCode.ok;
    },
    async metrics(query) {
      const { clusterMetrics } = await import('./metrics.ts');
      return clusterMetrics(cli, archive, cluster, job, query);
    },
    async *metricPoints(query) {
      const { clusterMetricPoints } = await import('./metrics.ts');
      yield* clusterMetricPoints(cli, archive, cluster, job, query);
    },
    async followLast(tail, leave) {
      const { followClusterLogs } = await import('./logs.ts');
      cli.note(`-- log of ${name}; q returns to the list`);
      return (await followClusterLogs(cli, cluster, job, { follow: true, tail }, leave)) === 'ended';
    },
    async perform(verb) {
      const { runClusterVerb } = await import('./verbs.ts');
      return runClusterVerb({ cli, archive, cluster, job }, verb);
    },
    async delete() {
      const { deleteClusterJob } = await import('./verbs.ts');
      return deleteClusterJob({ cli, archive, cluster, job });
    },
    async clean() {
      // The controller would archive the job again.
      const { context, namespace } = cluster.context();
      const kept = `Job ${name} is still in ${context}/${namespace}, so its logs are kept`;
      return printRefusal(cli, name, `${kept}; jobman delete ${name} removes it there first.`);
    },
    wait: (signal) => waitForJob(cli, cluster, job, signal),
    async machines(_use, flags) {
      const { openPods } = await import('./pods.ts');
      return openPods(cli, cluster, job, flags);
    },
    async portTarget(flags) {
      const { podPortTarget } = await import('./pods.ts');
      return podPortTarget(cli, cluster, job, flags);
    },
    ssh() {
      throw usageError(
        `Job ${name} is in a cluster, and its pods have no ssh. Open a shell in a pod: jobman exec -j ${name} -it -- sh`,
      );
    },
  };
}

function refuseAttempt(name: string, attempt: number | null): void {
  if (attempt !== null)
    throw usageError(`Job ${name} is in a cluster and has no attempts: write ${name} without #${attempt}.`);
}

function clusterWhy(cli: Cli, name: string, { phase, message, evidence }: ClusterResult): JobText {
  const columns = columnsOf(cli.io.stdout);
  return {
    objects: () => [{ id: name, backend: 'kubernetes', phase, message, evidence }],
    lines: () => [
      ...wrap(escapeLine(message), columns ?? Number.POSITIVE_INFINITY),
      ...(evidence === null ? [] : labelled([['because', evidence]], columns)),
    ],
  };
}

/** Prints the result of a finished job and resolves with its exit code. */
function printVerdict(cli: Cli, name: string, result: ClusterResult): number {
  const { objects, lines } = clusterWhy(cli, name, result);
  if (cli.json) cli.printJsonLines(objects());
  else cli.printAll(lines());
  return verdictCode(result);
}

/** From the archive, merged with the cluster's current events if the cluster has the job. */
async function clusterHistory(
  cli: Cli,
  archive: ClusterArchive,
  job: ClusterJob,
  cluster: Cluster | null,
  isTimeline: boolean,
): Promise<JobText> {
  if (isTimeline) throw usageError('--timeline shows attempts, and a job in a cluster has none.');
  const now = cluster === null ? [] : clusterJobEvents(await observeJob(cluster, job));
  const events = await allEvents(archive, job, now);
  const { io, screen } = cli;
  return {
    objects: () => events.map(({ at, message }) => ({ at, message })),
    lines: () => [
      screen.styleOut('bold', escapeLine(`${job.name} (${job.owner ?? 'made by another tool'})`)),
      ...historyLines(events, columnsOf(io.stdout), io.now()),
    ],
  };
}

/** Those of the archive and of the cluster, oldest first. */
async function allEvents(
  archive: ClusterArchive,
  { uid }: ClusterJob,
  now: readonly ClusterJobEvent[],
): Promise<readonly ClusterJobEvent[]> {
  const byKey = new Map([...(await archive.events(uid)), ...now].map((event) => [event.key, event]));
  return [...byKey.values()].toSorted((one, other) => one.at - other.at);
}

async function waitForJob(cli: Cli, cluster: Cluster, job: ClusterJob, signal: AbortSignal): Promise<number | null> {
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
    const result = clusterResult(await observeJob(cluster, change.object), { now: cli.io.now() });
    if (isFinishedPhase(phase)) return printVerdict(cli, job.name, { ...result, phase });
    if (!cli.json) cli.note(result.message);
  }
  return null;
}

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
  const result = () => archivedResult(archived, { now: cli.io.now() });

  let isNoted = false;
  function noteOnce(): void {
    if (!isNoted) cli.note(note);
    isNoted = true;
  }
  function refuse(): never {
    const lines = [`Its logs and history remain: jobman logs ${name}, jobman history ${name}`];
    throw isGone
      ? new JobmanError(`Job ${name} is deleted. ${note}`, exitCode.notFound, lines)
      : new JobmanError(`Job ${name} cannot be reached. ${note}`, exitCode.unreachable, lines);
  }
  function expectListed(): void {
    if (archived.hidden) refuse();
    noteOnce();
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
      return { ...detailsText(cli, await archivedDetails(cli, archived, { now: cli.io.now() })), exitCode: code };
    },
    async why() {
      expectListed();
      return { ...clusterWhy(cli, name, result()), exitCode: code };
    },
    async history(isTimeline) {
      noteOnce();
      return { ...(await clusterHistory(cli, archive, archived.job, null, isTimeline)), exitCode: code };
    },
    async report() {
      noteOnce();
      const { clusterReport } = await import('../report/cluster.ts');
      const details = await archivedDetails(cli, archived, { now: cli.io.now(), isKept: true });
      const events = await allEvents(archive, archived.job, []);
      return clusterReport(cli, { details, archive, archived, cluster: null, events, exitCode: code, notes: [note] });
    },
    async diffSide(attempt) {
      refuseAttempt(name, attempt);
      noteOnce();
      const { clusterDiffSide } = await import('../../app/cluster/diff-side.ts');
      const object = archived.object === null ? null : (JSON.parse(archived.object) as V1Job);
      return clusterDiffSide({ ...archived, object, result: result() });
    },
    usageJob: async () => ({ key: archived.job.uid, name, title: `job ${name}` }),
    async logs(flags) {
      noteOnce();
      if (flags.previous === true) {
        const message = 'The archive does not separate the output before a restart of the container.';
        throw new JobmanError(message, exitCode.notFound);
      }
      const { printClusterLogs } = await import('./logs.ts');
      await printClusterLogs(cli, { cluster: null, job: archived.job, reason: async () => result().message }, flags);
      return code;
    },
    async metrics(query) {
      noteOnce();
      const { clusterMetrics } = await import('./metrics.ts');
      return clusterMetrics(cli, archive, null, archived.job, query);
    },
    async *metricPoints(query) {
      noteOnce();
      const { clusterMetricPoints } = await import('./metrics.ts');
      yield* clusterMetricPoints(cli, archive, null, archived.job, query);
    },
    async perform(verb) {
      expectGone();
      if (verb === 'rerun') noteOnce();
      else expectListed();
      return performArchived(cli, archive, archived, cluster, verb);
    },
    async delete() {
      expectGone();
      expectListed();
      if (cluster === null)
        throw new JobmanError(`Job ${name} cannot be deleted: its cluster cannot be reached.`, exitCode.unreachable);
      await archive.hide(uid);
      return printDone(cli, name, `Job ${name} left the list. Remove its logs and history too: jobman clean ${name}`);
    },
    async clean() {
      noteOnce();
      return Math.max(code, await cleanArchived(cli, archive, archived));
    },
    async wait() {
      expectListed();
      if (isFinishedPhase(archivedPhase(archived)) && isCertain) return printVerdict(cli, name, result());
      throw new JobmanError(`Job ${name} cannot be watched: its cluster cannot be reached.`, exitCode.unreachable);
    },
    followLast: refuse,
    machines: refuse,
    portTarget: refuse,
    ssh: refuse,
  };
}

/** Only `rerun` works for a job that its cluster no longer has, and only if the cluster answers. */
async function performArchived(
  cli: Cli,
  archive: ClusterArchive,
  { job: { name }, object }: ArchivedJob,
  cluster: Cluster | null,
  verb: ClusterVerb,
): Promise<number> {
  if (verb !== 'rerun' || cluster === null) {
    return printRefusal(cli, name, `Job ${name} is not in its cluster, so there is nothing to ${verb}.`);
  }
  if (object === null)
    return printRefusal(cli, name, `jobman has no copy of the Job ${name}, so it cannot be run again.`);
  return rerun(cli, archive, cluster, JSON.parse(object) as V1Job);
}

export async function cleanArchived(cli: Cli, archive: ClusterArchive, archived: ArchivedJob): Promise<number> {
  const { name, owner } = archived.job;
  if (owner !== null && !ownerLabels(await cli.services.actor()).includes(owner))
    return printRefusal(cli, name, `Job ${name} belongs to ${owner}; only its owner may clean it.`);
  if (archived.goneAt === null && mayBeActive(archived) && archivedPhase(archived) !== 'stopped') {
    return printRefusal(cli, name, `Job ${name} was unfinished at the last check, so its logs are kept.`);
  }
  await archive.remove(archived);
  return printDone(cli, name, `The logs and history of ${name} are removed.`);
}
