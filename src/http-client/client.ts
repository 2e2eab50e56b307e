// HTTP client: the Client of a jobman server. Each method is its row in the table of routes.

import { fromProblem, problemType } from '../api/problem.ts';
import {
  answerTypes,
  createApiClient,
  keyedArguments,
  type ApiClient,
  type ApiOperation,
  type Route,
} from '../api/routes.ts';
import { encodeArguments, readRows, type More, type Values } from '../api/request.ts';
import {
  blobsPerBody,
  digestsPerSearch,
  decodeEvent,
  decodeLogPart,
  encodeSegment,
  streamHeader,
  versionHeader,
} from '../api/wire.ts';
import { randomUUID } from 'node:crypto';
import type { BlobDigests, Client, CreateRequest } from '../app/client.ts';
import type { ArchivedLogQuery } from '../app/cluster/objects.ts';
import { exitCode, JobmanError, reworded } from '../app/errors.ts';
import type { Digest } from '../catalogue/digest.ts';
import { createPatience, type OnSignal, type Patience } from '../app/patience.ts';
import type { Blob } from '../app/ports.ts';
import { createHttpClient, readBody, type Environment, type HttpClient, type HttpRequest } from '../http/client.ts';
import {
  certificateProblem,
  NoReply,
  summarizeBody,
  unknownAuthority,
  type Reply,
  type StreamReply,
} from '../http/reply.ts';
import { minute, second, type Duration } from '../core/model/time.ts';
import { parseEvents, type ServerEvent } from '../api/events.ts';

export interface HttpClientParts {
  /** The address of the server; its path is the prefix of the routes. */
  readonly server: string;
  readonly token: string;
  /** The version of this program. An error about an unknown parameter or field names it. */
  readonly version?: string;
  /** Certificates in PEM of authorities that may sign the server's, in addition to those that the machine trusts. */
  readonly ca?: string | null;
  /** May name proxies. */
  readonly env: Environment;
  /** Called before each request that changes something. */
  readonly beforeChange?: () => void;
  /** Ends the wait for a server that restarts. */
  readonly onSignal?: OnSignal;
  /** Called once such a wait is longer than a second, with the reason. */
  readonly onWait?: (message: string) => void;
  /** The next step if the server refuses the token. */
  readonly tokenRemedy?: string;
}

/**
 * Repeats reads after a broken connection, and every request after status 429. Any other response is final, even if it says
 * that a cloud does not answer.
 */
const retry = {
  maxTries: 1,
  maxTriesIfOverloaded: 6,
  maxTriesIfBroken: 3,
  initialDelay: 300,
  maxDelay: 2 * second,
} as const;
/** Long, because the server may wait for a cloud. */
const limits = { answer: 3 * minute, total: 10 * minute, bytes: 256 * 1024 * 1024 } as const;
/** The time after a signal in which a response may still arrive. Most commands end by themselves after it. */
const leaveMs: Duration = second;
const silenceNotedAfter: Duration = 5 * second;
/** Without a server at its address, or with one that ends. */
const downErrors: readonly string[] = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE'];

type Resumption = 'cursor' | 'count' | 'start';

/**
 * The resumption of a stream after a lost connection: after the newest cursor, after the number of values or bytes that have
 * arrived, or from its start, because it reports progress. Null: it fails.
 */
function resumptionOf(operation: ApiOperation, values: Values): Resumption | null {
  if (operation === 'changesSince') return 'cursor';
  if (operation === 'metrics' || operation === 'storage' || operation === 'checkpoints') return 'start';
  if (operation === 'metricPoints') return 'count';
  // The last lines of a growing log begin at another offset later.
  const isWhole = operation === 'readArchivedLog' && (values[2] as ArchivedLogQuery).tail === undefined;
  return isWhole ? 'count' : null;
}

type ReadValues = AsyncGenerator<{ readonly value: unknown; readonly cursor: string | undefined }, void>;

export type ServerClient = ApiClient & Client;

