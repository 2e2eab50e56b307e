// Reconcile: the life of a supervised job as a pure function. Four steps: correct the record's times and fold outcomes and
// observations into it; name the situation; apply the one switch; return the new record, the events, the actions and the time
// of the next look. No clock, no randomness, no I/O: any decision can be replayed from the record and the observation.

import {
  askAnew,
  capacityTraits,
  capacityWaitEnd,
  markRequested,
  moveOn,
  passOver,
  releasesDue,
  secondLookAfter,
  takePlace,
} from './allocate.ts';
import { chain, told, unchanged, withAllocation, withAttempt } from './decision.ts';
import type { Change, Action, Decision } from './decision.ts';
import { notAhead, setRight, fold } from './fold.ts';
import {
  answerWish,
  beginEnding,
  closeAttempt,
  settleAsAsked,
  tidySettled,
  stopStrangers,
  windDown,
} from './attempts.ts';
import { matchedIn } from './evidence.ts';
import { silencePatience } from './recover.ts';
import type { Attempt, Job } from './job.ts';
import { hasSucceeded } from './observation.ts';
import type { Observation } from './observation.ts';
import { between, later, earliest, second } from './time.ts';
import type { Duration, Instant } from './time.ts';
import { stepsDue, tryAgainAt } from './prepare.ts';
import { classify } from './situation.ts';
import type { Situation } from './situation.ts';
import type { WorkerId } from './spec.ts';
import { alternativeWaitEnd, lastOutputAt, viewOf } from './facts.ts';
import type { View } from './facts.ts';

interface Arm extends Change {
  readonly actions: readonly Action[];
  readonly wakeAt: Instant | undefined;
}

/** Decides about one job by what was seen of it now. Total: it throws for no job and no observation that can come about. */
export function reconcile(job: Job, seen: Observation, now: Instant): Decision {
  const observation = notAhead(seen, now);
  const folded = chain(setRight(job, now), (next) => fold(next, observation, now));
  const view = viewOf(folded.job, observation, now);
  const { row, situation } = classify(view);
  const arm = answer(view, situation);
  // In every situation a released allocation is asked to go until it is seen gone.
  const releases = arm.job.removed ? { actions: [], wakeAt: undefined } : releasesDue(arm.job, view.lookOf, now);
  return {
    job: arm.job.situation === row ? arm.job : { ...arm.job, situation: row },
    events: [...folded.events, ...arm.events],
    actions: [...arm.actions, ...releases.actions],
    wakeAt: earliest(arm.wakeAt, releases.wakeAt),
  };
}

function answer(view: View, situation: Situation): Arm {
  const { job, now, attempt } = view;
  switch (situation.kind) {
    case 'removed':
    case 'queued':
      return rest(job, undefined);
    case 'settled':
      return { actions: [], ...tidySettled(job, now) };
    case 'ended_by_owner':
      return settledOrOn(settleAsAsked(job, now), now);
    case 'wanted':
      return goOn(answerWish(job, now), now);
    default:
      if (attempt === undefined) throw new Error(`job ${job.id} is ${situation.kind} without an open attempt`);
      return answerAttempt(view, attempt, situation);
  }
}

type BetweenAttempts = 'removed' | 'settled' | 'ended_by_owner' | 'queued' | 'wanted';

function answerAttempt(view: View, attempt: Attempt, situation: Exclude<Situation, { kind: BetweenAttempts }>): Arm {
  const { job, now } = view;
  switch (situation.kind) {
    case 'over':
      return settledOrOn(closeAttempt(view, attempt), now);
    case 'ending':
      return windDown(view, attempt);
    case 'must_end':
      return end(view, attempt, situation);
    case 'crowded':
      return { ...unchanged(job), ...stopStrangers(view), wakeAt: now + 5 * second };
    case 'leaving':
      // `releasesDue` says when to look again.
      return rest(job, undefined);
    case 'too_early':
      return rest(job, earliest(attempt.notBefore, watchWhileIdle(view), patienceEnd(view, attempt)));
    case 'unseen':
      return rest(job, earliest(lookAgain(view), patienceEnd(view, attempt)));
    case 'to_request':
      return request(view, attempt, situation.notBefore);
    case 'accepted':
      return rest(job, earliest(secondLook(view), patienceEnd(view, attempt)));
    case 'elsewhere':
      return goOn(passOver(job, attempt, situation, now), now);
    case 'better_place':
      return goOn(takePlace(job, attempt, situation.turn, now), now);
    case 'no_capacity':
      return goOn(askAnew(job, attempt, now), now);
    case 'out_of_reach': {
      const why = `worker ${situation.worker} does not answer`;
      return goOn(moveOn(job, attempt, { why, notBefore: now }, now), now);
    }
    case 'coming':
      return rest(job, earliest(nextGlance(view, attempt), patienceEnd(view, attempt)));
    case 'preparing':
      return prepare(view, attempt);
    case 'to_start':
      return start(view, attempt, situation.workers);
    case 'under_way':
      return follow(view, attempt);
  }
}

