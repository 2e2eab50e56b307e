// Jobs of a cluster as rows of a list. A cluster that does not answer in time becomes a note.

import type { JobList, JobRow, ListQuery } from '../client.ts';
import { exitCode, JobmanError } from '../errors.ts';
import { formatAge, formatLocalTimeOfDay } from '../format.ts';
import type { JobScope } from '../job-source.ts';
import { createPoller } from '../poller.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { type Duration, type Instant, second } from '../../core/model/time.ts';
import { archivedPhase, mayBeActive } from './archive.ts';
import type { ArchivedJob, ClusterJob, ClusterPod } from './objects.ts';
import type { Cluster, ClusterContext, ClusterQuery } from './cluster.ts';
import { archivedJobs, type ClusterParts } from './cluster-record.ts';
import { clusterPhase, clusterReason, clusterSummary, type ClusterResult } from './job-result.ts';
import { matchesQuery } from '../list-query.ts';
import { ownerLabels } from './job-object.ts';
import { splitZone } from './job-view.ts';
import { formatAmounts } from './missing-resources.ts';

type ListParts = Pick<ClusterParts, 'io' | 'client' | 'cluster' | 'clusterSubmissions'>;

/** Limit for the cluster's answer to a list: the user may not want its jobs at all. */
export const clusterTimeout: Duration = 2 * second;

const maxFinishedShown = 50;
const pollInterval: Duration = 2 * second;

interface ClusterRows extends JobList {
  /** The uid, and the context with the name, of every Job of the cluster. Empty without --all. */
  readonly reported: ReadonlySet<string>;
  /** The note without its verb, for rows that are shown although there is an error. */
  readonly gap?: { readonly cluster: string; readonly why: string };
}

const noRows: ClusterRows = { rows: [], more: 0, notes: [], reported: new Set() };

/** Adds the archive's rows with --all or if the cluster does not answer. `scope` is null without a cluster. */
export async function listClusterJobs(parts: ListParts, query: ListQuery, scope: JobScope | null): Promise<JobList> {
  const lists = openClusterLists(parts, query, scope);
  try {
    return await lists.next();
  } finally {
    await lists.close();
  }
}

/** Reads the same list again and again, as `listClusterJobs`. While the cluster does not answer, its last rows stay. */
export function openClusterLists(parts: ListParts, query: ListQuery, scope: JobScope | null) {
  const reader = scope === null ? null : createRowReader(parts, query, scope);
  const last = createLastRows(parts.io);
  return {
    async next(): Promise<JobList> {
      const { reported, gap: _, ...found } = reader === null ? noRows : last.orLast(await reader.read());
      if (query.all !== true && found.failure === undefined) return found;
      const archived = await archivedRows(parts, query, reported);
      const rows = archived.filter((row) => query.all === true || isInScope(row, scope ?? {}));
      return { ...found, rows: joinRows(found.rows, rows) };
    },
    close: async () => reader?.close(),
  };
}

/** Newest first. Each list keeps its own order: ids grow even if the clock was set back. */
export function joinRows(own: readonly JobRow[], others: readonly JobRow[]): readonly JobRow[] {
  const rows: JobRow[] = [];
  const waiting = others.toReversed();
  for (const row of own) {
    while ((waiting.at(-1)?.createdAt ?? 0) > row.createdAt) rows.push(...waiting.splice(-1));
    rows.push(row);
  }
  return [...rows, ...waiting.toReversed()];
}

/** True without a context or namespace. False for deleted jobs. */
function isInScope({ zone, phase }: JobRow, { namespace, context, allNamespaces }: JobScope): boolean {
  if (phase === 'cancelled') return false;
  const found = splitZone(zone);
  return (
    (context === undefined || context === found.context) &&
    (allNamespaces === true || namespace === undefined || namespace === found.namespace)
  );
}

/** The rows of the last answer of a cluster. */
function createLastRows({ now }: ListParts['io']) {
  let last = noRows;
  let answeredAt: Instant | null = null;
  return {
    /** With the last rows, if the cluster does not answer now. */
    orLast(next: ClusterRows): ClusterRows {
      if (next.failure === undefined) [last, answeredAt] = [next, now()];
      if (next.failure?.code !== exitCode.unreachable || next.gap === undefined || answeredAt === null) return next;
      const { cluster, why } = next.gap;
      const note = `${cluster} is not updated since ${formatLocalTimeOfDay(answeredAt)}: ${why}`;
      return { ...last, notes: [note], failure: next.failure };
    },
  };
}

/** Reads the rows again and again until `close`. While the cluster does not answer, the last rows stay. */
export function pollClusterJobs(parts: ListParts, query: ListQuery, scope: JobScope) {
  const reader = createRowReader(parts, query, scope);
  const last = createLastRows(parts.io);
  let list = noRows;
  let revision = 0;
  const poller = createPoller(parts.io, pollInterval, async (signal) => {
    const before = list;
    list = last.orLast(await reader.read(signal));
    if (JSON.stringify([list.rows, list.notes]) !== JSON.stringify([before.rows, before.notes])) revision += 1;
  });
  return {
    /** Changes with the list. Throws after an unexpected failure. */
    revision(): number {
      poller.check();
      return revision;
    },
    list: (): JobList => list,
    async close(): Promise<void> {
      await poller.close();
      await reader.close();
    },
  };
}

