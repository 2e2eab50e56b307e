// Cluster: the door to a Kubernetes cluster, and what is kept in hand of its objects. The adapter is in
// backends/kubernetes/; nothing else in the program knows the cluster's API.
//
// A job of a cluster lives there and not in our record; its name is its reference. The objects below are trimmed to what
// is shown and decided from, because a list of ten thousand whole Jobs is thirty megabytes of JSON.

import type { Duplex } from 'node:stream';
import type { V1Job } from '@kubernetes/client-node';
import type { CopyEnd, CopyRequest, Session, SessionRequest } from '../by-hand.ts';
import { JobmanError } from '../errors.ts';
import type { Duration, Instant } from '../../core/time.ts';

/** Where a cluster is and as whom it is asked, as the kubeconfig says it. */
export interface ClusterPlace {
  /** The kubeconfig's context; `in-cluster` for the service account of a pod. */
  readonly context: string;
  readonly server: string;
  readonly namespace: string;
  /** As whom the cluster knows us, for people. */
  readonly user: string;
}

/** Which cluster is meant, where it is not the kubeconfig's own choice. */
export interface ClusterOptions {
  readonly context?: string;
  readonly namespace?: string;
  /** The caller reports a cluster that is slow, or leaves it soon; otherwise a terminal shows what is waited for. */
  readonly isSilent?: boolean;
}

/** One line of a Job's conditions: `Complete`, `Failed`, `Suspended`, … */
export interface ClusterCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string | null;
  readonly message: string | null;
  readonly at: Instant | null;
}

/** A Job, trimmed. */
export interface ClusterJob {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly createdAt: Instant;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly suspended: boolean;
  readonly parallelism: number;
  /** Null when any one success completes it. */
  readonly completions: number | null;
  /** Pods that are pending or running, those that are ready, and those that have ended. */
  readonly active: number;
  readonly ready: number;
  readonly succeeded: number;
  readonly failed: number;
  /** Terminating pods; absent in clusters before 1.31. */
  readonly terminating?: number;
  /** How long it may run (`--timeout`); null without a limit. */
  readonly deadline?: Duration | null;
  readonly conditions: readonly ClusterCondition[];
  /** The annotation under the configured key (`job.resources.label`); null where there is none. */
  readonly flavor: string | null;
  /** Our labels; null on what another tool made. */
  readonly owner: string | null;
  readonly installation: string | null;
  /** The requests of one pod, summed over its containers, in the canonical form of quantity.ts. */
  readonly requests: Readonly<Record<string, string>>;
  readonly images: readonly string[];
  readonly deleting: boolean;
  readonly queueName: string | null;
  /** Kueue's label for the priority in that queue; the PriorityClass of its pods counts without it. */
  readonly queuePriority?: string | null;
  readonly priorityClass: string | null;
}

/** A container of a pod, trimmed. */
export interface ClusterContainer {
  readonly name: string;
  readonly image: string;
  readonly state: 'waiting' | 'running' | 'terminated';
  readonly reason: string | null;
  readonly message: string | null;
  readonly exitCode: number | null;
  readonly signal: number | null;
  readonly restarts: number;
  /** How the run before its last restart ended; null before the first. Absent in older copies. */
  readonly lastEnd?: Pick<ClusterContainer, 'reason' | 'exitCode' | 'signal'> | null;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly init: boolean;
}

/** A pod, trimmed. */
export interface ClusterPod {
  readonly name: string;
  readonly namespace: string;
  /** The Job that it belongs to, by the label `batch.kubernetes.io/job-name`; null where it is none's. */
  readonly job: string | null;
  /** That Job's uid: another Job may have had the name. Null where the cluster does not say it. */
  readonly jobUid?: string | null;
  readonly uid: string;
  /** Kubernetes' word: `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`. */
  readonly phase: string;
  readonly reason: string | null;
  readonly message: string | null;
  readonly node: string | null;
  readonly index: number | null;
  readonly createdAt: Instant;
  readonly startedAt: Instant | null;
  /** The resources that it takes on its node, in the canonical form of quantity.ts. */
  readonly requests: Readonly<Record<string, string>>;
  readonly limits?: Readonly<Record<string, string>>;
  readonly containers: readonly ClusterContainer[];
  readonly conditions: readonly ClusterCondition[];
  readonly deleting: boolean;
}

