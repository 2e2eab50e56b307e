// HTTP client: one exchange with a server over Node's own http and https (docs/decisions/http-client.md). A reply is a value, and so is
// its absence: NoReply says whether the request can have arrived, which decides whether it may be repeated.

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
import { type Duration, second } from '../core/time.ts';
import { noReply, NoReply, type OpenReply, type Reply } from './reply.ts';
import { setTimeout as sleep } from 'node:timers/promises';

type Headers = Readonly<Record<string, string | readonly string[]>>;

/** One request. */
export interface HttpRequest {
  /** The address of the server, with the path that all its paths begin with. */
  readonly url: string;
  /** Below `url`, with its query; sent as it is. */
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Headers;
  readonly body?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Limits of this request that differ from those of the client. */
  readonly limits?: Partial<Limits>;
}

/** How long each part of an exchange may take, and how long a reply may be. */
export interface Limits {
  /** Until the connection is ready, including the TLS handshake. */
  readonly connect: Duration;
  /** From then on until the reply begins. */
  readonly answer: Duration;
  /** From the request to the last byte of a reply that is read whole. */
  readonly whole: Duration;
  readonly bytes: number;
}

const usualLimits: Limits = { connect: 10 * second, answer: 30 * second, whole: 60 * second, bytes: 64 * 1024 * 1024 };

/** The certificates of both sides. */
export interface Trust extends Pick<AgentOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'> {
  /** Authorities in PEM that are trusted in addition to those of this machine. */
  readonly extraCa?: string | undefined;
}

/** The options of a client. */
export interface HttpClientOptions {
  /** May name proxies: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, also in lower case. */
  readonly env: Environment;
  /** Replaces the proxies of the environment. */
  readonly proxy?: string | undefined;
  readonly trust?: Trust;
  readonly limits?: Partial<Limits> | undefined;
  /** Without it nothing is sent twice. */
  readonly retry?: RetryPolicy | undefined;
}

/** Requests over connections that are kept for the next request. */
export type HttpClient = ReturnType<typeof createHttpClient>;

/** How often the system checks an idle connection. A reader of a quiet log would otherwise never notice that it is gone. */
const keepAliveEvery: Duration = 30 * second;
/** Bytes of a refusal where the reply was wanted as a stream; it is a few hundred. */
const refusalMost = 1024 * 1024;
/** How long an idle connection is kept; Node's own choice for its global agent. */
const keptFor: Duration = 5 * second;

