// Lines of a log: from the bytes of a file, and as the text that is printed. What is held at any time is bounded, whatever the
// program prints: a line of 10 MB, a progress bar that never ends its line, nothing but zero bytes.

import { isUtf8 } from 'node:buffer';
import { hexDigits, inert, decimalSizeText } from '../../app/figures.ts';
import { isInert } from '../output.ts';
import type { WorkerId } from '../../core/spec.ts';
import type { Instant } from '../../core/time.ts';

export interface LineRules {
  /** `terminal`: cut, collapsed. `pipe`: every line whole. `raw`: the bytes. `json`: an object a line. */
  readonly form: 'terminal' | 'pipe' | 'raw' | 'json';
  readonly numbered: boolean;
  readonly fold: boolean;
  readonly colour: boolean;
}

/**
 * `[0] `, `[0-3] `: who said it; nothing for a log that is no worker's. On a terminal as wide as the widest of `all` can
 * be, so that texts stand below each other.
 */
export function frontText(workers: readonly WorkerId[], all: readonly WorkerId[], rules: LineRules): string {
  if (workers.length === 0) return '';
  const label = `[${workersLabel(workers)}]`;
  if (rules.form !== 'terminal') return `${label} `;
  const folded = rules.fold && all.length > 1;
  const widest = folded ? workersLabel(all).length : Math.max(0, ...all.map((one) => String(one).length));
  return `${label.padEnd(widest + 2)} `;
}

/** `0-3`, `0,2-3`, `here`: which workers said it, in order. */
export function workersLabel(workers: readonly WorkerId[]): string {
  const labels: string[] = workers.includes('here') ? ['here'] : [];
  const numbers = workers.filter((worker) => worker !== 'here').toSorted((one, other) => one - other);
  for (let at = 0; at < numbers.length;) {
    const from = numbers[at] ?? 0;
    let to = from;
    while (numbers[at + 1] === to + 1) {
      to += 1;
      at += 1;
    }
    labels.push(from === to ? String(from) : `${from}-${to}`);
    at += 1;
  }
  return labels.join(',');
}

export function bodyText(piece: Piece, rules: LineRules): string {
  if (rules.form === 'terminal') return forTerminal(piece, rules.colour);
  const text = piece.isInert ? piece.text : forPipe(piece.text);
  return piece.ends ? `${text}\n` : text;
}

function forTerminal({ text, left, isInert }: Piece, colour: boolean): string {
  const shown = isInert ? text : inert(text, colour);
  // A colour that a program leaves on must not run into the next worker's line.
  const reset = !isInert && shown.includes('\u001b[') ? '\u001b[0m' : '';
  return `${shown}${reset}${left === 0 ? '' : ` ~ ${decimalSizeText(left)} more`}\n`;
}

/** Carriage returns do no harm in a file, and progress bars are made of them. */
function forPipe(text: string): string {
  if (!text.includes('\r')) return inert(text);
  return text
    .split('\r')
    .map((part) => inert(part))
    .join('\r');
}

/** One object for one line; the parts of a very long one say that they are parts. */
export function jsonText(
  from: { readonly attempt: number | null; readonly worker: WorkerId | null },
  piece: Piece,
): string {
  const part = piece.starts && piece.ends ? {} : { part: piece.ends ? 'last' : 'more' };
  return `${JSON.stringify({ ...from, text: piece.text, ...part })}\n`;
}

/** A line, or a part of one that was too long to be held. Without its newline. */
export interface Piece {
  readonly text: string;
  readonly starts: boolean;
  readonly ends: boolean;
  readonly left: number;
  /** True when it is known to hold no control character, so that nobody has to look. */
  readonly isInert: boolean;
  readonly at: Instant;
}

export interface SplitRules {
  readonly most: number;
  /** A longer line loses its end, which is counted, or is handed on in parts. */
  readonly longer: 'cut' | 'parts';
  /** True: of a line that was written over with carriage returns (a progress bar) only its last state is kept. */
  readonly collapse: boolean;
}

const newline = 10;
const carriageReturn = 13;

