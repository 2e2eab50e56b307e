// Job source: where jobs come from. The store and a cluster implement it, and jobs.ts merges the two, so that a front
// end does not ask which kind of job it shows. Arguments and results are plain JSON; as in `fetch`, a signal may end a
// call early.

import type { ClusterJobView } from './cluster/job-view.ts';
import type { Phase } from '../core/decide/phase.ts';
import type { Event } from '../core/model/event.ts';
import type { WorkerId } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { JobActions } from '../core/policy/permissions.ts';
import type {
  JobList,
  JobRow,
  JobView,
  ListQuery,
  LogPart,
  LogQuery,
  MetricPointView,
  MetricsQuery,
  MetricsStep,
  MetricsView,
  PassList,
  PassQuery,
  Why,
} from './client.ts';
import type { CommandStep, PerformedCommand, PerformOptions } from './command-steps.ts';
import type { DiffSide } from './diff.ts';
import { usageError } from './errors.ts';
import type { RefPurpose } from './refs.ts';

/** The cluster and namespace to search. Without a field the kubeconfig decides. */
export interface JobScope {
  readonly context?: string | undefined;
  readonly namespace?: string | undefined;
  readonly allNamespaces?: boolean | undefined;
}

/** A job that a user names. */
interface JobReference {
  /** An id or a name. */
  readonly text: string;
  /** True if the text is a name even if it looks like an id. */
  readonly isName: boolean;
}

/** A job that a source has found. The other methods take it. */
export interface FoundJob {
  /** The id of a stored job; otherwise the name in the cluster. */
  readonly id: string;
  /** Null for a stored job. */
  readonly cluster: ClusterAddress | null;
  /** Null unless only the archive of a cluster has the job. */
  readonly copy: ArchivedCopy | null;
  /** A sentence about other jobs of the same name; null without any. */
  readonly note: string | null;
}

interface ClusterAddress {
  readonly context: string;
  readonly namespace: string;
  /** Null for a job of a list, which is then the one that has the name now. */
  readonly uid: string | null;
}

/** The archive answers for a cluster that has deleted the job, or cannot be reached. */
export interface ArchivedCopy {
  /** Its age, and why the cluster does not answer. */
  readonly message: string;
  /** True if nothing can have changed since. */
  readonly isCertain: boolean;
  /** True if the cluster has reported that it does not have the job. */
  readonly isGone: boolean;
}

/** A job in the usage ledger. */
export interface LedgerJob {
  /** Its id; in a cluster its uid. */
  readonly key: string;
  readonly id: string;
  readonly name: string;
}

/** Everything about a job. `backend` tells the two apart. */
export type JobDetails = JobView | ClusterJobView;

export interface JobHistory {
  readonly id: string;
  readonly name: string;
  /** Null for a job in a cluster that another tool made. */
  readonly owner: string | null;
  /** Oldest first. */
  readonly entries: readonly HistoryEntry[];
}

export interface HistoryEntry {
  readonly at: Instant;
  /** For people. Null for an event that repeats the one before. */
  readonly message: string | null;
  /** The stored event with its number in the job; null in a cluster, which has only messages. */
  readonly event: ({ readonly seq: number } & Event) | null;
}

/** The jobs that a command is for if it names none. */
export interface JobSelection {
  readonly jobs: readonly FoundJob[];
  /** A row for each of them. */
  readonly rows: readonly JobRow[];
  /** `3 jobs in lab/vision, 1 of them not yours`. */
  readonly description: string;
  /** A sentence for a selection without jobs. */
  readonly nothing: string;
}

/** The part of a job's logs that a reader wants. */
export interface LogsQuery extends Omit<LogQuery, 'all'> {
  /** Only the last lines of each log that exists at the beginning. */
  readonly tail?: number | undefined;
  /** Only lines from then on. */
  readonly since?: Instant | undefined;
  /** Continues until the job has finished. */
  readonly follow?: boolean | undefined;
  /** Of a followed job, only attempts after this one. Absent: the newest attempt and those after it. */
  readonly after?: number | undefined;
  /** A followed log gives an empty part once, where it ends at the beginning. */
  readonly reportsEnd?: boolean | undefined;
  /** In a cluster: this container of each pod; by default the main one. */
  readonly container?: string | undefined;
  readonly allContainers?: boolean | undefined;
  /** In a cluster: the output before the last restart of the container. */
  readonly previous?: boolean | undefined;
  /** In a cluster: every pod; by default the newest. */
  readonly allPods?: boolean | undefined;
  /** In a cluster: each line begins with its time. */
  readonly timestamps?: boolean | undefined;
}

/** The parts of a query that only jobs of one source have, with the flag and, for a job in a cluster, the other way. */
const keysOfOneSource: readonly {
  readonly key: keyof LogsQuery;
  readonly flag: string;
  readonly insteadInCluster?: string;
}[] = [
  { key: 'container', flag: '--container' },
  { key: 'allContainers', flag: '--all-containers' },
  { key: 'previous', flag: '--previous' },
  { key: 'allPods', flag: '--all-pods' },
  { key: 'step', flag: '--step', insteadInCluster: 'a pod has containers: --container' },
  { key: 'attempt', flag: '--attempt', insteadInCluster: 'each attempt is a pod: --all-pods' },
];

/** Throws JobmanError (2) for a query that jobs of that source do not support. */
export function requireSupported(query: LogsQuery, source: 'store' | 'cluster'): void {
  for (const { key, flag, insteadInCluster } of keysOfOneSource) {
    if (query[key] === undefined) continue;
    if (source === 'store' && insteadInCluster === undefined)
      throw usageError(`${flag} works only for a job of a Kubernetes cluster.`);
    if (source === 'cluster' && insteadInCluster !== undefined)
      throw usageError(`${flag} is not for a job in a cluster; ${insteadInCluster}.`);
  }
}

