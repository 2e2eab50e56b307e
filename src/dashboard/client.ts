// The Client of the server that sent this page. Each method is its row in the table of routes.

import { decodeEvent, decodeLogPart, versionHeader } from '../api/wire.ts';
import { parseEvents } from '../api/events.ts';
import { fromProblem, problemType } from '../api/problem.ts';
import { encodeArguments, readRows, type More, type Values } from '../api/request.ts';
import { answerTypes, createApiClient, routes, type ApiClient, type Route } from '../api/routes.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { minute, second, type Duration } from '../core/model/time.ts';
import { version } from '../version.ts';
import { serverPath } from './location.ts';

export interface Opened {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** The time of the server at its response, in whole seconds; null without it. */
  readonly serverTime: number | null;
}

interface SessionState {
  readonly isLoggedOut: () => boolean;
  /** The server does not accept the session, or there is none. */
  readonly onLoggedOut: () => void;
}

/** Long, because the server may wait for a cloud. Without a limit, a silently lost connection would never fail. */
const answerTime: Duration = 3 * minute;
/** The same between two parts of a stream: the server sends a heartbeat every 15 seconds. */
const silenceTime: Duration = 40 * second;

/** Without a session, only `whoAmI` sends a request, to find a new session. */
export function createPageClient({ isLoggedOut, onLoggedOut }: SessionState): ApiClient & {
  /** The body of a stream. Throws JobmanError. */
  open(route: Route, values: Values, signal: AbortSignal): Promise<Opened>;
} {
  async function send(route: Route, values: Values, more: More = {}, signal?: AbortSignal): Promise<Response> {
    // The server counts each request with the ended session as an invalid token, and soon refuses logins.
    if (isLoggedOut() && route !== routes.whoAmI)
      throw new JobmanError('The session has ended.', exitCode.conflict, [], { errorCode: 'unauthenticated' });
    const { path, body, type } = encodeArguments(route, values, more);
    const response = await fetchOf(path, {
      method: route.method,
      headers: {
        accept: `${answerTypes[route.answer]}, ${problemType}`,
        [versionHeader]: version,
        ...(type === undefined ? {} : { 'content-type': type }),
      },
      ...(body === undefined ? {} : { body: body as BodyInit }),
      ...(signal === undefined ? {} : { signal }),
    });
    if (response.status === 401) onLoggedOut();
    if (!response.ok) throw await failureOf(response);
    if (response.status !== 204 && response.headers.get('content-type')?.startsWith(answerTypes[route.answer]) !== true)
      throw foreignAnswer(response);
    return response;
  }

  async function call(route: Route, values: Values, more?: More): Promise<unknown> {
    const response = await send(route, values, more);
    if (response.status === 204) return undefined;
    if (route.answer === 'json' || route.answer === 'rows') return jsonOf(response);
    const bytes = await bytesOf(response);
    return route.answer === 'bytes' ? bytes : decodeLogPart(Object.fromEntries(response.headers), bytes);
  }

  async function open(route: Route, values: Values, signal: AbortSignal): Promise<Opened> {
    const { body, headers } = await send(route, values, {}, signal);
    if (body === null) throw brokenStream();
    const time = Date.parse(headers.get('date') ?? '');
    return { bytes: chunksOf(body), serverTime: Number.isNaN(time) ? null : time };
  }

  /** The values of one response. Closes the connection when the reader leaves. */
  async function* read(route: Route, values: Values): AsyncGenerator<unknown, void> {
    const over = new AbortController();
    const limit = (): ReturnType<typeof setTimeout> => setTimeout(() => over.abort(noAnswer()), silenceTime);
    let waiting = limit();
    try {
      const { bytes } = await open(route, values, over.signal);
      if (route.answer === 'chunks') {
        clearTimeout(waiting);
        yield* bytes;
        return;
      }
      const noted = (async function* () {
        for await (const chunk of bytes) {
          clearTimeout(waiting);
          yield chunk;
          waiting = limit();
        }
      })();
      yield* valuesOf(noted);
    } finally {
      clearTimeout(waiting);
      over.abort();
    }
  }

  const methods = createApiClient((_, route) => (...values) => {
    if (route.answer === 'events' || route.answer === 'chunks') return read(route, values);
    if (route.answer === 'rows') return readRows((more) => call(route, values, more), route, values);
    return call(route, values);
  });
  return { ...methods, open };
}

/** Throws JobmanError. */
async function* valuesOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<unknown, void> {
  for await (const { kind, data } of parseEvents(bytes)) {
    if (kind === 'end') return;
    const value = decodeEvent(data);
    if (kind !== 'message') throw fromProblem(value) ?? brokenStream();
    yield value;
  }
  throw brokenStream();
}

/** Sends a request to this server, with a timeout or a signal. Throws JobmanError without a response. */
export async function fetchOf(path: string, init: RequestInit): Promise<Response> {
  try {
    const signal = init.signal ?? AbortSignal.timeout(answerTime);
    return await fetch(serverPath(path), { ...init, signal, credentials: 'same-origin', cache: 'no-store' });
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    throw noAnswer(error);
  }
}

function noAnswer(cause?: unknown): JobmanError {
  return new JobmanError('The server does not answer.', exitCode.unreachable, [], { cause });
}

/** The error of an unsuccessful response. */
export async function failureOf(response: Response): Promise<JobmanError> {
  if (response.headers.get('content-type')?.startsWith(problemType) !== true) return foreignAnswer(response);
  return fromProblem(await jsonOf(response)) ?? foreignAnswer(response);
}

/** Throws JobmanError. */
async function jsonOf(response: Response): Promise<unknown> {
  const text = new TextDecoder().decode(await bytesOf(response));
  try {
    return JSON.parse(text);
  } catch {
    throw foreignAnswer(response);
  }
}

/** The whole body. Throws JobmanError. */
async function bytesOf(response: Response): Promise<Uint8Array> {
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch {
    throw brokenStream();
  }
}

/** For a response of another program, such as a proxy that cannot reach the server. */
function foreignAnswer({ status }: Response): JobmanError {
  return new JobmanError(`The response is not from jobman: status ${status}.`, exitCode.unreachable);
}

function brokenStream(): JobmanError {
  return new JobmanError('The connection to the server ended early.', exitCode.unreachable);
}

/** Safari cannot iterate over a stream. */
async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
