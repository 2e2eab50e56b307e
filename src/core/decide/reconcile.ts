// Reconcile: the life of a supervised job as a pure function in four steps. It folds outcomes and observations into the
// job (fold.ts), classifies the job into one situation (situations.ts), acts on the situation, and returns the new job,
// its events, the actions for the controller and the time of the next pass. It uses no clock, no randomness and no I/O,
// so every decision can be replayed from the job and the observation.

import {
  requestAnother,
  capacityTraits,
  capacityWaitEnd,
  recordRequested,
  switchAllocation,
  tryNextAlternative,
  planReleases,
  confirmationDelay,
  chooseAlternative,
} from './allocate.ts';
import { chain, withEvents, unchanged, withAllocation, withAttempt } from '../model/decision.ts';
import type { Change, Action, Decision } from '../model/decision.ts';
import { withoutFutureTimes, correctTimes, fold } from './fold.ts';
import {
  beginAttempt,
  beginEnding,
  closeAttempt,
  finishAsRequested,
  cleanUpFinished,
  stopOtherRuns,
  stopAttempt,
} from './end.ts';
import { matchedPattern } from './evidence.ts';
import { unreachableGraceOf } from './recover.ts';
import type { Attempt, Job } from '../model/job.ts';
import { hasSucceeded } from '../model/observation.ts';
import type { Observation } from '../model/observation.ts';
import { clamp, inFuture, earliest, second } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';
import { planSteps, retryAt } from './prepare.ts';
import { classify } from './situations.ts';
import type { Situation } from './situations.ts';
import type { WorkerId } from '../model/spec.ts';
import { alternativeWaitEnd, lastOutputAt, viewOf } from './facts.ts';
import type { View } from './facts.ts';

/** Never throws for a job and an observation that can occur. */
export function reconcile(job: Job, raw: Observation, now: Instant): Decision {
  const observation = withoutFutureTimes(raw, now);
  const folded = chain(correctTimes(job, now), (next) => fold(next, observation, now));
  const view = viewOf(folded.job, observation, now);
  const { row, situation } = classify(view);
  const result = act(view, situation);
  // A release is repeated in every situation until the allocation is deleted.
  const releases = result.job.removed
    ? { actions: [], wakeAt: undefined }
    : planReleases(result.job, view.observationOf, now);
  return {
    job: result.job.situation === row ? result.job : { ...result.job, situation: row },
    events: [...folded.events, ...result.events],
    actions: [...result.actions, ...releases.actions],
    wakeAt: earliest(result.wakeAt, releases.wakeAt),
  };
}

function act(view: View, situation: Situation): Decision {
  const { job, now, attempt } = view;
  switch (situation.kind) {
    case 'removed':
    case 'queued':
      return wait(job, undefined);
    case 'finished':
      return { actions: [], ...cleanUpFinished(job, now) };
    case 'ended_by_owner':
      return finishOrRecheck(finishAsRequested(job, now), now);
    case 'start_requested':
      return recheckNow(beginAttempt(job, now), now);
    default:
      if (attempt === undefined) throw new Error(`job ${job.id} is ${situation.kind} without an open attempt`);
      return actOnAttempt(view, attempt, situation);
  }
}

type WithoutAttempt = 'removed' | 'finished' | 'ended_by_owner' | 'queued' | 'start_requested';

function actOnAttempt(view: View, attempt: Attempt, situation: Exclude<Situation, { kind: WithoutAttempt }>): Decision {
  const { job, now } = view;
  switch (situation.kind) {
    case 'attempt_over':
      return finishOrRecheck(closeAttempt(view, attempt), now);
    case 'attempt_ending':
      return stopAttempt(view, attempt);
    case 'must_end':
      return end(view, attempt, situation);
    case 'other_attempt_alive':
      return { ...unchanged(job), ...stopOtherRuns(view), wakeAt: now + 5 * second };
    case 'previous_releasing':
      // `planReleases` gives the time of the next pass.
      return wait(job, undefined);
    case 'backoff':
      return wait(job, earliest(attempt.notBeforeAt, nextIdleCheck(view), waitLimit(view, attempt)));
    case 'allocation_unknown':
      return wait(job, earliest(nextCheck(view), waitLimit(view, attempt)));
    case 'request':
      return request(view, attempt, situation.notBefore);
    case 'missed':
      return wait(job, earliest(confirmationAt(view), waitLimit(view, attempt)));
    case 'alternative_exhausted':
      return recheckNow(tryNextAlternative(job, attempt, situation, now), now);
    case 'better_alternative':
      return recheckNow(chooseAlternative(job, attempt, situation.next, now), now);
    case 'allocation_failed':
      return recheckNow(requestAnother(job, attempt, now), now);
    case 'worker_unreachable': {
      const why = `worker ${situation.worker} does not answer`;
      return recheckNow(switchAllocation(job, attempt, { why, notBefore: now }, now), now);
    }
    case 'allocation_pending':
      return wait(job, earliest(nextPendingCheck(view, attempt), waitLimit(view, attempt)));
    case 'setup':
      return prepare(view, attempt);
    case 'start':
      return start(view, attempt, situation.workers);
    case 'running':
      return watchRun(view, attempt);
  }
}

