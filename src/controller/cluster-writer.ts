// Cluster writer: archives the known state of a cluster's jobs, and copies their logs.

import { LogLineTooLong, type Cluster, type ClusterLogQuery } from '../app/cluster/cluster.ts';
import type { ArchivedJob, ClusterJob, ClusterPod, ClusterStore, WatchedContext } from '../app/cluster/objects.ts';
import type { ArchivedLogWriter } from '../files/archived-logs.ts';
import { goneEvent, mergeObservations, clusterJobEvents, mayBeActive } from '../app/cluster/archive.ts';
import { createLimiter } from '../app/concurrency.ts';
import { isNotFoundError, messageOf } from '../app/errors.ts';
import type { Clock } from '../app/ports.ts';
import { minute, second, type Duration } from '../core/model/time.ts';
import type { FlavorPrice } from '../reports/prices.ts';
import { backoff, type Timers } from './timers.ts';

interface ContainerLog {
  readonly job: ClusterJob;
  readonly pod: string;
  readonly container: string;
}

export interface ClusterView {
  readonly jobs: Map<string, ClusterJob>;
  /** Uids of the jobs that the cluster may still change. */
  readonly open: Set<string>;
  readonly pods: Map<string, ClusterPod>;
  readonly lostPods: Map<string, ClusterPod>;
  /** Jobs whose end is not archived yet. */
  readonly gone: Map<string, ClusterJob>;
  readonly archived: Map<string, ArchivedJob>;
  /** Uids of ended jobs that are archived with all their logs. */
  readonly finished: Set<string>;
  /** Keys of the logs that are followed, and of the logs that need no following any more. */
  readonly following: Set<string>;
  readonly copied: Set<string>;
  readonly changed: Set<string>;
  isSynced: boolean;
  /** Only the Jobs can be archived then. */
  isPodAccessDenied: boolean;
}

export function emptyView(): ClusterView {
  return {
    jobs: new Map(),
    open: new Set(),
    pods: new Map(),
    lostPods: new Map(),
    gone: new Map(),
    archived: new Map(),
    finished: new Set(),
    following: new Set(),
    copied: new Set(),
    changed: new Set(),
    isSynced: false,
    isPodAccessDenied: false,
  };
}

/** True if the namespace has no job of ours and everything is written. */
export function isEmpty({ jobs, changed, following, isSynced }: ClusterView): boolean {
  return isSynced && jobs.size === 0 && changed.size === 0 && following.size === 0;
}

function isOpen(job: ClusterJob): boolean {
  return mayBeActive({ job, goneAt: null });
}

export function hasOpenJobs({ open, isSynced, archived }: ClusterView): boolean {
  return open.size > 0 || (!isSynced && [...archived.values()].some((archivedJob) => mayBeActive(archivedJob)));
}

export function noteJob(view: ClusterView, job: ClusterJob): void {
  view.jobs.set(job.uid, job);
  view.gone.delete(job.uid);
  if (isOpen(job)) {
    view.open.add(job.uid);
    // A watch that begins before the end of its list repeats an earlier state first.
    view.finished.delete(job.uid);
  } else view.open.delete(job.uid);
}

export function noteGone(view: ClusterView, job: ClusterJob): void {
  view.jobs.delete(job.uid);
  view.open.delete(job.uid);
  view.gone.set(job.uid, job);
}

/** An open job may have gone meanwhile; a finished one need not be read again. */
export function noteArchived(view: ClusterView, archived: ArchivedJob): void {
  const { uid } = archived.job;
  for (const { pod, container, state } of archived.logs)
    if (state !== 'open') view.copied.add(logKey(uid, pod, container));
  if (archived.goneAt !== null || (!mayBeActive(archived) && areLogsCopied(view, uid, archived.pods)))
    view.finished.add(uid);
  else view.archived.set(uid, archived);
}

/** Returns the pod's job if the job must be written again. */
export function notePod(view: ClusterView, pod: ClusterPod, isGone: boolean): ClusterJob | undefined {
  const uid = ownerOf(view, pod);
  if (uid !== undefined && view.finished.has(uid)) return undefined;
  if (isGone) view.pods.delete(pod.uid);
  else view.pods.set(pod.uid, pod);
  const job = uid === undefined ? undefined : view.jobs.get(uid);
  if (job !== undefined && isGone) view.lostPods.set(pod.uid, pod);
  return job;
}

function isFullyArchived({ finished, jobs }: ClusterView, uid: string): boolean {
  const job = jobs.get(uid);
  return finished.has(uid) && job !== undefined && !isOpen(job);
}

function areLogsCopied({ copied }: ClusterView, uid: string, pods: readonly ClusterPod[]): boolean {
  return pods.every((pod) =>
    pod.containers.every(({ name, state }) => state === 'waiting' || copied.has(logKey(uid, pod.name, name))),
  );
}

