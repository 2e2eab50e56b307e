// Kept: what we know of a cluster's jobs once the cluster has forgotten them. The controller writes it down while it watches
// the jobs that were submitted from this record; commands read it where the cluster has no answer any more.
//
// A copy is not a second state machine: nothing is decided from it. It is the last that was seen, and the moments in which
// something happened, each under a key of its own, so that seeing the same again writes nothing twice.

import { isSettledPhase, type Phase } from '../../core/phase.ts';
import type { Instant } from '../../core/time.ts';
import { countText, lengthText, momentText } from '../figures.ts';
import type { ClusterContainer, ClusterEvent, ClusterJob, ClusterPod } from './cluster.ts';
import { clusterPhase, clusterVerdict, type ClusterVerdict } from './verdict.ts';

/** Where jobs were submitted to, and how the controller gets there: its own environment may be another one. */
export interface KeptPlace {
  readonly server: string;
  readonly namespace: string;
  readonly context: string;
  /** The setting `kubeConfig` that was in force; its file absolute. */
  readonly setting: { readonly type: 'default' | 'cluster' | 'file'; readonly file: string | null };
  /** KUBECONFIG with absolute paths; null where it was not set. */
  readonly kubeconfig: string | null;
  readonly flavorKey: string;
  readonly wantedAt: Instant;
}

/** How far the copy of one container's log is. `cut`: the pod was gone before its end was copied. */
type KeptLogState = 'open' | 'whole' | 'cut';

/** The copy of one container's log. */
export interface KeptLog {
  readonly pod: string;
  readonly container: string;
  readonly state: KeptLogState;
}

/** The last observation of a job. */
export interface KeptSight {
  readonly job: ClusterJob;
  /** All that were ever seen, oldest first; those that are gone as they were last. */
  readonly pods: readonly ClusterPod[];
  readonly events: readonly ClusterEvent[];
}

/** One job of a cluster as it is kept. */
export interface KeptJob extends KeptSight {
  readonly server: string;
  readonly context: string;
  readonly seenAt: Instant;
  /** When the cluster was first seen without it; null while it may be there. */
  readonly goneAt: Instant | null;
  /** It was taken off the list; its logs and history answer to its name until they are cleaned. */
  readonly hidden: boolean;
  /** The Job as it was submitted, as JSON; null where it was not submitted with this record. */
  readonly object: string | null;
  readonly logs: readonly KeptLog[];
}

/** One line of a job's history. The same thing seen again has the same key. */
export interface ClusterMoment {
  readonly key: string;
  readonly at: Instant;
  readonly sentence: string;
}

/** Which kept jobs are meant; all of them without a word. */
export interface KeptQuery {
  readonly name?: string;
  readonly namespace?: string;
  readonly server?: string;
}

/** The part of the record that is about clusters. Every method may throw StoreError. */
export interface ClusterRecord {
  /** The controller is to look after what is ours there. Safe to repeat. */
  wantPlace(place: KeptPlace): Promise<void>;
  places(): Promise<readonly KeptPlace[]>;
  /** Nothing of ours is left there. Does nothing when somebody has submitted there since `wantedAt`. */
  leavePlace(place: KeptPlace): Promise<void>;
  /** Writes down what was submitted. A job that is known keeps all that was seen of it. */
  keepObject(at: Pick<KeptJob, 'server' | 'context' | 'seenAt' | 'job'>, object: string): Promise<void>;
  /** Writes down what was seen, and the moments that it tells of. What was submitted, and what is known of logs, stays. */
  keepSight(seen: Omit<KeptJob, 'hidden' | 'object' | 'logs'>, moments: readonly ClusterMoment[]): Promise<void>;
  keepLog(uid: string, log: KeptLog): Promise<void>;
  /** Records one event of a job that is on record; does nothing for another job. */
  keepMoment(uid: string, moment: ClusterMoment): Promise<void>;
  hide(uid: string): Promise<void>;
  drop(uid: string): Promise<void>;
  /** Newest first. */
  jobs(query: KeptQuery): Promise<readonly KeptJob[]>;
  job(uid: string): Promise<KeptJob | undefined>;
  /** Oldest first. */
  moments(uid: string): Promise<readonly ClusterMoment[]>;
}

/** The phase that a list shows: a job that went away before it had ended was taken away. */
export function keptPhase({ job, goneAt }: Pick<KeptJob, 'job' | 'goneAt'>): Phase {
  const phase = clusterPhase(job);
  if (goneAt === null || (isSettledPhase(phase) && phase !== 'stopped')) return phase;
  return 'cancelled';
}

/** Whether the cluster may still do something about it, as far as is known. */
export function isKeptOpen({ job, goneAt }: Pick<KeptJob, 'job' | 'goneAt'>): boolean {
  const phase = clusterPhase(job);
  return goneAt === null && phase !== 'succeeded' && phase !== 'failed';
}