/** Connects with the first call. */
export function createServerClient(parts: HttpClientParts): ServerClient {
  const { server, token, version, ca = null, env, beforeChange } = parts;
  const http = createHttpClient({ env, retry, limits, trust: ca === null ? {} : { extraCa: ca } });
  const patience = createPatience('server', parts.onWait);
  const send = waitingForRestarts(http, parts, patience);

  function requestFor(route: Route, values: Values, more: More = {}): HttpRequest {
    const { path, body, type } = encodeArguments(route, values, more);
    return {
      url: server,
      path,
      method: route.method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: `${answerTypes[route.answer]}, ${problemType}`,
        ...(version === undefined ? {} : { [versionHeader]: version }),
        ...(type === undefined ? {} : { 'content-type': type }),
      },
      body: body ?? (route.method === 'GET' || route.method === 'DELETE' ? undefined : ''),
    };
  }

  /** `mayRepeat`: a repeated request has no further effect. */
  async function call(route: Route, values: Values, mayRepeat = !route.changes, more: More = {}): Promise<unknown> {
    const reply = await send(requestFor(route, values, more), mayRepeat);
    if (reply instanceof NoReply || reply.status >= 300) throw failureOf(reply, server, parts);
    if (reply.status === 204) return undefined;
    if (!isOfType(reply, route)) throw foreignAnswer(reply, server);
    if (route.answer === 'bytes') return reply.bytes;
    if (route.answer === 'log') return decodeLogPart(reply.headers, reply.bytes);
    try {
      return JSON.parse(reply.bytes.toString()) as unknown;
    } catch {
      throw foreignAnswer(reply, server);
    }
  }

  async function open(route: Route, request: HttpRequest, over: AbortSignal): Promise<StreamReply> {
    const reply = await http.open({ ...request, signal: over });
    if (reply instanceof NoReply || 'bytes' in reply) throw failureOf(reply, server, parts);
    patience.served();
    if (isOfType(reply, route)) return reply;
    throw foreignAnswer({ ...reply, bytes: await readBody(reply.stream, maxForeignBytes) }, server);
  }

  /** Ends a stream that changes something, and waits until the server has recorded that its reader has left. */
  async function endStream(id: string): Promise<void> {
    const headers = { authorization: `Bearer ${token}` };
    await http.request({ url: server, path: `/v1/streams/${encodeSegment(id)}`, method: 'DELETE', headers });
  }

  /** The values of one response. Rejects if the connection breaks, even between two values. */
  async function* readOnce(route: Route, values: Values, after: string | undefined, over: Leaving): ReadValues {
    const { headers: own, ...request } = requestFor(route, values);
    const resumed = after === undefined ? {} : { 'last-event-id': after };
    const { stream, headers } = await open(route, { ...request, headers: { ...own, ...resumed } }, over.signal);
    over.hasBegun = true;
    const id = headers[streamHeader];
    over.onLeave = typeof id === 'string' ? () => endStream(id) : undefined;
    if (route.answer === 'chunks') {
      for await (const value of stream as AsyncIterable<Buffer>) yield { value, cursor: undefined };
      return;
    }
    for await (const event of parseEvents(stream)) {
      if (event.kind === 'end') return;
      yield { value: valueOf(event, server), cursor: event.id };
    }
    throw new Error('the event of the end is missing');
  }

  /** Repeated after a broken connection: the key in the values lets the server create the job once. */
  async function create(route: Route, values: Values): Promise<unknown> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await call(route, values, true);
      } catch (error) {
        const { cause } = error as JobmanError;
        if (!(cause instanceof NoReply && cause.wasSent) || attempt >= retry.maxTriesIfBroken) throw error;
      }
    }
  }

  // The contract suite proves the parameters and the answers.
  const methods = createApiClient((operation, route) => (...values) => {
    if (route.changes) beforeChange?.();
    if (route.answer === 'events' || route.answer === 'chunks')
      return untilLeft((over) =>
        resume(
          (after) => readOnce(route, values, after, over),
          resumptionOf(operation, values),
          over,
          server,
          patience,
        ),
      );
    if (route.answer === 'rows') return readRows((more) => call(route, values, true, more), route, values);
    const keyed = keyedArguments[operation];
    if (keyed !== undefined) return create(route, withKey(values, keyed));
    if (operation === 'putBlobs') return inBatches(values[0] as readonly Blob[], (blobs) => call(route, [blobs], true));
    return operation === 'hasBlobs' ? searchBlobs(values, (part) => call(route, part)) : call(route, values);
  });
  return { ...methods, close: async () => http.close() };
}

/** With an idempotency key in the argument at that position. */
function withKey(values: Values, position: number): Values {
  const request = values[position] as Pick<CreateRequest, 'idempotencyKey'>;
  return values.with(position, { ...request, idempotencyKey: request.idempotencyKey ?? randomUUID() });
}

/**
 * Waits and repeats a request if the server reports that its database does not answer: the server has then done nothing. A
 * request that may be repeated also waits for a server that has responded before, because the server may restart while a
 * command follows a job or uploads files. A signal ends the wait, after a short time in which a response may still arrive.
 */
