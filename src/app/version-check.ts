// Version check: the result of the last check for a newer jobman, and the time of the next. A separate process checks
// and writes a file, so that a command reads only the file and never waits.

import { day, minute, type Duration, type Instant } from '../core/model/time.ts';

export interface VersionNotes {
  readonly lastCheck: Instant;
  readonly remoteVersion: string | null;
  readonly intervalMs: Duration;
  readonly message: string | null;
  readonly lastError: string | null;
  /** The checked source (`newVersion.repository`). */
  readonly repository: string | null;
}

/** Hidden from the help. */
export const checkVersionArgument = '__look-for-version';

export const defaultCheckInterval: Duration = day;
/** Lower limit of the interval, whatever the settings say. */
export const minCheckInterval: Duration = minute;

const noNotes: VersionNotes = {
  lastCheck: 0,
  remoteVersion: null,
  intervalMs: defaultCheckInterval,
  message: null,
  lastError: null,
  repository: null,
};

/** Empty for a missing or invalid text, one without a time in milliseconds, or one about another repository. */
export function parseVersionNotes(text: string, repository: string | null): VersionNotes {
  try {
    const notes = { ...noNotes, ...(JSON.parse(text) as Partial<VersionNotes>) };
    return notes.repository === repository && Number.isFinite(notes.lastCheck) ? notes : noNotes;
  } catch {
    return noNotes;
  }
}

/** A time in the future comes from a clock that has been set back since. */
export function isCheckDue({ lastCheck, intervalMs }: VersionNotes, now: Instant): boolean {
  const since = now - lastCheck;
  return since < -minCheckInterval || since >= Math.max(intervalMs, minCheckInterval);
}

/** Null if it is not newer or not a version. */
export function versionNotice({ remoteVersion: other, message }: VersionNotes, own: string): string | null {
  const order = other === null ? undefined : compareVersions(other, own);
  if (order === undefined || order <= 0) return null;
  return `jobman ${other} is available; this is ${own}.${message === null ? '' : ` ${message}`}`;
}

/** The grammar of https://semver.org (2.0.0), with an optional leading `v`. Build metadata has no order. */
const versionPattern =
  /^v?((?:(?:0|[1-9]\d*)\.){2}(?:0|[1-9]\d*))(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$/;

export function compareVersions(one: string, other: string): number | undefined {
  const [left, right] = [versionPattern.exec(one), versionPattern.exec(other)];
  if (left === null || right === null) return undefined;
  const { compare } = new Intl.Collator('en', { numeric: true });
  const [number = '', before] = left.slice(1);
  const [otherNumber = '', otherBefore] = right.slice(1);
  return (
    compare(number, otherNumber) ||
    Number(before === undefined) - Number(otherBefore === undefined) ||
    compare(before ?? '', otherBefore ?? '')
  );
}
