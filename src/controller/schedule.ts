// Schedule: when each job is to be observed next, and how the clock behaves. Pure but for what it remembers: it is told the
// time, and asks nobody.

import type { Clock } from '../app/ports.ts';
import { admit, holdsSlot, isAdmitted, takesTurns, waitsForSlot } from '../core/admit.ts';
import type { Job } from '../core/job.ts';
import { minute, second, type Duration, type Instant } from '../core/time.ts';

/** Waits longer than twice this end on its multiples: a zone is listed at most so often, however many jobs run there. */
const beat: Duration = 5 * second;
/** A job that is observed within this time is observed soon: a lost wake-up of it delays nothing for long. */
const soon: Duration = 5 * minute;
/** Between two rounds no more than a renewal's pace passes: a longer step is a clock that jumped, or a machine that slept. */
const jumpLeast: Duration = minute;

/** Whether the clock was set between these two times, or the machine slept: no look takes so long, and none ends before it begins. */
export function hasJumped(began: Instant, now: Instant): boolean {
  return now < began || now - began > jumpLeast;
}

/** When to observe a job that is to be observed by that time; always ahead of now where that time is. */
function onBeat(at: Instant, now: Instant): Instant {
  const wait = at - now;
  if (wait > 2 * beat) return Math.floor(at / beat) * beat;
  const grain = wait > 2 * second ? second : wait > second ? 100 : 1;
  return Math.ceil(at / grain) * grain;
}

/** A job that only a command of its owner can change is in none of these. */
export interface Schedule {
  readonly size: number;
  readonly ids: Iterable<string>;
  /** When the first job is due; Infinity without one. */
  readonly first: Instant;
  /**
   * Jobs of one zone are observed together, so that one question to the cloud serves all of them: a long wait ends on the
   * common beat before it, a shorter one on the next second. No job is observed later by that than its patience allows; an
   * exact time (the end of a pause, of a limit) is met by a short wait after an early observation.
   */
  set(id: string, at: Instant, now: Instant): void;
  remove(id: string): void;
  /** Removes the jobs that are due. */
  takeDue(now: Instant): readonly string[];
  /** The clock was set back: what was due "in ten seconds" would be due after as long as it went back. */
  makeAllDue(now: Instant): void;
  isSoon(id: string, now: Instant): boolean;
  /** The time of its next pass, as this controller has last written it to the store. */
  wrote(id: string, at: Instant): void;
  forgetWritten(id: string): void;
  /** True where the store must learn that time, because `Store.due` finds a job that is not observed soon by it. */
  isToBeWritten(id: string, at: Instant, now: Instant): boolean;
}

export function createSchedule(): Schedule {
  const due = new Map<string, Instant>();
  const written = new Map<string, Instant>();
  return {
    get size() {
      return due.size;
    },
    get ids() {
      return due.keys();
    },
    get first() {
      let first = Infinity;
      for (const at of due.values()) if (at < first) first = at;
      return first;
    },
    set: (id, at, now) => void due.set(id, onBeat(at, now)),
    remove: (id) => void due.delete(id),
    takeDue(now) {
      const taken: string[] = [];
      for (const [id, at] of due) if (at <= now) taken.push(id);
      for (const id of taken) due.delete(id);
      return taken;
    },
    makeAllDue(now) {
      for (const id of due.keys()) due.set(id, now);
    },
    isSoon: (id, now) => (due.get(id) ?? Infinity) <= now + soon,
    wrote: (id, at) => void written.set(id, at),
    forgetWritten: (id) => void written.delete(id),
    isToBeWritten: (id, at, now) => at > now + soon && Math.abs(at - (written.get(id) ?? 0)) > soon,
  };
}

/** The times of the rounds, and how the clock jumped between them. */
export interface ClockWatch {
  /** When the clock last jumped forward. Patience that ran out in the jump had nobody trying meanwhile. */
  readonly jumpedAt: Instant;
  /** True where the clock has jumped since the last round. */
  hasJumpedSince(now: Instant): boolean;
  /** A round begins. True when the clock has been set back since the one before. */
  tick(now: Instant): boolean;
}

export function createClockWatch(began: Instant): ClockWatch {
  let last = began;
  let jumpedAt: Instant = -Infinity;
  return {
    get jumpedAt() {
      return jumpedAt;
    },
    hasJumpedSince: (now) => now > last + jumpLeast,
    tick(now) {
      const isSetBack = now < last - second;
      if (isSetBack) jumpedAt = Math.min(jumpedAt, now);
      if (now > last + jumpLeast) jumpedAt = now;
      last = now;
      return isSetBack;
    },
  };
}

