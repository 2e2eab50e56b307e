// The Jobs of a cluster as rows of the one list. They are asked for beside the record; a cluster that does not answer in
// time is a remark below the table and keeps nobody from the rest.

import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import type { Cluster, ClusterJob, ClusterPlace, ClusterPod } from '../../app/cluster/cluster.ts';
import { isKeptOpen, keptPhase } from '../../app/cluster/kept.ts';
import { amountsText } from '../../app/cluster/lack.ts';
import {
  clusterGlance,
  clusterPhase,
  clusterReason,
  type ClusterVerdict,
  refusedText,
} from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { ageText } from '../../app/figures.ts';
import { given } from '../../core/given.ts';
import { isSettledPhase } from '../../core/phase.ts';
import { type Duration, type Instant, second } from '../../core/time.ts';
import type { Cli } from '../context.ts';
import type { PlaceFlags } from './either.ts';
import { besideMost } from './record-and-cluster.ts';

/** Settled Jobs that are shown without --all: as many as of the record. */
const settledShown = 50;

export interface ClusterRows extends JobList {
  /** Every Job that the cluster told of, shown or not: its uid, and its place with its name. Empty unless all are asked for. */
  readonly told: ReadonlySet<string>;
  readonly trouble?: JobmanError;
}

type ListPlace = PlaceFlags & { readonly allNamespaces?: boolean | undefined };

/** The rows of the namespace, or of all namespaces, newest first. Never rejects for what the cluster or the line does. */
export async function clusterRows(cli: Cli, query: ListQuery, flags: ListPlace): Promise<ClusterRows> {
  // Tags are words of the record; no Job of a cluster has one.
  if (query.tag !== undefined) return { rows: [], more: 0, notes: [], told: new Set() };
  const { phases: _phases, ...anyPhase } = query;
  const isEverywhere = flags.allNamespaces === true;
  const late = new AbortController();
  const timer = setTimeout(() => {
    late.abort(new Error(`it did not answer within ${besideMost / second} s`));
  }, besideMost);
  let called = 'The cluster';
  try {
    const cluster = await cli.services.cluster(
      given({ context: flags.context, namespace: flags.namespace, isSilent: true }),
    );
    try {
      const place = cluster.place();
      called = `The cluster of ${place.context}`;
      const rows: JobRow[] = [];
      const places = new Map<string, number>();
      const told = new Set<string>();
      const now = cli.io.now();
      const glancing = createGlancing(cluster, now, { isEverywhere });
      for await (const page of cluster.jobs({ signal: late.signal, ...(isEverywhere ? { everywhere: true } : {}) })) {
        // It answers; the rest may take as long as it takes.
        clearTimeout(timer);
        for (const job of page) {
          const row = rowOf(job, place, now);
          // Pods may put an unready job into another phase.
          if (isWanted(row, isUnready(job) ? anyPhase : query)) {
            if (glancing.add(job)) places.set(job.uid, rows.length);
            rows.push(row);
          }
          if (query.all === true) told.add(job.uid).add(`${row.zone} ${row.name}`);
        }
      }
      for (const [uid, glance] of await glancing.read()) {
        const at = places.get(uid) ?? -1;
        const row = rows[at];
        if (row !== undefined) rows[at] = glanced(row, glance);
      }
      const wanted = query.phases === undefined ? rows : rows.filter((row) => isWanted(row, query));
      const ordered = wanted.toSorted((one, other) => other.createdAt - one.createdAt);
      return { ...cut(ordered, query), told };
    } finally {
      await cluster.close();
    }
  } catch (error) {
    // The jobs of the record are shown in any case.
    const known = error instanceof JobmanError ? error : undefined;
    const why = error instanceof Error ? error.message : String(error);
    const trouble = known ?? new JobmanError(`${called} is not shown: ${why}`, exitCode.unreachable);
    // Each error in a file has its line.
    const [first, ...others] = known?.code === exitCode.usage ? known.lines : [];
    const note = `${called} is not shown: ${why}${first === undefined ? '' : ` ${first}`}`;
    return { rows: [], more: 0, notes: [note, ...others], told: new Set(), trouble };
  } finally {
    clearTimeout(timer);
  }
}

