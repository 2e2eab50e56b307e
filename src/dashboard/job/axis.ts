// The time axis of the timeline: linear, except that long stretches in which only waiting happens may be folded.

import type { AttemptLane } from '../../app/attempt-timeline.ts';
import { minute, type Duration, type Instant } from '../../core/model/time.ts';

export interface AxisPiece {
  readonly from: Instant;
  readonly until: Instant;
  /** Parts of the width, from 0 to 1. */
  readonly start: number;
  readonly end: number;
  readonly isFolded: boolean;
}

const longWait: Duration = 30 * minute;
/** The part of the width that each folded stretch has. */
const foldedShare = 0.03;
const maxFoldedShare = 0.5;

/** Pieces in the order of time, without a gap. */
export function axisPieces(
  lanes: readonly AttemptLane[],
  [from, until]: readonly [Instant, Instant],
  isFolding: boolean,
): readonly AxisPiece[] {
  const end = Math.max(until, from + 1000);
  const folded = isFolding ? waits(lanes, [from, end]) : [];
  const share = Math.min(foldedShare, maxFoldedShare / Math.max(1, folded.length));
  const cuts: { from: Instant; until: Instant; isFolded: boolean }[] = [];
  let at = from;
  for (const wait of folded) {
    if (wait.from > at) cuts.push({ from: at, until: wait.from, isFolded: false });
    cuts.push({ ...wait, isFolded: true });
    at = wait.until;
  }
  if (at < end) cuts.push({ from: at, until: end, isFolded: false });
  const open = cuts.filter((one) => !one.isFolded).reduce((sum, one) => sum + (one.until - one.from), 0);
  const openShare = open === 0 ? 0 : 1 - folded.length * share;
  const foldedPart = open === 0 ? 1 / Math.max(1, folded.length) : share;
  let x = 0;
  return cuts.map((cut) => {
    const start = x;
    x += cut.isFolded ? foldedPart : (openShare * (cut.until - cut.from)) / open;
    return { ...cut, start, end: x };
  });
}

/** From 0 to 1. */
export function positionOf(pieces: readonly AxisPiece[], at: Instant): number {
  const piece = pieces.find(({ until }) => at <= until) ?? pieces.at(-1);
  if (piece === undefined) return 0;
  const part = (at - piece.from) / (piece.until - piece.from);
  return piece.start + Math.min(1, Math.max(0, part)) * (piece.end - piece.start);
}

/** Long stretches in which no attempt does more than wait. */
function waits(
  lanes: readonly AttemptLane[],
  [from, until]: readonly [Instant, Instant],
): readonly { readonly from: Instant; readonly until: Instant }[] {
  const busy = lanes
    .flatMap(({ segments }) => segments.filter(({ kind }) => kind !== 'waiting' && kind !== 'pause'))
    .toSorted((one, other) => one.from - other.from);
  const free: { from: Instant; until: Instant }[] = [];
  let at = from;
  for (const one of busy) {
    if (one.from - at > longWait) free.push({ from: at, until: one.from });
    at = Math.max(at, one.until);
  }
  if (until - at > longWait) free.push({ from: at, until });
  return free;
}
