// Bytes of one log become lines. What is held at any moment is bounded, whatever the program prints: a line of 10 MB, a
// progress bar that never ends its line, nothing but zero bytes.

import { isUtf8 } from 'node:buffer';
import type { Instant } from '../../core/time.ts';
import { decode, isInert } from '../render/inert.ts';

/** A line, or a part of one that was too long to be held. Without its newline. */
export interface Piece {
  readonly text: string;
  /** False for the later parts of a line. */
  readonly starts: boolean;
  /** False for all parts of a line but the last. */
  readonly ends: boolean;
  /** Bytes of the line that were left out. */
  readonly left: number;
  /** True when it is known to hold no control character, so that nobody has to look. */
  readonly isInert: boolean;
  readonly at: Instant;
}

export interface SplitRules {
  /** The most bytes of a line that are held. */
  readonly most: number;
  /** A longer line loses its end, which is counted, or is handed on in parts. */
  readonly longer: 'cut' | 'parts';
  /** True: of a line that was written over with carriage returns (a progress bar) only its last state is kept. */
  readonly collapse: boolean;
}

export interface Splitter {
  push(bytes: Buffer, at: Instant): void;
  /** The begun line; empty if there is none. */
  pending(): string;
  /** Hands on a line that was not ended. */
  end(at: Instant): void;
}

const newline = 10;
const carriageReturn = 13;

export function createSplitter(rules: SplitRules, emit: (piece: Piece) => void): Splitter {
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

  /** Whole lines, one at a time: right for all that a program may print. */
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
    push(bytes, at) {
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
    pending: () => (held.length === 0 ? '' : decode(held)),
    end(at) {
      if (held.length > 0 || left > 0 || !starts) finish(at);
    },
  };
}

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
