// Find line: the nearest line with a text in whole logs, block by block. The server searches for texts and errors; a page
// searches by itself for regular expressions.

import type { LogPart } from './client.ts';
import { errorSigns, escapePattern, isErrorLine, timeOfLine, timestampOf } from './log-text.ts';

export type ReadPart = (from: number, maxBytes: number) => Promise<LogPart>;

/** A line of one of several logs. */
export interface LinePosition {
  /** The number of its log, from 0. */
  readonly log: number;
  /** The offset of a byte of the line. */
  readonly offset: number;
}

/** The text or the kind of line to find. */
export interface Matcher {
  /** The index of the first or last match in a block of text; null without a match. */
  readonly find: (block: string, which: 'first' | 'last') => number | null | Promise<number | null>;
}

export interface Search {
  readonly logs: readonly { readonly read: ReadPart; readonly size: number }[];
  readonly matcher: Matcher;
  readonly direction: 'next' | 'previous';
  /** An offset in each log. Next: the lines from there on; previous: the lines before it. */
  readonly from: readonly number[];
  readonly signal: AbortSignal;
  /** In bytes, of a read. By default 1 MiB, because an answer of a server takes a while. */
  readonly maxBlock?: number;
  /** Gets the bytes that were read so far, and the most that may be read. */
  readonly onProgress: (read: number, of: number) => void;
}

/** One character is one byte, so that an index is an offset. */
const bytesAsText = new TextDecoder('latin1');
const firstBlock = 128 * 1024;
/** Of one answer of the server. A longer line is shown in parts. */
export const maxBlock = 1024 * 1024;
const lineEnd = 10;

/** A pattern for what a line contains, without regard to case. */
export function textPattern(text: string): RegExp {
  return new RegExp(escapePattern(text), 'gi');
}

/** The text as its bytes are decoded. */
export function asBytes(text: string): string {
  return bytesAsText.decode(new TextEncoder().encode(text));
}

/** Matches a plain text. A block of it is never slow. */
export function matcherOf(text: string): Matcher {
  const pattern = new RegExp(escapePattern(asBytes(text)), 'gim');
  return { find: (block, which) => findWithSigns(block, which, pattern, () => true) };
}

/** Only this many bytes of a line are examined. */
const maxExamined = 4096;

/** Matches the lines that report an error. A block of them is never slow. */
export const errors: Matcher = {
  find: (block, which) => findWithSigns(block, which, errorSigns, isErrorLine),
};

/** The index of the first or last line with a sign and of the wanted kind: that of the sign, or of its line. */
function findWithSigns(
  block: string,
  which: 'first' | 'last',
  signs: RegExp,
  isWanted: (line: string) => boolean,
): number | null {
  signs.lastIndex = 0;
  let found: number | null = null;
  for (let sign = signs.exec(block); sign !== null; sign = signs.exec(block)) {
    const begin = block.lastIndexOf('\n', sign.index - 1) + 1;
    const next = block.indexOf('\n', sign.index);
    const end = next < 0 ? block.length : next;
    if (isWanted(block.slice(begin, Math.min(end, begin + maxExamined)))) {
      found = sign.index;
      if (which === 'first') return found;
    }
    // One sign in each line is enough.
    if (next < 0) break;
    signs.lastIndex = next + 1;
  }
  return found;
}

/** The index of the first or last line that matches; null without one. */
export function findInLines(
  block: string,
  which: 'first' | 'last',
  isWanted: (line: string) => boolean,
): number | null {
  let found: number | null = null;
  for (let begin = 0; begin < block.length;) {
    const next = block.indexOf('\n', begin);
    const end = next < 0 ? block.length : next;
    if (isWanted(block.slice(begin, Math.min(end, begin + maxExamined)))) {
      found = begin;
      if (which === 'first') return found;
    }
    begin = end + 1;
  }
  return found;
}

interface Cursor {
  readonly log: number;
  at: number;
  isDone: boolean;
  hit: { readonly offset: number; readonly order: number } | null;
  /** The order of the last line that was read. */
  order: number;
}

