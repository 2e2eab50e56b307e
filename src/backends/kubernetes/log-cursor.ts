// Log cursor: the position in a log. The kubelet puts a timestamp (nanoseconds) before each line; the cursor removes it
// unless requested. From a given time on, the kubelet sends every line of its file that is not older, in order. So the
// cursor counts the lines of the last two seconds and skips as many when they are repeated.
//
// A line may have several parts: a long line, a line without an end, or a line split by log rotation over two files.
// The kubelet sends only the timestamp of a line's first part, but again for each file. It reads only the file that has
// the name now; if the container ends just then, a reply ends with the old file. (`ReadLogs` in k8s.io/cri-client,
// `redirectLogs` in containerd, observations of a cluster.) So the cursor keeps an unfinished part until it is repeated
// or a later line arrives.

import type { ClusterLogQuery } from '../../app/cluster/cluster.ts';
import { second } from '../../core/model/time.ts';

const lineEnd = 0x0a;
const space = 0x20;
const dash = 0x2d;
const colon = 0x3a;
const letterT = 0x54;
/** The longest is `2026-11-22T00:37:53.681796213+00:00`. */
const maxTimestampLength = 35;

/** Parts are longer, except at a file's end: runtimes cut at 8 or 16 KiB. A shorter match is chance. */
const minPartLength = 1024;
const noBytes: Buffer = Buffer.alloc(0);

interface OpenLine {
  readonly timestamp: string;
  readonly head: Buffer;
  readonly text: Buffer;
}

