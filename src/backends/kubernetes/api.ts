// Requests to one cluster: renewed logins, paged lists, refusals as messages. It retries here, because the controller
// does not supervise jobs in a cluster: a user waits for the answer of one command.

import type { IncomingMessage } from 'node:http';
import { type Duration, minute, second } from '../../core/model/time.ts';
import { unlessAborted } from '../../app/concurrency.ts';
import type { ClusterContext } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { readRegularFile } from '../../files/files.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { NoReply, type StreamReply, type Reply } from '../../http/reply.ts';
import {
  createHttpClient,
  type HttpClient,
  type HttpClientOptions,
  type HttpRequest,
  type RetryPolicy,
  type TlsTrust,
} from '../../http/client.ts';
import type { KubeContext } from './kubeconfig.ts';
import type { Login, LoginCredentials } from './login.ts';
import { ClusterRefusal, readStatus, refusalOf, unreachableError } from './status.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** The default retries. A request on a kept connection that the server has closed is sent once more. */
export const defaultRetry: RetryPolicy = {
  maxTries: 5,
  maxTriesIfBroken: 2,
  initialDelay: 0.25 * second,
  maxDelay: 5 * second,
};

const slowAfter: Duration = 2 * second;

export interface ApiRequest {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  readonly type?: string;
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
  /** `list jobs`: the messages continue "Could not" with it. */
  readonly purpose: string;
}

/** Requests to one cluster. Failures are JobmanError; a refusal of the cluster is a ClusterRefusal. */
export type Api = ReturnType<typeof createApi>;

export function createApi(
  context: KubeContext,
  login: Login,
  clusterContext: ClusterContext,
  options: Pick<HttpClientOptions, 'env' | 'limits'> & {
    readonly retry: RetryPolicy;
    readonly listTimeout?: Duration | undefined;
    /** Called with the request's `purpose` once a request takes longer than two seconds. */
    readonly onWait?: ((purpose: string) => void) | undefined;
  },
) {
  const { retry, listTimeout, onWait } = options;
  const { server: url } = context.cluster;
  const { sendWithLogin, close } = createSender(context, login, clusterContext, options);

  async function reportSlow<T>({ purpose }: Pick<ApiRequest, 'purpose'>, work: () => Promise<T>): Promise<T> {
    const timer = onWait === undefined ? undefined : setTimeout(() => onWait(purpose), slowAfter);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
    }
  }

  async function fetchBody(request: ApiRequest): Promise<Buffer> {
    const send = () =>
      sendWithLogin<Reply>(request, (http, headers) => http.request(httpRequest(url, request, headers)));
    return (await reportSlow(request, send)).bytes;
  }

  /** Runs `read`. Throws JobmanError if `read` throws, because the answer is then not one of an API server. */
  function parseAnswer<T>({ purpose }: Pick<ApiRequest, 'purpose'>, read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (error instanceof JobmanError) throw error;
      throw unreachableError(new NoReply('the answer is not from a Kubernetes API server', true, null), {
        clusterContext,
        purpose,
      });
    }
  }

  async function fetchObject<T extends object>(request: ApiRequest): Promise<T> {
    const bytes = await fetchBody(request);
    return parseAnswer(request, () => expectObject(JSON.parse(bytes.toString('utf8'))) as T);
  }

  return {
    /** The delays with which callers resume a lost connection. */
    retry,
    fetchObject,
    sendWithLogin,
    reportSlow,
    parseAnswer,
    /** Null for a 404. */
    async findObject<T extends object>(request: ApiRequest): Promise<T | null> {
      try {
        return await fetchObject<T>(request);
      } catch (error) {
        if (error instanceof ClusterRefusal && error.status.code === 404) return null;
        throw error;
      }
    },
    /** A list page by page; an empty list is one empty page. `read` parses each item; a parse failure ends the list. */
    listPages: <R extends object, T>(request: ApiRequest, read: (raw: R) => T) =>
      readPages({ fetchBody, parseAnswer, clusterContext, timeout: listTimeout }, request, read),
    async stream(request: ApiRequest): Promise<IncomingMessage> {
      // A node sends the headers of its reply before the first line of the log exists.
      const send = () =>
        sendWithLogin<StreamReply>(request, (http, headers) => http.open(httpRequest(url, request, headers)));
      return (await reportSlow(request, send)).stream;
    },
    close,
  };
}

