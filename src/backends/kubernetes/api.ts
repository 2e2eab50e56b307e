// API: requests to a cluster, with what every one of them needs: a login that is renewed, lists in pages, and refusals as sentences. A
// second try is made here, and not paced by the core, because nobody supervises a job of a cluster: a command asks once and a
// person waits for the answer.

import type { IncomingMessage } from 'node:http';
import { second, type Duration } from '../../core/time.ts';
import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { JobmanError } from '../../app/errors.ts';
import { NoReply, type OpenReply, type Reply } from '../../http/reply.ts';
import type { RetryPolicy } from '../../http/retry.ts';
import type { Connection, ConnectionRequest } from './connection.ts';
import { objectIn, readPages, type ApiPage, type ListLimits } from './list-pages.ts';
import type { Login } from './login.ts';
import { ClusterRefusal, readStatus, refusalOf, unreachable } from './status.ts';

/** How a request is sent again unless told otherwise. Once more where a kept connection was closed by the server. */
export const usualRetry: RetryPolicy = { tries: 5, triesBroken: 2, first: 0.25 * second, most: 5 * second };

/** A request that takes longer is reported to `onWait`. */
const slowAfter: Duration = 2 * second;

/** A request, and what it is for. */
export interface ApiRequest {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  /** Of the body; JSON unless told. */
  readonly type?: string;
  /** The form of the answer, where it is not the objects whole. */
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
  /** `list jobs`, as it stands behind "could not". */
  readonly what: string;
}

/** Requests to one cluster. Failures are JobmanError; a refusal of the cluster is a ClusterRefusal. */
export interface Api {
  /** How soon and how long what was lost is taken up again. */
  readonly retry: RetryPolicy;
  /** The answer's object. */
  ask<T extends object>(request: ApiRequest): Promise<T>;
  /** The same; null for what is not there. */
  find<T extends object>(request: ApiRequest): Promise<T | null>;
  /** A list page by page: one at least, also of an empty list. `read` trims each item; an item that it cannot read ends the list. */
  pages<R extends object, T>(request: ApiRequest, read: (raw: R) => T): AsyncIterable<ApiPage<T>>;
  /** Does that; it is reported where it takes longer than two seconds. */
  reported<T>(request: Pick<ApiRequest, 'what'>, work: () => Promise<T>): Promise<T>;
  /**
   * The reply that `send` ends with, which is sent again with a new login if the login was refused. A refusal, and no reply, is thrown as a
   * sentence.
   */
  answered<T extends { readonly status: number }>(what: string, send: () => Promise<T | Reply | NoReply>): Promise<T>;
  /** The body of a reply, as it comes. */
  stream(request: ApiRequest): Promise<IncomingMessage>;
  /** The result of `read` for an answer. Throws JobmanError if the answer is not one of an API server. */
  readAs<T>(request: Pick<ApiRequest, 'what'>, read: () => T): T;
  close(): void;
}

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
    /** That of the connection. */
    readonly retry: RetryPolicy;
    readonly lists?: Partial<ListLimits> | undefined;
    /** Called with the request's `what`, which follows "could not" in messages, once a request takes longer than two seconds. */
    readonly onWait?: ((what: string) => void) | undefined;
  },
): Api {
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

  /** Reports work that takes longer than two seconds. */
  async function reported<T>({ what }: Pick<ApiRequest, 'what'>, work: () => Promise<T>): Promise<T> {
    const timer = onWait === undefined ? undefined : setTimeout(() => onWait(what), slowAfter);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
    }
  }

  /** The body of the answer. */
  async function bodyOf(request: ApiRequest): Promise<Buffer> {
    const send = (): Promise<Reply> => answered<Reply>(request.what, () => connection.request(lineOf(request)));
    return (await reported(request, send)).bytes;
  }

  /** The result of `read`. Throws JobmanError for a page of a proxy instead of the cluster's answer. */
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
    retry,
    ask,
    answered,
    readAs,
    async find<T extends object>(request: ApiRequest): Promise<T | null> {
      try {
        return await ask<T>(request);
      } catch (error) {
        if (error instanceof ClusterRefusal && error.status.code === 404) return null;
        throw error;
      }
    },
    pages: (request, read) => readPages({ bodyOf, readAs, place, limits: lists }, request, read),
    // A node sends the beginning of its reply before there is a line of the log.
    async stream(request) {
      const { stream } = await reported(request, () =>
        answered<OpenReply>(request.what, () => connection.open(lineOf(request))),
      );
      return stream;
    },
    reported,
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
