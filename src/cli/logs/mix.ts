// Lines of several workers become one sequence. A worker's own lines keep their order; equal lines of several workers
// are drawn once where that is wanted.

import type { WorkerId } from '../../core/spec.ts';
import type { Duration, Instant } from '../../core/time.ts';
import { foldKey, foldText } from './fold.ts';
import type { Piece } from './split.ts';

export interface Waiting {
  readonly piece: Piece;
  /** When it was read. */
  readonly at: Instant;
  /** Computed when it is first compared. */
  key?: string;
}

/** Lines in the order in which they were read. An array alone would move all of its rest with each line that is taken. */
export interface Queue {
  readonly size: number;
  add(waiting: Waiting): void;
  /** The line at this place from the front; undefined behind the end. */
  at(place: number): Waiting | undefined;
  take(): Waiting | undefined;
}

export function createQueue(): Queue {
  let items: Waiting[] = [];
  let front = 0;
  return {
    get size() {
      return items.length - front;
    },
    add: (waiting) => items.push(waiting),
    at: (place) => items[front + place],
    take() {
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

/** The lines of one worker that were read and not yet printed. */
export interface Lane {
  readonly worker: WorkerId | null;
  readonly queue: Queue;
  /** More can be read right now; nothing more now but perhaps later; nothing more ever. */
  state: 'more' | 'later' | 'ended';
}

export interface MixRules {
  readonly fold: boolean;
  /** How long a line waits for the same one of the other workers. */
  readonly patience: Duration;
}

/** How far ahead the same line is looked for; workers that are further apart print on their own. */
export const lookahead = 64;

/**
 * Takes from the queues what can be printed now, and hands it to `emit` in order. Stops where more should be read first,
 * or where a line still waits for its like. `lanes` keep what is left.
 */
export function mix(
  lanes: readonly Lane[],
  rules: MixRules,
  now: Instant,
  emit: (from: readonly Lane[], piece: Piece) => void,
): void {
  if (rules.fold && lanes.length > 1) mixFolding(lanes, rules, now, emit);
  else mixInTurn(lanes, emit);
}

/** A line from each in turn: workers that do the same work are about as far at the same line. */
function mixInTurn(lanes: readonly Lane[], emit: (from: readonly Lane[], piece: Piece) => void): void {
  for (;;) {
    let isEmpty = true;
    for (const lane of lanes) {
      if (lane.queue.size === 0) {
        if (lane.state === 'more') return;
        continue;
      }
      isEmpty = false;
      // The parts of a long line stay together as far as they have come.
      for (let piece = lane.queue.take()?.piece; piece !== undefined;) {
        emit([lane], piece);
        piece = piece.ends ? undefined : lane.queue.take()?.piece;
      }
    }
    if (isEmpty) return;
  }
}

function mixFolding(
  lanes: readonly Lane[],
  rules: MixRules,
  now: Instant,
  emit: (from: readonly Lane[], piece: Piece) => void,
): void {
  for (;;) {
    const first = oldest(lanes);
    const head = first?.queue.at(0);
    if (first === undefined || head === undefined) return;
    const key = keyOf(head);
    const places = new Map<Lane, number>();
    for (const lane of lanes) {
      const place = placeOf(key, lane.queue);
      if (place >= 0) places.set(lane, place);
      else if (mayStillCome(lane, first, head, rules, now)) return;
    }
    // Lines that a worker said before this one come before it.
    for (const [lane, place] of places) {
      for (let count = place; count > 0; count -= 1) {
        const earlier = lane.queue.take();
        if (earlier !== undefined) emit([lane], earlier.piece);
      }
    }
    const same = [...places.keys()];
    const pieces = same.flatMap((lane) => lane.queue.take()?.piece ?? []);
    emit(same, { ...head.piece, text: foldText(pieces.map((piece) => piece.text)) });
  }
}

/** Whether the same line as `head` may come from `lane` soon enough to wait for it. */
function mayStillCome(lane: Lane, first: Lane, head: Waiting, rules: MixRules, now: Instant): boolean {
  if (lane.queue.size >= lookahead || lane.state === 'ended') return false;
  if (lane.state === 'more') return true;
  // Who has much left to read does not wait at every block for somebody who is silent.
  return first.state !== 'more' && now - head.at < rules.patience;
}

function placeOf(key: string, queue: Queue): number {
  for (let place = 0; place < lookahead; place += 1) {
    const waiting = queue.at(place);
    if (waiting === undefined) return -1;
    if (keyOf(waiting) === key) return place;
  }
  return -1;
}

function oldest(lanes: readonly Lane[]): Lane | undefined {
  let first: Lane | undefined;
  for (const lane of lanes) {
    const at = lane.queue.at(0)?.at;
    if (at !== undefined && at < (first?.queue.at(0)?.at ?? Number.POSITIVE_INFINITY)) first = lane;
  }
  return first;
}

function keyOf(waiting: Waiting): string {
  return (waiting.key ??= foldKey(waiting.piece.text));
}
