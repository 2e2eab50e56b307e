// Imported jobs: jobs that another program ran, stored as finished jobs. They can be shown, resumed and rerun. Nothing
// of them counts as alive or as ours.

import { importedPrefix } from '../app/format.ts';
import { beginAttempt } from '../core/decide/advance.ts';
import { withAllocation, withAttempt } from '../core/model/decision.ts';
import type { Event } from '../core/model/event.ts';
import { allocationOf, newJob, type Evidence, type Job, type Finish } from '../core/model/job.ts';
import type { JobSpec, Reason } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { LabJob, WindowReport } from './lab-store.ts';

/** A job that ended before the import. */
export interface ImportedJob {
  readonly owner: string;
  readonly spec: JobSpec;
  /** The other program's description of the job, stored as its manifest. */
  readonly manifest: string;
  readonly createdAt: Instant;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant;
  readonly verdict: Finish['verdict'];
  readonly reason: Reason;
  readonly evidence: Evidence;
  readonly lab: Omit<LabJob, 'job' | 'user'> | null;
  /** Its window there; null if it had none. A `cleared` window is not on the list. */
  readonly window: {
    readonly session: string;
    readonly window: number;
    readonly report: WindowReport | null;
    readonly finishedAt: Instant | null;
    readonly cleared: boolean;
  } | null;
}

/** Builds the finished job and its history. `id` and `installation` come from the store. */
export function buildImportedJob(
  past: ImportedJob,
  { id, installation }: { readonly id: string; readonly installation: string },
): { readonly job: Job; readonly events: readonly Event[] } {
  const { owner, spec, createdAt, startedAt, verdict, reason, evidence } = past;
  // A wrong clock must not make the job end before it began.
  const begunAt = startedAt === null ? null : Math.max(createdAt, startedAt);
  const endedAt = Math.max(past.endedAt, begunAt ?? createdAt);
  const isPersistent = spec.capacity.ownership === 'persistent';
  // The number of workers is unknown.
  const workers = spec.command.runsOn === 'controller' ? (['controller'] as const) : [0];
  const exits = reason === 'succeeded' && { exits: [{ exitCode: 0, workers }] };
  // If the end is unknown, do not report that its owner stopped it.
  const isByOwner = verdict === 'cancelled' || (verdict === 'stopped' && !evidence.message.startsWith(importedPrefix));
  const created = newJob({ id, installation, owner, spec, at: createdAt });
  const begun = beginAttempt(created.job, undefined, createdAt);
  const ended = withAttempt(begun.job, 1, {
    startedAt: begunAt,
    runningAt: begunAt,
    ending: { reason, evidence, startedAt: endedAt, stopRequestedAt: null, stopConfirmedBy: [] },
    endedAt,
    ...exits,
  });
  // Persistent capacity always exists. An ephemeral allocation belonged to the other program: we neither requested nor
  // own it.
  const released = isPersistent ? { requestedAt: createdAt } : { releasedAt: endedAt, goneAt: endedAt };
  const job: Job = {
    ...withAllocation(ended, 1, released),
    desired: isByOwner ? 'cancelled' : 'running',
    cancelRequested: verdict === 'cancelled',
    desiredAt: isByOwner ? endedAt : createdAt,
    finish: { at: endedAt, verdict, reason },
  };
  const events: Event[] = [created.event, ...begun.events];
  const { name, ownership } = allocationOf(job, 1);
  if (isPersistent) events.push({ at: createdAt, kind: 'allocation_requested', allocation: 1, name, ownership });
  if (begunAt !== null) {
    events.push({ at: begunAt, kind: 'attempt_started', attempt: 1, workers });
    events.push({ at: begunAt, kind: 'attempt_running', attempt: 1 });
  }
  if (isByOwner) {
    const verb = verdict === 'cancelled' ? 'cancel' : 'stop';
    events.push({ at: endedAt, kind: 'command_received', verb, by: owner, desired: 'cancelled' });
  }
  events.push({ at: endedAt, kind: 'attempt_ending', attempt: 1, reason, evidence });
  events.push({ at: endedAt, kind: 'attempt_ended', attempt: 1, reason, evidence, ...exits });
  if (!isPersistent) {
    events.push({ at: endedAt, kind: 'allocation_released', allocation: 1, message: 'it was not ours' });
    events.push({ at: endedAt, kind: 'allocation_gone', allocation: 1 });
  }
  events.push({ at: endedAt, kind: 'finished', verdict, reason });
  return { job, events };
}

/** The end of a job, for people: what the other program has recorded. */
export function importedEnd(
  verdict: ImportedJob['verdict'],
  reason: Reason,
  message: string,
  pattern?: string,
): Pick<ImportedJob, 'verdict' | 'reason' | 'evidence'> {
  return { verdict, reason, evidence: { message, ...(pattern !== undefined && { pattern }) } };
}