/** A cursor at the beginning of a log. With `timestamps`, lines keep their timestamps. */
export function createLogCursor({ timestamps = false }: { readonly timestamps?: boolean | undefined } = {}) {
  let partialLine: Buffer = noBytes;
  let openLine: OpenLine | undefined;
  /** The last returned line, without its timestamp. */
  let lastLine: Buffer = noBytes;
  /** True after any line, including the rest of a line that began before the first reply. */
  let hasOutput = false;
  let isReplyStart = true;
  let newestTimestamp = '';
  const seconds = createSecondCounter();
  /** In a reply that repeats lines: the number of lines to skip. `open` if only the open line is known. */
  let skipping: { left: number } | 'unknown' | 'older' | 'open' | undefined;

  /** True for a line that has not been returned yet. `line` is the whole line, if it has an end. */
  function isNew(timestamp: Buffer, line?: Buffer): boolean {
    if (skipping === undefined) return true;
    const text = timestamp.toString('latin1');
    if (skipping === 'open') {
      if (openLine !== undefined && text < openLine.timestamp) return false;
      skipping = undefined;
      return true;
    }
    if (skipping === 'unknown') {
      // Another first line: the node began a new file, or the reply begins in the middle of those seconds.
      skipping = seconds.firstTimestamp() === text ? { left: seconds.lines() } : 'older';
      const mayBeRemainder = text > newestTimestamp && (openLine === undefined || openLine.timestamp === text);
      if (skipping === 'older' && line !== undefined && mayBeRemainder && isRemainderOf(lastLine, line)) {
        openLine = undefined;
        seconds.count(timestamp);
        newestTimestamp = text;
        skipping = undefined;
        return false;
      }
    }
    if (skipping === 'older') return text > newestTimestamp || text === openLine?.timestamp;
    if (skipping.left > 0) {
      skipping.left -= 1;
      return false;
    }
    skipping = undefined;
    return true;
  }

  return {
    nextQuery({ tail, since }: Pick<ClusterLogQuery, 'tail' | 'since'>) {
      const sinceTime =
        seconds.firstSecond() ?? (openLine === undefined ? undefined : secondBefore(openLine.timestamp));
      if (sinceTime !== undefined) return { sinceTime };
      return { tailLines: tail, sinceTime: since === undefined ? undefined : new Date(since).toISOString() };
    },
    take(piece: Buffer): Buffer {
      const bytes = partialLine.length === 0 ? piece : Buffer.concat([partialLine, piece]);
      const fresh = Buffer.allocUnsafe(bytes.length + lengthOf(openLine));
      let [size, from, lastFrom] = [0, 0, 0];
      let newest: Buffer | undefined;
      for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
        const timestamp = timestampAt(bytes, from, end);
        if (timestamp === undefined) {
          // The rest of a line that began before the requested time.
          if (!(isReplyStart && hasOutput)) size += bytes.copy(fresh, size, from, end + 1);
        } else {
          const text = bytes.subarray(from + timestamp.length + 1, end + 1);
          if (isNew(timestamp, text)) {
            if (timestamps) size += bytes.copy(fresh, size, from, from + timestamp.length + 1);
            lastFrom = size;
            if (openLine !== undefined) size += headOf(openLine, timestamp.toString('latin1'), text).copy(fresh, size);
            size += text.copy(fresh, size);
            openLine = undefined;
            seconds.count(timestamp);
            newest = timestamp;
          }
        }
        hasOutput = true;
        isReplyStart = false;
        from = end + 1;
      }
      if (newest !== undefined) {
        const text = newest.toString('latin1');
        if (text > newestTimestamp) newestTimestamp = text;
        lastLine = Buffer.from(fresh.subarray(lastFrom, size));
      }
      partialLine = Buffer.from(bytes.subarray(from));
      return fresh.subarray(0, size);
    },
    /** Length of the unfinished line: the larger of this reply's and the earlier replies'. */
    pendingBytes: () => Math.max(partialLine.length, lengthOf(openLine)),
    /** The last line of an ended log, if it lacks an end. It may come from an earlier reply. */
    unfinishedLine() {
      const line = takePartialLine() ?? openLine;
      partialLine = noBytes;
      openLine = undefined;
      if (line === undefined) return noBytes;
      return Buffer.concat([timestamps ? Buffer.from(`${line.timestamp} `) : noBytes, line.head, line.text]);
    },
    /** Call it between two replies. The next reply begins where `nextQuery` says and repeats a cut line or its rest. */
    beginReply() {
      openLine = takePartialLine() ?? openLine;
      partialLine = noBytes;
      isReplyStart = true;
      if (seconds.lines() > 0) skipping = 'unknown';
      else skipping = openLine === undefined ? undefined : 'open';
    },
  };

  function takePartialLine(): OpenLine | undefined {
    const stamp = timestampAt(partialLine, 0, partialLine.length);
    if (stamp === undefined || !isNew(stamp)) return undefined;
    const timestamp = stamp.toString('latin1');
    const text = partialLine.subarray(stamp.length + 1);
    // The repeated part may have been cut earlier than before. Keep the longer one.
    if (openLine?.timestamp === timestamp && openLine.text.length > text.length) return openLine;
    return { timestamp, head: headOf(openLine, timestamp, text), text };
  }
}

function lengthOf(line: OpenLine | undefined): number {
  return line === undefined ? 0 : line.head.length + line.text.length;
}

/** `2026-11-22T00:37:53.681796213Z`, if the line begins with it and a space follows. */
function timestampAt(line: Buffer, from: number, end: number): Buffer | undefined {
  const gap = line.indexOf(space, from);
  if (gap <= from + secondLength || gap >= end || gap > from + maxTimestampLength) return undefined;
  if (line[from + 4] !== dash || line[from + 10] !== letterT || line[from + 16] !== colon) return undefined;
  return line.subarray(from, gap);
}

/** True if one reply went through two files and the new file begins with the rest of the last returned line. */
function isRemainderOf(lastLine: Buffer, line: Buffer): boolean {
  if (line.length < 2 || line.length >= lastLine.length) return false;
  return lastLine.subarray(lastLine.length - line.length).equals(line);
}

/** The part of the open line that comes before `text`. */
function headOf(openLine: OpenLine | undefined, timestamp: string, text: Buffer): Buffer {
  if (openLine === undefined) return noBytes;
  if (openLine.timestamp === timestamp) return openLine.head;
  const received = Buffer.concat([openLine.head, openLine.text]);
  return received.subarray(0, received.length - overlap(received, text));
}

