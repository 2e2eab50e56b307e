// Calls to a Google API, and the meaning of its errors. Nothing here throws because of the cloud or the network. A call has
// four outcomes: a value, a refusal, "it was never sent", and "nobody knows whether it happened".
// Facts about errors: messages in public reports of projects that run TPUs, and the codes of google.rpc.Code.

import { JobmanError, textOf } from '../../app/errors.ts';
import { fits, type Form } from '../../app/json.ts';
import type { CloudError, CloudErrorKind } from '../../core/job.ts';
import { second, type Duration } from '../../core/time.ts';
import { createHttpClient, type Environment } from '../../http/client.ts';
import { NoReply } from '../../http/reply.ts';

/**
 * The outcome of a call. `status` is the canonical name of the cloud's error (`NOT_FOUND`, `ALREADY_EXISTS`).
 * `NOT_SENT`: the request cannot have reached the cloud. `NO_ANSWER`: it may have, and may have taken effect.
 */
export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: string; readonly error: CloudError };

interface Try<T> {
  readonly answer: Answer<T>;
  readonly refused?: Headers;
  readonly size?: number;
}

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly timeoutMs?: Duration;
}

export interface Listing<T> {
  readonly items: readonly T[];
  readonly unreachable: readonly string[];
}

export type Headers = Readonly<Record<string, string>>;

/** There is no login that the cloud accepts; the message says how to log in. */
export class NoLogin extends JobmanError {}

export interface Credentials {
  /**
   * The headers that prove it; none where nothing has to be proved. Rejects with NoLogin where there is no login, and with
   * another JobmanError where it cannot be had now.
   */
  headers(): Promise<Headers>;
  /** The cloud did not accept these: the next call must not be made with the same. Answers what to do, for people. */
  refused(shown: Headers): string;
}

export interface Caller {
  call<T extends object>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<Answer<T>>;
  /** All pages of a list: half a list would read as "absent" what is only on the next page. */
  list<T>(path: string, field: string): Promise<Answer<Listing<T>>>;
}

/** Longest wait for one answer. A slower cloud counts as one that did not answer: nothing destructive follows. */
const answerWithin: Duration = 15 * second;
/** A page of a zone's list has some hundred kilobytes. */
const answerMost = 32 * 1024 * 1024;
const listFactor = 4;
/** A list with more pages, or with more characters in all of them, comes from a server that never ends its lists. */
const pagesMost = 1_000;
const listMost = 128 * 1024 * 1024;

/**
 * `endpoint` gives `https://tpu.googleapis.com`, or a server that speaks the same API; it is asked for every call, because
 * a server of our own may come back at another port. Both `endpoint` and `credentials` may reject: then nothing was sent.
 */
