// The listener of the HTTP API: TLS, limits of connections, and a graceful stop. An error that no code has caught ends at most its
// connection if a request has caused it, because any client could end the server otherwise.

import { getRequestListener } from '@hono/node-server';
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  createServer,
  STATUS_CODES,
  type OutgoingHttpHeaders,
  type RequestListener,
  ServerResponse,
  type IncomingMessage,
  type Server,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { problemType } from '../api/problem.ts';
import { toProblem } from './problem.ts';
import { usageError } from '../app/errors.ts';
import type { Io } from '../app/services.ts';
import { second } from '../core/model/time.ts';
import { offerUpgrade } from './worker-streams.ts';
import { createApp, reportIncident, type AppParts } from './app.ts';
import { securityHeaders } from './headers.ts';
import { createConnectionCounter, defaultLimits, type ServerLimits } from './limits.ts';

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** Certificate and key in PEM; absent: plain HTTP. Called for each connection; returns the same object until they change. */
  readonly tls?: (() => { readonly cert: Buffer; readonly key: Buffer }) | undefined;
}

export interface Listening {
  /** `http://127.0.0.1:7750`. */
  readonly url: string;
  /** Accepts no more connections, ends streams, and waits a limited time for the requests in progress. */
  close(): Promise<void>;
}

/** Time for a client that still sends a request that the server has already refused. */
const lingerMs = second / 2;
const drainMs = 10 * second;
const idleCheckMs = 100;

/** Set in everything that connections cause, with the connection if it is in a request. */
const cause = new AsyncLocalStorage<{ readonly socket: Duplex | null }>();

/** Rejects with Node's error if the address cannot be used. */
export async function listen(
  { host, port, tls }: ListenOptions,
  parts: Omit<AppParts, 'stopping'> & Partial<Pick<Io, 'onUncaught'>>,
): Promise<Listening> {
  const { limits = defaultLimits, trustedProxies = [] } = parts;
  const headers = securityHeaders(tls !== undefined || trustedProxies.length > 0);
  const stopping = new AbortController();
  const app = createApp({ ...parts, stopping: stopping.signal });
  const answer = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  const answers = new WeakMap<Duplex, ServerResponse>();
  const setHeaders = (outgoing: ServerResponse): void => {
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) outgoing.setHeader(name, value);
  };
  const server = openServer(limits, tls, (incoming, outgoing) =>
    cause.run(incoming, () => {
      answers.set(incoming.socket, outgoing);
      setHeaders(outgoing);
      if (stopping.signal.aborted) outgoing.setHeader('connection', 'close');
      void answer(incoming, outgoing);
    }),
  );
  server.maxConnections = limits.connections;
  if (trustedProxies.length === 0) limitConnections(server, limits.connectionsOfAddress);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // A response that has begun cannot get another status.
    if (socket.writable && answers.get(socket)?.headersSent !== true) socket.end(refusal(error, limits, headers));
    // If the socket closed at once, unread data would reset the connection, and the client could lose the response.
    setTimeout(() => socket.destroy(), lingerMs);
    socket.resume();
  });
  server.on('upgrade', (incoming, socket: Socket, head) => cause.run({ socket }, upgrade, incoming, socket, head));
  function upgrade(incoming: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const outgoing = new ServerResponse(incoming);
    setHeaders(outgoing);
    outgoing.shouldKeepAlive = false;
    try {
      outgoing.assignSocket(socket);
    } catch {
      // The answer to an earlier request of this connection is not complete.
      socket.destroy();
      return;
    }
    outgoing.once('finish', () => socket.end());
    offerUpgrade(incoming, socket, head);
    void answer(incoming, outgoing);
  }
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    cause.run({ socket: null }, () => server.listen(port, host, resolve));
  });
  const forget = parts.onUncaught?.((error, isThrown) => {
    const causedBy = cause.getStore();
    if (causedBy === undefined) return false;
    reportIncident(error, parts);
    // After a rejection the request may still get its answer.
    if (isThrown) causedBy.socket?.destroy();
    return true;
  });
  const { port: ownPort } = server.address() as AddressInfo;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${ownPort}`,
    async close() {
      stopping.abort();
      await drain(server);
      forget?.();
    },
  };
}

function openServer(limits: ServerLimits, tls: ListenOptions['tls'], answer: RequestListener): Server {
  const { headerBytes, headersTimeout, requestTimeout, keepAliveTimeout } = limits;
  const options = {
    maxHeaderSize: headerBytes,
    headersTimeout,
    requestTimeout,
    keepAliveTimeout,
    connectionsCheckingInterval: headersTimeout / 4,
    // Ignores a request to upgrade to another protocol, such as HTTP/2.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) => headers.upgrade?.toLowerCase() === 'websocket',
  };
  if (tls === undefined) return createServer(options, answer);
  let inForce = tls();
  const minVersion = 'TLSv1.2';
  const server = createTlsServer({ ...options, ...inForce, minVersion, handshakeTimeout: headersTimeout }, answer);
  // Runs before the listener of Node, which uses the current certificate for the connection.
  server.prependListener('connection', () => {
    const newest = tls();
    if (newest === inForce) return;
    inForce = newest;
    server.setSecureContext({ ...newest, minVersion });
  });
  return server;
}

function limitConnections(server: Server, maximum: number): void {
  const connections = createConnectionCounter(maximum);
  server.on('connection', (socket) => {
    const { remoteAddress: address } = socket;
    if (address === undefined || !connections.open(address)) socket.destroy();
    else socket.once('close', () => connections.close(address));
  });
}

/** The response to a request that cannot be parsed. */
function refusal({ code }: NodeJS.ErrnoException, limits: ServerLimits, headers: OutgoingHttpHeaders): string {
  const [status, message] =
    code === 'HPE_HEADER_OVERFLOW'
      ? [431, `The headers are larger than ${limits.headerBytes / 1024} KiB.`]
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'The request was not complete in time.']
        : [400, 'The request is not HTTP.'];
  const body = JSON.stringify(toProblem(usageError(message), status));
  const all = {
    ...headers,
    'content-type': problemType,
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${String(value)}`);
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n');
}

async function drain(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  // A busy connection becomes idle after its response.
  const whileBusy = setInterval(() => server.closeIdleConnections(), idleCheckMs);
  const timer = setTimeout(() => server.closeAllConnections(), drainMs);
  await closed;
  clearInterval(whileBusy);
  clearTimeout(timer);
}