/**
 * Number of bytes at the end of `received` that begin `text`; 0 if it may be chance. Linear time (Knuth, Morris and
 * Pratt), because a program may print the same few bytes for megabytes.
 */
function overlap(received: Buffer, text: Buffer): number {
  if (text.length < minPartLength) return 0;
  /** For each prefix of `text`: the length of its longest proper prefix that is also its suffix. */
  const borders = new Int32Array(text.length);
  const longer = (matched: number, byte: number | undefined): number => {
    let length = matched;
    while (length > 0 && text[length] !== byte) length = borders[length - 1] ?? 0;
    return text[length] === byte ? length + 1 : 0;
  };
  for (let at = 1; at < text.length; at += 1) borders[at] = longer(borders[at - 1] ?? 0, text[at]);
  let matched = 0;
  for (let at = Math.max(0, received.length - text.length); at < received.length; at += 1)
    matched = longer(matched, received[at]);
  return matched < minPartLength ? 0 : matched;
}

/** `2026-11-22T00:37:53` of `2026-11-22T00:37:53.681796213Z`. */
const secondLength = 19;

interface Second {
  readonly text: Buffer;
  /** The timestamp of its first line, and the number of that line among all returned lines. */
  firstTimestamp: string;
  firstLineNumber: number;
  count: number;
}

function createSecondCounter() {
  let current: Second | undefined;
  let previous: Second | undefined;
  let lineCount = 0;
  const compareSecond = (timestamp: Buffer, { text }: Second): number =>
    timestamp.compare(text, 0, secondLength, 0, secondLength);
  return {
    count(timestamp: Buffer): void {
      lineCount += 1;
      const order = current === undefined ? 1 : compareSecond(timestamp, current);
      if (current === undefined || order > 0) {
        const text = Buffer.from(timestamp.subarray(0, secondLength));
        const earlier = Buffer.from(secondBefore(text.toString('latin1')).slice(0, secondLength));
        previous =
          current?.text.equals(earlier) === true
            ? current
            : { text: earlier, firstTimestamp: '', firstLineNumber: 0, count: 0 };
        current = { text, firstTimestamp: timestamp.toString('latin1'), firstLineNumber: lineCount, count: 1 };
      } else if (order === 0) current.count += 1;
      else if (previous !== undefined && compareSecond(timestamp, previous) === 0) {
        if (previous.count === 0)
          Object.assign(previous, { firstTimestamp: timestamp.toString('latin1'), firstLineNumber: lineCount });
        previous.count += 1;
      }
    },
    /** The second to request, with the node's time zone; undefined before the first line. */
    firstSecond() {
      if (current === undefined || previous === undefined) return undefined;
      return previous.text.toString('latin1') + timeZoneOf(current.firstTimestamp);
    },
    /** The timestamp of the first line from `firstSecond` on. */
    firstTimestamp() {
      const [one, other] = [previous, current].filter((each) => each !== undefined && each.count > 0);
      return other !== undefined && one !== undefined && other.firstLineNumber < one.firstLineNumber
        ? other.firstTimestamp
        : one?.firstTimestamp;
    },
    lines: () => (previous?.count ?? 0) + (current?.count ?? 0),
  };
}

/** `2026-11-22T00:37:52Z` for `2026-11-22T00:37:53.681796213Z`; an invalid time stays as it is. */
function secondBefore(timestamp: string): string {
  const text = timestamp.slice(0, secondLength);
  const at = Date.parse(`${text}Z`) - second;
  return (Number.isNaN(at) ? text : new Date(at).toISOString().slice(0, secondLength)) + timeZoneOf(timestamp);
}

function timeZoneOf(timestamp: string): string {
  return /(?:Z|[+-]\d\d:\d\d)$/.exec(timestamp)?.[0] ?? 'Z';
}
