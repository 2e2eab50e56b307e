// Logs of a job of a cluster: of its newest pod, of one, or of all; once, or until the job has ended. Pods come and go while
// somebody follows, so the job is looked at until it has settled and no pod is left to be read.

import type { Cluster, ClusterContainer, ClusterJob, ClusterLogQuery, ClusterPod } from '../../app/cluster/cluster.ts';
import { clusterPhase, clusterVerdict, isClusterSettled, restartedText } from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import { type Duration, second } from '../../core/time.ts';
import type { LogsFlags } from '../table/flags.ts';
import type { Cli } from '../context.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { createLogText, expectForClusters, type LogText, wantedOf } from './log-text.ts';
import { containerOf } from './pods.ts';
import { podsOf, sightOf } from './verdict.ts';
import { bareLines, stampOf } from '../../app/cluster/kept-logs.ts';

/** Time between checks for new pods: after a change, and at most. Each lists the pods of the job. */
const looks: { readonly first: Duration; readonly most: Duration } = { first: second, most: 5 * second };

/** Prints them; resolves with 0, whatever became of the job: that is `wait`'s matter. */
export async function printClusterLogs(cli: Cli, cluster: Cluster, job: ClusterJob, flags: LogsFlags): Promise<number> {
  expectForClusters(flags);
  if (flags.follow === true) {
    const end = await followClusterLogs(cli, cluster, job, flags);
    return end === 'left' ? exitCode.interrupted : exitCode.ok;
  }
  const all = await podsOf(cluster, job);
  const pods = chosen(all, flags);
  const copies = async (isMeant: (pod: string, container: string) => boolean): Promise<boolean> =>
    (await import('./kept.ts')).printCopies(cli, job, flags, isMeant);
  const isGone = (name: string): boolean => !all.some((pod) => pod.name === name);
  // Of one pod the newest is meant, and what is gone is older; of all pods, those that are gone come first.
  if ((flags.allPods === true || pods.length === 0) && (await copies(isGone)) && pods.length === 0) return exitCode.ok;
  if (pods.length === 0 && flags.worker !== undefined && all.length > 0) {
    throw new JobmanError(`${job.name} has no pod ${flags.worker}.`, exitCode.notFound, [numbersText(job, all)]);
  }
  const text = createLogText(cli, flags, pods.length > 1 || job.parallelism > 1);
  let isSilent = true;
  for (const [pod, container] of pods.flatMap((one) => pairsOf(cli, one, flags))) {
    if (flags.previous === true && container.restarts === 0) {
      if (flags.allContainers === true) continue;
      throw new JobmanError(
        `The container ${container.name} of ${pod.name} was never restarted, so it has no previous log.`,
        exitCode.notFound,
      );
    }
    if (container.state === 'waiting' && flags.previous !== true) continue;
    let hasPrinted = false;
    // Each is copied, whatever the one before it had.
    for await (const piece of wantedOf(cluster.logs(pod.name, container.name, queryOf(cli, flags)), flags)) {
      hasPrinted = true;
      await text.write(pod, container.name, piece);
      if (text.isOver()) return exitCode.ok;
    }
    // The node of an evicted pod has put its log away.
    const isCopied =
      !hasPrinted && isOverPod(pod) && (await copies((name, of) => name === pod.name && of === container.name));
    if (isCopied) hasPrinted = true;
    if (hasPrinted) isSilent = false;
    if (flags.previous !== true && container.restarts > 0) {
      // The node keeps the log of the run before only while the pod is there to run.
      const hint = isOverPod(pod) ? '' : ' What it printed before that: --previous.';
      cli.note(`${restartNote(pod, container)}${hint}`);
    }
  }
  // Its newest pod has not printed yet, and the one before it is gone.
  if (isSilent && flags.allPods !== true && (await copies(isGone))) isSilent = false;
  if (all.length > pods.length) {
    const [pod] = pods;
    cli.note(`${job.name} has ${countText(all.length, 'pod')}; this is ${pod?.name ?? 'none'}. --all-pods shows all.`);
  }
  if (isSilent && flags.grep === undefined) await sayWhy(cli, cluster, job, 'Nothing was printed.');
  return exitCode.ok;
}

