// Logs of a job of a cluster: of its newest pod, of one, or of all; once, or until the job has ended. Pods come and go while
// somebody follows, so the job is looked at until it has settled and no pod is left to be read.

import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { clusterVerdict, isClusterSettled } from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import { second, type Duration } from '../../core/time.ts';
import type { LogsFlags } from '../table/flags.ts';
import type { Cli } from '../context.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { followPods, queryOf, restartNote, type Pair } from './followed-pods.ts';
import { createLogText, expectForClusters, wantedOf } from './log-text.ts';
import { containerOf } from './pods.ts';
import { podsOf, sightOf } from './sight.ts';

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
        // One after the other, unless all are wanted at once.
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

/** The pod with the container whose log is wanted, or with each of its containers. */
function pairsOf(cli: Cli, pod: ClusterPod, flags: Pick<LogsFlags, 'container' | 'allContainers'>): readonly Pair[] {
  if (flags.allContainers === true) return pod.containers.map((container) => [pod, container] as const);
  return [[pod, containerOf(cli, pod, flags.container)]];
}

function hasLeft(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** Something was started in it, so there is a log or will be one at once. */
function isReadable({ containers, phase }: ClusterPod): boolean {
  return phase !== 'Pending' || containers.some(({ state }) => state !== 'waiting');
}

/** All of them, the one of that number, or the newest. */
function chosen(pods: readonly ClusterPod[], { allPods, worker }: LogsFlags): readonly ClusterPod[] {
  if (allPods === true) return pods;
  const wanted = worker === undefined ? pods : pods.filter(({ index }) => index === worker);
  return wanted.slice(-1);
}

/** The numbers that exist. */
function numbersText({ completions, parallelism }: ClusterJob, pods: readonly ClusterPod[]): string {
  const numbers = pods.flatMap(({ index }) => index ?? []);
  if (numbers.length === 0) return 'Its pods have no numbers. --all-pods shows all.';
  return `Its pods are 0 to ${(completions ?? parallelism) - 1}; so far there are ${new Set(numbers).size} of them.`;
}

function isOverPod({ phase }: ClusterPod): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}

/** Silence has a reason, and somebody who looks at logs wants to know it. */
async function sayWhy(cli: Cli, cluster: Cluster, job: ClusterJob, before: string): Promise<void> {
  const { sentence } = clusterVerdict(await sightOf(cluster, job), cli.io.now());
  cli.note(before === '' ? sentence : `${before} ${sentence}`);
}
