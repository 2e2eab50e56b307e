import type { Client, JobView } from '../../app/client.ts';
import { isNotFoundError } from '../../app/errors.ts';
import type { Event } from '../../core/model/event.ts';
import type { Duration, Instant } from '../../core/model/time.ts';
import type { Cli } from '../context.ts';
import { controllerCheckInterval, ensureController } from '../controller.ts';

export const pollInterval: Duration = 250;
/** Ages and reasons change without the store. For many jobs they are read less often. */
const refreshInterval: Duration = 1_000;
const refreshBatch = 8;

interface JobUpdate {
  readonly id: string;
  /** Null if the job was deleted. */
  readonly view: JobView | null;
  /** Empty if only ages and reasons changed. On the first call all events so far. */
  readonly news: readonly Event[];
  readonly isFirst: boolean;
}

/** Reads stored jobs for `wait` and for followed logs, and replaces a dead controller meanwhile. */
export function createJobPoller(cli: Cli, client: Client) {
  const seqs = new Map<string, number>();
  let changes = -1;
  let readAt: Instant = 0;
  // Check the controller at once: waiting needs a running controller.
  let controllerAt: Instant = cli.io.now() - controllerCheckInterval;

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

  return {
    /** Empty if the store has not changed and the last read is less than a second old. */
    async poll(ids: readonly string[]): Promise<readonly JobUpdate[]> {
      const seen = await client.changeCount();
      const now = cli.io.now();
      if (seen === changes && now - readAt < refreshInterval * Math.ceil(ids.length / refreshBatch)) return [];
      [changes, readAt] = [seen, now];
      const updates: JobUpdate[] = [];
      for (const id of ids) updates.push(await read(id));
      return updates;
    },
    async checkController(beforeNote: () => void): Promise<void> {
      if (cli.io.now() - controllerAt < controllerCheckInterval) return;
      controllerAt = cli.io.now();
      await ensureController(cli, client, beforeNote);
    },
  };
}
