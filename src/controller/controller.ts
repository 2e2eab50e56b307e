// Controller: the loop. A pass is load -> observe -> reconcile -> commit -> perform, for each job that is due.
//
// It is level-triggered: whatever woke it, a pass looks at everything anew. It remembers nothing that matters: when to
// look next (also in the store), which actions are under way (idempotent), which logs are being copied (their length
// tells). Killing it at any instant loses nothing and duplicates nothing.
//
// Three walls stand between a decision and the outside. The commit carries the revision that was loaded, so a wish that
// came in between drops the pass. It carries the lease's epoch, so a controller that was replaced cannot commit. And each
// action asks `mayAct` right before it begins, since between commit and act a process may be suspended for an hour.

import type { Backend, Clock, LogFiles, Store } from '../app/ports.ts';
import type { JobSpec } from '../core/spec.ts';
import { second } from '../core/time.ts';
import type { Duration } from '../core/time.ts';
import { backoff, bounded, pause } from './bounded.ts';
import { leasePace } from './lease.ts';
import { textOf } from './looks.ts';
import { createParts } from './parts.ts';
import { createRounds } from './rounds.ts';

/** Why the controller left. `lease_lost`: another one has taken over; nothing more may be done here. */
export type LeftBecause = 'idle' | 'stopped' | 'lease_lost';

interface ControllerLog {
  info(line: string): void;
  warn(line: string): void;
}

/** A background task in the same process. */
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
