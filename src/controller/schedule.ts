// Schedule: the time of each job's next pass, the queue of passes, and the jobs that are admitted to a slot.

import type { Observation } from '../core/model/observation.ts';
import type { Clock } from '../app/ports.ts';
import {
  admit,
  demandsOf,
  holdsSlot,
  isAdmitted,
  needsSlot,
  usageOf,
  waitsForSlot,
  withTpus,
  type Pool,
  type Admitted,
} from '../core/policy/admission.ts';
import { capacityTraits } from '../core/decide/allocate.ts';
import type { Job } from '../core/model/job.ts';
import { minute, second, type Duration, type Instant } from '../core/model/time.ts';

/** Waits longer than twice this end on its multiples, so that a zone is listed at most this often for all its jobs. */
const passInterval: Duration = 10 * second;
/** A job with a pass within this time needs no due time in the store: a lost wake-up delays it only this long. */
const soonWindow: Duration = 5 * minute;
/** Rounds are at most a lease renewal apart: after a longer step the clock jumped or the machine slept. */
const minClockJump: Duration = minute;

/** True when the clock was set or the machine slept between these times: no observation takes so long. */
export function hasJumped(began: Instant, now: Instant): boolean {
  return now < began || now - began > minClockJump;
}

/** The result is later than `now` if `at` is. */
function alignToInterval(at: Instant, now: Instant): Instant {
  const wait = at - now;
  if (wait > 2 * passInterval) return Math.floor(at / passInterval) * passInterval;
  const grain = wait > 2 * second ? second : wait > second ? 100 : 1;
  return Math.ceil(at / grain) * grain;
}

export type Schedule = ReturnType<typeof createSchedule>;

/** Jobs that only a command of their owner can change are not in it. */
export function createSchedule() {
  const due = new Map<string, Instant>();
  return {
    get size() {
      return due.size;
    },
    get ids(): Iterable<string> {
      return due.keys();
    },
    get firstDueAt(): Instant {
      let first = Infinity;
      for (const at of due.values()) if (at < first) first = at;
      return first;
    },
    /**
     * A long wait ends on a multiple of `passInterval`, so that jobs of a zone share requests. A short one is exact.
     */
    set: (id: string, at: Instant, now: Instant) => void due.set(id, alignToInterval(at, now)),
    remove: (id: string) => void due.delete(id),
    takeDue(now: Instant): readonly string[] {
      const taken: string[] = [];
      for (const [id, at] of due) if (at <= now) taken.push(id);
      for (const id of taken) due.delete(id);
      return taken;
    },
    /** For a clock that was set back: every due time is too far ahead by the same amount. */
    makeAllDue(now: Instant): void {
      for (const id of due.keys()) due.set(id, now);
    },
    isSoon: (id: string, now: Instant) => (due.get(id) ?? Infinity) <= now + soonWindow,
  };
}

/** True when the store needs that time, because `Store.dueJobs` is the only net for a job with a distant pass. */
export function mustStoreWake(stored: Instant | null, wakeAt: Instant | undefined, now: Instant): boolean {
  if (wakeAt === undefined) return stored !== null;
  return wakeAt > now + soonWindow && Math.abs(wakeAt - (stored ?? 0)) > soonWindow;
}

export type ClockWatch = ReturnType<typeof createClockWatch>;

export function createClockWatch(began: Instant) {
  let last = began;
  let jumpedAt: Instant = -Infinity;
  return {
    /** Time of the last jump forward. Nothing ran during the jump, so no timeout may count it. */
    get jumpedAt() {
      return jumpedAt;
    },
    hasJumpedSince: (now: Instant) => now > last + minClockJump,
    /** Call it at the beginning of a round. True when the clock was set back. */
    tick(now: Instant): boolean {
      const isSetBack = now < last - second;
      if (isSetBack) jumpedAt = Math.min(jumpedAt, now);
      if (now > last + minClockJump) jumpedAt = now;
      last = now;
      return isSetBack;
    },
  };
}

export type Workqueue = ReturnType<typeof createWorkqueue>;

