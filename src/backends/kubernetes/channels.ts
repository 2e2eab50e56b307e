// Channels: a WebSocket to a pod on which each message begins with the number of the channel that it belongs to, as `exec` and
// `port-forward` use it. The handshake and its protocols are the client library's; what goes over it, with a reader
// that may be slow and a line that may fall silent, is looked after here.
// The protocol: https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go

import type { ClientRequestArgs } from 'node:http';
import { PassThrough } from 'node:stream';
import type { KubeConfig } from '@kubernetes/client-node';
import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/time.ts';
import type { Api } from './api.ts';
import { LineError, type Connection } from './connection.ts';
import { unreachable } from './status.ts';

/** The cluster that is spoken to. */
export interface ChannelsOf {
  readonly connection: Connection;
  readonly api: Api;
  readonly place: ClusterPlace;
}

/** What is wanted on the line. */
export interface ChannelsRequest {
  /** With its query. */
  readonly path: string;
  /** `run a program in train-x7f2p`, as it stands behind "could not". */
  readonly what: string;
  /** Called with one message after the other; while it is awaited not much more is read. */
  readonly onMessage: (channel: number, bytes: Uint8Array) => void | Promise<void>;
}

/** A line that stands. */
export interface Channels {
  /** Resolves when the bytes are under way; does nothing once the line is closed. */
  send(channel: number, bytes: Uint8Array): Promise<void>;
  /** No more comes on that channel. False where this cluster cannot be told so. */
  end(channel: number): boolean;
  close(): void;
  /** Resolves after the last message was taken: null when the line was closed in order, else why it broke. */
  readonly closed: Promise<string | null>;
}

/** The parts of a `ws` WebSocket that are used; the library's own type needs a package of types that we do not have. */
interface Socket {
  readonly protocol: string;
  send(bytes: Uint8Array, sent: (error?: Error) => void): void;
  close(): void;
  terminate(): void;
  pause(): void;
  resume(): void;
  ping(): void;
  on(event: 'close', call: (code: number, reason: Buffer) => void): void;
  on(event: 'pong' | 'message', call: () => void): void;
  on(event: 'error', call: (error: Error) => void): void;
}

/** With this message a channel ends, in the one protocol that has it (`v5.channel.k8s.io`, since 1.29). */
const endMessage = 255;
/** What is kept of messages that are not taken yet, before no more is read. */
const keptMost = 1 << 20;
/** A line that is silent is asked so often whether it still stands, and counts as broken when it has not answered for so long. */
const asks: { readonly every: Duration; readonly most: Duration } = { every: 10 * second, most: 35 * second };
const handshakeMost: Duration = 30 * second;

/** Opens the line. Rejects with JobmanError in the cluster's own words when it is refused. */
export async function openChannels(cluster: ChannelsOf, request: ChannelsRequest): Promise<Channels> {
  const { WebSocketHandler } = await import('@kubernetes/client-node/dist/web-socket-handler.js');
  const { connection, place } = cluster;
  const { onMessage } = request;
  // Streams that the library ends when a channel does; without them it would take those of this process.
  const unused = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  // The library asks its configuration for these two things only; the login is ours, as for every other request.
  const config = {
    getCurrentCluster: () => ({ server: place.server.replace(/\/+$/, '') }),
    async applyToHTTPSOptions(options: ClientRequestArgs & { handshakeTimeout?: number }) {
      const { headers, agent } = await connection.way();
      Object.assign(options, { headers, agent, handshakeTimeout: handshakeMost });
    },
  } as unknown as KubeConfig;

  let taken = Promise.resolve();
  let kept = 0;
  let isPaused = false;
  let failed: unknown;
  let socket: Socket | undefined;
  const take = (channel: number, bytes: Uint8Array): boolean => {
    kept += bytes.length;
    if (kept > keptMost && !isPaused) {
      isPaused = true;
      socket?.pause();
    }
    taken = taken.then(async () => {
      try {
        if (failed === undefined) await onMessage(channel, bytes);
      } catch (error) {
        failed = error;
        socket?.terminate();
      }
      kept -= bytes.length;
      if (isPaused && kept < keptMost / 2) {
        isPaused = false;
        socket?.resume();
      }
    });
    return true;
  };

  const handler = new WebSocketHandler(config, undefined, unused);
  for (let attempt = 1; socket === undefined; attempt += 1) {
    try {
      socket = (await cluster.api.reported(request, () =>
        handler.connect(request.path, null, take),
      )) as object as Socket;
    } catch (error) {
      await explain(cluster, request, error, attempt === 1);
    }
  }
  return watched(
    socket,
    () => taken,
    () => failed,
  );
}

