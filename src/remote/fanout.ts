// Fan-out: the same thing on many workers, not too many at once.

/**
 * Does `work` for each item, at most `most` at a time, and answers in the order of the items. The work tells failures
 * as data; one that throws is our own bug and is thrown on.
 */
export async function fanOut<Item, Answer>(
  items: readonly Item[],
  most: number,
  work: (item: Item, index: number) => Promise<Answer>,
): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  let next = 0;
  async function lane(): Promise<void> {
    while (next < items.length) {
      const index = next++;
      answers[index] = await work(items[index] as Item, index);
    }
  }
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, lane));
  return answers;
}

/** Lets at most `most` through at once; the others wait their turn in order. */
export function createGate(most: number): <Answer>(work: () => Promise<Answer>) => Promise<Answer> {
  let inside = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (inside >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else inside += 1;
    try {
      return await work();
    } finally {
      const following = waiting.shift();
      if (following === undefined) inside -= 1;
      else following();
    }
  };
}
