// Commands on archived cluster jobs: the cluster has deleted the job, or cannot be reached.

import type { ClusterArchive } from '../../app/cluster/commands.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { readArchivedLog } from '../../app/cluster/archived-logs.ts';
import {
  mayBeActive,
  archivedPhase,
  archivedResult,
  clusterJobEvents,
  type ArchivedJob,
} from '../../app/cluster/archive.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { pluralize, escapeLine } from '../../app/format.ts';
import type { LogsFlags } from '../table/flags.ts';
import { printDone, printRefusal, type Cli } from '../context.ts';
import { historyLines } from '../render/history.ts';
import type { JobFlags } from './resolve-jobs.ts';
import { createLogPrinter, expectClusterFlags, wantedPieces } from './log-printer.ts';
import { mainContainer } from './pods.ts';
import { printClusterResult, observeJob } from './observe.ts';

export interface HistoryFlags extends JobFlags {
  readonly timeline?: boolean | undefined;
}

export function whyArchived(cli: Cli, archived: ArchivedJob): number {
  return printClusterResult(cli, archived.job.name, archivedResult(archived, cli.io.now()));
}

/** `logs` from the archive, for the pods that `isWanted` selects. False if the archive has no such log. */
export async function printArchivedPods(
  cli: Cli,
  { uid }: Pick<ClusterJob, 'uid'>,
  flags: LogsFlags,
  isWanted: (pod: string, container: string) => boolean,
): Promise<boolean> {
  const archive = await cli.services.clusterArchive();
  const archived = archive.isUsed ? await archive.job(uid) : undefined;
  if (archived === undefined || flags.previous === true) return false;
  const { worker, container } = flags;
  const files = (await archive.logs(archived)).filter(
    ({ pod, container: name }) =>
      isWanted(pod, name) &&
      (container === undefined || name === container) &&
      (worker === undefined || archived.pods.some((one) => one.name === pod && one.index === worker)),
  );
  if (files.length === 0) return false;
  cli.note(`The cluster no longer has this log; this is the archived copy.`);
  await printArchivedLogs(cli, { ...archive, logs: async () => files }, archived, flags);
  return true;
}

export async function printArchivedLogs(
  cli: Cli,
  archive: ClusterArchive,
  archived: ArchivedJob,
  flags: LogsFlags,
): Promise<number> {
  expectClusterFlags(flags);
  const { job, pods } = archived;
  if (flags.previous === true) {
    throw new JobmanError(
      'The archive does not separate the output before a restart of the container.',
      exitCode.notFound,
    );
  }
  const all = await archive.logs(archived);
  const named = flags.container === undefined ? all : all.filter(({ container }) => container === flags.container);
  const order = [...new Set([...pods.map(({ name }) => name), ...all.map(({ pod }) => pod)])];
  const indexOf = (name: string): number | null => pods.find((pod) => pod.name === name)?.index ?? null;
  const having = order.filter((name) => named.some(({ pod }) => pod === name));
  const wanted =
    flags.allPods === true
      ? having
      : having.filter((name) => flags.worker === undefined || indexOf(name) === flags.worker).slice(-1);
  if (wanted.length === 0) {
    cli.note(
      `The archive has no log: nothing was printed while a controller ran. ${archivedResult(archived, cli.io.now()).message}`,
    );
    return exitCode.ok;
  }
  const printer = createLogPrinter(cli, job.name, flags, wanted.length > 1 || job.parallelism > 1);
  for (const name of wanted) {
    const index = indexOf(name);
    const ours = named.filter(({ pod }) => pod === name);
    // Without a name, show the container that jobman creates: the last one if init containers run before it.
    const isOne = flags.container === undefined && flags.allPods !== true && flags.allContainers !== true;
    const chosen = isOne ? mainLogs(archived, name, ours) : ours;
    for (const { path, container, state } of chosen) {
      const query = {
        ...(flags.tail === undefined || flags.grep !== undefined ? {} : { tail: flags.tail }),
        ...(flags.since === undefined ? {} : { since: cli.io.now() - flags.since }),
      };
      for await (const piece of wantedPieces(readArchivedLog(path, query), flags)) {
        await printer.write({ name, index }, container, piece);
        if (printer.isClosed()) return exitCode.ok;
      }
      if (state === 'truncated')
        cli.note(`${name} was deleted before the end of the output of ${container} was copied.`);
    }
    if (chosen.length < ours.length) {
      const names = ours.map(({ container }) => container).join(', ');
      cli.note(
        `${name} had several containers (${names}); this is ${chosen[0]?.container ?? 'none'}. --container names another.`,
      );
    }
  }
  if (having.length > wanted.length) {
    cli.note(`${job.name} had ${pluralize(having.length, 'pod')}; this is ${wanted[0]}. --all-pods shows all.`);
  }
  return exitCode.ok;
}

function mainLogs<T extends { readonly container: string }>(
  { pods }: ArchivedJob,
  name: string,
  ours: readonly T[],
): readonly T[] {
  const main = mainContainer(pods.find((pod) => pod.name === name)?.containers ?? []);
  const found = ours.filter(({ container }) => container === main?.name);
  return found.length > 0 ? found : ours.slice(0, 1);
}

/** `history` from the archive, merged with the cluster's current events if the cluster has the job. */
export async function printHistory(
  cli: Cli,
  archive: ClusterArchive,
  job: ClusterJob,
  cluster: Cluster | null,
  { timeline }: HistoryFlags,
): Promise<number> {
  if (timeline === true) {
    throw usageError('--timeline is of attempts, which a job in a cluster has none of.');
  }
  const now = cluster === null ? [] : clusterJobEvents(await observeJob(cluster, job));
  const byKey = new Map([...(await archive.events(job.uid)), ...now].map((event) => [event.key, event]));
  const events = [...byKey.values()].toSorted((one, other) => one.at - other.at);
  const { io, screen } = cli;
  if (cli.json) {
    cli.printJsonLines(events.map(({ at, message }) => ({ at, message })));
    return exitCode.ok;
  }
  const lines = [
    screen.styleOut('bold', escapeLine(`${job.name} (${job.owner ?? 'made by another tool'})`)),
    ...historyLines(events, io.stdout.isTerminal ? io.stdout.size().columns : null, io.now()),
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
  return exitCode.ok;
}

export async function hideArchived(
  cli: Cli,
  archive: ClusterArchive,
  { job }: ArchivedJob,
  cluster: Cluster | null,
): Promise<number> {
  if (cluster === null)
    throw new JobmanError(`${job.name} cannot be deleted: its cluster cannot be reached.`, exitCode.unreachable);
  await archive.hide(job.uid);
  const message = `${job.name} is off the list; its logs and history stay until they are cleaned: jobman clean ${job.name}`;
  return printDone(cli, job.name, message);
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

/** The controller would archive the job again. */
export function refuseClean(cli: Cli, cluster: Cluster, { name }: ClusterJob): number {
  const { context, namespace } = cluster.context();
  const message = `${name} is still in ${context}/${namespace}, so its logs are kept; jobman delete ${name} removes it there first.`;
  return printRefusal(cli, name, message);
}
