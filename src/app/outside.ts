// Outside: what a cloud has said of an allocation, with the age of it.

import { inVain } from '../core/allocate.ts';
import { openAttempt, type Allocation, type Attempt, type Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import { ageText, countText, momentText } from './figures.ts';
import { sentencePart } from './history.ts';

/**
 * What is said of an allocation that is not ready for the job, or not gone yet: `WAITING_FOR_RESOURCES since …, 10m ago`.
 * Null when there is nothing to add: it is ready, or gone, or nothing was asked yet.
 */
export function sayingOf(job: Job, allocation: Allocation, now: Instant): string | null {
  if (allocation.goneAt !== null) return null;
  if (allocation.releasedAt !== null) return leaving(allocation, allocation.releasedAt, now);
  const attempt = openAttempt(job);
  if (attempt?.allocation !== allocation.ordinal) return null;
  if (allocation.silentSince !== null) return `has not answered since ${momentText(allocation.silentSince)}`;
  if (allocation.readyAt !== null && allocation.seen?.state !== 'interrupted') return null;
  return coming(job, attempt, allocation, now);
}

/** The same as evidence, where the allocation is not named beside it. */
export function evidenceOf(job: Job, allocation: Allocation, now: Instant): string | null {
  const said = sayingOf(job, allocation, now);
  const isRefusal = allocation.releasedAt === null && isRefused(job, allocation);
  return said === null || isRefusal ? said : `${allocation.name} ${said}`;
}

/** A refusal speaks of the request, and every other word of the allocation by its name. */
function isRefused(job: Job, allocation: Allocation): boolean {
  return allocation.lastFailure !== null || (allocation.seen === null && lastInVain(job, openAttempt(job)) !== null);
}

/** How the newest of those that came to nothing before this one was refused. */
export function lastInVain(job: Job, attempt: Attempt | undefined): Allocation['lastFailure'] {
  return attempt === undefined ? null : (inVain(job, attempt).at(-1)?.lastFailure ?? null);
}

function coming(job: Job, attempt: Attempt, allocation: Allocation, now: Instant): string | null {
  const { lastFailure, seen, requestFailures, requestedAt } = allocation;
  const before = lastInVain(job, attempt);
  if (lastFailure === null && seen === null && before !== null) {
    const count = countText(inVain(job, attempt).length, 'allocation');
    return `${sentencePart(before.error.message)}, ${ageText(now - before.at)} ago; ${count} in vain`;
  }
  if (lastFailure !== null) {
    const requests = requestFailures > 1 ? `; ${countText(requestFailures, 'request')} in vain` : '';
    return `${sentencePart(lastFailure.error.message)}, ${ageText(now - lastFailure.at)} ago${requests}`;
  }
  if (seen !== null) {
    const said = seen.detail === '' ? seen.state : seen.detail;
    return `${said} since ${momentText(seen.at)}, ${ageText(now - seen.at)} ago`;
  }
  return requestedAt === null ? null : `asked ${ageText(now - requestedAt)} ago, not seen yet`;
}

function leaving({ seen, lastFailure }: Allocation, releasedAt: Instant, now: Instant): string {
  const word = seen === null || seen.detail === '' || seen.at < releasedAt ? '' : ` (${seen.detail})`;
  const failed = lastFailure === null ? '' : `, last answer: ${sentencePart(lastFailure.error.message)}`;
  return `told to go ${ageText(now - releasedAt)} ago${word}, not seen gone yet${failed}`;
}
