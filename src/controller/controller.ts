// Controller: runs a pass for each job that is due: load, observe, reconcile, commit, perform. Each pass observes
// everything again, and the store holds all state that matters, so killing the controller at any time loses and
// duplicates nothing.

import { messageOf } from '../app/errors.ts';
import type { Meter } from '../app/meter.ts';
import type { Backend, Clock, LogFiles, Store } from '../app/ports.ts';
import type { Pool } from '../core/policy/admission.ts';
import type { Grant } from '../core/policy/grants.ts';
import type { DailyBudget } from '../core/policy/limits.ts';
import type { JobSpec } from '../core/model/spec.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';
import { createCapacityWatch } from './capacity-watch.ts';
import { databaseAnswers, createLease, type LeaseTimes } from './lease.ts';
import { createLogFollowers, createLogMirror } from './log-mirror.ts';
import { createObserver, type Observer } from './observe.ts';
import { createOwnerSpending } from './owner-spending.ts';
import { createPass } from './pass.ts';
import { createPerformer } from './performer.ts';
import {
  createAdmission,
  createIdleExit,
  createClockWatch,
  createSchedule,
  createWorkqueue,
  type Schedule,
  type Workqueue,
} from './schedule.ts';
import { createOrphanCollector } from './orphan-collector.ts';
import { backoff, waitAtMost, pause } from './timers.ts';

/** `lease_lost`: another controller has taken over. */
export type ExitReason = 'idle' | 'stopped' | 'lease_lost';

interface ControllerLog {
  info(line: string): void;
  warn(line: string): void;
}

export interface BackgroundTask {
  /** New work may exist. Also called with each renewal of the lease; must be cheap and safe to repeat. */
  poll(): void;
  /** A job was committed with new events. */
  onCommit?(): void;
  /** The controller does not exit as idle. */
  readonly isBusy: boolean;
  /** Resolves within seconds; the task touches nothing afterwards. */
  stop(): Promise<void>;
}

export interface ControllerOptions {
  readonly store: Store;
  readonly backendOf: (spec: JobSpec) => Backend;
  readonly clock: Clock;
  readonly logFiles: LogFiles;
  readonly log: ControllerLog;
  /** Unique for this run of a controller. */
  readonly holder: string;
  readonly version: string;
  /** True when the caller holds this machine's controller lock, so that an earlier holder of the lease is dead. */
  readonly holdsLock: boolean;
  readonly leaseTimes: LeaseTimes;
  /** Called before each try to take the lease, while nothing counts from the clock. May reject like the store. */
  readonly adjustClock?: () => Promise<void>;
  /** A clock that never goes back, for a lease that a controller of another home may take. */
  readonly monotonicNow?: () => Duration;
  /** The hosts. */
  readonly pools: readonly Pool[];
  /** Their budgets limit the jobs of each user. */
  readonly grants: readonly Grant[];
  /** The dollars per day of the users who have such a limit. */
  readonly dailyBudgets?: () => Promise<readonly DailyBudget[]>;
  /** The passes that stay recorded: of these days, and at most so many of each job. 0: none is recorded. */
  readonly keptPasses: { readonly days: number; readonly count: number };
  /** The controller exits after this long without work; null: never. */
  readonly idleExitMs: Duration | null;
  /** Called once the lease is held. */
  readonly createBackgroundTasks?: () => readonly BackgroundTask[];
  /** True while this process cannot open files: a failed name lookup, for example, may have that cause. */
  readonly isOutOfDescriptors?: () => boolean;
  /** Absent: nothing reads it. */
  readonly meter?: Meter | undefined;
  readonly onRenewal?: () => void;
}

export interface Controller {
  /** Waits for the lease in the background. */
  start(): void;
  /** Requests a pass of that job; without an id, of every due or scheduled job. False when it has begun to exit. */
  wake(id?: string): boolean;
  /** False when it has begun to exit. */
  pollBackgroundTasks(): boolean;
  /** Finishes the running passes and actions within bounded time, and releases the lease. */
  stop(): Promise<void>;
  readonly exited: Promise<ExitReason>;
  readonly isIdle: boolean;
}

