// Cluster: the interface to a Kubernetes cluster, whose objects are in objects.ts. The adapter is in backends/kubernetes/;
// nothing else in the program knows the cluster's API.
//
// A cluster job exists only in its cluster and not in our database; its name identifies it. The objects contain only
// the fields that jobman shows or decides from, because a list of ten thousand whole Jobs is thirty megabytes of JSON.

import type { V1Job } from '@kubernetes/client-node';
import type { CopyEnd, CopyRequest, Session, SessionRequest, TerminalSize, Tunnel } from '../worker-access.ts';
import { exitCode, JobmanError } from '../errors.ts';
import type { CommandStep, PerformedCommand, PerformOptions } from '../command-steps.ts';
import type { ClusterEvent, ClusterJob, ClusterPod } from './objects.ts';
import type { Instant } from '../../core/model/time.ts';

export interface ClusterContext {
  /** The kubeconfig's context; `in-cluster` for the service account of a pod. */
  readonly context: string;
  readonly server: string;
  readonly namespace: string;
  readonly user: string;
}

/** Overrides the kubeconfig's own choice. */
export interface ClusterOptions {
  readonly context?: string;
  readonly namespace?: string;
  /** True if the caller reports a slow cluster itself or leaves it soon; otherwise a terminal shows the wait. */
  readonly quiet?: boolean;
}

/** The usage of a pod, summed over its containers, in a time that ended at `at`. */
export interface PodUsage {
  /** In the namespace of the query. */
  readonly pod: string;
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly at: Instant;
}

/** The fields that explain why a pod is not scheduled. */
export interface ClusterNode {
  readonly name: string;
  readonly ready: boolean;
  /** True if the node is cordoned. */
  readonly unschedulable: boolean;
  /** Keys of the taints that repel pods without a matching toleration. */
  readonly taints: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** In the canonical form of quantity.ts. */
  readonly allocatable: Readonly<Record<string, string>>;
}

/** A ResourceQuota for all pods of a namespace: limits and use, under the names of the quota itself. */
export interface ClusterQuota {
  readonly name: string;
  readonly hard: Readonly<Record<string, string>>;
  readonly used: Readonly<Record<string, string>>;
}

export interface PriorityClass {
  readonly name: string;
  readonly value: number;
  readonly isDefault: boolean;
}

/**
 * One event of a watch. `synced` follows the last existing object, even after an expired watch listed all again. `lost` comes
 * once with the reason when the cluster stops answering, and with null when it answers again.
 */
export type ClusterChange<T> =
  | { readonly kind: 'changed'; readonly object: T }
  | { readonly kind: 'gone'; readonly object: T }
  | { readonly kind: 'synced' }
  | { readonly kind: 'lost'; readonly why: string | null };

/** A selection of objects. `labels` is a Kubernetes label selector. */
export interface ClusterQuery {
  /** A namespace other than the context's. */
  readonly namespace?: string;
  readonly allNamespaces?: true;
  readonly labels?: string;
  readonly name?: string;
  readonly fields?: string;
  readonly signal?: AbortSignal;
  /** For a watch: called at each message of the cluster, about once a minute if nothing changes. */
  readonly onActivity?: () => void;
}

export interface ClusterLogQuery {
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly tail?: number;
  readonly since?: Instant;
  readonly signal?: AbortSignal;
  /** Keeps the cluster's timestamp and one space at the start of each line. */
  readonly timestamps?: boolean;
  /** Timestamped lines that the reader has, at least those of the last two seconds. Reading continues after them. */
  readonly resumeAfter?: Uint8Array;
  /** Called once with the reason when the cluster stops answering, and with null when it answers again. Not through a server. */
  readonly onLost?: (why: string | null) => void;
  /** With `follow`: the pod disappeared before its log ended, so its last lines may be missing. */
  readonly onTruncated?: () => void;
}

/** The line does not fit into memory. Nothing after it can be read, and a retry does not help. */
export class LogLineTooLong extends JobmanError {}

/** Reported once the resource is gone; `absent` if it did not exist. */
export type ClusterRemoval = 'gone' | 'absent';

/** Identifies a Job that was read. Another Job may have the same name later, but never the same uid. */
export type JobIdentity = Pick<ClusterJob, 'name' | 'uid'>;

/** The identity of a Job that a cluster has returned. */
export function identityOf({ metadata }: V1Job): JobIdentity {
  return { name: metadata?.name ?? '', uid: metadata?.uid ?? '' };
}

/** A merge patch of a Job. */
interface JobPatch {
  readonly metadata?: { readonly annotations: Readonly<Record<string, string>> };
  readonly spec?: { readonly suspend: boolean };
}

/** The error of a change or deletion that would have affected another Job of the same name. */
export function replacedError(name: string): JobmanError {
  const message = `Job ${name} was deleted meanwhile, and another job has its name. That job did not change.`;
  return new JobmanError(message, exitCode.notFound);
}

export interface ClusterTarget {
  readonly pod: string;
  readonly container: string;
}

/** A program to run in a container. A `line` runs in the container's `sh`; `argv` needs no shell. */
export interface ClusterExecRequest extends Omit<SessionRequest, 'environment'> {
  /** If set, the program gets a terminal of this size: keys are its input, and all its output is standard output. */
  readonly terminal: TerminalSize | null;
}

