// Lab home: which modes the files of a home have that a group of logins shares (lab mode). The port is in wiring/lab-home.ts.

import type { OldJobFolder } from './import-jobs.ts';

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