export function createController(options: ControllerOptions): Controller {
  const { clock, log } = options;
  const exited = Promise.withResolvers<ExitReason>();
  let state: 'new' | 'running' | 'shutting_down' | 'exited' = 'new';
  let backgroundTasks: readonly BackgroundTask[] = [];
  const pollBackgroundTasks = (): void => backgroundTasks.forEach((task) => task.poll());
  const isRunning = (): boolean => state === 'running';
  const onLeaseLost = (): void => exit('lease_lost');
  const parts = createParts(options, {
    isRunning,
    isActive: () => state === 'running' || state === 'shutting_down',
    isBackgroundBusy: () => backgroundTasks.some((task) => task.isBusy),
    onEvents: () => backgroundTasks.forEach((task) => task.onCommit?.()),
    armTimer: () => rounds.arm(),
    onLeaseLost,
    onQueueDrained: () => void exitIfIdle().then(() => rounds.arm()),
  });
  const { lease, schedule, mirror, performer, queue, due, idleExit } = parts;
  const hooks = { isRunning, pollBackgroundTasks, onLeaseLost, exitIfIdle };
  const rounds = createRounds(options, parts, hooks);

  async function begin(): Promise<void> {
    await lease.acquire(isRunning);
    if (!isRunning()) return;
    log.info(`controller ${options.version} started as ${options.holder}`);
    backgroundTasks = options.createBackgroundTasks?.() ?? [];
    pollBackgroundTasks();
    await loadUnfinishedJobs(options, parts, isRunning);
    await rounds.begin();
  }

  async function exitIfIdle(): Promise<void> {
    if ((await idleExit.mayExit()) && isRunning()) await shutDown('idle');
  }

  /** Does not release the lease: another controller may hold it. */
  function exit(reason: ExitReason): void {
    if (state === 'exited') return;
    state = 'exited';
    rounds.stop();
    queue.stop();
    performer.stop();
    mirror.stop();
    for (const task of backgroundTasks) void task.stop();
    log.info(`controller ${options.holder} exits: ${reason}`);
    exited.resolve(reason);
  }

  async function shutDown(reason: ExitReason): Promise<void> {
    if (state !== 'running') return;
    state = 'shutting_down';
    rounds.stop();
    queue.stop();
    performer.stop();
    const stopped = backgroundTasks.map((task) => task.stop());
    await waitAtMost(clock, Promise.all([queue.whenIdle(), performer.whenIdle(), ...stopped]), 10 * second);
    await lease.release();
    exit(reason);
  }

  return {
    start() {
      if (state !== 'new') return;
      state = 'running';
      void begin();
    },
    wake(id) {
      // The first round after the lease is taken finds everything that is due.
      if (!isRunning() || lease.epoch === null) return isRunning();
      idleExit.reset();
      if (id !== undefined) {
        queue.add(id);
        return true;
      }
      for (const known of schedule.ids) queue.add(known);
      void due.queueDue().catch((error: unknown) => log.warn(`cannot read the due jobs: ${messageOf(error)}`));
      return true;
    },
    pollBackgroundTasks() {
      if (!isRunning()) return false;
      idleExit.reset();
      pollBackgroundTasks();
      return true;
    },
    async stop() {
      if (state === 'new') exit('stopped');
      await shutDown('stopped');
      await exited.promise;
    },
    exited: exited.promise,
    get isIdle() {
      return parts.isIdle();
    },
  };
}