/** The beginning of the nearest line that matches; null without one. Throws the reason of the signal. */
export async function findLine(search: Search): Promise<LinePosition | null> {
  const { logs, direction, from, signal, maxBlock: limit = maxBlock } = search;
  const isNext = direction === 'next';
  const cursors = logs.map(({ size }, log): Cursor => {
    const at = from[log] ?? 0;
    return { log, at, isDone: isNext ? at >= size : at === 0, hit: null, order: Number.NaN };
  });
  const total = cursors.reduce((sum, { at, log }) => sum + (isNext ? (logs[log]?.size ?? 0) - at : at), 0);
  let read = 0;
  let block = firstBlock;
  const isBefore = (one: number, other: number): boolean => (isNext ? one < other : one > other);
  for (;;) {
    const best = cursors
      .filter(({ hit }) => hit !== null)
      .toSorted((a, b) => (isBefore(orderOfHit(a), orderOfHit(b)) ? -1 : 1))[0];
    const open = cursors.filter(
      ({ hit, isDone, order }) =>
        hit === null && !isDone && (best === undefined || Number.isNaN(order) || isBefore(order, orderOfHit(best))),
    );
    if (open.length === 0)
      return best?.hit === null || best === undefined ? null : { log: best.log, offset: best.hit.offset };
    const steps = await Promise.all(open.slice(0, 8).map((cursor) => step(search, cursor, block)));
    signal.throwIfAborted();
    read += steps.reduce((sum, one) => sum + one, 0);
    search.onProgress(read, total);
    block = Math.min(limit, block * 2);
  }
}

function orderOfHit({ hit }: Cursor): number {
  return hit?.order ?? Number.NaN;
}

/** Reads a block. Resolves with its size. */
async function step({ logs, matcher, direction }: Search, cursor: Cursor, size: number): Promise<number> {
  const source = logs[cursor.log];
  if (source === undefined) return 0;
  const isNext = direction === 'next';
  const begin = isNext ? cursor.at : Math.max(0, cursor.at - size);
  const { bytes, end } = await source.read(begin, isNext ? size : cursor.at - begin);
  const isLast = isNext ? begin + bytes.length >= end || bytes.length === 0 : begin === 0;
  let used = bytes;
  let offset = begin;
  // Whole lines, unless one is longer than the block.
  const edge = isNext ? bytes.lastIndexOf(lineEnd) + 1 : bytes.indexOf(lineEnd) + 1;
  if (!isLast && edge > 0 && edge < bytes.length) {
    used = isNext ? bytes.subarray(0, edge) : bytes.subarray(edge);
    offset = isNext ? begin : begin + edge;
  }
  const text = bytesAsText.decode(used);
  const index = await matcher.find(text, isNext ? 'first' : 'last');
  const share = (at: number): number => at / Math.max(1, source.size);
  const orderAt = (at: number): number => timeBefore(text, at) ?? share(offset + at);
  cursor.at = isNext ? offset + used.length : offset;
  cursor.isDone = isLast;
  if (index === null) cursor.order = orderAt(isNext ? text.length : 0);
  else {
    const lineAt = offset + text.lastIndexOf('\n', index - 1) + 1;
    const start = lineAt === offset && offset > 0 ? await lineStart(source.read, offset) : lineAt;
    cursor.hit = { offset: index === 0 ? start : lineAt, order: orderAt(index) };
  }
  return bytes.length;
}

/** The time of the line, or of one of the lines shortly before it. */
function timeBefore(text: string, index: number): number | null {
  let end = Math.min(index, text.length);
  for (let tries = 0; tries < 50 && end >= 0; tries += 1) {
    const begin = text.lastIndexOf('\n', end - 1) + 1;
    const time = timeOfLine(text.slice(begin, begin + 64));
    if (time !== null) return time;
    if (begin === 0) return null;
    end = begin - 1;
  }
  return null;
}

/** The time in the line that begins there, or in the nearest of the lines shortly before it with a time; null without one. */
export async function timeAt(read: ReadPart, offset: number): Promise<string | null> {
  const begin = Math.max(0, offset - 8192);
  const { bytes } = await readAll(read, begin, offset + 256);
  const text = bytesAsText.decode(bytes);
  const end = text.indexOf('\n', offset - begin);
  const lines = text.slice(0, end < 0 ? text.length : end).split('\n');
  return lines.map(timestampOf).findLast((time) => time !== null) ?? null;
}

/** The beginning of the line with this byte, at most a block before it. */
export async function lineStart(read: ReadPart, offset: number): Promise<number> {
  for (let wanted = 4096; ; wanted *= 16) {
    const begin = Math.max(0, offset - Math.min(wanted, maxBlock));
    if (begin === offset) return offset;
    const { bytes } = await readAll(read, begin, offset);
    const last = bytes.lastIndexOf(lineEnd);
    if (last >= 0) return begin + last + 1;
    if (begin === 0) return 0;
    if (wanted >= maxBlock) return begin;
  }
}

/** Reads again after an answer that has fewer bytes than requested. */
export async function readAll(read: ReadPart, from: number, to: number): Promise<LogPart> {
  let part = await read(from, to - from);
  while (part.bytes.length > 0 && from + part.bytes.length < Math.min(to, part.end)) {
    const next = await read(from + part.bytes.length, to - from - part.bytes.length);
    if (next.bytes.length === 0) break;
    const bytes = new Uint8Array(part.bytes.length + next.bytes.length);
    bytes.set(part.bytes);
    bytes.set(next.bytes, part.bytes.length);
    part = { ...next, from, bytes };
  }
  return part;
}
