// Parts: what a controller is made of, put together. Nothing here decides anything.

import type { Backend, Clock, Store } from '../app/ports.ts';
import { createAdmission } from './admission.ts';
import type { Admission } from './admission.ts';
import type { ControllerOptions } from './controller.ts';
import { createIdle } from './idle.ts';
import type { Idle } from './idle.ts';
import { createLease } from './lease.ts';
import type { Lease } from './lease.ts';
import { createLogFollowers } from './log-followers.ts';
import { createLogMirror } from './log-mirror.ts';
import type { LogMirror } from './log-mirror.ts';
import { createLook } from './looks.ts';
import type { Look } from './looks.ts';
import { createPass } from './pass.ts';
import { createPerformer } from './performer.ts';
import type { Performer } from './performer.ts';
import { createClockWatch, createSchedule } from './schedule.ts';
import type { ClockWatch, Schedule } from './schedule.ts';
import { createSweeper } from './sweeper.ts';
import type { Sweeper } from './sweeper.ts';
import { createWorkqueue } from './workqueue.ts';
import type { Workqueue } from './workqueue.ts';

export interface Parts {
  readonly lease: Lease;
  readonly schedule: Schedule;
  readonly watch: ClockWatch;
  readonly mirror: LogMirror;
  readonly sweeper: Sweeper;
  readonly performer: Performer;
  readonly admission: Admission;
  readonly queue: Workqueue;
  readonly due: Due;
  readonly idle: Idle;
  /** True while nothing is left to watch. */
  readonly isAtRest: () => boolean;
}

/** Jobs that are due by the store, to the queue. Both throw StoreError. */
interface Due {
  /**
   * Except those that this controller observes soon anyway: a client may have changed a job whose next pass is hours away,
   * and its wake-up may be lost. Passes that change nothing leave an earlier time in the store, so of a job that is observed
   * soon that time says nothing. True when there was one.
   */
  queueDue(): Promise<boolean>;
  /** Every job that has a due time at all: after a gap, or a clock that was set back, stored times are not right. */
  queueAll(): Promise<void>;
}

/** The controller itself, as its parts see it. */
export interface Hooks {
  readonly isRunning: () => boolean;
  /** False once nothing may be done outside any more, whatever the lease says. */
  readonly isThere: () => boolean;
  readonly isBusyBeside: () => boolean;
  readonly arm: () => void;
  readonly leaseLost: () => void;
  /** Nothing waits or runs. */
  readonly quiet: () => void;
}

export function createParts(options: ControllerOptions, hooks: Hooks): Parts {
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

function createDue(store: Store, clock: Clock, schedule: Schedule, queue: Workqueue): Due {
  return {
    async queueDue() {
      const now = clock.now();
      const ids = (await store.due(now, 100_000)).filter((id) => !schedule.isSoon(id, now) && !queue.has(id));
      for (const id of ids) {
        // A client has written another time. It must not stay there, or the job would be due at every renewal.
        schedule.forgetWritten(id);
        queue.add(id);
      }
      return ids.length > 0;
    },
    async queueAll() {
      for (const id of await store.due(Number.MAX_SAFE_INTEGER, 100_000)) queue.add(id);
    },
  };
}
