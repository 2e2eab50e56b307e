// The JSON of `--json`: the rows of app/views.ts as they are, but with moments as RFC 3339 in UTC, which every language reads.

import type { AllocationView, AttemptView, JobRow, JobView, Why } from '../app/client.ts';
import type { Event } from '../core/decision.ts';
import type { Instant } from '../core/time.ts';

/** `2026-11-20T18:02:13.000Z`, or null where there is no moment. */
export function moment(at: Instant | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}

export function rowJson(row: JobRow): object {
  return { ...row, createdAt: moment(row.createdAt), since: moment(row.since) };
}

export function whyJson(why: Why): object {
  return { ...why, nextAt: moment(why.nextAt) };
}

export function viewJson(view: JobView): object {
  return {
    ...rowJson(view),
    why: whyJson(view.why),
    attempts: view.attempts.map(attemptJson),
    allocations: view.allocations.map(allocationJson),
  };
}

/** One event as one object: its number, its time, its kind, and what belongs to the kind. */
export function eventJson(seq: number, event: Event): object {
  const times = {
    at: moment(event.at),
    ...('notBefore' in event ? { notBefore: moment(event.notBefore) } : {}),
    ...('nextAt' in event ? { nextAt: moment(event.nextAt) } : {}),
  };
  return { seq, ...event, ...times };
}

function attemptJson(attempt: AttemptView): object {
  return {
    ...attempt,
    created: moment(attempt.created),
    started: moment(attempt.started),
    ended: moment(attempt.ended),
  };
}

function allocationJson(allocation: AllocationView): object {
  return {
    ...allocation,
    requested: moment(allocation.requested),
    ready: moment(allocation.ready),
    released: moment(allocation.released),
    gone: moment(allocation.gone),
  };
}
