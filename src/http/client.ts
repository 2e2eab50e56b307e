// HTTP client over Node's http and https (docs/decisions/http-client.md). A missing reply is a value too: NoReply says
// whether the request may have arrived, which decides whether it may be repeated.

import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request as plainRequest,
  type RequestOptions,
} from 'node:http';
import type { AgentOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type Duration, second } from '../core/model/time.ts';
import { toNoReply, NoReply, type StreamReply, type Reply } from './reply.ts';
import { setTimeout as sleep } from 'node:timers/promises';

type Headers = Readonly<Record<string, string | readonly string[]>>;

export interface HttpRequest {
  /** The server's address; its path is the prefix of `path`. */
  readonly url: string;
  /** Below `url`, with its query; already encoded. */
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Headers;
  readonly body?: string | Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly limits?: Partial<RequestLimits>;
}

/** Time limits of an exchange, and the size limit of a reply. */
export interface RequestLimits {
  /** Until the connection is ready, including the TLS handshake. */
  readonly connect: Duration;
  /** From the connection to the start of the reply. */
  readonly answer: Duration;
  /** From the request to the last byte of a complete reply. */
  readonly total: Duration;
  readonly bytes: number;
}

const defaultLimits: RequestLimits = {
  connect: 10 * second,
  answer: 30 * second,
  total: 60 * second,
  bytes: 64 * 1024 * 1024,
};

export interface TlsTrust extends Pick<AgentOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'> {
  /** Authorities in PEM that are trusted in addition to those of this machine. */
  readonly extraCa?: string | undefined;
}

export interface HttpClientOptions {
  /** May name proxies: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, also in lower case. */
  readonly env: Environment;
  /** Replaces the proxies of the environment. */
  readonly proxy?: string | undefined;
  readonly trust?: TlsTrust;
  readonly limits?: Partial<RequestLimits> | undefined;
  readonly retry?: RetryPolicy | undefined;
  /**
   * Refuses a host name that resolves to a private, loopback or link-local address, before any connection. An address
   * in the URL itself is accepted, and so is `localhost`. A proxy resolves names itself.
   */
  readonly refusePrivate?: boolean;
}

export type HttpClient = ReturnType<typeof createHttpClient>;

/** Without TCP keep-alive, the reader of a quiet log would never notice a lost connection. */
const keepAliveInterval: Duration = 30 * second;
/** Limit of an error body when a stream was requested; it has a few hundred bytes. */
const maxErrorBytes = 1024 * 1024;
/** As in Node's global agent. */
const idleTimeout: Duration = 5 * second;

/** Creates a client. It connects with the first request. */
export function createHttpClient(options: HttpClientOptions) {
  const { env, proxy, trust = {}, retry, refusePrivate = false } = options;
  const agents = new Map<string, Promise<Agent>>();

  async function newAgent(server: URL, more: AgentOptions): Promise<Agent> {
    const common = { ...more, proxyEnv: proxyEnvironment(server, env, proxy) };
    if (server.protocol !== 'https:') return new Agent(common);
    const { Agent: TlsAgent } = await import('node:https');
    return new TlsAgent({ ...common, ...(await certificates(trust)) });
  }

  function pooledAgent(server: URL): Promise<Agent> {
    // Servers on this machine are reached without a proxy, by another agent.
    const key = `${server.protocol}${JSON.stringify(proxyEnvironment(server, env, proxy))}`;
    const agent = agents.get(key) ?? newAgent(server, { keepAlive: true, timeout: idleTimeout });
    agents.set(key, agent);
    return agent;
  }

  async function requestWithRetries(request: HttpRequest, isWhole: boolean): Promise<StreamReply | Reply | NoReply> {
    const { method = 'GET', signal } = request;
    const limits = { ...defaultLimits, ...options.limits, ...request.limits };
    for (let attempt = 1; ; attempt += 1) {
      signal?.throwIfAborted();
      const reply = await exchange(request, limits, isWhole, { agentFor: pooledAgent, refusePrivate });
      if (retry === undefined || isFinal(retry, method, reply, attempt)) return reply;
      await pauseBefore(retry, reply, attempt, signal);
    }
  }

  return {
    /** Rejects only with the reason of an aborted signal. */
    request: (request: HttpRequest) => requestWithRetries(request, true) as Promise<Reply | NoReply>,
    /** Resolves when the reply begins; a reply with a status of 300 or more is complete. Rejects like `request`. */
    open: (request: HttpRequest) => requestWithRetries(request, false),
    /** An agent with the same proxy and certificates for another client. It keeps no connection. */
    agentFor: (url: string) => newAgent(new URL(url), {}),
    close() {
      for (const agent of agents.values()) {
        void agent.then(
          (made) => made.destroy(),
          () => undefined,
        );
      }
    },
  };
}

