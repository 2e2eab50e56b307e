// Controller: the loop. A pass is load -> observe -> reconcile -> commit -> perform, for each job that is due.
//
// It is level-triggered: whatever woke it, a pass observes everything again. Killing it at any instant loses nothing and
// duplicates nothing, because all that matters is in the store.
//
// Three checks stand between a decision and the outside. The commit carries the revision that was loaded, so a command that
// came in between drops the pass. It carries the lease's epoch, so a controller that was replaced cannot commit. And each
// action asks `mayAct` right before it begins, since between commit and act a process may be suspended for an hour.

import { textOf } from '../app/errors.ts';
import type { Backend, Clock, LogFiles, Store } from '../app/ports.ts';
import type { JobSpec } from '../core/spec.ts';
import { second, type Duration, type Instant } from '../core/time.ts';
import { leasePace, createLease } from './lease.ts';
import { createLogFollowers, createLogMirror } from './log-mirror.ts';
import { createLook, type Look } from './observe.ts';
import { createPass } from './pass.ts';
import { createPerformer } from './performer.ts';
import {
  createAdmission,
  createIdle,
  createClockWatch,
  createSchedule,
  createWorkqueue,
  type Schedule,
  type Workqueue,
} from './schedule.ts';
import { createSweeper } from './sweeper.ts';
import { backoff, bounded, pause } from './timers.ts';

/** Why the controller left. `lease_lost`: another one has taken over; nothing more may be done here. */
export type LeftBecause = 'idle' | 'stopped' | 'lease_lost';

interface ControllerLog {
  info(line: string): void;
  warn(line: string): void;
}

/** A background task in the same process. */
interface Beside {
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
  /** The background task is asked to look now. */
  lookBeside(): void;
  /** Finishes the passes and actions that are under way, within bounded time, gives the lease back and leaves. */
  stop(): Promise<void>;
  /** Resolves when it has left, for whatever reason. Never rejects. */
  readonly left: Promise<LeftBecause>;
  /** True while nothing is left to watch; the caller may ask it to leave. */
  readonly isIdle: boolean;
}

/** See the head of this file. Nothing happens before `start`. */
export function createController(options: ControllerOptions): Controller {
  const { store, clock, log } = options;
  const left = Promise.withResolvers<LeftBecause>();
  let state: 'new' | 'running' | 'leaving' | 'left' = 'new';
  let beside: Beside | undefined;
  const isRunning = (): boolean => state === 'running';
  const leaseLost = (): void => leave('lease_lost');
  const parts = createParts(options, {
    isRunning,
    isThere: () => state === 'running' || state === 'leaving',
    isBusyBeside: () => beside?.isBusy === true,
    arm: () => rounds.arm(),
    leaseLost,
    quiet: () => void leaveIfIdle().then(() => rounds.arm()),
  });
  const { lease, schedule, mirror, performer, admission, queue, due, idle } = parts;
  const rounds = createRounds(options, parts, { isRunning, beside: () => beside, leaseLost, leaveIfIdle });

  async function begin(): Promise<void> {
    await lease.acquire(isRunning);
    if (!isRunning()) return;
    log.info(`controller ${options.version} began as ${options.holder}`);
    beside = options.beside?.();
    beside?.look();
    await learn();
    await rounds.begin();
  }

  async function learn(): Promise<void> {
    for (let tries = 0; isRunning(); tries += 1) {
      try {
        // One that was taken off the list holds its slot for as long as its program runs.
        admission.learn((await store.list({ settledMost: 0, withRemoved: true })).jobs);
        await due.queueAll();
        return;
      } catch (error) {
        if (tries === 0) log.warn(`the record of jobs cannot be used: ${textOf(error)}`);
        await pause(clock, backoff(tries, second, leasePace));
      }
    }
  }

  async function leaveIfIdle(): Promise<void> {
    if ((await idle.isOver()) && isRunning()) await depart('idle');
  }

  /** At once, without a further word to anybody: nothing here is ours any more. */
  function leave(because: LeftBecause): void {
    if (state === 'left') return;
    state = 'left';
    rounds.stop();
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
    rounds.stop();
    queue.stop();
    performer.stop();
    await bounded(clock, Promise.all([queue.settled(), performer.settled(), beside?.stop()]), 10 * second);
    await lease.drop();
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
      if (!isRunning() || lease.epoch === null) return;
      idle.reset();
      if (id !== undefined) {
        queue.add(id);
        return;
      }
      for (const known of schedule.ids) queue.add(known);
      void due.queueDue().catch((error: unknown) => log.warn(`what is due could not be read: ${textOf(error)}`));
    },
    lookBeside() {
      if (!isRunning()) return;
      idle.reset();
      beside?.look();
    },
    async stop() {
      if (state === 'new') leave('stopped');
      await depart('stopped');
      await left.promise;
    },
    left: left.promise,
    get isIdle() {
      return parts.isAtRest();
    },
  };
}

/** The controller itself, as its parts see it. */
interface Hooks {
  readonly isRunning: () => boolean;
  /** False once nothing may be done outside any more, whatever the lease says. */
  readonly isThere: () => boolean;
  readonly isBusyBeside: () => boolean;
  readonly arm: () => void;
  readonly leaseLost: () => void;
  /** Nothing waits or runs. */
  readonly quiet: () => void;
}

type Parts = ReturnType<typeof createParts>;

