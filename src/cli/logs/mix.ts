// Lines of several workers become one sequence. A worker's own lines keep their order; equal lines of several workers
// are drawn once where that is wanted.

import type { Piece } from './lines.ts';
import type { WorkerId } from '../../core/spec.ts';
import type { Duration, Instant } from '../../core/time.ts';

/** Lines in the order in which they were read. An array alone would move all of its rest with each line that is taken. */
export function createQueue() {
  let items: Piece[] = [];
  let front = 0;
  return {
    get size(): number {
      return items.length - front;
    },
    add: (piece: Piece) => items.push(piece),
    at: (place: number): Piece | undefined => items[front + place],
    take(): Piece | undefined {
      const taken = items[front];
      if (taken === undefined) return undefined;
      front += 1;
      if (front === items.length) {
        items = [];
        front = 0;
      }
      return taken;
    },
  };
}

type Queue = ReturnType<typeof createQueue>;

export interface Lane {
  readonly worker: WorkerId | null;
  readonly queue: Queue;
  /** More can be read right now; nothing more now but perhaps later; nothing more ever. */
  state: 'more' | 'later' | 'ended';
}

interface MixRules {
  readonly fold: boolean;
  readonly patience: Duration;
}

type Emit<L extends Lane> = (from: L | readonly L[], piece: Piece) => void;

/** Lines that are searched for an equal one; workers that are further apart print on their own. */
export const lookahead = 64;

/**
 * Takes from the queues what can be printed now, and hands it to `emit` in order. Stops where more should be read first,
 * or where a line still waits for its like. `lanes` keep what is left.
 */
export function mix<L extends Lane>(lanes: readonly L[], rules: MixRules, now: Instant, emit: Emit<L>): void {
  if (rules.fold && lanes.length > 1) mixFolding(lanes, rules, now, emit);
  else mixInTurn(lanes, emit);
}

/** A line from each in turn: workers that do the same work are about as far at the same line. */
function mixInTurn<L extends Lane>(lanes: readonly L[], emit: Emit<L>): void {
  for (;;) {
    let isEmpty = true;
    for (const lane of lanes) {
      if (lane.queue.size === 0) {
        if (lane.state === 'more') return;
        continue;
      }
      isEmpty = false;
      // The parts of a long line stay together as far as they have come.
      for (let piece = lane.queue.take(); piece !== undefined;) {
        emit(lane, piece);
        piece = piece.ends ? undefined : lane.queue.take();
      }
    }
    if (isEmpty) return;
  }
}

function mixFolding<L extends Lane>(lanes: readonly L[], rules: MixRules, now: Instant, emit: Emit<L>): void {
  for (;;) {
    const first = oldest(lanes);
    const head = first?.queue.at(0);
    if (first === undefined || head === undefined) return;

    // The usual case, without any search: all say the very same.
    if (lanes.every((lane) => lane.queue.at(0)?.text === head.text)) {
      for (const lane of lanes) lane.queue.take();
      emit(lanes, head);
      continue;
    }

    const key = keyOf(head);
    const places = new Map<L, number>();
    for (const lane of lanes) {
      const place = placeOf(key, lane.queue);
      if (place >= 0) places.set(lane, place);
      else if (mayStillCome(lane, first, head, rules, now)) return;
    }
    // Lines that a worker said before this one come before it.
    for (const [lane, place] of places) {
      for (let count = place; count > 0; count -= 1) {
        const earlier = lane.queue.take();
        if (earlier !== undefined) emit(lane, earlier);
      }
    }
    const same = [...places.keys()];
    const pieces = same.flatMap((lane) => lane.queue.take() ?? []);
    emit(same, { ...head, text: foldText(pieces.map((piece) => piece.text)) });
  }
}

/** True if a line equal to `head` may come from `lane` soon enough to wait for it. */
function mayStillCome(lane: Lane, first: Lane, head: Piece, rules: MixRules, now: Instant): boolean {
  if (lane.queue.size >= lookahead || lane.state === 'ended') return false;
  if (lane.state === 'more') return true;
  // A lane with much left to read does not wait at every block for a silent one.
  return first.state !== 'more' && now - head.at < rules.patience;
}

function placeOf(key: string, queue: Queue): number {
  for (let place = 0; place < lookahead; place += 1) {
    const piece = queue.at(place);
    if (piece === undefined) return -1;
    if (keyOf(piece) === key) return place;
  }
  return -1;
}

function oldest<L extends Lane>(lanes: readonly L[]): L | undefined {
  let first: L | undefined;
  let firstAt = Number.POSITIVE_INFINITY;
  for (const lane of lanes) {
    const at = lane.queue.at(0)?.at;
    if (at === undefined || at >= firstAt) continue;
    first = lane;
    firstAt = at;
  }
  return first;
}

/** A line is compared with many; its key is made once. */
const keys = new WeakMap<Piece, string>();

function keyOf(piece: Piece): string {
  const known = keys.get(piece);
  if (known !== undefined) return known;
  const key = foldKey(piece.text);
  keys.set(piece, key);
  return key;
}

/**
 * Two lines with equal keys may be drawn as one: they are equal after their own leading time is taken off, except for
 * numbers with a decimal point (a loss, a duration). Whole numbers count: a step that differs is another line.
 */
function foldKey(text: string): string {
  return withoutTime(text).replace(decimals, '#');
}

function foldText(texts: readonly string[]): string {
  const [first = '', ...others] = texts;
  const rest = withoutTime(first);
  const time = first.slice(0, first.length - rest.length);
  const all = [rest, ...others.map(withoutTime)].map((text) => text.split(decimalsKept));
  const drawn = all[0]?.map((part, index) => {
    const parts = all.map((text) => text[index] ?? part);
    return parts.every((other) => other === part) ? part : range(parts);
  });
  return time + (drawn ?? []).join('');
}

function range(parts: readonly string[]): string {
  const sorted = parts.toSorted((one, other) => Number(one) - Number(other));
  return `${sorted[0] ?? ''}..${sorted.at(-1) ?? ''}`;
}

export function timeOf(text: string): string | null {
  return leadingTime.exec(text)?.[0].replaceAll(/[[\]]/g, '').trim() ?? null;
}

function withoutTime(text: string): string {
  return text.replace(leadingTime, '');
}

const decimals = /\d+\.\d+/g;
const decimalsKept = /(\d+\.\d+)/;
/** `2026-11-20T08:20:01Z `, `[08:20:01,123] `, and the absl form `I1120 08:20:01.123456 4711 `. */
const leadingTime =
  /^(?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ |\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s+)/;
