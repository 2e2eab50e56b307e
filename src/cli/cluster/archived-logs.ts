import type { ClusterArchive } from '../../app/cluster/commands.ts';
import type { ClusterJob } from '../../app/cluster/cluster.ts';
import { readArchivedLog } from '../../app/cluster/archived-logs.ts';
import { archivedResult, type ArchivedJob } from '../../app/cluster/archive.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import type { LogsFlags } from '../table/flags.ts';
import type { Cli } from '../context.ts';
import { createLogPrinter, expectClusterFlags, wantedPieces } from './log-printer.ts';
import { mainContainer } from './pods.ts';

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
