// Figures: lengths of time, moments, money and texts of others as people read them, the same on every screen. Nothing here
// uses Intl, whose first use costs 19 ms, half of what a whole `list` may take.

import { day, hour, minute, second, type Duration, type Instant } from '../core/time.ts';
import type { Reason } from '../core/spec.ts';

/** One unit, rounded down: `48s`, `9m`, `14h`, `3d`. For columns. Never negative: two clocks differ a little. */
export function ageText(length: Duration): string {
  const past = Math.max(0, length);
  if (past < minute) return `${Math.floor(past / second)}s`;
  if (past < hour) return `${Math.floor(past / minute)}m`;
  if (past < day) return `${Math.floor(past / hour)}h`;
  return `${Math.floor(past / day)}d`;
}

/** Two units where one would hide much: `48s`, `2m30s`, `31m`, `2h05m`, `3d4h`. For sentences. */
export function lengthText(length: Duration): string {
  const past = Math.max(0, length);
  const part = (of: Duration, unit: Duration) => Math.floor((past % of) / unit);
  if (past < minute) return ageText(past);
  if (past < 10 * minute) return `${ageText(past)}${twoDigits(part(minute, second))}s`.replace(/00s$/, '');
  if (past < hour) return ageText(past);
  if (past < day) return `${ageText(past)}${twoDigits(part(hour, minute))}m`;
  return `${ageText(past)}${part(day, hour)}h`.replace(/(\d+d)0h$/, '$1');
}

/** `20 Nov 22:31:07 UTC`, for evidence with a time; `16 Aug 2024 10:00:00 UTC` where that is not the year of `now`. */
export function momentText(at: Instant, now: Instant): string {
  return `${dateText(at, now)} ${clockText(at)} UTC`;
}

/** `20 Nov`, in UTC, and `16 Aug 2024` where that is not the year of `now`. */
export function dateText(at: Instant, now: Instant): string {
  const [, dayOfMonth, month, year] = new Date(at).toUTCString().split(' ');
  const isThisYear = new Date(at).getUTCFullYear() === new Date(now).getUTCFullYear();
  return `${Number(dayOfMonth)} ${month}${isThisYear ? '' : ` ${year}`}`;
}

/** `22:31:07`, in UTC, when the day is plain from beside it. */
export function clockText(at: Instant): string {
  return new Date(at).toISOString().slice(11, 19);
}

/** `08:20:14` in the zone of this machine, for a line that is looked at while it changes. */
export function localClockText(at: Instant): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits).join(':');
}

/** `2026-11-20T18:02:13Z`: the form of plain lines, which are sorted and searched. */
export function stampText(at: Instant): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** `$4.00/h`. */
export function priceText(dollarsPerHour: number): string {
  return `$${dollarsPerHour.toFixed(2)}/h`;
}

/** `$75.70`. */
export function dollarsText(dollars: number): string {
  return `$${dollars.toFixed(2)}`;
}

/** `1 worker`, `4 workers`. */
export function countText(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** `a`, `a and b`, `a, b and c`. */
export function joinedText(words: readonly string[]): string {
  const [last = ''] = words.slice(-1);
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} and ${last}`;
}

/** `worker 3`, or `this machine` for the one that jobman runs on. */
export function workerText(worker: number | 'here'): string {
  return worker === 'here' ? 'this machine' : `worker ${worker}`;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}

/** A choice as a sentence: `There is none yet.`, `The only one is ada.`, `There are ada, bob.` */
export function choiceText(names: readonly (string | number)[]): string {
  if (names.length === 0) return 'There is none yet.';
  return names.length === 1 ? `The only one is ${names[0]}.` : `There are ${names.join(', ')}.`;
}

/** `12.3 MB`, in powers of ten. */
export function decimalSizeText(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  let value = bytes;
  for (; value >= 1_000 && unit < units.length - 1; unit += 1) value /= 1_000;
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

// ------------------------------------------------------------------------------------------ for programs

/** `2026-11-20T18:02:13.000Z`, or null where there is no moment. */
export function moment(at: Instant | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}

// ------------------------------------------------------------------------------------------ words

/** Reasons as words of a sentence. */
export const reasonWords: Readonly<Record<Reason, string>> = {
  succeeded: 'succeeded',
  stopped: 'stopped',
  preempted: 'preempted',
  unreachable: 'unreachable',
  allocation_failed: 'allocation failed',
  setup_failed: 'setup failed',
  command_failed: 'command failed',
  hung: 'hung',
  timed_out: 'timed out',
};

/** A text of others as a part of our sentence: in one line and without its full stop. */
export function sentencePart(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ').replace(/\.$/, '');
}

/** A text as the beginning of a sentence. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The evidence of an imported job whose end is unknown begins with these words. */
export const importedWords = 'imported';

// ------------------------------------------------------------------------------------------ text of others

/**
 * Control characters become visible (`\x07`), so that no program's output can move the cursor, ring, or retitle the
 * window. Tabs stay, and colours (SGR, ECMA-48 8.3.117) stay unless `colour` is false. Characters that change the direction
 * of text become visible too, because they can make a line read as something else.
 */
export function inert(text: string, colour = true): string {
  if (plainAscii.test(text) || !hasControl.test(text)) return text;
  return text.replace(control, (found: string, graphic: string | undefined) => {
    if (found === '\t') return found;
    if (graphic !== undefined && found.startsWith(escape)) return colour ? found : '';
    const code = found.codePointAt(0) ?? 0;
    const shown = code < 0x100 ? `\\x${hexDigits(code, 2)}` : `\\u${hexDigits(code, 4)}`;
    return shown + found.slice(1);
  });
}

/** The same for one cell of a table or one line of a sentence: there, a tab or a colour is out of place too. */
export function inertWord(text: string): string {
  return plainAscii.test(text) ? text : inert(text, false).replaceAll('\t', ' ');
}

const escape = '\u001b';
/** Nearly every text, so that the slower expressions below are rarely compiled. */
const plainAscii = /^[ -~]*$/;
const hasControl = /[^\P{Cc}\t]|[\u202a-\u202e\u2066-\u2069]/u;
const control = /\p{Cc}(\[[0-9;:]*m)?|[\u202a-\u202e\u2066-\u2069]/gu;

/** The code of a character as it is written after a backslash. */
export function hexDigits(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
