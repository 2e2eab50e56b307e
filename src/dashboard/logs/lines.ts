// Lines of one log, read by byte offset, forwards and backwards. Memory is bounded for any output: of a long line only the
// beginning is kept, and a line of more than a block is read in parts.

import { maxBlock, readAll, type ReadPart } from '../../app/find-line.ts';
import { hexDigits } from '../../app/format.ts';

export interface LogLine {
  /** Offsets of its first byte and of the byte after its newline. */
  readonly from: number;
  readonly to: number;
  /** Its last state if carriage returns overwrite it; at most `maxLineBytes` of it. Control characters are not escaped. */
  readonly text: string;
  /** Bytes that `text` leaves out. */
  readonly omittedBytes: number;
  /** Mostly bytes that are not text. */
  readonly isBinary: boolean;
  /** False for a line that may still continue, and for a part of a very long line. */
  readonly ends: boolean;
}

export interface LinesRead {
  readonly lines: readonly LogLine[];
  /** The size of the log. */
  readonly end: number;
  readonly isComplete: boolean;
}

export const maxLineBytes = 4 * 1024;
const newline = 10;
const carriageReturn = 13;

/**
 * Lines from the beginning of a line on, of about this number of bytes. At the end of the log the last one may be unfinished.
 * Empty at the end.
 */
export async function linesAfter(read: ReadPart, from: number, size: number): Promise<LinesRead> {
  for (let wanted = size; ; wanted = maxBlock) {
    const { bytes, end, isComplete } = await read(from, Math.min(wanted, maxBlock));
    const last = bytes.lastIndexOf(newline);
    const isAtEnd = from + bytes.length >= end;
    if (last < 0 && !isAtEnd && wanted < maxBlock && bytes.length >= wanted) continue;
    const used = isAtEnd || last < 0 ? bytes : bytes.subarray(0, last + 1);
    return { lines: splitLines(used, from), end, isComplete };
  }
}

/** Lines before the beginning of a line, of about this number of bytes. Empty at the beginning of the log. */
export async function linesBefore(read: ReadPart, to: number, size: number): Promise<LinesRead> {
  for (let wanted = Math.min(size, maxBlock); ; wanted = Math.min(wanted * 4, maxBlock)) {
    const begin = Math.max(0, to - wanted);
    const { bytes, end, isComplete } = await readAll(read, begin, to);
    // The first line may have begun earlier.
    const first = begin === 0 ? 0 : bytes.indexOf(newline) + 1;
    const isWithin = first < bytes.length && (begin === 0 || first > 0);
    if (!isWithin && wanted < maxBlock) continue;
    const used = isWithin ? bytes.subarray(first) : bytes;
    return { lines: splitLines(used, to - used.length), end, isComplete };
  }
}

/** `from`: the offset of the first byte. */
export function splitLines(bytes: Uint8Array, from: number): readonly LogLine[] {
  const lines: LogLine[] = [];
  for (let begin = 0; begin < bytes.length;) {
    const found = bytes.indexOf(newline, begin);
    const end = found < 0 ? bytes.length : found;
    lines.push(lineOf(bytes.subarray(begin, end), from + begin, found >= 0));
    begin = end + 1;
  }
  return lines;
}

function lineOf(bytes: Uint8Array, from: number, ends: boolean): LogLine {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === carriageReturn) end -= 1;
  const begin = end === 0 ? 0 : bytes.lastIndexOf(carriageReturn, end - 1) + 1;
  const size = wholeCharacters(bytes.subarray(begin, Math.min(end, begin + maxLineBytes)));
  const shown = bytes.subarray(begin, begin + size);
  return {
    from,
    to: from + bytes.length + (ends ? 1 : 0),
    text: decode(shown),
    omittedBytes: end - begin - size,
    isBinary: isBinary(shown),
    ends,
  };
}

/** Without a UTF-8 character that is cut off at the end (RFC 3629, section 3). */
function wholeCharacters(bytes: Uint8Array): number {
  if (bytes.length < maxLineBytes) return bytes.length;
  for (let back = 1; back <= 3 && back < bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    return characterSize(byte) > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

function characterSize(byte: number): number {
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function tryDecode(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

/** Invalid UTF-8 is shown byte by byte (`\xff`), so that no binary output is hidden or guessed. */
export function decode(bytes: Uint8Array): string {
  const whole = tryDecode(bytes);
  if (whole !== null) return whole;
  let text = '';
  for (let at = 0; at < bytes.length;) {
    const byte = bytes[at] ?? 0;
    const size = characterSize(byte);
    const character = tryDecode(bytes.subarray(at, at + size));
    text += character ?? `\\x${hexDigits(byte, 2)}`;
    at += character === null ? 1 : size;
  }
  return text;
}

const isTextByte = (byte: number): boolean =>
  byte >= 0x80 ? byte >= 0xc2 && byte < 0xf5 : byte >= 0x20 || byte === 9 || byte === 13 || byte === 27;

/** More than a tenth of the bytes are neither text nor the rest of a character. */
function isBinary(bytes: Uint8Array): boolean {
  let strange = 0;
  let rest = 0;
  for (const byte of bytes) {
    if (rest > 0 && (byte & 0xc0) === 0x80) {
      rest -= 1;
      continue;
    }
    rest = 0;
    if (!isTextByte(byte)) strange += 1;
    else rest = characterSize(byte) - 1;
  }
  return strange > 0 && strange * 10 > bytes.length;
}
