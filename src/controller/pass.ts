// Pass: load -> observe -> reconcile -> commit -> perform, for one job.

import { isDeepStrictEqual } from 'node:util';
import { messageOf, mentionsDescriptorShortage } from '../app/errors.ts';
import { describeCloudAnswer, describeEvent } from '../app/history.ts';
import { phrasesOf } from '../app/phrases.ts';
import type { Meter } from '../app/meter.ts';
import type { Backend, PassRecord, StoredJob } from '../app/ports.ts';
import { subjectKey, type Decision } from '../core/model/decision.ts';
import { recoveredFrom } from '../core/decide/phase.ts';
import { allocationOf, attemptOf, type Job } from '../core/model/job.ts';
import type { Observation } from '../core/model/observation.ts';
import type { JobSpec } from '../core/model/spec.ts';
import { recordPass } from '../core/model/recorded-pass.ts';
import { reconcile } from '../core/decide/reconcile.ts';
import { day, earliest, minute, second, type Duration, type Instant } from '../core/model/time.ts';
import type { CapacityWatch } from './capacity-watch.ts';
import type { ControllerOptions } from './controller.ts';
import type { Lease } from './lease.ts';
import type { LogFollowers, LogMirror } from './log-mirror.ts';
import { observe, withLogPatterns, createSilences, type Observer, type ObservationContext } from './observe.ts';
import type { Performer } from './performer.ts';
import { hasJumped, mustStoreWake, type Admission, type Schedule } from './schedule.ts';
import { backoff } from './timers.ts';

interface PassParts extends Pick<
  ControllerOptions,
  'store' | 'backendOf' | 'clock' | 'log' | 'logFiles' | 'isOutOfDescriptors' | 'meter' | 'version' | 'keptPasses'
> {
  readonly observerFor: (backend: Backend) => Observer;
  readonly observeOwnerSpending: ObservationContext['observeOwnerSpending'];
  readonly mirror: LogMirror;
  readonly lease: Lease;
  readonly schedule: Schedule;
  readonly capacityWatch: CapacityWatch;
  readonly performer: Performer;
  readonly admission: Admission;
  readonly followers: LogFollowers;
  readonly isRunning: () => boolean;
  readonly mayAct: () => boolean;
  readonly setDue: (id: string, at: Instant) => void;
  readonly requeue: (id: string) => void;
  readonly onLeaseLost: () => void;
  readonly onEvents: () => void;
  readonly onAllocationGone: () => void;
}

