// Connection: one request to an API server over Node's own client, with the login that belongs to it. Connections are kept
// for the next request. The reply's body is handed on as it comes: a log may have no end. A process that asks this server only
// goes without Node's client as long as it can (short-line.ts).

import { readFileSync } from 'node:fs';
import type { Agent as HttpAgent, IncomingMessage } from 'node:http';
import type { AgentOptions, RequestOptions } from 'node:https';
import { isIP } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { second, type Duration } from '../../core/time.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { KubeContext } from './kubeconfig.ts';
import type { Login, Proof } from './login.ts';
import { createShortLine, isPlain, type ShortLine } from './short-line.ts';

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

/** A server that says nothing for so long counts as one that did not answer. */
const answerWithin: Duration = 30 * second;

/** The connection to that context's server, as that login. `env` may name a proxy, as everywhere; `isAlone`: see ClusterOptions. */
export function createConnection(
  context: KubeContext,
  login: Login,
  env: Readonly<Record<string, string | undefined>>,
  { within = answerWithin, isAlone = false }: { readonly within?: Duration; readonly isAlone?: boolean } = {},
): Connection {
  const { cluster } = context;
  const server = new URL(cluster.server);
  const base = server.pathname.replace(/\/+$/, '');
  let agent: HttpAgent | undefined;
  let agentOf: Proof | undefined;
  let line: ShortLine | undefined;
  let lineOf: Proof | undefined;
  const host = server.hostname.replace(/^\[|\]$/g, '');
  const port = server.port === '' ? (server.protocol === 'http:' ? 80 : 443) : Number(server.port);
  const proxies = proxyOf(cluster['proxy-url'], env);
  const isShort = isAlone && server.protocol === 'https:' && Object.keys(proxies).length === 0;

  /** Certificates belong to the connection, so another one needs another agent. */
  async function agentFor(proof: Proof): Promise<HttpAgent> {
    if (agent !== undefined && hasSameCertificate(proof, agentOf)) return agent;
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
    return new Agent({ ...common, ...(await security(proof)) });
  }

  /** The certificates of both sides. */
  async function security(proof: Proof): Promise<AgentOptions> {
    const trusted = trust(context);
    // A login through a provider, and a proxy, are reached by those of this machine.
    if (isShort && trusted.ca !== undefined && context.user['auth-provider'] === undefined) await forgetAuthorities();
    return { ...trusted, ...certificate(proof) };
  }

  async function lineFor(proof: Proof): Promise<ShortLine> {
    if (line !== undefined && hasSameCertificate(proof, lineOf)) return line;
    line?.close();
    const { connect } = await import('node:tls');
    // The name is said to the server, unless it is an address (https://www.rfc-editor.org/rfc/rfc6066#section-3).
    const called = isIP(host) === 0 ? { servername: host } : {};
    const options = { host, port, ALPNProtocols: ['http/1.1'], ...called, ...(await security(proof)) };
    line = createShortLine(() => connect(options), server.host);
    lineOf = proof;
    return line;
  }

  async function open(request: LineRequest): Promise<IncomingMessage> {
    request.signal?.throwIfAborted();
    const proof = await login.prove();
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
      agent: await agentFor(proof),
      ...(request.signal === undefined ? {} : { signal: request.signal }),
    };
    return new Promise<IncomingMessage>((resolve, reject) => {
      let isConnected = false;
      let late: Error | undefined;
      const outgoing = start(options, (incoming) => {
        clearTimeout(timer);
        resolve(incoming);
      });
      const timer = setTimeout(() => {
        late = new Error(`no answer within ${within / second} s`);
        outgoing.destroy(late);
      }, within);
      outgoing.on('socket', (socket) => {
        // A reader that follows a quiet log would otherwise never learn that the other end has gone.
        socket.setKeepAlive(true, keepAliveEvery);
        if (outgoing.reusedSocket) isConnected = true;
        else socket.once(server.protocol === 'http:' ? 'connect' : 'secureConnect', () => (isConnected = true));
      });
      outgoing.on('error', (error: NodeJS.ErrnoException) => {
        clearTimeout(timer);
        reject(request.signal?.aborted === true ? abortReason(request.signal) : lineError(late ?? error, isConnected));
      });
      outgoing.end(request.body);
    });
  }

  return {
    open,
    async send(request) {
      if (isShort) {
        request.signal?.throwIfAborted();
        const proof = await login.prove();
        const [path, headers] = [base + request.path, allHeaders(request, proof)];
        if (isPlain(path, headers)) {
          const { method, body, signal } = request;
          const reply = await (await lineFor(proof)).send({ method, path, headers, body, signal }, within);
          if (!('error' in reply)) return reply;
          if (signal?.aborted === true) throw abortReason(signal);
          throw lineError(reply.error, reply.wasSent);
        }
      }
      const incoming = await open(request);
      incoming.setTimeout(within, () => incoming.destroy(new Error(`nothing more for ${within / second} s`)));
      const bytes = await wholeOf(incoming).catch((error: unknown) => {
        if (request.signal?.aborted === true) throw abortReason(request.signal);
        throw lineError(error as NodeJS.ErrnoException, true);
      });
      return { status: incoming.statusCode ?? 0, headers: incoming.headers, bytes };
    },
    async way() {
      const proof = await login.prove();
      return { headers: headersOf(proof), agent: await newAgent(proof, false) };
    },
    async begin() {
      // A program or a provider that logs in is not run before it is needed.
      if (!isShort || context.user.exec !== undefined || context.user['auth-provider'] !== undefined) return;
      try {
        (await lineFor(await login.prove())).begin();
      } catch {
        // As with whatever comes of the connection itself.
      }
      // So that the handshake is on its way.
      await turn();
    },
    close() {
      line?.close();
      agent?.destroy();
    },
  };
}

/** By its events: a page of a list comes in a hundred pieces, for each of which an iterator would take turns. */
function wholeOf(incoming: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    incoming.on('data', (part: Buffer) => void parts.push(part));
    incoming.on('error', reject);
    incoming.on('end', () => resolve(Buffer.concat(parts)));
    // What is broken off does not always fail.
    incoming.on('close', () => reject(new Error('the reply was broken off')));
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
          : readFileSync(file);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new JobmanError(`The authority of the context ${name} cannot be read: ${why}.`, exitCode.unreachable);
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
