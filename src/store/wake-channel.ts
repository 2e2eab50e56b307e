// Wake channel: the wake-ups of a database on a server, by NOTIFY and LISTEN. A wake-up is lost while no controller
// listens and while the connection is lost, so the controller then checks every job once.

import { setImmediate } from 'node:timers/promises';
import type pg from 'pg';
import type { WakeUp, WakeUpListener } from '../app/ports.ts';
import { second } from '../core/model/time.ts';

const channel = 'jobman';

const reconnectDelayMs = 2 * second;

/** See `Store.notify`. */
export async function notify(connection: Pick<pg.Pool, 'query'>, wakeUp: WakeUp): Promise<void> {
  await connection.query('select pg_notify($1, $2)', [channel, JSON.stringify(wakeUp)]);
}

/** See `Store.listen`. `connect` opens a connection, which this listener has for itself. */
export async function listen(
  connect: () => Promise<pg.Client>,
  receive: (wakeUps: readonly WakeUp[]) => void,
): Promise<WakeUpListener> {
  let current: pg.Client | undefined;
  let isClosed = false;
  let gathered: WakeUp[] = [];

  async function open(): Promise<void> {
    const client = await connect();
    client.on('notification', ({ payload = '' }) => {
      gathered.push(...wakeUpsOf(payload));
      if (gathered.length === 1) void setImmediate().then(deliver);
    });
    const reopen = () => {
      if (current !== client) return;
      current = undefined;
      scheduleReopen();
    };
    client.on('error', reopen);
    client.on('end', reopen);
    try {
      await client.query(`listen ${channel}`);
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
    current = client;
    if (isClosed) await close();
  }

  function deliver(): void {
    const wakeUps = gathered;
    gathered = [];
    if (!isClosed && wakeUps.length > 0) receive(wakeUps);
  }

  function scheduleReopen(): void {
    if (isClosed) return;
    setTimeout(() => {
      open().then(() => !isClosed && receive([{ topic: 'all' }]), scheduleReopen);
    }, reconnectDelayMs).unref();
  }

  async function close(): Promise<void> {
    isClosed = true;
    const client = current;
    current = undefined;
    await client?.end().catch(() => undefined);
  }

  await open();
  return {
    async poll() {
      // The server sends what it has for this connection before its answer.
      await current?.query('select 1').catch(() => undefined);
      deliver();
    },
    close,
  };
}

/** None for a notification of another program, or of another version. */
function wakeUpsOf(payload: string): readonly WakeUp[] {
  try {
    const wakeUp = JSON.parse(payload) as WakeUp;
    switch (wakeUp.topic) {
      case 'job':
        return /^\d{6,}$/.test(wakeUp.id) ? [wakeUp] : [];
      case 'exit':
        return typeof wakeUp.program === 'string' || wakeUp.program === null ? [wakeUp] : [];
      case 'clusters':
      case 'settings':
      case 'all':
        return [{ topic: wakeUp.topic }];
      default:
        return [];
    }
  } catch {
    return [];
  }
}
