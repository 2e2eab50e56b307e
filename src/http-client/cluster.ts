// The cluster of a server, over its API: the `Cluster` of the commands, whose changes the server performs.

import type { V1Job } from '@kubernetes/client-node';
import { second } from '../core/model/time.ts';
import type {
  Cluster,
  ClusterChange,
  ClusterContext,
  ClusterLogQuery,
  ClusterQuery,
  JobIdentity,
} from '../app/cluster/cluster.ts';
import type { ClusterClient, KubernetesObject, ObjectQuery } from '../app/cluster/cluster-client.ts';
import { pause, unlessAborted, untilAborted } from '../app/concurrency.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { ClusterJob } from '../app/cluster/objects.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import type { CommandStep, PerformedCommand, PerformOptions } from '../app/command-steps.ts';

/** The programs of a pod, its ports and its files. */
export type PodStreams = Pick<Cluster, 'exec' | 'attach' | 'put' | 'get' | 'tunnel'>;

/** Opened in the namespace of that context. */
export function createServerCluster(api: ClusterClient, at: ClusterContext, streams: PodStreams): Cluster {
  const { context, namespace } = at;
  const list = <Query extends ClusterQuery, T>(
    read: (at: string, namespace: string, query: Query & ObjectQuery) => AsyncIterable<T>,
    query: Query,
  ): AsyncIterable<T> =>
    untilAborted(
      read(context, query.namespace ?? namespace, withoutLocal(query)),
      query.signal,
      // An incomplete list must not be used.
      (signal) => Promise.reject(signal.reason as Error),
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
    job: (name) => api.job(context, namespace, name),
    raw: (name) => api.rawJob(context, namespace, name) as Promise<V1Job | null>,
    pods: (query) => list((...given) => api.pods(...given), query),
    podUsage: ({ namespace: other = namespace, signal }) => unlessAborted(api.podUsage(context, other), signal),
    unscheduledPods: (query) => list((...given) => api.unscheduledPods(...given), query),
    nodes: () => api.nodes(context, namespace),
    priorityClasses: () => api.priorityClasses(context, namespace),
    queuePriorityClasses: () => api.queuePriorityClasses(context, namespace),
    events: ({ names }) => api.events(context, namespace, names),
    quotas: () => api.quotas(context, namespace),
    watchJobs: (query) =>
      reopened(() => follow(api.watchJobs(context, query.namespace ?? namespace, withoutLocal(query)), query), query),
    watchPods() {
      throw new Error('only the controller watches pods');
    },
    logs: (pod, container, query) =>
      wholeLines(follow(api.logs(context, namespace, pod, container, logQueryOf(query)), query)),
    configMap: (name, other = namespace, signal?) => unlessAborted(api.configMap(context, other, name), signal),
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
        const made = await unlessAborted(api.submit(context, namespace, submission), signal);
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
  const { namespace: _namespace, signal: _signal, onLost: _lost, onActivity: _activity, ...rest } = query;
  return rest as Query;
}

function logQueryOf({
  resumeAfter,
  signal: _signal,
  onLost: _lost,
  onTruncated: _truncated,
  ...query
}: ClusterLogQuery) {
  return { ...query, ...(resumeAfter && { resumeAfter: Buffer.from(resumeAfter).toString('base64') }) };
}

const maxReopenings = 10;

/** Continues when the server has restarted. Objects that are gone since are reported before the next `synced`. */
async function* reopened(
  watch: () => AsyncIterable<ClusterChange<ClusterJob>>,
  { signal, onLost }: ClusterQuery,
): AsyncGenerator<ClusterChange<ClusterJob>> {
  const known = new Map<string, ClusterJob>();
  let hasBegun = false;
  for (let failures = 0; ;) {
    const listed = new Set<string>();
    try {
      for await (const change of watch()) {
        if (failures > 0) onLost?.(null);
        [hasBegun, failures] = [true, 0];
        if (change.kind === 'changed') known.set(change.object.uid, change.object);
        if (change.kind === 'changed') listed.add(change.object.uid);
        if (change.kind === 'gone') known.delete(change.object.uid);
        const missing = change.kind === 'synced' ? [...known.values()].filter(({ uid }) => !listed.has(uid)) : [];
        for (const object of missing) {
          known.delete(object.uid);
          yield { kind: 'gone', object };
        }
        yield change;
      }
      return;
    } catch (error) {
      const mayContinue = hasBegun && error instanceof JobmanError && error.code === exitCode.unreachable;
      if (!mayContinue || failures >= maxReopenings) throw error;
      if (failures === 0) onLost?.(error.message.replace(/\.$/, ''));
      failures += 1;
      await pause(2 * second, signal);
    }
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
