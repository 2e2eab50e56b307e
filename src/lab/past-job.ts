// Past jobs: what another program ran, as a job of this record that has ended. It can be shown, resumed and rerun; nothing of it
// counts as alive or as ours.

import { importedWords } from '../app/figures.ts';
import { unasked } from '../core/allocate.ts';
import type { Event } from '../core/decision.ts';
import { withLife, type Attempt, type Evidence, type Exit, type Job, type Settled } from '../core/job.ts';
import type { JobSpec, Reason } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import type { LabJob, WindowReport } from './record.ts';

/** A job that has ended before this record knew of it. */
export interface PastJob {
  readonly owner: string;
  readonly spec: JobSpec;
  /** The other program's own words about it, kept as the job's snapshot. */
  readonly manifest: string;
  readonly createdAt: Instant;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant;
  readonly verdict: Settled['verdict'];
  readonly reason: Reason;
  readonly evidence: Evidence;
  readonly lab: Omit<LabJob, 'job' | 'user'> | null;
  /** The window that it was in; null where it had none. One that is `cleared` is off the list. */
  readonly window: {
    readonly session: string;
    readonly window: number;
    readonly report: WindowReport | null;
    readonly finishedAt: Instant | null;
    readonly cleared: boolean;
  } | null;
}

/** The job with its history, settled; `id` and `installation` are the record's. */
export function pastJob(
  past: PastJob,
  { id, installation }: { readonly id: string; readonly installation: string },
): { readonly job: Job; readonly events: readonly Event[] } {
  const { owner, spec, createdAt, startedAt, verdict, reason, evidence } = past;
  // A clock that was wrong must not make it end before it began.
  const begunAt = startedAt === null ? null : Math.max(createdAt, startedAt);
  const endedAt = Math.max(past.endedAt, begunAt ?? createdAt);
  const isStanding = spec.capacity.ownership === 'standing';
  // Nobody knows how many workers it had.
  const workers = spec.command.place === 'here' ? (['here'] as const) : [0];
  const exits: readonly Exit[] | undefined = reason === 'succeeded' ? [{ exitCode: 0, workers }] : undefined;
  const allocation = withLife({
    ...unasked(spec, id, 1),
    // Standing capacity is there all the time. An own one was the other program's: we never asked for it, and it is not ours.
    requestedAt: isStanding ? createdAt : null,
    releasedAt: isStanding ? null : endedAt,
    goneAt: isStanding ? null : endedAt,
  });
  const attempt: Attempt = {
    ordinal: 1,
    stage: 0,
    how: 'fresh',
    asked: true,
    allocation: 1,
    createdAt,
    notBefore: createdAt,
    failures: [],
    startedAt: begunAt,
    runningAt: begunAt,
    ending: { reason, evidence, since: endedAt, stopAskedAt: null, told: [] },
    endedAt,
    ...(exits !== undefined && { exits }),
  };
  // If the end is unknown, do not report that its owner stopped it.
  const isAskedFor = verdict === 'cancelled' || (verdict === 'stopped' && !evidence.detail.startsWith(importedWords));
  const job: Job = {
    id,
    installation,
    owner,
    createdAt,
    spec,
    desired: isAskedFor ? 'end' : 'run',
    wish: null,
    cancelled: verdict === 'cancelled',
    desiredAt: isAskedFor ? endedAt : createdAt,
    attempts: [attempt],
    allocations: [allocation],
    settled: { at: endedAt, verdict, reason },
    removed: false,
  };
  const { name, ownership } = allocation;
  const events: Event[] = [
    { at: createdAt, kind: 'created', by: owner },
    {
      at: createdAt,
      kind: 'attempt_created',
      attempt: 1,
      stage: 0,
      how: 'fresh',
      asked: true,
      allocation: 1,
      notBefore: createdAt,
    },
  ];
  if (isStanding) events.push({ at: createdAt, kind: 'allocation_requested', allocation: 1, name, ownership });
  if (begunAt !== null) {
    events.push({ at: begunAt, kind: 'attempt_started', attempt: 1, workers });
    events.push({ at: begunAt, kind: 'attempt_running', attempt: 1 });
  }
  if (isAskedFor) {
    const verb = verdict === 'cancelled' ? 'cancel' : 'stop';
    events.push({ at: endedAt, kind: 'asked', verb, by: owner, desired: 'end' });
  }
  events.push({ at: endedAt, kind: 'attempt_ending', attempt: 1, reason, evidence });
  events.push({
    at: endedAt,
    kind: 'attempt_ended',
    attempt: 1,
    reason,
    evidence,
    ...(exits !== undefined && { exits }),
  });
  if (!isStanding) {
    events.push({ at: endedAt, kind: 'allocation_released', allocation: 1, why: 'it was not ours' });
    events.push({ at: endedAt, kind: 'allocation_gone', allocation: 1 });
  }
  events.push({ at: endedAt, kind: 'settled', verdict, reason });
  return { job, events };
}
