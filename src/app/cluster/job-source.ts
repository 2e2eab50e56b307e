// The jobs of a cluster, and those of which only the archive has a copy: the cluster has deleted them or cannot be
// reached.

import type { Why } from '../client.ts';
import { usageError } from '../errors.ts';
import { metricsResult, type FoundJob, type HistoryEntry, type JobScope, type JobSource } from '../job-source.ts';
import { clusterJobEvents } from './archive.ts';
import type { ClusterJob } from './objects.ts';
import { expectCluster, type ClusterParts } from './cluster-record.ts';
import { createRecords } from './find-job.ts';
import { listClusterJobs } from './job-list.ts';
import { clusterResult } from './job-result.ts';
import type { createClusterLogs } from './logs.ts';
import { observeJob } from './observe-job.ts';
import { clusterWhy, objectOf, observe, resultOf, viewJob } from './view-job.ts';
import type { WatchOptions } from './watch-job.ts';

/** `scope` is null without a cluster: then only the archive answers. `isScoped`: the user has named the scope. */
export function createClusterSource(parts: ClusterParts, scope: JobScope | null, isScoped: boolean) {
  const { io } = parts;
  const records = createRecords(parts, scope, isScoped);
  let clusterLogs: Promise<ReturnType<typeof createClusterLogs>> | undefined;
  const logs = () => (clusterLogs ??= import('./logs.ts').then(({ createClusterLogs: create }) => create(parts)));

  const source: JobSource = {
    find: async ({ text }, purpose) => (await records.find(text, purpose)).found,

    list: (query) => listClusterJobs(parts, query, scope),

    show: async (job, options) => viewJob(parts, await records.listed(job), { now: io.now(), ...options }),

    async why(job) {
      const record = await records.listed(job);
      return clusterWhy(record.job, resultOf(record, await observe(record), { now: io.now() }));
    },

    async history(job) {
      const record = await records.of(job);
      const { uid, name, owner } = record.job;
      const client = await parts.client();
      const current = record.archived === null ? clusterJobEvents(await observe(record)) : [];
      const byKey = new Map([...(await client.archivedEvents(uid)), ...current].map((event) => [event.key, event]));
      const entries = [...byKey.values()].map(({ at, message }): HistoryEntry => ({ at, message, event: null }));
      return { id: name, name, owner, entries: entries.toSorted((one, other) => one.at - other.at) };
    },

    passes({ id }) {
      throw usageError(`Job ${id} is in a cluster, which decides about it, so there are no passes to replay.`);
    },

    async actions(job) {
      const [record, actor, { clusterActions }] = await Promise.all([
        records.of(job),
        parts.client().then((client) => client.whoAmI()),
        import('./actions.ts'),
      ]);
      return clusterActions(record, actor);
    },

    heldCapacity: () => Promise.resolve(null),

    async *perform(job, command, options) {
      const [record, { performOnCluster }] = await Promise.all([records.of(job), import('./perform.ts')]);
      yield* performOnCluster(parts, record, command, options);
    },

    async select(command, own) {
      if (command === 'cancel') return [];
      const { selectArchived, selectInNamespace } = await import('./select-jobs.ts');
      const { records: selected, ...selection } =
        command === 'clean' ? await selectArchived(parts) : await selectInNamespace(parts, await records.open(), own);
      return [{ ...selection, jobs: selected.map((record) => records.keep(record).found) }];
    },

    async ledgerJob(job) {
      const { uid, name } = (await records.of(job)).job;
      return { key: uid, id: name, name };
    },

    async diffSide(job, attempt) {
      const record = await records.of(job);
      const { name } = record.job;
      if (attempt !== null)
        throw usageError(`Job ${name} is in a cluster and has no attempts: write ${name} without #${attempt}.`);
      const [observation, object] = await Promise.all([observe(record), objectOf(record)]);
      const result = resultOf(record, observation, { now: io.now() });
      const { clusterDiffSide, withPodMetrics } = await import('./diff-side.ts');
      const side = clusterDiffSide({ ...observation, object, result });
      return withPodMetrics(side, () => metricsResult(source.metrics(job, { maxPoints: 2 })));
    },

    async *logs(job, query, signal = new AbortController().signal) {
      const explain = async () => (await source.why(job)).message;
      yield* (await logs()).logs(await records.of(job), explain, query, signal);
    },

    readLog: async (job, ...read) => (await logs()).readLog(await records.of(job), ...read),

    async *metrics(job, query) {
      const [{ metricsOfPods }, { podLogs }] = await metricsReaders();
      const record = await records.of(job);
      yield* metricsOfPods(record.job.name, podLogs(parts, record, query), query);
    },

    async *metricPoints(job, query) {
      const [{ metricPointsOfPods }, { podLogs }] = await metricsReaders();
      const record = await records.of(job);
      yield* metricPointsOfPods(record.job.name, podLogs(parts, record, query), query);
    },

    close: () => records.close(),
  };
  // For what a terminal attaches to, and for the search in the store and in the cluster.
  return {
    ...source,
    record: (job: FoundJob) => records.of(job),
    async *watch(job: FoundJob, options: WatchOptions) {
      const [record, { watchJob }] = await Promise.all([records.of(job), import('./watch-job.ts')]);
      const explain = async (now?: ClusterJob): Promise<Why> => {
        if (now === undefined) return source.why(job);
        return clusterWhy(now, clusterResult(await observeJob(expectCluster(record.cluster), now), { now: io.now() }));
      };
      yield* watchJob(record, explain, options);
    },
    contextWith: (name: string) => records.contextWith(name),
  };
}

const metricsReaders = () => Promise.all([import('../metrics.ts'), import('./metrics.ts')]);
