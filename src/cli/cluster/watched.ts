// Watched: a cluster's rows in a list that goes on. A watch tells of every change; the list is not asked for again. Pods are not
// watched, which are many: those of jobs that have some which do not run are looked at now and then.

import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import type { Cluster, ClusterJob, ClusterPlace } from '../../app/cluster/cluster.ts';
import { clusterPhase } from '../../app/cluster/verdict.ts';
import { expectNamespace } from '../../app/cluster/queue-source.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { isSettledPhase } from '../../core/phase.ts';
import { second, type Duration, type Instant } from '../../core/time.ts';
import { given } from '../../core/given.ts';
import type { Cli } from '../context.ts';
import type { PlaceFlags } from './either.ts';
import {
  createGlancing,
  cut,
  type Glance,
  glanced,
  isPodless,
  isToldByPods,
  isUnready,
  isWanted,
  rowOf,
} from './list.ts';
import { pause } from '../leave.ts';

/** Pods of jobs with some that do not run are checked this often. */
const glanceEvery: Duration = 3 * second;
/** The first time soon after all is told. */
const firstGlanceEvery: Duration = 0.2 * second;

/** The Jobs of a namespace as they are now. */
export type WatchedRows = ReturnType<typeof watchClusterRows>;

/** Begins at once, and never rejects: what is wrong is a note beside the rows. */
export function watchClusterRows(cli: Cli, query: ListQuery, flags: PlaceFlags) {
  const end = new AbortController();
  const jobs = new Map<string, ClusterJob>();
  let cluster: Cluster | null = null;
  let trouble: string | null = null;
  let missing: string | null = null;
  let turn = 0;
  let isSynced = false;
  let glimpsed: ReadonlyMap<string, Glance> = new Map();
  /** Before all is told nothing is shown: rows would come one by one. */
  const changed = (): void => {
    if (isSynced) turn += 1;
  };

  /** The error of a namespace that does not exist: it is watched like an empty one. */
  async function missingNamespace(opened: Cluster): Promise<string | null> {
    try {
      await expectNamespace(opened, end.signal);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      if (error.code === exitCode.notFound) return `the cluster is not shown: ${error.message}`;
    }
    return null;
  }

  async function watch(): Promise<void> {
    try {
      cluster = await cli.services.cluster(
        given({ context: flags.context, namespace: flags.namespace, isSilent: true }),
      );
      const { context } = cluster.place();
      const onLost = (why: string | null): void => {
        trouble = why === null ? null : `the cluster of ${context} does not answer (${why}): as last seen`;
        turn += 1;
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
      trouble = `the cluster is not shown: ${error.message}`;
      turn += 1;
    }
  }

  async function glimpse(): Promise<void> {
    while (!end.signal.aborted) {
      await pause(isSynced ? glanceEvery : firstGlanceEvery, end.signal);
      if (!isSynced || cluster === null) continue;
      const found = new Map<string, Glance>();
      const glancing = createGlancing(cluster, cli.io.now(), { left: end.signal });
      for (const job of jobs.values()) {
        const before = glimpsed.get(job.uid);
        // The facts of an ended job do not change.
        const isFinal = isSettledPhase(clusterPhase(job)) && isToldByPods(job) && before?.phase === clusterPhase(job);
        if (isFinal) found.set(job.uid, before);
        else glancing.add(job);
      }
      for (const [uid, glance] of await glancing.read()) found.set(uid, glance);
      const isSame = [...found].every(([uid, { phase }]) => glimpsed.get(uid)?.phase === phase);
      if (!isSame || found.size !== glimpsed.size) turn += 1;
      glimpsed = found;
    }
  }

  const row = (job: ClusterJob, place: ClusterPlace, now: Instant): JobRow => {
    const known = glimpsed.get(job.uid);
    const isOfNow = isUnready(job) || isPodless(job, now) || (isToldByPods(job) && known?.phase === clusterPhase(job));
    const glance = isOfNow ? known : undefined;
    const plain = rowOf(job, place, now);
    return glance === undefined ? plain : glanced(plain, glance);
  };

  const work = Promise.all([watch(), glimpse()]);
  let failed: unknown;
  work.catch((error: unknown) => (failed = error));
  return {
    /** Grows with each change. */
    get turn() {
      if (failed !== undefined) throw failed;
      return turn;
    },
    /** The cluster; null as long as it cannot be opened. */
    get cluster() {
      return cluster;
    },
    list(now: Instant): JobList {
      const notes = [trouble, missing].filter((note) => note !== null);
      const place = cluster?.place();
      // Tags are words of the record; no Job of a cluster has one.
      if (place === undefined || query.tag !== undefined || !isSynced) return { rows: [], more: 0, notes };
      const rows = [...jobs.values()].map((job) => row(job, place, now)).filter((one) => isWanted(one, query));
      return {
        ...cut(
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
