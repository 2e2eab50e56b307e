// Logs of a cluster job. Pods appear and disappear meanwhile, so following checks the job until it has finished and no
// log is left to read.

import type { Cluster, ClusterContainer, ClusterJob, ClusterLogQuery, ClusterPod } from '../../app/cluster/cluster.ts';
import { clusterPhase, clusterResult, isClusterFinished, formatRestarted } from '../../app/cluster/job-result.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { type Duration, second } from '../../core/model/time.ts';
import type { LogsFlags } from '../table/flags.ts';
import type { Cli } from '../context.ts';
import { pause } from '../../app/concurrency.ts';
import { abortOnSignal } from '../interrupt.ts';
import { createLogPrinter, expectClusterFlags, type LogPrinter, wantedPieces } from './log-printer.ts';
import { containerOf } from './pods.ts';
import { mainContainer, podsOf, observeJob } from '../../app/cluster/observe-job.ts';
import { withoutTimestamps, lineTime } from '../../files/archived-logs.ts';

/** `first`: after a change. Each check lists the job's pods. */
const checkInterval: { readonly first: Duration; readonly max: Duration } = { first: second, max: 5 * second };

/** A job of a cluster, or with `cluster: null` one of which only the archive has a copy. */
interface LogOrigin {
  readonly cluster: Cluster | null;
  readonly job: ClusterJob;
  /** Says why the job is in its phase. */
  readonly reason: () => Promise<string>;
}

export async function printClusterLogs(cli: Cli, origin: LogOrigin, flags: LogsFlags): Promise<void> {
  expectClusterFlags(flags);
  const { cluster, job, reason } = origin;
  const all = cluster === null ? [] : await podsOf(cluster, job);
  const pods = selectedPods(all, flags);
  const copies = createArchivedCopies(cli, job, cluster !== null, flags);
  // A single pod is the newest one, and deleted pods are older. With all pods, deleted ones come first.
  const gone = flags.allPods === true || pods.length === 0 ? await copies.deletedPods(all) : [];
  const shownGone = flags.allPods === true ? gone : gone.slice(-1);
  if (pods.length + gone.length === 0 && flags.worker !== undefined && all.length > 0) {
    throw new JobmanError(`Job ${job.name} has no pod ${flags.worker}.`, exitCode.notFound, [
      formatPodNumbers(job, all),
    ]);
  }
  const count = pods.length + shownGone.length;
  const printer = createLogPrinter(cli, job.name, flags, count > 1 || job.parallelism > 1);
  let isSilent = true;
  const print: PrintLog = async (pod, container, pieces) => {
    let hasPrinted = false;
    for await (const piece of wantedPieces(pieces, flags)) {
      hasPrinted = true;
      isSilent = false;
      await printer.write(pod, container, piece);
      if (printer.isClosed()) break;
    }
    return hasPrinted;
  };
  for (const name of shownGone) await copies.print(name, print);
  for (const [pod, container] of pods.flatMap((one) => containersOf(cli, one, flags))) {
    if (flags.previous === true && container.restarts === 0) {
      if (flags.allContainers === true) continue;
      throw new JobmanError(
        `The container ${container.name} of ${pod.name} was never restarted, so it has no previous log.`,
        exitCode.notFound,
      );
    }
    if (cluster === null || (container.state === 'waiting' && flags.previous !== true)) continue;
    const hasPrinted = await print(pod, container.name, cluster.logs(pod.name, container.name, queryOf(cli, flags)));
    if (printer.isClosed()) return;
    // The kubelet has deleted the log of an evicted pod.
    if (!hasPrinted && hasPodEnded(pod)) await copies.print(pod.name, print, container.name);
    if (flags.previous !== true && container.restarts > 0) {
      // The node keeps the previous log only while the pod exists and can run.
      const hint = hasPodEnded(pod) ? '' : ' What it printed before that: --previous.';
      cli.note(`${formatRestart(pod, container)}${hint}`);
    }
  }
  // The newest pod has not printed yet, and the previous pod is deleted.
  const [before] =
    isSilent && pods.length > 0 && flags.allPods !== true ? (await copies.deletedPods(all)).slice(-1) : [];
  if (before !== undefined) await copies.print(before, print);
  if (all.length + gone.length > count) {
    const pod = pods[0]?.name ?? shownGone[0] ?? 'none';
    const counted = `${cluster === null ? 'had' : 'has'} ${pluralize(all.length + gone.length, 'pod')}`;
    cli.note(`${job.name} ${counted}; this is ${pod}. --all-pods shows all.`);
  }
  if (!isSilent || flags.grep !== undefined) return;
  cli.note(`${cluster === null ? 'The archive has no log.' : 'Nothing was printed.'} ${await reason()}`);
}

