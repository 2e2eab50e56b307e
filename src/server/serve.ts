// The listener of the HTTP API, with the limits of connections, and its end.

import { getRequestListener } from '@hono/node-server';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { minute, second } from '../core/model/time.ts';
import { createApp, type AppParts } from './app.ts';

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** In PEM. Asked for each connection, and cheap; the same object as long as it has not changed. Without it, HTTP. */
  readonly tls?: (() => { readonly cert: Buffer; readonly key: Buffer }) | undefined;
}

export interface Listening {
  /** `http://127.0.0.1:7750`. */
  readonly url: string;
  /** Accepts no more connections, ends streams, and waits for the requests in progress, for a limited time. */
  close(): Promise<void>;
}

const limits = {
  maxHeaderSize: 16 * 1024,
  /** A client that sends its headers or its body more slowly is disconnected with status 408. */
  headersTimeout: 20 * second,
  requestTimeout: 5 * minute,
  /** Longer than clients keep idle connections, so that none sends a request into a closed one. */
  keepAliveTimeout: 75 * second,
};

const drainMs = 10 * second;
const idleCheckMs = 100;

/** Rejects with Node's error if the address cannot be used. */
export async function listen(
  { host, port, tls }: ListenOptions,
  parts: Omit<AppParts, 'stopping'>,
): Promise<Listening> {
  const stopping = new AbortController();
  const app = createApp({ ...parts, stopping: stopping.signal });
  const answer = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  const server = openServer(tls, (incoming, outgoing) => {
    if (stopping.signal.aborted) outgoing.setHeader('connection', 'close');
    void answer(incoming, outgoing);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const { port: ownPort } = server.address() as AddressInfo;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${ownPort}`,
    close() {
      stopping.abort();
      return drain(server);
    },
  };
}

function openServer(tls: ListenOptions['tls'], answer: RequestListener): Server {
  if (tls === undefined) return createServer(limits, answer);
  let inForce = tls();
  const server = createTlsServer({ ...limits, ...inForce, minVersion: 'TLSv1.2' }, answer);
  // Before the listener of Node, which gives the connection the certificate that is then in force.
  server.prependListener('connection', () => {
    const newest = tls();
    if (newest === inForce) return;
    inForce = newest;
    server.setSecureContext({ ...newest, minVersion: 'TLSv1.2' });
  });
  return server;
}

async function drain(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  // A connection that answers now is idle afterwards.
  const whileBusy = setInterval(() => server.closeIdleConnections(), idleCheckMs);
  const timer = setTimeout(() => server.closeAllConnections(), drainMs);
  await closed;
  clearInterval(whileBusy);
  clearTimeout(timer);
}
