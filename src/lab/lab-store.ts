// The lab's tables: users, TPUs, windows and bookings, in the database of the jobs (`store/lab.ts`). A change is one
// transaction that reads first, so that concurrent commands do not overwrite each other.

import type { AuditEntry } from '../app/audit.ts';
import type { LabJob } from '../app/lab-job.ts';
import type { Store } from '../app/ports.ts';
import type { Event } from '../core/model/event.ts';
import type { Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import type { BookingCommand, LabChange, TpuCommands, UserCommands } from './service.ts';
import type { SheetChange } from './sheet-outbox.ts';
import type { LabUser } from './users.ts';
import type { LabTpu } from './tpus.ts';
import type { BookingRow } from './bookings.ts';

export type { LabJob } from '../app/lab-job.ts';

/** Without `cleared`: windows on the list. `of listed jobs` adds the cleared windows of their jobs. */
export interface WindowQuery {
  readonly user?: string;
  readonly jobs?: readonly string[];
  readonly cleared?: true | 'of listed jobs';
}

export interface WindowWithJob {
  readonly window: LabWindow;
  readonly job: LabJob;
}

export interface LabEvent<Kind extends Event['kind'] = Event['kind']> {
  /** Grows with every stored event of any job. */
  readonly number: number;
  readonly job: string;
  readonly event: Extract<Event, { readonly kind: Kind }>;
}

export interface LabStore extends TpuCommands, UserCommands {
  users(): Promise<readonly LabUser[]>;
  /** Throws JobmanError (4) if the name, id, session or a login is taken. */
  addUser(user: Omit<LabUser, 'id'> & { readonly id: number | null }, audit?: AuditEntry): Promise<LabUser>;
  /** Removes the user from the registry; jobs and windows stay. Throws JobmanError (3) if the user does not exist. */
  removeUser(name: string, audit?: AuditEntry): Promise<void>;

  tpus(): Promise<readonly LabTpu[]>;
  tpuAliases(): Promise<ReadonlyMap<string, string>>;

  addJob(job: LabJob): Promise<void>;
  /** Throws JobmanError (3) if the lab does not know the job. */
  tagJob(job: string, tag: string): Promise<void>;
  job(job: string): Promise<LabJob | null>;
  jobs(user?: string): Promise<readonly LabJob[]>;
  /** The user's unfinished jobs, and the jobs with these ids, including removed ones. Their specs are outlines. */
  jobStates(user: string, ids: readonly string[]): Promise<readonly Job[]>;

  similarJobs: Store['similarJobs'];

  /** The attempt's window, or a new one with the user's next number. Throws JobmanError (3) for an absent job. */
  openWindow(job: string, attempt: number, now: Instant): Promise<WindowWithJob & { readonly session: string }>;
  windows(query: WindowQuery): Promise<readonly WindowWithJob[]>;
  findWindow(session: string, window: number): Promise<WindowWithJob | null>;
  /** Stores the report of `upd-log`; safe to repeat. Returns the window as it was, or null. */
  reportWindow(session: string, window: number, report: WindowReport): Promise<WindowWithJob | null>;
  /** Stores the time of `finish-job`; the first one counts. Returns the window as it was, or null. */
  finishWindow(session: string, window: number, at: Instant): Promise<WindowWithJob | null>;
  setWindowState(
    windows: readonly { readonly job: string; readonly attempt: number }[],
    state: 'cleared' | 'closed',
    at: Instant,
  ): Promise<void>;

  bookings(): Promise<readonly BookingRow[]>;
  /** Null: no row. Throws the JobmanError of the command. */
  changeBooking(
    tpu: string,
    command: BookingCommand,
    at: Instant,
  ): Promise<{ readonly before: BookingRow | null; readonly after: BookingRow | null }>;

  /** By persistent TPU: when the command of a job last ended there. Only those after `since`. */
  lastUses(since: Instant): Promise<ReadonlyMap<string, Instant>>;

  /** Changes of the spreadsheet that it does not have yet, in their order. */
  sheetChanges(): Promise<readonly SheetChange[]>;
  addSheetChange(tpu: string, command: BookingCommand, at: Instant): Promise<void>;
  /** Takes the change for this process until then. False if another process has taken or ended it. */
  claimSheetChange(change: SheetChange, until: Instant): Promise<boolean>;
  /** Records a failed try; null: the sheet has the change. It ends refused changes of the TPU that are older. */
  endSheetChange(change: SheetChange, failure: Pick<SheetChange, 'error' | 'nextAt'> | null): Promise<void>;

  /** Events after the given number (0: all), oldest first. */
  eventsSince<Kind extends Event['kind']>(
    user: string,
    after: number,
    kinds: readonly Kind[],
  ): Promise<readonly LabEvent<Kind>[]>;

  /**
   * Performs the changes of an import in one transaction, in order. Returns the id of the job for each change that adds
   * one, else null. A job whose window is stored already is not added again. The events of added jobs are not news.
   */
  applyChanges(changes: readonly LabChange[]): Promise<readonly (string | null)[]>;
}

/** The part for commands on any machine; the rest needs the machine of the database. */
export type SharedLabStore = Pick<
  LabStore,
  | 'users'
  | 'addUser'
  | 'changeUser'
  | 'removeUser'
  | 'tpus'
  | 'tpuAliases'
  | 'changeTpu'
  | 'removeTpu'
  | 'setTpuAlias'
  | 'jobs'
  | 'tagJob'
  | 'windows'
  | 'openWindow'
  | 'setWindowState'
  | 'eventsSince'
>;

export interface LabWindow {
  readonly user: string;
  /** Unique among the user's uncleared windows. Not reused while a listed window refers to it. */
  readonly window: number;
  readonly job: string;
  readonly attempt: number;
  /** The time when the script began and got the number. */
  readonly openedAt: Instant;
  readonly report: WindowReport | null;
  readonly finishedAt: Instant | null;
  /** The time when the user closed its tmux window and left the rest of the session open. */
  readonly closedAt: Instant | null;
  readonly clearedAt: Instant | null;
}

/** The arguments of `tpu upd-log SESSION:WINDOW`. */
export interface WindowReport {
  /** Absolute. Contains `output.log`. */
  readonly logFolder: string;
  /** The frozen copy of the code that the attempt runs; absolute. */
  readonly stageFolder: string;
  readonly tpu: string;
  /** As the script wrote it: `20250420_011026`. */
  readonly startTime: string;
  readonly at: Instant;
}
