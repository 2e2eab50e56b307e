// Before: what a log has when somebody begins to follow it. It is read with its moments, so that the reading goes on behind it;
// only so much is kept of it as is needed to know the place again.

import { bareLines, stampOf } from '../../app/cluster/kept-logs.ts';
import { second } from '../../core/time.ts';

/** The log before it is followed. */
export interface LogBefore {
  /** The whole lines of these pieces without their moments. What has no end yet will be told by whoever goes on. */
  through(stamped: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** The last lines with their moments: the `after` of a query that goes on behind them. */
  after(): Uint8Array;
}

/** Lines of the last two seconds tell a place; the first of them may be a part of one. */
const kept = 3 * second;

/** Nothing is read yet. */
export function createBefore(): LogBefore {
  let last: { readonly at: number; readonly piece: Uint8Array }[] = [];
  return {
    async *through(stamped) {
      for await (const piece of stamped) {
        if (piece.at(-1) !== lineEnd) continue;
        const newest = stampOf(piece, piece.lastIndexOf(lineEnd, -2) + 1);
        last.push({ at: stampOf(piece, 0) ?? 0, piece });
        const enough = last.findLastIndex(({ at }) => at <= (newest ?? 0) - kept);
        last = last.slice(Math.max(0, enough));
        yield bareLines(piece);
      }
    },
    after: () => Buffer.concat(last.map(({ piece }) => piece)),
  };
}

const lineEnd = 0x0a;