export function createCaller(options: {
  readonly endpoint: () => Promise<string>;
  readonly credentials: Credentials;
  readonly env: Environment;
  readonly within?: Duration;
}): Caller {
  const { endpoint, credentials, env, within = answerWithin } = options;
  // Nothing is sent twice: the core asks again, at its own pace.
  const client = createHttpClient({ env, limits: { bytes: answerMost } });

  /**
   * A login that ends while we are at work is refused with 401, before anything is done: the same call is then made once
   * more with a fresh one.
   */
  async function callTwice<T extends object>(request: Request): Promise<Try<T>> {
    const first = await callOnce<T>(request);
    if (first.refused?.['authorization'] === undefined) return first;
    const fresh = await credentials.headers().catch(() => undefined);
    if (fresh === undefined || fresh['authorization'] === first.refused['authorization']) return first;
    return callOnce<T>(request);
  }

  async function callOnce<T extends object>({ method, path, body, timeoutMs = within }: Request): Promise<Try<T>> {
    let url: string;
    let headers: Headers;
    try {
      url = await endpoint();
      headers = await credentials.headers();
    } catch (error) {
      const sentence = textOf(error);
      if (!(error instanceof NoLogin)) return { answer: lost('NOT_SENT', sentence) };
      return { answer: { ok: false, status: 'NOT_SENT', error: withoutLogin(sentence) } };
    }
    const reply = await client.request({
      url,
      path: `/${path}`,
      method,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      limits: { connect: timeoutMs, answer: timeoutMs, whole: timeoutMs },
    });
    if (reply instanceof NoReply) {
      const status = reply.wasSent ? 'NO_ANSWER' : 'NOT_SENT';
      return { answer: lost(status, `${hostOf(url)} did not answer: ${reply.message}`) };
    }
    const { status } = reply;
    const text = reply.bytes.toString('utf8');
    const value = parseObject(text);
    // Google's API never redirects; a login page of the network in between does.
    if (status >= 300 && status < 400) {
      return {
        answer: lost('NO_ANSWER', `${hostOf(url)} answered with a redirection (HTTP ${status}), not as this API`),
      };
    }
    if (status < 300) {
      if (value !== undefined) return { answer: { ok: true, value: value as T }, size: text.length };
      const page = `${hostOf(url)} answered with something that is not this API (HTTP ${status})`;
      return { answer: lost('NO_ANSWER', page) };
    }
    if (status === 401) {
      const error = withoutLogin(credentials.refused(headers));
      return { answer: { ok: false, status: 'UNAUTHENTICATED', error }, refused: headers };
    }
    return { answer: refusalOf(status, value, text, url) };
  }

  return {
    call: async (method, path, body) =>
      (await callTwice<never>({ method, path, ...(body === undefined ? {} : { body }) })).answer,
    async list<T>(path: string, field: string): Promise<Answer<Listing<T>>> {
      const items: T[] = [];
      const unreachable: string[] = [];
      const tokens = new Set<string>();
      let token = '';
      let size = 0;
      const until = performance.now() + listFactor * within;
      for (let pages = 0; pages < pagesMost; pages += 1) {
        const query = token === '' ? '' : `?pageToken=${encodeURIComponent(token)}`;
        const left = until - performance.now();
        if (left <= 0 || size > listMost) break;
        const { answer: page, size: length = 0 } = await callTwice<Readonly<Record<string, unknown>>>({
          method: 'GET',
          path: `${path}${query}`,
          timeoutMs: Math.min(within, left),
        });
        // The request had only the rest of the list's time.
        if (!page.ok && page.status === 'NO_ANSWER' && left < within) break;
        if (!page.ok) return page;
        size += length;
        const { [field]: found = [], unreachable: zones = [], nextPageToken = '' } = page.value;
        if (!Array.isArray(found) || !Array.isArray(zones) || typeof nextPageToken !== 'string') {
          return lost('NO_ANSWER', `the list ${path} has a page that is not a list`);
        }
        // Not by push(...): a page with a hundred thousand entries would be as many arguments.
        for (const item of found as T[]) items.push(item);
        for (const zone of zones as string[]) unreachable.push(zone);
        if (nextPageToken === '') return { ok: true, value: { items, unreachable } };
        if (tokens.has(nextPageToken)) break;
        tokens.add(nextPageToken);
        token = nextPageToken;
      }
      return lost('NO_ANSWER', `the list ${path} has no end`);
    },
  };
}

/** A refusal in the API's own shape. Anything else comes from something in between, and says nothing about our things. */
function refusalOf(httpStatus: number, value: object | undefined, text: string, url: string): Answer<never> {
  const body = (value as { readonly error?: StatusBody } | undefined)?.error;
  if (!fits(body, failureForm)) {
    // A proxy's or the front end's own page. Its 404 must not be read as "there is no such node".
    const page = `${hostOf(url)} answered HTTP ${httpStatus}: ${text.slice(0, 300)}`;
    if (httpStatus >= 500) return lost('NO_ANSWER', page);
    return {
      ok: false,
      status: `HTTP ${httpStatus}`,
      error: { ...classify({ code: httpStatus, message: page }), raw: page },
    };
  }
  const failure: StatusBody = { code: httpStatus, ...body };
  return { ok: false, status: statusName(failure), error: classify(failure) };
}

function lost(status: 'NOT_SENT' | 'NO_ANSWER', raw: string): Answer<never> {
  return { ok: false, status, error: unanswered(raw) };
}

/** Every reply of the API is a JSON object, an empty list included; an empty body is a reply that was cut. */
function parseObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

/** The error body of the API (`code` is an HTTP status), or of an operation (`code` is a gRPC number). */
export interface StatusBody {
  readonly code?: number;
  readonly message?: string;
  readonly status?: string;
}

export const failureForm: Form = { code: 'number', message: 'string', status: 'string' };