export function createSplitter(rules: SplitRules, emit: (piece: Piece) => void) {
  let held: Buffer = Buffer.alloc(0);
  let left = 0;
  let starts = true;
  /** Between the `\r` and what comes next nothing has been written over yet: the old state still stands there. */
  let isReturned = false;

  function take(bytes: Buffer, at: Instant): void {
    if (bytes.length === 0) return;
    held = held.length === 0 ? bytes : Buffer.concat([held, bytes]);
    if (held.length <= rules.most) return;
    if (rules.longer === 'parts') {
      const size = wholeCharacters(held);
      emit({ text: decode(held.subarray(0, size)), starts, ends: false, left: 0, isInert: false, at });
      held = held.subarray(size);
      starts = false;
    } else {
      const kept = wholeCharacters(held.subarray(0, rules.most));
      left += held.length - kept;
      // A copy, because a part of a large buffer keeps all of it alive.
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
      left = 0;
      isReturned = false;
    }
    take(bytes, at);
  }

  function finish(at: Instant): void {
    emit({ text: decode(held), starts, ends: true, left, isInert: false, at });
    held = Buffer.alloc(0);
    left = 0;
    starts = true;
    isReturned = false;
  }

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

  /** Whole lines all at once, where they are as lines mostly are; false when they are not, and nothing was done. */
  function pushBlock(bytes: Buffer, at: Instant): boolean {
    if (!isUtf8(bytes) || (rules.collapse && bytes.includes(carriageReturn))) return false;
    const text = bytes.toString('utf8');
    const lines = text.split('\n');
    if (lines.some((line) => line.length > rules.most)) return false;
    const clean = isInert(text);
    for (const line of lines) emit({ text: line, starts: true, ends: true, left: 0, isInert: clean, at });
    return true;
  }

  return {
    push(bytes: Buffer, at: Instant): void {
      const last = bytes.lastIndexOf(newline);
      // Held bytes belong to the first line.
      const isInside = held.length > 0 || left > 0 || !starts || isReturned;
      const first = last >= 0 && isInside ? bytes.indexOf(newline) + 1 : 0;
      pushLines(bytes.subarray(0, first), at);
      const isPlain = last > first && pushBlock(bytes.subarray(first, last), at);
      pushLines(bytes.subarray(isPlain ? last + 1 : first), at);
      // Held bytes must not keep their whole block alive.
      if (held.length > 0 && held.buffer === bytes.buffer) held = Buffer.from(held);
    },
    /** The begun line; empty if there is none. */
    pending: (): string => (held.length === 0 ? '' : decode(held)),
    /** Hands on a line that was not ended. */
    end(at: Instant): void {
      if (held.length > 0 || left > 0 || !starts) finish(at);
    },
  };
}

export type Splitter = ReturnType<typeof createSplitter>;

/** The length without a UTF-8 character that is cut off at the end (RFC 3629, section 3). */
function wholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= 3 && back < bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return size > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** Bytes as text. What is not UTF-8 is shown byte by byte (`\xff`), so that nothing of a binary output is hidden or guessed. */
export function decode(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return decodeMixed(bytes);
  }
}

function decodeMixed(bytes: Uint8Array): string {
  const parts: string[] = [];
  let at = 0;
  while (at < bytes.length) {
    const size = validAt(bytes, at);
    if (size === 0) {
      parts.push(`\\x${hexDigits(bytes[at] ?? 0, 2)}`);
      at += 1;
      continue;
    }
    const from = at;
    at += size;
    for (let next = validAt(bytes, at); next > 0; next = validAt(bytes, at)) at += next;
    parts.push(strict.decode(bytes.subarray(from, at)));
  }
  return parts.join('');
}

/** The length of the UTF-8 character at `at`; 0 if there is none (RFC 3629, section 4). */
function validAt(bytes: Uint8Array, at: number): number {
  const first = bytes[at];
  if (first === undefined) return 0;
  if (first < 0x80) return 1;
  const second = bytes[at + 1] ?? 0;
  const within = (low: number, high: number) => second >= low && second <= high;
  const tail = (offset: number) => ((bytes[at + offset] ?? 0) & 0xc0) === 0x80;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first === 0xe0) return within(0xa0, 0xbf) && tail(2) ? 3 : 0;
  if (first === 0xed) return within(0x80, 0x9f) && tail(2) ? 3 : 0;
  if (first >= 0xe1 && first <= 0xef) return tail(1) && tail(2) ? 3 : 0;
  if (first === 0xf0) return within(0x90, 0xbf) && tail(2) && tail(3) ? 4 : 0;
  if (first >= 0xf1 && first <= 0xf3) return tail(1) && tail(2) && tail(3) ? 4 : 0;
  if (first === 0xf4) return within(0x80, 0x8f) && tail(2) && tail(3) ? 4 : 0;
  return 0;
}

// A byte order mark is text like any other here: leaving it out would make a copy differ from its original.
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
