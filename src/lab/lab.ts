// Lab: all that the `tpu` command may ask for beside jobs. `wiring/lab.ts` builds it; each part is loaded when it is asked for.

import type { Services } from '../app/services.ts';
import type { OldJobFolder } from './import-jobs.ts';
import type { LabRecord } from './record.ts';
import type { Site } from './site.ts';
import type { TpuDesk } from './tpu-desk.ts';
import type { BookingSheet } from './bookings.ts';

export interface Lab {
  readonly record: LabRecord;
  /** The facts of this site. Throws JobmanError with every problem of the settings. */
  site(): Promise<Site>;
  sheet(): Promise<BookingSheet>;
  /**
   * The operations on the TPUs themselves. `note` is called when a cloud had to be started for that; `owner` is the person
   * whose name a new TPU gets, by default the login. To be closed after use.
   */
  tpus(note?: (line: string) => void, owner?: string): Promise<TpuDesk>;
  /** tmux where it is installed, else what stands in for it. */
  windows(): Promise<WindowHost>;
  /** Has the controller look at those jobs now, and starts one where none runs. Resolves with what to tell the user, if anything. */
  lookNow(jobs: readonly string[]): Promise<string | null>;
  /** Throws the StoreError of a copied home whose original is still there: what a copy does to TPUs is done to the original's. */
  expectOriginal(): Promise<void>;
  /** Closes the record. What else was asked for is closed by whoever asked for it. */
  close(): Promise<void>;
}

/** What the `tpu` command is given: the services of every command, and the lab. */
export interface LabServices extends Services {
  /** Opens nothing yet. */
  lab(): Promise<Lab>;
  /** The folder that all of it is in, for the group of logins that shares it. */
  labHome(): Promise<LabHome>;
}

// ------------------------------------------------------------------------------------------ window host

export interface WindowHost {
  /** Null where no tmux is installed. */
  readonly tmux: { readonly path: string; readonly version: string } | null;
  /**
   * Opens the window of that number in that session, both made if need be, showing what `argv` prints. Exact names only. Null
   * where there is no tmux, or where another window has that number already: then nothing is shown and nothing is disturbed.
   */
  open(
    window: WindowRef,
    options: {
      readonly title: string;
      /** What makes the window ours, written on it: `000012/1`, the job and its attempt. */
      readonly mark: string;
      readonly argv: readonly string[];
    },
  ): Promise<Pane | null>;
  /**
   * What a window of an attempt shows: its output as it comes, and at the end how it ended, until somebody closes the window;
   * then `closed` is run. `folder` is the attempt's run folder on this machine, `about` begins the last line, and `next` is
   * what may be typed then.
   */
  shower(of: {
    readonly folder: string;
    readonly about: string;
    readonly next: string;
    readonly closed: readonly string[];
  }): readonly string[];
  /** The windows of that session that are ours, by number; null where the session is not there. */
  list(session: string): Promise<readonly number[] | null>;
  /** Closes a window of ours. False where it is not there or is not ours. */
  close(window: WindowRef): Promise<boolean>;
}

export interface WindowRef {
  readonly session: string;
  readonly window: number;
}

/** What a script in that window finds as TMUX and TMUX_PANE. */
export interface Pane {
  readonly tmux: string;
  readonly pane: string;
}

// ------------------------------------------------------------------------------------------ lab home

/** What can be done with the home as a whole. */
export interface LabHome {
  /**
   * Makes the home one that this group of the system shares, with all that is in it; safe to repeat. Resolves with what was
   * done, a sentence each. Throws JobmanError: (3) there is no such group, (4) a controller runs in the home, (1) the system
   * does not let this login do it.
   */
  share(group: string): Promise<readonly string[]>;
  /** What in a shared home has another mode or group than it should; null where the home is its owner's alone. */
  wrong(): Promise<readonly WrongMode[] | null>;
  /**
   * Keeps a secret in a file of the home that only this login may read, unless one of that name is there. Resolves with the
   * file, absolute, and whether it was written now.
   */
  keepSecret(name: string, value: string): Promise<{ readonly file: string; readonly isNew: boolean }>;
  /**
   * Copies the manifest and the logs of a job that was taken over into the folder of the job here. Files that are not regular files
   * of `root` are left out; resolves with a sentence for each. Throws StoreError when it cannot write.
   */
  takeFiles(job: FilesTarget, root: string, from: Pick<OldJobFolder, 'path' | 'logs'>): Promise<readonly string[]>;
}

/** The job whose files are copied. One that is not new gets only the files that it lacks. */
export interface FilesTarget {
  readonly id: string;
  readonly owner: string;
  readonly isNew: boolean;
}

export interface WrongMode {
  /** Absolute. */
  readonly path: string;
  /** `0600, should be 0660`. */
  readonly says: string;
}

/** What something in the home is. */
export interface HomeEntry {
  /** The names from the home down to it; none for the home itself. */
  readonly path: readonly string[];
  readonly isFolder: boolean;
  /** Its permission bits, with setuid, setgid and sticky. */
  readonly mode: number;
}

/**
 * The mode that it should have in a shared home; null where it stays as it is, with all that is in it: the built-in cloud is
 * its starter's, the folder of a run is that of the login whose controller runs it, a secret is its owner's anywhere, and a copy of a working
 * directory is as that was.
 */
export function sharedMode({ path, isFolder, mode }: HomeEntry): number | null {
  const [top = '', ...rest] = path;
  if (top === 'emulator' || top === 'secrets') return null;
  // runs/<job>/<worker>/ takes the runs of any login; what is in it belongs to the one.
  if (top === 'runs' && rest.length > 2) return null;
  // jobs/<user>/<job>/secrets; and workdir/<n>/files, whose copies keep the modes that they were made of.
  if (top === 'jobs' && (rest[2] === 'secrets' || (rest[2] === 'workdir' && rest[4] === 'files'))) return null;
  // The pins of hosts and the public halves of keys are for all; what else lies beside them is a private key.
  if (top === 'ssh' && !isFolder && rest[0] !== 'known_hosts' && !/\.pub$|\.sock$/.test(rest[0] ?? '')) return null;
  if (isFolder) return 0o2770;
  // What its owner may run the group may run.
  return (mode & 0o100) === 0 ? 0o660 : 0o770;
}
