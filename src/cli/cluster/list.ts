// Cluster jobs as rows of `list`. A cluster that does not answer in time becomes a note below the table.

import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import type { Cluster, ClusterJob, ClusterContext, ClusterPod } from '../../app/cluster/cluster.ts';
import { mayBeActive, archivedPhase } from '../../app/cluster/archive.ts';
import { formatAmounts } from '../../app/cluster/missing-resources.ts';
import {
  clusterSummary,
  clusterPhase,
  clusterReason,
  type ClusterResult,
  formatPodRefusal,
} from '../../app/cluster/job-result.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatAge } from '../../app/format.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { type Duration, type Instant, second } from '../../core/model/time.ts';
import type { Cli } from '../context.ts';
import type { ContextFlags } from '../jobs/handle.ts';
import { clusterTimeout } from './join-sources.ts';

const maxFinishedShown = 50;

export interface ClusterRows extends JobList {
  /** The uid, and the context with the name, of every Job of the cluster. Empty without --all. */
  readonly reported: ReadonlySet<string>;
  readonly error?: JobmanError;
}

type ListContextFlags = ContextFlags & { readonly allNamespaces?: boolean | undefined };

/** Newest first. Never rejects for an error of the cluster or the connection. */
export async function clusterRows(cli: Cli, query: ListQuery, flags: ListContextFlags): Promise<ClusterRows> {
  // Only jobs of the store have tags.
  if (query.tag !== undefined) return { rows: [], more: 0, notes: [], reported: new Set() };
  const { phases: _phases, ...anyPhase } = query;
  const isEverywhere = flags.allNamespaces === true;
  const late = new AbortController();
  const timer = setTimeout(() => {
    late.abort(new Error(`it did not answer within ${clusterTimeout / second} s`));
  }, clusterTimeout);
  let clusterName = 'The cluster';
  try {
    const cluster = await cli.services.cluster(
      omitUndefined({ context: flags.context, namespace: flags.namespace, isSilent: true }),
    );
    try {
      const context = cluster.context();
      clusterName = `The cluster of ${context.context}`;
      const rows: JobRow[] = [];
      const rowIndexes = new Map<string, number>();
      const reported = new Set<string>();
      const now = cli.io.now();
      const observer = createPodObserver(cluster, now, { isEverywhere });
      for await (const page of cluster.jobs({
        signal: late.signal,
        ...(isEverywhere ? { allNamespaces: true } : {}),
      })) {
        // The cluster answers, so the rest may take its time.
        clearTimeout(timer);
        for (const job of page) {
          const row = rowOf(job, context, now);
          // Pods may put an unready job into another phase.
          if (matchesQuery(row, isUnready(job) ? anyPhase : query)) {
            if (observer.add(job)) rowIndexes.set(job.uid, rows.length);
            rows.push(row);
          }
          if (query.all === true) reported.add(job.uid).add(`${row.zone} ${row.name}`);
        }
      }
      for (const [uid, observation] of await observer.read()) {
        const at = rowIndexes.get(uid) ?? -1;
        const row = rows[at];
        if (row !== undefined) rows[at] = withObservation(row, observation);
      }
      const wanted = query.phases === undefined ? rows : rows.filter((row) => matchesQuery(row, query));
      const ordered = wanted.toSorted((one, other) => other.createdAt - one.createdAt);
      return { ...limitFinished(ordered, query), reported };
    } finally {
      await cluster.close();
    }
  } catch (error) {
    const known = error instanceof JobmanError ? error : undefined;
    const why = error instanceof Error ? error.message : String(error);
    const trouble = known ?? new JobmanError(`${clusterName} is not shown: ${why}`, exitCode.unreachable);
    const [first, ...others] = known?.code === exitCode.usage ? known.lines : [];
    const note = `${clusterName} is not shown: ${why}${first === undefined ? '' : ` ${first}`}`;
    return { rows: [], more: 0, notes: [note, ...others], reported: new Set(), error: trouble };
  } finally {
    clearTimeout(timer);
  }
}

