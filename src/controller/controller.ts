// Controller: the loop. A pass is load -> observe -> reconcile -> commit -> perform, for each job that is due.
//
// It is level-triggered: whatever woke it, a pass looks at everything anew. It remembers nothing that matters: when to
// look next (also in the store), which actions are under way (idempotent), which logs are being copied (their length
// tells). Killing it at any instant loses nothing and duplicates nothing.
//
// Three walls stand between a decision and the outside. The commit carries the revision that was loaded, so a wish that
// came in between drops the pass. It carries the lease's epoch, so a controller that was replaced cannot commit. And each
// action asks `mayAct` right before it begins, since between commit and act a process may be suspended for an hour.

import { namesFileShortage } from '../app/file-trouble.ts';
import { cloudAnswer, eventSentence } from '../app/history.ts';
import type { Backend, Clock, LogFiles, Pause, Store } from '../app/ports.ts';
import type { Decision } from '../core/decision.ts';
import { commandWorkers, isUnread, openAttempt } from '../core/job.ts';
import type { Attempt, Job } from '../core/job.ts';
import type { WorkerFact } from '../core/observation.ts';
import { reconcile } from '../core/reconcile.ts';
import type { JobSpec } from '../core/spec.ts';
import { earliest, minute, second } from '../core/time.ts';
import type { Duration, Instant } from '../core/time.ts';
import { isDeepStrictEqual } from 'node:util';
import { createAdmission } from './admission.ts';
import { backoff, bounded, pause } from './bounded.ts';
import { createLogMirror, isSameOutput } from './log-mirror.ts';
import type { Output } from './log-mirror.ts';
import { createLook, textOf } from './looks.ts';
import type { Look } from './looks.ts';
import { observe } from './observe.ts';
import { createPerformer } from './performer.ts';
import { createSilences } from './silences.ts';
import { createSweeper } from './sweeper.ts';
import { createWorkqueue } from './workqueue.ts';

/** How long the lease holds without being renewed, and how often it is: two renewals may fail. */
export const leaseTtl: Duration = 30 * second;
export const leasePace: Duration = 10 * second;
/** How long after its end a log that could not be copied is tried again; twice that where the clock was set back. */
const logPatience = 5 * minute;
/** Between two rounds no more than a renewal's pace passes: a step longer than this is a clock that leapt, or a machine that slept. */
const leapLeast = minute;

/** Why the controller left. `lease_lost`: another one has taken over; nothing more may be done here. */
export type LeftBecause = 'idle' | 'stopped' | 'lease_lost';

export interface ControllerLog {
  info(line: string): void;
  warn(line: string): void;
}

/** What goes on beside the jobs, in the same process. */
export interface Beside {
  /** Something may have begun. Called with each renewal of the lease too; must be cheap, and safe to repeat. */
  look(): void;
  /** The controller should stay. */
  readonly isBusy: boolean;
  /** Nothing is touched any more once this has resolved, which is within seconds. */
  stop(): Promise<void>;
}

export interface ControllerOptions {
  readonly store: Store;
  /** The ports that serve a job. */
  readonly backendOf: (spec: JobSpec) => Backend;
  readonly clock: Clock;
  readonly logFiles: LogFiles;
  readonly log: ControllerLog;
  /** Tells this run of a controller from every other one; new for each run. */
  readonly holder: string;
  readonly version: string;
  /** True when the caller holds this machine's controller lock: an earlier holder of the lease is then certainly dead. */
  readonly certain: boolean;
  /** How many jobs of this machine's own capacity run at once. */
  readonly slots: number;
  /** Leaves when nothing has been left to watch for this long; null: never. */
  readonly idleExitMs: Duration | null;
  /** Made once the lease is held. */
  readonly beside?: () => Beside;
  /** True while this process can open no file. An error of another form, such as that of a name server, may then come of it. */
  readonly cannotOpenFiles?: () => boolean;
  /** Called with each renewal of the lease: whoever has to look around now and then does it in the same breath. */
  readonly onRenewal?: () => void;
}

export interface Controller {
  /** Takes the lease, waiting for it as long as another holds it, and begins. Returns at once. */
  start(): void;
  /** That job deserves a look now; without an id: every job that is due or watched. Carries no information. */
  wake(id?: string): void;
  /** What goes on beside the jobs deserves a look now. */
  lookBeside(): void;
  /** Finishes the passes and actions that are under way, within bounded time, gives the lease back and leaves. */
  stop(): Promise<void>;
  /** Resolves when it has left, for whatever reason. Never rejects. */
  readonly left: Promise<LeftBecause>;
  /** True while nothing is left to watch; the caller may ask it to leave. */
  readonly isIdle: boolean;
}