/** The line, asked now and then whether it still stands. */
function watched(socket: Socket, taken: () => Promise<void>, failed: () => unknown): Channels {
  let isClosed = false;
  let why: string | null = null;
  let heardAt = performance.now();
  const heard = (): void => void (heardAt = performance.now());
  socket.on('pong', heard);
  socket.on('message', heard);
  const timer = setInterval(() => {
    if (performance.now() - heardAt > asks.most) {
      why = `nothing was heard for ${asks.most / second} s`;
      socket.terminate();
    } else socket.ping();
  }, asks.every);
  const closed = new Promise<string | null>((resolve, reject) => {
    socket.on('error', (error) => void (why ??= error.message));
    socket.on('close', (code, reason) => {
      isClosed = true;
      clearInterval(timer);
      // 1000 and 1005 are closed in order, with and without a word (RFC 6455, 7.4.1).
      if (code !== 1000 && code !== 1005) why ??= reason.toString('utf8') || `the line was cut (${code})`;
      void taken().then(() => (failed() === undefined ? resolve(why) : reject(failed() as Error)));
    });
  });
  closed.catch(() => undefined);
  return {
    closed,
    send(channel, bytes) {
      if (isClosed) return Promise.resolve();
      const message = Buffer.allocUnsafe(bytes.length + 1);
      message[0] = channel;
      message.set(bytes, 1);
      // An error is told by the line's end.
      return new Promise((resolve) => socket.send(message, () => resolve()));
    },
    end(channel) {
      if (socket.protocol !== 'v5.channel.k8s.io') return false;
      if (!isClosed) socket.send(Buffer.from([endMessage, channel]), () => undefined);
      return true;
    },
    close() {
      if (isClosed) return;
      socket.close();
      // Whoever does not answer a farewell is not waited for.
      setTimeout(() => socket.terminate(), second).unref();
    },
  };
}

/**
 * The handshake tells a number and no words. Asked plainly, the cluster refuses for the same reason with words; only where
 * it would now agree (a login was renewed) the handshake may be tried again. Otherwise rejects with JobmanError.
 */
async function explain(
  { api, place }: ChannelsOf,
  { path, what }: ChannelsRequest,
  error: unknown,
  mayRepeat: boolean,
): Promise<void> {
  if (error instanceof JobmanError) throw error;
  const { message, error: cause } = error as { readonly message?: string; readonly error?: NodeJS.ErrnoException };
  const code = /^Unexpected server response: (\d+)$/.exec(message ?? '')?.[1];
  if (code === undefined) {
    const said = cause ?? (error as NodeJS.ErrnoException);
    const all = said instanceof AggregateError ? (said.errors as readonly NodeJS.ErrnoException[]) : [said];
    const text = all.map((one) => one.message).join(', ');
    throw unreachable(new LineError(text, false, said.code ?? all[0]?.code ?? null), { place, what });
  }
  try {
    await api.ask({ path, what });
  } catch (refusal) {
    const isAgreed =
      refusal instanceof JobmanError && refusal.lines.some((line) => /upgrade request required/i.test(line));
    if (!isAgreed) throw refusal;
  }
  if (code === '401' && mayRepeat) return;
  throw new JobmanError(
    `Could not ${what}: the cluster of ${place.context} did not open a line to it (HTTP ${code}).`,
    exitCode.unreachable,
    ['The node that it runs on may not answer, or something between here and the cluster lets no WebSocket pass.'],
  );
}
