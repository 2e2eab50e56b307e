// Log cursor: how far a log has been read, and what of a reply is new. Lines come with their moments in front, to the
// billionth of a second, and leave without, unless they are to keep them. The kubelet tells, from a moment on, every line of its file that is not older,
// in the file's order; so lines of the last second are counted, and as many are passed over when it is told again.

import { second } from '../../core/time.ts';
import type { ClusterLogQuery } from '../../app/cluster/cluster.ts';

/** Where a reader of one container's log stands. */
export interface LogCursor {
  /** What to ask for next, in the API's words. */
  from(query: Pick<ClusterLogQuery, 'tail' | 'since'>): Readonly<Record<string, string | number | undefined>>;
  /** The new whole lines of that piece. */
  take(piece: Buffer): Buffer;
  /** A line that has no end, when there is nothing more. */
  rest(): Buffer;
  /**
   * The reply is over, and the next one begins where `from` says. A line that was cut is told again. `isWhole`: the reply came
   * to its own end, so all that the file had of that line was told; where the node has put that file away meanwhile, the next
   * one begins with the rest of the line.
   */
  again(isWhole?: boolean): void;
}

const lineEnd = 0x0a;
const blank = 0x20;
/** `2026-11-22T00:37:53` of `2026-11-22T00:37:53.681796213Z`. */
const secondLength = 19;

/** The lines of one second that are out. */
interface Second {
  /** Its text, 19 bytes. */
  readonly text: Buffer;
  /** The moment of its first line, and the number of that line among all that are out. */
  first: string;
  at: number;
  count: number;
}

/** At the beginning. `stamped`: lines keep their moments. */
export function createLogCursor({ stamped = false }: { readonly stamped?: boolean | undefined } = {}): LogCursor {
  /** What stands behind the last whole line. */
  let cut: Buffer = Buffer.alloc(0);
  /** What stood there at the own end of the last reply, until it is told again or gone on with. */
  let left: Buffer = Buffer.alloc(0);
  /** The newest second that has been told of, and the one before it. */
  let now: Second | undefined;
  let before: Second | undefined;
  let zone = 'Z';
  let out = 0;
  /** The newest moment that is out. */
  let last = '';
  /** In a reply that tells again: how many lines are still to be passed over. Undefined until its first line is seen. */
  let passing: { left: number } | 'unknown' | 'older' | undefined;

  /** Whether that line has not been had. */
  function isNew(moment: Buffer): boolean {
    if (passing === undefined) return true;
    const text = moment.toString('latin1');
    if (passing === 'unknown') {
      // Another line is the first one: the file was begun anew, or those seconds were entered in their middle.
      const [first, other] = [before, now].filter((one) => one !== undefined && one.count > 0);
      const begins = other !== undefined && first !== undefined && other.at < first.at ? other : first;
      passing = begins?.first === text ? { left: (before?.count ?? 0) + (now?.count ?? 0) } : 'older';
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
    out += 1;
    const order = now === undefined ? 1 : moment.compare(now.text, 0, secondLength, 0, secondLength);
    if (now === undefined || order > 0) {
      const text = Buffer.from(moment.subarray(0, secondLength));
      const earlier = secondBefore(text);
      before = now?.text.equals(earlier) === true ? now : { text: earlier, first: '', at: 0, count: 0 };
      now = { text, first: moment.toString('latin1'), at: out, count: 1 };
      // The node's own time zone stands behind the fraction.
      zone = /(?:Z|[+-]\d\d:\d\d)$/.exec(now.first)?.[0] ?? 'Z';
    } else if (order === 0) now.count += 1;
    else if (before !== undefined && moment.compare(before.text, 0, secondLength, 0, secondLength) === 0) {
      if (before.count === 0) Object.assign(before, { first: moment.toString('latin1'), at: out });
      before.count += 1;
    }
  }

  /** What is put in front of a new line that came at that moment: its beginning, unless it is told again with it. */
  function beginningOf(moment: Buffer): Buffer {
    const gap = left.indexOf(blank);
    const begun = gap < 0 || moment.equals(left.subarray(0, gap)) ? left.subarray(left.length) : left.subarray(gap + 1);
    left = Buffer.alloc(0);
    return begun;
  }

  return {
    from({ tail, since }) {
      if (before === undefined) {
        return { tailLines: tail, sinceTime: since === undefined ? undefined : new Date(since).toISOString() };
      }
      return { sinceTime: `${before.text.toString('latin1')}${zone}` };
    },
    take(piece) {
      const bytes = cut.length === 0 ? piece : Buffer.concat([cut, piece]);
      const fresh = Buffer.allocUnsafe(bytes.length + left.length);
      let [size, from] = [0, 0];
      let newest: Buffer | undefined;
      for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
        const gap = bytes.indexOf(blank, from);
        const hasMoment = gap > from + secondLength && gap < end;
        const moment = hasMoment ? bytes.subarray(from, gap) : undefined;
        if (moment === undefined || isNew(moment)) {
          const text = moment === undefined ? from : gap + 1;
          if (stamped) size += bytes.copy(fresh, size, from, text);
          if (moment !== undefined && left.length > 0) size += beginningOf(moment).copy(fresh, size);
          size += bytes.copy(fresh, size, text, end + 1);
          if (moment !== undefined) {
            count(moment);
            newest = moment;
          }
        }
        from = end + 1;
      }
      const text = newest?.toString('latin1') ?? '';
      if (text > last) last = text;
      cut = Buffer.from(bytes.subarray(from));
      return fresh.subarray(0, size);
    },
    rest() {
      const last = cut.length === 0 ? left : cut;
      const gap = last.indexOf(blank);
      if (last.length === 0 || gap < secondLength) return Buffer.alloc(0);
      const moment = last.subarray(0, gap);
      const isOut = last === cut && !isNew(moment);
      const begun = last === cut ? beginningOf(moment) : Buffer.alloc(0);
      const line = Buffer.concat([last.subarray(0, stamped ? gap + 1 : 0), begun, last.subarray(gap + 1)]);
      [cut, left] = [Buffer.alloc(0), Buffer.alloc(0)];
      return isOut ? Buffer.alloc(0) : line;
    },
    again(isWhole = false) {
      // Only what is asked for from a moment on is told again for sure.
      if (cut.length > 0) left = isWhole && now !== undefined ? cut : Buffer.alloc(0);
      cut = Buffer.alloc(0);
      passing = now === undefined ? undefined : 'unknown';
    },
  };
}

/** `2026-11-22T00:37:52` of `2026-11-22T00:37:53`. */
function secondBefore(text: Buffer): Buffer {
  return Buffer.from(new Date(Date.parse(`${text.toString('latin1')}Z`) - second).toISOString().slice(0, secondLength));
}
