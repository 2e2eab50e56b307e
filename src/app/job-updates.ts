// Changes of stored jobs, for those who show them, wait for them or follow them.

import type { Event } from '../core/model/event.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { Change, Client, JobView } from './client.ts';
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
 * Yields the jobs of `ids` at the beginning, after each change and each second; the caller may add ids and remove them
 * meanwhile. Yields an empty list four times a second, and when a log has grown. Ends with the first list after the
 * signal.
 */
export async function* jobUpdates(
  client: Pick<Client, 'changesSince' | 'events' | 'show'>,
  ids: ReadonlySet<string>,
  { now }: Pick<Io, 'now'>,
  signal: AbortSignal,
): AsyncIterable<readonly JobUpdate[]> {
  const seqs = new Map<string, number>();
  const bell = createBell();
  let seen = 0;
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

  const changes = noticeChanges(client, [...ids], () => bell.ring());
  try {
    for (;;) {
      const updates: JobUpdate[] = [];
      const count = changes.count();
      if (count !== seen || now() - readAt >= refreshInterval * Math.ceil(ids.size / refreshBatch)) {
        seen = count;
        readAt = now();
        for (const id of ids) updates.push(await read(id));
      }
      yield updates;
      if (signal.aborted) return;
      await bell.wait(tickInterval, signal);
    }
  } finally {
    changes.close();
  }
}

/** Notices changes until `close`. `onChange` is also called when the log of one of these jobs has grown. */
export function noticeChanges(
  client: Pick<Client, 'changesSince'>,
  ids: readonly string[] = [],
  onChange: () => void = () => undefined,
) {
  let count = 1;
  let changes: AsyncIterator<Change> | null = null;

  async function listen(): Promise<void> {
    const own = client.changesSince(null, ids)[Symbol.asyncIterator]();
    changes = own;
    try {
      for (let change = await own.next(); change.done !== true; change = await own.next()) {
        if (change.value.kind === 'jobs') count += 1;
        onChange();
      }
    } catch {
      // The caller reads the jobs, which reports why the changes cannot be read.
      count += 1;
    }
    changes = null;
  }

  return {
    /** Grows with every change of any job. */
    count(): number {
      if (changes === null) void listen();
      return count;
    },
    close: (): void => void changes?.return?.(),
  };
}
