// The lab's part of the record: people, TPUs, windows and bookings, in the same file as the jobs (`store/lab.ts`). A change is one
// transaction that reads first, so that commands at the same time never undo each other. `change` functions are pure and quick,
// because others wait; they throw JobmanError to change nothing.

import type { Store } from '../app/ports.ts';
import type { Event } from '../core/decision.ts';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import type { PastJob } from './past-job.ts';
import type { LabUser } from './people.ts';
import type { LabTpu } from './tpus.ts';
import type { BookingRow } from './bookings.ts';

/**
 * Without `cleared`, windows on the list; `beside shown` adds the cleared ones of jobs that have another window on it. In the
 * order of their numbers.
 */
export interface WindowQuery {
  readonly user?: string;
  readonly jobs?: readonly string[];
  readonly cleared?: true | 'beside shown';
}

export interface LabAttempt {
  readonly window: LabWindow;
  readonly job: LabJob;
}

export interface LabEvent<Kind extends Event['kind'] = Event['kind']> {
  /** Grows with every event of any job, in the order in which they were written down. */
  readonly number: number;
  readonly job: string;
  readonly event: Extract<Event, { readonly kind: Kind }>;
}

export interface LabRecord {
  users(): Promise<readonly LabUser[]>;
  /** Throws JobmanError (4) when the name, the id, the session or a login is taken, naming what is. */
  addUser(user: Omit<LabUser, 'id'> & { readonly id: number | null }): Promise<LabUser>;
  /** Throws JobmanError (3) when there is no such user, (4) where the change takes what another has. The name and id stay. */
  changeUser(name: string, change: (user: LabUser) => LabUser): Promise<LabUser>;
  /** Takes the user off the registry; jobs and windows stay. Throws JobmanError (3) when there is none. */
  dropUser(name: string): Promise<void>;

  tpus(): Promise<readonly LabTpu[]>;
  tpuAliases(): Promise<ReadonlyMap<string, string>>;
  /** Puts a TPU in the registry or changes it. `change` is given what stands there. */
  changeTpu(name: string, change: (tpu: LabTpu | null) => LabTpu | null): Promise<void>;
  /** Sets an alias, or with null takes it away. Resolves with what it meant before. */
  setTpuAlias(alias: string, name: string | null): Promise<string | null>;

  /** Writes down what a run has said of its job. Once a job. */
  addJob(job: LabJob): Promise<void>;
  /** Writes down a job that has ended before this record knew of it; resolves with its id. Not safe to repeat. */
  addPastJob(past: PastJob): Promise<string>;
  /** Throws JobmanError (3) when the job is none of the lab's. */
  changeJob(job: string, change: (job: LabJob) => LabJob): Promise<LabJob>;
  job(job: string): Promise<LabJob | null>;
  jobs(user?: string): Promise<readonly LabJob[]>;
  /** The jobs of that user that are not finished, and those with these ids, removed ones too; specs are outlines. */
  lives(user: string, ids: readonly string[]): Promise<readonly Job[]>;

  /** As `Store.alike`: comparable jobs, of everyone. */
  alike: Store['alike'];

  /**
   * The window of that attempt; without one it gets the user's next number that no window on the list has. Throws JobmanError
   * (3) when the job is none of the lab's.
   */
  openWindow(job: string, attempt: number, now: Instant): Promise<LabAttempt & { readonly session: string }>;
  windows(query: WindowQuery): Promise<readonly LabAttempt[]>;
  /** The window `session:number` that is not cleared; null where there is none. */
  windowOf(session: string, window: number): Promise<LabAttempt | null>;
  /** Stores the report of `upd-log`; the same twice is once. Resolves with the window as it was; null where there is none. */
  report(session: string, window: number, report: WindowReport): Promise<LabAttempt | null>;
  /** Stores the time of `finish-job`; the first one counts. Resolves with the window as it was; null where there is none. */
  finish(session: string, window: number, at: Instant): Promise<LabAttempt | null>;
  markWindows(
    windows: readonly { readonly job: string; readonly attempt: number }[],
    mark: 'cleared' | 'closed',
    at: Instant,
  ): Promise<void>;

  bookings(): Promise<readonly BookingRow[]>;
  /** `change` is given what stands there; null takes the row away. */
  changeBooking(tpu: string, change: (booking: BookingRow | null) => BookingRow | null): Promise<void>;

  /** Events of these kinds of that user's jobs after the event of that number (0: from the beginning), oldest first. */
  eventsSince<Kind extends Event['kind']>(
    user: string,
    after: number,
    kinds: readonly Kind[],
  ): Promise<readonly LabEvent<Kind>[]>;

  /** Several changes as one: all of them stand, or none; for an import. `work` is given a record of the same transaction. */
  together<Answer>(work: (record: LabRecord) => Promise<Answer>): Promise<Answer>;
}

/** The facts of a `tpu run` that are not in the spec of its job. */
export interface LabJob {
  readonly job: string;
  /** Registry name; the same as the job's owner. */
  readonly user: string;
  /** The working directory as it was then, and its number; null where a script was run from elsewhere. */
  readonly directory: string;
  readonly directoryNumber: number | null;
  readonly tpu: string;
  /** Words for staging.sh behind `ka=`, in order, each as it is to arrive: `--config.training.learning_rate=0.01`. */
  readonly configs: readonly string[];
  readonly tag: string | null;
  /** False when it is not to be watched: no rule answers its end (`monitor=False`). */
  readonly monitor: boolean;
  readonly logStage: boolean;
  /** The attempt of another job that this one went on from or began again, on another TPU; null for most. */
  readonly father: { readonly job: string; readonly attempt: number; readonly how: 'resume' | 'rerun' } | null;
  /** The base of the first attempt's stage: father's stage + 1 after a resume, else 0. */
  readonly baseStage: number;
}

export interface LabWindow {
  readonly user: string;
  /** Unique among those of the user that are not cleared; never given again while one that is shown refers to it. */
  readonly window: number;
  readonly job: string;
  readonly attempt: number;
  /** The time at which the number was given, when its script began. */
  readonly openedAt: Instant;
  /** The report of `tpu upd-log`, as the script wrote it. */
  readonly report: WindowReport | null;
  readonly finishedAt: Instant | null;
  /** The time at which its tmux window was closed manually while the rest of the session stayed. */
  readonly closedAt: Instant | null;
  readonly clearedAt: Instant | null;
}

/** The words behind `tpu upd-log SESSION:WINDOW`. */
export interface WindowReport {
  /** Absolute, with `output.log` in it. */
  readonly logFolder: string;
  /** The frozen copy of the code that the attempt runs; absolute. */
  readonly stageFolder: string;
  readonly tpu: string;
  /** As the script wrote it: `20250420_011026`. */
  readonly startTime: string;
  readonly at: Instant;
}
