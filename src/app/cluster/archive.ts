// Archive: the data that jobman keeps of a cluster's jobs after the cluster has deleted them. The controller writes it
// while it watches the jobs submitted from this installation; commands read it when the cluster no longer has the job.
//
// The archive is not a second state machine: no decision uses it. It holds the last observation and the job's events,
// each with its own key, so that a repeated observation adds nothing.

import { isFinishedPhase, type Phase } from '../../core/decide/phase.ts';
import type { Instant } from '../../core/model/time.ts';
import { pluralize, formatDuration, formatTime, formatWhen, type ReadingTime } from '../format.ts';
import type { ArchivedJob, ArchivedObservation, ClusterContainer, ClusterEvent, ClusterJobEvent } from './objects.ts';
import { clusterPhase, clusterResult, startsOf, type ClusterResult } from './job-result.ts';

/** A job that disappeared before its end counts as cancelled. */
export function archivedPhase({ job, goneAt }: Pick<ArchivedJob, 'job' | 'goneAt'>): Phase {
  const phase = clusterPhase(job);
  if (goneAt === null || (isFinishedPhase(phase) && phase !== 'stopped')) return phase;
  return 'cancelled';
}

/** False if the cluster can no longer change the job. */
export function mayBeActive({ job, goneAt }: Pick<ArchivedJob, 'job' | 'goneAt'>): boolean {
  const phase = clusterPhase(job);
  return goneAt === null && phase !== 'succeeded' && phase !== 'failed';
}

/** The reason against the removal of its logs and history; null if there is none. */
export function cleanProblem(archived: ArchivedJob): string | null {
  const isOpen = mayBeActive(archived) && archivedPhase(archived) !== 'stopped';
  return isOpen ? `Job ${archived.job.name} was unfinished at the last check, so its logs are kept.` : null;
}

export function archivedResult(archived: ArchivedJob, reading: ReadingTime): ClusterResult {
  const last = clusterResult({ ...archived, nodes: null, allPods: null }, reading);
  const phase = archivedPhase(archived);
  if (phase !== 'cancelled' || archived.goneAt === null) return last;
  const { name, startedAt } = archived.job;
  // The program starts after the Job, once the pod has a node and an image.
  const starts = archived.pods.flatMap(startsOf);
  const began = starts.length > 0 ? Math.min(...starts) : archived.pods.length === 0 ? startedAt : null;
  const before = began === null ? 'before it started' : `after running for ${formatDuration(archived.goneAt - began)}`;
  const message = `Job ${name} was deleted ${formatWhen(archived.goneAt, reading)}, ${before}.`;
  return { phase, reasonText: 'deleted', message, evidence: null };
}

/** Pods and events that are gone stay as they were. */
export function mergeObservations(
  before: ArchivedObservation | undefined,
  now: ArchivedObservation,
): ArchivedObservation {
  if (before === undefined) return now;
  const byUid = new Map([...before.pods, ...now.pods].map((pod) => [pod.uid, pod]));
  const byKey = new Map([...before.events, ...now.events].map((event) => [eventKey(event), event]));
  return {
    job: now.job,
    pods: [...byUid.values()].toSorted((one, other) => one.createdAt - other.createdAt).slice(-maxPods),
    flavorPrice: before.flavorPrice === undefined ? now.flavorPrice : before.flavorPrice,
    events: [...byKey.values()].toSorted((one, other) => one.lastAt - other.lastAt).slice(-maxEvents),
  };
}

/** A Job with thousands of pods is described by its newest; the logs of all are kept. */
const maxPods = 200;
const maxEvents = 100;

export function clusterJobEvents({ job, pods, events }: ArchivedObservation): readonly ClusterJobEvent[] {
  const jobEvents: ClusterJobEvent[] = [];
  const add = (key: string, at: Instant | null, message: string): void => {
    if (at !== null) jobEvents.push({ key, at, message });
  };
  const many = job.parallelism > 1 ? `, ${pluralize(job.parallelism, 'pod')} at once` : '';
  add(
    'created',
    job.createdAt,
    `created by ${job.owner ?? 'another tool'}: ${[...new Set(job.images)].join(', ')}${many}`,
  );
  add(`started ${job.startedAt}`, job.startedAt, 'started by the cluster');
  for (const { type, status, reason, message, at } of job.conditions) {
    const phrase = conditionPhrases[`${type} ${status}`];
    const why = [reason, message].filter((part) => part !== null && part !== '').join(': ');
    if (phrase !== undefined) {
      add(`${type} ${status} ${at}`, at, type === 'Failed' && why !== '' ? `${phrase}: ${why}` : phrase);
    }
  }
  for (const pod of pods) {
    for (const container of pod.containers) {
      const name = pod.containers.length > 1 ? `${pod.name}, ${container.name},` : pod.name;
      const key = `${pod.uid} ${container.name}`;
      add(`${key} began ${container.startedAt}`, container.startedAt, `${name} runs on ${pod.node ?? 'a node'}`);
      if (container.state === 'terminated') {
        add(`${key} ended ${container.endedAt}`, container.endedAt, `${name} ${formatContainerEnd(container)}`);
      }
    }
    const disruption = pod.conditions.find(({ type, status }) => type === 'DisruptionTarget' && status === 'True');
    if (disruption !== undefined) {
      add(
        `${pod.uid} taken`,
        disruption.at,
        `${pod.name} is evicted from its node: ${disruption.message ?? disruption.reason ?? ''}`,
      );
    }
  }
  for (const event of events) {
    if (event.type !== 'Warning') continue;
    const isInConditions = job.conditions.some(
      ({ reason, message }) => reason === event.reason && message === event.message,
    );
    if (isInConditions) continue;
    const times = event.count > 1 ? ` (${event.count} times, last at ${formatTime(event.lastAt, event.firstAt)})` : '';
    const of = event.object.kind === 'Job' ? '' : `${event.object.name}: `;
    add(`event ${eventKey(event)}`, event.firstAt, `${of}${event.reason}: ${event.message}${times}`);
  }
  return jobEvents.toSorted((one, other) => one.at - other.at);
}

/** Only for jobman's own deletion: the cluster does not report who deletes with another tool. */
export function deletedEvent(at: Instant, user: string): ClusterJobEvent {
  return { key: 'deleted', at, message: `deleted by ${user}` };
}

export function goneEvent(at: Instant): ClusterJobEvent {
  return { key: 'gone', at, message: 'deleted from the cluster; the archive keeps it' };
}

const conditionPhrases: Readonly<Record<string, string>> = {
  'Suspended True': 'suspended',
  'Suspended False': 'resumed',
  'Complete True': 'succeeded',
  'Failed True': 'failed',
};

function formatContainerEnd({ exitCode, reason, signal }: ClusterContainer): string {
  if (exitCode === 0) return 'ended with exit code 0';
  const by = signal !== null && signal > 0 ? `by signal ${signal}` : `with exit code ${exitCode ?? 'unknown'}`;
  return `ended ${by}${reason === null || reason === 'Error' ? '' : ` (${reason})`}`;
}

/** A repeated event changes its count, not its message. */
function eventKey({ object, reason, message }: ClusterEvent): string {
  return `${object.uid} ${reason} ${message.slice(0, 120)}`;
}
