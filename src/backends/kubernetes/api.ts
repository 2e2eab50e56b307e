// API: requests to a cluster, with what every one of them needs: a login that is renewed, lists in pages, and refusals as sentences. A
// second try is made here, and not paced by the core, because nobody supervises a job of a cluster: a command asks once and a
// person waits for the answer.

import type { IncomingMessage } from 'node:http';
import { type Duration, minute, second } from '../../core/time.ts';
import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { NoReply, type OpenReply, type Reply } from '../../http/reply.ts';
import type { RetryPolicy } from '../../http/client.ts';
import type { Connection, ConnectionRequest } from './connection.ts';
import type { Login } from './login.ts';
import { ClusterRefusal, readStatus, refusalOf, unreachable } from './status.ts';
import { setImmediate as turn } from 'node:timers/promises';

/** How a request is sent again unless told otherwise. Once more where a kept connection was closed by the server. */
export const usualRetry: RetryPolicy = { tries: 5, triesBroken: 2, first: 0.25 * second, most: 5 * second };

const slowAfter: Duration = 2 * second;

/** A request, and what it is for. */
export interface ApiRequest {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  readonly type?: string;
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
  /** `list jobs`, as it stands behind "could not". */
  readonly what: string;
}

/** Requests to one cluster. Failures are JobmanError; a refusal of the cluster is a ClusterRefusal. */
export type Api = ReturnType<typeof createApi>;

/** The requests of that login over that connection. */
export function createApi(
  connection: Connection,
  login: Login,
  place: ClusterPlace,
  {
    retry,
    lists,
    onWait,
  }: {
    readonly retry: RetryPolicy;
    readonly lists?: Partial<ListLimits> | undefined;
    /** Called with the request's `what`, which follows "could not" in messages, once a request takes longer than two seconds. */
    readonly onWait?: ((what: string) => void) | undefined;
  },
) {
  /**
   * The reply of `send`, which is called again with a new login if the login was refused. A refusal, and no reply, is thrown as a sentence.
   */
  async function answered<T extends { readonly status: number }>(
    what: string,
    send: () => Promise<T | Reply | NoReply>,
  ): Promise<T> {
    for (let hasRenewed = false; ; hasRenewed = true) {
      const reply = await send();
      if (reply instanceof NoReply) throw unreachable(reply, { place, what });
      if (reply.status < 300) return reply as T;
      const status = readStatus(reply.status, (reply as Reply).bytes);
      const isExpired = status.code === 401;
      if (isExpired && !hasRenewed && login.refused()) continue;
      throw refusalOf(status, { place, what, loginExpiredOn: isExpired ? login.expiredOn() : null });
    }
  }

  /** Reports work that takes longer than two seconds to `onWait`. */
  async function reported<T>({ what }: Pick<ApiRequest, 'what'>, work: () => Promise<T>): Promise<T> {
    const timer = onWait === undefined ? undefined : setTimeout(() => onWait(what), slowAfter);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
    }
  }

  async function bodyOf(request: ApiRequest): Promise<Buffer> {
    const send = () => answered<Reply>(request.what, () => connection.request(lineOf(request)));
    return (await reported(request, send)).bytes;
  }

  /** The result of `read` for an answer. Throws JobmanError if the answer is not one of an API server. */
  function readAs<T>({ what }: Pick<ApiRequest, 'what'>, read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (error instanceof JobmanError) throw error;
      throw unreachable(new NoReply('its answer is not that of an API server', true, null), { place, what });
    }
  }

  async function ask<T extends object>(request: ApiRequest): Promise<T> {
    const bytes = await bodyOf(request);
    return readAs(request, () => objectIn(JSON.parse(bytes.toString('utf8'))) as T);
  }

  return {
    /** How soon and how long what was lost is taken up again. */
    retry,
    /** The answer's object. */
    ask,
    answered,
    reported,
    readAs,
    /** The same; null for what is not there. */
    async find<T extends object>(request: ApiRequest): Promise<T | null> {
      try {
        return await ask<T>(request);
      } catch (error) {
        if (error instanceof ClusterRefusal && error.status.code === 404) return null;
        throw error;
      }
    },
    /** A list page by page: one at least, also of an empty list. `read` trims each item; an item that it cannot read ends the list. */
    pages: <R extends object, T>(request: ApiRequest, read: (raw: R) => T) =>
      readPages({ bodyOf, readAs, place, limits: lists }, request, read),
    /** The body of a reply, as it comes. */
    async stream(request: ApiRequest): Promise<IncomingMessage> {
      // A node sends the beginning of its reply before there is a line of the log.
      const send = () => answered<OpenReply>(request.what, () => connection.open(lineOf(request)));
      return (await reported(request, send)).stream;
    },
    close: () => connection.close(),
  };
}

