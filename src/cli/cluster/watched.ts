// A cluster's rows in a list that stays open. Pods are too many to watch; those of unready jobs are polled.

import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import type { Cluster, ClusterJob, ClusterContext } from '../../app/cluster/cluster.ts';
import { clusterPhase } from '../../app/cluster/job-result.ts';
import { checkNamespace } from '../../app/cluster/queue-source.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Cli } from '../context.ts';
import type { ContextFlags } from '../jobs/handle.ts';
import {
  createPodObserver,
  limitFinished,
  type PodObservation,
  withObservation,
  lacksPods,
  needsPods,
  isUnready,
  matchesQuery,
  rowOf,
} from './list.ts';
import { pause } from '../interrupt.ts';

const observeInterval: Duration = 3 * second;
const firstObserveInterval: Duration = 0.2 * second;

export type WatchedRows = ReturnType<typeof watchClusterRows>;

/** Begins at once and never rejects; problems are notes of the list. */
export function watchClusterRows(cli: Cli, query: ListQuery, flags: ContextFlags) {
  const end = new AbortController();
  const jobs = new Map<string, ClusterJob>();
  let cluster: Cluster | null = null;
  let problem: string | null = null;
  let missing: string | null = null;
  let revision = 0;
  let isSynced = false;
  let observed: ReadonlyMap<string, PodObservation> = new Map();
  /** Show nothing until the watch has reported all jobs: otherwise rows would appear one by one. */
  const changed = (): void => {
    if (isSynced) revision += 1;
  };

  /** A missing namespace is watched like an empty one. */
  async function missingNamespace(opened: Cluster): Promise<string | null> {
    try {
      await checkNamespace(opened, end.signal);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      if (error.code === exitCode.notFound) return `the cluster is not shown: ${error.message}`;
    }
    return null;
  }

  async function watch(): Promise<void> {
    try {
      cluster = await cli.services.cluster(
        omitUndefined({ context: flags.context, namespace: flags.namespace, isSilent: true }),
      );
      const { context } = cluster.context();
      const onLost = (why: string | null): void => {
        problem = why === null ? null : `the cluster of ${context} does not answer (${why}): as last seen`;
        revision += 1;
      };
      for await (const change of cluster.watchJobs({ signal: end.signal, onLost })) {
        if (change.kind === 'changed') jobs.set(change.object.uid, change.object);
        else if (change.kind === 'gone') jobs.delete(change.object.uid);
        else {
          isSynced = true;
          missing = jobs.size === 0 ? await missingNamespace(cluster) : null;
        }
        if (jobs.size > 0) missing = null;
        changed();
      }
    } catch (error) {
      if (end.signal.aborted) return;
      if (!(error instanceof JobmanError)) throw error;
      problem = `the cluster is not shown: ${error.message}`;
      revision += 1;
    }
  }

  async function pollPods(): Promise<void> {
    while (!end.signal.aborted) {
      await pause(isSynced ? observeInterval : firstObserveInterval, end.signal);
      if (!isSynced || cluster === null) continue;
      const found = new Map<string, PodObservation>();
      const observer = createPodObserver(cluster, cli.io.now(), { signal: end.signal });
      for (const job of jobs.values()) {
        const before = observed.get(job.uid);
        // The facts of an ended job do not change.
        const isFinal = isFinishedPhase(clusterPhase(job)) && needsPods(job) && before?.phase === clusterPhase(job);
        if (isFinal) found.set(job.uid, before);
        else observer.add(job);
      }
      for (const [uid, observation] of await observer.read()) found.set(uid, observation);
      const isSame = [...found].every(([uid, { phase }]) => observed.get(uid)?.phase === phase);
      if (!isSame || found.size !== observed.size) revision += 1;
      observed = found;
    }
  }

  const row = (job: ClusterJob, clusterContext: ClusterContext, now: Instant): JobRow => {
    const known = observed.get(job.uid);
    const isCurrent = isUnready(job) || lacksPods(job, now) || (needsPods(job) && known?.phase === clusterPhase(job));
    const observation = isCurrent ? known : undefined;
    const plain = rowOf(job, clusterContext, now);
    return observation === undefined ? plain : withObservation(plain, observation);
  };

  const work = Promise.all([watch(), pollPods()]);
  let failed: unknown;
  work.catch((error: unknown) => (failed = error));
  return {
    get revision() {
      if (failed !== undefined) throw failed;
      return revision;
    },
    /** Null until the cluster has been opened. */
    get cluster() {
      return cluster;
    },
    list(now: Instant): JobList {
      const notes = [problem, missing].filter((note) => note !== null);
      const clusterContext = cluster?.context();
      // Only jobs of the store have tags.
      if (clusterContext === undefined || query.tag !== undefined || !isSynced) return { rows: [], more: 0, notes };
      const rows = [...jobs.values()]
        .map((job) => row(job, clusterContext, now))
        .filter((one) => matchesQuery(one, query));
      return {
        ...limitFinished(
          rows.toSorted((one, other) => other.createdAt - one.createdAt),
          query,
        ),
        notes,
      };
    },
    job: (name: string) => [...jobs.values()].find((job) => job.name === name),
    async close() {
      end.abort();
      await work.catch(() => undefined);
      await cluster?.close();
    },
  };
}
