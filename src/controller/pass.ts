// Pass: load -> observe -> reconcile -> commit -> perform, for one job.

import { isDeepStrictEqual } from 'node:util';
import { textOf, namesFileShortage } from '../app/errors.ts';
import { cloudAnswer, eventSentence } from '../app/history.ts';
import type { Backend } from '../app/ports.ts';
import type { Decision } from '../core/decision.ts';
import type { Job } from '../core/job.ts';
import { reconcile } from '../core/reconcile.ts';
import { earliest, minute, second, type Instant } from '../core/time.ts';
import type { ControllerOptions } from './controller.ts';
import type { Lease } from './lease.ts';
import type { LogFollowers, LogMirror } from './log-mirror.ts';
import { observe, withOutputs, createSilences, type Look, type Outside } from './observe.ts';
import type { Performer } from './performer.ts';
import { hasJumped, type Admission, type Schedule } from './schedule.ts';
import { backoff } from './timers.ts';

interface PassParts extends Pick<
  ControllerOptions,
  'store' | 'backendOf' | 'clock' | 'log' | 'logFiles' | 'cannotOpenFiles'
> {
  readonly lookFor: (backend: Backend) => Look;
  readonly mirror: LogMirror;
  readonly lease: Lease;
  readonly schedule: Schedule;
  readonly performer: Performer;
  readonly admission: Admission;
  readonly followers: LogFollowers;
  /** False once nothing more may be decided. */
  readonly isRunning: () => boolean;
  /** False once nothing more may be done. */
  readonly mayAct: () => boolean;
  readonly setDue: (id: string, at: Instant) => void;
  readonly again: (id: string) => void;
  readonly leaseLost: () => void;
  /** An allocation has been seen gone. */
  readonly gone: () => void;
}

