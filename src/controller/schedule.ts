// Schedule: when each job is to be observed next, and how the clock behaves. Pure but for what it remembers: it is told the
// time, and asks nobody.

import { minute, second } from '../core/time.ts';
import type { Duration, Instant } from '../core/time.ts';

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