/** Rows of archived jobs that no cluster has reported. Compares uids, too: one cluster may have several contexts. */
export async function archivedRows(
  cli: Cli,
  query: ListQuery,
  reported: ReadonlySet<string>,
): Promise<readonly JobRow[]> {
  if (query.tag !== undefined) return [];
  const archive = await cli.services.clusterArchive();
  if (!archive.isUsed) return [];
  const now = cli.io.now();
  // Show each name once: commands cannot address an earlier job of the same name.
  const names = new Set(reported);
  return (await archive.jobs({})).flatMap((archived) => {
    const { job, context, hidden, goneAt } = archived;
    const key = `${context}/${job.namespace} ${job.name}`;
    if (hidden || names.has(key) || names.has(job.uid)) return [];
    names.add(key);
    const phase = archivedPhase(archived);
    const last =
      phase === 'cancelled' ? 'deleted' : clusterReason(job, mayBeActive(archived) ? archived.observedAt : now);
    // An unfinished job may have changed since its observation, so the reason gets an age.
    const reason = mayBeActive(archived) ? `${last}; as seen ${formatAge(now - archived.observedAt)} ago` : last;
    const since = job.endedAt ?? goneAt ?? job.startedAt ?? job.createdAt;
    const row: JobRow = {
      ...rowOf(job, archived, now),
      phase,
      message: reason,
      phaseStartedAt: since,
    };
    return matchesQuery(row, query) ? [row] : [];
  });
}

export function rowOf(job: ClusterJob, context: Pick<ClusterContext, 'context'>, now: Instant): JobRow {
  const phase = clusterPhase(job);
  return {
    id: job.name,
    name: job.name,
    owner: job.owner ?? null,
    backend: 'kubernetes',
    accelerator: job.flavor ?? (formatAmounts(job.requests) || null),
    pricing: null,
    zone: `${context.context}/${job.namespace}`,
    worker0Address: null,
    phase,
    heldCapacity: null,
    message: clusterReason(job, now),
    desired: 'running',
    stage: 0,
    attempt: 0,
    tags: [],
    overrides: [],
    createdAt: job.createdAt,
    phaseStartedAt: job.endedAt ?? job.startedAt ?? job.createdAt,
    pricePerHourUsd: null,
    simulated: false,
  };
}

export function withObservation(row: JobRow, { phase, reasonText: message }: PodObservation): JobRow {
  return { ...row, phase, message };
}

export function matchesQuery(row: JobRow, { owner, phases, name }: ListQuery): boolean {
  return (
    (owner === undefined || row.owner === owner) &&
    (phases === undefined || phases.includes(row.phase)) &&
    (name === undefined || matchesPattern(row.name, name))
  );
}

function matchesPattern(name: string, pattern: string): boolean {
  const parts = pattern.split(/([*?])/).map((part) => (part === '*' ? '.*' : part === '?' ? '.' : RegExp.escape(part)));
  return new RegExp(`^${parts.join('')}$`, 'is').test(name);
}

export function limitFinished(rows: readonly JobRow[], { all, phases }: ListQuery): JobList {
  if (all === true || phases !== undefined) return { rows, more: 0, notes: [] };
  let finished = 0;
  const shown = rows.filter(({ phase }) => !isFinishedPhase(phase) || (finished += 1) <= maxFinishedShown);
  return { rows: shown, more: rows.length - shown.length, notes: [] };
}

// ------------------------------------------------------------------------------------------ pod observations

// The Job only says that its pod does not run yet; the pod knows the reason. One request reads all pods, and the list
// works without its answer.

export type PodObservation = Pick<ClusterResult, 'phase' | 'reasonText'>;

/** Their names are part of one URL, and proxies allow a few thousand characters. */
const maxJobsObserved = 100;

export function isUnready(job: ClusterJob): boolean {
  return job.active > job.ready && !job.suspended && !job.deleting && !isFinishedPhase(clusterPhase(job));
}

/**
 * True if only the pods know the cause of a failure, or the run time: the times of the Job include the wait for a node
 * and an image. False for successful jobs of several pods: they have no single run time.
 */
