// Log cursor: how far a log has been read, and what of a reply is new. Lines come with their moments in front, to the
// billionth of a second, and leave without. The kubelet tells, from a moment on, every line of its file that is not older,
// in the file's order; so lines of the last second are counted, and as many are passed over when it is told again.

import type { ClusterLogQuery } from '../../app/cluster/cluster.ts';

/** Where a reader of one container's log stands. */
export interface LogCursor {
  /** What to ask for next, in the API's words. */
  from(query: Pick<ClusterLogQuery, 'tail' | 'since'>): Readonly<Record<string, string | number | undefined>>;
  /** The new whole lines of that piece, without their moments. */
  take(piece: Buffer): Buffer;
  /** A line that has no end, when there is nothing more; without its moment. */
  rest(): Buffer;
  /** The reply is over, and the next one begins where `from` says. A line that was cut is told again. */
  again(): void;
}

const lineEnd = 0x0a;
const blank = 0x20;
/** `2026-11-22T00:37:53` of `2026-11-22T00:37:53.681796213Z`. */
const secondLength = 19;

/** At the beginning. */
export function createLogCursor(): LogCursor {
  /** What stands behind the last whole line. */
  let cut: Buffer = Buffer.alloc(0);
  /** The last second that has been told of, the moment of its first line, and how many of its lines are out. */
  let now: { readonly second: Buffer; readonly first: string; count: number } | undefined;
  /** The moment of the last line that is out. */
  let last = '';
  /** In a reply that tells again: how many lines are still to be passed over. Undefined until its first line is seen. */
  let passing: { left: number } | 'unknown' | 'older' | undefined;

  /** Whether that line has not been had. */
  function isNew(moment: Buffer): boolean {
    if (passing === undefined) return true;
    const text = moment.toString('latin1');
    if (passing === 'unknown') {
      // Another line is the first of that second: the file was begun anew, or the second was entered in the middle.
      passing = now !== undefined && now.first === text ? { left: now.count } : 'older';
    }
    if (passing === 'older') return text > last;
    if (passing.left > 0) {
      passing.left -= 1;
      return false;
    }
    passing = undefined;
    return true;
  }

  function count(moment: Buffer): void {
    const order = now === undefined ? 1 : moment.compare(now.second, 0, secondLength, 0, secondLength);
    if (order > 0 || now === undefined) {
      const copy = Buffer.from(moment);
      now = { second: copy.subarray(0, secondLength), first: copy.toString('latin1'), count: 1 };
    } else if (order === 0) now.count += 1;
  }

  return {
    from({ tail, since }) {
      if (now === undefined) {
        return { tailLines: tail, sinceTime: since === undefined ? undefined : new Date(since).toISOString() };
      }
      // The node's own time zone stands behind the fraction.
      const zone = /(?:Z|[+-]\d\d:\d\d)$/.exec(now.first)?.[0] ?? 'Z';
      return { sinceTime: `${now.second.toString('latin1')}${zone}` };
    },
    take(piece) {
      const bytes = cut.length === 0 ? piece : Buffer.concat([cut, piece]);
      const out = Buffer.allocUnsafe(bytes.length);
      let [size, from] = [0, 0];
      let newest: Buffer | undefined;
      for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
        const gap = bytes.indexOf(blank, from);
        const hasMoment = gap > from + secondLength && gap < end;
        const moment = hasMoment ? bytes.subarray(from, gap) : undefined;
        if (moment === undefined || isNew(moment)) {
          size += bytes.copy(out, size, moment === undefined ? from : gap + 1, end + 1);
          if (moment !== undefined) {
            count(moment);
            newest = moment;
          }
        }
        from = end + 1;
      }
      if (newest !== undefined) last = newest.toString('latin1');
      cut = Buffer.from(bytes.subarray(from));
      return out.subarray(0, size);
    },
    rest() {
      const gap = cut.indexOf(blank);
      if (cut.length === 0 || gap < secondLength) return Buffer.alloc(0);
      const line = isNew(cut.subarray(0, gap)) ? cut.subarray(gap + 1) : Buffer.alloc(0);
      cut = Buffer.alloc(0);
      return line;
    },
    again() {
      cut = Buffer.alloc(0);
      passing = now === undefined ? undefined : 'unknown';
    },
  };
}
