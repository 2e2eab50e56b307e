// The parts of the `tpu` command in addition to jobs. `wiring/lab.ts` builds them; each part loads on first use.

import type { Client } from '../app/client.ts';
import type { Services } from '../app/services.ts';
import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import type { OldJobFolder } from './import-job-folders.ts';
import type { CheckRow } from './check-rows.ts';
import type { LabStore, SharedLabStore } from './lab-store.ts';
import type { Site } from './site.ts';
import type { TpuOperations } from './tpu-operations.ts';
import type { BookingSheet } from './bookings.ts';
import type { LabUser } from './users.ts';

export interface Lab {
  /** True if the lab is that of a server: its folders and windows are not on this machine. */
  readonly isOnServer: boolean;
  readonly store: SharedLabStore;
  /** All tables. Throws an Error for the lab of a server. */
  localStore(): LabStore;
  /** Throws JobmanError with every problem of the settings. */
  site(): Promise<Site>;
  /** The Google Cloud project of its TPUs; null if the settings name none. */
  project(): Promise<string | null>;
  /** Throws JobmanError (3) if no folder has this absolute path. */
  checkFolder(path: string): Promise<Pick<DirectoryFacts, 'hasScript'>>;
  /** Throws JobmanError: (2) for an invalid number, (3) if the number has no folder. */
  directory(user: string, number: number): Promise<DirectoryFacts>;
  /** The rows of `tpu check`. */
  checkRows(user: LabUser, now: Instant): Promise<readonly CheckRow[]>;
  sheet(): Promise<BookingSheet>;
  /** Close them after use. */
  tpus(note?: (line: string) => void): Promise<TpuOperations>;
  tmuxWindows(): Promise<TmuxWindows>;
  /** Lets the controller check the jobs now, and starts it if needed. Returns a message for the user, or null. */
  checkNow(jobs: readonly string[], client: Pick<Client, 'wake'>): Promise<string | null>;
  /** Throws the StoreError of a copied home whose original still exists: both control the same TPUs. */
  assertOriginalHome(): Promise<void>;
  /** Closes the database. Callers close the other parts. */
  close(): Promise<void>;
}

/** A working directory as it is now. */
export interface DirectoryFacts {
  /** Absolute. */
  readonly path: string;
  readonly exists: boolean;
  /** It has `staging.sh`, which `tpu run` needs. */
  readonly hasScript: boolean;
  /** The text of `ka.sh`, which may name a TPU; null without it. */
  readonly tpuScript: string | null;
}

export interface LabServices extends Services {
  lab(): Promise<Lab>;
  labHome(): Promise<LabHome>;
  /** The client of the actor that this login is when a line names that user. It shares the database of `client()`. */
  clientAs(user: UserName | null): Promise<Client>;
}

export interface TmuxWindows {
  readonly tmux: { readonly path: string; readonly version: string } | null;
  /** Shows the output of `argv` in the window. Returns null if tmux is missing or another window has the number. */
  open(
    window: WindowRef,
    options: {
      readonly title: string;
      /** Identifies the window as ours: `000012/1`, the job and its attempt. */
      readonly label: string;
      readonly argv: readonly string[];
    },
  ): Promise<Pane | null>;
  /** Shows output and result until the window is closed, then runs `onClosed`. `title` begins the last line. */
  viewerCommand(of: {
    readonly folder: string;
    readonly title: string;
    readonly nextCommand: string;
    readonly onClosed: readonly string[];
  }): readonly string[];
  /** Numbers of our windows in the session; null if the session does not exist. */
  list(session: string): Promise<readonly number[] | null>;
  /** Closes one of our windows. False if it does not exist or is not ours. */
  close(window: WindowRef): Promise<boolean>;
}

export interface WindowRef {
  readonly session: string;
  readonly window: number;
}

/** The values of TMUX and TMUX_PANE in the window. */
export interface Pane {
  readonly tmux: string;
  readonly pane: string;
}

export interface LabHome {
  /**
   * Safe to repeat; a sentence per change. Throws JobmanError: 3 unknown group, 4 a controller runs, 1 no permission.
   */
  share(group: string): Promise<readonly string[]>;
  /** The logins of this machine with the name; null if the home is not shared, so that one login is for all users. */
  loginsNamed(name: string): Promise<readonly string[] | null>;
  /** Files of a shared home with a wrong mode or group; null if the home is not shared. */
  wrongModes(): Promise<readonly WrongMode[] | null>;
  /** Writes a secret to a file that only this login can read, unless the file exists. `file` is absolute. */
  saveSecret(name: string, value: string): Promise<{ readonly file: string; readonly isNew: boolean }>;
  /** Returns a sentence for each file that is not a regular file of `root` and so not copied. Throws StoreError. */
  copyJobFiles(
    job: JobFilesTarget,
    root: string,
    from: Pick<OldJobFolder, 'path' | 'logs'>,
  ): Promise<readonly string[]>;
}

export interface JobFilesTarget {
  readonly id: string;
  readonly owner: string;
  readonly isNew: boolean;
}

export interface WrongMode {
  readonly path: string;
  /** `0600, should be 0660`. */
  readonly message: string;
}

/** The mode of an entry in a shared home; null if it and its contents belong to one login and stay unchanged. */
export function sharedMode(entry: {
  /** Names from the home down to the entry; empty for the home itself. */
  readonly path: readonly string[];
  readonly isFolder: boolean;
  readonly mode: number;
}): number | null {
  const { path, isFolder, mode } = entry;
  const [top = '', ...rest] = path;
  if (top === 'emulator' || top === 'secrets') return null;
  // Every login may add runs to runs/<job>/<worker>/. The contents of a run belong to its login.
  if (top === 'runs' && rest.length > 2) return null;
  // jobs/<user>/<job>/secrets; and workdir/<n>/files, whose copies keep their original modes.
  if (top === 'jobs' && (rest[2] === 'secrets' || (rest[2] === 'workdir' && rest[4] === 'files'))) return null;
  // Host keys, public keys and sockets are shared. Any other file in ssh is a private key.
  if (top === 'ssh' && !isFolder && rest[0] !== 'known_hosts' && !/\.pub$|\.sock$/.test(rest[0] ?? '')) return null;
  if (isFolder) return 0o2770;
  return (mode & 0o100) === 0 ? 0o660 : 0o770;
}
