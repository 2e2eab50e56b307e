// Finds lines that a page searches for by itself: regular expressions, and errors.

import { errors, findLine, textPattern, type LinePosition, type ReadPart, type Search } from '../../app/find-line.ts';
import { timestampOf } from '../../app/log-text.ts';
import { decode } from './lines.ts';

/** The expression of `/.../`; null for a text. */
export function expressionOf(text: string): string | null {
  return /^\/(.+)\/$/.exec(text)?.[1] ?? null;
}

/** For highlights. Null for an invalid expression. */
export function patternOf(text: string): RegExp | null {
  const expression = expressionOf(text);
  if (expression === null) return textPattern(text);
  try {
    return new RegExp(expression, 'gi');
  } catch {
    return null;
  }
}

export interface FirstError extends LinePosition {
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
