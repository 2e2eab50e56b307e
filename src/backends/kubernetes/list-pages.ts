// List pages: a list of a cluster, which comes in pages. The cluster makes the next page while one is read.

import { setImmediate as turn } from 'node:timers/promises';
import { minute, second, type Duration } from '../../core/time.ts';
import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Api, ApiRequest } from './api.ts';
import { ClusterRefusal } from './status.ts';

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

/** A part of a list. */
export interface ApiPage<T> {
  readonly items: readonly T[];
  /** The version of the cluster that it is of; that of the first page, unless the list grew too old in the middle. */
  readonly resourceVersion: string;
}

/** The parts of the API that reading a list uses. */
export interface PageSource extends Pick<Api, 'readAs'> {
  readonly bodyOf: (request: ApiRequest) => Promise<Buffer>;
  readonly place: ClusterPlace;
  readonly limits: Partial<ListLimits> | undefined;
}

/** The pages of Api. */
export async function* readPages<R extends object, T>(
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

/** Throws for what is no object. */
export function objectIn(value: unknown): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('not an object');
  return value;
}

/** Throws for what is no page of a list. */
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