/** Rows of kept jobs that no cluster has reported. One cluster may have several contexts, so jobs are compared by uid, too. */
export async function keptRows(cli: Cli, query: ListQuery, told: ReadonlySet<string>): Promise<readonly JobRow[]> {
  if (query.tag !== undefined) return [];
  const keeper = await cli.services.keeper();
  if (!keeper.isUsed) return [];
  const now = cli.io.now();
  // A name is there once: an earlier job of the name of one that is there now answers to no word.
  const names = new Set(told);
  return (await keeper.jobs({})).flatMap((kept) => {
    const { job, context, hidden, goneAt } = kept;
    const key = `${context}/${job.namespace} ${job.name}`;
    if (hidden || names.has(key) || names.has(job.uid)) return [];
    names.add(key);
    const phase = keptPhase(kept);
    const last = phase === 'cancelled' ? 'deleted' : clusterReason(job, isKeptOpen(kept) ? kept.seenAt : now);
    // An open job may have changed since it was seen, so its reason has an age.
    const reason = isKeptOpen(kept) ? `${last}; as seen ${ageText(now - kept.seenAt)} ago` : last;
    const since = job.endedAt ?? goneAt ?? job.startedAt ?? job.createdAt;
    const row: JobRow = { ...rowOf(job, kept, now), phase, status: phase, reason, since };
    return isWanted(row, query) ? [row] : [];
  });
}

/** The row of a job at that place. */
export function rowOf(job: ClusterJob, place: Pick<ClusterPlace, 'context'>, now: Instant): JobRow {
  const phase = clusterPhase(job);
  return {
    id: job.name,
    name: job.name,
    user: job.owner ?? '-',
    backend: 'kubernetes',
    accelerator: job.flavor ?? (amountsText(job.requests) || '-'),
    pricing: null,
    zone: `${place.context}/${job.namespace}`,
    host0: null,
    phase,
    status: phase,
    reason: clusterReason(job, now),
    desired: 'run',
    stage: 0,
    attempt: 0,
    tags: [],
    createdAt: job.createdAt,
    since: job.endedAt ?? job.startedAt ?? job.createdAt,
    pricePerHour: null,
    pretended: false,
  };
}

/** The row with what its pods tell. */
export function glanced(row: JobRow, { phase, reason }: Glance): JobRow {
  return { ...row, phase, status: phase, reason };
}

/** True if the query asks for that row. */
export function isWanted(row: JobRow, { owner, phases, name }: ListQuery): boolean {
  return (
    (owner === undefined || row.user === owner) &&
    (phases === undefined || phases.includes(row.phase)) &&
    (name === undefined || isLike(row.name, name))
  );
}

function isLike(name: string, pattern: string): boolean {
  const parts = pattern.split(/([*?])/).map((part) => (part === '*' ? '.*' : part === '?' ? '.' : RegExp.escape(part)));
  return new RegExp(`^${parts.join('')}$`, 'is').test(name);
}

/** Without --all or a phase only the newest of those that have settled. */
export function cut(rows: readonly JobRow[], { all, phases }: ListQuery): JobList {
  if (all === true || phases !== undefined) return { rows, more: 0, notes: [] };
  let settled = 0;
  const shown = rows.filter(({ phase }) => !isSettledPhase(phase) || (settled += 1) <= settledShown);
  return { rows: shown, more: rows.length - shown.length, notes: [] };
}

// ------------------------------------------------------------------------------------------ what pods tell

// A Job alone says that its pod does not run yet, for hours if its image does not exist; only the pod knows why. Pods are asked for in
// one request, and the list does without an answer.

/** The fields of a row that pods know better. */
export type Glance = Pick<ClusterVerdict, 'phase' | 'reason'>;

/** The newest jobs of which pods are asked for. Their names stand in one address, which proxies allow a few thousand letters. */
const jobsMost = 100;

/** True if a pod of it exists and does not run, by the Job alone. */
export function isUnready(job: ClusterJob): boolean {
  return job.active > job.ready && !job.suspended && !job.deleting && !isSettledPhase(clusterPhase(job));
}

/**
 * True if the pods of the job have to be read, for the cause of its failure or for how long its program ran: the times of the Job
 * include the wait for a node and an image. False for successful jobs of several pods, whose programs have no single time.
 */