// ------------------------------------------------------------------------------------------ arms

function rest(job: Job, wakeAt: Instant | undefined): Arm {
  return { ...unchanged(job), actions: [], wakeAt };
}

/** Something was recorded that opens the way to the next thing: look at once. */
function goOn(change: Change, now: Instant): Arm {
  return { ...change, actions: [], wakeAt: now };
}

/** The job may have come to its end by it: then there is only something to let go of, or nothing at all. */
function settledOrOn(change: Change, now: Instant): Arm {
  if (change.job.settled === null) return goOn(change, now);
  const { wakeAt, ...tidied } = tidySettled(change.job, now);
  return { job: tidied.job, events: [...change.events, ...tidied.events], actions: [], wakeAt };
}

function end(view: View, attempt: Attempt, situation: Extract<Situation, { kind: 'must_end' }>): Arm {
  const ending = beginEnding(view.job, attempt, situation, view.now);
  // The same looks that show why it ends often show that it has ended: then there is nothing to wind down.
  const after: View = { ...view, job: ending.job, attempt: ending.job.attempts[attempt.ordinal - 1] };
  const arm = answer(after, classify(after).situation);
  return { ...arm, events: [...ending.events, ...arm.events] };
}

function request(view: View, attempt: Attempt, notBefore: Instant): Arm {
  const { job, now } = view;
  if (notBefore > now) return rest(job, earliest(notBefore, patienceEnd(view, attempt)));
  const wakeAt = earliest(now + 10 * second, patienceEnd(view, attempt));
  return {
    ...chain(markRequested(job, attempt.allocation, now), (next) =>
      unchanged(withAllocation(next, attempt.allocation, { isAsking: true })),
    ),
    actions: [{ kind: 'request', allocation: attempt.allocation }],
    wakeAt,
  };
}

function prepare(view: View, attempt: Attempt): Arm {
  const { actions, wakeAt } = stepsDue(view, attempt);
  return { ...unchanged(view.job), actions, wakeAt: earliest(wakeAt, lookAgain(view)) };
}

function start(view: View, attempt: Attempt, workers: readonly WorkerId[]): Arm {
  const { job, now } = view;
  const { ordinal, allocation } = attempt;
  const begun =
    attempt.startedAt === null
      ? told(withAttempt(job, ordinal, { startedAt: now }), now, { kind: 'attempt_started', attempt: ordinal, workers })
      : unchanged(job);
  const due = workers.filter((worker) => tryAgainAt(job, attempt, { kind: 'start', worker }) <= now);
  const actions = due.map((worker): Action => ({
    kind: 'start',
    attempt: ordinal,
    allocation,
    worker,
    ...provenBoot(view, attempt, worker),
  }));
  return { ...begun, actions, wakeAt: now + 5 * second };
}

/** The result of a step may not outlive a restart, and a worker may restart between this look and the start. */
function provenBoot({ job, workers }: View, attempt: Attempt, worker: WorkerId): { readonly bootId?: string } {
  const bootId = workers.find((one) => one.worker === worker)?.seen?.bootId;
  const needsSteps = worker !== 'here' && job.spec.steps.length > 0 && attempt.commandOnly !== true;
  return needsSteps && bootId !== undefined ? { bootId } : {};
}