/** What a controller is made of, put together. */
function createParts(options: ControllerOptions, hooks: Hooks) {
  const { store, clock, log, logFiles } = options;
  const { isRunning, arm } = hooks;
  const mayAct = (): boolean => hooks.isThere() && lease.isOurs;
  const say = (line: string): void => log.info(line);
  const wake = (id: string): void => {
    if (isRunning() && lease.epoch !== null) queue.add(id);
  };
  const lease = createLease(options);
  const schedule = createSchedule();
  const watch = createClockWatch(clock.now());
  const mirror = createLogMirror({ logFiles, clock, mayAct, wake, say });
  const followers = createLogFollowers({ mirror, clock, watch, lease });
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
  const pass = createPass({
    ...options,
    lookFor: createLooks(clock),
    mirror,
    lease,
    schedule,
    performer,
    admission,
    followers,
    isRunning,
    mayAct,
    setDue(id, at) {
      schedule.set(id, at, clock.now());
      arm();
    },
    again: (id) => queue.add(id),
    leaseLost: hooks.leaseLost,
    gone: () => sweeper.soon(),
  });
  // So many that all jobs which are due on one beat can share one look; what costs a connection is bounded where it is made.
  const queue = createWorkqueue({ most: 1_024, work: pass, quiet: hooks.quiet });
  const due = createDue(store, clock, schedule, queue);
  const isAtRest = (): boolean => {
    const isEmpty = schedule.size === 0 && queue.size === 0 && performer.size === 0 && mirror.size === 0;
    return isEmpty && !sweeper.isOwed && !hooks.isBusyBeside();
  };
  const isAnythingLeft = async (): Promise<boolean> => (await due.queueDue()) || (await store.nextWake()) !== null;
  const idle = createIdle({ clock, exitMs: options.idleExitMs, isAtRest, isAnythingLeft });
  return { lease, schedule, watch, mirror, sweeper, performer, admission, queue, due, idle, isAtRest };
}

/** One look for each port, so that the passes of all its jobs share their questions. */
function createLooks(clock: Clock): (backend: Backend) => Look {
  const looks = new Map<Backend['capacity'], Look>();
  return ({ capacity }) => {
    const look = looks.get(capacity) ?? createLook(capacity, clock);
    looks.set(capacity, look);
    return look;
  };
}

/** Jobs that are due by the store, to the queue. Both throw StoreError. */
function createDue(store: Store, clock: Clock, schedule: Schedule, queue: Workqueue) {
  return {
    /**
     * Except those that this controller observes soon anyway, since passes that change nothing leave an earlier time in the store. A
     * client may have changed a job whose next pass is hours away, and its wake-up may be lost. True when there was one.
     */
    async queueDue(): Promise<boolean> {
      const now = clock.now();
      const ids = (await store.due(now, 100_000)).filter((id) => !schedule.isSoon(id, now) && !queue.has(id));
      for (const id of ids) {
        // A client has written another time. It must not stay there, or the job would be due at every renewal.
        schedule.forgetWritten(id);
        queue.add(id);
      }
      return ids.length > 0;
    },
    /** Every job that has a due time at all: after a gap, or a clock that was set back, stored times are not right. */
    async queueAll(): Promise<void> {
      for (const id of await store.due(Number.MAX_SAFE_INTEGER, 100_000)) queue.add(id);
    },
  };
}

/** One timer for everything that comes with time: due jobs, the lease, the sweep, the idle exit. */
function createRounds(
  { clock, log, onRenewal }: Pick<ControllerOptions, 'clock' | 'log' | 'onRenewal'>,
  { lease, schedule, watch, sweeper, queue, due, idle }: Parts,
  hooks: {
    readonly isRunning: () => boolean;
    readonly beside: () => Beside | undefined;
    readonly leaseLost: () => void;
    readonly leaveIfIdle: () => Promise<void>;
  },
) {
  const { isRunning, leaveIfIdle } = hooks;
  let callOff: () => void = () => undefined;
  let inRound = false;
  let renewAt: Instant = 0;
  let renewFailures = 0;
  /** The clock went back and the jobs in the store have not all been observed since. */
  let isSetBack = false;

  /** The next round comes when the first thing is due. Safe to repeat. */
  function arm(): void {
    if (!isRunning() || inRound) return;
    callOff();
    // Never further than the lease is renewed anyway: a clock that was set back since these times were worked out would
    // make them lie as far ahead as it went back, and only a round notices that.
    const at = Math.min(renewAt, sweeper.dueAt, schedule.first, idle.exitAt, clock.now() + leasePace);
    callOff = clock.at(at, () => void round());
  }

  async function round(): Promise<void> {
    if (!isRunning()) return;
    inRound = true;
    const now = clock.now();
    if (watch.tick(now)) {
      renewAt = now;
      idle.reset();
      sweeper.now();
      schedule.makeAllDue(now);
      isSetBack = true;
    }
    if (now >= renewAt) await keepLease();
    if (!isRunning()) return;
    for (const id of schedule.takeDue(now)) queue.add(id);
    if (clock.now() >= sweeper.dueAt) void sweeper.sweep().then(leaveIfIdle).finally(arm);
    inRound = false;
    await leaveIfIdle();
    arm();
  }

  async function keepLease(): Promise<void> {
    try {
      renewAt = clock.now() + leasePace;
      if (!(await lease.renew())) {
        hooks.leaseLost();
        return;
      }
      renewFailures = 0;
      onRenewal?.();
      hooks.beside()?.look();
      // Also the net under lost wakes: jobs that the commit of a client made due.
      await (isSetBack ? due.queueAll() : due.queueDue());
      isSetBack = false;
    } catch (error) {
      if (renewFailures === 0) log.warn(`the record of jobs cannot be used, nothing is done: ${textOf(error)}`);
      renewAt = clock.now() + backoff(renewFailures, second, leasePace);
      renewFailures += 1;
    }
  }

  return {
    arm,
    /** The first round is now. */
    begin(): Promise<void> {
      renewAt = clock.now();
      return round();
    },
    stop: () => callOff(),
  };
}
