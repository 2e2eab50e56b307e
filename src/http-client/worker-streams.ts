// Worker streams through a server: programs and connections to ports on the workers and pods that the server reaches.

import { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import { encodeSegment } from '../api/wire.ts';
import { openStream, type StreamOutput } from '../api/worker-stream.ts';
import type { ClusterContext } from '../app/cluster/cluster.ts';
import type { PodAccess } from '../app/cluster/cluster-client.ts';
import {
  deferSession,
  type Session,
  type SessionRequest,
  type Tunnel,
  type WorkerTicket,
} from '../app/worker-access.ts';
import { second, type Duration } from '../core/model/time.ts';
import { createHttpClient } from '../http/client.ts';
import { awaitHandshake } from '../http/websocket.ts';
import { failureOf, type HttpClientParts } from './client.ts';

function workerPath({ job, allocation }: WorkerTicket, worker: number): string {
  return `/v1/jobs/${encodeSegment(job)}/workers/${worker}/stream?allocation=${allocation}`;
}

function podPath(
  { context, namespace }: Pick<ClusterContext, 'context' | 'namespace'>,
  pod: string,
  container?: string,
): string {
  const path = `/v1/clusters/${encodeSegment(context)}/namespaces/${encodeSegment(namespace)}/pods/${encodeSegment(pod)}/stream`;
  return container === undefined ? path : `${path}?container=${encodeURIComponent(container)}`;
}

const handshakeTimeout: Duration = 30 * second;
const keepAliveInterval: Duration = 30 * second;

/** Each stream has a connection of its own. */
export function createWorkerStreams({ server, token, ca = null, env, tokenRemedy }: HttpClientParts) {
  const http = createHttpClient({ env, trust: ca === null ? {} : { extraCa: ca } });
  const sockets = new Set<WebSocket>();
  const base = server.replace(/^http/, 'ws').replace(/\/+$/, '');

  /** Rejects with JobmanError if the server refuses or does not answer. */
  async function connect(path: string): Promise<WebSocket> {
    const socket = new WebSocket(base + path, {
      headers: { authorization: `Bearer ${token}` },
      agent: await http.agentFor(server),
      handshakeTimeout,
      perMessageDeflate: false,
    });
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('upgrade', (incoming) => incoming.socket.setKeepAlive(true, keepAliveInterval));
    const refusal = await awaitHandshake(socket);
    if (refusal === null) return socket;
    socket.terminate();
    throw failureOf(refusal, server, { ca, tokenRemedy });
  }

  function open(path: string, opening: object, output: StreamOutput): Session {
    return deferSession(
      connect(path).then((socket) =>
        openStream(socket, opening, output, `the connection to the server ${server} was lost`),
      ),
    );
  }

  async function openTunnel(path: string, port: number): Promise<Tunnel> {
    let mayPush: (() => void) | undefined;
    let isOver = false;
    const connected = Promise.withResolvers<true>();
    const onOutputEnd = (): void => {
      if (!isOver) tunnel.push(null);
      isOver = true;
    };
    const session = open(
      path,
      { kind: 'port', port },
      {
        onConnected: () => connected.resolve(true),
        onBytes: (chunk) => (tunnel.push(chunk) ? undefined : new Promise((taken) => (mayPush = taken))),
        onOutputEnd,
      },
    );
    const tunnel = new Duplex({
      read: () => mayPush?.(),
      write: (chunk: Uint8Array, _encoding, done) => void session.write(chunk).then(() => done(), done),
      final(done) {
        session.end();
        done();
      },
      destroy(error, done) {
        session.stop();
        mayPush?.();
        done(error);
      },
    });
    const end = await Promise.race([connected.promise, session.ended]);
    if (end !== true)
      return end.kind === 'ended'
        ? { problem: 'the connection was closed', isReached: true }
        : { problem: end.reason, isReached: end.mayHaveRun };
    void session.ended.then((late) => {
      if (late.kind === 'unreachable') return void tunnel.destroy(new Error(late.reason));
      onOutputEnd();
      tunnel.end();
    });
    return tunnel;
  }

  return {
    start: (ticket: WorkerTicket, worker: number, { onBytes, ...request }: SessionRequest): Session =>
      open(workerPath(ticket, worker), { kind: 'program', ...request }, { onBytes }),

    tunnel: (ticket: WorkerTicket, worker: number, port: number): Promise<Tunnel> =>
      openTunnel(workerPath(ticket, worker), port),

    podsIn: (at: Pick<ClusterContext, 'context' | 'namespace'>): PodAccess => ({
      exec: ({ pod, container }, { onBytes, ...request }) =>
        open(podPath(at, pod, container), { kind: 'program', environment: 'container', ...request }, { onBytes }),
      attach: ({ pod, container }, { onBytes, terminal }) =>
        open(podPath(at, pod, container), { kind: 'attach', terminal }, { onBytes }),
      tunnel: (pod, port) => openTunnel(podPath(at, pod), port),
    }),

    close(): void {
      for (const socket of sockets) socket.terminate();
      http.close();
    },
  };
}
