// Advance: the steps of an attempt up to a running command (begin, request, set up, start, watch), and the time of the
// next check in each.

import {
  addAllocation,
  capacityTraits,
  capacityWaitEnd,
  confirmationDelay,
  recordRequested,
  release,
  releaseExisting,
  withSlots,
} from './allocate.ts';
import { alternativeWaitEnd } from './alternatives.ts';
import { chain, withoutEvents, wait, withAllocation, withAttempt, withEvents } from '../model/decision.ts';
import type { Action, Change, Decision } from '../model/decision.ts';
import { lastAllocation, usableAllocation, workdirCopyOf, type Attempt, type Job, type Slot } from '../model/job.ts';
import { hasSucceeded } from '../model/observation.ts';
import { unreachableGraceOf } from './recover.ts';
import type { RuleAnswer, WorkerId } from '../model/spec.ts';
import { clamp, earliest, inFuture, second, type Instant } from '../model/time.ts';
import { firstCheckDelay, lastOutputAt, nextTryAt, unprovenWorkers, type AttemptView, type View } from './view.ts';

// ------------------------------------------------------------------------------------------ begin

/** Turns the start request into the next attempt, on the slots that the job was admitted with. */
export function beginAttempt(job: Job, slots: readonly Slot[] | undefined, now: Instant): Change {
  const startMode = job.startRequest?.startMode ?? (job.attempts.length === 0 ? 'fresh' : 'resume');
  const lastStarted = job.attempts.findLast((attempt) => attempt.startedAt !== null);
  const stage = startMode === 'resume' && lastStarted !== undefined ? lastStarted.stage + 1 : 0;
  const commandOnly = job.startRequest?.commandOnly === true && { commandOnly: true as const };
  const next = { startMode, stage, notBeforeAt: now, startedByOwner: true, on: 'same', ...commandOnly } as const;
  return chain(
    releaseExisting(job, now),
    (after) => addAttempt(after, next, now),
    (after) => withoutEvents(withSlots(after, slots)),
  );
}

type NextAttempt = Pick<Attempt, 'startMode' | 'stage' | 'notBeforeAt' | 'startedByOwner' | 'commandOnly'> & {
  readonly on: RuleAnswer['on'];
  /** The alternative that a new allocation tries first. Absent: the spec's own. */
  readonly alternative?: number;
};

/** Adds the next attempt, on the newest allocation if it is usable and otherwise on a new one. */
export function addAttempt(job: Job, next: NextAttempt, now: Instant): Change {
  const { on, startMode, stage, notBeforeAt, startedByOwner, alternative } = next;
  const same = on === 'same' ? usableAllocation(job) : undefined;
  // The setup steps are skipped only on an allocation that may be set up already.
  const commandOnly = next.commandOnly === true && same !== undefined && same.readyAt !== null;
  const workdirCopy = workdirCopyOf(job);
  const allocated =
    same === undefined
      ? chain(releasePrevious(job, on, now), (after) => addAllocation(after, now, alternative))
      : withoutEvents(job);
  return chain(allocated, (after) => {
    const ordinal = after.attempts.length + 1;
    const plan = {
      stage,
      startMode,
      startedByOwner,
      ...(commandOnly && { commandOnly: true as const }),
      ...(workdirCopy !== undefined && { workdirCopy }),
      allocation: after.allocations.length,
      notBeforeAt,
    };
    const empty = { failures: [], startedAt: null, runningAt: null, ending: null, endedAt: null };
    const attempt: Attempt = { ordinal, ...plan, createdAt: now, ...empty };
    const created = { ...after, attempts: [...after.attempts, attempt], startRequest: null };
    return withEvents(created, now, { kind: 'attempt_created', attempt: ordinal, ...plan });
  });
}

/** Only a rule with `new` releases a persistent allocation, which is then requested again under the same name. */
function releasePrevious(job: Job, on: RuleAnswer['on'], now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined) return withoutEvents(job);
  const mayRelease =
    allocation.ownership === 'ephemeral' || (on === 'new' && capacityTraits(job.spec.capacity).replaceable);
  return mayRelease
    ? release(job, allocation.ordinal, { message: 'a new allocation replaces it' }, now)
    : withoutEvents(job);
}

