// Cluster logs: copies containers' logs to their ends, a bounded number at once. A log continues behind the end of its own copy.

import { LogLineTooLong, type Cluster } from '../app/cluster/cluster.ts';
import type { ClusterRecord } from '../app/cluster/kept.ts';
import type { KeptWriter } from '../app/cluster/kept-logs.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { minute, second } from '../core/time.ts';
import { backoff } from './bounded.ts';
import type { Timers } from './cluster-timers.ts';
import { isOpen, logKey } from './cluster-view.ts';
import type { ClusterView, ContainerLog } from './cluster-view.ts';
import { textOf } from './looks.ts';

/** Connections that follow logs at once in one place; other logs wait for their turn. */
const followedMost = 256;
/** A log of a job that is over is given up after so many failures in a row. */
const lossesMost = 5;

export interface LogCopies {
  /** Copies that log to its end. Safe to repeat while it is copied. */
  follow(log: ContainerLog): void;
  /** Resolves when nothing is copied any more; call it after the signal has aborted. */
  ended(): Promise<void>;
}

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
  /** A sentence about the namespace. */
  readonly say: (line: string) => void;
}): LogCopies {
  const { cluster, record, view, timers, signal, say } = options;
  const works = new Set<Promise<void>>();
  const waiting: (() => void)[] = [];
  let taken = 0;

  /** So many connections at once and no more. */
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
          // The record could not be written; it is tried again with the log.
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
    follow(log) {
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
    async ended() {
      for (const go of waiting.splice(0)) go();
      await Promise.allSettled(works);
      view.following.clear();
    },
  };
}