type PodName = Pick<ClusterPod, 'name' | 'index'>;
/** True if the log has any bytes. */
type PrintLog = (pod: PodName, container: string, pieces: AsyncIterable<Uint8Array>) => Promise<boolean>;

/** The archived logs of one job, read when needed. */
function createArchivedCopies(cli: Cli, job: ClusterJob, isInCluster: boolean, flags: LogsFlags) {
  let hasNoted = !isInCluster;
  const read = async () => {
    const archive = await cli.services.clusterArchive();
    const archived = archive.isUsed && flags.previous !== true ? await archive.job(job.uid) : undefined;
    return { archive, pods: archived?.pods ?? [], logs: archived === undefined ? [] : await archive.logs(archived) };
  };
  let copies: ReturnType<typeof read> | undefined;
  const load = () => (copies ??= read());
  const query = {
    ...(flags.tail === undefined || flags.grep !== undefined ? {} : { tail: flags.tail }),
    ...(flags.since === undefined ? {} : { since: cli.io.now() - flags.since }),
  };
  return {
    /** Names of pods with archived logs that the cluster no longer has, oldest first. */
    async deletedPods(existing: readonly ClusterPod[]): Promise<readonly string[]> {
      const { pods, logs } = await load();
      const wanted = logs.filter(({ container }) => flags.container === undefined || container === flags.container);
      const names = new Set([...pods.map(({ name }) => name), ...wanted.map(({ pod }) => pod)]);
      return [...names].filter(
        (name) =>
          !existing.some((pod) => pod.name === name) &&
          wanted.some(({ pod }) => pod === name) &&
          (flags.worker === undefined || pods.some((pod) => pod.name === name && pod.index === flags.worker)),
      );
    },
    /** Without a name, the container that jobman creates. False if the archive has no such log. */
    async print(name: string, print: PrintLog, container = flags.container): Promise<boolean> {
      const { archive, pods, logs } = await load();
      const pod = pods.find((one) => one.name === name);
      const all = logs.filter((log) => log.pod === name);
      const main = mainContainer(pod?.containers ?? [])?.name ?? all[0]?.container;
      const wanted = container ?? (flags.allContainers === true ? undefined : main);
      const chosen = wanted === undefined ? all : all.filter((log) => log.container === wanted);
      if (chosen.length === 0) return false;
      if (!hasNoted) cli.note(`The cluster no longer has this log; this is from the archive.`);
      hasNoted = true;
      for (const log of chosen) {
        await print({ name, index: pod?.index ?? null }, log.container, archive.readLog(job, log, query));
        if (log.state === 'truncated')
          cli.note(`Pod ${name} was deleted before the end of the output of ${log.container} was archived.`);
      }
      if (container === undefined && chosen.length < all.length) {
        const names = all.map((log) => log.container).join(', ');
        cli.note(`${name} had several containers (${names}); this is ${main}. --container chooses another.`);
      }
      return true;
    },
  };
}