/** Until the job has settled, or the reader leaves: with Ctrl-C where no other way is given. */
export async function followClusterLogs(
  cli: Cli,
  cluster: Cluster,
  begun: ClusterJob,
  flags: LogsFlags,
  leave?: AbortSignal,
): Promise<'ended' | 'left'> {
  const { signal, release } = leave === undefined ? leaveOnSignal(cli) : { signal: leave, release: () => undefined };
  // Pods that run side by side, or one after the other towards one end, are all shown, with their numbers in front.
  const isOfAll =
    flags.allPods === true || (flags.worker === undefined && (begun.parallelism > 1 || (begun.completions ?? 1) > 1));
  const text = createLogText(cli, flags, isOfAll);
  const followed = followPods(cli, cluster, begun, { flags, text, signal });
  let said = '';
  /** A cluster that is away for a while is waited for, as it is in the middle of a log. */
  let isLost = false;
  let lookAfter: Duration = looks.first;
  /** The containers of each pod whose logs are read. They are chosen once, because the choice of one container is reported. */
  const pairs = new Map<string, readonly Pair[]>();
  const pairsNow = (pod: ClusterPod): readonly Pair[] => {
    const own = pairsOf(cli, pod, flags);
    pairs.set(pod.uid, own);
    return own;
  };

  try {
    for (;;) {
      if (hasLeft(signal) || cli.io.stdout.closed) return 'left';
      followed.expectNoFailure();
      try {
        // The job before its pods: what is settled then makes no further pod.
        const job = await cluster.job(begun.name);
        const isGone = job === null || job.uid !== begun.uid;
        const isOver = isGone || isClusterSettled(job);
        const pods = isGone ? [] : await podsOf(cluster, begun);
        const fresh = chosen(pods, { ...flags, allPods: isOfAll })
          .filter(isReadable)
          .flatMap((pod) => pairs.get(pod.uid) ?? pairsNow(pod))
          .filter((pair) => !followed.isTaken(pair));
        if (isOfAll || followed.isIdle()) followed.read(fresh);
        followed.sayRestarts(pods);
        if (followed.isIdle() && isOver) {
          if (!followed.hasTaken()) await (await import('./kept.ts')).printCopies(cli, begun, flags, () => true);
          if (isGone) cli.note(`${begun.name} was deleted meanwhile.`);
          else await sayWhy(cli, cluster, job, '');
          return 'ended';
        }
        if (followed.isIdle() && !isGone) {
          const { sentence, phase } = clusterVerdict(await sightOf(cluster, job), cli.io.now());
          // A sentence is repeated only when more than its numbers has changed; and the end is reported in a moment.
          const bare = sentence.replaceAll(/\d+/g, '');
          const isEnding = phase === 'stopping' && !job.deleting;
          if (bare !== said && !isEnding) cli.note(sentence);
          if (bare !== said) lookAfter = looks.first;
          said = bare;
        }
        isLost = false;
      } catch (error) {
        if (!(error instanceof JobmanError) || error.code !== exitCode.unreachable) throw error;
        if (!isLost && followed.isIdle()) cli.note(`${error.message} Still trying.`);
        isLost = true;
      }
      if (followed.takeChange()) lookAfter = looks.first;
      const length = lookAfter;
      lookAfter = Math.min(1.5 * lookAfter, looks.most);
      await Promise.race([pause(length, signal), ...followed.reading()]);
    }
  } finally {
    release();
  }
}

function pairsOf(cli: Cli, pod: ClusterPod, flags: Pick<LogsFlags, 'container' | 'allContainers'>): readonly Pair[] {
  if (flags.allContainers === true) return pod.containers.map((container) => [pod, container] as const);
  return [[pod, containerOf(cli, pod, flags.container)]];
}

function hasLeft(signal: AbortSignal): boolean {
  return signal.aborted;
}