function createSender(
  context: KubeContext,
  login: Login,
  clusterContext: ClusterContext,
  { env, limits, retry }: Pick<HttpClientOptions, 'env' | 'limits' | 'retry'>,
) {
  const { 'proxy-url': proxy } = context.cluster;
  // Node ignores an invalid proxy address.
  if (proxy !== undefined && URL.parse(proxy) === null) {
    throw new JobmanError(`The proxy-url of the kubeconfig is not a URL: ${proxy}.`, exitCode.unreachable);
  }
  let client: HttpClient | undefined;
  let clientCredentials: LoginCredentials | undefined;

  /** Certificates belong to the connection, so another certificate needs another client. */
  function clientFor(credentials: LoginCredentials): HttpClient {
    if (client !== undefined && hasSameCertificate(credentials, clientCredentials)) return client;
    const { cert, key } = credentials;
    client?.close();
    client = createHttpClient({
      env,
      proxy,
      limits,
      retry,
      trust: { ...trustOf(context), ...omitUndefined({ cert, key }) },
    });
    clientCredentials = credentials;
    return client;
  }

  /**
   * Calls `send` with the login's headers and a client with its certificates, and once more with a new login after a
   * 401. Throws JobmanError for a refusal and a missing reply.
   */
  async function sendWithLogin<T extends { readonly status: number }>(
    { purpose, signal }: Pick<ApiRequest, 'purpose' | 'signal'>,
    send: (http: HttpClient, headers: LoginCredentials['headers']) => Promise<T | Reply | NoReply>,
  ): Promise<T> {
    for (let hasRenewed = false; ; hasRenewed = true) {
      const credentials = await unlessAborted(login.credentials(), signal);
      const reply = await send(clientFor(credentials), credentials.headers);
      if (reply instanceof NoReply) {
        // Node's codes for unusable certificates, keys and headers. Its message contains the name of the header or
        // option and not its value.
        if (!/^ERR_(?:OSSL_|INVALID_|TLS_INVALID_CONTEXT$)/.test(reply.reason ?? ''))
          throw unreachableError(reply, { clusterContext, purpose });
        const message = `The context ${context.name} of ${context.source} cannot be used: ${reply.message}.`;
        throw new JobmanError(message, exitCode.unreachable, [], { cause: reply });
      }
      if (reply.status < 300) return reply as T;
      const status = readStatus(reply.status, (reply as Reply).bytes);
      const isExpired = status.code === 401;
      if (isExpired && !hasRenewed && login.invalidate()) continue;
      throw refusalOf(status, { clusterContext, purpose, loginExpiredOn: isExpired ? login.expiredOn() : null });
    }
  }

  return { sendWithLogin, close: () => client?.close() };
}

