// Splits and formats log lines. Memory is bounded for any output: a line of 10 MB, an endless progress bar, zero bytes.

import { isUtf8 } from 'node:buffer';
import { hexDigits, escapeForTerminal, formatBytes } from '../../app/format.ts';
import type { JobLog } from '../../app/job-source.ts';
import { joinLabels, type LogLabel } from '../../app/log-text.ts';
import { isSanitized } from '../output.ts';
import type { ClusterLogLineOutput, LogLineOutput } from '../outputs.ts';
import type { Instant } from '../../core/model/time.ts';

export interface LineRules {
  /** `terminal`: cut, collapsed. `pipe`: every line whole. `raw`: the bytes. `json`: one object per line. */
  readonly form: 'terminal' | 'pipe' | 'raw' | 'json';
  readonly fold: boolean;
  readonly colour: boolean;
}

/** `[0] `, `[0-3] `; empty without a label. A terminal gets aligned texts. */
export function formatPrefix(
  labels: readonly LogLabel[],
  all: readonly LogLabel[],
  rules: Pick<LineRules, 'form' | 'fold'>,
): string {
  if (labels.length === 0) return '';
  const label = `[${joinLabels(labels)}]`;
  if (rules.form !== 'terminal') return `${label} `;
  const folded = rules.fold && all.length > 1;
  const widest = folded ? joinLabels(all).length : Math.max(0, ...all.map((one) => String(one).length));
  return `${label.padEnd(widest + 2)} `;
}

export function formatBody(piece: Piece, rules: LineRules): string {
  if (rules.form === 'terminal') return formatForTerminal(piece, rules.colour);
  const text = piece.isSanitized || rules.form === 'raw' ? piece.text : formatForPipe(piece.text);
  return piece.ends ? `${text}\n` : text;
}

function formatForTerminal({ text, omittedBytes, isSanitized: isClean }: Piece, colour: boolean): string {
  const shown = isClean ? text : escapeForTerminal(text, colour);
  // A colour that a program leaves on must not reach the next worker's line.
  const reset = !isClean && shown.includes('\u001b[') ? '\u001b[0m' : '';
  return `${shown}${reset}${omittedBytes === 0 ? '' : ` ~ ${formatBytes(omittedBytes)} more`}\n`;
}

/** Carriage returns do no harm in a file, and progress bars consist of them. */
function formatForPipe(text: string): string {
  if (!text.includes('\r')) return escapeForTerminal(text);
  return text
    .split('\r')
    .map((part) => escapeForTerminal(part))
    .join('\r');
}

/** One object per line, or per part of a very long line. */
export function formatJson({ job, attempt, worker, pod }: JobLog, { text, ends }: Piece): string {
  const line: LogLineOutput | ClusterLogLineOutput =
    pod === null
      ? { job, attempt, worker, text, continues: !ends }
      : { job, pod: pod.name, container: pod.container, text };
  return `${JSON.stringify(line)}\n`;
}

/** A line, or a part of a line that is too long for memory. Without its newline. */
export interface Piece {
  readonly text: string;
  readonly starts: boolean;
  readonly ends: boolean;
  /** True for the end of a log without a newline. */
  readonly isUnfinished?: boolean;
  readonly omittedBytes: number;
  /** Known to have no control character, so that no check is needed. */
  readonly isSanitized: boolean;
  readonly at: Instant;
}

export interface SplitRules {
  readonly maxBytes: number;
  /** `cut` drops and counts the end of a longer line; `parts` emits it in parts. */
  readonly overflow: 'cut' | 'parts';
  /** Keeps only the last state of a line that carriage returns overwrite (a progress bar). */
  readonly collapse: boolean;
  /** The texts are bytes, one character for each. */
  readonly isBinary?: boolean;
}

const newline = 10;
const carriageReturn = 13;