function isReadable({ containers, phase }: ClusterPod): boolean {
  return phase !== 'Pending' || containers.some(({ state }) => state !== 'waiting');
}

function chosen(pods: readonly ClusterPod[], { allPods, worker }: LogsFlags): readonly ClusterPod[] {
  if (allPods === true) return pods;
  const wanted = worker === undefined ? pods : pods.filter(({ index }) => index === worker);
  return wanted.slice(-1);
}

function numbersText({ completions, parallelism }: ClusterJob, pods: readonly ClusterPod[]): string {
  const numbers = pods.flatMap(({ index }) => index ?? []);
  if (numbers.length === 0) return 'Its pods have no numbers. --all-pods shows all.';
  return `Its pods are 0 to ${(completions ?? parallelism) - 1}; so far there are ${new Set(numbers).size} of them.`;
}

function isOverPod({ phase }: ClusterPod): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}

async function sayWhy(cli: Cli, cluster: Cluster, job: ClusterJob, before: string): Promise<void> {
  const { sentence } = clusterVerdict(await sightOf(cluster, job), cli.io.now());
  cli.note(before === '' ? sentence : `${before} ${sentence}`);
}

// ------------------------------------------------------------------------------------------ pods that are followed

const followedMost = 100;
/** The log of one container may fail to open so often, a second apart, before the command ends with the reason. */
const missesMost = 5;

type Pair = readonly [pod: ClusterPod, container: ClusterContainer];

interface FollowOptions {
  readonly flags: LogsFlags;
  readonly text: LogText;
  readonly signal: AbortSignal;
}

function followPods(cli: Cli, cluster: Cluster, job: ClusterJob, options: FollowOptions) {
  const { flags, text, signal } = options;
  const taken = new Set<string>();
  const reading = new Set<Promise<void>>();
  const misses = new Map<string, number>();
  const restarted = new Map<string, number>();
  let failed: unknown;
  let hasChanged = false;
  let hasSaidMany = false;

  /** A log of which nothing was printed may be opened again; the logs of other pods go on meanwhile. */
  async function missed([pod, container]: Pair, error: JobmanError): Promise<void> {
    const key = keyOf(pod, container);
    if (error.code === exitCode.notFound) {
      // Seen in the list, and deleted before its log was opened.
      const isMeant = (name: string, of: string): boolean => name === pod.name && of === container.name;
      if (!(await (await import('./kept.ts')).printCopies(cli, job, flags, isMeant)))
        cli.note(`${pod.name} was deleted before its log was read.`);
      return;
    }
    const times = (misses.get(key) ?? 0) + 1;
    misses.set(key, times);
    if (error.code !== exitCode.unreachable || times >= missesMost) throw error;
    if (times === 1) cli.note(`${error.message} Still trying.`);
    await pause(second, signal);
    taken.delete(key);
  }

  function readOne(pair: Pair): void {
    const [pod, container] = pair;
    taken.add(keyOf(pod, container));
    hasChanged = true;
    let hasPrinted = false;
    const query: ClusterLogQuery = {
      ...queryOf(cli, flags),
      follow: true,
      signal,
      onLost: (why) =>
        cli.note(why === null ? 'The cluster answers again.' : `The cluster does not answer (${why}); still trying.`),
    };
    const own: LogText = {
      ...text,
      write(...written) {
        hasPrinted = true;
        return text.write(...written);
      },
    };
    const work: Promise<void> = followOne(cluster, pair, { query, flags, text: own })
      .catch((error: unknown) => {
        if (!(error instanceof JobmanError) || hasPrinted) throw error;
        return missed(pair, error);
      })
      .catch((error: unknown) => void (failed ??= error))
      .finally(() => {
        reading.delete(work);
        hasChanged = true;
      });
    reading.add(work);
  }

  return {
    /** Begins to read these, as many as may be open. One that waits for its turn is lost only if its pod is deleted. */
    read(wanted: readonly Pair[]): void {
      const room = Math.max(0, followedMost - reading.size);
      if (wanted.length > room && !hasSaidMany) {
        hasSaidMany = true;
        cli.note(`${job.name}: ${followedMost} logs are followed at a time; the others follow when these have ended.`);
      }
      for (const pair of wanted.slice(0, room)) readOne(pair);
    },
    isTaken: ([pod, container]: Pair) => taken.has(keyOf(pod, container)),
    hasTaken: () => taken.size > 0,
    isIdle: () => reading.size === 0,
    /** One promise for each log that is being read; it resolves at the end of the log. */
    reading: () => reading,
    expectNoFailure() {
      if (failed !== undefined) throw failed;
    },
    /** True when a log has begun or ended since the last call. */
    takeChange() {
      const was = hasChanged;
      hasChanged = false;
      return was;
    },
    sayRestarts(pods: readonly ClusterPod[]): void {
      for (const pod of pods) {
        for (const container of pod.containers.filter((one) => taken.has(keyOf(pod, one)))) {
          const key = keyOf(pod, container);
          const before = restarted.get(key);
          restarted.set(key, container.restarts);
          if (before !== undefined && before < container.restarts) cli.note(restartNote(pod, container));
        }
      }
    },
  };
}

