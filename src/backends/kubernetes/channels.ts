// A WebSocket to a pod for `exec` and `port-forward`: the first byte of each message is its channel's number.
// https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go

import type { OutgoingHttpHeaders } from 'node:http';
import type { WebSocket } from 'ws';
import type { ClusterContext } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { toNoReply, type NoReply, type Reply } from '../../http/reply.ts';
import { readBody } from '../../http/client.ts';
import type { Api } from './api.ts';
import type { Connection } from './connection.ts';
import { ClusterRefusal } from './status.ts';

export interface ClusterAccess {
  readonly connection: Connection;
  readonly api: Api;
  readonly clusterContext: ClusterContext;
}

export interface ChannelsRequest {
  readonly path: string;
  /** `run a program in train-x7f2p`: the messages continue "Could not" with it. */
  readonly purpose: string;
  /** Called with one message at a time. Reading almost stops while its promise is pending. */
  readonly onMessage: (channel: number, bytes: Uint8Array) => void | Promise<void>;
}

export type Channels = ReturnType<typeof createChannels>;

/** Ends a channel. Only the protocol `v5.channel.k8s.io` (since 1.29) has this message. */
const closeSignal = 255;
const maxBufferedBytes = 1 << 20;
/** Time between pings, and the silence after which the connection counts as broken. */
const pings: { readonly interval: Duration; readonly timeout: Duration } = {
  interval: 10 * second,
  timeout: 35 * second,
};
const handshakeTimeout: Duration = 30 * second;

const protocols = [...[5, 4, 3, 2].map((version) => `v${version}.channel.k8s.io`), 'channel.k8s.io'];
const maxRefusalBytes = 1 << 20;

/** Opens the connection. Rejects with JobmanError; a refusal contains the cluster's own message. */
export async function openChannels(cluster: ClusterAccess, request: ChannelsRequest): Promise<Channels> {
  const { api, clusterContext } = cluster;
  const { purpose } = request;
  const reader = createReader(request.onMessage);
  try {
    const { socket } = await api.reportSlow(request, () =>
      api.sendWithLogin<OpenedSocket>(purpose, () => handshake(cluster, request.path, reader.receive)),
    );
    reader.start(socket);
    return createChannels(socket, reader);
  } catch (error) {
    if (!(error instanceof ClusterRefusal)) throw error;
    // The cluster itself refuses with a reason. A refusal without one comes from a proxy or from an unreachable node.
    const { code, reason } = error.status;
    if (code === 401 || (code < 500 && reason !== '')) throw error;
    throw new JobmanError(
      `Could not ${purpose}: the cluster of ${clusterContext.context} refused the WebSocket connection (HTTP ${code}).`,
      exitCode.unreachable,
      [
        'The node of the pod may be unreachable, or a proxy between this machine and the cluster blocks WebSockets.',
        ...(error.status.message === '' ? [] : [error.status.message]),
      ],
    );
  }
}

interface OpenedSocket {
  readonly status: 101;
  readonly socket: WebSocket;
}

async function handshake(
  { connection, clusterContext }: ClusterAccess,
  path: string,
  onMessage: (bytes: Buffer) => void,
): Promise<OpenedSocket | Reply | NoReply> {
  const { WebSocket } = await import('ws');
  const { headers, agent } = await connection.headersAndAgent();
  const socket = new WebSocket(clusterContext.server.replace(/^http/, 'ws').replace(/\/+$/, '') + path, protocols, {
    // The cast adds readonly lists, which the type of `ws` lacks. No Accept header: a kubelet refuses it for
    // port-forward.
    headers: headers as OutgoingHttpHeaders as Record<string, string>,
    agent,
    handshakeTimeout,
  });
  // The first message may arrive with the handshake.
  socket.on('message', (data, isBinary) => {
    if (isBinary) onMessage(data as Buffer);
  });
  return new Promise((resolve) => {
    socket.once('open', () => resolve({ status: 101, socket }));
    socket.once('error', (error) => resolve(toNoReply(error, false)));
    socket.once('unexpected-response', (outgoing, incoming) => {
      const { statusCode: status = 0, headers: replyHeaders } = incoming;
      readBody(incoming, maxRefusalBytes)
        .then(
          (bytes) => resolve({ status, headers: replyHeaders, bytes }),
          (error: unknown) => resolve(toNoReply(error, true)),
        )
        .finally(() => outgoing.destroy());
    });
  });
}

