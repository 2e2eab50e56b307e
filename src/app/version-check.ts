// Version check: the result of the last check for a newer jobman, and the time of the next. A separate process checks
// and writes a file, so that a command reads only the file and never waits.

import { day, minute, type Duration, type Instant } from '../core/model/time.ts';

export interface VersionNotes {
  readonly lastCheck: Instant;
  readonly remoteVersion: string | null;
  readonly intervalMs: Duration;
  readonly message: string | null;
  readonly lastError: string | null;
  /** The checked source (`newVersion.repository`); null in files of the older jobman. */
  readonly repository: string | null;
}

/** Hidden from the help. */
export const checkVersionArgument = '__look-for-version';

export const defaultCheckInterval: Duration = day;
/** Lower limit of the interval, whatever the settings say. */
export const minCheckInterval: Duration = minute;

/** True if the notes are about that repository. Notes of the older jobman name none and match any. */
export function isAbout(notes: VersionNotes, repository: string | null): boolean {
  return repository !== null && (notes.repository ?? repository) === repository;
}

/** Undefined if the file is not ours. The older jobman's `{ lastCheck, remoteVersion }` is valid. */
export function parseVersionNotes(text: string): VersionNotes | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { lastCheck, remoteVersion, intervalMs, message, lastError, repository } = value as Readonly<
    Record<string, unknown>
  >;
  const at = typeof lastCheck === 'number' ? lastCheck : typeof lastCheck === 'string' ? Date.parse(lastCheck) : NaN;
  if (!Number.isFinite(at)) return undefined;
  const textOf = (one: unknown): string | null => (typeof one === 'string' && one !== '' ? one : null);
  return {
    lastCheck: at,
    remoteVersion: textOf(remoteVersion),
    intervalMs: typeof intervalMs === 'number' && intervalMs > 0 ? intervalMs : defaultCheckInterval,
    message: textOf(message),
    lastError: textOf(lastError),
    repository: textOf(repository),
  };
}

export function serializeVersionNotes(notes: VersionNotes): string {
  return `${JSON.stringify({ ...notes, lastCheck: new Date(notes.lastCheck).toISOString() })}\n`;
}

/** A time in the future comes from a clock that has been set back since. */
export function isCheckDue(notes: VersionNotes | undefined, now: Instant): boolean {
  if (notes === undefined) return true;
  const since = now - notes.lastCheck;
  return since < -minCheckInterval || since >= Math.max(notes.intervalMs, minCheckInterval);
}

/** Undefined if it is not newer or not a version. */
export function versionNotice(notes: VersionNotes | undefined, own: string): string | undefined {
  const other = notes?.remoteVersion ?? null;
  if (notes === undefined || other === null) return undefined;
  const order = compareVersions(other, own);
  if (order === undefined || order <= 0) return undefined;
  return `jobman ${other} is available; this is ${own}.${notes.message === null ? '' : ` ${notes.message}`}`;
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
