// Notice: a reportable event of a job, with the facts that a message needs. The store writes notices in the transaction
// of the event that causes them. Pure functions.

import type { Event } from '../../core/model/event.ts';
import { capacityOf, type Attempt, type Job } from '../../core/model/job.ts';
import { capacityAt, type BackendName, type Reason } from '../../core/model/spec.ts';
import type { NotifyEvent, NotifySpec } from '../../core/model/notify.ts';
import { hour, type Duration, type Instant } from '../../core/model/time.ts';
import { archivedPhase } from '../cluster/archive.ts';
import type { ArchivedObservation } from '../cluster/objects.ts';
import { clusterReason } from '../cluster/job-result.ts';
import { formatTimestamp } from '../format.ts';
import { describeEvent } from '../history.ts';
import { formatCapacity } from '../phrases.ts';
import type { Orphan } from '../ports.ts';
import { runtimePhrase } from '../views.ts';

/** An event to report. Every field was true when the event happened. */
export interface Notice {
  /** `test`: a message of `jobman notify test`. */
  readonly event: NotifyEvent | 'test';
  /** Time of the event; for `waiting` the time since which the attempt waits. */
  readonly at: Instant;
  /** Id of the job; for a job in a cluster its name; null without a job. */
  readonly job: string | null;
  readonly name: string | null;
  readonly owner: string | null;
  readonly backend: BackendName | 'kubernetes';
  /** Number of the attempt; null in a cluster and without a job. */
  readonly attempt: number | null;
  /** The accelerator type or flavor; null on this machine. */
  readonly accelerator: string | null;
  /** The zone; for a job in a cluster `context/namespace`; null on this machine. */
  readonly location: string | null;
  /** One sentence without its full stop. It may contain text of clouds, programs and users. */
  readonly message: string;
  /** The job's own choice. */
  readonly notify?: NotifySpec;
}

/** The notices of a commit, and whether the job no longer waits for capacity. */
export interface NoticeChange {
  readonly notices: readonly Notice[];
  /** A `waiting` notice of this job that is not due yet must not be sent any more. */
  readonly endsWaiting: boolean;
}

/** The notices of a job's new events. `job` is the job after them. */
export function noticesOf(job: Job, events: readonly Event[]): NoticeChange {
  const notices = events.flatMap((event) => {
    const found = notableEvent(job, event);
    return found === undefined ? [] : [jobNotice(job, event, found)];
  });
  return { notices, endsWaiting: events.some((event) => endsWaiting(event)) };
}

function notableEvent(job: Job, event: Event): NotifyEvent | undefined {
  switch (event.kind) {
    case 'attempt_created':
      return isWaiting(job, event.attempt) ? 'waiting' : undefined;
    case 'attempt_running':
      return attemptOf(job, event.attempt)?.startedByOwner === false ? 'recovered' : 'started';
    case 'attempt_ending':
      return reasonEvents[event.reason];
    case 'budget_warning':
      return 'budget_warning';
    case 'allocation_released':
      return event.budget === undefined ? undefined : 'budget_released';
    case 'finished':
      return event.verdict === 'succeeded' || event.verdict === 'failed' ? event.verdict : 'stopped';
    default:
      return undefined;
  }
}

const reasonEvents: Readonly<Partial<Record<Reason, NotifyEvent>>> = {
  preempted: 'preempted',
  unreachable: 'unreachable',
  setup_failed: 'setup_failed',
  hung: 'hung',
  budget: 'budget_used',
};

function endsWaiting(event: Event): boolean {
  return (
    event.kind === 'attempt_started' ||
    event.kind === 'attempt_ending' ||
    event.kind === 'attempt_ended' ||
    event.kind === 'finished' ||
    event.kind === 'removed' ||
    (event.kind === 'allocation_seen' && event.state === 'ready')
  );
}

function attemptOf(job: Job, ordinal: number): Attempt | undefined {
  return job.attempts.find((one) => one.ordinal === ordinal);
}

/** False for an attempt on capacity that the job already holds. */
function isWaiting(job: Job, ordinal: number): boolean {
  const attempt = attemptOf(job, ordinal);
  const allocation = job.allocations.find((one) => one.ordinal === attempt?.allocation);
  return attempt !== undefined && attempt.endedAt === null && (allocation?.readyAt ?? null) === null;
}

function jobNotice(job: Job, event: Event, name: NotifyEvent): Notice {
  const ordinal = 'attempt' in event ? event.attempt : (job.attempts.at(-1)?.ordinal ?? null);
  const attempt = ordinal === null ? undefined : attemptOf(job, ordinal);
  const allocation = job.allocations.find((one) => one.ordinal === attempt?.allocation);
  const capacity = allocation === undefined ? capacityAt(job.spec.capacity, 0) : capacityOf(job, allocation);
  const isTpu = capacity.kind === 'tpu';
  return {
    event: name,
    at: event.at,
    job: job.id,
    name: job.spec.name,
    owner: job.owner,
    backend: capacity.kind,
    attempt: ordinal,
    accelerator: isTpu ? capacity.accelerator : null,
    location: isTpu ? capacity.zone : null,
    // A program's last line may be long.
    message: messageFor(job, event, name, allocation?.alternative).slice(0, maxMessageLength),
    ...(job.spec.notify !== undefined && { notify: job.spec.notify }),
  };
}

