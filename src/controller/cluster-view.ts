// Cluster view: what is known of the jobs of one namespace, from the cluster and from the record. Nothing here reads or writes anything
// else.

import type { ClusterJob, ClusterPod } from '../app/cluster/cluster.ts';
import { isKeptOpen, type KeptJob } from '../app/cluster/kept.ts';

export interface ContainerLog {
  readonly job: ClusterJob;
  readonly pod: string;
  readonly container: string;
}

export interface ClusterView {
  /** Jobs that are there, by uid. */
  readonly jobs: Map<string, ClusterJob>;
  /** Those of them that the cluster may still do something about. */
  readonly open: Set<string>;
  readonly pods: Map<string, ClusterPod>;
  /** Pods that went away since their job was last written down. */
  readonly lostPods: Map<string, ClusterPod>;
  /** Jobs that were told to be gone and are not written down as that. */
  readonly gone: Map<string, ClusterJob>;
  /** The record of the jobs that something may still happen to. */
  readonly recorded: Map<string, KeptJob>;
  /** Jobs that are over and written down, with all their logs. */
  readonly finished: Set<string>;
  /** Keys of the logs that are followed, and of those that need not be any more. */
  readonly following: Set<string>;
  readonly copied: Set<string>;
  /** Jobs of which something is to be written down. */
  readonly changed: Set<string>;
  /** True once a list has been told whole since the connection was opened. */
  isSynced: boolean;
  /** A right is missing: the Jobs alone can still be kept. */
  arePodsRefused: boolean;
}

export function emptyView(): ClusterView {
  return {
    jobs: new Map(),
    open: new Set(),
    pods: new Map(),
    lostPods: new Map(),
    gone: new Map(),
    recorded: new Map(),
    finished: new Set(),
    following: new Set(),
    copied: new Set(),
    changed: new Set(),
    isSynced: false,
    arePodsRefused: false,
  };
}

/** The next things to do in that namespace, besides writing down the changes. */
export interface ClusterPlan {
  readonly watchesPods: boolean;
  /** Nothing of ours is left there, as far as is known. */
  readonly isEmpty: boolean;
}

export function planFor(view: ClusterView): ClusterPlan {
  const { jobs, changed, following, isSynced, arePodsRefused } = view;
  return {
    watchesPods: !arePodsRefused && (hasOpen(view) || following.size > 0),
    isEmpty: isSynced && jobs.size === 0 && changed.size === 0 && following.size === 0,
  };
}

/** True for a job that the cluster may still do something about. */
export function isOpen(job: ClusterJob): boolean {
  return isKeptOpen({ job, goneAt: null });
}

/** True while some job may still be open; by the record until the first whole list. */
export function hasOpen({ open, isSynced, recorded }: ClusterView): boolean {
  return open.size > 0 || (!isSynced && [...recorded.values()].some((kept) => isKeptOpen(kept)));
}

export function noteJob(view: ClusterView, job: ClusterJob): void {
  view.jobs.set(job.uid, job);
  view.gone.delete(job.uid);
  if (isOpen(job)) {
    view.open.add(job.uid);
    // A watch that begins before the end of its list repeats an earlier state first.
    view.finished.delete(job.uid);
  } else view.open.delete(job.uid);
}

export function noteGone(view: ClusterView, job: ClusterJob): void {
  view.jobs.delete(job.uid);
  view.open.delete(job.uid);
  view.gone.set(job.uid, job);
}

/** A job of the record: an open one may have gone meanwhile, a finished one need not be read again. */
export function noteRecord(view: ClusterView, kept: KeptJob): void {
  const { uid } = kept.job;
  for (const { pod, container, state } of kept.logs) if (state !== 'open') view.copied.add(logKey(uid, pod, container));
  if (kept.goneAt !== null || (!isKeptOpen(kept) && areLogsCopied(view, uid, kept.pods))) view.finished.add(uid);
  else view.recorded.set(uid, kept);
}

/** A pod is there, or is gone. Returns its job if that is to be written for it. */
export function notePod(view: ClusterView, pod: ClusterPod, isGone: boolean): ClusterJob | undefined {
  const uid = ownerOf(view, pod);
  if (uid !== undefined && view.finished.has(uid)) return undefined;
  if (isGone) view.pods.delete(pod.uid);
  else view.pods.set(pod.uid, pod);
  const job = uid === undefined ? undefined : view.jobs.get(uid);
  if (job !== undefined && isGone) view.lostPods.set(pod.uid, pod);
  return job;
}

/** True where nothing new can be written down of that job. */
export function isWrittenDown({ finished, jobs }: ClusterView, uid: string): boolean {
  const job = jobs.get(uid);
  return finished.has(uid) && job !== undefined && !isOpen(job);
}

/** Whether all logs of those pods are copied as far as they ever will be. */
export function areLogsCopied({ copied }: ClusterView, uid: string, pods: readonly ClusterPod[]): boolean {
  return pods.every((pod) =>
    pod.containers.every(({ name, state }) => state === 'waiting' || copied.has(logKey(uid, pod.name, name))),
  );
}

/** The logs of those pods that are to be followed and are not, once the job is on record. */
export function logsToFollow(view: ClusterView, job: ClusterJob, pods: readonly ClusterPod[]): readonly ContainerLog[] {
  if (!view.recorded.has(job.uid)) return [];
  return pods.flatMap((pod) =>
    pod.containers.flatMap(({ name, state }) => {
      const key = logKey(job.uid, pod.name, name);
      const isFollowed = state === 'waiting' || view.following.has(key) || view.copied.has(key);
      return isFollowed ? [] : [{ job, pod: pod.name, container: name }];
    }),
  );
}

/** The uid of the job that the pod belongs to. */
export function ownerOf({ jobs }: ClusterView, pod: ClusterPod): string | undefined {
  if (pod.jobUid !== undefined && pod.jobUid !== null) return pod.jobUid;
  return [...jobs.values()].find(({ name }) => name === pod.job)?.uid;
}

/** The pods of that job that are there, or went away since it was last written down. */
export function podsOf(view: ClusterView, { uid }: ClusterJob): readonly ClusterPod[] {
  return [...view.lostPods.values(), ...view.pods.values()].filter((pod) => ownerOf(view, pod) === uid);
}

/** A log's key in the sets of a view. */
export function logKey(uid: string, pod: string, container: string): string {
  return `${uid} ${pod} ${container}`;
}
