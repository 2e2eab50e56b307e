// The rows of all jobs that the user may see, kept up to date by the stream of changes.

import { signal } from '@preact/signals';
import type { JobRow } from '../../app/client.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { minute, second, type Duration } from '../../core/model/time.ts';
import { onChange } from '../live.ts';
import { actorOf, client, errorLines, session } from '../session.ts';

export interface JobRows {
  /** By id. Changes update the map in place. A row that has not changed stays the same object. */
  readonly rows: ReadonlyMap<string, JobRow>;
  /** False while more are read. */
  readonly isComplete: boolean;
  /** The error of the newest read, with its hints; null if it succeeded. The rows are then those of an earlier read. */
  readonly failure: readonly string[] | null;
}

export const jobRows = signal<JobRows | null>(null);

/** The first page is drawn at once; later ones have as many rows as an answer may have. */
const firstPage = 100;
const nextPages = 1000;
/** Changed rows are read together. */
const batchTime: Duration = second / 4;
const batchSize = 200;
/** Texts such as "no capacity for 9m" change without an event. */
const refreshTime: Duration = 15 * second;
/** So does the attention that a waiting job needs. */
const unfinishedRefreshTime: Duration = 2 * minute;
const maxUnfinishedRefreshed = 1000;
const maxPause: Duration = 15 * second;
/** After a failed read of all jobs. */
const retryTime: Duration = 5 * second;

/** Keeps the rows until the returned function is called. `visible`: the ids that the page shows. */
export function followRows(visible: () => readonly string[]): () => void {
  const changed = new Set<string>();
  /** The rows of an unfinished read of all jobs, and the ids of the rows that were read after it began. */
  let filling = new Map<string, JobRow>();
  let newer = new Set<string>();
  let isOver = false;
  let reading: Promise<void> | null = null;
  let generation = 0;
  let failures = 0;
  let pausedUntil = 0;

  async function readAll(): Promise<void> {
    generation += 1;
    const own = generation;
    const isOld = (): boolean => isOver || own !== generation;
    const rows = (filling = new Map<string, JobRow>());
    const skipped = (newer = new Set<string>());
    try {
      for (let cursor: string | undefined, limit = firstPage; ; limit = nextPages) {
        const list = await client.list({ all: true, limit, ...(cursor === undefined ? {} : { cursor }) });
        if (isOld()) return;
        for (const row of list.rows) if (!skipped.has(row.id)) rows.set(row.id, row);
        cursor = list.next;
        // The previous rows stay until the new ones are complete.
        const before = jobRows.peek();
        const isFirst = before === null || (!before.isComplete && rows.size >= before.rows.size);
        if (cursor === undefined || isFirst) jobRows.value = { rows, isComplete: cursor === undefined, failure: null };
        if (cursor === undefined) return;
      }
    } catch (error) {
      if (isOld()) return;
      fail(error);
      // Nothing else reads the jobs that are missing.
      setTimeout(() => {
        if (!isOld()) void readAll();
      }, retryTime);
    }
  }

  function fail(error: unknown): void {
    const before = jobRows.peek();
    jobRows.value = {
      rows: before?.rows ?? new Map(),
      isComplete: before?.isComplete ?? false,
      failure: errorLines(error),
    };
  }

  async function readChanged(): Promise<void> {
    const ids = [...changed].slice(0, batchSize);
    for (const id of ids) changed.delete(id);
    try {
      const { rows } = await client.list({ ids });
      const before = jobRows.peek();
      if (isOver || before === null) return;
      // Changed in place: a copy of ten thousand entries takes longer than the change.
      const found = new Map(rows.map((row) => [row.id, row]));
      for (const map of new Set([before.rows as Map<string, JobRow>, filling]))
        for (const id of ids) {
          const row = found.get(id);
          // A job that is not in the answer was deleted.
          if (row === undefined) map.delete(id);
          else map.set(id, row);
        }
      for (const id of ids) newer.add(id);
      jobRows.value = { ...before, failure: null };
      failures = 0;
    } catch (error) {
      if (isOver) return;
      for (const id of ids) changed.add(id);
      failures += 1;
      pausedUntil = performance.now() + Math.min(second * 2 ** failures, maxPause);
      fail(error);
    }
  }

  const refresh = (ids: Iterable<string>): void => {
    if (document.visibilityState === 'visible') for (const id of ids) changed.add(id);
  };
  const leave = onChange(
    (change) => {
      if (change.kind === 'event') changed.add(change.job);
      else if (change.kind === 'jobs') refresh(visible());
    },
    () => void readAll(),
  );
  const batches = setInterval(() => {
    if (changed.size === 0 || reading !== null || jobRows.peek() === null || performance.now() < pausedUntil) return;
    reading = readChanged().finally(() => (reading = null));
  }, batchTime);
  const refreshes = [
    setInterval(() => refresh(visible()), refreshTime),
    setInterval(() => {
      // A viewer gets no events of the jobs of others.
      if (actorOf(session.peek())?.role === 'viewer' && document.visibilityState === 'visible') void readAll();
      const unfinished = [...(jobRows.peek()?.rows.values() ?? [])].filter(({ phase }) => !isFinishedPhase(phase));
      refresh(unfinished.slice(0, maxUnfinishedRefreshed).map(({ id }) => id));
    }, unfinishedRefreshTime),
  ];
  void readAll();
  return () => {
    isOver = true;
    leave();
    clearInterval(batches);
    refreshes.forEach(clearInterval);
  };
}