export function isToldByPods(job: ClusterJob): boolean {
  if (job.suspended || job.deleting) return false;
  const phase = clusterPhase(job);
  if (phase === 'failed') return job.failed > 0 && job.failed <= podsMost;
  const isSingle = job.parallelism === 1 && (job.completions ?? 1) === 1;
  return isSingle && (phase === 'succeeded' || (phase === 'running' && !isUnready(job)));
}

/** True if it has no pod although it should have one by now: an event of the Job may say why. */
export function isPodless(job: ClusterJob, now: Instant): boolean {
  const isNew = now - (job.startedAt ?? job.createdAt) < podWithin;
  return job.active === 0 && !isNew && !job.suspended && !job.deleting && clusterPhase(job) === 'queued';
}

const podWithin: Duration = 3 * second;

/** Failed pods of one job that are read for a list; the newest has the cause. */
const podsMost = 20;

interface GlanceOptions {
  readonly left?: AbortSignal;
  readonly isEverywhere?: boolean;
}

/** Asks nothing before `read`, and nothing for no jobs. */
export function createGlancing(cluster: Cluster, now: Instant, options: GlanceOptions = {}) {
  const unready: ClusterJob[] = [];
  const byPods: ClusterJob[] = [];
  const podless: ClusterJob[] = [];
  return {
    /** True if their answer may change the row of the job. */
    add(job: ClusterJob): boolean {
      const list = isUnready(job) ? unready : isToldByPods(job) ? byPods : isPodless(job, now) ? podless : undefined;
      list?.push(job);
      return list !== undefined;
    },
    /** By the uids of the jobs, where they add something to what the Job tells. An answer that is late or refused is left out. */
    async read() {
      const found = await Promise.all([
        glances(cluster, newest(unready), now, options),
        glances(cluster, newest(byPods), now, { ...options, withEnded: true }),
        refusals(cluster, newest(podless), options),
      ]);
      return new Map(found.flatMap((some) => [...some]));
    },
  };
}

function newest(jobs: readonly ClusterJob[]): readonly ClusterJob[] {
  return jobs.toSorted((one, other) => other.createdAt - one.createdAt).slice(0, jobsMost);
}

/** By their uids, where pods add something to what the Job tells; `withEnded`: also pods that have ended. */
export async function glances(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  now: Instant,
  { withEnded = false, ...options }: GlanceOptions & { readonly withEnded?: boolean } = {},
): Promise<ReadonlyMap<string, Glance>> {
  const found = new Map<string, Glance>();
  if (jobs.length === 0) return found;
  const query = {
    labels: `job-name in (${jobs.map(({ name }) => name).join(',')})`,
    ...(withEnded ? {} : { fields: 'status.phase!=Succeeded,status.phase!=Failed' }),
    ...soon(options),
  };
  const pods: ClusterPod[] = [];
  await unlessLate(query.signal, async () => {
    for await (const page of cluster.pods(query)) pods.push(...page);
  });
  for (const job of jobs) {
    const own = pods.filter(
      (pod) => pod.job === job.name && pod.namespace === job.namespace && (pod.jobUid ?? job.uid) === job.uid,
    );
    const glance = clusterGlance(job, own, now);
    if (glance !== null) found.set(job.uid, glance);
  }
  return found;
}

async function refusals(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  options: GlanceOptions,
): Promise<ReadonlyMap<string, Glance>> {
  const found = new Map<string, Glance>();
  if (jobs.length === 0) return found;
  const query = soon(options);
  await unlessLate(query.signal, async () => {
    const byUid = new Map((await cluster.refusedPods(query)).map((event) => [event.object.uid, event]));
    for (const job of jobs) {
      const event = byUid.get(job.uid);
      if (event !== undefined) found.set(job.uid, { phase: clusterPhase(job), reason: refusedText(job, event) });
    }
  });
  return found;
}

function soon({ left, isEverywhere = false }: GlanceOptions): {
  readonly signal: AbortSignal;
  readonly everywhere?: true;
} {
  const late = AbortSignal.timeout(besideMost);
  const signal = left === undefined ? late : AbortSignal.any([late, left]);
  return { signal, ...(isEverywhere ? { everywhere: true } : {}) };
}

async function unlessLate(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof JobmanError) && !signal.aborted) throw error;
  }
}