/** One event of the cluster, the same one repeated being one. */
export interface ClusterEvent {
  readonly object: { readonly kind: string; readonly name: string; readonly uid: string };
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly firstAt: Instant;
  readonly lastAt: Instant;
}

/** A node, trimmed to what explains why a pod finds no node. */
export interface ClusterNode {
  readonly name: string;
  readonly ready: boolean;
  /** Closed by hand to new pods. */
  readonly unschedulable: boolean;
  /** Keys of the taints that keep pods away which do not bear them. */
  readonly taints: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** The resources that all pods together may use, in the canonical form of quantity.ts. */
  readonly allocatable: Readonly<Record<string, string>>;
}

/** A ResourceQuota for all pods of a namespace: what they may use together, and what they use, by the names that it has for them. */
export interface ClusterQuota {
  readonly name: string;
  readonly hard: Readonly<Record<string, string>>;
  readonly used: Readonly<Record<string, string>>;
}

/** A PriorityClass: pods of a higher value are placed first. */
export interface ClusterPriority {
  readonly name: string;
  readonly value: number;
  readonly isDefault: boolean;
}

/** One event of a watch. `synced` follows the last existing object, also after the cluster has forgotten the watch and all was listed again. */
export type ClusterChange<T> =
  | { readonly kind: 'changed'; readonly object: T }
  | { readonly kind: 'gone'; readonly object: T }
  | { readonly kind: 'synced' };

/** Which objects are meant. `labels` is a selector as Kubernetes writes it. */
export interface ClusterQuery {
  /** Another namespace than that of the place. */
  readonly namespace?: string;
  /** Every namespace in its stead. */
  readonly everywhere?: true;
  readonly labels?: string;
  readonly name?: string;
  /** A selector by fields, as Kubernetes writes it. */
  readonly fields?: string;
  readonly signal?: AbortSignal;
  /** While it is watched: told why the cluster does not answer, once, and null when it does again. */
  readonly onLost?: (why: string | null) => void;
  /** While it is watched: called with each sign of life, about once a minute where nothing changes. */
  readonly onHeard?: () => void;
}

/** The part of a container's log to read. */
export interface ClusterLogQuery {
  readonly follow?: boolean;
  /** The container's run before its last restart. */
  readonly previous?: boolean;
  readonly tail?: number;
  readonly since?: Instant;
  readonly signal?: AbortSignal;
  /** Lines keep the moments that the cluster puts in front of them, and a blank behind those. */
  readonly stamped?: boolean;
  /** Stamped lines that the reader has, those of the last two seconds at least: it goes on behind them. */
  readonly after?: Uint8Array;
  readonly onLost?: (why: string | null) => void;
  /** While it is followed: the pod went away in the middle, and what it printed last may be lost. */
  readonly onCut?: () => void;
}

/** A program prints a line that is too long to be held; nothing after it can be read, and a retry does not help. */
export class LogLineTooLong extends JobmanError {}

/** The outcome of a removal, reported once the resource is gone; `absent` if it did not exist. */
export type ClusterRemoval = 'gone' | 'absent';

/** A container of a pod. */
export interface ClusterTarget {
  readonly pod: string;
  readonly container: string;
}

/** The program to run in a container. A `line` is for its `sh`; a program with its arguments needs no shell there. */
export interface ClusterExecRequest extends Omit<SessionRequest, 'inside'> {
  /** It gets a terminal of this size, whose keys are its input; everything that it prints is then its standard output. */
  readonly terminal: TerminalSize | null;
}

/** The terminal of the program that a container runs, or only its input. */
export interface ClusterAttachRequest extends Pick<SessionRequest, 'onBytes'> {
  readonly terminal: TerminalSize | null;
}

/** In characters. */
export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** A program in a container, for as long as somebody listens. A line that breaks is no end: what can be reached is ended. */
export interface ClusterSession extends Session {
  resize(size: TerminalSize): void;
}

/**
 * One cluster. Every method may wait for the network; failures are JobmanError: 3 not there, 4 a name is taken, 5 not to
 * be reached (no connection, an unknown authority, an expired login), else 1 with the cluster's own words in its lines.
 */