/** The pass over the job of an id. Never rejects: one that fails is made again. */
export function createPass(parts: PassParts): (id: string) => Promise<void> {
  const { store, clock, log, lease, schedule, performer, admission, followers, isRunning, again } = parts;
  const silences = createSilences();
  const failures = new Map<string, number>();
  const atOnce = new Map<string, number>();
  const observedAgain = new Set<string>();
  const lacksFiles = createShortage(parts);

  async function pass(id: string): Promise<void> {
    if (!isRunning() || lease.epoch === null) return;
    schedule.remove(id);
    if (!parts.mayAct() && !(await lease.renew())) return parts.leaseLost();
    const stored = await store.load(id);
    if (stored === undefined) return;
    const asOf = performer.turn;
    const began = clock.now();
    // Before the outcomes are read: what comes back in between is among them.
    const unasked = unaskedOf(stored.job, performer);
    const outcomes = await store.outcomes(id);
    const backend = parts.backendOf(stored.job.spec);
    const look = parts.lookFor(backend);
    const placeAnswers: Outside['placeAnswers'] = (project) => store.placeAnswers(project);
    const outside = { backend, look, clock, silences, lacksFiles, placeAnswers, unasked };
    const seen = await observe(stored.job, outcomes, admission.ask(stored.job), outside);
    const observation = await withOutputs(stored.job, seen, { ...parts, backend });
    if (!isRunning()) return;
    const now = clock.now();
    if (hasJumped(began, now) && !observedAgain.has(id)) {
      // The observation has times by the clock before the jump. Once only: an observation may also take that long.
      observedAgain.add(id);
      again(id);
      return;
    }
    observedAgain.delete(id);
    const decision = reconcile(stored.job, observation, now);
    const wakeAt = wakeAtOf(decision);
    const isWritten = isWorthCommitting(stored.job, decision, outcomes.length > 0, wakeAt);
    if (isWritten) {
      const result = await store.commit({
        job: decision.job,
        revision: stored.revision,
        events: decision.events,
        folded: outcomes.map((outcome) => outcome.id),
        wakeAt: wakeAt ?? null,
        epoch: lease.epoch,
      });
      if (result === 'lease_lost') return parts.leaseLost();
      // A command of a client came in between: decide again, with it.
      if (result === 'stale') return again(id);
    }
    if (!isRunning()) return;
    if (isWritten && wakeAt !== undefined) schedule.wrote(id, wakeAt);
    admission.note(decision.job);
    if (decision.events.some(({ kind }) => kind === 'allocation_gone')) parts.gone();
    performer.perform(decision.job, decision.actions, asOf);
    followers.follow(decision.job, backend, observation.workers);
    if (wakeAt === undefined) restJob(decision.job);
    else parts.setDue(id, notAtOnceForEver(id, wakeAt));
    await tell(decision, parts);
  }

  /** A rule that always asks for a pass at once is our mistake: then one a second, to spare the machine. */
  function notAtOnceForEver(id: string, wakeAt: Instant): Instant {
    const now = clock.now();
    const inARow = wakeAt > now ? 0 : (atOnce.get(id) ?? 0) + 1;
    if (inARow === 0) atOnce.delete(id);
    else atOnce.set(id, inARow);
    return inARow > 20 ? now + second : wakeAt;
  }

  /** An action always is: only a commit proves lease and revision. */
  function isWorthCommitting(
    before: Job,
    decision: Decision,
    hasOutcomes: boolean,
    wakeAt: Instant | undefined,
  ): boolean {
    if (hasOutcomes || decision.events.length > 0 || decision.actions.length > 0 || wakeAt === undefined) return true;
    if (schedule.isToBeWritten(before.id, wakeAt, clock.now())) return true;
    return decision.job !== before && !isDeepStrictEqual(decision.job, before);
  }

  /** As the decision says; sooner while a log of the job is not copied to its end. */
  function wakeAtOf({ job, wakeAt }: Decision): Instant | undefined {
    return followers.isUnfinished(job) ? earliest(wakeAt, clock.now() + 30 * second) : wakeAt;
  }

  /** From now on only a command of its owner can change the job. */
  function restJob(job: Job): void {
    atOnce.delete(job.id);
    schedule.forgetWritten(job.id);
    observedAgain.delete(job.id);
    silences.forget(job.id);
    followers.rest(job);
  }

  return async (id) => {
    try {
      await pass(id);
      failures.delete(id);
    } catch (error) {
      if (!isRunning()) return;
      const count = failures.get(id) ?? 0;
      failures.set(id, count + 1);
      // Perhaps its workers were not asked, and a worker that was not asked has not been silent meanwhile.
      silences.forget(id);
      if (count === 0) log.warn(`job ${id}: the pass failed and is made again: ${textOf(error)}`);
      parts.setDue(id, clock.now() + backoff(count, second, 30 * second));
    }
  };
}

/** Warns once a minute: until descriptors are free again, nothing is known of workers. */
function createShortage({ clock, log, cannotOpenFiles }: PassParts): Outside['lacksFiles'] {
  let saidAt: Instant = -Infinity;
  return (reason) => {
    if (!namesFileShortage(reason) && cannotOpenFiles?.() !== true) return false;
    const now = clock.now();
    if (now < saidAt || now - saidAt >= minute) {
      saidAt = now;
      log.warn(`this process has no file descriptor left (EMFILE), so workers could not be asked: ${reason}`);
    }
    return true;
  };
}

/** The allocations that the record calls asked for just now, and that this controller is not asking for. */
function unaskedOf({ id, allocations }: Job, performer: Performer): readonly number[] {
  return allocations
    .filter(
      ({ ordinal, isAsking }) => isAsking === true && !performer.isAt(id, { kind: 'request', allocation: ordinal }),
    )
    .map(({ ordinal }) => ordinal);
}

/** The copies for people, after the actions: a slow disk does not hold up a recovery. */
async function tell({ job, events }: Decision, { logFiles, log }: PassParts): Promise<void> {
  if (events.length === 0) return;
  try {
    for (const event of events) {
      await logFiles.note(job, 'job', event.at, eventSentence(event, job));
      const answer = job.spec.capacity.kind === 'tpu' ? cloudAnswer(event, job) : null;
      if (answer !== null) await logFiles.note(job, 'tpu', event.at, answer);
    }
    await logFiles.mirror(job, events);
  } catch (error) {
    log.warn(`job ${job.id}: its files could not be written: ${textOf(error)}`);
  }
}
