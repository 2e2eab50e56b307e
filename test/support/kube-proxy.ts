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
export interface ProxyResponse {
  readonly code: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is. */
  readonly body?: string;
}

/** The real server is asked this in the place of what was asked. */
export interface PathRewrite {
  readonly path: string;
}

/** The real server does what it is asked, and its reply is lost: this comes in its place. */
export interface LostReply {
  readonly replyWith: ProxyResponse | 'cut';
}

/** What becomes of one request: an answer, a line that breaks off before one, another path, or (undefined) the real server. */
export type RequestHandler = (request: {
  readonly method: string;
  readonly path: string;
}) => ProxyResponse | PathRewrite | LostReply | 'cut' | undefined;

export interface KubeProxy {
  /** A kubeconfig whose server is this door. */
  readonly kubeconfig: string;
  /** From now on. */
  setHandler(by: RequestHandler): void;
  /** The requests that were made, as `GET /api/v1/…`, since it was last asked. */
  takeRequests(): readonly string[];
  /** Every line is cut, and nobody listens until `open`. */
  close(): Promise<void>;
  open(): Promise<void>;
}

/** A refusal as an API server writes it. */
export function statusResponse(code: number, reason: string, message: string, more: object = {}): ProxyResponse {
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
  const cluster = config.clusters[0]?.cluster ?? {};
  const user = config.users[0]?.user ?? {};
  const agent = new Agent({
    keepAlive: true,
    ca: data(cluster['certificate-authority-data']),
    cert: data(user['client-certificate-data']),
    key: data(user['client-key-data']),
  });
  const server = String(cluster['server']);
  const sockets = new Set<Socket>();
  let handler: RequestHandler = () => undefined;
  let requests: string[] = [];

  function forward(
    incoming: IncomingMessage,
    reply: ServerResponse,
    path: string,
    onResponse: (answer: IncomingMessage) => void,
  ): void {
    const { authorization: _own, host: _host, ...headers } = incoming.headers;
    const outgoing = askServer(`${server}${path}`, { method: incoming.method ?? 'GET', headers, agent }, onResponse);
    outgoing.on('error', () => incoming.socket.destroy());
    reply.on('close', () => void (reply.writableFinished || outgoing.destroy()));
    incoming.pipe(outgoing);
  }

  const listener = createServer((incoming, reply) => {
    const request = { method: incoming.method ?? '', path: incoming.url ?? '' };
    requests.push(`${request.method} ${request.path}`);
    const relayResponse = (answer: IncomingMessage): void => {
      reply.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(reply);
      answer.on('error', () => reply.destroy());
    };
    const respond = (answer: ProxyResponse | 'cut'): void => {
      if (answer === 'cut') incoming.socket.destroy();
      else reply.writeHead(answer.code, answer.headers).end(answer.body ?? '');
    };
    const decision = handler(request);
    if (decision === undefined) forward(incoming, reply, request.path, relayResponse);
    else if (decision === 'cut') respond('cut');
    else if ('path' in decision) forward(incoming, reply, decision.path, relayResponse);
    else if ('replyWith' in decision) {
      forward(incoming, reply, request.path, (answer) => {
        answer.resume().once('end', () => respond(decision.replyWith));
      });
    } else {
      incoming.resume();
      respond(decision);
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
    setHandler: (by) => void (handler = by),
    takeRequests() {
      const all = requests;
      requests = [];
      return all;
    },
    close,
    open: () => listen(port),
  };
}