// ------------------------------------------------------------------------------------------ wait for capacity

/** Requests the allocation as soon as the last error allows. */
export function request(view: AttemptView, notBefore: Instant): Decision {
  const { job, now, attempt } = view;
  if (notBefore > now) return waitForCapacity(view, notBefore);
  const { allocation } = attempt;
  return {
    ...chain(recordRequested(job, allocation, now), (next) =>
      withoutEvents(withAllocation(next, allocation, { isRequestInFlight: true })),
    ),
    actions: [{ kind: 'request', allocation }],
    wakeAt: earliest(now + 10 * second, waitLimit(view)),
  };
}

/** Waits until that time, but no longer than the job's limits allow. */
export function waitForCapacity(view: AttemptView, until: Instant | undefined): Decision {
  return wait(view.job, earliest(until, waitLimit(view)));
}

function waitLimit({ job, now, attempt, allocation }: AttemptView): Instant | undefined {
  if (allocation.readyAt !== null) return undefined;
  // If the wait in this alternative is over, no other alternative was left, and the wait continues without this limit.
  const alternativeEnd = alternativeWaitEnd(job, allocation);
  const isAhead = alternativeEnd !== undefined && alternativeEnd > now;
  const at = earliest(capacityWaitEnd(job, attempt), isAhead ? alternativeEnd : undefined);
  return at === undefined ? undefined : inFuture(at, now);
}

/** Capacity that is held during the backoff is checked meanwhile, because the cloud may take it. */
export function waitForBackoff(view: AttemptView): Decision {
  const { job, now, attempt, allocation } = view;
  const isHeld = allocation.readyAt !== null;
  const heldCheckAt = isHeld ? now + capacityTraits(job.spec.capacity).checkInterval : undefined;
  return waitForCapacity(view, earliest(attempt.notBeforeAt, heldCheckAt));
}

/** Waits for the second observation that misses the allocation. */
export function confirmAbsence(view: AttemptView): Decision {
  const { firstMissedAt } = view.allocation;
  const { now } = view;
  return waitForCapacity(
    view,
    firstMissedAt === null ? now + firstCheckDelay(view.job) : inFuture(firstMissedAt + confirmationDelay, now),
  );
}

/** A new request may be ready in seconds, so it is observed more often than an older one. */
export function waitForReady(view: AttemptView): Decision {
  const { job, now, observedState, attempt } = view;
  const waited = now - attempt.createdAt;
  const isCreating = observedState === 'provisioning';
  if (attempt.startedAt !== null && !isCreating) return waitForCapacity(view, now + 10 * second);
  return waitForCapacity(
    view,
    now + clamp(Math.min(2 * second, firstCheckDelay(job)), waited / 5, (isCreating ? 5 : 30) * second),
  );
}

// ------------------------------------------------------------------------------------------ set up and start

/** Runs the next step of each worker, on all workers in parallel. */
export function setUp(view: AttemptView): Decision {
  const { job, now, attempt } = view;
  const { allocation, ordinal } = attempt;
  const tries = unprovenWorkers(view).map(({ worker, step: { name } }) => ({
    dueAt: nextTryAt(job, attempt, { kind: 'step', worker, step: name }),
    action: { kind: 'step', allocation, worker, step: name, attempt: ordinal } as const,
  }));
  return {
    ...withoutEvents(job),
    actions: tries.filter(({ dueAt }) => dueAt <= now).map(({ action }) => action),
    wakeAt: earliest(nextCheckAt(view), ...tries.map(({ dueAt }) => (dueAt > now ? dueAt : undefined))),
  };
}

/** Starts the command on these workers. */
export function start(view: AttemptView, workers: readonly WorkerId[]): Decision {
  const { job, now, attempt } = view;
  const { ordinal, allocation } = attempt;
  const event = { kind: 'attempt_started', attempt: ordinal, workers } as const;
  const home = view.workers.find(({ status }) => status?.home !== undefined)?.status?.home;
  const started =
    attempt.startedAt === null
      ? withEvents(withAttempt(job, ordinal, { startedAt: now, ...(home !== undefined && { home }) }), now, event)
      : withoutEvents(job);
  const due = workers.filter((worker) => nextTryAt(job, attempt, { kind: 'start', worker }) <= now);
  const actions = due.map((worker): Action => {
    return { kind: 'start', attempt: ordinal, allocation, worker, ...provenBoot(view, worker) };
  });
  return { ...started, actions, wakeAt: now + 5 * second };
}

