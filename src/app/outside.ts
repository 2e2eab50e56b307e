// Outside: what a cloud has said of an allocation, with the age of it.

import { inVain } from '../core/allocate.ts';
import { openAttempt, type Allocation, type Attempt, type Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import { ageText, countText, momentText, sentencePart } from './figures.ts';
import { cloudWords } from './phrases.ts';

/** The state of an allocation in short: `WAITING_FOR_RESOURCES for 10m`. Null when it is ready, gone or not requested yet. */
export function sayingOf(job: Job, allocation: Allocation, now: Instant): string | null {
  const { seen } = allocation;
  switch (stageOf(job, allocation)) {
    case 'leaving':
      return `${leavingWord(allocation) ?? 'told to go'}, not seen gone yet${lastAnswer(allocation)}`;
    case 'silent':
      return `${allocation.silentWho === 'login' ? 'no login' : 'no answer'} for ${ageText(now - (allocation.silentSince ?? now))}`;
    case 'refused':
      return refusal(job, allocation, now);
    case 'coming':
      return seen === null ? asked(allocation, now) : `${wordOf(seen)} for ${ageText(now - seen.at)}`;
    case 'quiet':
      return null;
  }
}

/** The same as evidence, with its name and with moments: `vit-000042-1 WAITING_FOR_RESOURCES since 20 Nov 12:01:00 UTC, 10m ago`. */
export function evidenceOf(job: Job, allocation: Allocation, now: Instant): string | null {
  const { name, seen } = allocation;
  switch (stageOf(job, allocation)) {
    case 'leaving': {
      const word = leavingWord(allocation);
      const ago = ageText(now - (allocation.releasedAt ?? now));
      return `${name} told to go ${ago} ago${word === null ? '' : ` (${word})`}, not seen gone yet${lastAnswer(allocation)}`;
    }
    case 'silent':
      return allocation.silentWho === 'login'
        ? `no login since ${momentText(allocation.silentSince ?? now, now)}, so ${name} is not known`
        : `${name} has not answered since ${momentText(allocation.silentSince ?? now, now)}`;
    case 'refused':
      // A refusal speaks of the request, and every other word of the allocation.
      return `${refusal(job, allocation, now)}${cloudWords(refusedBy(job, allocation).error)}`;
    case 'coming': {
      if (seen !== null)
        return `${name} ${wordOf(seen)} since ${momentText(seen.at, now)}, ${ageText(now - seen.at)} ago`;
      const said = asked(allocation, now);
      return said === null ? null : `${name} ${said}`;
    }
    case 'quiet':
      return null;
  }
}

export function lastInVain(job: Job, attempt: Attempt | undefined): Allocation['lastFailure'] {
  if (attempt === undefined) return null;
  const elsewhere = (attempt.placesPassed ?? []).flatMap(({ at, error }) =>
    error === undefined ? [] : [{ at, error }],
  );
  const here = inVain(job, attempt).flatMap(({ lastFailure }) => (lastFailure === null ? [] : [lastFailure]));
  return [...here, ...elsewhere].toSorted((one, other) => one.at - other.at).at(-1) ?? null;
}

function asksInVain(job: Job, attempt: Attempt): number {
  const places = (attempt.placesPassed ?? []).reduce((sum, { asks }) => sum + asks, 0);
  return places + inVain(job, attempt).filter(({ passedOver }) => passedOver === undefined).length;
}

type Stage = 'leaving' | 'silent' | 'refused' | 'coming' | 'quiet';

/** Ordered: the first that holds says what there is to say. */
function stageOf(job: Job, allocation: Allocation): Stage {
  if (allocation.goneAt !== null) return 'quiet';
  if (allocation.releasedAt !== null) return 'leaving';
  const attempt = openAttempt(job);
  if (attempt?.allocation !== allocation.ordinal) return 'quiet';
  if (allocation.silentSince !== null) return 'silent';
  if (allocation.readyAt !== null) return allocation.seen?.state === 'interrupted' ? 'coming' : 'quiet';
  if (allocation.lastFailure !== null) return 'refused';
  return allocation.seen === null && lastInVain(job, attempt) !== null ? 'refused' : 'coming';
}

function refusedBy(job: Job, { lastFailure }: Allocation): NonNullable<Allocation['lastFailure']> {
  const newest = lastFailure ?? lastInVain(job, openAttempt(job));
  if (newest === null) throw new Error(`job ${job.id} was refused nothing`);
  return newest;
}

function refusal(job: Job, allocation: Allocation, now: Instant): string {
  const attempt = openAttempt(job);
  const { at, error } = refusedBy(job, allocation);
  const { lastFailure, requestFailures } = allocation;
  const said = `${sentencePart(error.message)}, ${ageText(now - at)} ago`;
  if (lastFailure === null && attempt !== undefined)
    return `${said}; ${countText(asksInVain(job, attempt), 'request')} in vain`;
  return requestFailures > 1 ? `${said}; ${countText(requestFailures, 'request')} in vain` : said;
}

function wordOf({ state, detail }: NonNullable<Allocation['seen']>): string {
  return detail === '' ? state : detail;
}

/** The cloud's word for it, once it has heard that it is to go; before, its word is about something else. */
function leavingWord({ seen }: Allocation): string | null {
  return seen !== null && (seen.state === 'releasing' || seen.state === 'lost') ? wordOf(seen) : null;
}

function asked({ requestedAt }: Allocation, now: Instant): string | null {
  return requestedAt === null ? null : `asked ${ageText(now - requestedAt)} ago, not seen yet`;
}

function lastAnswer({ lastFailure }: Allocation): string {
  return lastFailure === null ? '' : `, last answer: ${sentencePart(lastFailure.error.message)}`;
}
