// The logs of pods that are followed at the same time: each is a connection of its own, read to its end.

import type { Cluster, ClusterContainer, ClusterJob, ClusterLogQuery, ClusterPod } from '../../app/cluster/cluster.ts';
import { restartedText } from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second } from '../../core/time.ts';
import type { Cli } from '../context.ts';
import { pause } from '../leave.ts';
import type { LogsFlags } from '../table/flags.ts';
import { createBefore, type LogBefore } from './log-before.ts';
import { wantedOf, type LogText } from './log-text.ts';

/** So many logs are open at once. */
const followedMost = 100;
/** The log of one container may fail to open so often, a second apart, before the command ends with the reason. */
const missesMost = 5;

/** A log that is read. */
export type Pair = readonly [pod: ClusterPod, container: ClusterContainer];

export interface FollowedPods {
  /** Begins to read these, as many as may be open. One that waits for its turn is lost only if its pod is deleted. */
  read(wanted: readonly Pair[]): void;
  isTaken(pair: Pair): boolean;
  hasTaken(): boolean;
  /** Nothing is being read. */
  isIdle(): boolean;
  /** One promise for each log that is being read; it resolves at the end of the log. */
  reading(): Iterable<Promise<void>>;
  /** Throws the error that ended a log which cannot be opened again. */
  expectNoFailure(): void;
  /** True when a log has begun or ended since the last call. */
  takeChange(): boolean;
  /** Reports each restart since the last call. */
  sayRestarts(pods: readonly ClusterPod[]): void;
}

interface FollowOptions {
  readonly flags: LogsFlags;
  readonly text: LogText;
  readonly signal: AbortSignal;
}

/** Reads logs of pods of that job until the signal is aborted. */
export function followPods(cli: Cli, cluster: Cluster, job: ClusterJob, options: FollowOptions): FollowedPods {
  const { flags, text, signal } = options;
  const taken = new Set<string>();
  const reading = new Set<Promise<void>>();
  const misses = new Map<string, number>();
  /** Restarts that were reported. */
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
    read(wanted) {
      const room = Math.max(0, followedMost - reading.size);
      if (wanted.length > room && !hasSaidMany) {
        hasSaidMany = true;
        cli.note(`${job.name}: ${followedMost} logs are followed at a time; the others follow when these have ended.`);
      }
      for (const pair of wanted.slice(0, room)) readOne(pair);
    },
    isTaken: ([pod, container]) => taken.has(keyOf(pod, container)),
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
    sayRestarts(pods) {
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

/** One container's log from now on, to its end, behind what is wanted of what it has. */
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

/** The query of the cluster for these flags. */
export function queryOf(cli: Cli, { previous, tail, since, grep }: LogsFlags): ClusterLogQuery {
  return {
    ...(previous === true ? { previous } : {}),
    // The last lines in which something is found are not among the last lines.
    ...(tail === undefined || grep !== undefined ? {} : { tail }),
    ...(since === undefined ? {} : { since: cli.io.now() - since }),
  };
}

/** `In train-x, its program was restarted once because it ended with exit code 3.` */
export function restartNote(pod: ClusterPod, container: ClusterContainer): string {
  return `In ${pod.name}, ${restartedText(container, pod) ?? 'nothing was restarted'}.`;
}

/** A container of a pod: a Job made again under the name, or a pod that takes the place of another, has another uid. */
function keyOf({ uid }: ClusterPod, { name }: ClusterContainer): string {
  return `${uid} ${name}`;
}
