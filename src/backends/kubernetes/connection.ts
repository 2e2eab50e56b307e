// Connection: one request to an API server over Node's own client, with the login that belongs to it. Connections are kept
// for the next request. `open` hands the body on as it comes, because a log may have no end. `send` reads a whole reply, which
// has a size limit and a deadline: a server that never stops answering must cost neither memory nor time without bounds.

import type { Agent as HttpAgent, IncomingMessage } from 'node:http';
import type { AgentOptions, RequestOptions } from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { setImmediate as turn } from 'node:timers/promises';
import { second, type Duration } from '../../core/time.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { wholeBody } from '../../app/whole-body.ts';
import type { KubeContext } from './kubeconfig.ts';
import type { Login, Proof } from './login.ts';
import { readRegularFile } from '../../app/regular-file.ts';

/** No reply came, or it was broken off. `wasSent` is false when not a byte of the request can have arrived. */
export class LineError extends Error {
  readonly wasSent: boolean;
  /** Node's name for what happened: `ECONNREFUSED`, `CERT_HAS_EXPIRED`; null where it has none. */
  readonly reason: string | null;

  constructor(message: string, wasSent: boolean, reason: string | null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'LineError';
    this.wasSent = wasSent;
    this.reason = reason;
  }
}

/** One request. */
export interface LineRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal | undefined;
}

/** The way to one API server. */
export interface Connection {
  /** Resolves when the reply begins. Rejects with LineError, with the signal's reason, or with a JobmanError of the login. */
  open(request: LineRequest): Promise<IncomingMessage>;
  /** The whole reply. Rejects as `open`, also when it stops coming. */
  send(
    request: LineRequest,
  ): Promise<{ readonly status: number; readonly headers: IncomingMessage['headers']; readonly bytes: Buffer }>;
  /**
   * What another client needs to go the same way: the login's headers, and an agent with its certificates and proxy. It takes no
   * kept connection, which the server may have closed meanwhile, since not all that goes over it may be repeated.
   */
  way(): Promise<{ readonly headers: Readonly<Record<string, string | string[]>>; readonly agent: HttpAgent }>;
  /**
   * Begins to connect where that takes no more than what the context says, and resolves soon: server and network do their part
   * while the caller makes up what it will ask. What goes wrong is told by the first request.
   */
  begin(): Promise<void>;
  close(): void;
}

/** How long each part of an exchange with a server may take, and how much one reply may hold. */
export interface ReplyLimits {
  /** Until the connection is ready, with its TLS handshake. */
  readonly connect: Duration;
  /** From then on until the reply begins. */
  readonly within: Duration;
  /** From the request to the last byte of a reply that is read whole. */
  readonly whole: Duration;
  /** Bytes of a reply that is read whole. A page of 500 Jobs has 1.5 MB, and one object at most a few. */
  readonly bytes: number;
}

const usualLimits: ReplyLimits = {
  connect: 10 * second,
  within: 30 * second,
  whole: 60 * second,
  bytes: 64 * 1024 * 1024,
};

