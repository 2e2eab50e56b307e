// Cluster view: the known state of one namespace's jobs, from the cluster and from the archive. Pure functions.

import type { ClusterJob, ClusterPod } from '../app/cluster/cluster.ts';
import { mayBeActive, type ArchivedJob } from '../app/cluster/archive.ts';

export interface ContainerLog {
  readonly job: ClusterJob;
  readonly pod: string;
  readonly container: string;
}

export interface ClusterView {
  readonly jobs: Map<string, ClusterJob>;
  /** Uids of the jobs that the cluster may still change. */
  readonly open: Set<string>;
  readonly pods: Map<string, ClusterPod>;
  readonly lostPods: Map<string, ClusterPod>;
  /** Jobs whose end is not archived yet. */
  readonly gone: Map<string, ClusterJob>;
  /** Archived state of the jobs that may still change. */
  readonly archived: Map<string, ArchivedJob>;
  /** Uids of ended jobs that are archived with all their logs. */
  readonly finished: Set<string>;
  /** Keys of the logs that are followed, and of the logs that need no following any more. */
  readonly following: Set<string>;
  readonly copied: Set<string>;
  readonly changed: Set<string>;
  isSynced: boolean;
  /** Only the Jobs can be archived then. */
  isPodAccessDenied: boolean;
}

export function emptyView(): ClusterView {
  return {
    jobs: new Map(),
    open: new Set(),
    pods: new Map(),
    lostPods: new Map(),
    gone: new Map(),
    archived: new Map(),
    finished: new Set(),
    following: new Set(),
    copied: new Set(),
    changed: new Set(),
    isSynced: false,
    isPodAccessDenied: false,
  };
}

export interface ClusterPlan {
  readonly watchesPods: boolean;
  readonly isEmpty: boolean;
}

export function planFor(view: ClusterView): ClusterPlan {
  const { jobs, changed, following, isSynced, isPodAccessDenied } = view;
  return {
    watchesPods: !isPodAccessDenied && (hasOpenJobs(view) || following.size > 0),
    isEmpty: isSynced && jobs.size === 0 && changed.size === 0 && following.size === 0,
  };
}

export function isOpen(job: ClusterJob): boolean {
  return mayBeActive({ job, goneAt: null });
}

/** Uses the archive until the first complete list. */
export function hasOpenJobs({ open, isSynced, archived }: ClusterView): boolean {
  return open.size > 0 || (!isSynced && [...archived.values()].some((archivedJob) => mayBeActive(archivedJob)));
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

/** An open job may have gone meanwhile; a finished one need not be read again. */
export function noteArchived(view: ClusterView, archived: ArchivedJob): void {
  const { uid } = archived.job;
  for (const { pod, container, state } of archived.logs)
    if (state !== 'open') view.copied.add(logKey(uid, pod, container));
  if (archived.goneAt !== null || (!mayBeActive(archived) && areLogsCopied(view, uid, archived.pods)))
    view.finished.add(uid);
  else view.archived.set(uid, archived);
}

/** Returns the pod's job if the job must be written again. */
export function notePod(view: ClusterView, pod: ClusterPod, isGone: boolean): ClusterJob | undefined {
  const uid = ownerOf(view, pod);
  if (uid !== undefined && view.finished.has(uid)) return undefined;
  if (isGone) view.pods.delete(pod.uid);
  else view.pods.set(pod.uid, pod);
  const job = uid === undefined ? undefined : view.jobs.get(uid);
  if (job !== undefined && isGone) view.lostPods.set(pod.uid, pod);
  return job;
}

export function isFullyArchived({ finished, jobs }: ClusterView, uid: string): boolean {
  const job = jobs.get(uid);
  return finished.has(uid) && job !== undefined && !isOpen(job);
}

export function areLogsCopied({ copied }: ClusterView, uid: string, pods: readonly ClusterPod[]): boolean {
  return pods.every((pod) =>
    pod.containers.every(({ name, state }) => state === 'waiting' || copied.has(logKey(uid, pod.name, name))),
  );
}

/** The started logs of those pods that are neither followed nor copied, once the job is archived. */
export function logsToFollow(view: ClusterView, job: ClusterJob, pods: readonly ClusterPod[]): readonly ContainerLog[] {
  if (!view.archived.has(job.uid)) return [];
  return pods.flatMap((pod) =>
    pod.containers.flatMap(({ name, state }) => {
      const key = logKey(job.uid, pod.name, name);
      const isFollowed = state === 'waiting' || view.following.has(key) || view.copied.has(key);
      return isFollowed ? [] : [{ job, pod: pod.name, container: name }];
    }),
  );
}

export function ownerOf({ jobs }: ClusterView, pod: ClusterPod): string | undefined {
  if (pod.jobUid !== undefined && pod.jobUid !== null) return pod.jobUid;
  return [...jobs.values()].find(({ name }) => name === pod.job)?.uid;
}

/** Existing pods of that job, and pods that disappeared since it was last written. */
export function podsOf(view: ClusterView, { uid }: ClusterJob): readonly ClusterPod[] {
  return [...view.lostPods.values(), ...view.pods.values()].filter((pod) => ownerOf(view, pod) === uid);
}

export function logKey(uid: string, pod: string, container: string): string {
  return `${uid} ${pod} ${container}`;
}
