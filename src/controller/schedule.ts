// Schedule: when each job gets its next pass, which passes run now, and which jobs are admitted to a slot.

import type { Clock } from '../app/ports.ts';
import { admit, holdsSlot, isAdmitted, takesTurns, waitsForSlot } from '../core/admit.ts';
import type { Job } from '../core/job.ts';
import { minute, second, type Duration, type Instant } from '../core/time.ts';

/** Waits longer than twice this end on its multiples, so that a zone is listed at most this often for all its jobs. */
const beat: Duration = 5 * second;
/** A job that is observed within this time is observed soon: a lost wake-up of it delays nothing for long. */
const soon: Duration = 5 * minute;
/** Two rounds are no further apart than a renewal of the lease: a longer step is a clock that jumped, or a machine that slept. */
const jumpLeast: Duration = minute;

/** Whether the clock was set between these two times, or the machine slept: no observation takes so long. */
export function hasJumped(began: Instant, now: Instant): boolean {
  return now < began || now - began > jumpLeast;
}

/** When to observe a job that is to be observed by that time; later than now where that time is. */
function onBeat(at: Instant, now: Instant): Instant {
  const wait = at - now;
  if (wait > 2 * beat) return Math.floor(at / beat) * beat;
  const grain = wait > 2 * second ? second : wait > second ? 100 : 1;
  return Math.ceil(at / grain) * grain;
}

export type Schedule = ReturnType<typeof createSchedule>;

/** A job that only a command of its owner can change is not in it. */
export function createSchedule() {
  const due = new Map<string, Instant>();
  const written = new Map<string, Instant>();
  return {
    get size() {
      return due.size;
    },
    get ids(): Iterable<string> {
      return due.keys();
    },
    /** When the first job is due; Infinity without one. */
    get first(): Instant {
      let first = Infinity;
      for (const at of due.values()) if (at < first) first = at;
      return first;
    },
    /**
     * A long wait ends on the common beat before it, so that one question to the cloud serves all jobs of a zone; a shorter one
     * on the next second. An exact time (the end of a pause, of a limit) is met by a short wait after an early observation.
     */
    set: (id: string, at: Instant, now: Instant) => void due.set(id, onBeat(at, now)),
    remove: (id: string) => void due.delete(id),
    /** Removes the jobs that are due. */
    takeDue(now: Instant): readonly string[] {
      const taken: string[] = [];
      for (const [id, at] of due) if (at <= now) taken.push(id);
      for (const id of taken) due.delete(id);
      return taken;
    },
    /** The clock was set back: what was due "in ten seconds" would be due after as long as it went back. */
    makeAllDue(now: Instant): void {
      for (const id of due.keys()) due.set(id, now);
    },
    isSoon: (id: string, now: Instant) => (due.get(id) ?? Infinity) <= now + soon,
    /** The time of its next pass, as this controller has last written it to the store. */
    wrote: (id: string, at: Instant) => void written.set(id, at),
    forgetWritten: (id: string) => void written.delete(id),
    /** True where the store must learn that time, because `Store.due` finds a job that is not observed soon by it. */
    isToBeWritten: (id: string, at: Instant, now: Instant) =>
      at > now + soon && Math.abs(at - (written.get(id) ?? 0)) > soon,
  };
}

export type ClockWatch = ReturnType<typeof createClockWatch>;

/** The times of the rounds, and how the clock jumped between them. */
export function createClockWatch(began: Instant) {
  let last = began;
  let jumpedAt: Instant = -Infinity;
  return {
    /** When the clock last jumped forward: during the jump nothing was tried, whatever patience ran out in it. */
    get jumpedAt() {
      return jumpedAt;
    },
    hasJumpedSince: (now: Instant) => now > last + jumpLeast,
    /** A round begins. True when the clock has been set back since the one before. */
    tick(now: Instant): boolean {
      const isSetBack = now < last - second;
      if (isSetBack) jumpedAt = Math.min(jumpedAt, now);
      if (now > last + jumpLeast) jumpedAt = now;
      last = now;
      return isSetBack;
    },
  };
}

export type Workqueue = ReturnType<typeof createWorkqueue>;