type Reader = ReturnType<typeof createReader>;

function createReader(onMessage: ChannelsRequest['onMessage']) {
  const started = Promise.withResolvers<void>();
  let delivered = started.promise;
  let bufferedBytes = 0;
  let isPaused = false;
  let failed: unknown;
  let socket: WebSocket | undefined;
  const pauseOrResume = (): void => {
    if (isPaused ? bufferedBytes < maxBufferedBytes / 2 : bufferedBytes > maxBufferedBytes) {
      isPaused = !isPaused;
      if (isPaused) socket?.pause();
      else socket?.resume();
    }
  };
  return {
    receive: (message: Buffer): void => {
      const [channel, bytes] = [message[0], message.subarray(1)];
      if (channel === undefined || channel === closeSignal) return;
      bufferedBytes += bytes.length;
      pauseOrResume();
      delivered = delivered.then(async () => {
        try {
          if (failed === undefined) await onMessage(channel, bytes);
        } catch (error) {
          failed = error;
          socket?.terminate();
        }
        bufferedBytes -= bytes.length;
        pauseOrResume();
      });
    },
    start(opened: WebSocket): void {
      socket = opened;
      if (isPaused) opened.pause();
      // Such a message must wait until the caller has the connection.
      setImmediate(started.resolve);
    },
    /** Resolves when all received messages are handled; rejects with the error of `onMessage`. */
    async delivered() {
      await delivered;
      if (failed !== undefined) throw failed;
    },
  };
}

function createChannels(socket: WebSocket, reader: Reader) {
  let isClosed = false;
  let closeReason: string | null = null;
  let lastActivityAt = performance.now();
  const recordActivity = (): void => void (lastActivityAt = performance.now());
  socket.on('pong', recordActivity);
  socket.on('message', recordActivity);
  const timer = setInterval(() => {
    if (performance.now() - lastActivityAt > pings.timeout) {
      closeReason = `the cluster sent nothing for ${pings.timeout / second} s`;
      socket.terminate();
    } else socket.ping();
  }, pings.interval);
  const closed = new Promise<string | null>((resolve, reject) => {
    socket.on('error', (error) => void (closeReason ??= error.message));
    socket.on('close', (code, reason) => {
      isClosed = true;
      clearInterval(timer);
      // 1000 and 1005 are regular ends, with and without a code (RFC 6455, 7.4.1).
      if (code !== 1000 && code !== 1005)
        closeReason ??= reason.toString('utf8') || `the connection was lost (${code})`;
      reader.delivered().then(() => resolve(closeReason), reject);
    });
  });
  closed.catch(() => undefined);
  return {
    /** Resolves after the last message is handled: null after a regular end, otherwise the reason of the loss. */
    closed,
    send(channel: number, bytes: Uint8Array): Promise<void> {
      if (isClosed) return Promise.resolve();
      const message = Buffer.allocUnsafe(bytes.length + 1);
      message[0] = channel;
      message.set(bytes, 1);
      return new Promise((resolve) => socket.send(message, () => resolve()));
    },
    /** Ends the data of a channel. Returns false if the protocol of this cluster cannot do that. */
    end(channel: number): boolean {
      if (socket.protocol !== 'v5.channel.k8s.io') return false;
      if (!isClosed) socket.send(Buffer.from([closeSignal, channel]), () => undefined);
      return true;
    },
    close(): void {
      if (isClosed) return;
      socket.close();
      setTimeout(() => socket.terminate(), second).unref();
    },
  };
}
