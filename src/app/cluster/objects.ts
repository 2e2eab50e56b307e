// Objects of a cluster with the fields that jobman uses, and what the archive keeps of them. Types only, so that Client can
// name them.

import type { NotifySpec } from '../../core/model/notify.ts';
import type { Duration, Instant } from '../../core/model/time.ts';
import type { Key, Rows, Span } from '../pages.ts';
import type { FlavorPrice } from '../../reports/prices.ts';

/** `Complete`, `Failed`, `Suspended`, … */
export interface ClusterCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string | null;
  readonly message: string | null;
  readonly at: Instant | null;
}

export interface ClusterJob {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly createdAt: Instant;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly suspended: boolean;
  readonly parallelism: number;
  /** Null if any one success completes the Job. */
  readonly completions: number | null;
  /** `active`: pods that are pending or running. `ready`: those that are ready. The others have ended. */
  readonly active: number;
  readonly ready: number;
  readonly succeeded: number;
  readonly failed: number;
  /** Terminating pods; absent in clusters before 1.31. */
  readonly terminating?: number;
  /** The limit of `--timeout`; null without one. */
  readonly deadline?: Duration | null;
  readonly conditions: readonly ClusterCondition[];
  /** The annotation under the configured key (`job.resources.label`); null without it. */
  readonly flavor: string | null;
  /** Our labels; null on a Job of another tool. */
  readonly owner: string | null;
  readonly installation: string | null;
  /** The requests of one pod, summed over its containers, in the canonical form of quantity.ts. */
  readonly requests: Readonly<Record<string, string>>;
  readonly images: readonly string[];
  readonly deleting: boolean;
  readonly queueName: string | null;
  /** Kueue's label for the priority in that queue. Without it, the PriorityClass of the pods counts. */
  readonly queuePriority?: string | null;
  readonly priorityClass: string | null;
  /** The events to report and their recipients, from our annotation. Absent without one. */
  readonly notify?: NotifySpec;
}

export interface ClusterContainer {
  readonly name: string;
  readonly image: string;
  readonly state: 'waiting' | 'running' | 'terminated';
  readonly reason: string | null;
  readonly message: string | null;
  readonly exitCode: number | null;
  readonly signal: number | null;
  readonly restarts: number;
  /** The end of the run before the last restart; null before the first restart. Absent in older copies. */
  readonly lastEnd?: Pick<ClusterContainer, 'reason' | 'exitCode' | 'signal'> | null;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly init: boolean;
}

export interface ClusterPod {
  readonly name: string;
  readonly namespace: string;
  /** The Job that owns the pod; without an owner, the Job in its label `batch.kubernetes.io/job-name`. Null without one. */
  readonly job: string | null;
  /** That Job's uid: another Job may have had the same name. Null if the cluster does not report it. */
  readonly jobUid?: string | null;
  readonly uid: string;
  /** `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`. */
  readonly phase: string;
  readonly reason: string | null;
  readonly message: string | null;
  readonly node: string | null;
  readonly index: number | null;
  readonly createdAt: Instant;
  readonly startedAt: Instant | null;
  /** The resources that the pod takes on its node, in the canonical form of quantity.ts. */
  readonly requests: Readonly<Record<string, string>>;
  readonly limits?: Readonly<Record<string, string>>;
  readonly containers: readonly ClusterContainer[];
  readonly conditions: readonly ClusterCondition[];
  readonly deleting: boolean;
}

/** Repetitions of an event are one event with a higher count. */
export interface ClusterEvent {
  readonly object: { readonly kind: string; readonly name: string; readonly uid: string };
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly firstAt: Instant;
  readonly lastAt: Instant;
}

/** A cluster and namespace to watch, and the access to it: the controller's own environment may differ. */
export interface WatchedContext {
  readonly server: string;
  readonly namespace: string;
  readonly context: string;
  /** The setting `kubeConfig` at the submission, with an absolute path. */
  readonly setting: { readonly type: 'default' | 'cluster' | 'file'; readonly file: string | null };
  /** KUBECONFIG with absolute paths; null if it was not set. */
  readonly kubeconfig: string | null;
  readonly flavorAnnotation: string;
  readonly requestedAt: Instant;
}