/** A log to print. `readLog` reads its bytes. */
export interface JobLog {
  readonly job: string;
  /** Names the log within its job. */
  readonly id: string;
  /** The beginning of its lines, where logs are told apart: the number of the worker; of a pod, a short name. */
  readonly label: number | string | null;
  readonly worker: WorkerId | null;
  readonly attempt: number | null;
  /** Null for a stored job. */
  readonly pod: { readonly name: string; readonly container: string } | null;
  /** The offset of the first byte that the query wants. */
  readonly from: number;
  /** True for a log that began while the job was followed. */
  readonly isNew: boolean;
  /** True if each part must begin where the one before ended: only a stored log and an archived one can be read again. */
  readonly isSequential: boolean;
}

export type LogStep =
  /** Logs to print together. `isNext`: no more comes from the logs before. */
  | { readonly kind: 'logs'; readonly logs: readonly JobLog[]; readonly isNext: boolean }
  /** The logs so far may have more bytes. Comes at least four times a second for a stored job. */
  | { readonly kind: 'grown' }
  | { readonly kind: 'note'; readonly message: string }
  /** A stored job that is followed. Empty `news` if only ages and reasons changed; on the first step all events so far. */
  | { readonly kind: 'job'; readonly view: JobView; readonly news: readonly Event[]; readonly isFirst: boolean }
  /** A followed job has finished; null if it was deleted. */
  | { readonly kind: 'finished'; readonly phase: Phase | null };

/**
 * Every method throws JobmanError: 3 for an absent job, 4 for a name that matches two jobs, 5 if the cluster cannot be
 * reached. Reads write nothing.
 */
export interface JobSource {
  /** The one job of that name or id. For a change, its name must be in one namespace. */
  find(reference: JobReference, purpose: RefPurpose): Promise<FoundJob>;
  /** Newest first. A source that does not answer does not fail the list: see `JobList.failure`. */
  list(query: ListQuery): Promise<JobList>;
  /** `isKept`: its sentences name times instead of ages, because they are read later. */
  show(job: FoundJob, options?: { readonly isKept: boolean }): Promise<JobDetails>;
  why(job: FoundJob): Promise<Why>;
  history(job: FoundJob): Promise<JobHistory>;
  /** As in `Client`. Throws JobmanError (2) for a job in a cluster, which decides about it. */
  passes(job: FoundJob, query: PassQuery): Promise<PassList>;
  /** The commands that the actor may give now, and the reasons against the others. */
  actions(job: FoundJob): Promise<JobActions>;
  /** The capacity that a delete would release, as a sentence without its full stop; null without any. */
  heldCapacity(job: FoundJob): Promise<string | null>;
  /** Gives a command, and waits until it is accepted; in a cluster until it is done. */
  perform(job: FoundJob, command: PerformedCommand, options: PerformOptions): AsyncIterable<CommandStep>;
  /**
   * The jobs of `--all`, in groups for one question each. `cancel`: own unfinished jobs, and those that hold capacity.
   * `delete`: own finished jobs, and in a cluster all jobs of the namespace, or with `own` only own ones. `clean`: own jobs
   * that have files.
   */
  select(command: 'cancel' | 'delete' | 'clean', own: boolean): Promise<readonly JobSelection[]>;
  ledgerJob(job: FoundJob): Promise<LedgerJob>;
  /** One side of `diff`, of the newest attempt without a number. Throws JobmanError (3) for an absent attempt. */
  diffSide(job: FoundJob, attempt: number | null): Promise<DiffSide>;
  /** Throws JobmanError (2) for a query that this kind of job does not support. Ends early at the signal. */
  logs(job: FoundJob, query: LogsQuery, signal?: AbortSignal): AsyncIterable<LogStep>;
  /**
   * As in `Client`. In a cluster, offsets count from the first byte that the query of `logs` wants, and a log that is not
   * followed keeps the reader waiting until more bytes or its end arrive. Throws JobmanError (3) for another offset of a
   * sequential log.
   */
  readLog(job: FoundJob, id: string, from: number, maxBytes: number): Promise<LogPart>;
  metrics(job: FoundJob, query: MetricsQuery): AsyncIterable<MetricsStep>;
  /** Every point, without a reduction. */
  metricPoints(job: FoundJob, query: MetricsQuery): AsyncIterable<MetricPointView>;
  close(): Promise<void>;
}

/** All bytes of a log from the first that is wanted, in blocks, until a read finds none. */
export async function* logBytes(
  readLog: (id: string, from: number, maxBytes: number) => Promise<Pick<LogPart, 'bytes'>>,
  { id, from: begin }: Pick<JobLog, 'id' | 'from'>,
): AsyncIterable<Buffer> {
  for (let from = begin; ;) {
    const { buffer, byteOffset, byteLength } = (await readLog(id, from, logBlockSize)).bytes;
    if (byteLength === 0) return;
    from += byteLength;
    yield Buffer.from(buffer, byteOffset, byteLength);
  }
}

/** A reader of lines keeps each block as bytes, as text and as lines at the same time. */
export const logBlockSize = 64 * 1024;

/** Waits for the result. */
export async function metricsResult(steps: AsyncIterable<MetricsStep>): Promise<MetricsView> {
  for await (const step of steps) if (step.kind === 'result') return step.metrics;
  throw new Error('the metrics ended without a result');
}