// Workqueue: which jobs are to be looked at, one pass per job at a time, a bounded number at once.
// It is level-triggered: an entry says "look at this job", never why. A job that is added while its pass runs is looked
// at once more afterwards, because that pass may have looked before the thing happened.

export interface Workqueue {
  /** Asks for a pass of that job. Several calls before the pass begins are one. */
  add(id: string): void;
  /** True while that job waits or is worked on. */
  has(id: string): boolean;
  /** How many jobs wait or are being worked on. */
  readonly size: number;
  /** Begins nothing more; what runs goes on. */
  stop(): void;
  /** Resolves when nothing runs. */
  settled(): Promise<void>;
}

/** Calls `work`, which must not throw, for each added job: at most `most` at once, never two for one job. */
export function createWorkqueue(options: {
  readonly most: number;
  readonly work: (id: string) => Promise<void>;
  readonly quiet: () => void;
}): Workqueue {
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
    add(id) {
      if (stopped) return;
      if (running.has(id)) again.add(id);
      else waiting.add(id);
      next();
    },
    has(id) {
      return waiting.has(id) || running.has(id);
    },
    get size() {
      return waiting.size + running.size;
    },
    stop() {
      stopped = true;
      waiting.clear();
      again.clear();
    },
    settled() {
      if (running.size === 0) return Promise.resolve();
      return new Promise((resolve) => listeners.push(resolve));
    },
  };
}

// Admission: keeps at hand the records of the jobs that take turns, so that each pass can be told whose turn it is.
// Who that is, core/admit.ts decides from the records alone.

export interface Admission {
  /** Whether this job may go on. */
  ask(job: Job): boolean;
  /** The record after a commit: whoever has his turn by it is woken. */
  note(job: Job): void;
  /** Who holds a slot and who waits, before the first pass. Called once. */
  learn(unsettled: readonly Job[]): void;
}

export function createAdmission(options: {
  readonly slots: number;
  readonly wake: (id: string) => void;
  readonly now: () => Instant;
}): Admission {
  const jobs = new Map<string, Job>();
  let admitted: ReadonlySet<string> = new Set();

  /** True when it changed who holds or waits, on which, beside the end of a pause, the turns depend. */
  function keep(job: Job): boolean {
    const before = jobs.get(job.id);
    if (holdsSlot(job) || waitsForSlot(job)) jobs.set(job.id, job);
    else jobs.delete(job.id);
    const isSame =
      before === undefined
        ? !jobs.has(job.id)
        : jobs.has(job.id) && holdsSlot(before) === holdsSlot(job) && before.wish?.at === job.wish?.at;
    return !isSame;
  }

  function admitNow(): void {
    admitted = admit(options.slots, [...jobs.values()], options.now(), admitted);
  }

  return {
    ask(job) {
      // One that is not admitted may ask because its pause is over.
      if (takesTurns(job) && (keep(job) || !admitted.has(job.id))) admitNow();
      return isAdmitted(admitted, job);
    },
    note(job) {
      if (!takesTurns(job) || !keep(job)) return;
      const before = admitted;
      admitNow();
      for (const id of admitted) if (!before.has(id) && id !== job.id) options.wake(id);
    },
    learn(unsettled) {
      for (const job of unsettled) if (takesTurns(job)) keep(job);
      admitNow();
      // A job that waits for its turn has no time of its own.
      for (const id of admitted) options.wake(id);
    },
  };
}

// Idle: when a controller has had nothing to do for so long that it leaves.

export interface Idle {
  /** When it may leave, if nothing happens until then; Infinity while something is left to do, and where it never leaves. */
  readonly exitAt: Instant;
  /** Something is to be done: the wait begins again. */
  reset(): void;
  /** Counts from now where it is at rest; true when it may leave. Never rejects. */
  isOver(): Promise<boolean>;
}

/** `isAnythingLeft` asks the store: a job may have been created, or one may have a time that this controller does not know. */
export function createIdle(options: {
  readonly clock: Clock;
  readonly exitMs: Duration | null;
  readonly isAtRest: () => boolean;
  readonly isAnythingLeft: () => Promise<boolean>;
}): Idle {
  const { clock, exitMs, isAtRest } = options;
  let since: Instant | null = null;
  return {
    get exitAt() {
      return since === null || exitMs === null ? Infinity : since + exitMs;
    },
    reset() {
      since = null;
    },
    async isOver() {
      if (!isAtRest()) {
        since = null;
        return false;
      }
      since ??= clock.now();
      if (exitMs === null || clock.now() < since + exitMs) return false;
      try {
        if (!(await options.isAnythingLeft())) return isAtRest();
      } catch {
        // Without the store nobody can say that nothing is left.
      }
      since = clock.now();
      return false;
    },
  };
}
