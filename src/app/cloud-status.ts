// Cloud status: the last answer of a cloud about an allocation, with its age.

import { failedRequests } from '../core/decide/allocate.ts';
import { openAttempt, type Allocation, type Attempt, type Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import { asClause, formatAge, formatSince, formatTime, formatWhen, pluralize, type ReadingTime } from './format.ts';
import { formatRawError } from './phrases.ts';

/** `WAITING_FOR_RESOURCES for 10m`. Null if the allocation is ready, gone or not requested yet. */
export function formatCloudStatus(job: Job, allocation: Allocation, now: Instant): string | null {
  const { lastObserved: observed } = allocation;
  switch (cloudStageOf(job, allocation)) {
    case 'releasing':
      return `${formatReleaseState(allocation) ?? 'deletion requested'}${formatLastError(allocation)}`;
    case 'unreachable':
      return `${allocation.unreachableWho === 'login' ? 'no login' : 'no answer'} for ${formatAge(now - (allocation.unreachableAt ?? now))}`;
    case 'refused':
      return formatRefusal(job, allocation, { now });
    case 'pending':
      return observed === null
        ? formatRequested(allocation, { now })
        : `${formatState(observed)} for ${formatAge(now - observed.at)}`;
    case 'none':
      return null;
  }
}

/** As evidence, with name and time: `vit-000042-1 WAITING_FOR_RESOURCES since 20 Nov 12:01:00 UTC, 10m ago`. */
export function formatCloudEvidence(job: Job, allocation: Allocation, reading: ReadingTime): string | null {
  const { now } = reading;
  const { name, lastObserved: observed } = allocation;
  switch (cloudStageOf(job, allocation)) {
    case 'releasing': {
      const state = formatReleaseState(allocation);
      const requested = formatWhen(allocation.releasedAt ?? now, reading);
      return `deleting TPU ${name} (requested ${requested}${state === null ? '' : `, state ${state}`})${formatLastError(allocation)}`;
    }
    case 'unreachable':
      return `${allocation.unreachableWho === 'login' ? 'no login' : `no answer about ${name}`} since ${formatTime(allocation.unreachableAt ?? now, now)}`;
    case 'refused':
      // A refusal is about the request, so it needs no name; every other status is about the allocation.
      return `${formatRefusal(job, allocation, reading)}${formatRawError(refusalOf(job, allocation).error)}`;
    case 'pending': {
      if (observed !== null) return `${name}: ${formatState(observed)} since ${formatSince(observed.at, reading)}`;
      const requested = formatRequested(allocation, reading);
      return requested === null ? null : `${name}: ${requested}`;
    }
    case 'none':
      return null;
  }
}

export function lastRequestFailure(job: Job, attempt: Attempt | undefined): Allocation['lastError'] {
  if (attempt === undefined) return null;
  const fromAlternatives = (attempt.alternativesTried ?? []).flatMap(({ at, error }) =>
    error === undefined ? [] : [{ at, error }],
  );
  const fromAllocations = failedRequests(job, attempt).flatMap(({ lastError }) =>
    lastError === null ? [] : [lastError],
  );
  return [...fromAllocations, ...fromAlternatives].toSorted((one, other) => one.at - other.at).at(-1) ?? null;
}

function countFailedRequests(job: Job, attempt: Attempt): number {
  const fromAlternatives = (attempt.alternativesTried ?? []).reduce((sum, { failedRequests: count }) => sum + count, 0);
  return fromAlternatives + failedRequests(job, attempt).filter(({ superseded }) => superseded === undefined).length;
}

type CloudStage = 'releasing' | 'unreachable' | 'refused' | 'pending' | 'none';

function cloudStageOf(job: Job, allocation: Allocation): CloudStage {
  if (allocation.goneAt !== null) return 'none';
  if (allocation.releasedAt !== null) return 'releasing';
  const attempt = openAttempt(job);
  if (attempt?.allocation !== allocation.ordinal) return 'none';
  const isElsewhere = allocation.unreachableWho === 'home' || allocation.unreachableWho === 'machine';
  if (allocation.unreachableAt !== null && !isElsewhere) return 'unreachable';
  if (allocation.readyAt !== null) return allocation.lastObserved?.state === 'interrupted' ? 'pending' : 'none';
  if (allocation.lastError !== null) return 'refused';
  return allocation.lastObserved === null && lastRequestFailure(job, attempt) !== null ? 'refused' : 'pending';
}

function refusalOf(job: Job, { lastError }: Allocation): NonNullable<Allocation['lastError']> {
  const newest = lastError ?? lastRequestFailure(job, openAttempt(job));
  if (newest === null) throw new Error(`job ${job.id} has no refused request`);
  return newest;
}

function formatRefusal(job: Job, allocation: Allocation, reading: ReadingTime): string {
  const attempt = openAttempt(job);
  const { at, error } = refusalOf(job, allocation);
  const { lastError, errorCount } = allocation;
  const message = `${asClause(error.message)}, ${formatWhen(at, reading)}`;
  if (lastError === null && attempt !== undefined)
    return `${message}; ${pluralize(countFailedRequests(job, attempt), 'failed request')}`;
  return errorCount > 1 ? `${message}; ${pluralize(errorCount, 'failed request')}` : message;
}

function formatState({ state, detail }: NonNullable<Allocation['lastObserved']>): string {
  return detail === '' ? state : detail;
}

/** The cloud's state once it has accepted the release; an earlier state is about something else. */
function formatReleaseState({ lastObserved: observed }: Allocation): string | null {
  return observed !== null && (observed.state === 'releasing' || observed.state === 'lost')
    ? formatState(observed)
    : null;
}

function formatRequested({ requestedAt }: Allocation, reading: ReadingTime): string | null {
  return requestedAt === null ? null : `requested ${formatWhen(requestedAt, reading)}, not listed yet`;
}

function formatLastError({ lastError }: Allocation): string {
  return lastError === null ? '' : `; last error: ${asClause(lastError.error.message)}`;
}
