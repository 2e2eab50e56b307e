// Log cursor: how far a log has been read, and what of a reply is new. Lines come with their moments in front, to the
// billionth of a second, and leave without, unless they are to keep them. The kubelet tells, from a moment on, every line of its file that is not older,
// in the file's order; so lines of the last second are counted, and as many are passed over when it is told again.
//
// A line of that file may be in parts: of a long one, of one that has no end, and of the one in whose middle the node began
// another file, where the first part ends the old file and the rest begins the new one. Each part has a moment, and the kubelet
// tells that of the first alone; but of each file anew. And it tells the file that has the name now and no other; when a
// container ends just then, a reply ends with the old file. (`ReadLogs` in k8s.io/cri-client, `redirectLogs` in containerd,
// and a cluster that was looked at.) So a part that was had is kept until it is told again, or what stands behind it is told.

import type { ClusterLogQuery } from '../../app/cluster/cluster.ts';
import { second } from '../../core/time.ts';

const lineEnd = 0x0a;
const blank = 0x20;
const dash = 0x2d;
const colon = 0x3a;
const letterT = 0x54;
/** `2026-11-22T00:37:53.681796213+00:00` is the longest. */
const momentMost = 35;

/**
 * A part that is not the last of its line is longer than this, unless a file ended with it: container runtimes cut at 16 KiB,
 * or at 8. What is shorter and looks alike is chance.
 */
const partLeast = 1024;
const noBytes: Buffer = Buffer.alloc(0);

/** A line whose end no reply has told. */
interface OpenLine {
  /** The moment that the node's newest file has in front of it. */
  readonly moment: string;
  /** The part of it that was in earlier files. */
  readonly head: Buffer;
  readonly text: Buffer;
}

/** At the beginning. `stamped`: lines keep their moments. */
export function createLogCursor({ stamped = false }: { readonly stamped?: boolean | undefined } = {}) {
  /** The bytes after the last whole line. */
  let cut: Buffer = noBytes;
  /** The parts of an unfinished line from earlier replies. */
  let open: OpenLine | undefined;
  /** The last line that is out, without its moment. */
  let lastLine: Buffer = noBytes;
  /** Whether anything is out, be it the rest of a line that had begun before the first reply. */
  let isAnyOut = false;
  /** Whether this reply has told nothing yet. */
  let isBeginning = true;
  let last = '';
  const seconds = createSecondCounter();
  /** In a reply that repeats lines: how many are still to be passed over. `open` if only the open line was had. */
  let passing: { left: number } | 'unknown' | 'older' | 'open' | undefined;

  /** Whether that line has not been had. `line`: all of it, where it has an end. */
  function isNew(moment: Buffer, line?: Buffer): boolean {
    if (passing === undefined) return true;
    const text = moment.toString('latin1');
    if (passing === 'open') {
      if (open !== undefined && text < open.moment) return false;
      passing = undefined;
      return true;
    }
    if (passing === 'unknown') {
      // Another line is the first one: the file was begun anew, or those seconds were entered in their middle.
      passing = seconds.firstMoment() === text ? { left: seconds.lines() } : 'older';
      const mayBeRest = text > last && (open === undefined || open.moment === text);
      if (passing === 'older' && line !== undefined && mayBeRest && isRestOf(lastLine, line)) {
        open = undefined;
        seconds.count(moment);
        last = text;
        // All behind it is new.
        passing = undefined;
        return false;
      }
    }
    if (passing === 'older') return text > last || text === open?.moment;
    if (passing.left > 0) {
      passing.left -= 1;
      return false;
    }
    passing = undefined;
    return true;
  }

  return {
    /** The query of the next request. */
    from({ tail, since }: Pick<ClusterLogQuery, 'tail' | 'since'>) {
      const again = seconds.firstSecond() ?? (open === undefined ? undefined : secondBefore(open.moment));
      if (again !== undefined) return { sinceTime: again };
      return { tailLines: tail, sinceTime: since === undefined ? undefined : new Date(since).toISOString() };
    },
    /** The new whole lines of that piece. */
    take(piece: Buffer): Buffer {
      const bytes = cut.length === 0 ? piece : Buffer.concat([cut, piece]);
      const fresh = Buffer.allocUnsafe(bytes.length + (open === undefined ? 0 : open.head.length + open.text.length));
      let [size, from, lastFrom] = [0, 0, 0];
      let newest: Buffer | undefined;
      for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
        const moment = momentAt(bytes, from, end);
        if (moment === undefined) {
          // The rest of a line that had begun before the moment that was asked for.
          if (!(isBeginning && isAnyOut)) size += bytes.copy(fresh, size, from, end + 1);
        } else {
          const text = bytes.subarray(from + moment.length + 1, end + 1);
          if (isNew(moment, text)) {
            if (stamped) size += bytes.copy(fresh, size, from, from + moment.length + 1);
            lastFrom = size;
            if (open !== undefined) size += headOf(open, moment.toString('latin1'), text).copy(fresh, size);
            size += text.copy(fresh, size);
            open = undefined;
            seconds.count(moment);
            newest = moment;
          }
        }
        isAnyOut = true;
        isBeginning = false;
        from = end + 1;
      }
      if (newest !== undefined) {
        const text = newest.toString('latin1');
        if (text > last) last = text;
        lastLine = Buffer.from(fresh.subarray(lastFrom, size));
      }
      cut = Buffer.from(bytes.subarray(from));
      return fresh.subarray(0, size);
    },
    /** Bytes of a line that has no end yet: of this reply, or of those before it, whichever are more. */
    held: () => Math.max(cut.length, open === undefined ? 0 : open.head.length + open.text.length),
    /** A line that has no end, when there is nothing more: of this reply, or of one before that nobody has gone on with. */
    rest() {
      const line = cutLine() ?? open;
      cut = noBytes;
      open = undefined;
      if (line === undefined) return noBytes;
      return Buffer.concat([stamped ? Buffer.from(`${line.moment} `) : noBytes, line.head, line.text]);
    },
    /** The reply is over, and the next one begins where `from` says. A line that was cut is told again, or its rest is. */
    again() {
      open = cutLine() ?? open;
      cut = noBytes;
      isBeginning = true;
      if (seconds.lines() > 0) passing = 'unknown';
      else passing = open === undefined ? undefined : 'open';
    },
  };

  function cutLine(): OpenLine | undefined {
    const stamp = momentAt(cut, 0, cut.length);
    if (stamp === undefined || !isNew(stamp)) return undefined;
    const moment = stamp.toString('latin1');
    const text = cut.subarray(stamp.length + 1);
    // Told again, it may have been cut again, and earlier.
    if (open?.moment === moment && open.text.length > text.length) return open;
    return { moment, head: headOf(open, moment, text), text };
  }
}

