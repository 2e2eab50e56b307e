// Limits: interpolation can multiply a text as aliases can multiply a tree; this is where it stops.

import type { Tree } from '../../schema/tree.ts';

const charactersMost = 4 * 1024 * 1024;
const valuesMost = 20_000;
/** The number of unknown names that get a suggestion. Finding one compares the name with every key. */
const guessesMost = 100;
/** The longest chain of names, each of which leads to the next. */
export const chainMost = 200;

export interface Limits {
  /** True once more was made than any manifest needs. */
  isReached(): boolean;
  /** Counts characters of a text that was put together. */
  addText(characters: number): void;
  /** Counts a container with all values below it, which references to containers can double again and again. */
  addContainer(tree: Tree, children: readonly Tree[]): void;
  /** Whether one more name may be compared with every key. */
  mayGuess(): boolean;
}

export function newLimits(): Limits {
  const sizes = new WeakMap<Tree, number>();
  let characters = 0;
  let guesses = 0;
  let isReached = false;
  return {
    isReached: () => isReached,
    addText(more) {
      characters += more;
      isReached ||= characters > charactersMost;
    },
    addContainer(tree, children) {
      const size = children.reduce((sum, child) => sum + (sizes.get(child) ?? 1), 1);
      sizes.set(tree, size);
      isReached ||= size > valuesMost;
    },
    mayGuess() {
      guesses += 1;
      return guesses <= guessesMost;
    },
  };
}