export function createSplitter(rules: SplitRules, emit: (piece: Piece) => void) {
  let held: Buffer = Buffer.alloc(0);
  let omittedBytes = 0;
  let starts = true;
  /** After `\r` and before the next byte nothing is overwritten: the old state is still visible. */
  let isReturned = false;

  function take(bytes: Buffer, at: Instant): void {
    if (bytes.length === 0) return;
    held = held.length === 0 ? bytes : Buffer.concat([held, bytes]);
    if (held.length <= rules.maxBytes) return;
    if (rules.overflow === 'parts') {
      const size = wholeCharacters(held);
      emit({ text: textOf(held.subarray(0, size)), starts, ends: false, omittedBytes: 0, isSanitized: false, at });
      held = held.subarray(size);
      starts = false;
    } else {
      const kept = wholeCharacters(held.subarray(0, rules.maxBytes));
      omittedBytes += held.length - kept;
      // Copy: a part of a large buffer keeps all of it in memory.
      held = Buffer.from(held.subarray(0, kept));
    }
  }

  function takeCollapsing(bytes: Buffer, at: Instant): void {
    let from = 0;
    for (let found = bytes.indexOf(carriageReturn); found >= 0; found = bytes.indexOf(carriageReturn, from)) {
      overwrite(bytes.subarray(from, found), at);
      isReturned = true;
      from = found + 1;
    }
    overwrite(bytes.subarray(from), at);
  }

  function overwrite(bytes: Buffer, at: Instant): void {
    if (bytes.length === 0) return;
    if (isReturned) {
      held = Buffer.alloc(0);
      omittedBytes = 0;
      isReturned = false;
    }
    take(bytes, at);
  }

  function finish(at: Instant, isUnfinished = false): void {
    emit({ text: textOf(held), starts, ends: true, isUnfinished, omittedBytes, isSanitized: false, at });
    held = Buffer.alloc(0);
    omittedBytes = 0;
    starts = true;
    isReturned = false;
  }

  const textOf = (bytes: Buffer): string => (rules.isBinary === true ? bytes.toString('latin1') : decode(bytes));
  const takeAll = rules.collapse ? takeCollapsing : take;

  function pushLines(bytes: Buffer, at: Instant): void {
    let from = 0;
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, from)) {
      takeAll(bytes.subarray(from, end), at);
      finish(at);
      from = end + 1;
    }
    takeAll(bytes.subarray(from), at);
  }

  /** Fast path for whole lines. Returns false, without effect, for any other block. */
  function pushBlock(bytes: Buffer, at: Instant): boolean {
    if (rules.isBinary === true || !isUtf8(bytes) || (rules.collapse && bytes.includes(carriageReturn))) return false;
    const text = bytes.toString('utf8');
    const lines = text.split('\n');
    if (lines.some((line) => line.length > rules.maxBytes)) return false;
    const clean = isSanitized(text);
    for (const line of lines) emit({ text: line, starts: true, ends: true, omittedBytes: 0, isSanitized: clean, at });
    return true;
  }

  return {
    push(bytes: Buffer, at: Instant): void {
      const last = bytes.lastIndexOf(newline);
      // Held bytes belong to the first line.
      const isInside = held.length > 0 || omittedBytes > 0 || !starts || isReturned;
      const first = last >= 0 && isInside ? bytes.indexOf(newline) + 1 : 0;
      pushLines(bytes.subarray(0, first), at);
      const isPlain = last > first && pushBlock(bytes.subarray(first, last), at);
      pushLines(bytes.subarray(isPlain ? last + 1 : first), at);
      // Held bytes must not keep their whole block in memory.
      if (held.length > 0 && held.buffer === bytes.buffer) held = Buffer.from(held);
    },
    pending: (): string => (held.length === 0 ? '' : decode(held)),
    end(at: Instant): void {
      if (held.length > 0 || omittedBytes > 0 || !starts) finish(at, true);
    },
  };
}

export type Splitter = ReturnType<typeof createSplitter>;

/** Without a UTF-8 character that is cut off at the end (RFC 3629, section 3). */
function wholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= 3 && back < bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    return characterSize(byte) > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** Invalid UTF-8 is shown byte by byte (`\xff`), so that no binary output is hidden or guessed. */
export function decode(bytes: Buffer): string {
  return isUtf8(bytes) ? bytes.toString('utf8') : decodeMixed(bytes);
}

function decodeMixed(bytes: Buffer): string {
  let text = '';
  let valid = 0;
  for (let at = 0; at < bytes.length;) {
    const byte = bytes[at] ?? 0;
    const next = at + characterSize(byte);
    const isValid = byte < 0x80 || (next <= bytes.length && isUtf8(bytes.subarray(at, next)));
    if (!isValid) {
      text += `${bytes.toString('utf8', valid, at)}\\x${hexDigits(byte, 2)}`;
      valid = at + 1;
    }
    at = isValid ? next : at + 1;
  }
  return text + bytes.toString('utf8', valid);
}

/** Of the character that begins with this byte. */
function characterSize(byte: number): number {
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}