function httpRequest(url: string, request: ApiRequest, loginHeaders: LoginCredentials['headers']): HttpRequest {
  const { method = 'GET', path, query = {}, body, type = 'application/json', accept = 'application/json' } = request;
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === false ? [] : [`${name}=${encodeURIComponent(String(value).toWellFormed())}`],
  );
  return {
    url,
    method,
    path: pairs.length === 0 ? path : `${path}?${pairs.join('&')}`,
    signal: request.signal,
    headers: { accept, ...loginHeaders, ...(body === undefined ? {} : { 'content-type': type }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
}

function trustOf({ name, cluster }: KubeContext): TlsTrust {
  const { 'certificate-authority': file, 'certificate-authority-data': data, 'tls-server-name': servername } = cluster;
  let ca: Buffer | undefined;
  try {
    if (data !== undefined && data !== '') ca = Buffer.from(data, 'base64');
    else if (file !== undefined) ca = readRegularFile(file);
  } catch (error) {
    throw new JobmanError(
      `The certificate authority of the context ${name} cannot be read: ${messageOf(error)}.`,
      exitCode.unreachable,
    );
  }
  // Node ignores an unreadable authority and would then report the server's certificate as the problem.
  if (ca?.includes('-----BEGIN ') === false) {
    throw new JobmanError(
      `The certificate authority of the context ${name} is not a PEM certificate.`,
      exitCode.unreachable,
    );
  }
  return omitUndefined({
    ca,
    servername,
    rejectUnauthorized: cluster['insecure-skip-tls-verify'] === true ? false : undefined,
  });
}

function hasSameCertificate(one: LoginCredentials, other: LoginCredentials | undefined): boolean {
  return String(one.cert) === String(other?.cert) && String(one.key) === String(other?.key);
}

/** Objects per page: the largest page has 1.5 MB of Jobs. */
const pageSize = 500;

/** A server whose list never ends must not keep a command or the controller busy forever. */
const defaultListTimeout: Duration = 5 * minute;

interface ApiPage<T> {
  readonly items: readonly T[];
  /** The version of its first page, unless the list expired in the middle. */
  readonly resourceVersion: string;
}

interface PageSource {
  readonly parseAnswer: <T>(request: ApiRequest, read: () => T) => T;
  readonly fetchBody: (request: ApiRequest) => Promise<Buffer>;
  readonly clusterContext: ClusterContext;
  readonly timeout: Duration | undefined;
}

async function* readPages<R extends object, T>(
  { fetchBody, parseAnswer, clusterContext, timeout = defaultListTimeout }: PageSource,
  request: ApiRequest,
  read: (raw: R) => T,
): AsyncIterable<ApiPage<T>> {
  const endlessError = (after: string): JobmanError =>
    new JobmanError(
      `Could not ${request.purpose}: the list of ${clusterContext.context} (${clusterContext.server}) is still incomplete after ${after}.`,
      exitCode.unreachable,
    );
  // A reader that stops early cancels the request of the next page.
  const cancelled = new AbortController();
  const timer = setTimeout(() => cancelled.abort(endlessError(`${timeout / second} s`)), timeout);
  timer.unref();
  const signal = request.signal === undefined ? cancelled.signal : AbortSignal.any([request.signal, cancelled.signal]);
  const fetchPage = (token: string | undefined): Promise<Buffer> => {
    const page = fetchBody({ ...request, signal, query: { ...request.query, limit: pageSize, continue: token } });
    // The page is awaited later. Without this handler an early failure would be an unhandled rejection.
    page.catch(() => undefined);
    return page;
  };
  let token: string | undefined;
  let pendingPage = fetchPage(token);
  let hasRenewed = false;
  try {
    for (;;) {
      let body: Buffer;
      try {
        body = await pendingPage;
      } catch (error) {
        const next = renewedToken(error);
        // Once only: a server that always answers 410 would be asked without end.
        if (hasRenewed || next === undefined || next === token) throw error;
        hasRenewed = true;
        token = next;
        pendingPage = fetchPage(token);
        continue;
      }
      const { metadata, items } = parseAnswer(request, () => parsePage<R>(body));
      const previousToken = token;
      token = metadata.continue;
      const isLast = token === undefined || token === '';
      if (!isLast && token === previousToken) throw endlessError('the same page twice');
      if (!isLast) {
        pendingPage = fetchPage(token);
        await nextTurn();
      }
      yield { items: parseAnswer(request, () => items.map(read)), resourceVersion: metadata.resourceVersion ?? '' };
      if (isLast) return;
    }
  } finally {
    clearTimeout(timer);
    cancelled.abort();
  }
}

function renewedToken(error: unknown): string | undefined {
  const isTooOld = error instanceof ClusterRefusal && error.status.code === 410;
  const token = isTooOld ? error.status.metadata?.continue : undefined;
  return token === '' ? undefined : token;
}

function expectObject(value: unknown): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('not an object');
  return value;
}

function parsePage<T>(bytes: Buffer): {
  readonly metadata: { readonly continue?: string; readonly resourceVersion?: string };
  readonly items: readonly T[];
} {
  const page = expectObject(JSON.parse(bytes.toString('utf8'))) as Partial<ReturnType<typeof parsePage<T>>>;
  const { metadata = {}, items } = page;
  if (items !== undefined && items !== null && !Array.isArray(items)) throw new TypeError('its items are not a list');
  if (metadata.continue !== undefined && typeof metadata.continue !== 'string') throw new TypeError('no token');
  return { metadata, items: (items ?? []).map((item) => expectObject(item) as T) };
}