/** The started logs of those pods that are neither followed nor copied, once the job is archived. */
export function logsToFollow(view: ClusterView, job: ClusterJob, pods: readonly ClusterPod[]): readonly ContainerLog[] {
  if (!view.archived.has(job.uid)) return [];
  return pods.flatMap((pod) =>
    pod.containers.flatMap(({ name, state }) => {
      const key = logKey(job.uid, pod.name, name);
      const isFollowed = state === 'waiting' || view.following.has(key) || view.copied.has(key);
      return isFollowed ? [] : [{ job, pod: pod.name, container: name }];
    }),
  );
}

function ownerOf({ jobs }: ClusterView, pod: ClusterPod): string | undefined {
  if (pod.jobUid !== undefined && pod.jobUid !== null) return pod.jobUid;
  return [...jobs.values()].find(({ name }) => name === pod.job)?.uid;
}

/** Existing pods of that job, and pods that disappeared since it was last written. */
export function podsOf(view: ClusterView, { uid }: ClusterJob): readonly ClusterPod[] {
  return [...view.lostPods.values(), ...view.pods.values()].filter((pod) => ownerOf(view, pod) === uid);
}

function logKey(uid: string, pod: string, container: string): string {
  return `${uid} ${pod} ${container}`;
}

const batchDelay: Duration = 0.5 * second;
/** Events are read only for the newest pods of a job: further pods have the same events. */
const maxEventPods = 5;

type ObservedJob = Parameters<ClusterStore['archiveObservation']>[0];

interface WriterParts {
  readonly cluster: Pick<Cluster, 'pods' | 'events'>;
  readonly store: ClusterStore;
  readonly clock: Clock;
  readonly clusterContext: () => WatchedContext;
  readonly view: ClusterView;
  readonly timers: Timers;
  readonly signal: AbortSignal;
  readonly onWritten: (job: ClusterJob, pods: readonly ClusterPod[]) => void;
  readonly onIdle: () => void;
  /** The own price of its flavor now; null without one. */
  readonly flavorPrice: (job: ClusterJob) => FlavorPrice | null;
  readonly report: (line: string) => void;
}

export type ClusterWriter = ReturnType<typeof createClusterWriter>;

export function createClusterWriter(options: WriterParts) {
  const { cluster, store, clock, view, timers, signal, report } = options;
  const recheckCounts = new Map<string, number>();
  let writing: Promise<void> | undefined;

  function enqueue(uid: string): void {
    if (isFullyArchived(view, uid)) return;
    view.changed.add(uid);
    writing ??= write().finally(() => {
      writing = undefined;
      const [next] = view.changed;
      if (next !== undefined && !signal.aborted) enqueue(next);
      options.onIdle();
    });
  }

  async function write(): Promise<void> {
    for (let failures = 0; view.changed.size > 0 && !signal.aborted;) {
      // Each write also requests data from the cluster, and a job may change without pause.
      await timers.sleep(batchDelay, signal);
      const round = [...view.changed];
      for (const uid of round) {
        if (signal.aborted) return;
        view.changed.delete(uid);
        try {
          await writeOne(uid);
          failures = 0;
        } catch (error) {
          if (signal.aborted) return;
          view.changed.add(uid);
          if (failures === 0) report(`cannot archive an observation: ${messageOf(error)}`);
          await timers.sleep(backoff(failures, second, 30 * second), signal);
          failures += 1;
        }
      }
    }
  }

  async function writeOne(uid: string): Promise<void> {
    const isGone = view.gone.has(uid);
    const job = view.gone.get(uid) ?? view.jobs.get(uid);
    if (job === undefined) return;
    const isRunning = !isGone && isOpen(job);
    const known = podsOf(view, job);
    const lost = known.filter((pod) => view.lostPods.has(pod.uid));
    const pods = isGone || isRunning || view.isPodAccessDenied ? known : [...known, ...(await listPods(options, job))];
    const names = [job.name, ...pods.slice(-maxEventPods).map(({ name }) => name)];
    const events = isGone ? [] : ((await cluster.events({ names })) ?? []);
    const before = await archivedJob(uid);
    const flavorPrice = options.flavorPrice(job);
    const observation = mergeObservations(before, { job, pods, events, flavorPrice });
    const { server, context } = options.clusterContext();
    const now = clock.now();
    const times = isGone
      ? { observedAt: before?.observedAt ?? now, goneAt: before?.goneAt ?? now }
      : { observedAt: now, goneAt: null };
    const observed: ObservedJob = { server, context, ...times, ...observation };
    const found = clusterJobEvents(observation);
    await store.archiveObservation(observed, times.goneAt === null ? found : [...found, goneEvent(times.goneAt)]);
    for (const pod of lost) view.lostPods.delete(pod.uid);
    rememberArchived(observed);
    if (isGone) view.gone.delete(uid);
    else options.onWritten(job, pods);
    if (isGone || (!isRunning && (view.isPodAccessDenied || areLogsCopied(view, uid, observation.pods)))) {
      view.finished.add(uid);
      view.archived.delete(uid);
      recheckCounts.delete(uid);
      for (const pod of pods) view.pods.delete(pod.uid);
    } else if (isRunning && !job.suspended && job.ready === 0) scheduleRecheck(uid);
  }

  const archivedJob = async (uid: string) => view.archived.get(uid) ?? (await store.job(uid));

  /** Only events report that a pod cannot be created, and events are not watched. */
  function scheduleRecheck(uid: string): void {
    const times = recheckCounts.get(uid) ?? 0;
    recheckCounts.set(uid, times + 1);
    timers.after(backoff(times, 15 * second, 10 * minute), () => {
      if (view.jobs.get(uid)?.ready === 0 && recheckCounts.get(uid) === times + 1) enqueue(uid);
    });
  }

  function rememberArchived(observed: ObservedJob): void {
    view.archived.set(observed.job.uid, { hidden: false, object: null, logs: [], ...observed });
  }

  return {
    enqueue,
    /** Sets `observedAt` of all existing jobs to now. Call it while the watch is intact. Never rejects. */
    async updateAge(): Promise<void> {
      if (!view.isSynced) return;
      const observedAt = clock.now();
      for (const [uid, { hidden: _hidden, object: _object, logs: _logs, ...observation }] of view.archived) {
        if (!view.jobs.has(uid)) continue;
        const observed = { ...observation, observedAt };
        rememberArchived(observed);
        await store.archiveObservation(observed, []).catch(() => undefined);
      }
    },
    get isWriting() {
      return writing !== undefined;
    },
    /** Call it after the signal has aborted. */
    async ended(): Promise<void> {
      await writing?.catch(() => undefined);
    },
  };
}

