// Watch: what changes among the Jobs or pods of a cluster, over connections that end. A cluster closes a watch after some minutes
// as a matter of course, and forgets old versions (410); then all is listed again, and what is missing in that list is gone.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes

import type { ClusterChange, ClusterQuery } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Duration } from '../../core/time.ts';
import type { Api } from './api.ts';
import { NoReply } from '../../http/reply.ts';
import { ClusterRefusal, readStatus } from './status.ts';
import { setTimeout as sleep } from 'node:timers/promises';

interface RawChange {
  readonly type?: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object?: {
    readonly metadata?: { readonly resourceVersion?: string; readonly uid?: string };
    readonly code?: number;
  };
}

interface Watched<T> {
  readonly path: string;
  readonly query: ClusterQuery;
  /** `watch jobs`, as it stands behind "could not". */
  readonly what: string;
  readonly read: (raw: object) => T;
}

/** The longest pause before a lost watch is taken up again, in those of a request: a cluster that is down is left alone. */
const pausesMost = 3;
/** Objects that a watch holds; as many as a list may have. */
const heldMost = 200_000;

/**
 * All that is there, then `synced`, then each change, until the signal; and all of it anew when the cluster has forgotten where it
 * was. What happened between two connections is told too.
 * Rejects only with what cannot mend itself: a missing right, a login that is refused.
 */
export async function* watchAll<T extends { readonly uid: string }>(
  api: Api,
  watched: Watched<T>,
): AsyncIterable<ClusterChange<T>> {
  const { path, what } = watched;
  const { first, most } = api.retry;
  const { signal, onLost } = watched.query;
  const query = selectorsOf(watched.query);
  const held = new Map<string, T>();
  let isLost = false;
  /** Watches in a row that ended soon after their list. */
  let failures = 0;
  let syncedAt: number | undefined;
  /** Before all is listed again: a cluster whose watches end at once each time, whatever they tell, is asked ever more seldom. */
  const breath = async (longest: Duration): Promise<void> => {
    if (syncedAt !== undefined && performance.now() - syncedAt > longest) failures = 0;
    await rest(Math.min(first * 2 ** failures, longest), signal);
    failures += 1;
  };
  while (!hasLeft(signal)) {
    syncedAt = undefined;
    try {
      let version: string | undefined;
      const seen = new Set<string>();
      for await (const page of api.pages({ path, query, signal, what }, watched.read)) {
        // Later pages of a list that grew too old are of later versions; what happened in between the watch then tells again.
        version ??= page.resourceVersion;
        for (const object of page.items) {
          seen.add(object.uid);
          held.set(object.uid, object);
          yield { kind: 'changed', object };
        }
      }
      for (const [uid, object] of held) {
        if (seen.has(uid)) continue;
        held.delete(uid);
        yield { kind: 'gone', object };
      }
      yield { kind: 'synced' };
      if (isLost) onLost?.(null);
      isLost = false;
      syncedAt = performance.now();
      yield* changesFrom(api, watched, version ?? '', held);
      await breath(most);
    } catch (error) {
      if (hasLeft(signal)) return;
      if (error instanceof ClusterRefusal && [401, 403, 404].includes(error.status.code)) throw error;
      // It answers, and has forgotten where the watch was.
      if (error instanceof ClusterRefusal && error.status.code === 410) {
        await breath(most);
        continue;
      }
      if (!(error instanceof JobmanError) && !isBroken(error)) throw error;
      if (!isLost) onLost?.(error instanceof JobmanError ? (error.lines[0] ?? error.message) : 'the line broke off');
      isLost = true;
      await breath(most * pausesMost);
    }
  }
}

/** Until the versions that it goes on from are forgotten. */
async function* changesFrom<T extends { readonly uid: string }>(
  api: Api,
  watched: Watched<T>,
  from: string,
  held: Map<string, T>,
): AsyncIterable<ClusterChange<T>> {
  const { signal } = watched.query;
  const { first, most } = api.retry;
  const query = selectorsOf(watched.query);
  let version = from;
  /** Connections in a row that ended soon: a server that closes each at once is asked ever more seldom. */
  let brief = 0;
  while (!hasLeft(signal)) {
    const begunAt = performance.now();
    const body = await api.stream({
      path: watched.path,
      query: { ...query, watch: true, allowWatchBookmarks: true, resourceVersion: version },
      signal,
      what: watched.what,
    });
    try {
      for await (const line of linesOf(body)) {
        const { type, object = {} } = api.readAs(watched, () => changeIn(JSON.parse(line.toString('utf8'))));
        if (type === 'ERROR') {
          const status = readStatus(object.code ?? 500, Buffer.from(JSON.stringify(object)));
          if (status.code === 410) return;
          break;
        }
        version = object.metadata?.resourceVersion ?? version;
        watched.query.onHeard?.();
        if (type === 'BOOKMARK') continue;
        const read = api.readAs(watched, () => watched.read(object));
        if (type === 'DELETED') held.delete(read.uid);
        else held.set(read.uid, read);
        if (held.size > heldMost) {
          throw new JobmanError(`Could not ${watched.what}: there are more than ${heldMost} of them.`, exitCode.failed);
        }
        yield { kind: type === 'DELETED' ? 'gone' : 'changed', object: read };
      }
    } catch (error) {
      if (!isBroken(error)) throw error;
    } finally {
      body.destroy();
    }
    if (performance.now() - begunAt > most) brief = 0;
    await rest(Math.min(first * 2 ** brief, most), signal);
    brief += 1;
  }
}

function changeIn(value: unknown): RawChange {
  if (typeof value !== 'object' || value === null) throw new TypeError('no change');
  const { object = {} } = value as RawChange;
  if (typeof object !== 'object' || object === null) throw new TypeError('no object');
  return value;
}

function selectorsOf({ labels, name }: ClusterQuery): Readonly<Record<string, string | undefined>> {
  return { labelSelector: labels, fieldSelector: name === undefined ? undefined : `metadata.name=${name}` };
}

/** The line broke in the middle of a reply: Node's own errors, and half a line of JSON. */
function isBroken(error: unknown): boolean {
  if (error instanceof JobmanError) return false;
  return error instanceof SyntaxError || error instanceof NoReply || (error instanceof Error && 'code' in error);
}

/** A line of a watch is one object, which etcd keeps below 1.5 MiB. */
const lineMost = 16 * 1024 * 1024;

/** Each line without its end; the last one too where it has no end. Throws NoReply for a line that does not end. */
export async function* linesOf(body: AsyncIterable<Uint8Array>, most = lineMost): AsyncIterable<Buffer> {
  let rest: Buffer[] = [];
  let size = 0;
  for await (const piece of body) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    let from = 0;
    for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
      const part = bytes.subarray(from, end);
      yield rest.length === 0 ? part : Buffer.concat([...rest, part]);
      rest = [];
      size = 0;
      from = end + 1;
    }
    if (from === bytes.length) continue;
    rest.push(bytes.subarray(from));
    size += bytes.length - from;
    if (size > most) throw new NoReply(`a line of its answer is longer than ${most / 1024 / 1024} MiB`, true, null);
  }
  if (rest.length > 0) yield Buffer.concat(rest);
}

const lineEnd = 0x0a;

/** Whether nobody wants any more of it. */
export function hasLeft(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** Resolves after that time, or as soon as the signal says so. Never rejects. */
export async function rest(length: Duration, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(length, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    if (!hasLeft(signal)) throw error;
  }
}