/** The client. It connects to nothing before the first request. */
export function createHttpClient(options: HttpClientOptions) {
  const { env, proxy, trust = {}, retry } = options;
  const agents = new Map<string, Promise<Agent>>();

  async function newAgent(server: URL, more: AgentOptions): Promise<Agent> {
    const common = { ...more, proxyEnv: proxyFor(server, env, proxy) };
    if (server.protocol !== 'https:') return new Agent(common);
    const { Agent: TlsAgent } = await import('node:https');
    return new TlsAgent({ ...common, ...(await certificates(trust)) });
  }

  function keptAgent(server: URL): Promise<Agent> {
    // Servers on this machine are reached without the proxy, so they have another agent.
    const key = `${server.protocol}${JSON.stringify(proxyFor(server, env, proxy))}`;
    const agent = agents.get(key) ?? newAgent(server, { keepAlive: true, timeout: keptFor });
    agents.set(key, agent);
    return agent;
  }

  async function repeated(request: HttpRequest, isWhole: boolean): Promise<OpenReply | Reply | NoReply> {
    const { method = 'GET', signal } = request;
    const limits = { ...usualLimits, ...options.limits, ...request.limits };
    for (let attempt = 1; ; attempt += 1) {
      signal?.throwIfAborted();
      const reply = await exchange(request, limits, isWhole, keptAgent);
      if (retry === undefined || isOver(retry, method, reply, attempt)) return reply;
      await pauseBefore(retry, reply, attempt, signal);
    }
  }

  return {
    /** The whole reply. Rejects only with the reason of an aborted signal. */
    request: (request: HttpRequest) => repeated(request, true) as Promise<Reply | NoReply>,
    /** Resolves when the reply begins. A reply with a status of 300 or more is read whole. Rejects as `request` does. */
    open: (request: HttpRequest) => repeated(request, false),
    /** An agent that goes the same way for another client, and keeps no connection. */
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

async function exchange(
  request: HttpRequest,
  limits: Limits,
  isWhole: boolean,
  agentFor: (server: URL) => Promise<Agent>,
): Promise<OpenReply | Reply | NoReply> {
  const { body, signal } = request;
  let start: (reply: (incoming: IncomingMessage) => void) => ClientRequest;
  try {
    start = await startOf(request, agentFor);
  } catch (error) {
    return noReply(error, false);
  }
  return new Promise((resolve, reject) => {
    let isConnected = false;
    let missing = 'no connection';
    let late: Error | undefined;
    const endAfter = (length: Duration): NodeJS.Timeout =>
      setTimeout(() => {
        late = new Error(`${missing} within ${length / second} s`);
        outgoing.destroy(late);
      }, length);
    const end = (reply: OpenReply | Reply | NoReply): void => {
      clearTimeout(stage);
      clearTimeout(whole);
      if (signal?.aborted === true) reject(signal.reason as Error);
      else resolve(reply);
    };
    const fail = (error: unknown): void => end(noReply(late ?? error, isConnected));
    let outgoing: ClientRequest;
    try {
      outgoing = start((incoming) => {
        clearTimeout(stage);
        missing = 'no whole answer';
        const { statusCode: status = 0, headers } = incoming;
        if (!isWhole && status < 300) end({ status, headers, stream: incoming });
        else
          wholeBody(incoming, isWhole ? limits.bytes : refusalMost).then(
            (bytes) => end({ status, headers, bytes }),
            fail,
          );
      });
    } catch (error) {
      resolve(noReply(error, false));
      return;
    }
    let stage = endAfter(limits.connect);
    const whole = endAfter(limits.whole);
    outgoing.on('socket', (socket) => {
      socket.setKeepAlive(true, keepAliveEvery);
      const connected = (): void => {
        isConnected = true;
        missing = 'no answer';
        clearTimeout(stage);
        stage = endAfter(limits.answer);
      };
      // Before the TLS handshake has ended nothing of the request has left.
      if (outgoing.reusedSocket || isReady(socket)) connected();
      else socket.once('encrypted' in socket ? 'secureConnect' : 'connect', connected);
    });
    outgoing.on('error', fail);
    outgoing.end(body);
  });
}

async function startOf(
  { url, path, method = 'GET', headers, body, signal }: HttpRequest,
  agentFor: (server: URL) => Promise<Agent>,
): Promise<(reply: (incoming: IncomingMessage) => void) => ClientRequest> {
  const server = new URL(url);
  const start = server.protocol === 'https:' ? (await import('node:https')).request : plainRequest;
  const options: RequestOptions = {
    method,
    path: path === undefined ? server.pathname + server.search : server.pathname.replace(/\/+$/, '') + path,
    headers: {
      ...(headers as Readonly<Record<string, string | string[]>> | undefined),
      // Node adds no length to the body of a DELETE, and the server would read the body as the next request.
      ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
    },
    agent: await agentFor(server),
    ...(signal === undefined ? {} : { signal }),
  };
  return (reply) => start(server, options, reply);
}

async function certificates({ extraCa, ...trust }: Trust): Promise<AgentOptions> {
  if (extraCa === undefined) return trust;
  const { getCACertificates } = await import('node:tls');
  return { ...trust, ca: [...getCACertificates('default'), extraCa] };
}

function isReady(socket: Socket): boolean {
  return !socket.connecting && (!('encrypted' in socket) || (socket as TLSSocket).getProtocol() !== null);
}

// ------------------------------------------------------------------------------------------ retries

/** How often and how long a request is sent again. */
export interface RetryPolicy {
  /** Requests in all, the first included. */
  readonly tries: number;
  /** The same if the connection broke. */
  readonly triesBroken: number;
  /** Before the second request; doubled for each further one. */
  readonly first: Duration;
  /** The longest single pause, even if the server asks for more. */
  readonly most: Duration;
}

/** Overloaded: nothing was done. */
const refusedForNow = [429];
/** Broken or restarting: a change may have been made, so only a GET is repeated. */
const failing = [500, 502, 503, 504];
/** The connection broke, or the name server was busy. An unknown name or certificate stays unknown. */
const broken = ['ECONNRESET', 'EPIPE', 'EAI_AGAIN'];

function isOver(policy: RetryPolicy, method: string, reply: OpenReply | Reply | NoReply, attempt: number): boolean {
  const isRead = method === 'GET';
  if (reply instanceof NoReply) {
    return attempt >= policy.triesBroken || !isRead || !broken.includes(reply.reason ?? '');
  }
  const mayDiffer = refusedForNow.includes(reply.status) || (isRead && failing.includes(reply.status));
  return attempt >= policy.tries || !mayDiffer;
}

async function pauseBefore(
  { first, most }: RetryPolicy,
  reply: OpenReply | Reply | NoReply,
  attempt: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  // A kept connection that the server closed in the meantime says nothing about the server.
  if (reply instanceof NoReply && attempt === 1) return;
  const asked = reply instanceof NoReply ? 0 : askedPause(reply);
  const length = Math.min(Math.max(first * 2 ** (attempt - 1), asked), most);
  await sleep(length, undefined, signal === undefined ? {} : { signal }).catch(() => signal?.throwIfAborted());
}

function askedPause({ headers }: OpenReply | Reply): Duration {
  const said = headers['retry-after'];
  if (said === undefined) return 0;
  const asked = /^\d+$/.test(said) ? Number(said) * second : Date.parse(said) - Date.parse(headers.date ?? '');
  return Number.isFinite(asked) ? asked : 0;
}

// ------------------------------------------------------------------------------------------ proxies

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]);