export function needsPods(job: ClusterJob): boolean {
  if (job.suspended || job.deleting) return false;
  const phase = clusterPhase(job);
  if (phase === 'failed') return job.failed > 0 && job.failed <= maxFailedPods;
  const isSingle = job.parallelism === 1 && (job.completions ?? 1) === 1;
  return isSingle && (phase === 'succeeded' || (phase === 'running' && !isUnready(job)));
}

export function lacksPods(job: ClusterJob, now: Instant): boolean {
  const isNew = now - (job.startedAt ?? job.createdAt) < podCreationTime;
  return job.active === 0 && !isNew && !job.suspended && !job.deleting && clusterPhase(job) === 'queued';
}

const podCreationTime: Duration = 3 * second;

/** The newest failed pod has the cause. */
const maxFailedPods = 20;

interface ObserveOptions {
  readonly signal?: AbortSignal;
  readonly isEverywhere?: boolean;
}

/** Sends no request before `read`, and none without jobs. */
export function createPodObserver(cluster: Cluster, now: Instant, options: ObserveOptions = {}) {
  const unready: ClusterJob[] = [];
  const byPods: ClusterJob[] = [];
  const podless: ClusterJob[] = [];
  return {
    add(job: ClusterJob): boolean {
      const list = isUnready(job) ? unready : needsPods(job) ? byPods : lacksPods(job, now) ? podless : undefined;
      list?.push(job);
      return list !== undefined;
    },
    /** By job uid, only where the pods add information to the Job. Late and refused answers are left out. */
    async read() {
      const found = await Promise.all([
        observePods(cluster, newest(unready), now, options),
        observePods(cluster, newest(byPods), now, { ...options, withEnded: true }),
        refusals(cluster, newest(podless), options),
      ]);
      return new Map(found.flatMap((some) => [...some]));
    },
  };
}

function newest(jobs: readonly ClusterJob[]): readonly ClusterJob[] {
  return jobs.toSorted((one, other) => other.createdAt - one.createdAt).slice(0, maxJobsObserved);
}

/** By job uid, like `read`. `withEnded` includes ended pods. */
export async function observePods(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  now: Instant,
  { withEnded = false, ...options }: ObserveOptions & { readonly withEnded?: boolean } = {},
): Promise<ReadonlyMap<string, PodObservation>> {
  const found = new Map<string, PodObservation>();
  if (jobs.length === 0) return found;
  const query = {
    labels: `job-name in (${jobs.map(({ name }) => name).join(',')})`,
    ...(withEnded ? {} : { fields: 'status.phase!=Succeeded,status.phase!=Failed' }),
    ...withDeadline(options),
  };
  const pods: ClusterPod[] = [];
  await ignoreTimeout(query.signal, async () => {
    for await (const page of cluster.pods(query)) pods.push(...page);
  });
  for (const job of jobs) {
    const own = pods.filter(
      (pod) => pod.job === job.name && pod.namespace === job.namespace && (pod.jobUid ?? job.uid) === job.uid,
    );
    const observation = clusterSummary(job, own, now);
    if (observation !== null) found.set(job.uid, observation);
  }
  return found;
}

async function refusals(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  options: ObserveOptions,
): Promise<ReadonlyMap<string, PodObservation>> {
  const found = new Map<string, PodObservation>();
  if (jobs.length === 0) return found;
  const query = withDeadline(options);
  await ignoreTimeout(query.signal, async () => {
    const byUid = new Map((await cluster.podCreationErrors(query)).map((event) => [event.object.uid, event]));
    for (const job of jobs) {
      const event = byUid.get(job.uid);
      if (event !== undefined)
        found.set(job.uid, { phase: clusterPhase(job), reasonText: formatPodRefusal(job, event) });
    }
  });
  return found;
}

function withDeadline({ signal: left, isEverywhere = false }: ObserveOptions): {
  readonly signal: AbortSignal;
  readonly allNamespaces?: true;
} {
  const late = AbortSignal.timeout(clusterTimeout);
  const signal = left === undefined ? late : AbortSignal.any([late, left]);
  return { signal, ...(isEverywhere ? { allNamespaces: true } : {}) };
}

async function ignoreTimeout(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof JobmanError) && !signal.aborted) throw error;
  }
}
