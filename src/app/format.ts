// Format: times, amounts, money and foreign text for people, the same on every screen. Nothing here uses Intl: its
// first use costs 19 ms, half of what a whole `list` may take.

import type { Phase } from '../core/decide/phase.ts';
import { day, hour, minute, second, type Duration, type Instant } from '../core/model/time.ts';
import type { CostAmount } from '../reports/cost.ts';
import type { ConfirmationNeeded, ConfirmationRequired, JobRow } from './client.ts';
import type { TokenView } from './tokens.ts';
import type { UserLimits } from '../core/policy/limits.ts';
import { formatHosts, type Reason } from '../core/model/spec.ts';

/** One unit, rounded down: `48s`, `9m`, `14h`, `3d`. For columns. Never negative: two clocks differ a little. */
export function formatAge(length: Duration): string {
  const past = Math.max(0, length);
  if (past < minute) return `${Math.floor(past / second)}s`;
  if (past < hour) return `${Math.floor(past / minute)}m`;
  if (past < day) return `${Math.floor(past / hour)}h`;
  return `${Math.floor(past / day)}d`;
}

/** Two units where one hides much: `48s`, `2m30s`, `31m`, `2h05m`, `3d4h`. For sentences. */
export function formatDuration(length: Duration): string {
  const past = Math.max(0, length);
  const part = (of: Duration, unit: Duration) => Math.floor((past % of) / unit);
  if (past < minute) return formatAge(past);
  if (past < 10 * minute) return `${formatAge(past)}${twoDigits(part(minute, second))}s`.replace(/00s$/, '');
  if (past < hour) return formatAge(past);
  if (past < day) return `${formatAge(past)}${twoDigits(part(hour, minute))}m`;
  return `${formatAge(past)}${part(day, hour)}h`.replace(/(\d+d)0h$/, '$1');
}

/** `20 Nov 22:31:07 UTC`; `16 Aug 2024 10:00:00 UTC` in another year than `now`. */
export function formatTime(at: Instant, now: Instant): string {
  return `${formatDate(at, now)} ${formatTimeOfDay(at)} UTC`;
}

/** When a text is read. */
export interface ReadingTime {
  readonly now: Instant;
  /** The text is kept and read later, when an age would be wrong. */
  readonly isKept?: boolean;
}

/** `47s ago`, or `at 20 Nov 22:31:07 UTC` in a text that is kept. */
export function formatWhen(at: Instant, { now, isKept = false }: ReadingTime): string {
  return isKept ? `at ${formatTime(at, now)}` : `${formatAge(now - at)} ago`;
}

/** `20 Nov 22:31:07 UTC (47s)`; without the age in a text that is kept. */
export function formatSince(at: Instant, { now, isKept = false }: ReadingTime): string {
  return isKept ? formatTime(at, now) : `${formatTime(at, now)} (${formatAge(now - at)})`;
}

/** Its machine may just have woken up, so nothing ends it unasked. */
export function formatSilence(
  controller: { readonly pid: number | null; readonly silentSinceAt: Instant | null },
  now: Instant,
): string {
  const { pid, silentSinceAt } = controller;
  return `The controller (process ${pid ?? '?'}) has not answered since ${formatTime(silentSinceAt ?? now, now)}. If this stays so, it hangs; replace it: jobman controller restart`;
}

/** `20 Nov`, in UTC; `16 Aug 2024` in another year than `now`. */
export function formatDate(at: Instant, now: Instant): string {
  const [, dayOfMonth, month, year] = new Date(at).toUTCString().split(' ');
  const isThisYear = new Date(at).getUTCFullYear() === new Date(now).getUTCFullYear();
  return `${Number(dayOfMonth)} ${month}${isThisYear ? '' : ` ${year}`}`;
}

/** `22:31:07`, in UTC, where the day is already shown. */
export function formatTimeOfDay(at: Instant): string {
  return new Date(at).toISOString().slice(11, 19);
}

/** `08:20:14` in the local time zone, for a line on a live screen. */
export function formatLocalTimeOfDay(at: Instant): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits).join(':');
}

/** `2026-11-20T18:02:13Z`, for plain lines that are sorted and searched. */
export function formatTimestamp(at: Instant): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** `28 Feb 2027`, with the time within the next two days: `30 Nov 23:12:07 UTC`. */
export function formatExpiry(at: Instant, now: Instant): string {
  return at - now < 2 * day ? formatTime(at, now) : formatDate(at, now);
}

