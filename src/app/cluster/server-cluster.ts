// The cluster of a server, over its API: the `Cluster` of the commands, whose changes the server performs.

import type { V1Job } from '@kubernetes/client-node';
import { second, type Duration } from '../../core/model/time.ts';
import type { Cluster, ClusterChange, ClusterContext, ClusterLogQuery, ClusterQuery, JobIdentity } from './cluster.ts';
import { createTailBuffer, withoutTimestamps } from './archived-lines.ts';
import type { ClusterClient, KubernetesObject, ObjectQuery, PodLogQuery } from './cluster-client.ts';
import { pause, unlessAborted, untilAborted } from '../concurrency.ts';
import type { Client } from '../client.ts';
import { exitCode, isNotFoundError, JobmanError } from '../errors.ts';
import type { ClusterJob } from './objects.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { CommandStep, PerformedCommand, PerformOptions } from '../command-steps.ts';
import type { Services } from '../services.ts';
import type { ClusterSettings, LoadedClusterSettings } from './settings.ts';

/** The programs of a pod, its ports and its files. */
export type PodStreams = Pick<Cluster, 'exec' | 'attach' | 'put' | 'get' | 'tunnel'>;

const slowAfter: Duration = 2 * second;

/** The parts of a cluster job's source that a server performs: it registers, archives and completes what is submitted. */
export function createServerParts(api: ClusterClient, client: Pick<Client, 'installationId' | 'wake'>) {
  let site: ReturnType<typeof api.site> | undefined;
  let settings: Promise<LoadedClusterSettings> | undefined;
  const readSite = () => (site ??= api.site());
  return {
    isClusterConfigured: async () => (await readSite()).isConfigured,
    clusterSettings: () =>
      (settings ??= api.settings().then((values) => ({
        settings: values as object as ClusterSettings,
        sources: new Map(),
      }))),
    async clusterSubmissions() {
      const nothing = () => Promise.resolve(null);
      return {
        isUsed: (await readSite()).hasSubmitted,
        registerContext: async () => (await client.installationId()) ?? '',
        preload: async () => undefined,
        recordSubmitted: nothing,
        wake: () => client.wake(),
        close: async () => undefined,
      };
    },
  } satisfies Partial<Services>;
}

/** Opened in the namespace of that context. `onWait` is called once if an answer takes longer than two seconds. */
export function createServerCluster(
  api: ClusterClient,
  at: ClusterContext,
  streams: PodStreams,
  onWait: () => void = () => undefined,
): Cluster {
  const { context, namespace } = at;
  let hasNoted = false;
  async function timed<T>(work: Promise<T>): Promise<T> {
    const timer = setTimeout(() => {
      if (!hasNoted) onWait();
      hasNoted = true;
    }, slowAfter);
    return work.finally(() => clearTimeout(timer));
  }
  const list = <Query extends ClusterQuery, T>(
    read: (at: string, namespace: string, query: Query & ObjectQuery) => AsyncIterable<T>,
    query: Query,
  ): AsyncIterable<T> =>
    untilAborted(
      read(context, query.namespace ?? namespace, withoutLocal(query)),
      query.signal,
      // An incomplete list must not be used.
      (signal) => Promise.reject(signal.reason as Error),
      timed,
    );
  const follow = <T>(
    values: AsyncIterable<T>,
    { signal }: { readonly signal?: AbortSignal | undefined },
  ): AsyncIterable<T> => untilAborted(values, signal, () => Promise.resolve());
  async function* perform(
    { name, uid }: JobIdentity,
    command: PerformedCommand,
    { onBehalfOf, budgetUsd, signal }: PerformOptions,
  ): AsyncGenerator<CommandStep> {
    const options = omitUndefined({ onBehalfOf, budgetUsd });
    let isDone = false;
    for await (const step of follow(api.perform(context, namespace, name, command, uid, options), { signal })) {
      isDone = step.kind === 'result';
      yield step;
    }
    if (!isDone) yield interrupted(name);
  }

  return {
    context: () => at,
    jobs: (query) => list((...given) => api.jobs(...given), query),
    job: (name) => timed(api.job(context, namespace, name)),
    raw: (name) => timed(api.rawJob(context, namespace, name)) as Promise<V1Job | null>,
    pods: (query) => list((...given) => api.pods(...given), query),
    podUsage: ({ namespace: other = namespace, signal }) => unlessAborted(timed(api.podUsage(context, other)), signal),
    unscheduledPods: (query) => list((...given) => api.unscheduledPods(...given), query),
    nodes: () => timed(api.nodes(context, namespace)),
    priorityClasses: () => timed(api.priorityClasses(context, namespace)),
    queuePriorityClasses: () => timed(api.queuePriorityClasses(context, namespace)),
    events: ({ names }) => timed(api.events(context, namespace, names)),
    quotas: () => timed(api.quotas(context, namespace)),
    watchJobs: (query) =>
      reopenedWatch(
        () => follow(api.watchJobs(context, query.namespace ?? namespace, withoutLocal(query)), query),
        query.signal,
      ),
    watchPods() {
      throw new Error('only the controller watches pods');
    },
    logs: (pod, container, query) =>
      reopenedLog((next) => wholeLines(follow(api.logs(context, namespace, pod, container, next), query)), query),
    configMap: (name, other = namespace, signal?) => unlessAborted(timed(api.configMap(context, other, name)), signal),
    create: serverOnly,
    patch: serverOnly,
    async remove(job, { signal } = {}) {
      if ((await api.job(context, namespace, job.name)) === null) return 'absent';
      for await (const step of perform(job, 'delete', signal === undefined ? {} : { signal }))
        if (step.kind === 'result' && !step.ok) throw new JobmanError(step.message, step.exitCode);
      return 'gone';
    },
    writeConfigMap: serverOnly,
    secret: serverOnly,
    createSecret: serverOnly,
    patchSecret: serverOnly,
    ...streams,
    close: () => Promise.resolve(),
    server: {
      async submit(job, data, { signal }) {
        const submission = { job: job as object as KubernetesObject, ...(data === null ? {} : { secrets: data }) };
        const made = await unlessAborted(timed(api.submit(context, namespace, submission)), signal);
        return made as object as V1Job;
      },
      perform,
    },
  };
}