/**
 * Calls `work`, which must not throw, for each added job: at most `most` at once, never two for one job. A job that is added
 * during its pass gets one more afterwards, because that pass may have observed before the thing happened.
 */
export function createWorkqueue(options: {
  readonly most: number;
  readonly work: (id: string) => Promise<void>;
  /** Nothing waits or runs. */
  readonly quiet: () => void;
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
      if (running.size === 0 && waiting.size === 0 && !stopped) options.quiet();
    }
  }

  function next(): void {
    for (const id of waiting) {
      if (stopped || running.size >= options.most) return;
      waiting.delete(id);
      running.add(id);
      void run(id);
    }
  }

  return {
    /** Asks for a pass of that job. Several calls before the pass begins are one. */
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
    /** Begins nothing more; what runs goes on. */
    stop(): void {
      stopped = true;
      waiting.clear();
      again.clear();
    },
    /** Resolves when nothing runs. */
    settled(): Promise<void> {
      return running.size === 0 ? Promise.resolve() : new Promise((resolve) => listeners.push(resolve));
    },
  };
}

export type Admission = ReturnType<typeof createAdmission>;

/** Keeps the jobs that hold or wait for a slot, for `admit` to decide among. `wake` is called for each newly admitted job. */
export function createAdmission(options: {
  readonly slots: number;
  readonly wake: (id: string) => void;
  readonly now: () => Instant;
}) {
  const jobs = new Map<string, Job>();
  let admitted: ReadonlySet<string> = new Set();

  /** True when it changed who holds or waits. */
  function keep(job: Job): boolean {
    const before = jobs.get(job.id);
    if (holdsSlot(job) || waitsForSlot(job)) jobs.set(job.id, job);
    else jobs.delete(job.id);
    if (before === undefined) return jobs.has(job.id);
    return !jobs.has(job.id) || holdsSlot(before) !== holdsSlot(job) || before.wish?.at !== job.wish?.at;
  }

  function admitNow(): void {
    admitted = admit(options.slots, [...jobs.values()], options.now(), admitted);
  }

  return {
    /** Whether this job may go on. */
    ask(job: Job): boolean {
      // One that is not admitted may ask because its pause is over.
      if (takesTurns(job) && (keep(job) || !admitted.has(job.id))) admitNow();
      return isAdmitted(admitted, job);
    },
    /** The job after a commit. */
    note(job: Job): void {
      if (!takesTurns(job) || !keep(job)) return;
      const before = admitted;
      admitNow();
      for (const id of admitted) if (!before.has(id) && id !== job.id) options.wake(id);
    },
    /** All unfinished jobs, once, before the first pass. A job that waits for its turn has no due time of its own. */
    learn(unsettled: readonly Job[]): void {
      for (const job of unsettled) if (takesTurns(job)) keep(job);
      admitNow();
      for (const id of admitted) options.wake(id);
    },
  };
}

/**
 * When a controller has had nothing to do for `exitMs`; null: it never leaves. `isAnythingLeft` asks the store, because a client
 * may have created a job that this controller does not know.
 */
export function createIdle(options: {
  readonly clock: Clock;
  readonly exitMs: Duration | null;
  readonly isAtRest: () => boolean;
  readonly isAnythingLeft: () => Promise<boolean>;
}) {
  const { clock, exitMs, isAtRest } = options;
  let since: Instant | null = null;
  return {
    /** When it may leave if nothing happens until then; Infinity while something is left to do, and where it never leaves. */
    get exitAt(): Instant {
      return since === null || exitMs === null ? Infinity : since + exitMs;
    },
    /** Something is to be done: the wait begins again. */
    reset(): void {
      since = null;
    },
    /** True when it may leave. Never rejects. */
    async isOver(): Promise<boolean> {
      if (!isAtRest()) {
        since = null;
        return false;
      }
      since ??= clock.now();
      if (exitMs === null || clock.now() < since + exitMs) return false;
      try {
        if (!(await options.isAnythingLeft())) return isAtRest();
      } catch {
        // Without the store nothing says that nothing is left.
      }
      since = clock.now();
      return false;
    },
  };
}