/** The setup may not survive a restart of the worker, which may happen between this observation and the start. */
function provenBoot({ job, workers, attempt }: AttemptView, worker: WorkerId): { readonly bootId?: string } {
  const bootId = workers.find((one) => one.worker === worker)?.status?.bootId;
  const needsSteps = worker !== 'controller' && job.spec.steps.length > 0 && attempt.commandOnly !== true;
  return needsSteps && bootId !== undefined ? { bootId } : {};
}

/** Every 10 s during setup. While the cloud or a worker is silent, after 5 s at first and after 30 s at most. */
export function nextCheckAt({ job, now, allocation, attempt }: AttemptView): Instant {
  const { unreachableAt: since, unreachableWho } = allocation;
  if (since === null) return now + 10 * second;
  const next = now + clamp(firstCheckDelay(job), (now - since) / 2, 30 * second);
  return unreachableWho === 'worker' ? Math.min(next, inFuture(since + unreachableGraceOf(job, attempt), now)) : next;
}

// ------------------------------------------------------------------------------------------ watch

/** Records that the command runs, and a failed exit that is not judged yet. */
export function watchRun(view: AttemptView): Decision {
  const { job, now, runs, attempt } = view;
  const { ordinal, runningAt } = attempt;
  const isRunning = runs.length > 0 && runs.every(({ run }) => run.state === 'running' || run.state === 'exited');
  const running =
    runningAt === null && isRunning
      ? withEvents(withAttempt(job, ordinal, { runningAt: now }), now, { kind: 'attempt_running', attempt: ordinal })
      : withoutEvents(job);
  return {
    ...chain(running, (next) => recordExit(next, attempt, runs, now)),
    actions: [],
    wakeAt: nextRunCheckAt(view, runningAt ?? now),
  };
}

/** `findFailedRun` does not judge this exit yet. The event shows users that jobman has seen it. */
function recordExit(job: Job, attempt: Attempt, runs: View['runs'], now: Instant): Change {
  const { ordinal, exitSeen } = attempt;
  const failed = runs.find(({ run }) => run.state === 'exited' && !hasSucceeded(run));
  if (exitSeen !== undefined || failed?.run.state !== 'exited') return withoutEvents(job);
  const { exitCode, signal } = failed.run;
  const seen = { worker: failed.worker, exitCode, ...(signal === undefined ? {} : { signal }) };
  const { pattern } = failed.matched;
  const noted = withAttempt(job, ordinal, {
    exitSeen: { at: now, ...seen, ...(pattern !== undefined && { pattern }) },
  });
  return withEvents(noted, now, { kind: 'exit_seen', attempt: ordinal, ...seen });
}

function nextRunCheckAt(view: AttemptView, runningAt: Instant): Instant | undefined {
  const { job, now, runs, allocation } = view;
  const { maxRuntimeMs, silenceTimeoutMs, failedCallTimeoutMs } = job.spec.limits;
  const last = lastOutputAt(runs);
  // A healthy run needs few checks, because the end of its output or of its connection wakes the controller.
  const isHealthy = runs.every(({ run }) => run.state === 'running' || hasSucceeded(run));
  return earliest(
    now + (isHealthy ? capacityTraits(job.spec.capacity).checkInterval : 5 * second),
    allocation.unreachableAt === null ? undefined : nextCheckAt(view),
    maxRuntimeMs === null ? undefined : inFuture(runningAt + maxRuntimeMs, now),
    silenceTimeoutMs === null || last === undefined ? undefined : inFuture(last + silenceTimeoutMs, now),
    // After the timeout without a failed call the normal interval is enough: a program may be silent for hours.
    failedCallTimeoutMs === undefined || last === undefined || last + failedCallTimeoutMs <= now
      ? undefined
      : last + failedCallTimeoutMs,
  );
}