function interrupted(name: string): CommandStep {
  const message = `Interrupted while the server was working on ${name}. See: jobman why ${name}`;
  return { kind: 'result', id: name, ok: false, message, exitCode: exitCode.interrupted };
}

const serverOnly = (): Promise<never> =>
  Promise.reject(
    new JobmanError('A server changes only jobs in its clusters. Use a kubeconfig of your own.', exitCode.usage, [
      'For this machine only: --server local',
    ]),
  );

/** The part of a query that the server needs. */
function withoutLocal<Query extends ClusterQuery>(query: Query): Query & ObjectQuery {
  const { namespace: _namespace, signal: _signal, onActivity: _activity, ...rest } = query;
  return rest as Query;
}

const maxReopenings = 10;

type Lost = Extract<ClusterChange<never>, { readonly kind: 'lost' }>;

/** Continues with `open` when the server has restarted. `mayWait`: also before the first value. */
async function* reopened<T>(
  open: () => AsyncIterable<T>,
  signal: AbortSignal | undefined,
  mayWait = false,
): AsyncGenerator<T | Lost> {
  let hasBegun = false;
  for (let failures = 0; ;) {
    try {
      for await (const value of open()) {
        if (failures > 0) yield { kind: 'lost', why: null };
        [hasBegun, failures] = [true, 0];
        yield value;
      }
      return;
    } catch (error) {
      // An error that the server itself has sent has no cause.
      const mayContinue = error instanceof JobmanError && (hasBegun || (mayWait && error.cause !== undefined));
      if (!mayContinue || error.code !== exitCode.unreachable || failures >= maxReopenings) throw error;
      if (failures === 0) yield { kind: 'lost', why: error.message.replace(/\.$/, '') };
      failures += 1;
      await pause(2 * second, signal);
    }
  }
}

/** Objects that are gone since the first connection are reported before the next `synced`. */
function reopenedWatch(
  watch: () => AsyncIterable<ClusterChange<ClusterJob>>,
  signal: AbortSignal | undefined,
): AsyncIterable<ClusterChange<ClusterJob>> {
  const known = new Map<string, ClusterJob>();
  return reopened(async function* changes(): AsyncGenerator<ClusterChange<ClusterJob>> {
    const listed = new Set<string>();
    for await (const change of watch()) {
      if (change.kind === 'changed') {
        known.set(change.object.uid, change.object);
        listed.add(change.object.uid);
      } else if (change.kind === 'gone') known.delete(change.object.uid);
      const missing = change.kind === 'synced' ? [...known.values()].filter(({ uid }) => !listed.has(uid)) : [];
      for (const object of missing) {
        known.delete(object.uid);
        yield { kind: 'gone', object };
      }
      yield change;
    }
  }, signal);
}

/** Each connection continues after the last lines. */
async function* reopenedLog(
  read: (query: PodLogQuery) => AsyncIterable<Uint8Array>,
  { signal, onLost: _lost, onTruncated, resumeAfter, timestamps, ...query }: ClusterLogQuery,
): AsyncGenerator<Uint8Array> {
  const end = createTailBuffer();
  if (resumeAfter !== undefined) end.take(resumeAfter);
  const open = (): AsyncIterable<Uint8Array> => {
    const after = end.resumeAfter();
    return read({ ...query, timestamps: true, ...(after.length > 0 && { resumeAfter: after.toString('base64') }) });
  };
  let hasOutput = false;
  try {
    for await (const lines of reopened(open, signal, query.follow)) {
      if (!(lines instanceof Uint8Array)) continue;
      hasOutput = true;
      end.take(lines);
      yield timestamps === true ? lines : withoutTimestamps(lines);
    }
  } catch (error) {
    // The pod was deleted while the server restarted.
    if (!hasOutput || !isNotFoundError(error)) throw error;
    onTruncated?.();
  }
}

const lineEnd = 0x0a;

/** The bytes of a connection, in pieces that end with a line; the last one may not. */
async function* wholeLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const rest: Uint8Array[] = [];
  for await (const piece of bytes) {
    const end = piece.lastIndexOf(lineEnd) + 1;
    if (end > 0) yield Buffer.concat([...rest.splice(0), piece.subarray(0, end)]);
    if (end < piece.length) rest.push(piece.subarray(end));
  }
  if (rest.length > 0) yield Buffer.concat(rest);
}