/** State of the copy. `truncated`: the pod was gone before the copy reached the end of the log. */
type ArchivedLogState = 'open' | 'complete' | 'truncated';

export interface ArchivedLog {
  readonly pod: string;
  readonly container: string;
  readonly state: ArchivedLogState;
}

export interface ArchivedObservation {
  readonly job: ClusterJob;
  /** All pods ever observed, oldest first; a deleted pod keeps its last observation. */
  readonly pods: readonly ClusterPod[];
  readonly events: readonly ClusterEvent[];
  /** The own price of its flavor when the job was first observed; null without one. Absent before, and in older records. */
  readonly flavorPrice?: FlavorPrice | null | undefined;
}

export type ArchivedLogName = Pick<ArchivedLog, 'pod' | 'container'>;

export interface ArchivedLogQuery {
  readonly tail?: number;
  readonly since?: Instant;
  /** With those of the cluster, and the lines in parts. The rest of the query is ignored. */
  readonly timestamps?: true;
}

/** The newest whole line of a copy. */
export interface ArchivedLine extends ArchivedLogName {
  readonly line: string;
  readonly at: Instant;
}

/** The files of the copies. `list` first gets the lines that other servers have. The other methods read only the local files. */
export interface ArchivedLogs {
  /** Including those that the database does not know yet. */
  list(job: ArchivedJob): Promise<readonly ArchivedLog[]>;
  /** Yields whole lines, byte for byte as printed, without timestamps; nothing for an absent file. */
  read(job: ArchivedJob, log: ArchivedLogName, query: ArchivedLogQuery): AsyncIterable<Uint8Array>;
  /** Null without a whole line. */
  lastLine(job: ArchivedJob, log: ArchivedLogName): Pick<ArchivedLine, 'line' | 'at'> | null;
  remove(job: ArchivedJob): Promise<void>;
}

export interface ArchivedJob extends ArchivedObservation {
  readonly server: string;
  readonly context: string;
  readonly observedAt: Instant;
  /** Time of the first observation without the job; null while it may exist. */
  readonly goneAt: Instant | null;
  /** The job left the list; its logs and history remain available by its name until `clean`. */
  readonly hidden: boolean;
  /** The submitted Job as JSON; null if it was not submitted from this installation. */
  readonly object: string | null;
  readonly logs: readonly ArchivedLog[];
}

/** A repeated observation of an event has the same key. */
export interface ClusterJobEvent {
  readonly key: string;
  readonly at: Instant;
  readonly message: string;
}

export interface ArchiveQuery {
  readonly name?: string;
  readonly namespace?: string;
  readonly server?: string;
  /** Only jobs of the list that may still run. */
  readonly active?: true;
}

/** Every method may throw StoreError. */
export interface ClusterStore {
  /** Makes the controller watch our jobs there. Safe to repeat. */
  watchContext(context: WatchedContext): Promise<void>;
  contexts(): Promise<readonly WatchedContext[]>;
  /** Ends the watch of a context without jobs. Does nothing after a newer submission than `requestedAt`. */
  unwatchContext(context: WatchedContext): Promise<void>;
  /** Stores a submitted Job. The observations of a known job stay. */
  archiveObject(at: Pick<ArchivedJob, 'server' | 'context' | 'observedAt' | 'job'>, object: string): Promise<void>;
  /** Stores an observation and its events. The submitted object and the state of logs stay. */
  archiveObservation(
    observed: Omit<ArchivedJob, 'hidden' | 'object' | 'logs'>,
    events: readonly ClusterJobEvent[],
  ): Promise<void>;
  archiveLog(uid: string, log: ArchivedLog): Promise<void>;
  archiveEvent(uid: string, event: ClusterJobEvent): Promise<void>;
  hide(uid: string): Promise<void>;
  remove(uid: string): Promise<void>;
  /** Newest first. */
  jobs(query: ArchiveQuery, span?: Span): Promise<Rows<ArchivedJob, Key>>;
  job(uid: string): Promise<ArchivedJob | undefined>;
  events(uid: string, span?: Span): Promise<Rows<ClusterJobEvent, Key>>;
}
