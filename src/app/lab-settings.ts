// Settings of a lab that shares its TPUs, the section `lab`: what may stand there. What it means is in src/lab/site.ts.

import { minute, type Duration } from '../core/time.ts';
import { zoneMeant, zones as knownZones } from '../core/zones.ts';

/** The section as it is written: paths may begin with `~/` or be relative to `$JOBMAN_HOME`. */
export interface LabSettings {
  readonly zones: readonly string[];
  readonly shares: readonly ShareSetting[];
  readonly condaEnvironment: string | null;
  readonly python: string | null;
  readonly wandbKeyFile: string | null;
  readonly remoteUser: string | null;
  readonly privateKey: string | null;
  readonly namePrefix: string;
  readonly stageLimit: number;
  readonly hangGraceMs: Duration;
  readonly spreadsheet: SpreadsheetSetting | null;
}

export interface ShareSetting {
  readonly source: string;
  readonly target: string;
  readonly zones?: readonly string[];
  readonly options?: string;
}

export interface SpreadsheetSetting {
  readonly id: string;
  readonly tab?: string | null;
  readonly credentials: string;
  readonly endpoint?: string | null;
}

/** What may stand at one part of an object, and whether it has to. */
export interface Part {
  readonly words: string;
  readonly isRight: (value: unknown) => boolean;
  readonly isNeeded?: true;
  /** What was most likely meant by something that is wrong. */
  readonly meant?: (value: unknown) => string | undefined;
}

export const defaultLabSettings: LabSettings = {
  zones: [],
  shares: [],
  condaEnvironment: null,
  python: null,
  wandbKeyFile: null,
  remoteUser: null,
  privateKey: null,
  namePrefix: '',
  stageLimit: 10,
  hangGraceMs: 5 * minute,
  spreadsheet: null,
};

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== '';
/** A word that no shell and no command line reads as something else. */
const isPlain = (value: unknown): value is string => isText(value) && /^[^\s'"\\`$;|&<>*?]+$/u.test(value);

/** A list of zones is right when each of them could be one: Google adds zones, so an unknown one may be right. */
export function isZoneList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string' && /^[a-z]+-[a-z]+\d+-[a-z]$/.test(one));
}

/** The zone that was most likely meant by the first of a list that is none. */
export function zoneSlip(value: unknown): string | undefined {
  const wrong = Array.isArray(value) ? value.find((one) => !isZoneList([one])) : value;
  const meant = typeof wrong === 'string' ? zoneMeant(wrong) : undefined;
  return meant !== undefined && knownZones.includes(meant) ? meant : undefined;
}

/** The parts of one entry of `lab.shares`. */
export const shareParts: Readonly<Record<keyof ShareSetting, Part>> = {
  source: {
    words: 'an NFS export like "10.0.0.2:/home"',
    isRight: (value) => isPlain(value) && /^[^:]+:\/.*$/.test(value),
    isNeeded: true,
  },
  target: {
    words: 'an absolute path like "/home-nfs"',
    isRight: (value) => isPlain(value) && /^\/[^/]/.test(value),
    isNeeded: true,
  },
  zones: {
    words: 'a list of zones, perhaps with a star: ["europe-*"]',
    isRight: (value) =>
      Array.isArray(value) && value.every((one) => typeof one === 'string' && /^[a-z\d*-]+$/.test(one)),
  },
  options: {
    words: 'options of mount(8) like "vers=3,hard"',
    isRight: (value) => isPlain(value) && !value.startsWith('-'),
  },
};

/** The parts of `lab.spreadsheet`. */
export const spreadsheetParts: Readonly<Record<keyof SpreadsheetSetting, Part>> = {
  id: {
    words: 'the id of a spreadsheet, which stands in its address behind /d/',
    isRight: (value) => typeof value === 'string' && /^[\w-]+$/.test(value),
    isNeeded: true,
  },
  tab: { words: 'the name of a tab, or null', isRight: (value) => value === null || isText(value) },
  credentials: { words: 'the path of a service account’s key', isRight: isText, isNeeded: true },
  endpoint: {
    words: 'an address like "http://127.0.0.1:8080", or null',
    isRight: (value) =>
      value === null || (typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? '')),
  },
};
