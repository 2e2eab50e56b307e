// Cluster jobs as rows of `list`. A cluster that does not answer in time becomes a note below the table.

import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import type {
  Cluster,
  ClusterContext,
  ClusterJob,
  ClusterOptions,
  ClusterPod,
  ClusterQuery,
} from '../../app/cluster/cluster.ts';
import { mayBeActive, archivedPhase } from '../../app/cluster/archive.ts';
import { formatAmounts } from '../../app/cluster/missing-resources.ts';
import { clusterSummary, clusterPhase, clusterReason, type ClusterResult } from '../../app/cluster/job-result.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatAge, formatLocalTimeOfDay } from '../../app/format.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { type Duration, type Instant, second } from '../../core/model/time.ts';
import type { Cli } from '../context.ts';
import { pause } from '../../app/concurrency.ts';
import type { ContextFlags } from '../jobs/handle.ts';
import { clusterTimeout, joinLists, splitContext } from './join-sources.ts';

const maxFinishedShown = 50;

export interface ClusterRows extends JobList {
  /** The uid, and the context with the name, of every Job of the cluster. Empty without --all. */
  readonly reported: ReadonlySet<string>;
  readonly error?: JobmanError;
  /** The note without its verb, for rows that are shown although there is an error. */
  readonly gap?: { readonly cluster: string; readonly why: string };
}

type ListContextFlags = ContextFlags & { readonly allNamespaces?: boolean | undefined };

const noRows: ClusterRows = { rows: [], more: 0, notes: [], reported: new Set() };

/** Adds the archive's rows with --all or if the cluster does not answer. Never rejects for an error of the cluster. */
export async function clusterRows(
  cli: Cli,
  query: ListQuery,
  flags: ListContextFlags,
  usesCluster: boolean,
): Promise<ClusterRows> {
  const found = usesCluster ? await currentRows(cli, query, flags) : noRows;
  if (query.all !== true && found.error === undefined) return found;
  const rows = (await archivedRows(cli, query, found.reported)).filter(
    (row) => query.all === true || isInContext(row, flags),
  );
  return { ...found, ...joinLists(found, { rows, more: 0, notes: [] }) };
}

/** True without flags for a context or namespace. False for deleted jobs. */
function isInContext({ zone, phase }: JobRow, { namespace, context, allNamespaces }: ListContextFlags): boolean {
  if (phase === 'cancelled') return false;
  const found = splitContext(zone);
  return (
    (context === undefined || context === found.context) &&
    (allNamespaces === true || namespace === undefined || namespace === found.namespace)
  );
}

async function currentRows(cli: Cli, query: ListQuery, flags: ListContextFlags): Promise<ClusterRows> {
  const reader = createRowReader(cli, query, flags);
  try {
    return await reader.read();
  } finally {
    await reader.close();
  }
}

const pollInterval: Duration = 2 * second;

export type PolledRows = ReturnType<typeof pollClusterRows>;

/** Reads the rows again and again until `close`. While the cluster does not answer, the last rows stay. */
export function pollClusterRows(cli: Cli, query: ListQuery, flags: ContextFlags) {
  const end = new AbortController();
  const reader = createRowReader(cli, query, flags);
  let list = noRows;
  let revision = 0;
  let failed: unknown;
  let answeredAt: Instant | null = null;

  /** The last rows, if the cluster does not answer now. */
  function withLastRows(next: ClusterRows, before: ClusterRows): ClusterRows {
    if (next.error === undefined) answeredAt = cli.io.now();
    if (next.error?.code !== exitCode.unreachable || next.gap === undefined || answeredAt === null) return next;
    const { cluster, why } = next.gap;
    const note = `${cluster} is not updated since ${formatLocalTimeOfDay(answeredAt)}: ${why}`;
    return { ...next, rows: before.rows, more: before.more, notes: [note] };
  }

  async function poll(): Promise<void> {
    while (!end.signal.aborted) {
      const began = cli.io.now();
      const next = await reader.read(end.signal);
      const before = list;
      list = withLastRows(next, before);
      if (JSON.stringify([list.rows, list.notes]) !== JSON.stringify([before.rows, before.notes])) revision += 1;
      // A long list loads the cluster: read it for a tenth of the time at most.
      await pause(Math.max(pollInterval, 10 * (cli.io.now() - began)), end.signal);
    }
  }

  const work = poll().catch((error: unknown) => (failed = error));
  return {
    get revision() {
      if (failed !== undefined) throw failed;
      return revision;
    },
    list: (): JobList => list,
    /** Throws JobmanError. */
    cluster: reader.cluster,
    async close() {
      end.abort();
      await work;
      await reader.close();
    },
  };
}

function createRowReader(cli: Cli, query: ListQuery, { context, namespace, allNamespaces }: ListContextFlags) {
  const isEverywhere = allNamespaces === true;
  let opened: Promise<Cluster> | undefined;
  const cluster = (): Promise<Cluster> => (opened ??= openQuietly());

  async function openQuietly(): Promise<Cluster> {
    const options: ClusterOptions = { ...omitUndefined({ context, namespace }), quiet: true };
    try {
      return await cli.services.cluster(options);
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
      const found = await cluster();
      clusterName = `The cluster of ${found.context().context}`;
      return await readRows(found, either, () => clearTimeout(timer));
    } catch (error) {
      const known = error instanceof JobmanError ? error : undefined;
      const why = error instanceof Error ? error.message : String(error);
      const trouble = known ?? new JobmanError(`${clusterName} is not shown: ${why}`, exitCode.unreachable);
      const [first, ...others] = known?.code === exitCode.usage ? known.lines : [];
      const note = `${clusterName} is not shown: ${why}${first === undefined ? '' : ` ${first}`}`;
      return { ...noRows, notes: [note, ...others], error: trouble, gap: { cluster: clusterName, why } };
    } finally {
      clearTimeout(timer);
    }
  }

  async function readRows(from: Cluster, signal: AbortSignal, onPage: () => void): Promise<ClusterRows> {
    const { phases: _phases, ...anyPhase } = query;
    const jobs: ClusterJob[] = [];
    const reported = new Set<string>();
    const now = cli.io.now();
    for await (const page of from.jobs({ signal, ...(isEverywhere ? { allNamespaces: true } : {}) })) {
      // The cluster answers, so the rest may take its time.
      onPage();
      for (const job of page) {
        const row = rowOf(job, from.context(), now);
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
    cluster,
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
  return jobs.map((job) => {
    const row = rowOf(job, cluster.context(), now);
    const observed = found.get(job.uid);
    return observed === undefined ? row : { ...row, phase: observed.phase, message: observed.reasonText };
  });
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

/** Of the Job alone: its pods may put it into another phase. */
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

function matchesQuery(row: JobRow, { user, phases, name }: ListQuery): boolean {
  return (
    (user === undefined || row.owner === user) &&
    (phases === undefined || phases.includes(row.phase)) &&
    (name === undefined || matchesPattern(row.name, name))
  );
}

function matchesPattern(name: string, pattern: string): boolean {
  const parts = pattern.split(/([*?])/).map((part) => (part === '*' ? '.*' : part === '?' ? '.' : RegExp.escape(part)));
  return new RegExp(`^${parts.join('')}$`, 'is').test(name);
}

function limitFinished(rows: readonly JobRow[], { all, phases }: ListQuery): JobList {
  if (all === true || phases !== undefined) return { rows, more: 0, notes: [] };
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