/** Both sorts of numbers, by the name that they stand for; the two ranges do not overlap. */
const names: Readonly<Record<number, string>> = {
  1: 'CANCELLED',
  2: 'UNKNOWN',
  3: 'INVALID_ARGUMENT',
  4: 'DEADLINE_EXCEEDED',
  5: 'NOT_FOUND',
  6: 'ALREADY_EXISTS',
  7: 'PERMISSION_DENIED',
  8: 'RESOURCE_EXHAUSTED',
  9: 'FAILED_PRECONDITION',
  10: 'ABORTED',
  11: 'OUT_OF_RANGE',
  12: 'UNIMPLEMENTED',
  13: 'INTERNAL',
  14: 'UNAVAILABLE',
  16: 'UNAUTHENTICATED',
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ALREADY_EXISTS',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  501: 'UNIMPLEMENTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

/** The canonical name of an error: its own `status`, else by its code. */
export function statusName(body: StatusBody): string {
  if (body.status !== undefined && body.status !== '') return body.status;
  const code = body.code ?? 0;
  return names[code] ?? `code ${code}`;
}

interface Row {
  readonly kind: CloudErrorKind;
  readonly names?: readonly string[];
  readonly words?: RegExp;
}

const exhausted = ['RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION'];

/** In order, first match wins: the words first, because one code (8, 429) stands for three different troubles. */
const table: readonly Row[] = [
  // "There is no more capacity in the zone", "Insufficient reserved capacity": theirs, here, now.
  { kind: 'stockout', words: /no more capacity|insufficient .*capacity|stockout|enough (resources|capacity)/i },
  // Too many calls in a minute, which also says "quota" in its name.
  { kind: 'rate_limited', names: exhausted, words: /requests? per (minute|second)|rate limit/i },
  // Our own limit; waiting helps only when something of ours goes.
  { kind: 'quota', names: exhausted, words: /quota|IN_USE_ADDRESSES|\blimit\b/i },
  { kind: 'stockout', names: ['RESOURCE_EXHAUSTED'] },
  // A 403 about the "quota project" of a login is no quota.
  { kind: 'permission', names: ['PERMISSION_DENIED'] },
  // A stale or missing login tells nothing about the cloud: it is as if nobody had answered.
  { kind: 'unreachable', names: ['UNAUTHENTICATED', 'UNAVAILABLE', 'DEADLINE_EXCEEDED'] },
  { kind: 'not_found', names: ['NOT_FOUND'] },
  // A node preempted while it was being made ends its create with code 3; the request was right and may be repeated.
  { kind: 'internal', names: ['INVALID_ARGUMENT'], words: /while in state/i },
  { kind: 'invalid', names: ['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'ALREADY_EXISTS'] },
  // FAILED_PRECONDITION among them: what state something is in may change, so asking again is right.
  { kind: 'internal' },
];

const sentences: Readonly<Record<CloudErrorKind, string>> = {
  stockout: 'no capacity there now',
  quota: 'your quota is used up; preempted nodes and suspended queued resources count too',
  rate_limited: 'too many requests to the API in a minute',
  permission: 'the right is missing, or the zone is not open to your project',
  invalid: 'the cloud refuses the request as it stands',
  not_found: 'the cloud knows no such thing',
  internal: 'the cloud failed inside',
  unreachable: 'the cloud did not answer',
};

export function classify(body: StatusBody): CloudError {
  const name = statusName(body);
  const message = body.message ?? '';
  const row = table.find(
    (one) =>
      (one.names === undefined || one.names.includes(name)) && (one.words === undefined || one.words.test(message)),
  );
  const kind = row?.kind ?? 'internal';
  return { kind, message: sentences[kind], raw: message === '' ? name : `${name}: ${message}` };
}

export function unanswered(sentence: string): CloudError {
  return { kind: 'unreachable', message: sentence, raw: sentence };
}

function withoutLogin(sentence: string): CloudError {
  return { ...unanswered(sentence), noLogin: true };
}

/** True where the cloud itself says that there is no such thing, or no such zone: then nothing is left to delete there. */

export function isNotThere({ status, error }: { readonly status: string; readonly error: CloudError }): boolean {
  return status === 'NOT_FOUND' || (error.kind === 'invalid' && /requested zone .* is not supported/i.test(error.raw));
}