/** Follows until the job has finished or the user leaves: at `leave`, by default at Ctrl-C. */
export async function followClusterLogs(
  cli: Cli,
  cluster: Cluster,
  begun: ClusterJob,
  flags: LogsFlags,
  leave?: AbortSignal,
): Promise<'ended' | 'left'> {
  expectClusterFlags(flags);
  const { signal, release } = leave === undefined ? abortOnSignal(cli) : { signal: leave, release: () => undefined };
  // Show all pods, with their numbers, if several run at the same time or one after another for one result.
  const isOfAll =
    flags.allPods === true || (flags.worker === undefined && (begun.parallelism > 1 || (begun.completions ?? 1) > 1));
  const printer = createLogPrinter(cli, begun.name, flags, isOfAll);
  const copies = createArchivedCopies(cli, begun, true, flags);
  const printCopy: PrintLog = async (pod, container, pieces) => {
    for await (const piece of wantedPieces(pieces, flags)) await printer.write(pod, container, piece);
    return true;
  };
  const followed = followPods(cli, cluster, begun, {
    flags,
    printer,
    signal,
    printCopy: (pod, container) => copies.print(pod, printCopy, container),
  });
  let lastNote = '';
  let isLost = false;
  let nextInterval: Duration = checkInterval.first;
  /** Chosen once per pod, because the choice of one container is reported. */
  const pairs = new Map<string, readonly PodContainer[]>();
  const pairsNow = (pod: ClusterPod): readonly PodContainer[] => {
    const own = containersOf(cli, pod, flags);
    pairs.set(pod.uid, own);
    return own;
  };

  try {
    for (;;) {
      if (hasLeft(signal) || cli.io.stdout.closed) return 'left';
      followed.expectNoFailure();
      try {
        // Read the job before its pods: a job that is finished then creates no more pods.
        const job = await cluster.job(begun.name);
        const isGone = job === null || job.uid !== begun.uid;
        const isOver = isGone || isClusterFinished(job);
        const pods = isGone ? [] : await podsOf(cluster, begun);
        const fresh = selectedPods(pods, { ...flags, allPods: isOfAll })
          .filter(isReadable)
          .flatMap((pod) => pairs.get(pod.uid) ?? pairsNow(pod))
          .filter((pair) => !followed.isTaken(pair));
        if (isOfAll || followed.isIdle()) followed.read(fresh);
        followed.reportRestarts(pods);
        if (followed.isIdle() && isOver) {
          if (!followed.hasTaken())
            for (const name of await copies.deletedPods([])) await copies.print(name, printCopy);
          if (isGone) cli.note(`Job ${begun.name} was deleted meanwhile.`);
          else cli.note(clusterResult(await observeJob(cluster, job), { now: cli.io.now() }).message);
          return 'ended';
        }
        if (followed.isIdle() && !isGone) {
          const { message, phase } = clusterResult(await observeJob(cluster, job), { now: cli.io.now() });
          // Repeat a message only when more than its numbers changed. Skip `stopping`: the end is reported soon.
          const bare = message.replaceAll(/\d+/g, '');
          const isEnding = phase === 'stopping' && !job.deleting;
          if (bare !== lastNote && !isEnding) cli.note(message);
          if (bare !== lastNote) nextInterval = checkInterval.first;
          lastNote = bare;
        }
        isLost = false;
      } catch (error) {
        if (!(error instanceof JobmanError) || error.code !== exitCode.unreachable) throw error;
        if (!isLost && followed.isIdle()) cli.note(`${error.message} Still trying.`);
        isLost = true;
      }
      if (followed.takeChange()) nextInterval = checkInterval.first;
      const length = nextInterval;
      nextInterval = Math.min(1.5 * nextInterval, checkInterval.max);
      await Promise.race([pause(length, signal), ...followed.reading()]);
    }
  } finally {
    release();
  }
}

function containersOf(
  cli: Cli,
  pod: ClusterPod,
  flags: Pick<LogsFlags, 'container' | 'allContainers'>,
): readonly PodContainer[] {
  if (flags.allContainers === true) return pod.containers.map((container) => [pod, container] as const);
  return [[pod, containerOf(cli, pod, flags.container)]];
}

