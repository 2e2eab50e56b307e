// Kept: what our copies tell of a job that its cluster has forgotten, or that cannot be asked.

import type { ClusterKeeper } from '../../app/cluster/client.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { readKept } from '../../app/cluster/kept-logs.ts';
import { isKeptOpen, keptPhase, keptVerdict, momentsOf, type KeptJob } from '../../app/cluster/kept.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { countText, inertWord } from '../../app/figures.ts';
import type { LogsFlags } from '../table/flags.ts';
import { sayAnswer, type Cli } from '../context.ts';
import { historyLines } from '../render/history.ts';
import type { PlaceFlags } from './either.ts';
import { createLogText, expectForClusters, wantedOf } from './log-text.ts';
import { mainContainer } from './pods.ts';
import { printVerdict, sightOf } from './verdict.ts';

export interface HistoryFlags extends PlaceFlags {
  readonly timeline?: boolean | undefined;
  readonly jobName?: string | undefined;
}

/** `why`, from the last that was seen. */
export function whyKept(cli: Cli, kept: KeptJob): number {
  return printVerdict(cli, kept.job.name, keptVerdict(kept, cli.io.now()));
}

/** `logs` of the pods that `isMeant` names and the cluster has no log of, from the copies. False where there is no such copy. */
export async function printCopies(
  cli: Cli,
  { uid }: Pick<ClusterJob, 'uid'>,
  flags: LogsFlags,
  isMeant: (pod: string, container: string) => boolean,
): Promise<boolean> {
  const keeper = await cli.services.keeper();
  const kept = keeper.isUsed ? await keeper.job(uid) : undefined;
  if (kept === undefined || flags.previous === true) return false;
  const { worker, container } = flags;
  const files = (await keeper.logs(kept)).filter(
    ({ pod, container: name }) =>
      isMeant(pod, name) &&
      (container === undefined || name === container) &&
      (worker === undefined || kept.pods.some((one) => one.name === pod && one.index === worker)),
  );
  if (files.length === 0) return false;
  cli.note(`The cluster does not have this log any more; this is our copy.`);
  await logsKept(cli, { ...keeper, logs: async () => files }, kept, flags);
  return true;
}

/** `logs`, from the copies. Following one that cannot print any more is reading it. */
export async function logsKept(cli: Cli, keeper: ClusterKeeper, kept: KeptJob, flags: LogsFlags): Promise<number> {
  expectForClusters(flags);
  const { job, pods } = kept;
  if (flags.previous === true) {
    throw new JobmanError('What a container printed before it was started anew is not kept apart.', exitCode.notFound);
  }
  const all = await keeper.logs(kept);
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
      `There is no copy of a log: nothing was printed while somebody copied it. ${keptVerdict(kept, cli.io.now()).sentence}`,
    );
    return exitCode.ok;
  }
  const text = createLogText(cli, flags, wanted.length > 1 || job.parallelism > 1);
  for (const name of wanted) {
    const index = indexOf(name);
    const ours = named.filter(({ pod }) => pod === name);
    // Without a name it is the container that jobman makes, which is the last where there are others before it.
    const isOne = flags.container === undefined && flags.allPods !== true && flags.allContainers !== true;
    const chosen = isOne ? mainOf(kept, name, ours) : ours;
    for (const { path, container, state } of chosen) {
      const query = {
        ...(flags.tail === undefined || flags.grep !== undefined ? {} : { tail: flags.tail }),
        ...(flags.since === undefined ? {} : { since: cli.io.now() - flags.since }),
      };
      for await (const piece of wantedOf(readKept(path, query), flags)) {
        await text.write({ name, index }, container, piece);
        if (text.isOver()) return exitCode.ok;
      }
      if (state === 'cut') cli.note(`${name} was gone before the end of what ${container} printed was copied.`);
    }
    if (chosen.length < ours.length) {
      const names = ours.map(({ container }) => container).join(', ');
      cli.note(
        `${name} had several containers (${names}); this is ${chosen[0]?.container ?? 'none'}. --container names another.`,
      );
    }
  }
  if (having.length > wanted.length) {
    cli.note(`${job.name} had ${countText(having.length, 'pod')}; this is ${wanted[0]}. --all-pods shows all.`);
  }
  return exitCode.ok;
}