async function followOne(
  cluster: Cluster,
  [pod, { name }]: Pair,
  { query, flags, text }: { readonly query: ClusterLogQuery; readonly flags: LogsFlags; readonly text: LogText },
): Promise<void> {
  let before: LogBefore | undefined;
  if (flags.grep !== undefined && flags.tail !== undefined) {
    // The last matches are known when the whole log has been read.
    const { follow: _follow, ...once } = query;
    before = createBefore();
    const there = before.through(cluster.logs(pod.name, name, { ...once, stamped: true }));
    try {
      for await (const piece of wantedOf(there, flags)) await text.write(pod, name, piece);
    } catch (error) {
      // A container that has not begun has no log; whoever follows waits for it.
      if (!(error instanceof JobmanError) || error.code === exitCode.unreachable) throw error;
    }
  }
  const from = before === undefined ? {} : { after: before.after() };
  for await (const piece of cluster.logs(pod.name, name, { ...query, ...from })) {
    await text.write(pod, name, piece);
    if (text.isOver()) break;
  }
}

function queryOf(cli: Cli, { previous, tail, since, grep }: LogsFlags): ClusterLogQuery {
  return {
    ...(previous === true ? { previous } : {}),
    // The last lines in which something is found are not among the last lines.
    ...(tail === undefined || grep !== undefined ? {} : { tail }),
    ...(since === undefined ? {} : { since: cli.io.now() - since }),
  };
}

function restartNote(pod: ClusterPod, container: ClusterContainer): string {
  return `In ${pod.name}, ${restartedText(container, pod) ?? 'nothing was restarted'}.`;
}

/** A container of a pod: a Job made again under the name, or a pod that takes the place of another, has another uid. */
function keyOf({ uid }: ClusterPod, { name }: ClusterContainer): string {
  return `${uid} ${name}`;
}

type LogBefore = ReturnType<typeof createBefore>;

/** Lines of the last two seconds tell a place; the first of them may be a part of one. */
const kept = 3 * second;

function createBefore() {
  let last: { readonly at: number; readonly piece: Uint8Array }[] = [];
  return {
    /** The whole lines of these pieces without their moments. What has no end yet will be told by whoever goes on. */
    async *through(stamped: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
      for await (const piece of stamped) {
        if (piece.at(-1) !== lineEnd) continue;
        const newest = stampOf(piece, piece.lastIndexOf(lineEnd, -2) + 1);
        last.push({ at: stampOf(piece, 0) ?? 0, piece });
        const enough = last.findLastIndex(({ at }) => at <= (newest ?? 0) - kept);
        last = last.slice(Math.max(0, enough));
        yield bareLines(piece);
      }
    },
    /** The last lines with their moments: the `after` of a query that goes on behind them. */
    after: () => Buffer.concat(last.map(({ piece }) => piece)),
  };
}

const lineEnd = 0x0a;

/** 0 when it succeeded, 1 when it did not or is gone, 130 when `leave` tells that the reader left. */
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