function waitingForRestarts(
  http: HttpClient,
  parts: HttpClientParts,
  patience: Patience,
): (request: HttpRequest, mayRepeat: boolean) => Promise<Reply | NoReply> {
  const { server, onSignal = () => () => undefined } = parts;
  // One listener for all requests in progress: a command may send many at once.
  const leavers = new Set<() => void>();
  let stopListening: () => void;
  function whenSignalled(leave: () => void): () => void {
    leavers.add(leave);
    if (leavers.size === 1) stopListening = onSignal(() => leavers.forEach((one) => one()));
    return () => {
      leavers.delete(leave);
      if (leavers.size === 0) stopListening();
    };
  }
  return async (request, mayRepeat) => {
    const over = new AbortController();
    let isDown = false;
    let leaving: NodeJS.Timeout | undefined;
    const release = whenSignalled(() => {
      if (isDown || leaving !== undefined) over.abort();
      leaving ??= setTimeout(() => over.abort(), leaveMs);
    });
    const [since, isRead] = [performance.now(), request.method === 'GET'];
    // A server that hangs accepts connections.
    const silence = setTimeout(
      () => patience.noteSilence(`The server ${server} has not answered for ${silenceNotedAfter / second} s.`),
      silenceNotedAfter,
    );
    try {
      for (let failures = 0; ; failures += 1) {
        const reply = await http.request({ ...request, signal: over.signal });
        const failure = reply instanceof NoReply || reply.status >= 300 ? failureOf(reply, server, parts) : null;
        // Only jobman's own response means that it has done nothing: a proxy may have passed the request on.
        const isUnavailable =
          !(reply instanceof NoReply) &&
          reply.status === 503 &&
          'retry-after' in reply.headers &&
          (mayRepeat || failure?.retryAfter !== null);
        if (!(reply instanceof NoReply) && !isUnavailable) patience.served();
        const isGone = reply instanceof NoReply && downErrors.includes(reply.reason ?? '');
        isDown = isUnavailable || (isGone && mayRepeat && patience.hasServed);
        if (!isDown || failure === null || !(await patience.wait({ failures, since, isRead }, failure, over.signal)))
          return reply;
      }
    } catch (error) {
      if (!over.signal.aborted) throw error;
      const how = isDown ? `while the server ${server} does not answer` : `before the server ${server} had answered`;
      throw new JobmanError(`Interrupted ${how}.`, exitCode.interrupted);
    } finally {
      release();
      clearTimeout(leaving);
      clearTimeout(silence);
    }
  };
}

/** In several bodies, because a body has a limit. */
async function inBatches(blobs: readonly Blob[], send: (batch: readonly Blob[]) => Promise<unknown>): Promise<void> {
  let batch: Blob[] = [];
  let size = 0;
  for (const blob of blobs) {
    if (batch.length > 0 && size + blob.content.byteLength > blobsPerBody) {
      await send(batch);
      [batch, size] = [[], 0];
    }
    batch.push(blob);
    size += blob.content.byteLength;
  }
  await send(batch);
}

/** In several requests, because one has a limit. */
async function searchBlobs(values: Values, ask: (part: Values) => Promise<unknown>): Promise<unknown> {
  const [digests, sizes] = values as readonly [BlobDigests, readonly number[] | undefined];
  if (digests.length <= digestsPerSearch) return ask(values);
  const found: Digest[] = [];
  for (let from = 0; from < digests.length; from += digestsPerSearch) {
    const part = [digests, sizes].map((list) => list?.slice(from, from + digestsPerSearch));
    found.push(...((await ask(part)) as readonly Digest[]));
  }
  return found;
}

// ------------------------------------------------------------------------------------------ streams

interface Leaving {
  readonly signal: AbortSignal;
  /** True once the server has answered. */
  hasBegun: boolean;
  /** Called before the connection is closed. */
  onLeave: (() => Promise<void>) | undefined;
}

/** Closes the connection when the reader leaves the iteration. */
function untilLeft<T>(read: (over: Leaving) => AsyncGenerator<T, void>): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const over = new AbortController();
      const leaving: Leaving = { signal: over.signal, hasBegun: false, onLeave: undefined };
      const values = read(leaving);
      return {
        next: () => values.next(),
        async return() {
          await leaving.onLeave?.();
          over.abort();
          return values.return().catch(() => ({ done: true, value: undefined }));
        },
      };
    },
  };
}