/** The connection to that context's server, as that login. `env` may name a proxy, as everywhere; `isAlone`: see ClusterOptions. */
export function createConnection(
  context: KubeContext,
  login: Login,
  env: Readonly<Record<string, string | undefined>>,
  { limits: given = {}, isAlone = false }: { readonly limits?: Partial<ReplyLimits>; readonly isAlone?: boolean } = {},
): Connection {
  const { cluster } = context;
  const limits = { ...usualLimits, ...given };
  const server = new URL(cluster.server);
  const base = server.pathname.replace(/\/+$/, '');
  let agent: HttpAgent | undefined;
  let agentOf: Proof | undefined;
  /** Connected before the first request, which takes it. */
  let early: TLSSocket | undefined;
  const host = server.hostname.replace(/^\[|\]$/g, '');
  const port = server.port === '' ? (server.protocol === 'http:' ? 80 : 443) : Number(server.port);
  const proxies = proxyOf(cluster['proxy-url'], env);
  const isDirect = isAlone && server.protocol === 'https:' && Object.keys(proxies).length === 0;

  /** Certificates belong to the connection, so another one needs another agent. */
  async function agentFor(proof: Proof): Promise<HttpAgent> {
    if (agent !== undefined && hasSameCertificate(proof, agentOf)) return agent;
    dropEarly();
    agent?.destroy();
    agent = await newAgent(proof, true);
    agentOf = proof;
    return agent;
  }

  async function newAgent(proof: Proof, keepAlive: boolean): Promise<HttpAgent> {
    const common = { keepAlive, proxyEnv: proxies };
    if (server.protocol === 'http:') {
      const { Agent } = await import('node:http');
      return new Agent(common);
    }
    const { Agent } = await import('node:https');
    const made = new Agent({ ...common, ...(await security(proof)) });
    if (isDirect && keepAlive) {
      const connect = made.createConnection.bind(made);
      made.createConnection = (...options) => takenEarly() ?? connect(...options);
    }
    return made;
  }

  /** The certificates of both sides. */
  async function security(proof: Proof): Promise<AgentOptions> {
    const trusted = trust(context);
    // A login through a provider, and a proxy, are reached by those of this machine.
    if (isDirect && trusted.ca !== undefined && context.user['auth-provider'] === undefined) await forgetAuthorities();
    return { ...trusted, ...certificate(proof) };
  }

  function takenEarly(): TLSSocket | undefined {
    const socket = early;
    early = undefined;
    socket?.off('error', dropEarly);
    return socket?.destroyed === false ? socket : undefined;
  }

  function dropEarly(): void {
    early?.destroy();
    early = undefined;
  }

  /** The error for a kubeconfig that cannot be used, for example because a certificate is not PEM. Nothing was sent. */
  function brokenLogin(error: unknown): JobmanError {
    // The text is Node's own, which names the header or the option and not its value.
    const why = error instanceof Error ? error.message : String(error);
    return new JobmanError(
      `The context ${context.name} of ${context.from} cannot be used: ${why}.`,
      exitCode.unreachable,
      [],
      { cause: error },
    );
  }

  async function open(request: LineRequest): Promise<IncomingMessage> {
    const { signal } = request;
    signal?.throwIfAborted();
    const proof = await unlessAborted(login.prove(), signal);
    const { request: start } = await (server.protocol === 'http:' ? import('node:http') : import('node:https'));
    const options: RequestOptions = {
      method: request.method,
      protocol: server.protocol,
      host,
      port,
      path: base + request.path,
      headers: {
        ...allHeaders(request, proof),
        // Node says no length of the body of a DELETE by itself, and the body would be read as the next request.
        ...(request.body === undefined ? {} : { 'content-length': Buffer.byteLength(request.body) }),
      },
      agent: await agentFor(proof).catch((error: unknown) => {
        throw error instanceof JobmanError ? error : brokenLogin(error);
      }),
      ...(signal === undefined ? {} : { signal }),
    };
    return new Promise<IncomingMessage>((resolve, reject) => {
      let isConnected = false;
      let late: Error | undefined;
      let timer: NodeJS.Timeout | undefined;
      const allow = (length: Duration, what: string): void => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          late = new Error(`${what} within ${length / second} s`);
          outgoing.destroy(late);
        }, length);
      };
      const connected = (): void => {
        isConnected = true;
        allow(limits.within, 'no answer');
      };
      let outgoing: ReturnType<typeof start>;
      try {
        outgoing = start(options, (incoming) => {
          clearTimeout(timer);
          resolve(incoming);
        });
      } catch (error) {
        reject(brokenLogin(error));
        return;
      }
      allow(limits.connect, 'no connection');
      outgoing.on('socket', (socket) => {
        // A reader that follows a quiet log would otherwise never learn that the other end has gone.
        socket.setKeepAlive(true, keepAliveEvery);
        if (outgoing.reusedSocket || isReady(socket)) connected();
        else socket.once(server.protocol === 'http:' ? 'connect' : 'secureConnect', connected);
      });
      outgoing.on('error', (error: NodeJS.ErrnoException) => {
        clearTimeout(timer);
        if (signal?.aborted === true) reject(abortReason(signal));
        else reject(isOfLogin(error) ? brokenLogin(error) : lineError(late ?? error, isConnected));
      });
      outgoing.end(request.body);
    });
  }

  return {
    open,
    async send(request) {
      const late = new AbortController();
      const timer = setTimeout(() => {
        late.abort(lineError(new Error(`no whole answer within ${limits.whole / second} s`), true));
      }, limits.whole);
      const signal = request.signal === undefined ? late.signal : AbortSignal.any([request.signal, late.signal]);
      try {
        const incoming = await open({ ...request, signal });
        const bytes = await wholeReply(incoming, limits.bytes).catch((error: unknown) => {
          if (signal.aborted) throw abortReason(signal);
          throw error;
        });
        return { status: incoming.statusCode ?? 0, headers: incoming.headers, bytes };
      } finally {
        clearTimeout(timer);
      }
    },
    async way() {
      const proof = await login.prove();
      return { headers: headersOf(proof), agent: await newAgent(proof, false) };
    },
    async begin() {
      // A program or a provider that logs in is not run before it is needed.
      if (!isDirect || context.user.exec !== undefined || context.user['auth-provider'] !== undefined) return;
      try {
        const proof = await login.prove();
        const { connect } = await import('node:tls');
        // The name is said to the server, unless it is an address (https://www.rfc-editor.org/rfc/rfc6066#section-3).
        const called = isIP(host) === 0 ? { servername: host } : {};
        agentOf = proof;
        agent = await newAgent(proof, true);
        early = connect({ host, port, ALPNProtocols: ['http/1.1'], ...called, ...(await security(proof)) });
        early.on('error', dropEarly);
      } catch {
        // The first request meets the same error and reports it.
      }
      // So that the handshake is on its way.
      await turn();
    },
    close() {
      dropEarly();
      agent?.destroy();
    },
  };
}

