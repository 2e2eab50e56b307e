// Jobs: the store and a cluster as one job source. Loads no Kubernetes code without a cluster.

import { isFinishedPhase } from '../core/decide/phase.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { ClusterParts } from './cluster/cluster-record.ts';
import { splitZone } from './cluster/job-view.ts';
import type { WatchOptions } from './cluster/watch-job.ts';
import type { JobList, JobRow, ListQuery } from './client.ts';
import { exitCode, isNotFoundError, JobmanError } from './errors.ts';
import { pluralize } from './format.ts';
import type { FoundJob, JobScope, JobSource } from './job-source.ts';
import { isIdRef } from './refs.ts';
import type { Services } from './services.ts';
import { createStoreSource } from './store-source.ts';

type JobsParts = ClusterParts & Pick<Services, 'isClusterConfigured'>;

export type Jobs = ReturnType<typeof openJobs>;

/** The caller closes it. With a scope that the user names, only that cluster and namespace are searched for a job. */
export function openJobs(parts: JobsParts, scope: JobScope) {
  const isScoped = scope.namespace !== undefined || scope.context !== undefined || scope.allNamespaces === true;
  let clusterUse: Promise<boolean> | undefined;
  let opened: ReturnType<typeof openCluster> | undefined;
  const usesCluster = () => (clusterUse ??= isScoped ? Promise.resolve(true) : parts.isClusterConfigured());
  const store = async () => createStoreSource(await parts.client(), parts.io);
  const cluster = () => (opened ??= openCluster());

  async function openCluster() {
    const { createClusterSource } = await import('./cluster/job-source.ts');
    return createClusterSource(parts, (await usesCluster()) ? scope : null, isScoped);
  }

  /** The job of the store; null if it has none of the name and the search may continue elsewhere. */
  async function findStored(...[reference, purpose]: Parameters<JobSource['find']>): Promise<FoundJob | null> {
    try {
      return await (await store()).find(reference, purpose);
    } catch (error) {
      if (!isNotFoundError(error)) throw error;
      if ((await usesCluster()) || (await parts.clusterSubmissions()).isUsed) return null;
      throw error;
    }
  }

  const sourceOf = (job: FoundJob): Promise<JobSource> => (job.cluster === null ? store() : cluster());
  async function* stepsOf<T>(job: FoundJob, read: (from: JobSource) => AsyncIterable<T>): AsyncIterable<T> {
    yield* read(await sourceOf(job));
  }

  const source: JobSource = {
    async find(reference, purpose) {
      const { text, isName } = reference;
      if (isScoped) return (await cluster()).find(reference, purpose);
      if (isIdRef(text) && !isName) return (await store()).find(reference, purpose);
      const stored = await findStored(reference, purpose);
      if (stored === null) return (await cluster()).find(reference, purpose);
      // An explicit name must be unambiguous. A cluster that does not answer counts as having no such job.
      const other = isName && (await usesCluster()) ? await (await cluster()).contextWith(text) : null;
      if (other === null) return stored;
      const { context, namespace } = other;
      const message = `Two jobs are named "${text}": ${stored.id} here, and one in ${context}/${namespace}.`;
      throw new JobmanError(message, exitCode.conflict, [`Give the id, or --namespace ${namespace}.`]);
    },

    async list(query) {
      const includesCluster = async () =>
        (await usesCluster()) || (query.all === true && (await parts.clusterSubmissions()).isUsed);
      const [own, others] = await Promise.all([
        store().then((stored) => stored.list(query)),
        includesCluster().then(async (isIncluded) => (isIncluded ? (await cluster()).list(query) : noJobs)),
      ]);
      const list = limitRows(await joinLists(own, others), query.limit);
      const failure =
        others.failure === undefined
          ? {}
          : { failure: { ...others.failure, isPartial: !isScoped && own.rows.length > 0 } };
      const elsewhere = isScoped || query.all === true ? {} : { elsewhere: await findElsewhere(parts, list.rows) };
      return { ...list, ...failure, ...elsewhere };
    },

    async select(command, own) {
      if (command === 'clean') {
        const submissions = await parts.clusterSubmissions();
        const groups = [...(await (await store()).select(command, own))];
        if (submissions.isUsed) groups.push(...(await (await cluster()).select(command, own)));
        const [jobs, rows] = [groups.flatMap((one) => one.jobs), groups.flatMap((one) => one.rows)];
        return [{ jobs, rows, description: pluralize(jobs.length, 'finished job'), nothing: 'Nothing to clean.' }];
      }
      const isInCluster = command === 'delete' && (own || (await usesCluster()));
      return [
        ...(isInCluster ? await (await cluster()).select(command, own) : []),
        ...(isInCluster && (own || isScoped) ? [] : await (await store()).select(command, own)),
      ];
    },

    show: async (job, options) => (await sourceOf(job)).show(job, options),
    why: async (job) => (await sourceOf(job)).why(job),
    history: async (job) => (await sourceOf(job)).history(job),
    passes: async (job, query) => (await sourceOf(job)).passes(job, query),
    actions: async (job) => (await sourceOf(job)).actions(job),
    heldCapacity: async (job) => (await sourceOf(job)).heldCapacity(job),
    ledgerJob: async (job) => (await sourceOf(job)).ledgerJob(job),
    diffSide: async (job, attempt) => (await sourceOf(job)).diffSide(job, attempt),
    perform: (job, ...command) => stepsOf(job, (from) => from.perform(job, ...command)),
    logs: (job, ...query) => stepsOf(job, (from) => from.logs(job, ...query)),
    readLog: async (job, ...part) => (await sourceOf(job)).readLog(job, ...part),
    metrics: (job, query) => stepsOf(job, (from) => from.metrics(job, query)),
    metricPoints: (job, query) => stepsOf(job, (from) => from.metricPoints(job, query)),
    close: async () => (await opened)?.close(),
  };

  return {
    ...source,
    /** The phase of a job in a cluster now and at each change, until it has finished or the signal. */
    async *watch(job: FoundJob, options: WatchOptions) {
      yield* (await cluster()).watch(job, options);
    },

    /** The active jobs of the cluster, for `top`; null without a cluster. */
    async watchActivity(interval: Duration) {
      if (!(await usesCluster())) return null;
      const { watchActivity } = await import('./cluster/activity.ts');
      return watchActivity(parts, scope, interval);
    },

    /** The open cluster of a job, for a terminal that attaches to its pods. Null for a stored job. */
    record: async (job: FoundJob) => (job.cluster === null ? null : (await cluster()).record(job)),

    /** A list that is read again and again. The cluster is read in the background. */
    follow: async (query: ListQuery) => followList(parts, query, (await usesCluster()) ? scope : null),
  };
}