function hasLeft(signal: AbortSignal): boolean {
  return signal.aborted;
}

function isReadable({ containers, phase }: ClusterPod): boolean {
  return phase !== 'Pending' || containers.some(({ state }) => state !== 'waiting');
}

function selectedPods(pods: readonly ClusterPod[], { allPods, worker }: LogsFlags): readonly ClusterPod[] {
  if (allPods === true) return pods;
  const wanted = worker === undefined ? pods : pods.filter(({ index }) => index === worker);
  return wanted.slice(-1);
}

function formatPodNumbers({ completions, parallelism }: ClusterJob, pods: readonly ClusterPod[]): string {
  const numbers = pods.flatMap(({ index }) => index ?? []);
  if (numbers.length === 0) return 'Its pods have no numbers. --all-pods shows all.';
  return `Its pods are 0 to ${(completions ?? parallelism) - 1}; so far there are ${new Set(numbers).size} of them.`;
}

function hasPodEnded({ phase }: ClusterPod): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}

// ------------------------------------------------------------------------------------------ pods that are followed

const maxFollowed = 100;
/** Failed attempts to open one container's log, a second apart. */
const maxMisses = 5;

type PodContainer = readonly [pod: ClusterPod, container: ClusterContainer];

interface FollowOptions {
  readonly flags: LogsFlags;
  readonly printer: LogPrinter;
  readonly signal: AbortSignal;
  readonly printCopy: (pod: string, container: string) => Promise<boolean>;
}

function followPods(cli: Cli, cluster: Cluster, job: ClusterJob, options: FollowOptions) {
  const { flags, printer, signal, printCopy } = options;
  const taken = new Set<string>();
  const reading = new Set<Promise<void>>();
  const misses = new Map<string, number>();
  const restarted = new Map<string, number>();
  let failed: unknown;
  let hasChanged = false;
  let hasReportedMany = false;

  /** A log that has printed nothing may be opened again; the logs of other pods continue meanwhile. */
  async function missed([pod, container]: PodContainer, error: JobmanError): Promise<void> {
    const key = keyOf(pod, container);
    if (error.code === exitCode.notFound) {
      // The pod was listed, and deleted before its log was opened.
      if (!(await printCopy(pod.name, container.name))) cli.note(`${pod.name} was deleted before its log was read.`);
      return;
    }
    const times = (misses.get(key) ?? 0) + 1;
    misses.set(key, times);
    if (error.code !== exitCode.unreachable || times >= maxMisses) throw error;
    if (times === 1) cli.note(`${error.message} Still trying.`);
    await pause(second, signal);
    taken.delete(key);
  }

  function readOne(pair: PodContainer): void {
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
    const own: LogPrinter = {
      ...printer,
      write(...written) {
        hasPrinted = true;
        return printer.write(...written);
      },
    };
    const work: Promise<void> = followOne(cluster, pair, { query, flags, printer: own })
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
    /** Starts as many logs as may be open. A waiting log is lost only if its pod is deleted. */
    read(wanted: readonly PodContainer[]): void {
      const room = Math.max(0, maxFollowed - reading.size);
      if (wanted.length > room && !hasReportedMany) {
        hasReportedMany = true;
        cli.note(`${job.name}: ${maxFollowed} logs are followed at a time; the others start when these end.`);
      }
      for (const pair of wanted.slice(0, room)) readOne(pair);
    },
    isTaken: ([pod, container]: PodContainer) => taken.has(keyOf(pod, container)),
    hasTaken: () => taken.size > 0,
    isIdle: () => reading.size === 0,
    reading: () => reading,
    expectNoFailure() {
      if (failed !== undefined) throw failed;
    },
    takeChange() {
      const was = hasChanged;
      hasChanged = false;
      return was;
    },
    reportRestarts(pods: readonly ClusterPod[]): void {
      for (const pod of pods) {
        for (const container of pod.containers.filter((one) => taken.has(keyOf(pod, one)))) {
          const key = keyOf(pod, container);
          const before = restarted.get(key);
          restarted.set(key, container.restarts);
          if (before !== undefined && before < container.restarts) cli.note(formatRestart(pod, container));
        }
      }
    },
  };
}

