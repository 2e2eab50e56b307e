// Merges the lines of several logs. A log's own lines keep their order; `fold` shows equal lines once.

import { foldKey, foldLines } from '../../app/log-text.ts';
import type { Piece } from './lines.ts';
import type { Duration, Instant } from '../../core/model/time.ts';

/** Taking from the front of a plain array would move all remaining lines each time. */
export function createQueue() {
  let items: Piece[] = [];
  let front = 0;
  return {
    get size(): number {
      return items.length - front;
    },
    add: (piece: Piece) => items.push(piece),
    at: (index: number): Piece | undefined => items[front + index],
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

export interface LineSource {
  readonly queue: Queue;
  /** `more`: more can be read now. `later`: perhaps later. `ended`: never. */
  state: 'more' | 'later' | 'ended';
}

interface MergeOptions {
  readonly fold: boolean;
  readonly patience: Duration;
}

/** `from` has several sources if all of them have the line. */
type Emit<L extends LineSource> = (from: readonly L[], piece: Piece) => void;

/** Workers that are further apart are printed separately. */
export const lookahead = 64;

/** Stops if more must be read first, or if a line still waits for an equal one; `sources` keep the rest. */
export function mergeLines<L extends LineSource>(
  sources: readonly L[],
  rules: MergeOptions,
  now: Instant,
  emit: Emit<L>,
): void {
  if (rules.fold && sources.length > 1) mergeFolding(sources, rules, now, emit);
  else mergeInTurn(sources, emit);
}

/** Workers with the same work are at about the same line. */
function mergeInTurn<L extends LineSource>(sources: readonly L[], emit: Emit<L>): void {
  for (;;) {
    let isEmpty = true;
    for (const source of sources) {
      if (source.queue.size === 0) {
        if (source.state === 'more') return;
        continue;
      }
      isEmpty = false;
      for (let piece = source.queue.take(); piece !== undefined;) {
        emit([source], piece);
        piece = piece.ends ? undefined : source.queue.take();
      }
    }
    if (isEmpty) return;
  }
}

function mergeFolding<L extends LineSource>(
  sources: readonly L[],
  rules: MergeOptions,
  now: Instant,
  emit: Emit<L>,
): void {
  for (;;) {
    const first = sources.reduce((oldest, one) => (headTime(one) < headTime(oldest) ? one : oldest));
    const head = first.queue.at(0);
    if (head === undefined) return;

    // Fast path: all workers have the same line.
    if (sources.every((source) => source.queue.at(0)?.text === head.text)) {
      for (const source of sources) source.queue.take();
      emit(sources, head);
      continue;
    }

    const key = keyOf(head);
    const indexes = new Map<L, number>();
    for (const source of sources) {
      const index = indexOfKey(key, source.queue);
      if (index >= 0) indexes.set(source, index);
      else if (mayStillCome(source, first, head, rules, now)) return;
    }
    for (const [source, index] of indexes) {
      for (let count = index; count > 0; count -= 1) {
        const earlier = source.queue.take();
        if (earlier !== undefined) emit([source], earlier);
      }
    }
    const same = [...indexes.keys()];
    const pieces = same.flatMap((source) => source.queue.take() ?? []);
    emit(same, { ...head, text: foldLines(pieces.map((piece) => piece.text)) });
  }
}

function headTime({ queue }: LineSource): Instant {
  return queue.at(0)?.at ?? Number.POSITIVE_INFINITY;
}

function mayStillCome(source: LineSource, first: LineSource, head: Piece, rules: MergeOptions, now: Instant): boolean {
  if (source.queue.size >= lookahead || source.state === 'ended') return false;
  if (source.state === 'more') return true;
  // A source with much left to read does not wait at every block for a silent one.
  return first.state !== 'more' && now - head.at < rules.patience;
}

function indexOfKey(key: string, queue: Queue): number {
  for (let index = 0; index < lookahead; index += 1) {
    const piece = queue.at(index);
    if (piece === undefined) return -1;
    if (keyOf(piece) === key) return index;
  }
  return -1;
}

const keys = new WeakMap<Piece, string>();

function keyOf(piece: Piece): string {
  const known = keys.get(piece);
  if (known !== undefined) return known;
  const key = foldKey(piece.text);
  keys.set(piece, key);
  return key;
}
