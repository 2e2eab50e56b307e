// Facts of one lab: zones, shared disks and Python. All of them are in the `lab` section of the settings.

import { isAbsolute, join, resolve } from 'node:path';
import type { LabSettings } from '../app/settings.ts';
import type { Duration } from '../core/model/time.ts';

export interface Site {
  readonly zones: readonly string[];
  /** NFS shares that every TPU of a zone mounts, in order. */
  readonly shares: readonly NfsShare[];
  /** The conda environment of scripts and `check-env`; null: the system's Python. */
  readonly condaEnvironment: string | null;
  /** Absolute path of the workers' Python for `check-env`; null: `python3`. */
  readonly python: string | null;
  /** Absolute path of a local file with the W&B key; null: no login to W&B. No setting contains the key itself. */
  readonly wandbKeyFile: string | null;
  /** The login on the workers and its private key file, as in a manifest; null: jobman's own. */
  readonly remoteUser: string | null;
  readonly privateKey: string | null;
  /** A prefix of TPU names that is not shown (`kmh-tpuvm-`); may be empty. */
  readonly namePrefix: string;
  /** Maximum number of resumes by rules for a job of `tpu run`. */
  readonly stageLimit: number;
  /** A program counts as hung after this silence that follows a failed call between workers. */
  readonly hangGrace: Duration;
  /** The spreadsheet with the bookings; null: the table of the database. */
  readonly spreadsheet: Spreadsheet | null;
}

export interface NfsShare {
  /** `10.0.0.2:/kmh_nfs_ssd`. */
  readonly source: string;
  readonly target: string;
  /** Zones whose TPUs mount it, with `*` as in shells; empty: all. */
  readonly zones: readonly string[];
  /** Options of mount(8); empty: `vers=3`. */
  readonly options: string;
}

export interface Spreadsheet {
  readonly id: string;
  /** Null: the first tab. */
  readonly tab: string | null;
  /** Absolute path of a local file with a service account key in Google's JSON format. */
  readonly credentials: string;
  /** Replaces Google's address in tests. */
  readonly endpoint: string | null;
}

/** Relative local paths start at `home`, which is `$JOBMAN_HOME`. */
export function siteOf(
  settings: LabSettings,
  { home, userHome }: { readonly home: string; readonly userHome: string },
): Site {
  const { zones, shares, wandbKeyFile, privateKey, spreadsheet } = settings;
  const resolvePath = (path: string): string => {
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
    wandbKeyFile: wandbKeyFile === null ? null : resolvePath(wandbKeyFile),
    remoteUser: settings.remoteUser,
    privateKey: privateKey === null ? null : resolvePath(privateKey),
    namePrefix: settings.namePrefix,
    stageLimit: settings.stageLimit,
    hangGrace: settings.hangGraceMs,
    spreadsheet:
      spreadsheet === null
        ? null
        : {
            id: spreadsheet.id,
            tab: spreadsheet.tab ?? null,
            credentials: resolvePath(spreadsheet.credentials),
            endpoint: spreadsheet.endpoint ?? null,
          },
  };
}
