// API: requests to a cluster, with what every one of them needs: a second try where one is safe, lists in pages, and refusals
// as sentences. A second try is made here, and not paced by the core, because nobody supervises a job of a cluster: a
// command asks once and a person waits for the answer.

import type { IncomingMessage } from 'node:http';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { minute, second, type Duration } from '../../core/time.ts';
import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { readListHead, readListItems } from './list-shapes.ts';
import { LineError, wholeReply, type Connection, type LineRequest } from './connection.ts';
import type { Login } from './login.ts';
import type { Shape } from './protobuf.ts';
import { ClusterRefusal, readStatus, refusalOf, unreachable, type Status } from './status.ts';

/** How often and how long a request is made again. */
export interface Patience {
  readonly tries: number;
  /** Before the second try; doubled for each further one. */
  readonly first: Duration;
  /** The longest single wait, even where the cluster asks for more. */
  readonly most: Duration;
}

const usualPatience: Patience = { tries: 5, first: 0.25 * second, most: 5 * second };

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

/** A refusal is a few hundred bytes. */
const refusalMost = 1024 * 1024;

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
  /** Of a list: what is read of an item, where the cluster can tell it in its shorter form. */
  readonly shape?: Shape;
  /** The form of the answer, where it is not the objects whole. */
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
  /** `list jobs`, as it stands behind "could not". */
  readonly what: string;
}

/** A part of a list. */
export interface ApiPage<T> {
  readonly items: readonly T[];
  /** The version of the cluster that it is of; that of the first page, unless the list grew too old in the middle. */
  readonly resourceVersion: string;
}

/** Requests to one cluster. Failures are JobmanError; a refusal of the cluster is a ClusterRefusal. */
export interface Api {
  /** How soon and how long what was lost is taken up again. */
  readonly patience: Patience;
  /** The answer's object. */
  ask<T extends object>(request: ApiRequest): Promise<T>;
  /** The same; null for what is not there. */
  find<T extends object>(request: ApiRequest): Promise<T | null>;
  /** A list page by page: one at least, also of an empty list. `read` trims each item; an item that it cannot read ends the list. */
  pages<R extends object, T>(request: ApiRequest, read: (raw: R) => T): AsyncIterable<ApiPage<T>>;
  /** Does that; it is reported where it takes longer than two seconds. */
  reported<T>(request: Pick<ApiRequest, 'what'>, work: () => Promise<T>): Promise<T>;
  /** The body of a reply, as it comes. */
  stream(request: ApiRequest): Promise<IncomingMessage>;
  /** The result of `read` for an answer. Throws JobmanError if the answer is not one of an API server. */
  readAs<T>(request: Pick<ApiRequest, 'what'>, read: () => T): T;
  close(): void;
}

/** Whether the same request may be made again after that reply. What changes something may have been done already. */
function mayRepeat(method: string, code: number): boolean {
  if (code === 429) return true;
  return method === 'GET' && (code === 500 || (code >= 502 && code <= 504));
}

/** What one try came to. `after` is the header Retry-After. */
type Once<T> = { readonly value: T } | { readonly refused: Status; readonly after: string | undefined };