/** A failed pass is retried, so it never rejects. */
export function createPass(parts: PassParts): (id: string) => Promise<void> {
  const { store, clock, log, meter, lease, schedule, performer, admission, followers, isRunning, requeue } = parts;
  const observer = createJobObserver(parts);
  const immediate = createImmediateLimit();
  const failures = new Map<string, number>();
  const observedAgain = new Set<string>();
  const specs = new Map<string, JobSpec>();

  /** A spec never changes, so everything that is kept of a job shares one. */
  async function load(id: string): Promise<StoredJob | undefined> {
    const stored = await store.load(id);
    if (stored === undefined) return undefined;
    const spec = specs.get(id) ?? stored.job.spec;
    specs.set(id, spec);
    return { ...stored, job: { ...stored.job, spec } };
  }

  async function pass(id: string): Promise<void> {
    if (!isRunning() || lease.epoch === null) return;
    schedule.remove(id);
    const startedAt = clock.now();
    if (!parts.mayAct() && !(await lease.renew())) return parts.onLeaseLost();
    const stored = await load(id);
    if (stored === undefined) return;
    const completionsBefore = performer.completions;
    const began = clock.now();
    const { outcomes, observation, backend } = await observer.observe(stored.job);
    if (!isRunning()) return;
    const now = clock.now();
    if (meter) meterObservation(meter, stored.job, observation, now - began);
    if (hasJumped(began, now) && !observedAgain.has(id)) {
      // The observation has times from before the jump. Repeat it once only, because it may really take that long.
      observedAgain.add(id);
      requeue(id);
      return;
    }
    observedAgain.delete(id);
    const decision = reconcile(stored.job, observation, now);
    const wakeAt = wakeAtOf(decision);
    const isWritten =
      isWorthCommitting(stored.job, decision, outcomes.length > 0) || mustStoreWake(stored.wakeAt, wakeAt, now);
    if (isWritten) {
      const commitBegan = clock.now();
      const result = await store.commit({
        job: decision.job,
        revision: stored.revision,
        events: decision.events,
        foldedOutcomes: outcomes.map((outcome) => outcome.id),
        wakeAt: wakeAt ?? null,
        epoch: lease.epoch,
        record: recordOf(observation, decision, now, parts),
      });
      meter?.time('jobman_commit_seconds', clock.now() - commitBegan, {});
      if (result === 'lease_lost') return parts.onLeaseLost();
      // A client's command came in between: decide again, with it.
      if (result === 'stale') return requeue(id);
      // This controller has not heard of the job that uses the TPU yet.
      if (result === 'tpu_in_use') return parts.setDue(id, clock.now() + second);
    }
    meter?.count('jobman_passes_total', { result: isWritten ? 'committed' : 'unchanged' });
    meter?.time('jobman_pass_seconds', clock.now() - startedAt, {});
    if (meter) meterEvents(meter, decision);
    if (!isRunning()) return;
    if (decision.events.length > 0) parts.onEvents();
    admission.update(decision.job);
    const gone = decision.events.filter((event) => event.kind === 'allocation_gone');
    // Again, because workers may have been observed, and connected to, while they were being deleted.
    for (const { allocation } of gone)
      backend.machines.disconnect({ job: decision.job, allocation: allocationOf(decision.job, allocation) });
    if (gone.length > 0) parts.onAllocationGone();
    performer.perform(decision.job, decision.actions, completionsBefore);
    followers.follow(decision.job, backend, observation.workers);
    parts.capacityWatch.update(decision.job, wakeAt, clock.now());
    // The end of a backoff may have passed since the observation began, and nothing else wakes a job for it.
    if (wakeAt === undefined && !observation.admitted && admission.admit(decision.job).admitted) requeue(id);
    if (wakeAt === undefined) forgetJob(decision.job);
    else parts.setDue(id, immediate.limit(id, wakeAt, clock.now()));
    await writeJobFiles(decision, parts);
  }

  /** Earlier than the decision's time while a log of the job is incomplete. */
  function wakeAtOf({ job, wakeAt }: Decision): Instant | undefined {
    return followers.isUnfinished(job) ? earliest(wakeAt, clock.now() + 30 * second) : wakeAt;
  }

  function forgetJob(job: Job): void {
    immediate.forget(job.id);
    observedAgain.delete(job.id);
    specs.delete(job.id);
    observer.forget(job.id);
    followers.forget(job);
  }

  return async (id) => {
    try {
      await pass(id);
      failures.delete(id);
    } catch (error) {
      if (!isRunning()) return;
      meter?.count('jobman_passes_total', { result: 'failed' });
      const count = failures.get(id) ?? 0;
      failures.set(id, count + 1);
      // The pass may not have asked the workers, so no silence may continue.
      observer.forget(id);
      if (count === 0) log.warn(`job ${id}: the pass failed and is retried: ${messageOf(error)}`);
      parts.setDue(id, clock.now() + backoff(count, second, 30 * second));
    }
  };
}

/** The outcomes of a job's actions, and then the observation of everything else. */
function createJobObserver(parts: PassParts) {
  const { store, clock, performer, admission, observeOwnerSpending } = parts;
  const silences = createSilences();
  const isDescriptorShortage = createShortageCheck(parts);
  return {
    async observe(job: Job) {
      // Before the outcomes are read, so that a request that returns in between is among the outcomes.
      const idleRequests = idleRequestsOf(job, performer);
      const active = performer.activeOf(job.id);
      const stored = await store.outcomes(job.id);
      // An outcome that is written again after this pass would count twice.
      const outcomes = stored.filter(({ outcome }) => !active.has(subjectKey(outcome.subject)));
      const backend = parts.backendOf(job.spec);
      const observed = await observe(job, outcomes, admission.admit(job), {
        backend,
        observeAllocations: parts.observerFor(backend),
        clock,
        silences,
        isDescriptorShortage,
        capacityAnswers: (project) => store.capacityAnswers(project),
        observeOwnerSpending,
        idleRequests,
      });
      return { outcomes, backend, observation: await withLogPatterns(job, observed, { ...parts, backend }) };
    },
    forget: silences.forget,
  };
}

