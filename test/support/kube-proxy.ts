/**
 * A door before a real API server, on loopback: what it is told to answer it answers, everything else it hands on as the
 * administrator. So one refusal, a slow answer or an end in the middle can be had from a cluster that is otherwise real.
 */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Agent, request as askServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { parse } from 'yaml';
import { changedKubeconfig } from './kube.ts';
import type { World } from './world.ts';

/** What the door says in the cluster's place. */
export interface Answer {
  readonly code: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is. */
  readonly body?: string;
}

/** What becomes of one request: an answer, a line that breaks off before one, or (undefined) the real server. */
export type Decide = (request: { readonly method: string; readonly path: string }) => Answer | 'cut' | undefined;

export interface KubeProxy {
  /** A kubeconfig whose server is this door. */
  readonly kubeconfig: string;
  /** From now on. */
  decide(by: Decide): void;
  /** The requests that were made, as `GET /api/v1/…`, since it was last asked. */
  taken(): readonly string[];
  /** Every line is cut, and nobody listens until `open`. */
  close(): Promise<void>;
  open(): Promise<void>;
}

/** A refusal as an API server writes it. */
export function statusAnswer(code: number, reason: string, message: string, more: object = {}): Answer {
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code, ...more };
  return { code, headers: { 'content-type': 'application/json' }, body: JSON.stringify(status) };
}

/** The door; `kubeconfig` is an administrator's with a client certificate. */
export async function openKubeProxy(world: World, kubeconfig: string): Promise<KubeProxy> {
  const config = parse(readFileSync(kubeconfig, 'utf8')) as {
    readonly clusters: readonly { readonly cluster: Readonly<Record<string, string>> }[];
    readonly users: readonly { readonly user: Readonly<Record<string, string>> }[];
  };
  const data = (text: string | undefined): Buffer => Buffer.from(text ?? '', 'base64');
  const { cluster = {} } = config.clusters[0] ?? {};
  const { user = {} } = config.users[0] ?? {};
  const agent = new Agent({
    keepAlive: true,
    ca: data(cluster['certificate-authority-data']),
    cert: data(user['client-certificate-data']),
    key: data(user['client-key-data']),
  });
  const server = String(cluster['server']);
  const sockets = new Set<Socket>();
  let decide: Decide = () => undefined;
  let taken: string[] = [];

  function handOn(incoming: IncomingMessage, reply: ServerResponse): void {
    const { authorization: _own, host: _host, ...headers } = incoming.headers;
    const outgoing = askServer(
      `${server}${incoming.url ?? '/'}`,
      { method: incoming.method ?? 'GET', headers, agent },
      (answer) => {
        reply.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(reply);
        answer.on('error', () => reply.destroy());
      },
    );
    outgoing.on('error', () => reply.destroy());
    reply.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  }

  const listener = createServer((incoming, reply) => {
    const request = { method: incoming.method ?? '', path: incoming.url ?? '' };
    taken.push(`${request.method} ${request.path}`);
    const answer = decide(request);
    if (answer === undefined) handOn(incoming, reply);
    else if (answer === 'cut') incoming.socket.destroy();
    else {
      incoming.resume();
      reply.writeHead(answer.code, answer.headers).end(answer.body ?? '');
    }
  });
  listener.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => void listener.listen(port, '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    const closed = new Promise((resolve) => listener.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await listen(0);
  const { port } = listener.address() as AddressInfo;
  world.atEnd(async () => {
    if (listener.listening) await close();
    agent.destroy();
  });
  return {
    kubeconfig: changedKubeconfig(world, kubeconfig, (copy) => {
      for (const one of copy.clusters) one.cluster = { server: `http://127.0.0.1:${port}` };
    }),
    decide: (by) => void (decide = by),
    taken() {
      const all = taken;
      taken = [];
      return all;
    },
    close,
    open: () => listen(port),
  };
}