function mainOf<T extends { readonly container: string }>(
  { pods }: KeptJob,
  name: string,
  ours: readonly T[],
): readonly T[] {
  const main = mainContainer(pods.find((pod) => pod.name === name)?.containers ?? []);
  const found = ours.filter(({ container }) => container === main?.name);
  return found.length > 0 ? found : ours.slice(0, 1);
}

/** `history` of what is kept, and of what the cluster tells now if it has the job. */
export async function printHistory(
  cli: Cli,
  keeper: ClusterKeeper,
  job: ClusterJob,
  cluster: Cluster | null,
  { timeline }: HistoryFlags,
): Promise<number> {
  if (timeline === true) {
    throw new JobmanError('--timeline is of attempts, which a job of a cluster has none of.', exitCode.usage);
  }
  const now = cluster === null ? [] : momentsOf(await sightOf(cluster, job));
  const byKey = new Map([...(await keeper.moments(job.uid)), ...now].map((moment) => [moment.key, moment]));
  const moments = [...byKey.values()].toSorted((one, other) => one.at - other.at);
  const { io, screen } = cli;
  if (cli.json) {
    io.stdout.write(
      moments.map(({ at, sentence }) => `${JSON.stringify({ at: new Date(at).toISOString(), sentence })}\n`).join(''),
    );
    return exitCode.ok;
  }
  const lines = [
    screen.out('bold', inertWord(`${job.name} (${job.owner ?? 'made by another tool'})`)),
    ...historyLines(moments, io.stdout.isTerminal ? io.stdout.size().columns : null, io.now()),
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
  return exitCode.ok;
}

/** `delete` of what the cluster does not have any more: off the list. */
export async function hideKept(
  cli: Cli,
  keeper: ClusterKeeper,
  { job }: KeptJob,
  cluster: Cluster | null,
): Promise<number> {
  if (cluster === null)
    throw new JobmanError(`${job.name} cannot be deleted: its cluster cannot be asked.`, exitCode.unreachable);
  await keeper.hide(job.uid);
  const message = `${job.name} is off the list; its logs and history stay until they are cleaned: jobman clean ${job.name}`;
  return sayAnswer(cli, { id: job.name, ok: true, message, code: exitCode.ok });
}

/** `clean`: our copies of a job that is over. */
export async function cleanKept(cli: Cli, keeper: ClusterKeeper, kept: KeptJob): Promise<number> {
  const { name, owner } = kept.job;
  const refuse = (message: string): number => sayAnswer(cli, { id: name, ok: false, message, code: exitCode.conflict });
  if (owner !== null && owner !== cli.io.user)
    return refuse(`${name} belongs to ${owner}; only its owner may clean it.`);
  if (kept.goneAt === null && isKeptOpen(kept) && keptPhase(kept) !== 'stopped') {
    return refuse(`${name} was not over when it was last seen, so its logs are kept.`);
  }
  await keeper.drop(kept);
  return sayAnswer(cli, {
    id: name,
    ok: true,
    message: `The logs and history of ${name} are removed.`,
    code: exitCode.ok,
  });
}

/** `clean` of a job that its cluster still has: it would be copied anew. */
export function cleanOfCluster(cli: Cli, cluster: Cluster, { name }: ClusterJob): number {
  const { context, namespace } = cluster.place();
  const message = `${name} is still in ${context}/${namespace}, so its logs are kept; jobman delete ${name} removes it there first.`;
  return sayAnswer(cli, { id: name, ok: false, message, code: exitCode.conflict });
}
