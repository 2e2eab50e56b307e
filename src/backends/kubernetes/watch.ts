// Watch: what changes among the Jobs of a cluster, over connections that end. A cluster closes a watch after some minutes
// as a matter of course, and forgets old versions (410); then all is listed again, and what is missing in that list is gone.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes

import { second, type Duration } from '../../core/time.ts';
import type { ClusterChange, ClusterJob } from '../../app/cluster/cluster.ts';
import { JobmanError } from '../../app/errors.ts';
import type { Api } from './api.ts';
import { linesOf } from './lines.ts';
import { hasLeft, rest } from './rest.ts';
import { ClusterRefusal, readStatus } from './status.ts';

/** What a watch tells, on the wire. */
interface RawChange {
  readonly type?: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object?: {
    readonly metadata?: { readonly resourceVersion?: string; readonly uid?: string };
    readonly code?: number;
  };
}

/** The list to be watched. */
export interface Watched {
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
  /** `watch jobs`, as it stands behind "could not". */
  readonly what: string;
  readonly read: (raw: object) => ClusterJob;
}

/** Before a lost watch is taken up again: doubled for each time in a row, so that a cluster that is down is left alone. */
const pause: { readonly first: Duration; readonly most: Duration } = { first: 0.25 * second, most: 15 * second };

/**
 * All that is there, then `synced`, then each change, until the signal. What happened between two connections is told too.
 * Rejects only with what cannot mend itself: a missing right, a login that is refused.
 */
export async function* watchJobs(api: Api, watched: Watched): AsyncIterable<ClusterChange> {
  const { signal } = watched;
  const held = new Map<string, ClusterJob>();
  let isSynced = false;
  let losses = 0;
  while (!hasLeft(signal)) {
    try {
      let version: string | undefined;
      const seen = new Set<string>();
      const { path, query, what } = watched;
      for await (const page of api.pages<object>({ path, query, signal, what })) {
        // Later pages of a list that grew too old are of later versions; what happened in between the watch then tells again.
        version ??= page.resourceVersion;
        for (const raw of page.items) {
          const job = watched.read(raw);
          seen.add(job.uid);
          held.set(job.uid, job);
          yield { kind: 'changed', job };
        }
      }
      for (const [uid, job] of held) {
        if (seen.has(uid)) continue;
        held.delete(uid);
        yield { kind: 'gone', job };
      }
      if (!isSynced) yield { kind: 'synced' };
      isSynced = true;
      losses = 0;
      yield* changesFrom(api, watched, version ?? '', held);
      // Nor is a cluster that forgets at once to be asked without a breath in between.
      await rest(pause.first, signal);
    } catch (error) {
      if (hasLeft(signal)) return;
      if (error instanceof ClusterRefusal && [401, 403, 404].includes(error.status.code)) throw error;
      if (!(error instanceof JobmanError) && !isBroken(error)) throw error;
      await rest(Math.min(pause.first * 2 ** losses, pause.most), signal);
      losses += 1;
    }
  }
}

/** Until the versions that it goes on from are forgotten. */
async function* changesFrom(
  api: Api,
  watched: Watched,
  from: string,
  held: Map<string, ClusterJob>,
): AsyncIterable<ClusterChange> {
  let version = from;
  while (!hasLeft(watched.signal)) {
    const body = await api.stream({
      path: watched.path,
      query: { ...watched.query, watch: true, allowWatchBookmarks: true, resourceVersion: version },
      signal: watched.signal,
      what: watched.what,
    });
    try {
      for await (const line of linesOf(body)) {
        const { type, object = {} } = JSON.parse(line.toString('utf8')) as RawChange;
        if (type === 'ERROR') {
          const status = readStatus(object.code ?? 500, JSON.stringify(object));
          if (status.code === 410) return;
          break;
        }
        version = object.metadata?.resourceVersion ?? version;
        if (type === 'BOOKMARK') continue;
        const job = watched.read(object);
        if (type === 'DELETED') held.delete(job.uid);
        else held.set(job.uid, job);
        yield { kind: type === 'DELETED' ? 'gone' : 'changed', job };
      }
    } catch (error) {
      if (!isBroken(error)) throw error;
    } finally {
      body.destroy();
    }
    await rest(pause.first, watched.signal);
  }
}

/** The line broke in the middle of a reply: Node's own errors, and half a line of JSON. */
function isBroken(error: unknown): boolean {
  return error instanceof SyntaxError || (error instanceof Error && 'code' in error);
}