async function loadUnfinishedJobs(
  { store, clock, log, leaseTimes }: ControllerOptions,
  { admission, due }: Parts,
  isRunning: () => boolean,
): Promise<void> {
  for (let tries = 0; isRunning(); tries += 1) {
    try {
      // A removed job holds its slot as long as its program runs.
      admission.load((await store.list({ maxFinished: 0, includeRemoved: true })).jobs);
      await due.queueAll();
      return;
    } catch (error) {
      if (tries === 0) log.warn(`cannot use the database: ${messageOf(error)}`);
      await pause(clock, backoff(tries, second, leaseTimes.renewal));
    }
  }
}

interface ControllerHooks {
  readonly isRunning: () => boolean;
  /** False once the controller must not act, whatever the lease says. */
  readonly isActive: () => boolean;
  readonly isBackgroundBusy: () => boolean;
  /** A commit has written events, and maybe notices. */
  readonly onEvents: () => void;
  readonly armTimer: () => void;
  readonly onLeaseLost: () => void;
  readonly onQueueDrained: () => void;
}

type Parts = ReturnType<typeof createParts>;

function createParts(options: ControllerOptions, hooks: ControllerHooks) {
  const { store, clock, log, logFiles } = options;
  const { isRunning, armTimer } = hooks;
  const mayAct = (): boolean => hooks.isActive() && lease.isHeld;
  const report = (line: string): void => log.info(line);
  const wake = (id: string): void => {
    if (isRunning() && lease.epoch !== null) queue.add(id);
  };
  const lease = createLease(options);
  const schedule = createSchedule();
  const watch = createClockWatch(clock.now());
  const mirror = createLogMirror({ logFiles, clock, mayAct, wake, report });
  const followers = createLogFollowers({ mirror, clock, watch, lease });
  const orphanCollector = createOrphanCollector({ ...options, mayAct, report, epoch: () => lease.epoch });
  const performer = createPerformer({
    ...options,
    mirror,
    maxConcurrent: { request: 64, release: 128, step: 128, start: 64, stop: 128 },
    mayAct,
    wake,
    onReleased() {
      orphanCollector.collectSoon();
      armTimer();
    },
    report,
  });
  const admission = createAdmission({
    pools: options.pools,
    wake,
    now: () => clock.now(),
  });
  const observerFor = createObservers(clock);
  const capacityWatch = createCapacityWatch({ ...options, observerFor, wake });
  const pass = createPass({
    ...options,
    observerFor,
    capacityWatch,
    observeOwnerSpending: createOwnerSpending(options),
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
      armTimer();
    },
    requeue: (id) => queue.add(id),
    onLeaseLost: hooks.onLeaseLost,
    onEvents: hooks.onEvents,
    onAllocationGone: () => orphanCollector.collectSoon(),
  });
  // High enough for all jobs that are due at one time to share one observation. The ports limit their connections.
  const queue = createWorkqueue({ maxConcurrent: 1_024, work: pass, onDrained: hooks.onQueueDrained });
  const due = createDueJobs(store, clock, schedule, queue);
  const isIdle = (): boolean => {
    const isEmpty = schedule.size === 0 && queue.size === 0 && performer.size === 0 && mirror.size === 0;
    return isEmpty && !orphanCollector.expectsLateRequests && !hooks.isBackgroundBusy();
  };
  const hasWork = async (): Promise<boolean> => (await due.queueDue()) || (await store.nextWake()) !== null;
  const idleExit = createIdleExit({ clock, exitMs: options.idleExitMs, isIdle, hasWork });
  return {
    lease,
    schedule,
    capacityWatch,
    watch,
    mirror,
    orphanCollector,
    performer,
    admission,
    queue,
    due,
    idleExit,
    isIdle,
  };
}

/** One observer for each port, so that the passes of all its jobs share their requests. */
function createObservers(clock: Clock): (backend: Backend) => Observer {
  const observers = new Map<Backend['capacity'], Observer>();
  return ({ capacity }) => {
    const observer = observers.get(capacity) ?? createObserver(capacity, clock);
    observers.set(capacity, observer);
    return observer;
  };
}