/** The values of a stream, which continues after a broken connection. */
async function* resume(
  readAfter: (cursor: string | undefined) => ReadValues,
  resumption: Resumption | null,
  over: Leaving,
  server: string,
  patience: Patience,
): AsyncGenerator<unknown, void> {
  let cursor: string | undefined;
  let count = 0;
  let since = 0;
  for (let failures = 0; ; failures += 1) {
    let repeated = resumption === 'count' ? count : 0;
    try {
      for await (const one of readAfter(cursor)) {
        const size = one.value instanceof Uint8Array ? one.value.length : 1;
        const skipped = Math.min(size, repeated);
        repeated -= skipped;
        if (skipped === size) continue;
        failures = 0;
        count += size - skipped;
        cursor = one.cursor ?? cursor;
        yield one.value instanceof Uint8Array ? one.value.subarray(skipped) : one.value;
      }
      return;
    } catch (error) {
      const mayContinue = resumption === 'cursor' ? cursor !== undefined : resumption !== null && over.hasBegun;
      const failure = asFailure(error, server);
      if (!mayContinue || !(failure instanceof JobmanError) || !isBroken(error)) throw failure;
      if (failures === 0) since = performance.now();
      if (!(await patience.wait({ failures, since, isRead: true }, failure, over.signal))) throw failure;
    }
  }
}

function valueOf({ kind, data }: ServerEvent, server: string): unknown {
  const value = decodeEvent(data);
  if (kind === 'message') return value;
  throw (kind === 'problem' ? fromProblem(value) : undefined) ?? otherVersion(server);
}

// ------------------------------------------------------------------------------------------ failures

/** Limit of the text that a message quotes from a proxy's response. */
const maxForeignBytes = 64 * 1024;

function isOfType({ headers }: Reply | StreamReply, { answer }: Route): boolean {
  return headers['content-type']?.startsWith(answerTypes[answer]) === true;
}

export function failureOf(
  reply: Reply | NoReply,
  server: string,
  { ca, tokenRemedy }: { readonly ca?: string | null | undefined; readonly tokenRemedy?: string | undefined },
): JobmanError {
  if (reply instanceof NoReply) return noAnswer(reply, server, typeof ca === 'string');
  if (reply.headers['content-type']?.startsWith(problemType) === true) {
    const error = fromProblem(JSON.parse(reply.bytes.toString()));
    if (error !== undefined && reply.status === 401 && tokenRemedy !== undefined)
      return reworded(error, { lines: [tokenRemedy] });
    if (error !== undefined) return error;
  }
  return foreignAnswer(reply, server);
}

function noAnswer(reply: NoReply, server: string, hasCa: boolean): JobmanError {
  const { reason, message } = reply;
  const certificate = certificateProblem(reason);
  const byUnknown = hasCa
    ? `The CA of --ca did not sign it. Ask an admin of the server for the certificate of its CA.`
    : `If your own CA signed it: jobman login ${server} --ca FILE, with the certificate of the CA`;
  const lines =
    certificate === unknownAuthority
      ? [byUnknown]
      : certificate !== undefined
        ? [message]
        : reason === 'ECONNRESET' && server.startsWith('http:')
          ? [`If it has TLS, its address begins with https: ${server.replace('http:', 'https:')}`]
          : [];
  return new JobmanError(
    certificate === undefined
      ? `The server ${server} does not answer: ${message}.`
      : `The certificate of the server ${server} ${certificate}. Nothing was sent to it.`,
    exitCode.unreachable,
    lines,
    { cause: reply },
  );
}

/** For a response of another program, such as a proxy that cannot reach the server. */
export function foreignAnswer({ status, bytes }: Reply, server: string): JobmanError {
  const text = summarizeBody(bytes.toString());
  const answer = text === '' ? `status ${status}` : `status ${status}, ${text}`;
  return new JobmanError(`${server} does not answer like a jobman server: ${answer}.`, exitCode.unreachable);
}

function otherVersion(server: string): JobmanError {
  return new JobmanError(
    `${server} sent an event that this version of jobman does not know. Install the server's version.`,
    exitCode.unreachable,
  );
}

function brokenStream(server: string, cause: unknown): JobmanError {
  return new JobmanError(`The connection to the server ${server} ended early.`, exitCode.unreachable, [], { cause });
}

function isBroken(error: unknown): boolean {
  return !(error instanceof JobmanError) || error.cause instanceof NoReply || error.retryAfter !== null;
}

/** Replaces an error of Node, such as "aborted", which does not help a person. */
function asFailure(error: unknown, server: string): unknown {
  return error instanceof JobmanError || (error as Error).name === 'AbortError' ? error : brokenStream(server, error);
}
