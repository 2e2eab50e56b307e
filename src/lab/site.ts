// Facts of one lab: zones, shared disks and Python. All of them are in the `lab` section of the settings.

import { resolveSettingPath, type LabSettings } from '../app/settings.ts';
import type { Duration } from '../core/model/time.ts';

/** The settings with absolute local paths and complete shares. */
export interface Site {
  readonly zones: readonly string[];
  readonly condaEnvironment: string | null;
  readonly python: string | null;
  readonly wandbKeyFile: string | null;
  readonly remoteUser: string | null;
  readonly privateKey: string | null;
  readonly namePrefix: string;
  readonly stageLimit: number;
  readonly hangGraceMs: Duration;
  /** NFS shares that every TPU of a zone mounts, in order. */
  readonly shares: readonly NfsShare[];
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
  const resolvePath = (path: string): string => resolveSettingPath(path, { home, userHome });
  return {
    ...settings,
    zones: [...new Set(zones)],
    shares: shares.map(({ source, target, zones: inZones = [], options = 'vers=3' }) => ({
      source,
      target: target.replace(/\/+$/, ''),
      zones: inZones,
      options,
    })),
    wandbKeyFile: wandbKeyFile === null ? null : resolvePath(wandbKeyFile),
    privateKey: privateKey === null ? null : resolvePath(privateKey),
    spreadsheet:
      spreadsheet === null
        ? null
        : { tab: null, endpoint: null, ...spreadsheet, credentials: resolvePath(spreadsheet.credentials) },
  };
}