function createRowReader(parts: ListParts, query: ListQuery, { context, namespace, allNamespaces }: JobScope) {
  const isEverywhere = allNamespaces === true;
  let opened: Promise<Cluster> | undefined;

  async function openQuietly(): Promise<Cluster> {
    try {
      return await parts.cluster({ ...omitUndefined({ context, namespace }), quiet: true });
    } catch (error) {
      // The next read tries again: the kubeconfig may be repaired meanwhile.
      opened = undefined;
      throw error;
    }
  }

  async function read(signal?: AbortSignal): Promise<ClusterRows> {
    // Only jobs of the store have tags.
    if (query.tag !== undefined) return noRows;
    const late = new AbortController();
    const timer = setTimeout(() => {
      late.abort(new Error(`it did not answer within ${clusterTimeout / second} s`));
    }, clusterTimeout);
    const either = signal === undefined ? late.signal : AbortSignal.any([late.signal, signal]);
    let clusterName = 'The cluster';
    try {
      const found = await (opened ??= openQuietly());
      clusterName = `The cluster of ${found.context().context}`;
      return await readRows(found, either, () => clearTimeout(timer));
    } catch (error) {
      const known = error instanceof JobmanError ? error : undefined;
      const why = error instanceof Error ? error.message : String(error);
      const { message, code, lines } =
        known ?? new JobmanError(`${clusterName} is not shown: ${why}`, exitCode.unreachable);
      const [first, ...others] = code === exitCode.usage ? lines : [];
      const note = `${clusterName} is not shown: ${why}${first === undefined ? '' : ` ${first}`}`;
      const failure = { message, code, lines, isPartial: false };
      return { ...noRows, notes: [note, ...others], failure, gap: { cluster: clusterName, why } };
    } finally {
      clearTimeout(timer);
    }
  }

  async function readRows(from: Cluster, signal: AbortSignal, onPage: () => void): Promise<ClusterRows> {
    const { phases: _phases, ...anyPhase } = query;
    const jobs: ClusterJob[] = [];
    const reported = new Set<string>();
    const now = parts.io.now();
    for await (const page of from.jobs({ signal, ...(isEverywhere ? { allNamespaces: true } : {}) })) {
      // The cluster answers, so the rest may take its time.
      onPage();
      for (const job of page) {
        const row = clusterRow(job, from.context(), now);
        // Pods may put an unready job into another phase.
        if (matchesQuery(row, isUnready(job) ? anyPhase : query)) jobs.push(job);
        if (query.all === true) reported.add(job.uid).add(`${row.zone} ${row.name}`);
      }
    }
    const rows = await rowsOf(from, jobs, now, isEverywhere);
    const wanted = query.phases === undefined ? rows : rows.filter((row) => matchesQuery(row, query));
    const ordered = wanted.toSorted((one, other) => other.createdAt - one.createdAt);
    return { ...limitFinished(ordered, query), reported };
  }

  return {
    read,
    async close() {
      await opened?.then((found) => found.close()).catch(() => undefined);
    },
  };
}

/** The rows of these jobs, with what only their pods know. */
export async function rowsOf(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  now: Instant,
  isEverywhere = false,
): Promise<readonly JobRow[]> {
  const found = await readPods(cluster, jobs, now, isEverywhere);
  return jobs.map((job) => clusterRow(job, cluster.context(), now, found.get(job.uid)));
}

/** Rows of archived jobs that no cluster has reported. Compares uids, too: one cluster may have several contexts. */
export async function archivedRows(
  parts: ListParts,
  query: ListQuery,
  reported: ReadonlySet<string>,
): Promise<readonly JobRow[]> {
  if (query.tag !== undefined) return [];
  const now = parts.io.now();
  // Show each name once: commands cannot address an earlier job of the same name.
  const names = new Set(reported);
  return (await archivedJobs(parts, {})).flatMap((archived) => {
    const { job, hidden } = archived;
    const row = archivedRow(archived, now);
    const key = `${row.zone} ${job.name}`;
    if (hidden || names.has(key) || names.has(job.uid)) return [];
    names.add(key);
    return matchesQuery(row, query) ? [row] : [];
  });
}

export function archivedRow(archived: ArchivedJob, now: Instant): JobRow {
  const { job, observedAt, goneAt } = archived;
  const phase = archivedPhase(archived);
  const isOpen = mayBeActive(archived);
  const last = phase === 'cancelled' ? 'deleted' : clusterReason(job, isOpen ? observedAt : now);
  return {
    ...clusterRow(job, archived, now),
    phase,
    attention: phase === 'failed' ? 'failed' : null,
    // An unfinished job may have changed since its observation, so the reason gets an age.
    message: isOpen ? `${last}; as seen ${formatAge(now - observedAt)} ago` : last,
    phaseStartedAt: job.endedAt ?? goneAt ?? job.startedAt ?? job.createdAt,
  };
}