/** The requests of that login over that connection. */
export function createApi(
  connection: Connection,
  login: Login,
  place: ClusterPlace,
  {
    patience = usualPatience,
    lists: givenLists = {},
    onWait,
  }: {
    readonly patience?: Patience | undefined;
    readonly lists?: Partial<ListLimits> | undefined;
    /** Called with the request's `what`, which follows "could not" in messages, once a request takes longer than two seconds. */
    readonly onWait?: ((what: string) => void) | undefined;
  } = {},
): Api {
  const lists = { ...usualListLimits, ...givenLists };

  /** Tries again what may be tried again; the last answer is thrown as a sentence. */
  async function patiently<T>({ method = 'GET', signal, what }: ApiRequest, act: () => Promise<Once<T>>): Promise<T> {
    let hasRenewed = false;
    let hasLost = false;
    for (let attempt = 1; ; attempt += 1) {
      let answer: Once<T>;
      try {
        answer = await act();
      } catch (error) {
        if (!(error instanceof LineError)) throw error;
        // A kept connection that the server has closed meanwhile is no sign of anything.
        const isStale = error.reason === 'ECONNRESET' || error.reason === 'EPIPE';
        if (method !== 'GET' || !isStale || hasLost) throw unreachable(error, { place, what });
        hasLost = true;
        continue;
      }
      if ('value' in answer) return answer.value;
      const { refused: status, after } = answer;
      if (status.code === 401 && !hasRenewed && login.refused()) {
        hasRenewed = true;
        continue;
      }
      if (attempt >= patience.tries || !mayRepeat(method, status.code)) {
        throw refusalOf(status, { place, what, loginExpiredOn: status.code === 401 ? login.expiredOn() : null });
      }
      const asked = Number(after ?? status.details?.retryAfterSeconds ?? 0) * second;
      const wait = Math.max(patience.first * 2 ** (attempt - 1), Number.isFinite(asked) ? asked : 0);
      await sleep(Math.min(wait, patience.most), undefined, signal === undefined ? {} : { signal });
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
  const bodyOf = (request: ApiRequest): Promise<Body> =>
    reported(request, () =>
      patiently<Body>(request, async () => {
        const { status, headers, bytes } = await connection.send(lineOf(request));
        if (status >= 300) return { refused: readStatus(status, bytes), after: headers['retry-after'] };
        return { value: { bytes, isProtobuf: headers['content-type']?.startsWith(protobufType) === true } };
      }),
    );

  /** What a body is read as. Throws JobmanError for a page that somebody in between gave in the cluster's place. */
  function readAs<T>({ what }: Pick<ApiRequest, 'what'>, read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (error instanceof JobmanError) throw error;
      throw unreachable(new LineError('its answer is not that of an API server', true, null), { place, what });
    }
  }

  async function ask<T extends object>(request: ApiRequest): Promise<T> {
    const { bytes } = await bodyOf(request);
    return readAs(request, () => objectIn(JSON.parse(bytes.toString('utf8'))) as T);
  }

  /** Throws JobmanError for a list that goes on and on. */
  function endless({ what }: ApiRequest, why: string): JobmanError {
    return new JobmanError(
      `Could not ${what}: the list of ${place.context} (${place.server}) ${why}.`,
      exitCode.unreachable,
    );
  }

  return {
    patience,
    ask,
    readAs,
    async find<T extends object>(request: ApiRequest): Promise<T | null> {
      try {
        return await ask<T>(request);
      } catch (error) {
        if (error instanceof ClusterRefusal && error.status.code === 404) return null;
        throw error;
      }
    },
    async *pages<R extends object, T>(request: ApiRequest, read: (raw: R) => T): AsyncIterable<ApiPage<T>> {
      // Whoever leaves early has no use for the page that is on its way.
      const left = new AbortController();
      const timer = setTimeout(
        () => left.abort(endless(request, `has no end after ${lists.within / second} s`)),
        lists.within,
      );
      timer.unref();
      const signal = request.signal === undefined ? left.signal : AbortSignal.any([request.signal, left.signal]);
      const from = (token: string | undefined): Promise<Body> => {
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
          let body: Body;
          try {
            body = await coming;
          } catch (error) {
            // The list has grown too old to be gone on with as it was. The cluster says with what it goes on as it is now.
            const next =
              error instanceof ClusterRefusal && error.status.code === 410
                ? error.status.metadata?.continue
                : undefined;
            // Once: a server that answers so each time would be asked without end.
            if (hasRenewed || next === undefined || next === '' || next === token) throw error;
            hasRenewed = true;
            token = next;
            coming = from(token);
            continue;
          }
          const { metadata, items } = readAs(request, () => openPage<R>(body, request.shape));
          const before = token;
          token = metadata.continue;
          const isLast = token === undefined || token === '';
          count += 1;
          size += body.bytes.length;
          if (!isLast && (count >= lists.pages || token === before)) {
            throw endless(request, `has no end after ${count} pages`);
          }
          if (size > lists.bytes) throw endless(request, `is longer than ${lists.bytes / 1024 / 1024} MiB`);
          if (!isLast) {
            // The cluster makes the next page while this one is read.
            coming = from(token);
            await turn();
          }
          yield { items: readAs(request, () => items().map(read)), resourceVersion: metadata.resourceVersion ?? '' };
          if (isLast) return;
        }
      } finally {
        clearTimeout(timer);
        left.abort();
      }
    },
    // A node sends the beginning of its reply before there is a line of the log.
    stream: (request) =>
      reported(request, () =>
        patiently<IncomingMessage>(request, async () => {
          const incoming = await connection.open(lineOf(request));
          if ((incoming.statusCode ?? 0) < 300) return { value: incoming };
          const bytes = await wholeReply(incoming, refusalMost);
          return {
            refused: readStatus(incoming.statusCode ?? 0, bytes),
            after: incoming.headers['retry-after'],
          };
        }),
      ),
    reported,
    close: () => connection.close(),
  };
}

/** An answer's body, not yet read. */
interface Body {
  readonly bytes: Buffer;
  readonly isProtobuf: boolean;
}

/** How Kubernetes calls its binary form. */
const protobufType = 'application/vnd.kubernetes.protobuf';

/** A page of a list: its own words now, its items when they are asked for. */
interface OpenPage<T> {
  readonly metadata: { readonly continue?: string; readonly resourceVersion?: string };
  readonly items: () => readonly T[];
}

/** Throws for what is no object. */
function objectIn(value: unknown): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('not an object');
  return value;
}

/** Opens a page in either form. In JSON the items are read with the rest, as there is no beginning without the end. Throws for what is none. */
function openPage<T>({ bytes, isProtobuf }: Body, shape: Shape | undefined): OpenPage<T> {
  if (isProtobuf && shape !== undefined) {
    const { metadata, rest } = readListHead(bytes);
    return { metadata, items: () => readListItems<T>(rest, shape) };
  }
  const page = objectIn(JSON.parse(bytes.toString('utf8'))) as Partial<Pick<OpenPage<T>, 'metadata'>> & {
    readonly items?: readonly T[] | null;
  };
  const { metadata = {}, items } = page;
  if (items !== undefined && items !== null && !Array.isArray(items)) throw new TypeError('its items are no list');
  if (metadata.continue !== undefined && typeof metadata.continue !== 'string') throw new TypeError('no token');
  return { metadata, items: () => (items ?? []).map((item) => objectIn(item) as T) };
}

function lineOf({
  method = 'GET',
  path,
  query = {},
  body,
  type = 'application/json',
  shape,
  accept = shape === undefined ? undefined : `${protobufType}, application/json`,
  signal,
}: ApiRequest): LineRequest {
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