/** True if a request can be written to that socket now. */
function isReady(socket: Socket): boolean {
  return !socket.connecting && (!('encrypted' in socket) || (socket as TLSSocket).getProtocol() !== null);
}

/** Node's codes for certificates and keys that it cannot read. */
function isOfLogin({ code = '' }: NodeJS.ErrnoException): boolean {
  return code.startsWith('ERR_OSSL_') || code.startsWith('ERR_INVALID_') || code === 'ERR_TLS_INVALID_CONTEXT';
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  const aborted = Promise.withResolvers<never>();
  const leave = (): void => aborted.reject(abortReason(signal));
  signal.addEventListener('abort', leave);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** A whole reply of at most so many bytes; rejects with LineError for one that is longer or breaks off. */
export function wholeReply(incoming: IncomingMessage, most: number = usualLimits.bytes): Promise<Buffer> {
  return wholeBody(incoming, most).catch((error: unknown) => {
    throw lineError(error as NodeJS.ErrnoException, true);
  });
}

/**
 * With its first authority of its own a context reads those of Node too, though it does not trust them: a tenth of the time that a
 * short command has. From now on this process knows no others than it is given.
 */
async function forgetAuthorities(): Promise<void> {
  const tls = await import('node:tls');
  // Node 24.4 and older have no such thing, and read them all.
  if ('setDefaultCACertificates' in tls) tls.setDefaultCACertificates([]);
}

/** A line on which nothing is said is asked after so long whether it still stands. */
const keepAliveEvery: Duration = 30 * second;

/** The cluster's own authority, or those of this machine. Throws JobmanError when its file cannot be read. */
function trust({ name, cluster }: KubeContext): AgentOptions {
  const { 'certificate-authority': file, 'certificate-authority-data': data, 'tls-server-name': servername } = cluster;
  let ca: Buffer | undefined;
  try {
    ca =
      data !== undefined && data !== ''
        ? Buffer.from(data, 'base64')
        : file === undefined
          ? undefined
          : readRegularFile(file);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new JobmanError(`The authority of the context ${name} cannot be read: ${why}.`, exitCode.unreachable);
  }
  // Node ignores an authority that it cannot read, and would then report the server's certificate instead.
  if (ca?.includes('-----BEGIN ') === false) {
    throw new JobmanError(`The authority of the context ${name} is not a certificate in PEM.`, exitCode.unreachable);
  }
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(servername === undefined ? {} : { servername }),
    ...(cluster['insecure-skip-tls-verify'] === true ? { rejectUnauthorized: false } : {}),
  };
}

function certificate({ cert, key }: Proof): AgentOptions {
  return { ...(cert === undefined ? {} : { cert }), ...(key === undefined ? {} : { key }) };
}

function allHeaders(request: LineRequest, proof: Proof): Record<string, string | string[]> {
  return { accept: 'application/json', ...headersOf(proof), ...request.headers };
}

function headersOf({ headers }: Proof): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, typeof value === 'string' ? value : [...value]]),
  );
}

/** The kubeconfig's own proxy stands over those of the environment. */
function proxyOf(
  url: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string | undefined> {
  // Node ignores a proxy that is no address.
  if (url !== undefined && URL.parse(url) === null) {
    throw new JobmanError(`The proxy-url of the kubeconfig is not an address: ${url}.`, exitCode.unreachable);
  }
  if (url !== undefined) return { HTTP_PROXY: url, HTTPS_PROXY: url };
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]);
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

function hasSameCertificate(one: Proof, other: Proof | undefined): boolean {
  return sameBytes(one.cert, other?.cert) && sameBytes(one.key, other?.key);
}

function sameBytes(one: string | Buffer | undefined, other: string | Buffer | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return Buffer.from(one).equals(Buffer.from(other));
}

/** Of several addresses that were tried in vain, what each said. */
function lineError(error: NodeJS.ErrnoException, wasSent: boolean): LineError {
  const all = error instanceof AggregateError ? (error.errors as readonly NodeJS.ErrnoException[]) : [error];
  const message = all.map((one) => one.message).join(', ') || error.message;
  return new LineError(message, wasSent, error.code ?? all[0]?.code ?? null, { cause: error });
}

function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error('left');
}
