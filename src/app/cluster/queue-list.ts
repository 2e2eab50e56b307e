// The published list of active jobs: what `jobman queue --publish` writes into a ConfigMap for those who may not list the jobs of
// the whole cluster. It is the form that the older jobman's CronJob wrote, `{ updated, jobs: [{ namespace, name, updated,
// resources: { flavor, requests } }] }` under a key that is called like the ConfigMap; what is beside that is ours, and a
// list without it is read too.

import { gunzipSync, gzipSync } from 'node:zlib';
import type { Instant } from '../../core/time.ts';
import { exitCode, JobmanError } from '../errors.ts';
import type { Amounts } from './flavor.ts';
import type { QueuedJob, QueueState } from './queue.ts';

/** A ConfigMap holds a mebibyte (https://kubernetes.io/docs/concepts/configuration/configmap/); a little is left for its name and labels. */
const most = 1_000_000;
/** A list of some hundred thousand jobs; what unpacks to more is none of ours. */
const unpackedMost = 64 * 1024 * 1024;

/** Follows the name of the ConfigMap in the key of a compressed list: gzip, as base64. */
const packed = '.gz';

/** A list that was read. */
export interface PublishedQueue {
  /** Null where it says no moment. */
  readonly updatedAt: Instant | null;
  readonly jobs: readonly QueuedJob[];
  /** Entries that are none, and were left out. */
  readonly unread: number;
}

/**
 * The data of the ConfigMap of that name. Whose the jobs are is left out: everybody in the cluster reads it. A list that is
 * too large is packed. Throws JobmanError when it does not fit even then.
 */
export function queueData(
  configmap: string,
  jobs: readonly QueuedJob[],
  now: Instant,
): Readonly<Record<string, string>> {
  const updated = new Date(now).toISOString();
  const text = JSON.stringify({ updated, jobs: jobs.map((job) => entryOf(job, updated)) });
  if (Buffer.byteLength(text) <= most) return { [configmap]: text };
  const small = gzipSync(text).toString('base64');
  if (small.length <= most) return { [`${configmap}${packed}`]: small };
  throw new JobmanError(
    `The list of ${jobs.length} active jobs is larger than a ConfigMap may be; nothing was published.`,
    exitCode.failed,
  );
}

function entryOf(job: QueuedJob, updated: string): object {
  const { namespace, name, flavor, requests, state, pods, createdAt, priority, queue } = job;
  return {
    namespace,
    name,
    updated,
    resources: { flavor, requests },
    state,
    created: new Date(createdAt).toISOString(),
    ...(pods === 1 ? {} : { pods }),
    ...(priority === 0 ? {} : { priority }),
    ...(queue === null ? {} : { queue }),
  };
}

/** The list that the data hold; undefined where they hold none. Whatever is not as it should be is left out and counted. */
export function publishedQueue(configmap: string, data: Readonly<Record<string, string>>): PublishedQueue | undefined {
  const list = objectIn(textIn(configmap, data));
  if (list === undefined || !Array.isArray(list['jobs'])) return undefined;
  const entries = list['jobs'] as readonly unknown[];
  const jobs = entries.flatMap((entry) => readEntry(entry) ?? []);
  return { updatedAt: momentIn(list['updated']), jobs, unread: entries.length - jobs.length };
}

function textIn(configmap: string, data: Readonly<Record<string, string>>): string {
  const small = data[`${configmap}${packed}`];
  if (small === undefined) return data[configmap] ?? '';
  try {
    return gunzipSync(Buffer.from(small, 'base64'), { maxOutputLength: unpackedMost }).toString('utf8');
  } catch {
    return '';
  }
}

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Readonly<Record<string, unknown>>) : undefined;
}

function readEntry(value: unknown): QueuedJob | undefined {
  const entry = objectOf(value);
  if (entry === undefined) return undefined;
  const { namespace, name, state, pods, priority, queue } = entry;
  if (typeof namespace !== 'string' || typeof name !== 'string') return undefined;
  const { flavor, requests } = objectOf(entry['resources']) ?? {};
  return {
    namespace,
    name,
    flavor: typeof flavor === 'string' && flavor !== '' ? flavor : null,
    requests: amountsIn(requests),
    owner: null,
    state: isState(state) ? state : 'unknown',
    pods: typeof pods === 'number' && Number.isSafeInteger(pods) && pods > 0 ? pods : 1,
    createdAt: momentIn(entry['created']) ?? momentIn(entry['updated']) ?? 0,
    priority: typeof priority === 'number' ? priority : 0,
    queue: typeof queue === 'string' ? queue : null,
  };
}

function isState(value: unknown): value is QueueState {
  return value === 'waiting' || value === 'running';
}

/** Amounts may be numbers, as Kubernetes takes them in JSON too. */
function amountsIn(value: unknown): Amounts {
  const amounts = Object.entries(objectOf(value) ?? {}).filter(
    ([, amount]) => typeof amount === 'string' || typeof amount === 'number',
  );
  return Object.fromEntries(amounts.map(([name, amount]) => [name, String(amount)]));
}

function momentIn(value: unknown): Instant | null {
  const at = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}