// ------------------------------------------------------------------------------------------ cases

function wait(job: Job, wakeAt: Instant | undefined): Decision {
  return { ...unchanged(job), actions: [], wakeAt };
}

/** The job changed, so the next step may follow at once. */
function recheckNow(change: Change, now: Instant): Decision {
  return { ...change, actions: [], wakeAt: now };
}

/** A job that this change finished releases its surplus capacity in the same pass. */
function finishOrRecheck(change: Change, now: Instant): Decision {
  if (change.job.finish === null) return recheckNow(change, now);
  const { job, events, wakeAt } = cleanUpFinished(change.job, now);
  return { job, events: [...change.events, ...events], actions: [], wakeAt };
}

function end(view: View, attempt: Attempt, situation: Extract<Situation, { kind: 'must_end' }>): Decision {
  const ending = beginEnding(view.job, attempt, situation, view.now);
  // The same observation may prove that no process is left to stop.
  const after: View = { ...view, job: ending.job, attempt: ending.job.attempts[attempt.ordinal - 1] };
  const result = act(after, classify(after).situation);
  return { ...result, events: [...ending.events, ...result.events] };
}

function request(view: View, attempt: Attempt, notBefore: Instant): Decision {
  const { job, now } = view;
  if (notBefore > now) return wait(job, earliest(notBefore, waitLimit(view, attempt)));
  const wakeAt = earliest(now + 10 * second, waitLimit(view, attempt));
  return {
    ...chain(recordRequested(job, attempt.allocation, now), (next) =>
      unchanged(withAllocation(next, attempt.allocation, { isRequestInFlight: true })),
    ),
    actions: [{ kind: 'request', allocation: attempt.allocation }],
    wakeAt,
  };
}

function prepare(view: View, attempt: Attempt): Decision {
  const { actions, wakeAt } = planSteps(view, attempt);
  return { ...unchanged(view.job), actions, wakeAt: earliest(wakeAt, nextCheck(view)) };
}

function start(view: View, attempt: Attempt, workers: readonly WorkerId[]): Decision {
  const { job, now } = view;
  const { ordinal, allocation } = attempt;
  const event = { kind: 'attempt_started', attempt: ordinal, workers } as const;
  const begun =
    attempt.startedAt === null ? withEvents(withAttempt(job, ordinal, { startedAt: now }), now, event) : unchanged(job);
  const due = workers.filter((worker) => retryAt(job, attempt, { kind: 'start', worker }) <= now);
  const actions = due.map((worker): Action => ({
    kind: 'start',
    attempt: ordinal,
    allocation,
    worker,
    ...provenBoot(view, attempt, worker),
  }));
  return { ...begun, actions, wakeAt: now + 5 * second };
}

/** The setup may not survive a restart of the worker, which may happen between this observation and the start. */
function provenBoot({ job, workers }: View, attempt: Attempt, worker: WorkerId): { readonly bootId?: string } {
  const bootId = workers.find((one) => one.worker === worker)?.status?.bootId;
  const needsSteps = worker !== 'controller' && job.spec.steps.length > 0 && attempt.commandOnly !== true;
  return needsSteps && bootId !== undefined ? { bootId } : {};
}

function watchRun(view: View, attempt: Attempt): Decision {
  const { job, now, runs } = view;
  const { ordinal, runningAt } = attempt;
  const isRunning = runs.every(({ run }) => run.state === 'running' || run.state === 'exited');
  const running =
    runningAt === null && isRunning && runs.length > 0
      ? withEvents(withAttempt(job, ordinal, { runningAt: now }), now, { kind: 'attempt_running', attempt: ordinal })
      : unchanged(job);
  const followed = chain(running, (next) => recordExit(next, attempt, runs, now));
  return { ...followed, actions: [], wakeAt: nextRunCheck({ ...view, job: followed.job }, runningAt ?? now) };
}