/** `28 Feb 2027`, `expired`, `revoked`. */
export function formatTokenEnd(
  { expiresAt, revokedAt }: Pick<TokenView, 'expiresAt' | 'revokedAt'>,
  now: Instant,
): string {
  if (revokedAt !== null) return 'revoked';
  return expiresAt <= now ? 'expired' : formatExpiry(expiresAt, now);
}

export function formatPricePerHour(dollarsPerHour: number): string {
  return `$${dollarsPerHour.toFixed(2)}/h`;
}

/** `<0.01`, `0.03`, `4.2`, `151`; `-` for no time. */
export function formatHours(duration: Duration): string {
  const hours = duration / hour;
  if (hours === 0) return '-';
  if (hours < 0.005) return '<0.01';
  return hours.toFixed(hours < 0.995 ? 2 : hours < 99.95 ? 1 : 0);
}

/** `$8.53`; `<$0.01` for what rounds to zero and is not. */
export function formatUsd(dollars: number): string {
  return dollars > 0 && dollars < 0.005 ? '<$0.01' : `$${dollars.toFixed(2)}`;
}

/** `$41.00 of $50.00`, `$0.0259 of $0.03`: a budget below a dollar has more digits, so that the two differ. */
export function formatUsdOf(part: number, whole: number): string {
  const format = whole < 1 ? formatCents : formatUsd;
  return `${format(part)} of ${format(whole)}`;
}

/** Four decimals without zeros after the cents; `<$0.0001` for what rounds to zero and is not. */
function formatCents(dollars: number): string {
  return dollars > 0 && dollars < 0.00005 ? '<$0.0001' : `$${dollars.toFixed(4).replace(/0{1,2}$/, '')}`;
}

/** Dollars, and hours (`3.0h`) for time without a price; `-` for no time. */
export function formatAmount({ durationMs, estimateUsd, unpricedMs }: CostAmount, unpriced = ''): string {
  if (durationMs === 0) return '-';
  const time = unpricedMs === 0 ? [] : [`${formatHours(unpricedMs)}h${unpriced}`];
  return [...(estimateUsd === null ? [] : [formatUsd(estimateUsd)]), ...time].join(' + ');
}

/** `40,210`. */
export function formatCount(value: number): string {
  const [whole = '', fraction] = String(value).split('.');
  return `${whole.replaceAll(/\B(?=(\d{3})+$)/g, ',')}${fraction === undefined ? '' : `.${fraction}`}`;
}