/** Lists the pods of a finished job once more: the watch may have missed a pod that began and ended in between. */
async function listPods({ cluster, view, signal }: WriterParts, job: ClusterJob): Promise<readonly ClusterPod[]> {
  const listed: ClusterPod[] = [];
  for await (const page of cluster.pods({ job: job.name, signal })) listed.push(...page);
  return listed.filter((pod) => ownerOf(view, pod) === job.uid);
}

const maxFollowedLogs = 256;
/** The log of an ended job is given up after this many failures in a row. */
const maxLogFailures = 5;

export function createLogCopier(options: {
  readonly cluster: Pick<Cluster, 'logs'>;
  readonly store: Pick<ClusterStore, 'archiveLog'>;
  readonly openLogCopy: (log: ContainerLog) => ArchivedLogWriter | Promise<ArchivedLogWriter>;
  readonly view: ClusterView;
  readonly timers: Timers;
  readonly signal: AbortSignal;
  readonly onDone: (log: ContainerLog) => void;
  readonly onFailed: (error: unknown) => void;
  readonly report: (line: string) => void;
}) {
  const { cluster, store, view, timers, signal, report } = options;
  const works = new Set<Promise<void>>();
  const withSlot = createLimiter(maxFollowedLogs);

  async function end({ job, pod, container }: ContainerLog, state: 'complete' | 'truncated'): Promise<void> {
    await store.archiveLog(job.uid, { pod, container, state });
    view.copied.add(logKey(job.uid, pod, container));
    if (state === 'truncated') report(`${pod} disappeared before its log was copied to the end`);
  }

  async function copy(log: ContainerLog): Promise<void> {
    const { uid } = log.job;
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        if (await copyOnce(log, () => (failures = 0))) await end(log, 'complete');
        else if (!signal.aborted) await end(log, 'truncated');
        return;
      } catch (error) {
        if (signal.aborted) return;
        const job = view.jobs.get(uid);
        const isOver = job === undefined || view.finished.has(uid) || !isOpen(job);
        const isAbsent = error instanceof LogLineTooLong || isNotFoundError(error);
        try {
          if (isAbsent || (isOver && failures + 1 >= maxLogFailures)) return await end(log, 'truncated');
        } catch {
          // The end could not be archived; the next try of the log archives it.
        }
        if (failures === 0) report(`cannot copy the log of ${log.pod} now: ${messageOf(error)}`);
        await timers.sleep(backoff(failures, second, minute), signal);
      }
    }
  }

  /** True when the log is complete; false when its pod disappeared before its end, or the signal has aborted. */
  async function copyOnce(log: ContainerLog, got: () => void): Promise<boolean> {
    let isComplete = true;
    const writer = await options.openLogCopy(log);
    try {
      const onTruncated = (): void => void (isComplete = false);
      const query: ClusterLogQuery = { follow: true, timestamps: true, resumeAfter: writer.tail, signal, onTruncated };
      for await (const lines of cluster.logs(log.pod, log.container, query)) {
        writer.append(lines);
        got();
      }
    } finally {
      writer.close();
    }
    return isComplete && !signal.aborted;
  }

  return {
    follow(log: ContainerLog): void {
      const key = logKey(log.job.uid, log.pod, log.container);
      if (signal.aborted || view.following.has(key)) return;
      view.following.add(key);
      const work: Promise<void> = withSlot(() => copy(log))
        .catch(options.onFailed)
        .finally(() => {
          works.delete(work);
          view.following.delete(key);
          if (!signal.aborted) options.onDone(log);
        });
      works.add(work);
    },
    /** Call it after the signal has aborted. */
    async ended(): Promise<void> {
      await Promise.allSettled(works);
      view.following.clear();
    },
  };
}