function lineOf({
  method = 'GET',
  path,
  query = {},
  body,
  type = 'application/json',
  accept,
  signal,
}: ApiRequest): ConnectionRequest {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === false ? [] : [`${name}=${encodeURIComponent(String(value))}`],
  );
  return {
    method,
    path: pairs.length === 0 ? path : `${path}?${pairs.join('&')}`,
    signal,
    headers: {
      ...(accept === undefined ? {} : { accept }),
      ...(body === undefined ? {} : { 'content-type': type }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
}

// ------------------------------------------------------------------------------------------ lists

/** Objects on one page: the largest page is then 1.5 MB of Jobs. */
const pageSize = 500;

/** How much of a list is read. A server whose list never ends must not keep a command, or the controller, busy for ever. */
export interface ListLimits {
  /** Kubernetes is built for 150,000 pods: 300 pages. */
  readonly pages: number;
  /** Of all pages. A pod has up to 10 kB, so a cluster of 150,000 has 1.5 GB of them; one page at a time is in memory. */
  readonly bytes: number;
  readonly within: Duration;
}

const usualListLimits: ListLimits = { pages: 1000, bytes: 2048 * 1024 * 1024, within: 5 * minute };

interface ApiPage<T> {
  readonly items: readonly T[];
  /** The version of the cluster that it is of; that of the first page, unless the list grew too old in the middle. */
  readonly resourceVersion: string;
}

interface PageSource {
  readonly readAs: <T>(request: ApiRequest, read: () => T) => T;
  readonly bodyOf: (request: ApiRequest) => Promise<Buffer>;
  readonly place: ClusterPlace;
  readonly limits: Partial<ListLimits> | undefined;
}

async function* readPages<R extends object, T>(
  { bodyOf, readAs, place, limits }: PageSource,
  request: ApiRequest,
  read: (raw: R) => T,
): AsyncIterable<ApiPage<T>> {
  const most = { ...usualListLimits, ...limits };
  const endless = (why: string): JobmanError =>
    new JobmanError(
      `Could not ${request.what}: the list of ${place.context} (${place.server}) ${why}.`,
      exitCode.unreachable,
    );
  // A reader that leaves early has no use for the page that is on its way.
  const left = new AbortController();
  const timer = setTimeout(() => left.abort(endless(`has no end after ${most.within / second} s`)), most.within);
  timer.unref();
  const signal = request.signal === undefined ? left.signal : AbortSignal.any([request.signal, left.signal]);
  const from = (token: string | undefined): Promise<Buffer> => {
    const page = bodyOf({ ...request, signal, query: { ...request.query, limit: pageSize, continue: token } });
    // It is awaited below, though perhaps only after it has failed.
    page.catch(() => undefined);
    return page;
  };
  let token: string | undefined;
  let coming = from(token);
  let hasRenewed = false;
  let count = 0;
  let size = 0;
  try {
    for (;;) {
      let body: Buffer;
      try {
        body = await coming;
      } catch (error) {
        const next = renewedToken(error);
        // Once: a server that answers so each time would be asked without end.
        if (hasRenewed || next === undefined || next === token) throw error;
        hasRenewed = true;
        token = next;
        coming = from(token);
        continue;
      }
      const { metadata, items } = readAs(request, () => pageIn<R>(body));
      const before = token;
      token = metadata.continue;
      const isLast = token === undefined || token === '';
      count += 1;
      size += body.length;
      if (!isLast && (count >= most.pages || token === before)) throw endless(`has no end after ${count} pages`);
      if (size > most.bytes) throw endless(`is longer than ${most.bytes / 1024 / 1024} MiB`);
      if (!isLast) {
        // The cluster makes the next page while this one is read.
        coming = from(token);
        await turn();
      }
      yield { items: readAs(request, () => items.map(read)), resourceVersion: metadata.resourceVersion ?? '' };
      if (isLast) return;
    }
  } finally {
    clearTimeout(timer);
    left.abort();
  }
}

/** If the list has grown too old to go on with, the cluster says with which token it goes on as it is now. */
function renewedToken(error: unknown): string | undefined {
  const isTooOld = error instanceof ClusterRefusal && error.status.code === 410;
  const token = isTooOld ? error.status.metadata?.continue : undefined;
  return token === '' ? undefined : token;
}

function objectIn(value: unknown): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('not an object');
  return value;
}

function pageIn<T>(bytes: Buffer): {
  readonly metadata: { readonly continue?: string; readonly resourceVersion?: string };
  readonly items: readonly T[];
} {
  const page = objectIn(JSON.parse(bytes.toString('utf8'))) as Partial<ReturnType<typeof pageIn<T>>>;
  const { metadata = {}, items } = page;
  if (items !== undefined && items !== null && !Array.isArray(items)) throw new TypeError('its items are no list');
  if (metadata.continue !== undefined && typeof metadata.continue !== 'string') throw new TypeError('no token');
  return { metadata, items: (items ?? []).map((item) => objectIn(item) as T) };
}
