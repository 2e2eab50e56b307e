// Lines that begin with the cluster's timestamp, as the API sends them and as the archive keeps them.

import { parseInstant, second, type Instant } from '../../core/model/time.ts';

const lineEnd = 0x0a;

/** Null without a timestamp. */
export function lineTime(bytes: Uint8Array, from: number): Instant | null {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + from, Math.min(40, bytes.length - from)).toString('latin1');
  return parseInstant(text.slice(0, text.indexOf(' ')));
}

export function withoutTimestamps(lines: Uint8Array): Uint8Array {
  return stripTimestamps(Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength), undefined);
}

/** Only the lines from `since` on. */
export function stripTimestamps(lines: Buffer, since: Instant | undefined): Buffer {
  const text = Buffer.allocUnsafe(lines.length);
  let size = 0;
  for (let from = 0; from < lines.length;) {
    const found = lines.indexOf(lineEnd, from);
    const end = found < 0 ? lines.length : found + 1;
    const gap = lines.indexOf(0x20, from);
    const begin = gap < 0 || gap >= end ? from : gap + 1;
    if (since === undefined || (lineTime(lines, from) ?? since) >= since) size += lines.copy(text, size, begin, end);
    from = end;
  }
  return text.subarray(0, size);
}

/** Lines of the last seconds identify a position in a log; the first of them may be a partial line. */
const overlap = 3 * second;

/** The last lines that a reader has, to continue after them. */
export function createTailBuffer() {
  let last: { readonly at: number; readonly lines: Uint8Array }[] = [];
  return {
    /** Lines with their timestamps. False if the last one has no end: such lines are not kept. */
    take(lines: Uint8Array): boolean {
      if (lines.at(-1) !== lineEnd) return false;
      const newest = lineTime(lines, lines.lastIndexOf(lineEnd, -2) + 1);
      last.push({ at: lineTime(lines, 0) ?? 0, lines });
      const enough = last.findLastIndex(({ at }) => at <= (newest ?? 0) - overlap);
      last = last.slice(Math.max(0, enough));
      return true;
    },
    /** `resumeAfter` of the query that continues after these lines. */
    resumeAfter: () => timestampsOf(Buffer.concat(last.map(({ lines }) => lines))),
  };
}

/** Only the last line keeps its text, because the timestamps of the others identify a position. They fit into one request. */
function timestampsOf(lines: Buffer): Buffer {
  const lastLine = lines.lastIndexOf(lineEnd, -2) + 1;
  const kept = Buffer.allocUnsafe(lines.length);
  let size = 0;
  for (let from = 0; from < lastLine;) {
    const end = lines.indexOf(lineEnd, from) + 1;
    const gap = lineTime(lines, from) === null ? end : lines.indexOf(0x20, from) + 1;
    size += lines.copy(kept, size, from, gap);
    if (gap < end) kept[size++] = lineEnd;
    from = end;
  }
  size += lines.copy(kept, size, lastLine);
  return kept.subarray(0, size);
}