export function pluralize(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** `64 chips; 20 jobs; $500.00 per day; projects: a, b`; `-` without any. */
export function formatLimits(limits: UserLimits): string {
  const { chips, jobs, usdPerDay, projects, clusters, hosts, tokens, filesMib } = limits;
  const names = (what: string, list: readonly string[]) => `${what} ${list.length === 0 ? 'none' : list.join(', ')}`;
  const parts = [
    ...(chips === null ? [] : [pluralize(chips, 'chip')]),
    ...(jobs === null ? [] : [pluralize(jobs, 'job')]),
    ...(usdPerDay === null ? [] : [`${formatUsd(usdPerDay)} per day`]),
    ...(projects === null ? [] : [names('projects:', projects)]),
    ...(clusters === null ? [] : [names('clusters:', clusters)]),
    ...(hosts === null ? [] : [names('hosts:', hosts)]),
    ...(tokens === null ? [] : [pluralize(tokens, 'token')]),
    ...(filesMib === null ? [] : [`${filesMib} MiB of files`]),
  ];
  return parts.join('; ') || '-';
}

export function formatList(items: readonly string[]): string {
  const [last = ''] = items.slice(-1);
  return items.length < 2 ? last : `${items.slice(0, -1).join(', ')} and ${last}`;
}

/** The first `max` of these names of jobs, and the number of the others: `['000001', '000002', '3 other jobs']`. */
export function firstJobs(names: readonly string[], max: number): readonly string[] {
  const rest = names.length - max;
  return rest > 0 ? [...names.slice(0, max), pluralize(rest, 'other job')] : names;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}

export function formatChoices(names: readonly (string | number)[]): string {
  if (names.length === 0) return 'None exists yet.';
  return names.length === 1 ? `The only one is ${names[0]}.` : `There are ${names.join(', ')}.`;
}

/** `12.3 MB`, in powers of ten. */
export function formatBytes(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  let value = bytes;
  for (; value >= 1_000 && unit < units.length - 1; unit += 1) value /= 1_000;
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** `12.3 GiB`, in powers of 1024. */
export function formatBinaryBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  let value = Math.abs(bytes);
  // A value that would be shown as 1024.0 has the next unit.
  for (; value >= 1_023.95 && unit < units.length - 1; unit += 1) value /= 1_024;
  return `${bytes < 0 ? '-' : ''}${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export const reasonPhrases: Readonly<Record<Reason, string>> = {
  succeeded: 'succeeded',
  stopped: 'stopped',
  preempted: 'preempted',
  unreachable: 'unreachable',
  allocation_failed: 'allocation failed',
  setup_failed: 'setup failed',
  command_failed: 'command failed',
  hung: 'hung',
  timed_out: 'timed out',
  budget: 'budget used up',
};

/** Foreign text as a part of our sentence: on one line and without its full stop. */
export function asClause(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ').replace(/\.$/, '');
}

export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The reasons that need a confirmation, as sentences for a refusal. Texts of other users are escaped. */
export function formatReasons({ reasons }: ConfirmationNeeded): string {
  return reasons.map(({ message }) => `${capitalize(escapeLine(message))}.`).join(' ');
}

/** A reason that needs a confirmation, and what the request costs. */
export function formatReason({ message, cost }: Pick<ConfirmationRequired, 'message' | 'cost'>): string {
  return `${message}${cost === null ? '' : `. It costs ${cost}`}.`;
}

export const importedPrefix = 'imported';

/**
 * Makes control characters visible (`\x07`), so that no output can move the cursor, ring or retitle the window. Tabs
 * stay, and colours (SGR, ECMA-48 8.3.117) unless `keepColour` is false. Characters that change the text direction are
 * escaped too, because they can disguise a line.
 */
export function escapeForTerminal(text: string, keepColour = true): string {
  if (plainAscii.test(text) || !hasControl.test(text)) return text;
  return text.replace(control, (found: string, graphic: string | undefined) => {
    if (found === '\t') return found;
    if (graphic !== undefined && found.startsWith(escape)) return keepColour ? found : '';
    const code = found.codePointAt(0) ?? 0;
    const shown = code < 0x100 ? `\\x${hexDigits(code, 2)}` : `\\u${hexDigits(code, 4)}`;
    return shown + found.slice(1);
  });
}

/** For a table cell or a single line: without colours, and with spaces instead of tabs. */
export function escapeLine(text: string): string {
  return plainAscii.test(text) ? text : escapeForTerminal(text, false).replaceAll('\t', ' ');
}

const escape = '\u001b';
/** Matches nearly every text, so that the slower expressions below are rarely compiled. */
const plainAscii = /^[ -~]*$/;
const hasControl = /[^\P{Cc}\t]|[\u202a-\u202e\u2066-\u2069]/u;
const control = /\p{Cc}(\[[0-9;:]*m)?|[\u202a-\u202e\u2066-\u2069]/gu;

export function hexDigits(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

/** `v5litepod-16`, `gpu1, gpu2`, or `this machine`. */
export function formatMachine({ accelerator, hosts }: Pick<JobRow, 'accelerator' | 'hosts'>): string {
  return accelerator ?? (hosts.length === 0 ? '-' : formatHosts(hosts));
}

/** `running`; `stopped, holds v4-8` for a finished job that still holds capacity. */
export function formatStatus({
  phase,
  heldCapacity: held,
}: {
  readonly phase: string;
  readonly heldCapacity: string | null;
}): string {
  return held === null ? phase : `${phase}, holds ${held}`;
}

/** Neutral East Asian width: one cell in every terminal. The second glyph is for locales that are not UTF-8. */
export const phaseGlyphs: Readonly<Record<Phase, readonly [string, string]>> = {
  queued: ['◌', '.'],
  provisioning: ['◔', ':'],
  setup: ['∙', '+'],
  running: ['▸', '>'],
  recovering: ['↻', '~'],
  stopping: ['▪', '-'],
  succeeded: ['✓', '='],
  failed: ['✗', 'x'],
  stopped: ['▫', '_'],
  cancelled: ['▫', '_'],
};

/** A safe path component. Two names may give the same one; the job's id keeps their folders apart. */
export function asFileName(name: string): string {
  if (safeNamePattern.test(name)) return name;
  const sanitized = name.replaceAll(/[^\p{L}\p{N}._@-]/gu, '_').replace(/^\.+/, '_');
  return sanitized === '' ? '_' : sanitized;
}

/** Matches nearly every name. Compiling the pattern for all Unicode letters takes a millisecond. */
const safeNamePattern = /^[\w@-][\w.@-]*$/;
