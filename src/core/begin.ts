// Begin: the next attempt, and the allocation that it begins on.

import { addAllocation, capacityTraits, release, usableAllocation } from './allocate.ts';
import { chain, told, unchanged } from './change.ts';
import type { Change } from './change.ts';
import { copyOf, lastAllocation } from './job.ts';
import type { Attempt, Job, Wish } from './job.ts';
import type { Instant } from './time.ts';

/** The next attempt, on the allocation that can go on or on a new one. What cannot be used again is let go first. */
export function addAttempt(
  job: Job,
  next: Pick<Attempt, 'how' | 'stage' | 'notBefore' | 'asked' | 'commandOnly'> & {
    readonly on: 'same' | 'new';
    /** Where a new allocation is asked for first; the first place of the spec when absent. */
    readonly place?: number;
  },
  now: Instant,
): Change {
  const { on, how, stage, notBefore, asked } = next;
  const same = on === 'same' ? usableAllocation(job) : undefined;
  // Steps are passed over only where they may hold: not on what has to be made first.
  const commandOnly = next.commandOnly === true && same !== undefined && same.readyAt !== null;
  const workdir = copyOf(job);
  const copy = workdir !== undefined && { workdir };
  const place =
    same === undefined
      ? chain(leaveBehind(job, on, now), (after) => addAllocation(after, now, next.place))
      : unchanged(job);
  return chain(place, (after) => {
    const attempt: Attempt = {
      ordinal: after.attempts.length + 1,
      stage,
      how,
      asked,
      ...(commandOnly && { commandOnly: true }),
      ...copy,
      allocation: after.allocations.length,
      createdAt: now,
      notBefore,
      failures: [],
      startedAt: null,
      runningAt: null,
      ending: null,
      endedAt: null,
    };
    const { ordinal, allocation } = attempt;
    return told({ ...after, attempts: [...after.attempts, attempt], wish: null }, now, {
      kind: 'attempt_created',
      attempt: ordinal,
      stage,
      how,
      asked,
      ...(commandOnly && { commandOnly: true }),
      ...copy,
      allocation,
      notBefore,
    });
  });
}

/** A standing allocation is let go only where a rule says `new`, which for it means: apply for the same name again. */
function leaveBehind(job: Job, on: 'same' | 'new', now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined) return unchanged(job);
  const isOurs = allocation.ownership === 'owned' || (on === 'new' && capacityTraits(job.spec.capacity).replaceable);
  return isOurs ? release(job, allocation.ordinal, 'a new one takes its place', now) : unchanged(job);
}

/** The attempt that answers the owner's wish. */
export function answerWish(job: Job, now: Instant): Change {
  const how: Wish['how'] = job.wish?.how ?? (job.attempts.length === 0 ? 'fresh' : 'resume');
  const lastStarted = job.attempts.findLast((attempt) => attempt.startedAt !== null);
  const stage = how === 'resume' && lastStarted !== undefined ? lastStarted.stage + 1 : 0;
  const commandOnly = job.wish?.commandOnly === true && { commandOnly: true as const };
  return addAttempt(job, { how, stage, notBefore: now, asked: true, on: 'same', ...commandOnly }, now);
}