/** `findFailedRun` does not judge this exit yet. The event shows users that jobman has seen it. */
function recordExit(job: Job, attempt: Attempt, runs: View['runs'], now: Instant): Change {
  const { ordinal, exitSeen } = attempt;
  const run = runs.find((workerRun) => workerRun.run.state === 'exited' && !hasSucceeded(workerRun.run));
  if (exitSeen !== undefined || run?.run.state !== 'exited') return unchanged(job);
  const { exitCode, signal } = run.run;
  const seen = { worker: run.worker, exitCode, ...(signal === undefined ? {} : { signal }) };
  const { pattern } = matchedPattern(run, attempt);
  const noted = withAttempt(job, ordinal, {
    exitSeen: { at: now, ...seen, ...(pattern !== undefined && { pattern }) },
  });
  return withEvents(noted, now, { kind: 'exit_seen', attempt: ordinal, ...seen });
}

// ------------------------------------------------------------------------------------------ the next check

function waitLimit({ job, now, allocation }: View, attempt: Attempt): Instant | undefined {
  if (allocation?.readyAt !== null) return undefined;
  // A limit in the past has no effect: no other alternative is left.
  const alternative = alternativeWaitEnd(job, allocation);
  const at = earliest(
    capacityWaitEnd(job, attempt),
    alternative !== undefined && alternative > now ? alternative : undefined,
  );
  return at === undefined ? undefined : inFuture(at, now);
}

/** During setup every 10 s; during a silence soon at first, then less often. */
function nextCheck({ job, now, allocation, attempt }: View): Instant {
  const since = allocation?.unreachableAt;
  if (since === null || since === undefined) return now + 10 * second;
  const graceEnd =
    allocation?.unreachableWho === 'worker' && attempt !== undefined
      ? inFuture(since + unreachableGraceOf(job, attempt), now)
      : undefined;
  return earliest(now + clamp(5 * second, (now - since) / 2, 30 * second), graceEnd) ?? now;
}

function confirmationAt({ now, allocation }: View): Instant {
  const missedAt = allocation?.firstMissedAt ?? null;
  return missedAt === null ? now + 5 * second : inFuture(missedAt + confirmationDelay, now);
}

/** A new request may be ready in seconds, so it is observed more often than an older one. */
function nextPendingCheck({ now, observed }: View, attempt: Attempt): Instant {
  const waited = now - attempt.createdAt;
  if (observed.kind === 'known' && observed.value.state === 'provisioning')
    return now + clamp(2 * second, waited / 5, 5 * second);
  if (attempt.startedAt !== null) return now + 10 * second;
  return now + clamp(2 * second, waited / 5, 30 * second);
}

function nextRunCheck(view: View, runningAt: Instant): Instant | undefined {
  const { job, now, runs, allocation } = view;
  const { maxRuntimeMs, silenceTimeoutMs, failedCallTimeoutMs } = job.spec.limits;
  const last = lastOutputAt(runs);
  return earliest(
    now + runCheckInterval(view),
    allocation?.unreachableAt === null ? undefined : nextCheck(view),
    maxRuntimeMs === null ? undefined : inFuture(runningAt + maxRuntimeMs, now),
    silenceTimeoutMs === null || last === undefined ? undefined : inFuture(last + silenceTimeoutMs, now),
    // After the timeout without a failed call the normal interval is enough: a program may be silent for hours.
    failedCallTimeoutMs === undefined || last === undefined || last + failedCallTimeoutMs <= now
      ? undefined
      : last + failedCallTimeoutMs,
  );
}

/** The cloud may also take capacity that waits for its attempt. */
function nextIdleCheck({ job, now, allocation }: View): Instant | undefined {
  return allocation?.readyAt === null ? undefined : now + capacityTraits(job.spec.capacity).checkInterval;
}

/** A healthy run needs few checks, because the end of its output or of its connection wakes the controller. */
function runCheckInterval({ job, runs }: View): Duration {
  const isWell = runs.every(({ run }) => run.state === 'running' || hasSucceeded(run));
  return isWell ? capacityTraits(job.spec.capacity).checkInterval : 5 * second;
}
