// Finds a line in whole logs, block by block: the nearest one in the order of all logs.

import { isErrorLine, timeOfLine, timestampOf } from '../../app/log-text.ts';
import { decode, lineStart, maxBlock, type ReadPart } from './lines.ts';
import type { Position } from './window.ts';

/** The text or the kind of line to find. */
export interface Matcher {
  /** The index of the first or last match in a block of text; null without a match. */
  readonly find: (block: string, which: 'first' | 'last') => number | null;
}

export interface Search {
  readonly logs: readonly { readonly read: ReadPart; readonly size: number }[];
  readonly matcher: Matcher;
  readonly direction: 'next' | 'previous';
  /** An offset in each log. Next: the lines from there on; previous: the lines before it. */
  readonly from: readonly number[];
  readonly signal: AbortSignal;
  /** Gets the bytes that were read so far, and the most that may be read. */
  readonly onProgress: (read: number, of: number) => void;
}

/** One character is one byte, so that an index is an offset. */
const bytesAsText = new TextDecoder('latin1');
const firstBlock = 128 * 1024;

/**
 * `text` is what a line contains, without regard to case; `/.../` is a regular expression. Null for an invalid expression.
 * `g`: for highlights too.
 */
export function patternOf(text: string): RegExp | null {
  const [, expression] = /^\/(.+)\/$/.exec(text) ?? [];
  try {
    return new RegExp(expression ?? text.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`), 'gi');
  } catch {
    return null;
  }
}

export function matcherOf(text: string): Matcher | null {
  const asBytes = bytesAsText.decode(new TextEncoder().encode(text));
  const pattern = patternOf(asBytes);
  if (pattern === null) return null;
  const lines = new RegExp(pattern.source, 'gim');
  return {
    find(block, which) {
      lines.lastIndex = 0;
      let found: number | null = null;
      for (let hit = lines.exec(block); hit !== null; hit = lines.exec(block)) {
        found = hit.index;
        if (which === 'first') break;
        // One hit for each line is enough.
        const end = block.indexOf('\n', hit.index);
        if (end < 0) break;
        lines.lastIndex = Math.max(end, hit.index + 1);
      }
      return found;
    },
  };
}

/** Only this many bytes of a line are examined. */
const maxExamined = 4096;

export const errors: Matcher = {
  find(block, which) {
    let found: number | null = null;
    for (let begin = 0; begin < block.length;) {
      const next = block.indexOf('\n', begin);
      const end = next < 0 ? block.length : next;
      if (isErrorLine(block.slice(begin, Math.min(end, begin + maxExamined)))) {
        found = begin;
        if (which === 'first') return found;
      }
      begin = end + 1;
    }
    return found;
  },
};

interface Cursor {
  readonly log: number;
  at: number;
  isDone: boolean;
  hit: { readonly offset: number; readonly order: number } | null;
  /** The order of the last line that was read. */
  order: number;
}

/** The beginning of the nearest line that matches; null without one. Throws the reason of the signal. */
export async function findLine(search: Search): Promise<Position | null> {
  const { logs, direction, from, signal } = search;
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
    block = Math.min(maxBlock, block * 2);
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
  const edge = isNext ? bytes.lastIndexOf(10) + 1 : bytes.indexOf(10) + 1;
  if (!isLast && edge > 0 && edge < bytes.length) {
    used = isNext ? bytes.subarray(0, edge) : bytes.subarray(edge);
    offset = isNext ? begin : begin + edge;
  }
  const text = bytesAsText.decode(used);
  const index = matcher.find(text, isNext ? 'first' : 'last');
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

export interface FirstError extends Position {
  readonly time: string | null;
}

/** The first error of each log that has one. Throws the reason of the signal. */
export async function firstErrors(
  search: Pick<Search, 'logs' | 'signal' | 'onProgress'>,
): Promise<readonly FirstError[]> {
  const total = search.logs.reduce((sum, { size }) => sum + size, 0);
  const found: FirstError[] = [];
  const waiting = search.logs.map((one, log) => ({ ...one, log }));
  const done = new Map<number, number>();
  const work = async (): Promise<void> => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
      const { read, size, log } = one;
      const hit = await findLine({
        logs: [{ read, size }],
        matcher: errors,
        direction: 'next',
        from: [0],
        signal: search.signal,
        onProgress: (bytes) => {
          done.set(log, bytes);
          search.onProgress(
            [...done.values()].reduce((sum, part) => sum + part, 0),
            total,
          );
        },
      });
      if (hit === null) continue;
      found.push({ log, offset: hit.offset, time: await timeAt(read, hit.offset) });
    }
  };
  await Promise.all(Array.from({ length: 6 }, work));
  return found.toSorted((one, other) => one.log - other.log);
}

async function timeAt(read: ReadPart, offset: number): Promise<string | null> {
  const begin = Math.max(0, offset - 8192);
  const { bytes } = await read(begin, offset - begin + 256);
  const lines = decode(bytes).split('\n');
  let at = begin;
  let time: string | null = null;
  for (const line of lines) {
    if (at > offset) break;
    time = timestampOf(line) ?? time;
    at += new TextEncoder().encode(line).length + 1;
  }
  return time;
}
