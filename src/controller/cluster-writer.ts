// Cluster writer: keeps on record what is known of a cluster's jobs, and copies their logs.

import { LogLineTooLong, type Cluster, type ClusterJob, type ClusterPod } from '../app/cluster/cluster.ts';
import type { KeptWriter } from '../app/cluster/kept-logs.ts';
import { goneMoment, mergedSight, momentsOf, type ClusterRecord, type KeptPlace } from '../app/cluster/kept.ts';
import { exitCode, JobmanError, textOf } from '../app/errors.ts';
import type { Clock } from '../app/ports.ts';
import { minute, second, type Duration } from '../core/time.ts';
import {
  areLogsCopied,
  isOpen,
  isWrittenDown,
  ownerOf,
  podsOf,
  logKey,
  type ClusterView,
  type ContainerLog,
} from './cluster-view.ts';
import { backoff, type Timers } from './timers.ts';

/** Changes are gathered for so long before they are written down. */
const gatherFor: Duration = 0.5 * second;
/** The newest pods of a job whose events are read: those of more pods are the same. */
const eventsOf = 5;

/** One job as it is to be on record. */
type Sight = Parameters<ClusterRecord['keepSight']>[0];

interface WriterParts {
  readonly cluster: Pick<Cluster, 'pods' | 'events'>;
  readonly record: ClusterRecord;
  readonly clock: Clock;
  readonly place: () => KeptPlace;
  readonly view: ClusterView;
  readonly timers: Timers;
  readonly signal: AbortSignal;
  /** The job is on record, with these pods. */
  readonly wrote: (job: ClusterJob, pods: readonly ClusterPod[]) => void;
  /** Nothing is left to write for now. */
  readonly rested: () => void;
  readonly say: (line: string) => void;
}

export type ClusterWriter = ReturnType<typeof createClusterWriter>;

/** Writes all that is known of a job, again, whenever something of it has changed. */
export function createClusterWriter(options: WriterParts) {
  const { cluster, record, clock, view, timers, signal, say } = options;
  /** How often each job without a ready pod was asked about again. */
  const asksAgain = new Map<string, number>();
  let writing: Promise<void> | undefined;

  /** Something of that job has changed. */
  function touch(uid: string): void {
    if (isWrittenDown(view, uid)) return;
    view.changed.add(uid);
    writing ??= write().finally(() => {
      writing = undefined;
      const [next] = view.changed;
      if (next !== undefined && !signal.aborted) touch(next);
      options.rested();
    });
  }

  async function write(): Promise<void> {
    for (let failures = 0; view.changed.size > 0 && !signal.aborted;) {
      // In each round, since each write asks the cluster too, and a job may change without pause.
      await timers.rest(gatherFor, signal);
      // A job that changes meanwhile is one of the next round.
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
          if (failures === 0) say(`what was seen could not be written down: ${textOf(error)}`);
          await timers.rest(backoff(failures, second, 30 * second), signal);
          failures += 1;
        }
      }
    }
  }

  async function writeOne(uid: string): Promise<void> {
    if (view.gone.has(uid)) return writeGone(uid);
    const job = view.jobs.get(uid);
    if (job === undefined) return;
    const known = podsOf(view, job);
    const lost = known.filter((pod) => view.lostPods.has(pod.uid));
    const pods = isOpen(job) || view.arePodsRefused ? known : [...known, ...(await listedPods(options, job))];
    const names = [job.name, ...pods.slice(-eventsOf).map(({ name }) => name)];
    const events = (await cluster.events({ names })) ?? [];
    const sight = mergedSight(await recordOf(uid), { job, pods, events });
    const { server, context } = options.place();
    const seen: Sight = { server, context, seenAt: clock.now(), goneAt: null, ...sight };
    await record.keepSight(seen, momentsOf(sight));
    for (const pod of lost) view.lostPods.delete(pod.uid);
    keepRecorded(seen);
    options.wrote(job, pods);
    if (!isOpen(job) && (view.arePodsRefused || areLogsCopied(view, uid, sight.pods))) {
      view.finished.add(uid);
      view.recorded.delete(uid);
      asksAgain.delete(uid);
    } else if (isOpen(job) && !job.suspended && job.ready === 0) askAgain(uid);
  }

  async function writeGone(uid: string): Promise<void> {
    const job = view.gone.get(uid);
    if (job === undefined) return;
    const pods = podsOf(view, job);
    const lost = pods.filter((pod) => view.lostPods.has(pod.uid));
    const before = await recordOf(uid);
    const goneAt = before?.goneAt ?? clock.now();
    const sight = mergedSight(before, { job, pods, events: [] });
    const { server, context } = options.place();
    const seen: Sight = { server, context, seenAt: before?.seenAt ?? goneAt, goneAt, ...sight };
    await record.keepSight(seen, [...momentsOf(sight), goneMoment(goneAt)]);
    for (const pod of lost) view.lostPods.delete(pod.uid);
    view.gone.delete(uid);
    view.recorded.delete(uid);
    view.finished.add(uid);
  }

  const recordOf = async (uid: string) => view.recorded.get(uid) ?? (await record.job(uid));

  /** That no pod can be created is told by events alone, which nobody watches. */
  function askAgain(uid: string): void {
    const times = asksAgain.get(uid) ?? 0;
    asksAgain.set(uid, times + 1);
    timers.after(backoff(times, 15 * second, 10 * minute), () => {
      if (view.jobs.get(uid)?.ready === 0 && asksAgain.get(uid) === times + 1) touch(uid);
    });
  }

  function keepRecorded(seen: Sight): void {
    view.recorded.set(seen.job.uid, { hidden: false, object: null, logs: [], ...seen });
  }

  return {
    touch,
    /** All jobs that are there were observed just now: the record is as old as this. Never rejects. */
    async keepAge(): Promise<void> {
      if (!view.isSynced) return;
      const seenAt = clock.now();
      for (const [uid, { hidden: _hidden, object: _object, logs: _logs, ...sight }] of view.recorded) {
        if (!view.jobs.has(uid)) continue;
        const seen = { ...sight, seenAt };
        keepRecorded(seen);
        await record.keepSight(seen, []).catch(() => undefined);
      }
    },
    get isWriting() {
      return writing !== undefined;
    },
    /** Resolves when nothing is written any more; call it after the signal has aborted. */
    async ended(): Promise<void> {
      await writing?.catch(() => undefined);
    },
  };
}