/** Started everywhere. Running is what is seen running; from then on only limits and changes matter. */
function follow(view: View, attempt: Attempt): Arm {
  const { job, now, places } = view;
  const { ordinal, runningAt } = attempt;
  const isSeen = places.every(({ run }) => run.state === 'running' || run.state === 'exited');
  const running =
    runningAt === null && isSeen && places.length > 0
      ? told(withAttempt(job, ordinal, { runningAt: now }), now, { kind: 'attempt_running', attempt: ordinal })
      : unchanged(job);
  const followed = chain(running, (next) => noteExit(next, attempt, places, now));
  return { ...followed, actions: [], wakeAt: nextWatch({ ...view, job: followed.job }, runningAt ?? now) };
}

/** An exit that is not judged while this arm is taken is being held back (`failedPlace`); people are told that it was seen. */
function noteExit(job: Job, attempt: Attempt, places: View['places'], now: Instant): Change {
  const { ordinal, exitSeen } = attempt;
  const run = places.find((place) => place.run.state === 'exited' && !hasSucceeded(place.run));
  if (exitSeen !== undefined || run?.run.state !== 'exited') return unchanged(job);
  const { exitCode, signal } = run.run;
  const seen = { worker: run.worker, exitCode, ...(signal === undefined ? {} : { signal }) };
  const { pattern } = matchedIn(run, attempt);
  const noted = withAttempt(job, ordinal, {
    exitSeen: { at: now, ...seen, ...(pattern !== undefined && { pattern }) },
  });
  return told(noted, now, { kind: 'exit_seen', attempt: ordinal, ...seen });
}

// ------------------------------------------------------------------------------------------ when to look again

function patienceEnd({ job, now, allocation }: View, attempt: Attempt): Instant | undefined {
  if (allocation?.readyAt !== null) return undefined;
  // An alternative whose time is over and that is still asked has no other one after it.
  const alternative = alternativeWaitEnd(job, allocation);
  const at = earliest(
    capacityWaitEnd(job, attempt),
    alternative !== undefined && alternative > now ? alternative : undefined,
  );
  return at === undefined ? undefined : later(at, now);
}

/** After something did not answer, or while it is prepared: soon at first, then less often the longer it lasts. */
function lookAgain({ job, now, allocation, attempt }: View): Instant {
  const since = allocation?.silentSince;
  if (since === null || since === undefined) return now + 10 * second;
  const graceEnd =
    allocation?.silentWho === 'worker' && attempt !== undefined
      ? later(since + silencePatience(job, attempt), now)
      : undefined;
  return earliest(now + between(5 * second, (now - since) / 2, 30 * second), graceEnd) ?? now;
}

function secondLook({ now, allocation }: View): Instant {
  const missedAt = allocation?.missedAt ?? null;
  return missedAt === null ? now + 5 * second : later(missedAt + secondLookAfter, now);
}

/** A new request may be ready in seconds; an older one is observed less often. */
function nextGlance({ now, look }: View, attempt: Attempt): Instant {
  const waited = now - attempt.createdAt;
  if (look.kind === 'known' && look.value.state === 'provisioning')
    return now + between(2 * second, waited / 5, 5 * second);
  if (attempt.startedAt !== null) return now + 10 * second;
  return now + between(2 * second, waited / 5, 30 * second);
}

function nextWatch(view: View, runningAt: Instant): Instant | undefined {
  const { job, now, places, allocation } = view;
  const { maxRuntime, silenceTimeout, troubleTimeout } = job.spec.limits;
  const last = lastOutputAt(places);
  return earliest(
    now + watchPace(view),
    allocation?.silentSince === null ? undefined : lookAgain(view),
    maxRuntime === null ? undefined : later(runningAt + maxRuntime, now),
    silenceTimeout === null || last === undefined ? undefined : later(last + silenceTimeout, now),
    // Once it is due and nothing is wrong, the usual pace is enough: a program may be silent for hours.
    troubleTimeout === undefined || last === undefined || last + troubleTimeout <= now
      ? undefined
      : last + troubleTimeout,
  );
}

/** Capacity that waits for its attempt can be taken away too. */
function watchWhileIdle({ job, now, allocation }: View): Instant | undefined {
  return allocation?.readyAt === null ? undefined : now + capacityTraits(job.spec.capacity).watchEvery;
}

/** A program that runs well needs few observations: its output ends, or its connection drops. Anything else is observed closely. */
function watchPace({ job, places }: View): Duration {
  const isWell = places.every(({ run }) => run.state === 'running' || hasSucceeded(run));
  return isWell ? capacityTraits(job.spec.capacity).watchEvery : 5 * second;
}
