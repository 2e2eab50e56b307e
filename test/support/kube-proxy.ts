/**
 * A proxy in front of a real API server, on loopback. It answers some requests itself and forwards all others as the
 * administrator, so that a test gets single refusals, slow responses or lost connections from a real cluster.
 */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Agent, request as askServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { parse } from 'yaml';
import { changedKubeconfig } from './kube.ts';
import type { World } from './world.ts';

/** A response of the proxy instead of the cluster's. */
export interface ProxyResponse {
  readonly code: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent unchanged. */
  readonly body?: string;
}

/** Sends the real server another path. */
export interface PathRewrite {
  readonly path: string;
}

/** Sends the request to the real server, and returns this response instead of the real one. */
export interface LostReply {
  readonly replyWith: ProxyResponse | 'cut';
}

/** The handling of one request: a response, a cut connection, another path, or (undefined) the real server. */
export type RequestHandler = (request: {
  readonly method: string;
  readonly path: string;
}) => ProxyResponse | PathRewrite | LostReply | 'cut' | undefined;

export interface KubeProxy {
  /** A kubeconfig whose server is this proxy. */
  readonly kubeconfig: string;
  /** Applies to all later requests. */
  setHandler(by: RequestHandler): void;
  /** The requests as `GET /api/v1/…` since the last call. */
  takeRequests(): readonly string[];
  /** Cuts all connections and refuses new ones until `open`. */
  close(): Promise<void>;
  open(): Promise<void>;
}

/** An error in the format of an API server. */
export function statusResponse(code: number, reason: string, message: string, more: object = {}): ProxyResponse {
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code, ...more };
  return { code, headers: { 'content-type': 'application/json' }, body: JSON.stringify(status) };
}

/** Starts the proxy; `kubeconfig` is an administrator's with a client certificate. */
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
