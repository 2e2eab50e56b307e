// Updates of stored jobs, for those who wait for them or follow them.

import type { Event } from '../core/model/event.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { Client, JobView } from './client.ts';
import { createBell } from './concurrency.ts';
import { isNotFoundError } from './errors.ts';
import type { Io } from './services.ts';

/** Even without a change, so that a screen can redraw ages. */
const tickInterval: Duration = 250;
/** Ages and reasons change without the store. For many jobs they are read less often. */
const refreshInterval: Duration = 1_000;
const refreshBatch = 8;

export interface JobUpdate {
  readonly id: string;
  /** Null if the job was deleted. */
  readonly view: JobView | null;
  /** Empty if only ages and reasons changed. On the first update all events so far. */
  readonly news: readonly Event[];
  readonly isFirst: boolean;
}

/**
 * The jobs of `ids`, to which the caller may add and from which it may remove: at the beginning, after each change, and
 * each second. Empty four times a second, and when a log has grown. Ends after the first that follows the signal.
 */
export async function* jobUpdates(
  client: Pick<Client, 'changesSince' | 'events' | 'show'>,
  ids: ReadonlySet<string>,
  { now }: Pick<Io, 'now'>,
  signal: AbortSignal,
): AsyncIterable<readonly JobUpdate[]> {
  const seqs = new Map<string, number>();
  const bell = createBell();
  let isStale = true;
  let readAt: Instant = 0;

  async function read(id: string): Promise<JobUpdate> {
    const seq = seqs.get(id);
    try {
      // Read the events first, so that the view is at least as new as they are.
      const news = await client.events(id, seq ?? 0);
      const view = await client.show(id);
      seqs.set(id, news.at(-1)?.seq ?? seq ?? 0);
      return { id, view, news: news.map(({ event }) => event), isFirst: seq === undefined };
    } catch (error) {
      if (!isNotFoundError(error)) throw error;
      return { id, view: null, news: [], isFirst: false };
    }
  }

  const changes = client.changesSince(null, [...ids])[Symbol.asyncIterator]();
  async function listen(): Promise<void> {
    for (let change = await changes.next(); change.done !== true; change = await changes.next()) {
      if (change.value.kind === 'jobs') isStale = true;
      bell.ring();
    }
  }
  // The next reading reports why the changes cannot be read.
  void listen().catch(() => undefined);
  try {
    for (;;) {
      const updates: JobUpdate[] = [];
      if (isStale || now() - readAt >= refreshInterval * Math.ceil(ids.size / refreshBatch)) {
        isStale = false;
        readAt = now();
        for (const id of ids) updates.push(await read(id));
      }
      yield updates;
      if (signal.aborted) return;
      await bell.wait(tickInterval, signal);
    }
  } finally {
    void changes.return?.();
  }
}