export interface Cluster {
  /** Reads the kubeconfig only; nothing is asked of the cluster. */
  place(): ClusterPlace;
  /** In pages; safe to leave early. */
  jobs(query: ClusterQuery): AsyncIterable<readonly ClusterJob[]>;
  job(name: string): Promise<ClusterJob | null>;
  /** The whole object as the cluster has it, for `details`; null when there is none. */
  raw(name: string): Promise<V1Job | null>;
  /** In pages; of one Job, or of all in the namespace. */
  pods(query: ClusterQuery & { readonly job?: string }): AsyncIterable<readonly ClusterPod[]>;
  /** In pages: pods that have no node yet, and the Job of each as `ClusterPod.job`. No more than that is transferred. */
  homeless(query: ClusterQuery): AsyncIterable<readonly Pick<ClusterPod, 'namespace' | 'job'>[]>;
  /** All nodes; null when we may not list them. */
  nodes(): Promise<readonly ClusterNode[] | null>;
  /** All PriorityClasses; null when we may not list them. */
  priorities(): Promise<readonly ClusterPriority[] | null>;
  /** All classes of priority of Kueue's own; null where it is not there, or we may not list them. */
  queuePriorities(): Promise<readonly ClusterPriority[] | null>;
  /** Events of the objects of these names, oldest first; null when we may not list them. */
  events(query: { readonly names: readonly string[] }): Promise<readonly ClusterEvent[] | null>;
  /** The quotas of the namespace, without those for some pods only; null when we may not list them. */
  quotas(): Promise<readonly ClusterQuota[] | null>;
  /** The newest event of each Job for which the cluster refuses to create a pod; none when we may not list them. */
  refusedPods(query: Pick<ClusterQuery, 'everywhere' | 'signal'>): Promise<readonly ClusterEvent[]>;
  /** Creates it and answers with what the cluster made of it. `dryRun`: the cluster checks it and stores nothing. */
  create(job: V1Job, options?: { readonly dryRun?: boolean; readonly signal?: AbortSignal }): Promise<V1Job>;
  patch(name: string, change: Readonly<Record<string, unknown>>): Promise<void>;
  /** Removes a Job with its pods and waits until it is seen gone. */
  remove(name: string, options?: { readonly signal?: AbortSignal }): Promise<ClusterRemoval>;
  /** The existing objects, then each change, until the signal. Connections that end are opened again. */
  watchJobs(query: ClusterQuery): AsyncIterable<ClusterChange<ClusterJob>>;
  watchPods(query: ClusterQuery): AsyncIterable<ClusterChange<ClusterPod>>;
  /** Bytes of one container's log in whole lines, none lost and none twice, over lost connections. */
  logs(pod: string, container: string, query: ClusterLogQuery): AsyncIterable<Uint8Array>;
  /** The data of a ConfigMap; null when there is none, or it may not be read. */
  configMap(name: string, namespace?: string, signal?: AbortSignal): Promise<Readonly<Record<string, string>> | null>;
  /** Replaces the data of a ConfigMap, or makes it. Another who writes at the same time is waited for, and written over. */
  writeConfigMap(name: string, namespace: string, data: Readonly<Record<string, string>>): Promise<void>;
  /** Starts a program in a container. Needs the right to `create` (before 1.35 to `get`) `pods/exec`. */
  exec(target: ClusterTarget, request: ClusterExecRequest): ClusterSession;
  /** The terminal, or the input, of the container's own program; its end has no exit code. Needs the right to `create` (before 1.35 to `get`) `pods/attach`. */
  attach(target: ClusterTarget, request: ClusterAttachRequest): ClusterSession;
  /** From here to a container, as `exec`; its image needs `sh` and `tar`. Relative paths here start at `cwd`, there at the working directory. */
  put(target: ClusterTarget, request: CopyRequest & { readonly cwd: string }): Promise<CopyEnd>;
  get(target: ClusterTarget, request: CopyRequest & { readonly cwd: string }): Promise<CopyEnd>;
  /** A connection to a port of a pod's own loopback address; an error of it says what the pod told. */
  tunnel(pod: string, port: number): Promise<Duplex | { readonly problem: string; readonly isReached: boolean }>;
  /** Releases connections. Nothing may be asked afterwards. */
  close(): Promise<void>;
}