/** Adds jobs to the queue by their due times in the store. Both methods throw StoreError. */
function createDueJobs(store: Store, clock: Clock, schedule: Schedule, queue: Workqueue) {
  return {
    /** Finds jobs that a client changed although its wake-up was lost. Returns true when a job was added. */
    async queueDue(): Promise<boolean> {
      const now = clock.now();
      const ids = (await store.dueJobs(now, 100_000)).filter((id) => !schedule.isSoon(id, now) && !queue.has(id));
      for (const id of ids) queue.add(id);
      return ids.length > 0;
    },
    /** Adds every job with a due time: when the clock was set back, stored times are wrong. */
    async queueAll(): Promise<void> {
      for (const id of await store.dueJobs(Number.MAX_SAFE_INTEGER, 100_000)) queue.add(id);
    },
  };
}

/** One timer serves due jobs, the lease, orphan collection and the idle exit. */
function createRounds(
  {
    clock,
    log,
    leaseTimes: { renewal },
    onRenewal,
  }: Pick<ControllerOptions, 'clock' | 'log' | 'leaseTimes' | 'onRenewal'>,
  { lease, schedule, capacityWatch, watch, orphanCollector, admission, queue, due, idleExit }: Parts,
  hooks: {
    readonly isRunning: () => boolean;
    readonly pollBackgroundTasks: () => void;
    readonly onLeaseLost: () => void;
    readonly exitIfIdle: () => Promise<void>;
  },
) {
  const { isRunning, exitIfIdle } = hooks;
  let cancelTimer: () => void = () => undefined;
  let inRound = false;
  let renewAt: Instant = 0;
  let renewFailures = 0;
  /** The clock was set back, and the jobs in the store have not all been observed since. */
  let isSetBack = false;

  function armTimer(): void {
    if (!isRunning() || inRound) return;
    cancelTimer();
    // Never later than the renewal interval: only a round notices that the clock was set back.
    const now = clock.now();
    const latest = now + renewal;
    const watchAt = capacityWatch.dueAt(now);
    const at = Math.min(renewAt, orphanCollector.dueAt, schedule.firstDueAt, idleExit.exitAt, watchAt, latest);
    cancelTimer = clock.at(at, () => void round());
  }

  async function round(): Promise<void> {
    if (!isRunning()) return;
    inRound = true;
    const now = clock.now();
    if (watch.tick(now)) {
      renewAt = now;
      idleExit.reset();
      orphanCollector.makeDue();
      schedule.makeAllDue(now);
      admission.wakeDelayed();
      isSetBack = true;
    }
    if (now >= renewAt) await renewLease();
    if (!isRunning()) return;
    for (const id of schedule.takeDue(now)) queue.add(id);
    if (now >= capacityWatch.dueAt(now)) void capacityWatch.poll(now);
    if (clock.now() >= orphanCollector.dueAt) void orphanCollector.collect().then(exitIfIdle).finally(armTimer);
    inRound = false;
    await exitIfIdle();
    armTimer();
  }

  async function renewLease(): Promise<void> {
    try {
      renewAt = clock.now() + renewal;
      if (!(await lease.renew())) {
        hooks.onLeaseLost();
        return;
      }
      onRenewal?.();
      hooks.pollBackgroundTasks();
      // Also finds jobs whose wake-up was lost after a client's commit.
      await (isSetBack ? due.queueAll() : due.queueDue());
      isSetBack = false;
      if (renewFailures > 0) log.info(databaseAnswers);
      renewFailures = 0;
    } catch (error) {
      if (renewFailures === 0) log.warn(`cannot use the database, so no job is managed: ${messageOf(error)}`);
      renewAt = clock.now() + backoff(renewFailures, second, renewal);
      renewFailures += 1;
    }
  }

  return {
    arm: armTimer,
    begin(): Promise<void> {
      renewAt = clock.now();
      return round();
    },
    stop: () => cancelTimer(),
  };
}
