// The HTTP API: authentication, the routes, and errors as problem documents.

import type { HttpBindings } from '@hono/node-server';
import { createHash, randomUUID } from 'node:crypto';
import { Hono, type Context, type MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { problemType } from '../api/problem.ts';
import { toProblem, withoutPaths } from './problem.ts';
import { answerTypes, apiRoutes, keyedArguments, type ApiOperation, type Route } from '../api/routes.ts';
import { encodeLogPart, streamHeader, versionHeader } from '../api/wire.ts';
import type { Client, CreateRequest, JobView, LogPart } from '../app/client.ts';
import { withTimeout } from '../app/concurrency.ts';
import { exitCode, JobmanError, reworded, StoreError, usageError } from '../app/errors.ts';
import { isBrowserToken } from '../app/oidc-logins.ts';
import { maxPage, type Rows } from '../app/pages.ts';
import type { WorkerConnection } from '../app/worker-access.ts';
import type { Actor } from '../core/model/user.ts';
import type { ClusterAccess } from '../app/cluster/cluster-client.ts';
import type { LabClient } from '../lab/lab-client.ts';
import { second, type Duration } from '../core/model/time.ts';
import { readArguments } from './arguments.ts';
import { bodyLimits, BodyTooLarge, readBody } from './body.ts';
import { createLimits, defaultLimits, Overload, type ServerLimits } from './limits.ts';
import { mountWorkerStreams } from './worker-streams.ts';
import { createSenderReader, type Sender } from './sender.ts';
import { createMetrics, metricsType, type MetricsParts } from './metrics.ts';
import { byteStream, eventStream, noSuchStream, startReading, type Reading } from './events.ts';
import { addLoginRoutes, type LoginRoutes } from './login.ts';
import { addPageRoutes, bearerToken, sessionToken, type PageRoutes } from './pages.ts';

export interface AppParts {
  /** The user of a token; null for an invalid token. Called for each request. */
  authenticate(token: string): Promise<Actor | null>;
  /** The client of an actor. Must be cheap, because the server calls it for each request. */
  clientOf(actor: Actor): Client | Promise<Client>;
  /** The lab of an actor; must be cheap too. */
  labOf(actor: Actor): LabClient | Promise<LabClient>;
  /** The clusters of an actor; must be cheap too. */
  clustersOf(actor: Actor): ClusterAccess | Promise<ClusterAccess>;
  /** Addresses and networks. If there are any, the server accepts requests only from these proxies. */
  readonly trustedProxies?: readonly string[];
  readonly limits?: ServerLimits;
  /** A clock that never goes back. */
  readonly monotonicNow?: () => Duration;
  /** Connects to a worker. The caller has checked the permission. Rejects with JobmanError if the worker cannot be reached. */
  connectWorker(job: string, worker: number): Promise<WorkerConnection>;
  /** Rejects if the database does not answer. */
  ready(): Promise<void>;
  readonly login: LoginRoutes;
  readonly pages: PageRoutes;
  /** Logs one line about a bug, with its stack trace. */
  reportBug(line: string): void;
  /** One line about a database that cannot be used, at most once in 10 seconds. */
  reportOutage(line: string): void;
  /** Paths of this machine that only admins see in errors. */
  readonly folders?: readonly string[];
  /** Aborted when the server stops: streams end, and the server is no longer ready. */
  readonly stopping: AbortSignal;
  readonly metrics: MetricsParts;
  readonly heartbeatMs?: Duration;
}

interface Variables {
  actor: Actor;
  token: string;
  sender: Sender;
}

export type Env = { Bindings: HttpBindings; Variables: Variables };

const defaultHeartbeatMs: Duration = 15_000;

/** The application of a server. Its requests come from `getRequestListener` of @hono/node-server. */
export function createApp(parts: AppParts): Hono<Env> {
  const app = new Hono<Env>();
  const limits = createLimits(parts.limits ?? defaultLimits, parts.monotonicNow ?? (() => performance.now()));
  const senderOf = createSenderReader(parts.trustedProxies ?? []);
  const streams = createStreams(parts);
  const metrics = createMetrics(parts.metrics);
  const withoutDatabase = createOutages(parts);

  app.use(measureRequests(parts.metrics));
  addErrors(app, parts, withoutDatabase);
  addHealthRoutes(app, parts);

  app.use(async (context, next) => {
    const sender = senderOf(context.env.incoming);
    limits.admitAddress(sender.address);
    context.set('sender', sender);
    return next();
  });
  addLoginRoutes(app, parts.login, {
    admit: ({ address }) => limits.admitLoginStep(address),
    expected: (error) => withoutDatabase(expectedError(error, parts)),
  });

  const { actorOf, authenticate } = createAuthentication(parts, limits);
  addPageRoutes(app, parts.pages, {
    authenticate: async (token, sender) => void (await actorOf(token, sender)),
    async endSession(token) {
      const actor = await parts.authenticate(token);
      const own = actor?.token;
      if (actor === null || own === undefined || !isBrowserToken(own.name)) return;
      await (await parts.clientOf(actor)).revokeToken(own.id);
    },
  });
  app.use('/v1/*', authenticate);
  app.get('/metrics', authenticate, async (context) => {
    return context.body(await metrics.text(streams.countByPath()), 200, { 'content-type': metricsType });
  });

  for (const [operation, route] of apiRoutes)
    app.on(route.method, route.path.replaceAll(/\{(\w+)\}/g, ':$1'), (context) => perform(operation, route, context));

  app.delete('/v1/streams/:id', async (context) => {
    const stream = streams.find(context.req.param('id'));
    if (stream?.user !== context.get('actor').user) throw noSuchStream();
    await stream.leave('another request has ended it');
    return context.body(null, 204);
  });

  mountWorkerStreams(app, parts, {
    admit: (context) => limits.openStream(context.get('actor').user),
    keepOpen: (context, path, leave) => streams.add(context, { path }, async (reason) => leave(reason)).release,
  });

  async function perform(operation: ApiOperation, route: Route, context: Context<Env>): Promise<Response> {
    const held = limits.holdBody();
    context.env.outgoing.once('close', held.release);
    const values = await readArguments(operation, route, {
      segment: (name) => context.req.param(name) ?? '',
      parameters: parametersOf(route, context),
      body: () => readBody(context.env.incoming, limitOf(route), held.grow),
    });
    const key = context.req.header('idempotency-key');
    const keyed = keyedRequest(operation, values);
    if (keyed !== null && key !== undefined) addKey(keyed, key);
    const match = context.req.header('if-match');
    if (match !== undefined && route.changes) addRevision(operation, values, match);
    const [name, family] = operation.split('.').toReversed();
    const client = await clientFor(family, context.get('actor'));
    // The arguments have passed the schema of the method's parameters.
    const method = client[name as keyof typeof client] as unknown as (...given: readonly unknown[]) => unknown;
    if (route.answer === 'events' || route.answer === 'chunks')
      context.env.outgoing.once('close', limits.openStream(context.get('actor').user));
    try {
      return await answer(method.apply(client, [...values]), route, context);
    } catch (error) {
      throw mayRepeat(operation, route, values) ? error : withoutRetry(error);
    }
  }

  async function answer(result: unknown, route: Route, context: Context<Env>): Promise<Response> {
    if (route.answer === 'events')
      return answerEvents(await startReading(result as AsyncIterable<unknown>), route, context);
    if (route.answer === 'chunks') {
      const reading = await startReading(result as AsyncIterable<Uint8Array>);
      const broken = (): void => void context.env.outgoing.destroy();
      onClosed(context.env.outgoing, streams.add(context, route, async () => broken()).release);
      const body = byteStream(reading, { broken, expected: errorsFor(context, parts) });
      return context.body(body, 200, { 'content-type': answerTypes[route.answer] });
    }
    return answerValue(await (result as Promise<unknown>), route, context);
  }

  async function clientFor(family: string | undefined, actor: Actor): Promise<object> {
    if (family === 'cluster') return (await parts.clustersOf(actor)).client;
    return family === 'lab' ? parts.labOf(actor) : parts.clientOf(actor);
  }

  function answerEvents(reading: Reading<unknown>, route: Route, context: Context<Env>): Response {
    const heartbeatMs = parts.heartbeatMs ?? defaultHeartbeatMs;
    const { body, leave } = eventStream(reading, {
      heartbeatMs,
      expected: errorsFor(context, parts),
    });
    const { id, release } = streams.add(context, route, leave);
    onClosed(context.env.outgoing, () => {
      release();
      leave().catch(() => undefined);
    });
    context.header('content-type', answerTypes[route.answer]);
    // Otherwise nginx would buffer the events.
    context.header('x-accel-buffering', 'no');
    // A GET changes nothing, so its client need not wait for the end of the stream.
    if (route.method !== 'GET') context.header(streamHeader, id);
    return context.body(body);
  }

  parts.stopping.addEventListener('abort', () => metrics.close());
  return app;
}

/** Authenticates a request by its token, or else by the session of its browser. */
function createAuthentication(parts: AppParts, limits: ReturnType<typeof createLimits>) {
  /** Throws JobmanError for an invalid token. */
  async function actorOf(token: string | undefined, { address }: Sender) {
    const find = (given: string) => parts.authenticate(given);
    const actor = token === undefined ? null : await limits.authenticate(token, address, find);
    if (actor === null || token === undefined) throw new NoToken(token !== undefined);
    return { actor, token };
  }
  const authenticate: MiddlewareHandler<Env> = async (context, next) => {
    const { actor, token } = await actorOf(bearerToken(context) ?? sessionToken(context), context.get('sender'));
    context.set('actor', actor);
    context.set('token', token);
    // Only for valid tokens, because the version shows which known vulnerabilities the server may have.
    context.header(versionHeader, parts.metrics.version);
    return next();
  };
  return { actorOf, authenticate };
}

/** The open streams. Each ends when its token becomes invalid or loses rights, and when the server stops. */
function createStreams(parts: AppParts) {
  const streams = new Map<string, Stream>();
  parts.stopping.addEventListener('abort', () => {
    // A reader of changes resumes on the next server. An operation that changes something continues.
    for (const { leave } of streams.values()) leave('the server stops').catch(() => undefined);
  });
  return {
    /** Until `release` is called. */
    add(context: Context<Env>, route: Pick<Route, 'path'>, leave: Stream['leave']) {
      const id = randomUUID();
      const begun = context.get('actor');
      streams.set(id, { user: begun.user, route, leave });
      // Streams continue while the database does not answer.
      const check = setInterval(() => {
        parts.authenticate(context.get('token')).then(
          (actor) => {
            if (actor === null) return leave('the server no longer accepts the token');
            return hasSameRights(actor, begun) ? undefined : leave('the rights of the user have changed');
          },
          () => undefined,
        );
      }, parts.heartbeatMs ?? defaultHeartbeatMs);
      const release = (): void => {
        clearInterval(check);
        streams.delete(id);
      };
      return { id, release };
    },

    find: (id: string) => streams.get(id),

    countByPath(): ReadonlyMap<string, number> {
      const found = Map.groupBy(streams.values(), ({ route }) => route.path);
      return new Map([...found].map(([path, open]) => [path, open.length]));
    },
  };
}

function hasSameRights(one: Actor, other: Actor): boolean {
  const rightsOf = ({ role, projects, clusters, mayUseServerMachine }: Actor): string =>
    JSON.stringify([role, projects, clusters, mayUseServerMachine]);
  return rightsOf(one) === rightsOf(other);
}

/** Calls back at once if the connection is already closed: the client may leave while the first value is awaited. */
function onClosed(outgoing: HttpBindings['outgoing'], call: () => void): void {
  if (outgoing.destroyed) call();
  else outgoing.once('close', call);
}

interface Stream {
  readonly user: string;
  readonly route: Pick<Route, 'path'>;
  readonly leave: (reason: string) => Promise<void>;
}

function measureRequests({ meter }: MetricsParts): MiddlewareHandler<Env> {
  return async (context, next) => {
    const began = performance.now();
    await next();
    const request = { method: context.req.method, route: routeOf(context) };
    meter.count('jobman_http_requests_total', { ...request, status: String(context.res.status) });
    meter.time('jobman_http_request_seconds', performance.now() - began, request);
  };
}

/** The route as in the table of routes: the path of a request could add any text to the metrics. */
function routeOf(context: Context): string {
  const path = routePath(context, -1);
  return path.endsWith('*') ? 'none' : path.replaceAll(/:(\w+)/g, '{$1}');
}

/** For probes, from any address and without a token. */
function addHealthRoutes(app: Hono<Env>, parts: AppParts): void {
  /** All probes share one check, because the database may answer slowly. */
  let check: Promise<void> | undefined;
  app.get('/healthz', (context) => context.text('ok\n'));
  app.get('/readyz', async (context) => {
    if (parts.stopping.aborted) throw new JobmanError('The server is stopping.', exitCode.unreachable);
    check ??= parts.ready().finally(() => (check = undefined));
    await withTimeout(readyTimeoutMs, check, notInTime);
    return context.text('ok\n');
  });
}

/** Shorter than the usual timeout of probes, so that they get the reason. */
const readyTimeoutMs: Duration = 3 * second;

function notInTime(): never {
  const message = `The database has not answered for ${readyTimeoutMs / second} s.`;
  throw new JobmanError(message, exitCode.unreachable, [], { retryAfter: 1 });
}

class NoToken extends JobmanError {
  constructor(isGiven: boolean) {
    const message = isGiven
      ? 'The server does not accept this token: it is unknown, has expired or was revoked.'
      : 'The request has no token. Send the header "Authorization: Bearer TOKEN".';
    super(message, exitCode.conflict, [], { errorCode: 'unauthenticated' });
    this.name = 'NoToken';
  }
}

function statusOf(error: unknown): number | undefined {
  return error instanceof Overload ? error.status : error instanceof BodyTooLarge ? 413 : undefined;
}

/** True if a repeated request has no further effect. */
function mayRepeat(operation: ApiOperation, route: Route, values: readonly unknown[]): boolean {
  if (!route.changes || route.method !== 'POST') return true;
  return keyedRequest(operation, values)?.idempotencyKey !== undefined;
}

type KeyedRequest = Pick<CreateRequest, 'idempotencyKey'>;

function keyedRequest(operation: ApiOperation, values: readonly unknown[]): KeyedRequest | null {
  const position = keyedArguments[operation];
  return position === undefined ? null : (values[position] as KeyedRequest);
}

/** The operation may have done part of its work, so a client must not retry it automatically. */
function withoutRetry(error: unknown): unknown {
  if (!(error instanceof StoreError)) return error;
  return new JobmanError(error.message, error.code, error.lines, { cause: error });
}

/** Returns the id of the log entry, which has the stack trace. */
export function reportIncident(error: unknown, { reportBug }: Pick<AppParts, 'reportBug'>): string {
  const incident = randomUUID();
  reportBug(`incident ${incident}: ${error instanceof Error ? error.stack : String(error)}`);
  return incident;
}

/** An unexpected error is a bug: the log has its stack trace, and the response only the id of the log entry. */
function expectedError(error: unknown, { reportBug }: Pick<AppParts, 'reportBug'>): JobmanError {
  if (error instanceof JobmanError) return error;
  const incident = reportIncident(error, { reportBug });
  return new JobmanError('The server failed because of a bug in jobman.', exitCode.failed, [
    `Its log has the details of incident ${incident}.`,
  ]);
}

const outageLogInterval: Duration = 10 * second;

/** Replaces an error of the database for a sender without a valid token, because it names its role, host or folder. */
function createOutages(parts: AppParts) {
  const clock = parts.monotonicNow ?? (() => performance.now());
  let nextReport = 0;
  return (error: JobmanError): JobmanError => {
    if (!(error instanceof StoreError)) return error;
    if (clock() >= nextReport) {
      nextReport = clock() + outageLogInterval;
      parts.reportOutage(error.message);
    }
    const { code, retryAfter } = error;
    const message = 'The database of the server cannot be used. The log of the server has the reason.';
    return new JobmanError(message, code, [], { retryAfter });
  };
}

/** The errors of a stream. */
function errorsFor(context: Context<Env>, parts: AppParts): (error: unknown) => JobmanError {
  return (error) => shownTo(context.get('actor'), expectedError(error, parts), parts);
}

/** Only admins see where the files of the server are. */
function shownTo({ role }: Actor, error: JobmanError, { folders = [] }: Pick<AppParts, 'folders'>): JobmanError {
  return role === 'admin' ? error : withoutPaths(error, folders);
}

/** Responds to each error with a problem document. */
function addErrors(app: Hono<Env>, parts: AppParts, withoutDatabase: ReturnType<typeof createOutages>): void {
  const { version } = parts.metrics;
  app.onError((error, context) => {
    const actor = context.get('actor') as Actor | undefined;
    const full = expectedError(error, parts);
    const expected = actor === undefined ? withoutDatabase(full) : shownTo(actor, full, parts);
    const isUnknown = expected.code === exitCode.usage;
    return answerProblem(context, isUnknown ? withVersions(expected, context, version) : expected, statusOf(error));
  });
  app.notFound((context) => {
    const { pathname } = new URL(context.req.url);
    const error = new JobmanError(`There is no ${context.req.method} ${pathname}.`, exitCode.notFound);
    return answerProblem(context, withVersions(error, context, version));
  });
}

/** Another version of jobman may know the parameters that this one refuses. Names the version only to valid tokens. */
function withVersions(error: JobmanError, context: Context<Env>, own: string): JobmanError {
  const [theirs, actor] = [context.req.header(versionHeader), context.get('actor') as Actor | undefined];
  if (actor === undefined || theirs === undefined || theirs === own || !/^[\w.+-]{1,40}$/.test(theirs)) return error;
  const line = `The client is jobman ${theirs}, and the server is jobman ${own}: their APIs may differ.`;
  return reworded(error, { lines: [...error.lines, line] });
}

function answerProblem(context: Context<Env>, error: JobmanError, status?: number): Response {
  const problem = toProblem(error, status);
  if (problem.status === 401) context.header('www-authenticate', 'Bearer');
  if (error.retryAfter !== null) context.header('retry-after', String(error.retryAfter));
  // The rest of the body is not read.
  if (problem.status === 413 || error instanceof Overload) context.header('connection', 'close');
  return context.body(JSON.stringify(problem), problem.status as ContentfulStatusCode, { 'content-type': problemType });
}

function answerValue(given: unknown, route: Route, context: Context<Env>): Response {
  const value = route.answer === 'rows' ? { rows: given, next: (given as Rows<unknown>).next } : given;
  if (route.answer !== 'json' && route.answer !== 'rows') {
    const bytes = route.answer === 'log' ? (value as LogPart).bytes : (value as Uint8Array);
    const headers = route.answer === 'log' ? encodeLogPart(value as LogPart) : {};
    return context.body(bytes as Uint8Array<ArrayBuffer>, 200, {
      ...headers,
      'content-type': answerTypes[route.answer],
    });
  }
  if (value === undefined) return context.body(null, 204);
  if (route.method !== 'GET')
    return context.body(JSON.stringify(value), 200, { 'content-type': answerTypes[route.answer] });
  const { text, etag } = encodeAnswer(value);
  context.header('etag', etag);
  // A proxy that compresses responses makes ETags weak.
  if (
    context.req
      .header('if-none-match')
      ?.split(/, *(?:W\/)?|^W\//)
      .includes(etag)
  )
    return context.body(null, 304);
  return context.body(text, 200, { 'content-type': answerTypes[route.answer] });
}

/** Simultaneous requests share the encoding of a list. */
const encodedAnswers = new WeakMap<object, { readonly text: string; readonly etag: string }>();

function encodeAnswer(value: unknown): { readonly text: string; readonly etag: string } {
  const known = typeof value === 'object' && value !== null ? encodedAnswers.get(value) : undefined;
  if (known !== undefined) return known;
  const text = JSON.stringify(value);
  const encoded = { text, etag: etagOf(value, text) };
  if (typeof value === 'object' && value !== null) encodedAnswers.set(value, encoded);
  return encoded;
}

/** The ETag of `show` begins with the revision, which a command may require with If-Match. */
function etagOf(value: unknown, text: string): string {
  const { revision } = (value ?? {}) as Partial<JobView>;
  const digestOf = (content: string): string => createHash('sha256').update(content).digest('base64url');
  if (typeof revision !== 'number') return `"${digestOf(text)}"`;
  // The age of a log grows while nothing changes.
  return `"${revision}.${digestOf(text.replaceAll(/"logAgeMs":\d+/g, ''))}"`;
}

/** Throws JobmanError (2). */
function addRevision(operation: ApiOperation, [, , options]: readonly unknown[], header: string): void {
  if (header === '*') return;
  if (operation !== 'sendCommand') throw usageError('If-Match is for the commands of a job.');
  const [, revision] = /^(?:W\/)?"(\d{1,15})\.[\w-]+"$/.exec(header) ?? [];
  if (revision === undefined) throw usageError('If-Match must be the ETag of GET /v1/jobs/{ref}.');
  Object.assign(options as object, { ifRevision: Number(revision) });
}

/** The header of the IETF draft, whose value is a quoted string, sets the same field as the body. */
function addKey(request: KeyedRequest, header: string): void {
  const idempotencyKey = header.replace(/^"(.*)"$/, '$1');
  const { idempotencyKey: own = idempotencyKey } = request;
  if (own !== idempotencyKey) throw usageError('The header and the body have different idempotency keys.');
  Object.assign(request, { idempotencyKey });
}

/** A reader that reconnects names its last event in the header Last-Event-ID (server-sent events). */
function parametersOf(route: Route, context: Context<Env>): URLSearchParams {
  const parameters = new URL(context.req.url).searchParams;
  const last = context.req.header('last-event-id');
  if (last !== undefined && route.arguments.some(([, name]) => name === 'cursor')) parameters.set('cursor', last);
  const limit = Number(parameters.get('limit') ?? Number.MAX_SAFE_INTEGER);
  if (route.answer === 'rows' && limit > maxPage && Number.isSafeInteger(limit)) parameters.set('limit', `${maxPage}`);
  return parameters;
}

function limitOf(route: Route): number {
  const carriers = route.arguments.map(([carrier]) => carrier);
  return carriers.includes('blobs')
    ? bodyLimits.blobs
    : carriers.includes('bytes')
      ? bodyLimits.bytes
      : bodyLimits.json;
}
