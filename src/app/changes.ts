// Changes: events, changed jobs and growing logs as they happen. A cursor names a position in them, so that a reader that
// was disconnected continues after it.

import { setTimeout as pause } from 'node:timers/promises';
import type { Job } from '../core/model/job.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { Change, Cursor } from './client.ts';
import { usageError } from './errors.ts';
import { logsOf } from './logs.ts';
import type { JobFiles, Store } from './ports.ts';

const checkInterval: Duration = 250;
/** A program prints in bursts: several writes are one change. */
const growthDebounce: Duration = 40;
const eventBatch = 500;

interface Position {
  /** The change count of the store. */
  readonly change: number;
  /** The number of the last event. */
  readonly event: number;
  /** The newest log change. */
  readonly logAt: Instant;
}

interface ChangeSources {
  readonly store: Pick<Store, 'changeCount' | 'eventsAfter' | 'lastEvent'>;
  readonly files: JobFiles;
  readonly now: () => Instant;
  /** Those of the ids that the actor may read, or all unfinished ones. */
  readonly readable: (ids: readonly string[] | null) => Promise<readonly Job[]>;
}

/** Ends at the signal. */
export async function* changesSince(
  { store, files, now, readable }: ChangeSources,
  cursor: Cursor | null,
  ids: readonly string[] | null,
  signal: AbortSignal,
): AsyncGenerator<Change, void> {
  let position: Position =
    cursor === null ? { change: -1, event: await store.lastEvent(), logAt: now() } : parseCursor(cursor);
  let jobs: readonly Job[] = await readable(ids);
  const sizes = new Map<string, number>();
  const growth = watchGrowth(files, signal);
  while (!signal.aborted) {
    const change = await store.changeCount();
    if (change !== position.change) {
      for (let events = await store.eventsAfter(position.event, eventBatch); events.length > 0;) {
        const shown = new Set((await readable([...new Set(events.map(({ job }) => job))])).map(({ id }) => id));
        for (const { number, job, seq, event } of events) {
          position = { ...position, event: number };
          if (shown.has(job) && (ids === null || ids.includes(job)))
            yield { kind: 'event', cursor: formatCursor(position), job, seq, event };
        }
        events = await store.eventsAfter(position.event, eventBatch);
      }
      position = { ...position, change };
      yield { kind: 'jobs', cursor: formatCursor(position) };
      jobs = await readable(ids);
    }
    for (const log of jobs.flatMap((job) => logsOf(files, job, {}, now()))) {
      const key = `${log.job} ${log.id}`;
      const known = sizes.get(key);
      sizes.set(key, log.size);
      if (known === undefined ? log.changedAt < position.logAt : log.size === known) continue;
      position = { ...position, logAt: Math.max(position.logAt, log.changedAt) };
      yield { kind: 'log', cursor: formatCursor(position), log };
    }
    growth.watch(jobs);
    await Promise.race([pause(checkInterval, undefined, { signal }).catch(() => undefined), growth.next()]);
  }
}

/** Checking finds the growth anyway; a notification is only faster. */
function watchGrowth(files: JobFiles, signal: AbortSignal) {
  const stops = new Map<string, () => void>();
  let notify = (): void => undefined;
  signal.addEventListener('abort', () => {
    for (const stop of stops.values()) stop();
  });
  return {
    watch(jobs: readonly Job[]): void {
      if (signal.aborted) return;
      const wanted = new Map<string, () => (() => void) | null>();
      for (const job of jobs.filter(({ finish }) => finish === null)) {
        const attempt = job.attempts.findLast(({ startedAt }) => startedAt !== null)?.ordinal;
        if (attempt === undefined) continue;
        wanted.set(`${job.id} ${attempt}`, () => files.watchLogs(job, attempt, () => notify()));
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
    },
    next: () =>
      new Promise<void>((resolve) => {
        notify = () => setTimeout(resolve, growthDebounce);
      }),
  };
}

function formatCursor({ change, event, logAt }: Position): Cursor {
  return `${change}-${event}-${logAt}`;
}

function parseCursor(cursor: Cursor): Position {
  const [, change, event, logAt] = /^(\d{1,15})-(\d{1,15})-(\d{1,15})$/.exec(cursor) ?? [];
  if (change === undefined) throw usageError(`"${cursor}" is not a cursor of changes.`);
  return { change: Number(change), event: Number(event), logAt: Number(logAt) };
}
