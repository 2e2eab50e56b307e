// Version check: whether a newer jobman was seen, and whether it is time to look again. Looking is done by a process of its own,
// so that no command waits for it; what that has seen stands in a file, and a command reads no more than this.

import { day, minute, type Duration, type Instant } from '../core/time.ts';

export interface VersionNotes {
  readonly lastCheck: Instant;
  readonly remoteVersion: string | null;
  /** How long until the next look (`newVersion.check`). */
  readonly every: Duration;
  /** The message of the settings (`newVersion.customMessage`). */
  readonly message: string | null;
  readonly failed: string | null;
  /** Where the version was found (`newVersion.repository`); null in notes of the older jobman. */
  readonly repository: string | null;
}

/** The word by which the program starts itself to look; it is in no help. */
export const lookWord = '__look-for-version';

export const everyUsual: Duration = day;
/** However short an interval the settings name, no machine is asked more often than this. */
export const everyLeast: Duration = minute;

/** True if the notes are about that repository. Notes of an older jobman name none and count for any. */
export function isAbout(notes: VersionNotes, repository: string | null): boolean {
  return repository !== null && (notes.repository ?? repository) === repository;
}

/** The notes in the text of that file; undefined if it is not ours. The older jobman's `{ lastCheck, remoteVersion }` is one. */
export function versionNotesIn(text: string): VersionNotes | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { lastCheck, remoteVersion, every, message, failed, repository } = value as Readonly<Record<string, unknown>>;
  const at = typeof lastCheck === 'number' ? lastCheck : typeof lastCheck === 'string' ? Date.parse(lastCheck) : NaN;
  if (!Number.isFinite(at)) return undefined;
  const textOf = (one: unknown): string | null => (typeof one === 'string' && one !== '' ? one : null);
  return {
    lastCheck: at,
    remoteVersion: textOf(remoteVersion),
    every: typeof every === 'number' && every > 0 ? every : everyUsual,
    message: textOf(message),
    failed: textOf(failed),
    repository: textOf(repository),
  };
}

export function versionNotesText(notes: VersionNotes): string {
  return `${JSON.stringify({ ...notes, lastCheck: new Date(notes.lastCheck).toISOString() })}\n`;
}

/** Whether it is time to look. Notes from the future were written by a clock that has been set back since. */
export function isLookDue(notes: VersionNotes | undefined, now: Instant): boolean {
  if (notes === undefined) return true;
  const since = now - notes.lastCheck;
  return since < -everyLeast || since >= Math.max(notes.every, everyLeast);
}

/** The sentence about a newer version; undefined where the one that runs is as new, or the other is no version. */
export function versionNotice(notes: VersionNotes | undefined, own: string): string | undefined {
  const other = notes?.remoteVersion ?? null;
  if (notes === undefined || other === null) return undefined;
  const order = compareVersions(other, own);
  if (order === undefined || order <= 0) return undefined;
  return `jobman ${other} is there; this is ${own}.${notes.message === null ? '' : ` ${notes.message}`}`;
}

/** The grammar of https://semver.org (2.0.0); a `v` in front is borne. What stands behind a plus orders nothing. */
const versionPattern =
  /^v?((?:(?:0|[1-9]\d*)\.){2}(?:0|[1-9]\d*))(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$/;

/** As a comparator, in the order of semver.org; undefined where one of them is no version. */
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
