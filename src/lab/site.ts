// Site: what is true of one lab only: its zones, shared disks and Python. All of it is in the section `lab` of the settings.

import { isAbsolute, join, resolve } from 'node:path';
import type { LabSettings } from '../app/settings.ts';
import type { Duration } from '../core/time.ts';

export interface Site {
  readonly zones: readonly string[];
  /** NFS shares that every TPU of a zone mounts, in order. */
  readonly shares: readonly Share[];
  /** The conda environment that scripts and `check-env` use; null: the system's Python. */
  readonly condaEnvironment: string | null;
  /** The Python that `check-env` runs on the workers, absolute there; null: `python3`. */
  readonly python: string | null;
  /** A file of this machine that holds the W&B key, absolute; null: nobody logs in to W&B. The key itself is in no setting. */
  readonly wandbKeyFile: string | null;
  /** The login on the workers and the private key file that opens it, as a manifest has them; null: jobman's own. */
  readonly remoteUser: string | null;
  readonly privateKey: string | null;
  /** The beginning of a TPU's name that is not shown (`kmh-tpuvm-`), or empty. */
  readonly namePrefix: string;
  /** The limit of resumes by rules for a job of `tpu run`. */
  readonly stageLimit: number;
  /** The longest silence of a program after a failed call between workers before it counts as hung. */
  readonly hangGrace: Duration;
  /** The spreadsheet that bookings are in; null: the table of the record. */
  readonly spreadsheet: Spreadsheet | null;
}

export interface Share {
  /** `10.0.0.2:/kmh_nfs_ssd`. */
  readonly source: string;
  readonly target: string;
  /** The zones whose TPUs mount it, with `*` as in shells; empty: all. */
  readonly zones: readonly string[];
  /** Options of mount(8); empty: `vers=3`. */
  readonly options: string;
}

export interface Spreadsheet {
  readonly id: string;
  /** The tab; null: the first. */
  readonly tab: string | null;
  /** A file of this machine with a service account's key, as Google gives it out, absolute. */
  readonly credentials: string;
  /** Another address of the Sheets API, for tests. */
  readonly endpoint: string | null;
}

/** Relative paths of this machine are meant from `home`, which is `$JOBMAN_HOME`. */
export function siteOf(
  settings: LabSettings,
  { home, userHome }: { readonly home: string; readonly userHome: string },
): Site {
  const { zones, shares, wandbKeyFile, privateKey, spreadsheet } = settings;
  const whole = (path: string): string => {
    if (path === '~' || path.startsWith('~/')) return join(userHome, path.slice(1));
    return isAbsolute(path) ? path : resolve(home, path);
  };
  return {
    zones: [...new Set(zones)],
    shares: shares.map((share) => ({
      source: share.source,
      target: share.target.replace(/\/+$/, ''),
      zones: share.zones ?? [],
      options: share.options ?? 'vers=3',
    })),
    condaEnvironment: settings.condaEnvironment,
    python: settings.python,
    wandbKeyFile: wandbKeyFile === null ? null : whole(wandbKeyFile),
    remoteUser: settings.remoteUser,
    privateKey: privateKey === null ? null : whole(privateKey),
    namePrefix: settings.namePrefix,
    stageLimit: settings.stageLimit,
    hangGrace: settings.hangGraceMs,
    spreadsheet:
      spreadsheet === null
        ? null
        : {
            id: spreadsheet.id,
            tab: spreadsheet.tab ?? null,
            credentials: whole(spreadsheet.credentials),
            endpoint: spreadsheet.endpoint ?? null,
          },
  };
}