interface ConnectionOptions {
  readonly agentFor: (server: URL) => Promise<Agent>;
  readonly refusePrivate: boolean;
}

async function exchange(
  request: HttpRequest,
  limits: RequestLimits,
  isWhole: boolean,
  connection: ConnectionOptions,
): Promise<StreamReply | Reply | NoReply> {
  const { body, signal } = request;
  let start: (reply: (incoming: IncomingMessage) => void) => ClientRequest;
  try {
    start = await prepareRequest(request, connection);
  } catch (error) {
    return toNoReply(error, false);
  }
  return new Promise((resolve, reject) => {
    let isConnected = false;
    let missing = 'no connection';
    let timeoutError: Error | undefined;
    const endAfter = (length: Duration): NodeJS.Timeout =>
      setTimeout(() => {
        timeoutError = new Error(`${missing} within ${length / second} s`);
        outgoing.destroy(timeoutError);
      }, length);
    const end = (reply: StreamReply | Reply | NoReply): void => {
      clearTimeout(stageTimer);
      clearTimeout(totalTimer);
      if (signal?.aborted === true) reject(signal.reason as Error);
      else resolve(reply);
    };
    const fail = (error: unknown): void => end(toNoReply(timeoutError ?? error, isConnected));
    let outgoing: ClientRequest;
    try {
      outgoing = start((incoming) => {
        clearTimeout(stageTimer);
        missing = 'no whole answer';
        const { statusCode: status = 0, headers } = incoming;
        if (!isWhole && status < 300) end({ status, headers, stream: incoming });
        else
          readBody(incoming, isWhole ? limits.bytes : maxErrorBytes).then(
            (bytes) => end({ status, headers, bytes }),
            fail,
          );
      });
    } catch (error) {
      resolve(toNoReply(error, false));
      return;
    }
    let stageTimer = endAfter(limits.connect);
    const totalTimer = endAfter(limits.total);
    outgoing.on('socket', (socket) => {
      socket.setKeepAlive(true, keepAliveInterval);
      const connected = (): void => {
        isConnected = true;
        missing = 'no answer';
        clearTimeout(stageTimer);
        stageTimer = endAfter(limits.answer);
      };
      // Before the TLS handshake ends, no byte of the request is sent.
      if (outgoing.reusedSocket || isReady(socket)) connected();
      else socket.once('encrypted' in socket ? 'secureConnect' : 'connect', connected);
    });
    outgoing.on('error', fail);
    outgoing.end(body);
  });
}

async function prepareRequest(
  { url, path, method = 'GET', headers, body, signal }: HttpRequest,
  { agentFor, refusePrivate }: ConnectionOptions,
): Promise<(reply: (incoming: IncomingMessage) => void) => ClientRequest> {
  const server = new URL(url);
  const start = server.protocol === 'https:' ? (await import('node:https')).request : plainRequest;
  const options: RequestOptions = {
    method,
    path: path === undefined ? server.pathname + server.search : server.pathname.replace(/\/+$/, '') + path,
    headers: {
      ...(headers as Readonly<Record<string, string | string[]>> | undefined),
      // Node adds no length to the body of a DELETE, so the server would read the body as the next request.
      ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
    },
    agent: await agentFor(server),
    ...(refusePrivate &&
      !isLoopback(url) && { lookup: (await import('./public-address.ts')).publicLookup(server.hostname) }),
    ...(signal === undefined ? {} : { signal }),
  };
  return (reply) => start(server, options, reply);
}

async function certificates({ extraCa, ...trust }: TlsTrust): Promise<AgentOptions> {
  if (extraCa === undefined) return trust;
  const { rootCertificates, ...tls } = await import('node:tls');
  // Node 20, which runs the library, has no getCACertificates.
  const { getCACertificates = () => rootCertificates } = tls as Partial<typeof tls>;
  return { ...trust, ca: [...getCACertificates('default'), extraCa] };
}

function isReady(socket: Socket): boolean {
  return !socket.connecting && (!('encrypted' in socket) || (socket as TLSSocket).getProtocol() !== null);
}

// ------------------------------------------------------------------------------------------ retries