/** `scope` is null without a cluster. */
async function followList(parts: JobsParts, query: ListQuery, scope: JobScope | null) {
  const [client, { noticeChanges }] = await Promise.all([parts.client(), import('./job-updates.ts')]);
  const polled = scope === null ? null : (await import('./cluster/job-list.ts')).pollClusterJobs(parts, query, scope);
  const changes = noticeChanges(client);
  let revisions = '';
  let readAt: Instant = Number.NEGATIVE_INFINITY;
  return {
    /** Null if no source has changed since the last call and `maxAge` has not passed. */
    async next(maxAge: Duration): Promise<JobList | null> {
      const seen = `${changes.count()} ${polled?.revision()}`;
      const now = parts.io.now();
      if (seen === revisions && now - readAt < maxAge) return null;
      const own = await client.list(query);
      [revisions, readAt] = [seen, now];
      return polled === null ? own : joinLists(own, polled.list());
    },
    async close(): Promise<void> {
      changes.close();
      await polled?.close();
    },
  };
}

const noJobs: JobList = { rows: [], more: 0, notes: [] };

async function joinLists(own: JobList, others: JobList): Promise<JobList> {
  if (others === noJobs) return own;
  const { joinRows } = await import('./cluster/job-list.ts');
  return {
    ...own,
    rows: joinRows(own.rows, others.rows),
    more: own.more + others.more,
    notes: [...own.notes, ...others.notes],
  };
}

/** The page of the store may be joined with jobs of a cluster. */
function limitRows(list: JobList, limit = Infinity): JobList {
  const { rows } = list;
  return rows.length <= limit ? list : { ...list, rows: rows.slice(0, limit), more: list.more + rows.length - limit };
}

async function findElsewhere(
  parts: Pick<Services, 'client' | 'clusterSubmissions'>,
  rows: readonly JobRow[],
): Promise<NonNullable<JobList['elsewhere']>> {
  if (!(await parts.clusterSubmissions()).isUsed) return [];
  const { countSubmitted } = await import('./cluster/job-list.ts');
  const shown = new Set(rows.map(({ zone }) => zone));
  return [...(await countSubmitted(parts))].flatMap(([zone, jobs]) =>
    shown.has(zone) ? [] : [{ ...splitZone(zone), jobs }],
  );
}

/** A job of a list. In a cluster it is the one that has the name now. */
export function foundJob({ id, backend, zone }: JobRow): FoundJob {
  if (backend !== 'kubernetes') return { id, cluster: null, copy: null, note: null };
  return { id, cluster: { ...splitZone(zone), uid: null }, copy: null, note: null };
}

/** True if a controller of jobman has work to do. */
export function awaitsController(rows: readonly JobRow[]): boolean {
  return rows.some(({ backend, phase }) => backend !== 'kubernetes' && !isFinishedPhase(phase));
}