/** Whether the clock was set between these two moments, or the machine slept: no look takes so long, and none ends before it begins. */
function hasLeapt(began: Instant, now: Instant): boolean {
  return now < began || now - began > leapLeast;
}

/** Waits longer than twice this end on its multiples: a zone is listed at most so often, however many jobs run there. */
const beat: Duration = 5 * second;

/** A job that is observed within this time is observed soon: a lost wake-up of it delays nothing for long. */
const soon: Duration = 5 * minute;

/** When to look at a job that is to be looked at by that moment; always ahead of now where that moment is. */
function onBeat(at: Instant, now: Instant): Instant {
  const wait = at - now;
  if (wait > 2 * beat) return Math.floor(at / beat) * beat;
  const grain = wait > 2 * second ? second : wait > second ? 100 : 1;
  return Math.ceil(at / grain) * grain;
}

/** See the head of this file. Nothing happens before `start`. */
export function createController(options: ControllerOptions): Controller {
  const { store, clock, log, logFiles } = options;
  const left = Promise.withResolvers<LeftBecause>();
  let state: 'new' | 'running' | 'leaving' | 'left' = 'new';

  // ------------------------------------------------------------------------------------------ the lease

  let epoch: number | null = null;
  /** Until when the lease is ours if nobody renews it, by our own clock, counted from before it was asked for. */
  let leaseUntil: Instant = 0;
  let renewal: Promise<boolean> | null = null;
  /** When no controller could try anything, by the record. */
  let paused: Pause | undefined;

  const mayAct = (): boolean => (state === 'running' || state === 'leaving') && clock.now() < leaseUntil;

  /** Takes or renews the lease. False when another holds it. Throws StoreError. */
  function renew(): Promise<boolean> {
    renewal ??= renewOnce().finally(() => {
      renewal = null;
    });
    return renewal;
  }

  async function renewOnce(): Promise<boolean> {
    const now = clock.now();
    const certain = options.certain && epoch === null;
    const { taken, lease } = await store.takeLease(options.holder, options.version, now, leaseTtl, certain);
    if (!taken) return false;
    if (epoch !== null && lease.epoch !== epoch) {
      // It was lost and is free again: what we know may be older than what another one did meanwhile.
      return false;
    }
    epoch = lease.epoch;
    leaseUntil = now + leaseTtl;
    paused = lease.pause;
    return true;
  }

  async function acquire(): Promise<void> {
    for (let failures = 0; state === 'running' && epoch === null;) {
      try {
        if (await renew()) break;
        failures = 0;
        const lease = await store.lease();
        log.info(`another controller (${lease?.holder ?? 'unknown'}) holds the lease; waiting for it`);
        await pause(clock, 2 * second);
      } catch (error) {
        log.warn(`the record of jobs cannot be used: ${textOf(error)}`);
        await pause(clock, backoff(failures, second, 30 * second));
        failures += 1;
      }
    }
  }

  // ------------------------------------------------------------------------------------------ when to look

  /** When each watched job is to be looked at next. A job that only a wish can change is not in it. */
  const schedule = new Map<string, Instant>();
  const failures = new Map<string, number>();
  const atOnce = new Map<string, number>();
  /** The time of its next pass, as this controller has last written it of each watched job. */
  const storedTimes = new Map<string, Instant>();
  /** When the log last said that file descriptors are missing. */
  let shortageSaidAt: Instant = -Infinity;
  /** Jobs that are looked at anew because the clock leapt under the last look. */
  const lookedAgain = new Set<string>();
  let renewAt: Instant = 0;
  let renewFailures = 0;
  let lastNow: Instant = clock.now();
  /** When the clock last leapt forward. Patience that ran out in the leap had nobody trying meanwhile. */
  let leaptAt: Instant = -Infinity;
  /** The clock went back and the jobs in the store have not all been looked at since. */
  let isSetBack = false;
  let idleSince: Instant | null = null;
  let callOffTimer: () => void = () => undefined;
  let inRound = false;
  let beside: Beside | undefined;

  /**
   * Jobs of one zone are looked at together, so that one question to the cloud serves all of them: a long wait ends on the
   * common beat before it, a shorter one on the next second. No look comes later by that than its patience allows; a moment
   * that was meant exactly (the end of a pause, of a limit) is met by a short wait after an early look.
   */
  function setDue(id: string, at: Instant): void {
    schedule.set(id, onBeat(at, clock.now()));
    arm();
  }

  /** One timer for everything: the earliest due job, the lease, the sweep, the idle exit. */
  function arm(): void {
    if (state !== 'running' || inRound) return;
    callOffTimer();
    let at = earliest(renewAt, sweeper.dueAt) ?? renewAt;
    for (const due of schedule.values()) if (due < at) at = due;
    if (idleSince !== null && options.idleExitMs !== null) at = Math.min(at, idleSince + options.idleExitMs);
    // Never further than the lease is renewed anyway: a clock that was set back since these moments were worked out would
    // make them lie as far ahead as it went back, and only a round notices that.
    callOffTimer = clock.at(Math.min(at, clock.now() + leasePace), () => void round());
  }

  async function round(): Promise<void> {
    if (state !== 'running') return;
    inRound = true;
    const now = clock.now();
    if (now < lastNow - second) {
      // The clock went backwards. What was due "in ten seconds" would now be due after as long as it went back.
      renewAt = now;
      leaptAt = Math.min(leaptAt, now);
      idleSince = null;
      sweeper.now();
      for (const id of schedule.keys()) schedule.set(id, now);
      isSetBack = true;
    }
    if (now > lastNow + leapLeast) leaptAt = now;
    lastNow = now;
    if (now >= renewAt) await keepLease();
    if (state !== 'running') return;
    for (const [id, due] of schedule) {
      if (due > now) continue;
      schedule.delete(id);
      queue.add(id);
    }
    if (clock.now() >= sweeper.dueAt) void sweeper.sweep().then(checkIdle).finally(arm);
    inRound = false;
    await checkIdle();
    arm();
  }

  async function keepLease(): Promise<void> {
    try {
      renewAt = clock.now() + leasePace;
      if (!(await renew())) {
        leave('lease_lost');
        return;
      }
      renewFailures = 0;
      options.onRenewal?.();
      beside?.look();
      // Also the net under lost wakes: jobs that somebody else's commit made due.
      await (isSetBack ? lookAtAll() : wakeDue());
      isSetBack = false;
    } catch (error) {
      if (renewFailures === 0) log.warn(`the record of jobs cannot be used, nothing is done: ${textOf(error)}`);
      renewAt = clock.now() + backoff(renewFailures, second, leasePace);
      renewFailures += 1;
    }
  }

  /**
   * Observes the jobs that are due by the store, except those that we observe soon anyway: a client may have changed a job
   * whose next pass is hours away, and its wake-up may be lost. Passes that change nothing leave an earlier time in the
   * store, so of a job that is observed soon that time says nothing.
   */
  async function wakeDue(): Promise<boolean> {
    const now = clock.now();
    const due = await store.due(now, 100_000);
    let found = false;
    for (const id of due) {
      if ((schedule.get(id) ?? Infinity) <= now + soon || queue.has(id)) continue;
      found = true;
      // A client has written another time. It must not stay there, or the job would be due at every renewal.
      storedTimes.delete(id);
      queue.add(id);
    }
    return found;
  }

  /**
   * Every job that has a time at all, whatever it is: stored times were right for a controller that went on, and for a
   * clock that was not set back. After a gap each deserves a look at once.
   */
  async function lookAtAll(): Promise<void> {
    for (const id of await store.due(Number.MAX_SAFE_INTEGER, 100_000)) queue.add(id);
  }

  function isAtRest(): boolean {
    return (
      schedule.size === 0 &&
      queue.size === 0 &&
      performer.size === 0 &&
      mirror.size === 0 &&
      !sweeper.isOwed &&
      beside?.isBusy !== true
    );
  }

  async function checkIdle(): Promise<void> {
    if (!isAtRest()) {
      idleSince = null;
      return;
    }
    idleSince ??= clock.now();
    if (options.idleExitMs === null || clock.now() < idleSince + options.idleExitMs) return;
    try {
      // Somebody may have made a job meanwhile, or one may have a time that we were never told of.
      if ((await wakeDue()) || (await store.nextWake()) !== null) {
        idleSince = clock.now();
        return;
      }
    } catch {
      idleSince = clock.now();
      return;
    }
    if (state === 'running' && isAtRest()) await depart('idle');
  }

  // ------------------------------------------------------------------------------------------ one pass

  async function pass(id: string): Promise<void> {
    try {
      await passOnce(id);
      failures.delete(id);
    } catch (error) {
      if (state !== 'running') return;
      const count = failures.get(id) ?? 0;
      failures.set(id, count + 1);
      // Perhaps its workers were not even asked, and a worker that was not asked has not been silent meanwhile.
      silences.forget(id);
      if (count === 0) log.warn(`job ${id}: the pass failed and is made again: ${textOf(error)}`);
      setDue(id, clock.now() + backoff(count, second, 30 * second));
    }
  }

  async function passOnce(id: string): Promise<void> {
    if (state !== 'running' || epoch === null) return;
    schedule.delete(id);
    if (!mayAct()) {
      if (!(await renew())) {
        leave('lease_lost');
        return;
      }
    }
    const stored = await store.load(id);
    if (stored === undefined) return;
    const asOf = performer.turn;
    const began = clock.now();
    // Before the outcomes are read: what comes back in between is among them.
    const unasked = unaskedOf(stored.job);
    const outcomes = await store.outcomes(id);
    const backend = options.backendOf(stored.job.spec);
    const observation = await observe(stored.job, outcomes, admission.ask(stored.job), {
      backend,
      look: lookFor(backend),
      clock,
      silences,
      lacksFiles,
      placeAnswers: (project) => store.placeAnswers(project),
      mirror,
      logFiles,
      unasked,
    });
    if (state !== 'running') return;
    const now = clock.now();
    if (hasLeapt(began, now) && !lookedAgain.has(id)) {
      // What was seen carries times by the clock of before. Once only: a look may also truly take that long.
      lookedAgain.add(id);
      queue.add(id);
      return;
    }
    lookedAgain.delete(id);
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
        epoch,
      });
      if (result === 'lease_lost') {
        leave('lease_lost');
        return;
      }
      if (result === 'stale') {
        // Somebody's wish came in between: decide again, with it.
        queue.add(id);
        return;
      }
    }
    if (state !== 'running') return;
    if (isWritten && wakeAt !== undefined) storedTimes.set(id, wakeAt);
    admission.note(decision.job);
    if (decision.events.some(({ kind }) => kind === 'allocation_gone')) sweeper.soon();
    performer.perform(decision.job, decision.actions, asOf);
    followLogs(decision.job, backend, observation.workers);
    if (wakeAt === undefined) restJob(decision.job);
    else setDue(id, notAtOnceForEver(id, wakeAt));
    await tell(decision);
  }

  /** Says so in the log too, once a minute: until descriptors are free again, nothing is known of workers. */
  function lacksFiles(reason: string): boolean {
    if (!namesFileShortage(reason) && options.cannotOpenFiles?.() !== true) return false;
    const now = clock.now();
    if (now < shortageSaidAt || now - shortageSaidAt >= minute) {
      shortageSaidAt = now;
      log.warn(`this process has no file descriptor left (EMFILE), so workers could not be asked: ${reason}`);
    }
    return true;
  }

  /** The allocations that the record calls asked for just now, and for which nobody is asking here. */
  function unaskedOf({ id, allocations }: Job): readonly number[] {
    return allocations
      .filter(
        ({ ordinal, isAsking }) => isAsking === true && !performer.isAt(id, { kind: 'request', allocation: ordinal }),
      )
      .map(({ ordinal }) => ordinal);
  }

  /**
   * Some decisions ask to be looked at again at once, a few times in a row. A rule that asked so for ever would be our
   * own mistake; it should cost a look a second then, and not the whole machine.
   */
  function notAtOnceForEver(id: string, wakeAt: Instant): Instant {
    const now = clock.now();
    const inARow = wakeAt > now ? 0 : (atOnce.get(id) ?? 0) + 1;
    if (inARow === 0) atOnce.delete(id);
    else atOnce.set(id, inARow);
    return inARow > 20 ? now + second : wakeAt;
  }

  /**
   * A pass that changed nothing and asks for nothing is not written: at rest the disk is quiet. What asks for an action
   * always is, because only a commit proves that the lease is still ours and that nobody's wish came in between.
   */
  function isWorthCommitting(
    before: Job,
    decision: Decision,
    hasOutcomes: boolean,
    wakeAt: Instant | undefined,
  ): boolean {
    if (hasOutcomes || decision.events.length > 0 || decision.actions.length > 0 || wakeAt === undefined) return true;
    // `wakeDue` relies on the stored time of a job that is not observed soon.
    const isFar = wakeAt > clock.now() + soon;
    if (isFar && Math.abs(wakeAt - (storedTimes.get(before.id) ?? 0)) > soon) return true;
    return decision.job !== before && !isDeepStrictEqual(decision.job, before);
  }

  /** As the decision says; sooner while there is a log to be copied whose job has nothing else to wait for. */
  function wakeAtOf(decision: Decision): Instant | undefined {
    const { job } = decision;
    if (unfinishedOutputs(job).length === 0) return decision.wakeAt;
    return earliest(decision.wakeAt, clock.now() + 30 * second);
  }

  /** Only a wish can change anything about it. */
  function restJob(job: Job): void {
    atOnce.delete(job.id);
    storedTimes.delete(job.id);
    lookedAgain.delete(job.id);
    silences.forget(job.id);
    // While its logs may still be asked for, what was copied must be known, or each pass would copy it anew.
    const isOld = job.attempts.every((attempt) => attempt.endedAt !== null && isLongOver(job, attempt, clock.now()));
    if (isOld || isUnread(job)) mirror.forget(job.id);
  }

  /** The copies for people. They come after the acting: a slow disk does not hold up a recovery. */
  async function tell(decision: Decision): Promise<void> {
    if (decision.events.length === 0) return;
    try {
      for (const event of decision.events) {
        await logFiles.note(decision.job, 'job', event.at, eventSentence(event, decision.job));
        const answer = decision.job.spec.capacity.kind === 'tpu' ? cloudAnswer(event, decision.job) : null;
        if (answer !== null) await logFiles.note(decision.job, 'tpu', event.at, answer);
      }
      await logFiles.mirror(decision.job, decision.events);
    } catch (error) {
      log.warn(`job ${decision.job.id}: its files could not be written: ${textOf(error)}`);
    }
  }

  // ------------------------------------------------------------------------------------------ logs

  /** Outputs of ended attempts that are not copied to their end, and whose machine may still answer. */
  function unfinishedOutputs(job: Job): readonly Output[] {
    if (isUnread(job)) return [];
    const now = clock.now();
    return job.attempts
      .filter((attempt) => isLogWanted(job, attempt, now))
      .flatMap((attempt) => outputsOf(job, attempt))
      .filter((output) => isWithinReach(job, output));
  }

  function isLogWanted(job: Job, attempt: Attempt, now: Instant): boolean {
    return attempt.startedAt !== null && attempt.endedAt !== null && !isLongOver(job, attempt, now);
  }

  /** A worker that is let go takes its copy along; what ran on this machine can be read whatever becomes of the capacity. */
  function isWithinReach(job: Job, { allocation, worker }: Output): boolean {
    const from = job.allocations[allocation - 1];
    return worker === 'here' || (from !== undefined && from.goneAt === null && from.releasedAt === null);
  }

  /**
   * Counted from when its end was seen: a program may have ended long ago, while nobody was there to look. Capacity that came
   * back later, as from maintenance, could not be read before that, nor could anything be while no controller was running. What
   * lies far ahead was written by a clock that has been set back since, and how long ago it was, nobody knows.
   */
  function isLongOver(job: Job, { ordinal, endedAt, allocation }: Attempt, now: Instant): boolean {
    const seenAt = job.attempts[ordinal]?.createdAt ?? job.settled?.at ?? endedAt;
    // A leap that no round has noticed yet is left to the next.
    if (seenAt === null || now > lastNow + leapLeast) return false;
    const seen = job.allocations[allocation - 1]?.seen;
    const backAt = seen?.state === 'ready' ? seen.at : seenAt;
    const sinceAt = Math.max(seenAt, backAt);
    // A pause that ends ahead of now was noted before the clock was set back; the next renewal of the lease puts it right.
    const resumedAt =
      paused !== undefined && paused.from < sinceAt + logPatience ? Math.min(paused.until, now) : sinceAt;
    return Math.abs(now - Math.max(sinceAt, resumedAt, leaptAt)) > logPatience;
  }

  function outputsOf(job: Job, attempt: Attempt): readonly Output[] {
    const workers = commandWorkers(job.spec.command, job.allocations[attempt.allocation - 1]?.workers ?? 0);
    return workers
      .map((worker): Output => ({ attempt: attempt.ordinal, allocation: attempt.allocation, worker }))
      .filter((output) => !mirror.isCopied(job, output));
  }

  /** Follows what runs, and what has ended and is not copied yet; gives up what comes from machines that will not answer. */
  function followLogs(job: Job, backend: Backend, workers: readonly WorkerFact[]): void {
    const unfinished = unfinishedOutputs(job);
    const open = job.removed ? undefined : openAttempt(job);
    const isGone = ({ allocation, worker }: Output): boolean =>
      worker !== 'here' && job.allocations[allocation - 1]?.goneAt !== null;
    const isUnwanted = (output: Output): boolean =>
      output.attempt !== open?.ordinal && !unfinished.some((one) => isSameOutput(one, output));
    mirror.giveUp(job, (output) => isGone(output) || isUnwanted(output), isGone);
    for (const { allocation, worker, fact } of workers) {
      const hasRun = fact.kind === 'known' && fact.value.runs.some((run) => run.attempt === open?.ordinal);
      if (open !== undefined && hasRun) {
        mirror.follow(job, backend.machines, { attempt: open.ordinal, allocation, worker });
      }
    }
    for (const output of unfinished) mirror.follow(job, backend.machines, output);
  }

  // ------------------------------------------------------------------------------------------ its parts

  const say = (line: string): void => log.info(line);
  const wake = (id: string): void => {
    if (state === 'running' && epoch !== null) queue.add(id);
  };
  const silences = createSilences();
  const mirror = createLogMirror({ logFiles, clock, mayAct, wake, say });
  const sweeper = createSweeper({ ...options, mayAct, say });
  const performer = createPerformer({
    ...options,
    mirror,
    most: { request: 64, release: 128, step: 128, start: 64, stop: 128 },
    mayAct,
    wake,
    released() {
      sweeper.soon();
      arm();
    },
    say,
  });
  const admission = createAdmission({ slots: options.slots, wake, now: () => clock.now() });
  // So many that all jobs which are due on one beat can share one look; what costs a connection is bounded where it is made.
  const queue = createWorkqueue({ most: 1_024, work: pass, quiet: () => void checkIdle().then(arm) });
  const looks = new Map<Backend['capacity'], Look>();

  function lookFor(backend: Backend): Look {
    let look = looks.get(backend.capacity);
    if (look === undefined) {
      look = createLook(backend.capacity, clock);
      looks.set(backend.capacity, look);
    }
    return look;
  }

  // ------------------------------------------------------------------------------------------ coming and going

  async function begin(): Promise<void> {
    await acquire();
    if (state !== 'running') return;
    log.info(`controller ${options.version} began as ${options.holder}`);
    renewAt = clock.now();
    beside = options.beside?.();
    beside?.look();
    await learn();
    await round();
  }

  async function learn(): Promise<void> {
    for (let tries = 0; state === 'running'; tries += 1) {
      try {
        // One that was taken off the list holds its slot for as long as its program runs.
        admission.learn((await store.list({ settledMost: 0, withRemoved: true })).jobs);
        await lookAtAll();
        return;
      } catch (error) {
        if (tries === 0) log.warn(`the record of jobs cannot be used: ${textOf(error)}`);
        await pause(clock, backoff(tries, second, leasePace));
      }
    }
  }

  /** At once, without a further word to anybody: nothing here is ours any more. */
  function leave(because: LeftBecause): void {
    if (state === 'left') return;
    state = 'left';
    callOffTimer();
    queue.stop();
    performer.stop();
    mirror.stop();
    void beside?.stop();
    log.info(`controller ${options.holder} left: ${because}`);
    left.resolve(because);
  }

  /** In good order: what is under way comes to its end, then the lease is given back. */
  async function depart(because: LeftBecause): Promise<void> {
    if (state !== 'running') return;
    state = 'leaving';
    callOffTimer();
    queue.stop();
    performer.stop();
    await bounded(clock, Promise.all([queue.settled(), performer.settled(), beside?.stop()]), 10 * second);
    try {
      if (epoch !== null) await store.dropLease(options.holder);
    } catch (error) {
      log.warn(`the lease could not be given back and runs out by itself: ${textOf(error)}`);
    }
    leave(because);
  }

  return {
    start() {
      if (state !== 'new') return;
      state = 'running';
      void begin();
    },
    wake(id) {
      // Before the lease is ours nothing is looked at; the first round then finds everything that is due.
      if (state !== 'running' || epoch === null) return;
      idleSince = null;
      if (id !== undefined) {
        queue.add(id);
        return;
      }
      for (const known of schedule.keys()) queue.add(known);
      void wakeDue().catch((error: unknown) => log.warn(`what is due could not be read: ${textOf(error)}`));
    },
    lookBeside() {
      if (state !== 'running') return;
      idleSince = null;
      beside?.look();
    },
    async stop() {
      if (state === 'new') leave('stopped');
      await depart('stopped');
      await left.promise;
    },
    left: left.promise,
    get isIdle() {
      return isAtRest();
    },
  };
}