const maxMessageLength = 4_000;

function messageFor(job: Job, event: Event, name: NotifyEvent, alternative: number | undefined): string {
  const last = job.attempts.findLast((one) => one.ending !== null);
  switch (name) {
    case 'waiting':
      return `attempt ${job.attempts.at(-1)?.ordinal ?? 1} has waited for ${formatCapacity(job, alternative)} since ${formatTimestamp(event.at)}`;
    case 'failed': {
      if (last?.ending === undefined || last.ending === null) return describeEvent(event, job);
      // The cause is in the evidence of the last attempt.
      const { reason, evidence } = last.ending;
      const cause = { kind: 'attempt_ended', at: event.at, attempt: last.ordinal, reason, evidence } as const;
      return describeEvent(cause, job);
    }
    case 'succeeded':
      return runtimePhrase(job);
    default:
      return describeEvent(event, job);
  }
}

/** The notice of a resource that no job claims. */
export function orphanNotice({ backend, resource, state, job }: Orphan, at: Instant): Notice {
  return {
    event: 'orphans',
    at,
    job: null,
    name: null,
    owner: null,
    backend,
    attempt: null,
    accelerator: null,
    location: null,
    message: `no job here claims ${resource} (${state}), which has the label of job ${job}; list orphans with: jobman gc`,
  };
}

// ------------------------------------------------------------------------------------------ clusters

/** The end of a job that was not observed before is reported only if it is not older: its archive may be new. */
const recentEnd: Duration = hour;

type ObservedClusterJob = ArchivedObservation & { readonly context: string; readonly goneAt: Instant | null };

/** The notices that follow from a new observation of a cluster's job. */
export function clusterNotices(
  before: ObservedClusterJob | undefined,
  after: ObservedClusterJob,
  now: Instant,
): NoticeChange {
  const phase = archivedPhase(after);
  const previous = before === undefined ? undefined : archivedPhase(before);
  const events: NotifyEvent[] = [];
  if (newDisruptions(before, after)) events.push('preempted');
  if (phase !== previous) {
    const found = clusterEvent(before, previous, phase, now - (after.job.endedAt ?? 0) < recentEnd);
    if (found !== undefined) events.push(found);
  }
  const { job } = after;
  const notices = events.map((event): Notice => {
    const reason = clusterReason(job, now);
    return {
      event,
      at: event === 'waiting' ? job.createdAt : now,
      job: job.name,
      name: job.name,
      owner: job.owner,
      backend: 'kubernetes',
      attempt: null,
      accelerator: job.flavor,
      location: `${after.context}/${job.namespace}`,
      message: clusterMessage(event, reason, job.createdAt),
      ...(job.notify !== undefined && { notify: job.notify }),
    };
  });
  return { notices, endsWaiting: phase !== 'queued' };
}

function clusterEvent(
  before: ObservedClusterJob | undefined,
  previous: string | undefined,
  phase: string,
  hasJustEnded: boolean,
): NotifyEvent | undefined {
  switch (phase) {
    case 'queued':
      return previous === undefined ? 'waiting' : undefined;
    case 'running':
      return previous === 'recovering' || (before?.job.failed ?? 0) > 0 ? 'recovered' : 'started';
    case 'succeeded':
    case 'failed':
      return previous === undefined && !hasJustEnded ? undefined : phase;
    case 'stopped':
    case 'cancelled':
      return previous === undefined || previous === 'cancelled' ? undefined : 'stopped';
    default:
      return undefined;
  }
}

/** True if a pod has become a target of disruption (preemption, eviction, a drained node) since then. */
function newDisruptions(before: ObservedClusterJob | undefined, after: ObservedClusterJob): boolean {
  const known = new Set(before?.pods.filter(isDisrupted).map(({ uid }) => uid));
  return before !== undefined && after.pods.some((pod) => isDisrupted(pod) && !known.has(pod.uid));
}

function isDisrupted({ conditions }: ArchivedObservation['pods'][number]): boolean {
  return conditions.some(({ type, status }) => type === 'DisruptionTarget' && status === 'True');
}

function clusterMessage(event: NotifyEvent, reason: string, createdAt: Instant): string {
  switch (event) {
    case 'waiting':
      return `has waited for capacity since ${formatTimestamp(createdAt)}`;
    case 'preempted':
      return 'the cluster disrupted a pod (preemption, eviction or a drained node)';
    default:
      return reason;
  }
}