/** `work` must not throw. A job added during its pass gets another one, because that pass may have observed less. */
export function createWorkqueue(options: {
  readonly maxConcurrent: number;
  readonly work: (id: string) => Promise<void>;
  readonly onDrained: () => void;
}) {
  const waiting = new Set<string>();
  const running = new Set<string>();
  const again = new Set<string>();
  const listeners: (() => void)[] = [];
  let stopped = false;

  async function run(id: string): Promise<void> {
    try {
      await options.work(id);
    } finally {
      running.delete(id);
      if (again.delete(id) && !stopped) waiting.add(id);
      next();
      if (running.size === 0) for (const listener of listeners.splice(0)) listener();
      if (running.size === 0 && waiting.size === 0 && !stopped) options.onDrained();
    }
  }

  function next(): void {
    for (const id of waiting) {
      if (stopped || running.size >= options.maxConcurrent) return;
      waiting.delete(id);
      running.add(id);
      void run(id);
    }
  }

  return {
    /** Several calls before the pass begins are one. */
    add(id: string): void {
      if (stopped) return;
      if (running.has(id)) again.add(id);
      else waiting.add(id);
      next();
    },
    has: (id: string) => waiting.has(id) || running.has(id),
    get size() {
      return waiting.size + running.size;
    },
    stop(): void {
      stopped = true;
      waiting.clear();
      again.clear();
    },
    whenIdle(): Promise<void> {
      return running.size === 0 ? Promise.resolve() : new Promise((resolve) => listeners.push(resolve));
    },
  };
}

export type Admission = ReturnType<typeof createAdmission>;

/** Tracks the jobs that hold or wait for a slot, for `admit` to decide. Calls `wake` for each newly admitted job. */
export function createAdmission(options: {
  readonly pools: readonly Pool[];
  readonly wake: (id: string) => void;
  readonly now: () => Instant;
}) {
  const jobs = new Map<string, Job>();
  let admitted: Admitted = new Map();

  function track(job: Job): boolean {
    const before = jobs.get(job.id);
    if (holdsSlot(job) || waitsForSlot(job)) jobs.set(job.id, job);
    else jobs.delete(job.id);
    if (before === undefined) return jobs.has(job.id);
    return (
      !jobs.has(job.id) || holdsSlot(before) !== holdsSlot(job) || before.startRequest?.at !== job.startRequest?.at
    );
  }

  /** Wakes the other jobs that are admitted now. */
  function admitNow(caller?: Job): void {
    const tracked = [...jobs.values()];
    const before = admitted;
    admitted = admit(withTpus(options.pools, tracked), demandsOf(tracked, admitted), usageOf(tracked), options.now());
    for (const id of admitted.keys()) if (!before.has(id) && id !== caller?.id) options.wake(id);
  }

  /**
   * Wakes the jobs in a long backoff. One whose backoff was over when it began to wait for a slot has no due time, and
   * only its pass corrects a time from before the clock was set back.
   */
  function wakeDelayed(): void {
    const now = options.now();
    for (const { job, notBefore } of demandsOf([...jobs.values()]))
      if (notBefore > now && notBefore < Infinity) options.wake(job);
  }

  return {
    admit(job: Job): Pick<Observation, 'admitted' | 'slots'> {
      // The backoff of a job that is not admitted may be over, and a client may have taken the slot from this one.
      if (needsSlot(job) && (track(job) || !admitted.has(job.id))) admitNow(job);
      const slots = capacityTraits(job.spec.capacity).slotsAreNumbered ? admitted.get(job.id) : undefined;
      return { admitted: isAdmitted(admitted, job), ...(slots !== undefined && slots.length > 0 && { slots }) };
    },
    update(job: Job): void {
      if (needsSlot(job) && track(job)) admitNow(job);
    },
    /** Call it once, with all unfinished jobs: a job that waits for a slot has no due time. */
    load(unfinished: readonly Job[]): void {
      for (const job of unfinished) if (needsSlot(job)) track(job);
      admitNow();
      wakeDelayed();
    },
    wakeDelayed,
  };
}

/** `hasWork` asks the store, because a client may have created a job that this controller does not know. */
export function createIdleExit(options: {
  readonly clock: Clock;
  readonly exitMs: Duration | null;
  readonly isIdle: () => boolean;
  readonly hasWork: () => Promise<boolean>;
}) {
  const { clock, exitMs, isIdle } = options;
  let since: Instant | null = null;
  return {
    /** Infinity while there is work, or when the controller never leaves. */
    get exitAt(): Instant {
      return since === null || exitMs === null ? Infinity : since + exitMs;
    },
    reset(): void {
      since = null;
    },
    /** Never rejects. */
    async mayExit(): Promise<boolean> {
      if (!isIdle()) {
        since = null;
        return false;
      }
      since ??= clock.now();
      if (exitMs === null || clock.now() < since + exitMs) return false;
      try {
        if (!(await options.hasWork())) return isIdle();
      } catch {}
      since = clock.now();
      return false;
    },
  };
}