export interface ClusterAttachRequest extends Pick<SessionRequest, 'onBytes'> {
  readonly terminal: TerminalSize | null;
}

/** Failures are JobmanError: 3 absent, 4 name taken, 5 unreachable (or an expired login), else 1. */
export interface Cluster {
  /** Reads the kubeconfig only; sends no request. */
  context(): ClusterContext;
  /** In pages. The caller may stop early. */
  jobs(query: ClusterQuery): AsyncIterable<readonly ClusterJob[]>;
  job(name: string): Promise<ClusterJob | null>;
  raw(name: string): Promise<V1Job | null>;
  /** In pages; of one Job, or of all in the namespace. */
  pods(query: ClusterQuery & { readonly job?: string }): AsyncIterable<readonly ClusterPod[]>;
  /** Null if the cluster does not serve the resource metrics API (metrics.k8s.io) or we may not read it. */
  podUsage(query: Pick<ClusterQuery, 'namespace' | 'signal'>): Promise<readonly PodUsage[] | null>;
  /** In pages: pods without a node, with the Job of each. Transfers nothing else. */
  unscheduledPods(query: ClusterQuery): AsyncIterable<readonly Pick<ClusterPod, 'namespace' | 'job'>[]>;
  /** Null if we may not list them. */
  nodes(): Promise<readonly ClusterNode[] | null>;
  /** Null if we may not list them. */
  priorityClasses(): Promise<readonly PriorityClass[] | null>;
  /** Null without Kueue or if we may not list them. */
  queuePriorityClasses(): Promise<readonly PriorityClass[] | null>;
  /** Events of the objects with these names, oldest first; null if we may not list events. */
  events(query: { readonly names: readonly string[] }): Promise<readonly ClusterEvent[] | null>;
  /** The namespace's quotas, without those for some pods only; null if we may not list quotas. */
  quotas(): Promise<readonly ClusterQuota[] | null>;
  /**
   * Returns the Job as the cluster completed it. `dryRun`: the cluster checks the Job and stores nothing. With an annotation
   * `jobman/request`, a Job of that name and request is returned and not created again.
   */
  create(job: V1Job, options?: { readonly dryRun?: boolean; readonly signal?: AbortSignal }): Promise<V1Job>;
  /** Throws `replacedError` for another Job of that name, as the next method does. */
  patch(job: JobIdentity, change: JobPatch): Promise<void>;
  /** Returns when the Job and its pods are observed gone. */
  remove(job: JobIdentity, options?: { readonly signal?: AbortSignal }): Promise<ClusterRemoval>;
  /** Yields the existing objects, then each change, until the signal aborts. Reopens connections that end. */
  watchJobs(query: ClusterQuery): AsyncIterable<ClusterChange<ClusterJob>>;
  watchPods(query: ClusterQuery): AsyncIterable<ClusterChange<ClusterPod>>;
  /** Whole lines. Reconnects without losing or repeating a line. */
  logs(pod: string, container: string, query: ClusterLogQuery): AsyncIterable<Uint8Array>;
  /** Null if it is absent or we may not read it. */
  configMap(name: string, namespace?: string, signal?: AbortSignal): Promise<Readonly<Record<string, string>> | null>;
  /** Creates the ConfigMap or replaces its data. After a conflict with another writer it retries and overwrites. */
  writeConfigMap(name: string, namespace: string, data: Readonly<Record<string, string>>): Promise<void>;
  /** The values of a Secret, in Base64. Null if it is absent or we may not read it. */
  secret(name: string): Promise<Readonly<Record<string, string>> | null>;
  /** Creates a Secret that the cluster deletes with the Job. Its name is new. */
  createSecret(name: string, job: V1Job, data: Readonly<Record<string, string>>): Promise<void>;
  /** Replaces these values in the Secret of that Job. Throws `replacedError` for the Secret of another Job. */
  patchSecret(name: string, job: JobIdentity, data: Readonly<Record<string, string>>): Promise<void>;
  /**
   * A lost connection is not the end of the program: jobman ends the processes that it can still reach. Needs the right to
   * `create` (before 1.35 to `get`) `pods/exec`.
   */
  exec(target: ClusterTarget, request: ClusterExecRequest): Session;
  /** Attaches to the main program; without exit code. Needs `create` (before 1.35 `get`) on `pods/attach`. */
  attach(target: ClusterTarget, request: ClusterAttachRequest): Session;
  /** Needs `sh` and `tar` in the image. Relative paths start at `cwd` here and at the working directory there. */
  put(target: ClusterTarget, request: CopyRequest & { readonly cwd: string }): Promise<CopyEnd>;
  get(target: ClusterTarget, request: CopyRequest & { readonly cwd: string }): Promise<CopyEnd>;
  /** Connects to the pod's own loopback address. The problem contains the pod's message. */
  tunnel(pod: string, port: number): Promise<Tunnel>;
  close(): Promise<void>;
  /** Only for a cluster of a server, which performs these with all of its rules. No other method then changes an object. */
  readonly server?: {
    /** `data` has the values that are no named secrets, which the server adds. */
    submit(
      job: V1Job,
      data: Readonly<Record<string, string>> | null,
      options: { readonly signal?: AbortSignal },
    ): Promise<V1Job>;
    /** Also for a job of which only the archive has a copy. */
    perform(job: JobIdentity, command: PerformedCommand, options: PerformOptions): AsyncIterable<CommandStep>;
  };
}