export interface RetryPolicy {
  /** Requests in total, including the first. */
  readonly maxTries: number;
  /** `maxTries` after the status 429, with which the server has done nothing. */
  readonly maxTriesIfOverloaded?: number;
  /** `maxTries` for a broken connection. */
  readonly maxTriesIfBroken: number;
  /** The delay before the second request; it doubles for each further one. */
  readonly initialDelay: Duration;
  /** The longest delay, even if the server requests more. */
  readonly maxDelay: Duration;
}

/** The server did nothing, so every method is repeated. */
const overloadStatuses = [429];
/** A change may have been made, so only a GET is repeated. */
const failureStatuses = [500, 502, 503, 504];
export function isOverloaded(status: number): boolean {
  return overloadStatuses.includes(status) || failureStatuses.includes(status);
}

/** The connection broke, or the name server was busy. Unknown names and bad certificates are final. */
const connectionErrors = ['ECONNRESET', 'EPIPE', 'EAI_AGAIN'];

function isFinal(policy: RetryPolicy, method: string, reply: StreamReply | Reply | NoReply, attempt: number): boolean {
  const isRead = method === 'GET';
  if (reply instanceof NoReply) {
    return attempt >= policy.maxTriesIfBroken || !isRead || !connectionErrors.includes(reply.reason ?? '');
  }
  if (overloadStatuses.includes(reply.status)) return attempt >= (policy.maxTriesIfOverloaded ?? policy.maxTries);
  return attempt >= policy.maxTries || !isRead || !isOverloaded(reply.status);
}

async function pauseBefore(
  { initialDelay, maxDelay }: RetryPolicy,
  reply: StreamReply | Reply | NoReply,
  attempt: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  // A kept connection that the server has closed does not mean that the server is overloaded.
  if (reply instanceof NoReply && attempt === 1) return;
  const retryAfter = reply instanceof NoReply ? 0 : readRetryAfter(reply);
  const length = Math.min(Math.max(initialDelay * 2 ** (attempt - 1), retryAfter), maxDelay);
  await sleep(length, undefined, signal === undefined ? {} : { signal }).catch(() => signal?.throwIfAborted());
}

/** The pause that the server asks for in `Retry-After`; 0 without one. */
export function readRetryAfter({ headers }: StreamReply | Reply): Duration {
  const header = headers['retry-after'];
  if (header === undefined) return 0;
  const pause = /^\d+$/.test(header) ? Number(header) * second : Date.parse(header) - Date.parse(headers.date ?? '');
  return Number.isFinite(pause) ? pause : 0;
}

// ------------------------------------------------------------------------------------------ proxies

export type Environment = Readonly<Record<string, string | undefined>>;

const proxyVariables = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]);

/** The proxy variables for a server. A proxy of the environment could not reach a server on this machine. */
function proxyEnvironment(server: URL, env: Environment, own: string | undefined): Environment {
  if (own !== undefined) return { HTTP_PROXY: own, HTTPS_PROXY: own };
  if (isLoopback(server.href)) return {};
  return Object.fromEntries(proxyVariables.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

export function isLoopback(url: string): boolean {
  // Node 20, which runs the library, has no URL.parse.
  const hostname = URL.canParse(url) ? new URL(url).hostname : '';
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}

// ------------------------------------------------------------------------------------------ bodies

const mebibyte = 1024 * 1024;

class BodyTooLong extends Error {
  constructor(maxBytes: number) {
    super(`its answer is longer than ${Math.max(1, Math.round(maxBytes / mebibyte))} MiB`);
    this.name = 'BodyTooLong';
  }
}

/**
 * Rejects with BodyTooLong, and closes the connection, above `maxBytes`; with Error if the body breaks off. The caller
 * has the deadline. Compressed bodies stay compressed, so none can grow.
 */
export function readBody(incoming: IncomingMessage, maxBytes: number): Promise<Buffer> {
  // By events, because an iterator would wait for the event loop at each of a page's hundred pieces.
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const fail = (error: Error): void => {
      parts.length = 0;
      reject(error);
    };
    incoming.on('data', (part: Buffer) => {
      size += part.length;
      if (size <= maxBytes) parts.push(part);
      else incoming.destroy(new BodyTooLong(maxBytes));
    });
    incoming.on('error', fail);
    incoming.on('end', () => resolve(Buffer.concat(parts)));
    // A truncated answer does not always emit an error.
    incoming.on('close', () => fail(new Error('the reply was incomplete')));
  });
}

/** For the HTTP client of Google's libraries. Google's APIs have no redirects, and a login must not follow one. */
export const googleLimits = { size: 16 * mebibyte, redirect: 'manual', timeout: 20_000 } as const;
