// Channels: a WebSocket to a pod on which each message begins with the number of the channel that it belongs to, as `exec` and
// `port-forward` use it. The reader may be slow and the line may fall silent.
// The protocol: https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go

import type { OutgoingHttpHeaders } from 'node:http';
import type { WebSocket } from 'ws';
import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/time.ts';
import { noReply, type NoReply, type Reply } from '../../http/reply.ts';
import { wholeBody } from '../../http/client.ts';
import type { Api } from './api.ts';
import type { Connection } from './connection.ts';
import { ClusterRefusal } from './status.ts';

/** The cluster that is spoken to. */
export interface ChannelsOf {
  readonly connection: Connection;
  readonly api: Api;
  readonly place: ClusterPlace;
}

/** The line to open. */
export interface ChannelsRequest {
  readonly path: string;
  /** `run a program in train-x7f2p`, as it stands behind "could not". */
  readonly what: string;
  /** Called with one message after the other; while it is awaited not much more is read. */
  readonly onMessage: (channel: number, bytes: Uint8Array) => void | Promise<void>;
}

/** A line that stands. */
export type Channels = ReturnType<typeof watched>;

/** With this message a channel ends, in the one protocol that has it (`v5.channel.k8s.io`, since 1.29). */
const endMessage = 255;
/** Bytes of messages that may wait for the reader before no more is read. */
const keptMost = 1 << 20;
/** A line that is silent is asked so often whether it still stands, and counts as broken when it has not answered for so long. */
const asks: { readonly every: Duration; readonly most: Duration } = { every: 10 * second, most: 35 * second };
const handshakeMost: Duration = 30 * second;

const protocols = [...[5, 4, 3, 2].map((version) => `v${version}.channel.k8s.io`), 'channel.k8s.io'];
const refusalMost = 1 << 20;

/** Opens the line. Rejects with JobmanError in the cluster's own words when it is refused. */
export async function openChannels(cluster: ChannelsOf, request: ChannelsRequest): Promise<Channels> {
  const { api, place } = cluster;
  const { what } = request;
  const reader = createReader(request.onMessage);
  try {
    const { socket } = await api.reported(request, () =>
      api.answered<Opened>(what, () => handshake(cluster, request.path, reader.take)),
    );
    reader.begin(socket);
    return watched(socket, reader);
  } catch (error) {
    if (!(error instanceof ClusterRefusal)) throw error;
    // The cluster itself refuses with a reason. A proxy has none, and a node that does not answer is none of the cluster's own.
    const { code, reason } = error.status;
    if (code === 401 || (code < 500 && reason !== '')) throw error;
    throw new JobmanError(
      `Could not ${what}: the cluster of ${place.context} did not open a line to it (HTTP ${code}).`,
      exitCode.unreachable,
      [
        'The node that it runs on may not answer, or something between here and the cluster lets no WebSocket pass.',
        ...(error.status.message === '' ? [] : [error.status.message]),
      ],
    );
  }
}

interface Opened {
  readonly status: 101;
  readonly socket: WebSocket;
}

async function handshake(
  { connection, place }: ChannelsOf,
  path: string,
  take: (bytes: Buffer) => void,
): Promise<Opened | Reply | NoReply> {
  const { WebSocket } = await import('ws');
  const { headers, agent } = await connection.way();
  const socket = new WebSocket(place.server.replace(/^http/, 'ws').replace(/\/+$/, '') + path, protocols, {
    // Names and values are as Node wants them; only its type knows no list that is read-only.
    // Without a header Accept, which a kubelet refuses for a forwarded port.
    headers: headers as OutgoingHttpHeaders as Record<string, string>,
    agent,
    handshakeTimeout: handshakeMost,
  });
  // The first message may come with the handshake.
  socket.on('message', (data, isBinary) => {
    if (isBinary) take(data as Buffer);
  });
  return new Promise((resolve) => {
    socket.once('open', () => resolve({ status: 101, socket }));
    socket.once('error', (error) => resolve(noReply(error, false)));
    socket.once('unexpected-response', (outgoing, incoming) => {
      const { statusCode: status = 0, headers: told } = incoming;
      wholeBody(incoming, refusalMost)
        .then(
          (bytes) => resolve({ status, headers: told, bytes }),
          (error: unknown) => resolve(noReply(error, true)),
        )
        .finally(() => outgoing.destroy());
    });
  });
}

type Reader = ReturnType<typeof createReader>;

function createReader(onMessage: ChannelsRequest['onMessage']) {
  const begun = Promise.withResolvers<void>();
  let taken = begun.promise;
  let kept = 0;
  let isPaused = false;
  let failed: unknown;
  let socket: WebSocket | undefined;
  const pauseOrGoOn = (): void => {
    if (isPaused ? kept < keptMost / 2 : kept > keptMost) {
      isPaused = !isPaused;
      if (isPaused) socket?.pause();
      else socket?.resume();
    }
  };
  return {
    take: (message: Buffer): void => {
      const [channel, bytes] = [message[0], message.subarray(1)];
      if (channel === undefined || channel === endMessage) return;
      kept += bytes.length;
      pauseOrGoOn();
      taken = taken.then(async () => {
        try {
          if (failed === undefined) await onMessage(channel, bytes);
        } catch (error) {
          failed = error;
          socket?.terminate();
        }
        kept -= bytes.length;
        pauseOrGoOn();
      });
    },
    begin(opened: WebSocket): void {
      socket = opened;
      if (isPaused) opened.pause();
      // A message may come with the handshake; whoever takes it has the line only after this turn.
      setImmediate(begun.resolve);
    },
    /** Resolves when all that has come was taken; rejects with the error of the one who takes them. */
    async taken() {
      await taken;
      if (failed !== undefined) throw failed;
    },
  };
}

function watched(socket: WebSocket, reader: Reader) {
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
      reader.taken().then(() => resolve(why), reject);
    });
  });
  closed.catch(() => undefined);
  return {
    /** Resolves after the last message was taken: null when the line was closed in order, else why it broke. */
    closed,
    /** Resolves when the bytes are under way; does nothing once the line is closed. */
    send(channel: number, bytes: Uint8Array): Promise<void> {
      if (isClosed) return Promise.resolve();
      const message = Buffer.allocUnsafe(bytes.length + 1);
      message[0] = channel;
      message.set(bytes, 1);
      // An error is told by the line's end.
      return new Promise((resolve) => socket.send(message, () => resolve()));
    },
    /** No more comes on that channel. False where this cluster cannot be told so. */
    end(channel: number): boolean {
      if (socket.protocol !== 'v5.channel.k8s.io') return false;
      if (!isClosed) socket.send(Buffer.from([endMessage, channel]), () => undefined);
      return true;
    },
    close(): void {
      if (isClosed) return;
      socket.close();
      // A server that does not answer the close is not waited for.
      setTimeout(() => socket.terminate(), second).unref();
    },
  };
}