/** The pods of a finished job are listed once more: the watch may have missed one that began and ended in between. */
async function listedPods({ cluster, view, signal }: WriterParts, job: ClusterJob): Promise<readonly ClusterPod[]> {
  const listed: ClusterPod[] = [];
  for await (const page of cluster.pods({ job: job.name, signal })) listed.push(...page);
  return listed.filter((pod) => ownerOf(view, pod) === job.uid);
}

/** Connections that follow logs at once in one place; other logs wait for their turn. */
const followedMost = 256;
/** A log of a job that is over is given up after so many failures in a row. */
const lossesMost = 5;

/** Copies containers' logs to their ends, a bounded number at once. A log continues at the end of its own copy. */
export function createLogCopies(options: {
  readonly cluster: Pick<Cluster, 'logs'>;
  readonly record: Pick<ClusterRecord, 'keepLog'>;
  readonly copyOf: (log: ContainerLog) => KeptWriter;
  readonly view: ClusterView;
  readonly timers: Timers;
  readonly signal: AbortSignal;
  /** A log has come to its end, or is given up. */
  readonly done: (log: ContainerLog) => void;
  readonly failed: (error: unknown) => void;
  readonly say: (line: string) => void;
}) {
  const { cluster, record, view, timers, signal, say } = options;
  const works = new Set<Promise<void>>();
  const waiting: (() => void)[] = [];
  let taken = 0;

  async function inTurn(act: () => Promise<void>): Promise<void> {
    if (taken >= followedMost) await new Promise<void>((resolve) => waiting.push(resolve));
    else taken += 1;
    try {
      await act();
    } finally {
      const next = waiting.shift();
      if (next === undefined) taken -= 1;
      else next();
    }
  }

  async function end({ job, pod, container }: ContainerLog, state: 'whole' | 'cut'): Promise<void> {
    await record.keepLog(job.uid, { pod, container, state });
    view.copied.add(logKey(job.uid, pod, container));
    if (state === 'cut') say(`${pod} was gone before the end of its log was copied`);
  }

  async function copy(log: ContainerLog): Promise<void> {
    const { uid } = log.job;
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        if (await copyOnce(log, () => (failures = 0))) await end(log, 'whole');
        else if (!signal.aborted) await end(log, 'cut');
        return;
      } catch (error) {
        if (signal.aborted) return;
        const job = view.jobs.get(uid);
        const isOver = job === undefined || view.finished.has(uid) || !isOpen(job);
        const isAbsent =
          error instanceof LogLineTooLong || (error instanceof JobmanError && error.code === exitCode.notFound);
        try {
          if (isAbsent || (isOver && failures + 1 >= lossesMost)) return await end(log, 'cut');
        } catch {
          // The record could not be written; the next try of the log writes it.
        }
        if (failures === 0) say(`the log of ${log.pod} cannot be copied now: ${textOf(error)}`);
        await timers.rest(backoff(failures, second, minute), signal);
      }
    }
  }

  /** True when it was copied to its end; false when its pod went away in the middle, or the signal has aborted. */
  async function copyOnce(log: ContainerLog, got: () => void): Promise<boolean> {
    let isWhole = true;
    const kept = options.copyOf(log);
    const onCut = (): void => {
      isWhole = false;
    };
    try {
      const query = { follow: true, stamped: true, after: kept.tail, signal, onCut };
      for await (const lines of cluster.logs(log.pod, log.container, query)) {
        kept.append(lines);
        got();
      }
    } finally {
      kept.close();
    }
    return isWhole && !signal.aborted;
  }

  return {
    /** Copies that log to its end. Safe to repeat while it is copied. */
    follow(log: ContainerLog): void {
      const key = logKey(log.job.uid, log.pod, log.container);
      if (signal.aborted || view.following.has(key)) return;
      view.following.add(key);
      const work: Promise<void> = inTurn(() => copy(log))
        .catch(options.failed)
        .finally(() => {
          works.delete(work);
          view.following.delete(key);
          if (!signal.aborted) options.done(log);
        });
      works.add(work);
    },
    /** Resolves when nothing is copied any more; call it after the signal has aborted. */
    async ended(): Promise<void> {
      for (const go of waiting.splice(0)) go();
      await Promise.allSettled(works);
      view.following.clear();
    },
  };
}
