// Watches the Jobs or pods of a cluster. A cluster ends each watch after some minutes and may forget old versions
// (410): jobman then lists all again, and a missing object is gone.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes

import type { ClusterChange, ClusterQuery } from '../../app/cluster/cluster.ts';
import { pause } from '../../app/concurrency.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Duration } from '../../core/model/time.ts';
import type { Api } from './api.ts';
import { NoReply } from '../../http/reply.ts';
import { ClusterRefusal, readStatus } from './status.ts';

interface RawWatchEvent {
  readonly type?: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object?: {
    readonly metadata?: { readonly resourceVersion?: string; readonly uid?: string };
    readonly code?: number;
  };
}

interface WatchRequest<T> {
  readonly path: string;
  readonly query: ClusterQuery;
  /** `watch jobs`: the messages continue "Could not" with it. */
  readonly purpose: string;
  readonly read: (raw: object) => T;
}

/** During an outage the longest pause is this many times the longest retry delay, to spare a cluster that is down. */
const outagePauseFactor = 3;
const maxObjects = 200_000;

/**
 * Yields every object, then `synced`, then each change, until the signal aborts; after a 410 again from the start. It
 * misses no change between two connections. Rejects only for a refusal that a person has to fix (401, 403, 404).
 */
export async function* watchAll<T extends { readonly uid: string }>(
  api: Api,
  request: WatchRequest<T>,
): AsyncIterable<ClusterChange<T>> {
  const { path, purpose } = request;
  const { initialDelay, maxDelay } = api.retry;
  const { signal } = request.query;
  const query = selectorsOf(request.query);
  const objects = new Map<string, T>();
  let isLost = false;
  let failures = 0;
  let syncedAt: number | undefined;
  /** Waits before a new list. The pause grows while watches end at once, even if they report changes. */
  const backOff = async (longest: Duration): Promise<void> => {
    if (syncedAt !== undefined && performance.now() - syncedAt > longest) failures = 0;
    await pause(Math.min(initialDelay * 2 ** failures, longest), signal);
    failures += 1;
  };
  while (!isAborted(signal)) {
    syncedAt = undefined;
    try {
      let version: string | undefined;
      const seen = new Set<string>();
      for await (const page of api.listPages({ path, query, signal, purpose }, request.read)) {
        // The first page's version: later pages of an expired list are newer, and the watch repeats the changes in
        // between.
        version ??= page.resourceVersion;
        for (const object of page.items) {
          seen.add(object.uid);
          objects.set(object.uid, object);
          yield { kind: 'changed', object };
        }
      }
      for (const [uid, object] of objects) {
        if (seen.has(uid)) continue;
        objects.delete(uid);
        yield { kind: 'gone', object };
      }
      yield { kind: 'synced' };
      if (isLost) yield { kind: 'lost', why: null };
      isLost = false;
      syncedAt = performance.now();
      yield* changesFrom(api, request, version ?? '', objects);
      await backOff(maxDelay);
    } catch (error) {
      if (isAborted(signal)) return;
      if (error instanceof ClusterRefusal && [401, 403, 404].includes(error.status.code)) throw error;
      // The cluster answers, so this is not an outage.
      if (error instanceof ClusterRefusal && error.status.code === 410) {
        await backOff(maxDelay);
        continue;
      }
      if (!(error instanceof JobmanError) && !isConnectionError(error)) throw error;
      if (!isLost)
        yield {
          kind: 'lost',
          why: error instanceof JobmanError ? (error.lines[0] ?? error.message) : 'the connection was lost',
        };
      isLost = true;
      await backOff(maxDelay * outagePauseFactor);
    }
  }
}

async function* changesFrom<T extends { readonly uid: string }>(
  api: Api,
  request: WatchRequest<T>,
  from: string,
  objects: Map<string, T>,
): AsyncIterable<ClusterChange<T>> {
  const { signal } = request.query;
  const { initialDelay, maxDelay } = api.retry;
  const query = selectorsOf(request.query);
  let version = from;
  /** Connections in a row that ended soon: the pause grows for a server that closes each one at once. */
  let shortConnections = 0;
  while (!isAborted(signal)) {
    const startedAt = performance.now();
    const body = await api.stream({
      path: request.path,
      query: { ...query, watch: true, allowWatchBookmarks: true, resourceVersion: version },
      signal,
      purpose: request.purpose,
    });
    try {
      for await (const line of splitLines(body)) {
        const { type, object = {} } = api.parseAnswer(request, () =>
          parseWatchEvent(JSON.parse(line.toString('utf8'))),
        );
        if (type === 'ERROR') {
          const status = readStatus(object.code ?? 500, Buffer.from(JSON.stringify(object)));
          if (status.code === 410) return;
          break;
        }
        version = object.metadata?.resourceVersion ?? version;
        request.query.onActivity?.();
        if (type === 'BOOKMARK') continue;
        const read = api.parseAnswer(request, () => request.read(object));
        if (type === 'DELETED') objects.delete(read.uid);
        else objects.set(read.uid, read);
        if (objects.size > maxObjects) {
          throw new JobmanError(
            `Could not ${request.purpose}: the cluster has more than ${maxObjects} of them.`,
            exitCode.failed,
          );
        }
        yield { kind: type === 'DELETED' ? 'gone' : 'changed', object: read };
      }
    } catch (error) {
      if (!isConnectionError(error)) throw error;
    } finally {
      body.destroy();
    }
    if (performance.now() - startedAt > maxDelay) shortConnections = 0;
    await pause(Math.min(initialDelay * 2 ** shortConnections, maxDelay), signal);
    shortConnections += 1;
  }
}

function parseWatchEvent(value: unknown): RawWatchEvent {
  if (typeof value !== 'object' || value === null) throw new TypeError('no change');
  const { object = {} } = value as RawWatchEvent;
  if (typeof object !== 'object' || object === null) throw new TypeError('no object');
  return value;
}

function selectorsOf({ labels, name }: ClusterQuery): Readonly<Record<string, string | undefined>> {
  return { labelSelector: labels, fieldSelector: name === undefined ? undefined : `metadata.name=${name}` };
}

/** True if the connection broke during a reply: Node's own errors, or half a line of JSON. */
function isConnectionError(error: unknown): boolean {
  if (error instanceof JobmanError) return false;
  return error instanceof SyntaxError || error instanceof NoReply || (error instanceof Error && 'code' in error);
}

/** A line of a watch is one object, and etcd keeps objects below 1.5 MiB. */
const maxLineBytes = 16 * 1024 * 1024;

/** The lines of a body without their ends. Throws NoReply for a line longer than `maxBytes`. */
export async function* splitLines(body: AsyncIterable<Uint8Array>, maxBytes = maxLineBytes): AsyncIterable<Buffer> {
  let pending: Buffer[] = [];
  let size = 0;
  for await (const piece of body) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    let from = 0;
    for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
      const part = bytes.subarray(from, end);
      yield pending.length === 0 ? part : Buffer.concat([...pending, part]);
      pending = [];
      size = 0;
      from = end + 1;
    }
    if (from === bytes.length) continue;
    pending.push(bytes.subarray(from));
    size += bytes.length - from;
    if (size > maxBytes)
      throw new NoReply(`a line of the answer is longer than ${maxBytes / 1024 / 1024} MiB`, true, null);
  }
  if (pending.length > 0) yield Buffer.concat(pending);
}

const lineEnd = 0x0a;

export function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}
