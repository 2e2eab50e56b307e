// Followed logs: the logs of unfinished jobs, and which of them have grown.

import type { Job } from '../core/model/job.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { LogRef } from './client.ts';
import { createBell } from './concurrency.ts';
import { logsOf } from './logs.ts';
import type { JobFiles } from './ports.ts';

/** Between two checks of the database and of all logs. */
export const checkInterval: Duration = 250;
/** A program prints in bursts: several writes are one change. */
const growthDebounce: Duration = 40;

/** The logs of some jobs. Checking finds their growth anyway; a notification is only faster. */
export function followLogs(files: JobFiles, now: () => Instant) {
  let jobs: ReadonlyMap<string, Job> = new Map();
  /** By job and log. */
  const logs = new Map<string, Map<string, LogRef>>();
  const stops = new Map<string, () => void>();
  const bell = createBell();
  let grown = new Set<string>();
  let checkedAt = Number.NEGATIVE_INFINITY;

  function check(of: Iterable<Job>): readonly LogRef[] {
    return [...of].flatMap((job) => {
      const known = logs.get(job.id) ?? new Map<string, LogRef>();
      logs.set(job.id, known);
      const changed = logsOf(files, job, {}, now()).filter(({ id, size }) => known.get(id)?.size !== size);
      for (const log of changed) known.set(log.id, log);
      return changed;
    });
  }

  function notify(job: string): void {
    if (grown.size === 0) setTimeout(() => bell.ring(), growthDebounce);
    grown.add(job);
  }

  function replace(next: readonly Job[]): void {
    jobs = new Map(next.map((job) => [job.id, job]));
    for (const id of logs.keys()) if (!jobs.has(id)) logs.delete(id);
    const wanted = new Map<string, () => (() => void) | null>();
    for (const job of next) {
      const attempt = job.attempts.findLast(({ startedAt }) => startedAt !== null)?.ordinal;
      if (job.finish === null && attempt !== undefined)
        wanted.set(`${job.id} ${attempt}`, () => files.watchLogs(job, attempt, () => notify(job.id)));
    }
    // A stream may outlive thousands of jobs, and the system limits the number of watches.
    for (const [key, stop] of stops) {
      if (wanted.has(key)) continue;
      stop();
      stops.delete(key);
    }
    for (const [key, start] of wanted) {
      const stop = stops.has(key) ? null : start();
      if (stop !== null) stops.set(key, stop);
    }
  }

  return {
    jobs: () => jobs,
    replace,
    /** The logs of these jobs that have changed since the last check. The present logs of a new job are no change. */
    add(found: readonly Job[]): readonly LogRef[] {
      const isKnown = ({ id }: Job): boolean => jobs.has(id);
      const changed = check(found.filter(isKnown));
      const added = found.filter((job) => !isKnown(job));
      check(added);
      replace([...jobs.values(), ...added]);
      return changed;
    },
    /** The logs that have changed since the last check. */
    changed(): readonly LogRef[] {
      const isDue = performance.now() - checkedAt >= checkInterval;
      if (isDue) checkedAt = performance.now();
      const which = isDue ? jobs.values() : [...grown].flatMap((id) => jobs.get(id) ?? []);
      grown = new Set();
      return check(which);
    },
    since: (at: Instant): readonly LogRef[] =>
      [...logs.values()].flatMap((ofJob) => [...ofJob.values()].filter(({ changedAt }) => changedAt >= at)),
    /** True also for the log of a job that is no longer followed. */
    isNewest: (log: LogRef): boolean => (logs.get(log.job)?.get(log.id) ?? log) === log,
    /** Returns early when a log grows. */
    grow: (length: Duration, signal: AbortSignal) => bell.wait(length, signal),
    close(): void {
      for (const stop of stops.values()) stop();
      stops.clear();
    },
  };
}