/** Without a result of the Job alone: its pods may put it into another phase. */
export function clusterRow(
  job: ClusterJob,
  context: Pick<ClusterContext, 'context'>,
  now: Instant,
  { phase, reasonText }: PodObservation = { phase: clusterPhase(job), reasonText: clusterReason(job, now) },
): JobRow {
  return {
    id: job.name,
    name: job.name,
    owner: job.owner ?? null,
    backend: 'kubernetes',
    accelerator: job.flavor ?? (formatAmounts(job.requests) || null),
    pricing: null,
    zone: `${context.context}/${job.namespace}`,
    hosts: [],
    worker0Address: null,
    phase,
    heldCapacity: null,
    message: reasonText,
    desired: 'running',
    stage: 0,
    attempt: 0,
    attemptEnds: [],
    attention: phase === 'failed' ? 'failed' : null,
    tags: [],
    overrides: [],
    createdAt: job.createdAt,
    phaseStartedAt: job.endedAt ?? job.startedAt ?? job.createdAt,
    pricePerHourUsd: null,
    simulated: false,
  };
}

function limitFinished(rows: readonly JobRow[], { all, phases, limit }: ListQuery): JobList {
  if (all === true || phases !== undefined || limit !== undefined) return { rows, more: 0, notes: [] };
  let finished = 0;
  const shown = rows.filter(({ phase }) => !isFinishedPhase(phase) || (finished += 1) <= maxFinishedShown);
  return { rows: shown, more: rows.length - shown.length, notes: [] };
}

// ------------------------------------------------------------------------------------------ pod observations

// The Job only says that its pod does not run yet; the pod knows the reason. One request reads all pods, and the list
// works without its answer.

type PodObservation = Pick<ClusterResult, 'phase' | 'reasonText'>;

/** Their names are part of one URL, and proxies allow a few thousand characters. */
const maxJobsObserved = 100;

function isUnready(job: ClusterJob): boolean {
  return job.active > job.ready && !job.suspended && !job.deleting && !isFinishedPhase(clusterPhase(job));
}

/**
 * True if only the pods know the cause of a failure, or the run time without the wait for a node and an image. False
 * for successful jobs of several pods: they have no single run time.
 */
function needsPods(job: ClusterJob): boolean {
  if (job.suspended || job.deleting) return false;
  const phase = clusterPhase(job);
  if (phase === 'failed') return job.failed > 0 && job.failed <= maxFailedPods;
  const isSingle = job.parallelism === 1 && (job.completions ?? 1) === 1;
  return isSingle && (phase === 'succeeded' || (phase === 'running' && !isUnready(job)));
}

/** The newest failed pod has the cause. */
const maxFailedPods = 20;

/** By job uid, only where the pods add information to the Job. Late and refused answers are left out. */
async function readPods(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  now: Instant,
  isEverywhere: boolean,
): Promise<ReadonlyMap<string, PodObservation>> {
  const unready = jobs.filter(isUnready);
  const byPods = jobs.filter((job) => !isUnready(job) && needsPods(job));
  const found = await Promise.all([
    observePods(cluster, newest(unready), now, { isEverywhere }),
    observePods(cluster, newest(byPods), now, { isEverywhere, withEnded: true }),
  ]);
  return new Map(found.flatMap((some) => [...some]));
}

function newest(jobs: readonly ClusterJob[]): readonly ClusterJob[] {
  return jobs.toSorted((one, other) => other.createdAt - one.createdAt).slice(0, maxJobsObserved);
}

/** By job uid, like `readPods`. `withEnded` includes ended pods. */
async function observePods(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  now: Instant,
  { withEnded = false, isEverywhere }: { readonly withEnded?: boolean; readonly isEverywhere: boolean },
): Promise<ReadonlyMap<string, PodObservation>> {
  const found = new Map<string, PodObservation>();
  if (jobs.length === 0) return found;
  const query = {
    labels: `job-name in (${jobs.map(({ name }) => name).join(',')})`,
    ...(withEnded ? {} : { fields: 'status.phase!=Succeeded,status.phase!=Failed' }),
    ...withDeadline(isEverywhere),
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

function withDeadline(isEverywhere: boolean): Pick<ClusterQuery, 'allNamespaces'> & { readonly signal: AbortSignal } {
  const signal = AbortSignal.timeout(clusterTimeout);
  return isEverywhere ? { signal, allNamespaces: true } : { signal };
}

async function ignoreTimeout(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof JobmanError) && !signal.aborted) throw error;
  }
}

/** The actor's unfinished jobs that were submitted from here, by their context and namespace. */
export async function countSubmitted(parts: Parameters<typeof archivedJobs>[0]): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  const active = (await archivedJobs(parts, { active: true })).filter(({ object }) => object !== null);
  if (active.length === 0) return counts;
  const owners = ownerLabels(await (await parts.client()).whoAmI());
  for (const archived of active) {
    if (archived.job.owner !== null && !owners.includes(archived.job.owner)) continue;
    const zone = `${archived.context}/${archived.job.namespace}`;
    counts.set(zone, (counts.get(zone) ?? 0) + 1);
  }
  return counts;
}
