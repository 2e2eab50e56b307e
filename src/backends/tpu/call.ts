// One call to a Google API: sent, answered, and told apart. Nothing here throws for what the cloud or the line does.
// Four ends lead to four different acts: a value, a refusal, "it was never sent", and "nobody knows whether it happened".

import { JobmanError } from '../../app/errors.ts';
import { fits } from '../../app/form.ts';
import type { CloudError } from '../../core/job.ts';
import { second } from '../../core/time.ts';
import type { Duration } from '../../core/time.ts';
import { createHttpClient } from '../../http/client.ts';
import type { Environment } from '../../http/proxy.ts';
import { NoReply } from '../../http/reply.ts';
import { classify, statusName, unanswered, withoutLogin } from './errors.ts';
import type { StatusBody } from './errors.ts';
import { forms } from './forms.ts';

/**
 * The outcome of a call. `status` is the canonical name of the cloud's error (`NOT_FOUND`, `ALREADY_EXISTS`).
 * `NOT_SENT`: the request cannot have reached the cloud. `NO_ANSWER`: it may have, and may have taken effect.
 */
export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: string; readonly error: CloudError };

/** One try, and the login that was refused with it. */
interface Try<T> {
  readonly answer: Answer<T>;
  readonly refused?: Headers;
  /** The length of the reply, where one came. */
  readonly size?: number;
}

/** One request; `timeoutMs` is the longest wait for its answer where it is not the usual one. */
interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly timeoutMs?: Duration;
}

/** A whole list, with the zones that could not be asked. */
export interface Listing<T> {
  readonly items: readonly T[];
  readonly unreachable: readonly string[];
}

/** Header names in small letters, and their values. */
export type Headers = Readonly<Record<string, string>>;

/** There is no login that the cloud accepts; the message says how to log in. */
export class NoLogin extends JobmanError {}

/** The login for each call. */
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
/** Longest time for all pages of a list, as a multiple of the time for one answer. */
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
  /** May name a proxy. */
  readonly env: Environment;
  /** Longest wait for one answer. */
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
      const sentence = sentenceOf(error);
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
  if (!fits(body, forms.failure)) {
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

function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}