/** `2026-11-22T00:37:53.681796213Z`, where a line begins with it and a blank follows. */
function momentAt(line: Buffer, from: number, end: number): Buffer | undefined {
  const gap = line.indexOf(blank, from);
  if (gap <= from + secondLength || gap >= end || gap > from + momentMost) return undefined;
  // The rest of a line that began earlier has none.
  if (line[from + 4] !== dash || line[from + 10] !== letterT || line[from + 16] !== colon) return undefined;
  return line.subarray(from, gap);
}

/** True if the first line of another file is the second part of the last line that is out, because one reply went through both files. */
function isRestOf(lastLine: Buffer, line: Buffer): boolean {
  if (line.length < 2 || line.length >= lastLine.length) return false;
  return lastLine.subarray(lastLine.length - line.length).equals(line);
}

/** The part of the open line before that text, which this reply has. */
function headOf(open: OpenLine | undefined, moment: string, text: Buffer): Buffer {
  if (open === undefined) return noBytes;
  if (open.moment === moment) return open.head;
  const had = Buffer.concat([open.head, open.text]);
  return had.subarray(0, had.length - overlap(had, text));
}

/**
 * How many bytes at the end of `had` are the beginning of `text`, where they are too many for chance. In linear time (Knuth, Morris
 * and Pratt), because a program may print the same few bytes for megabytes.
 */
function overlap(had: Buffer, text: Buffer): number {
  if (text.length < partLeast) return 0;
  /** How many bytes of the beginning of `text` end at each of its bytes, but for itself. */
  const borders = new Int32Array(text.length);
  const longer = (matched: number, byte: number | undefined): number => {
    let length = matched;
    while (length > 0 && text[length] !== byte) length = borders[length - 1] ?? 0;
    return text[length] === byte ? length + 1 : 0;
  };
  for (let at = 1; at < text.length; at += 1) borders[at] = longer(borders[at - 1] ?? 0, text[at]);
  let matched = 0;
  for (let at = Math.max(0, had.length - text.length); at < had.length; at += 1) matched = longer(matched, had[at]);
  return matched < partLeast ? 0 : matched;
}

/** `2026-11-22T00:37:53` of `2026-11-22T00:37:53.681796213Z`. */
const secondLength = 19;

interface Second {
  readonly text: Buffer;
  /** The moment of its first line, and the number of that line among all that are out. */
  first: string;
  at: number;
  count: number;
}

function createSecondCounter() {
  let now: Second | undefined;
  let before: Second | undefined;
  let out = 0;
  const isIn = (moment: Buffer, { text }: Second): number => moment.compare(text, 0, secondLength, 0, secondLength);
  return {
    count(moment: Buffer): void {
      out += 1;
      const order = now === undefined ? 1 : isIn(moment, now);
      if (now === undefined || order > 0) {
        const text = Buffer.from(moment.subarray(0, secondLength));
        const earlier = Buffer.from(secondBefore(text.toString('latin1')).slice(0, secondLength));
        before = now?.text.equals(earlier) === true ? now : { text: earlier, first: '', at: 0, count: 0 };
        now = { text, first: moment.toString('latin1'), at: out, count: 1 };
      } else if (order === 0) now.count += 1;
      else if (before !== undefined && isIn(moment, before) === 0) {
        if (before.count === 0) Object.assign(before, { first: moment.toString('latin1'), at: out });
        before.count += 1;
      }
    },
    /** The second from which the counted lines are told again, with the node's time zone; undefined before the first line. */
    firstSecond() {
      if (now === undefined || before === undefined) return undefined;
      return before.text.toString('latin1') + zoneOf(now.first);
    },
    /** The moment of the line that is told first then. */
    firstMoment() {
      const [one, other] = [before, now].filter((each) => each !== undefined && each.count > 0);
      return other !== undefined && one !== undefined && other.at < one.at ? other.first : one?.first;
    },
    /** How many lines that are out are told again then. */
    lines: () => (before?.count ?? 0) + (now?.count ?? 0),
  };
}

/** `2026-11-22T00:37:52Z` of `2026-11-22T00:37:53.681796213Z`. A text that is no time stays as it is. */
function secondBefore(moment: string): string {
  const text = moment.slice(0, secondLength);
  const at = Date.parse(`${text}Z`) - second;
  return (Number.isNaN(at) ? text : new Date(at).toISOString().slice(0, secondLength)) + zoneOf(moment);
}

/** The node's own time zone, which stands behind the fraction. */
function zoneOf(moment: string): string {
  return /(?:Z|[+-]\d\d:\d\d)$/.exec(moment)?.[0] ?? 'Z';
}