/** A rule that always requests an immediate pass is a bug: limits it to one pass per second. */
function createImmediateLimit() {
  const inARow = new Map<string, number>();
  return {
    limit(id: string, wakeAt: Instant, now: Instant): Instant {
      const count = wakeAt > now ? 0 : (inARow.get(id) ?? 0) + 1;
      if (count === 0) inARow.delete(id);
      else inARow.set(id, count);
      return count > 20 ? now + second : wakeAt;
    },
    forget: (id: string) => void inARow.delete(id),
  };
}

/** A decision with an action is always committed: only a commit proves lease and revision. */
function isWorthCommitting(before: Job, { job, events, actions }: Decision, hasOutcomes: boolean): boolean {
  if (hasOutcomes || events.length > 0 || actions.length > 0) return true;
  return job !== before && !isDeepStrictEqual(job, before);
}

function meterObservation(meter: Meter, { spec }: Job, observation: Observation, duration: Duration): void {
  const backend = spec.capacity.kind;
  meter.time('jobman_observation_seconds', duration, { backend });
  for (const part of ['allocations', 'workers'] as const)
    if (observation[part].some(({ observed }) => observed.kind === 'unknown'))
      meter.count('jobman_unknown_observations_total', { backend, of: part });
}

function meterEvents(meter: Meter, { job, events }: Decision): void {
  for (const event of events) {
    if (event.kind === 'finished') meter.count('jobman_jobs_finished_total', { verdict: event.verdict });
    if (event.kind !== 'attempt_running') continue;
    const ended = recoveredFrom(job, attemptOf(job, event.attempt));
    if (ended !== undefined)
      meter.time('jobman_recovery_seconds', event.at - ended.startedAt, { reason: ended.reason });
  }
}

function recordOf(
  observation: Observation,
  decision: Decision,
  now: Instant,
  { version, keptPasses: { days, count } }: PassParts,
): PassRecord | null {
  if (count === 0) return null;
  return { pass: recordPass(observation, decision, { now, version }), maxCount: count, since: now - days * day };
}

/** Warns at most once a minute. */
function createShortageCheck(parts: PassParts): ObservationContext['isDescriptorShortage'] {
  const { clock, log, isOutOfDescriptors } = parts;
  let warnedAt: Instant = -Infinity;
  return (reason) => {
    if (!mentionsDescriptorShortage(reason) && isOutOfDescriptors?.() !== true) return false;
    const now = clock.now();
    if (now < warnedAt || now - warnedAt >= minute) {
      warnedAt = now;
      log.warn(`no file descriptor left (EMFILE), so workers could not be checked: ${reason}`);
    }
    return true;
  };
}

function idleRequestsOf({ id, allocations }: Job, performer: Performer): readonly number[] {
  const isPending = (ordinal: number): boolean => performer.isPending(id, { kind: 'request', allocation: ordinal });
  const requested = allocations.filter(({ isRequestInFlight }) => isRequestInFlight === true);
  return requested.map(({ ordinal }) => ordinal).filter((ordinal) => !isPending(ordinal));
}

/** After the actions, because a slow disk must not delay a recovery. */
async function writeJobFiles({ job, events }: Decision, { logFiles, log }: PassParts): Promise<void> {
  if (events.length === 0) return;
  try {
    for (const event of events) {
      await logFiles.note(job, 'job', event.at, describeEvent(event, job));
      const answer = phrasesOf(job).hasCloud ? describeCloudAnswer(event, job) : null;
      if (answer !== null) await logFiles.note(job, 'tpu', event.at, answer);
    }
    await logFiles.mirror(job, events);
  } catch (error) {
    log.warn(`job ${job.id}: cannot write its files: ${messageOf(error)}`);
  }
}
