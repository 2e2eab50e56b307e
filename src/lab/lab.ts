// Lab: all that the `tpu` command asks for in addition to jobs. `wiring/lab.ts` builds it; each part is loaded when it is asked
// for.

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
  windows(): Promise<WindowHost>;
  /** Has the controller look at those jobs now, and starts one where none runs. Resolves with what to tell the user, if anything. */
  lookNow(jobs: readonly string[]): Promise<string | null>;
  /** Throws the StoreError of a copied home whose original is still there: what a copy does to TPUs is done to the original's. */
  expectOriginal(): Promise<void>;
  /** Closes the record. What else was asked for is closed by whoever asked for it. */
  close(): Promise<void>;
}

export interface LabServices extends Services {
  lab(): Promise<Lab>;
  labHome(): Promise<LabHome>;
}

export interface WindowHost {
  readonly tmux: { readonly path: string; readonly version: string } | null;
  /**
   * Opens that window of that session, both made if need be, showing what `argv` prints. Null, and nothing is disturbed, where
   * there is no tmux or another window has that number.
   */
  open(
    window: WindowRef,
    options: {
      readonly title: string;
      /** The mark on the window that makes it ours: `000012/1`, the job and its attempt. */
      readonly mark: string;
      readonly argv: readonly string[];
    },
  ): Promise<Pane | null>;
  /**
   * The program of an attempt's window: it shows the output, and how it ended, until the window is closed; then `closed` runs. `folder` is
   * the attempt's run folder on this machine, `about` begins the last line, `next` is what may be typed then.
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

/** The values of TMUX and TMUX_PANE for a script in that window. */
export interface Pane {
  readonly tmux: string;
  readonly pane: string;
}

export interface LabHome {
  /**
   * Makes the home, with all that is in it, one that this group of the system shares; safe to repeat. Resolves with a sentence
   * for each change. Throws JobmanError: (3) no such group, (4) a controller runs in the home, (1) the system does not let this
   * login do it.
   */
  share(group: string): Promise<readonly string[]>;
  /** Files of a shared home with another mode or group than they should have; null where the home is its owner's alone. */
  wrong(): Promise<readonly WrongMode[] | null>;
  /**
   * Keeps a secret in a file that only this login may read, unless one of that name exists. Resolves with its absolute path and
   * whether it is new.
   */
  keepSecret(name: string, value: string): Promise<{ readonly file: string; readonly isNew: boolean }>;
  /**
   * Copies the manifest and the logs of an imported job into the folder of the job here. Files that are not regular files of
   * `root` are left out, with a sentence each. Throws StoreError when it cannot write.
   */
  takeFiles(job: FilesTarget, root: string, from: Pick<OldJobFolder, 'path' | 'logs'>): Promise<readonly string[]>;
}

export interface FilesTarget {
  readonly id: string;
  readonly owner: string;
  readonly isNew: boolean;
}

export interface WrongMode {
  readonly path: string;
  /** `0600, should be 0660`. */
  readonly says: string;
}

/**
 * The mode that it should have in a shared home; null where it and all that is in it stay as they are, because they belong to
 * one login.
 */
export function sharedMode(entry: {
  /** The names from the home down to it; none for the home itself. */
  readonly path: readonly string[];
  readonly isFolder: boolean;
  readonly mode: number;
}): number | null {
  const { path, isFolder, mode } = entry;
  const [top = '', ...rest] = path;
  if (top === 'emulator' || top === 'secrets') return null;
  // runs/<job>/<worker>/ takes the runs of any login; what is in it belongs to the one.
  if (top === 'runs' && rest.length > 2) return null;
  // jobs/<user>/<job>/secrets; and workdir/<n>/files, whose copies keep the modes that they were made of.
  if (top === 'jobs' && (rest[2] === 'secrets' || (rest[2] === 'workdir' && rest[4] === 'files'))) return null;
  // The pins of hosts and the public halves of keys are for all; what else lies beside them is a private key.
  if (top === 'ssh' && !isFolder && rest[0] !== 'known_hosts' && !/\.pub$|\.sock$/.test(rest[0] ?? '')) return null;
  if (isFolder) return 0o2770;
  return (mode & 0o100) === 0 ? 0o660 : 0o770;
}