async function followOne(
  cluster: Cluster,
  [pod, { name }]: PodContainer,
  {
    query,
    flags,
    printer,
  }: { readonly query: ClusterLogQuery; readonly flags: LogsFlags; readonly printer: LogPrinter },
): Promise<void> {
  let tail: TailBuffer | undefined;
  if (flags.grep !== undefined && flags.tail !== undefined) {
    const { follow: _follow, ...once } = query;
    tail = createTailBuffer();
    const there = tail.through(cluster.logs(pod.name, name, { ...once, timestamps: true }));
    try {
      for await (const piece of wantedPieces(there, flags)) await printer.write(pod, name, piece);
    } catch (error) {
      // A container that has not started has no log; following waits for it.
      if (!(error instanceof JobmanError) || error.code === exitCode.unreachable) throw error;
    }
  }
  const from = tail === undefined ? {} : { resumeAfter: tail.resumeAfter() };
  for await (const piece of cluster.logs(pod.name, name, { ...query, ...from })) {
    await printer.write(pod, name, piece);
    if (printer.isClosed()) break;
  }
}

function queryOf(cli: Cli, { previous, tail, since, grep }: LogsFlags): ClusterLogQuery {
  return {
    ...(previous === true ? { previous } : {}),
    // `grep` needs the whole log: the last matches may be before the last lines.
    ...(tail === undefined || grep !== undefined ? {} : { tail }),
    ...(since === undefined ? {} : { since: cli.io.now() - since }),
  };
}

function formatRestart(pod: ClusterPod, container: ClusterContainer): string {
  return `In ${pod.name}, ${formatRestarted(container, pod) ?? 'nothing was restarted'}.`;
}

/** A recreated Job or a replacement pod has another uid. */
function keyOf({ uid }: ClusterPod, { name }: ClusterContainer): string {
  return `${uid} ${name}`;
}

type TailBuffer = ReturnType<typeof createTailBuffer>;

/** Lines of the last seconds identify a position in the log; the first of them may be a partial line. */
const overlap = 3 * second;

function createTailBuffer() {
  let last: { readonly at: number; readonly piece: Uint8Array }[] = [];
  return {
    /** An incomplete line is left to the query that continues. */
    async *through(stamped: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
      for await (const piece of stamped) {
        if (piece.at(-1) !== lineEnd) continue;
        const newest = lineTime(piece, piece.lastIndexOf(lineEnd, -2) + 1);
        last.push({ at: lineTime(piece, 0) ?? 0, piece });
        const enough = last.findLastIndex(({ at }) => at <= (newest ?? 0) - overlap);
        last = last.slice(Math.max(0, enough));
        yield withoutTimestamps(piece);
      }
    },
    /** `resumeAfter` of the query that continues after these lines. */
    resumeAfter: () => Buffer.concat(last.map(({ piece }) => piece)),
  };
}

const lineEnd = 0x0a;

/** 0 if the job succeeded, 1 if it failed or is deleted, 130 if the user left through `leave`. */
export async function followToVerdict(cli: Cli, cluster: Cluster, name: string, leave: AbortSignal): Promise<number> {
  const job = await cluster.job(name);
  if (job === null) return exitCode.failed;
  const end = await followClusterLogs(cli, cluster, job, { follow: true, allPods: job.parallelism > 1 }, leave);
  if (end === 'left') {
    // A closed pipe has no reader for this message.
    if (!cli.io.stdout.closed) cli.printStderr(`Detached. ${name} keeps running. Attach again: jobman logs ${name} -f`);
    return exitCode.interrupted;
  }
  const ended = await cluster.job(name);
  return ended !== null && clusterPhase(ended) === 'succeeded' ? exitCode.ok : exitCode.failed;
}