/** The verdict as `why` tells it. */
export function keptVerdict(kept: KeptJob, now: Instant): ClusterVerdict {
  const last = clusterVerdict({ ...kept, nodes: null, neighbours: null }, now);
  const phase = keptPhase(kept);
  if (phase !== 'cancelled' || kept.goneAt === null) return last;
  const { name, startedAt } = kept.job;
  // The Job begins with its creation, and its program once it has a node and an image.
  const starts = kept.pods.flatMap(({ containers }) =>
    containers.flatMap(({ init, startedAt }) => (init || startedAt === null ? [] : [startedAt])),
  );
  const began = starts.length > 0 ? Math.min(...starts) : kept.pods.length === 0 ? startedAt : null;
  const before = began === null ? 'its program had not begun' : `it had run for ${lengthText(kept.goneAt - began)}`;
  const sentence = `${name} was deleted ${lengthText(now - kept.goneAt)} ago, before it had ended; ${before}.`;
  return { phase, reason: 'deleted', sentence, because: null };
}

/** Merges an observation into the one before: pods and events that are gone stay as they were last. */
export function mergedSight(before: KeptSight | undefined, now: KeptSight): KeptSight {
  if (before === undefined) return now;
  const byUid = new Map([...before.pods, ...now.pods].map((pod) => [pod.uid, pod]));
  const byKey = new Map([...before.events, ...now.events].map((event) => [eventKey(event), event]));
  return {
    job: now.job,
    pods: [...byUid.values()].toSorted((one, other) => one.createdAt - other.createdAt).slice(-podsMost),
    events: [...byKey.values()].toSorted((one, other) => one.lastAt - other.lastAt).slice(-eventsMost),
  };
}

/** A Job of thousands of pods is told by its newest; the logs of all are kept. */
const podsMost = 200;
const eventsMost = 100;

/** The history, as far as that observation shows it; oldest first. */
export function momentsOf({ job, pods, events }: KeptSight): readonly ClusterMoment[] {
  const moments: ClusterMoment[] = [];
  const add = (key: string, at: Instant | null, sentence: string): void => {
    if (at !== null) moments.push({ key, at, sentence });
  };
  const many = job.parallelism > 1 ? `, ${countText(job.parallelism, 'pod')} at once` : '';
  add(
    'created',
    job.createdAt,
    `created by ${job.owner ?? 'another tool'}: ${[...new Set(job.images)].join(', ')}${many}`,
  );
  add(`started ${job.startedAt}`, job.startedAt, 'the cluster has begun with it');
  for (const { type, status, reason, message, at } of job.conditions) {
    const word = conditionWords[`${type} ${status}`];
    const why = [reason, message].filter((part) => part !== null && part !== '').join(': ');
    if (word !== undefined) {
      add(`${type} ${status} ${at}`, at, type === 'Failed' && why !== '' ? `${word}: ${why}` : word);
    }
  }
  for (const pod of pods) {
    for (const container of pod.containers) {
      const name = pod.containers.length > 1 ? `${pod.name}, ${container.name},` : pod.name;
      const key = `${pod.uid} ${container.name}`;
      add(`${key} began ${container.startedAt}`, container.startedAt, `${name} runs on ${pod.node ?? 'a node'}`);
      if (container.state === 'terminated') {
        add(`${key} ended ${container.endedAt}`, container.endedAt, `${name} ${endedText(container)}`);
      }
    }
    const taken = pod.conditions.find(({ type, status }) => type === 'DisruptionTarget' && status === 'True');
    if (taken !== undefined) {
      add(`${pod.uid} taken`, taken.at, `${pod.name} is taken off its node: ${taken.message ?? taken.reason ?? ''}`);
    }
  }
  for (const event of events) {
    if (event.type !== 'Warning') continue;
    // The Job's own end is told by its condition.
    const isTold = job.conditions.some(({ reason, message }) => reason === event.reason && message === event.message);
    if (isTold) continue;
    const times =
      event.count > 1 ? ` (${event.count} times, the last at ${momentText(event.lastAt, event.firstAt)})` : '';
    const of = event.object.kind === 'Job' ? '' : `${event.object.name}: `;
    add(`event ${eventKey(event)}`, event.firstAt, `${of}${event.reason}: ${event.message}${times}`);
  }
  return moments.toSorted((one, other) => one.at - other.at);
}

/** The deletion of a job with jobman. A cluster does not report who deletes with another tool. */
export function deletedMoment(at: Instant, user: string): ClusterMoment {
  return { key: 'deleted', at, sentence: `deleted by ${user}` };
}

/** That the cluster was first seen without it. */
export function goneMoment(at: Instant): ClusterMoment {
  return { key: 'gone', at, sentence: 'seen gone from the cluster; what is kept here stays' };
}

const conditionWords: Readonly<Record<string, string>> = {
  'Suspended True': 'suspended',
  'Suspended False': 'resumed',
  'Complete True': 'succeeded',
  'Failed True': 'failed',
};

function endedText({ exitCode, reason, signal }: ClusterContainer): string {
  if (exitCode === 0) return 'ended with exit code 0';
  const by = signal !== null && signal > 0 ? `by signal ${signal}` : `with exit code ${exitCode ?? 'unknown'}`;
  return `ended ${by}${reason === null || reason === 'Error' ? '' : ` (${reason})`}`;
}

/** The same event told again has more counts, and the same words. */
function eventKey({ object, reason, message }: ClusterEvent): string {
  return `${object.uid} ${reason} ${message.slice(0, 120)}`;
}