/** The variables that say it. A proxy of the environment is not asked for a server on this machine, which it could not reach. */
function proxyFor(server: URL, env: Environment, own: string | undefined): Environment {
  if (own !== undefined) return { HTTP_PROXY: own, HTTPS_PROXY: own };
  if (isLoopback(server.href)) return {};
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

/** True for the address of a server on this machine. */
export function isLoopback(url: string): boolean {
  const hostname = URL.parse(url)?.hostname ?? '';
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}

// ------------------------------------------------------------------------------------------ bodies

const mebibyte = 1024 * 1024;

class BodyTooLong extends Error {
  constructor(most: number) {
    super(`its answer is longer than ${Math.max(1, Math.round(most / mebibyte))} MiB`);
    this.name = 'BodyTooLong';
  }
}

/**
 * The body of an answer, of at most `most` bytes. Rejects with BodyTooLong, and ends the connection, when it is longer; with an Error when
 * it breaks off. The request that it belongs to has the deadline. Compressed bodies are not unpacked, so none can grow.
 */
export function wholeBody(incoming: IncomingMessage, most: number): Promise<Buffer> {
  // By its events: a page of a list comes in a hundred pieces, and an iterator would wait a turn for each.
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const fail = (error: Error): void => {
      parts.length = 0;
      reject(error);
    };
    incoming.on('data', (part: Buffer) => {
      size += part.length;
      if (size <= most) parts.push(part);
      else incoming.destroy(new BodyTooLong(most));
    });
    incoming.on('error', fail);
    incoming.on('end', () => resolve(Buffer.concat(parts)));
    // An answer that breaks off does not always report an error.
    incoming.on('close', () => fail(new Error('the reply was broken off')));
  });
}

/** For the HTTP client of Google's libraries, by its names. `redirect`: Google's APIs have none, and a login must not follow one. */
export const googleLimits = { size: 16 * mebibyte, redirect: 'manual', timeout: 20_000 } as const;
