// A WebSocket to a pod for `exec` and `port-forward`: the first byte of each message is its channel's number.
// https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go

import type { Agent, OutgoingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { WebSocket } from 'ws';
import type { ClusterContext } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/model/time.ts';
import type { NoReply, Reply } from '../../http/reply.ts';
import { awaitHandshake } from '../../http/websocket.ts';
import type { Api } from './api.ts';
import type { LoginCredentials } from './login.ts';
import { ClusterRefusal } from './status.ts';

export interface ClusterAccess {
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
/** Time between pings, and the silence after which the connection counts as broken. */
const pings: { readonly interval: Duration; readonly timeout: Duration } = {
  interval: 10 * second,
  timeout: 35 * second,
};
const handshakeTimeout: Duration = 30 * second;

const protocols = [
  'v5.channel.k8s.io',
  'v4.channel.k8s.io',
  'v3.channel.k8s.io',
  'v2.channel.k8s.io',
  'channel.k8s.io',
];

export function podPath({ clusterContext }: Pick<ClusterAccess, 'clusterContext'>, pod: string): string {
  return `/api/v1/namespaces/${encodeURIComponent(clusterContext.namespace)}/pods/${encodeURIComponent(pod)}`;
}

/** Opens the connection. Rejects with JobmanError; a refusal contains the cluster's own message. */
export async function openChannels(cluster: ClusterAccess, request: ChannelsRequest): Promise<Channels> {
  const { api, clusterContext } = cluster;
  const { purpose } = request;
  try {
    const opened = await api.reportSlow(request, () =>
      api.sendWithLogin<OpenedSocket>(request, async (http, headers) =>
        handshake(clusterContext.server, request.path, { headers, agent: await http.agentFor(clusterContext.server) }),
      ),
    );
    return createChannels(opened, request.onMessage);
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
  readonly messages: Readable;
}

async function handshake(
  server: string,
  path: string,
  { headers, agent }: { readonly headers: LoginCredentials['headers']; readonly agent: Agent },
): Promise<OpenedSocket | Reply | NoReply> {
  const { WebSocket } = await import('ws');
  const socket = new WebSocket(server.replace(/^http/, 'ws').replace(/\/+$/, '') + path, protocols, {
    // The cast adds readonly lists, which the type of `ws` lacks. No Accept header: a kubelet refuses it for
    // port-forward.
    headers: headers as OutgoingHttpHeaders as Record<string, string>,
    agent,
    handshakeTimeout,
  });
  // The first message may arrive with the handshake. An unread one stops the reading.
  const messages = new Readable({ objectMode: true, read: () => socket.resume() });
  socket.on('message', (data, isBinary) => {
    if (isBinary && !messages.push(data)) socket.pause();
  });
  socket.on('close', () => messages.push(null));
  return (await awaitHandshake(socket)) ?? { status: 101, socket, messages };
}

function createChannels({ socket, messages }: OpenedSocket, onMessage: ChannelsRequest['onMessage']) {
  let closeReason: string | null = null;
  let lastActivityAt = performance.now();
  const recordActivity = (): void => void (lastActivityAt = performance.now());
  socket.on('pong', recordActivity);
  socket.on('message', recordActivity);
  const timer = setInterval(() => {
    // A paused socket reads no answer: the reader is slow, not the cluster.
    if (socket.isPaused) recordActivity();
    else if (performance.now() - lastActivityAt > pings.timeout) {
      closeReason = `the cluster sent nothing for ${pings.timeout / second} s`;
      socket.terminate();
    } else socket.ping();
  }, pings.interval);
  socket.on('error', (error) => void (closeReason ??= error.message));
  socket.on('close', (code, reason) => {
    clearInterval(timer);
    // 1000 and 1005 are regular ends, with and without a code (RFC 6455, 7.4.1).
    if (code !== 1000 && code !== 1005) closeReason ??= reason.toString('utf8') || `the connection was lost (${code})`;
  });

  async function deliver(): Promise<string | null> {
    // The caller needs the connection before its first message.
    await nextTurn();
    try {
      for await (const message of messages as AsyncIterable<Buffer>) {
        const [channel] = message;
        if (channel !== undefined && channel !== closeSignal) await onMessage(channel, message.subarray(1));
      }
    } finally {
      socket.terminate();
    }
    return closeReason;
  }

  const closed = deliver();
  closed.catch(() => undefined);
  return {
    /** Resolves after the last message is handled: null after a regular end, otherwise the reason of the loss. */
    closed,
    send(channel: number, bytes: Uint8Array): Promise<void> {
      const message = Buffer.allocUnsafe(bytes.length + 1);
      message[0] = channel;
      message.set(bytes, 1);
      return new Promise((resolve) => socket.send(message, () => resolve()));
    },
    /** Ends the data of a channel. Returns false if the protocol of this cluster cannot do that. */
    end(channel: number): boolean {
      if (socket.protocol !== 'v5.channel.k8s.io') return false;
      socket.send(Buffer.from([closeSignal, channel]), () => undefined);
      return true;
    },
    close(): void {
      socket.close();
      setTimeout(() => socket.terminate(), second).unref();
    },
  };
}
