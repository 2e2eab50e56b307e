// Fan-out: the same for many, not too many at once.

/** Answers in the order of the items, `most` of them at a time. After a failure no other work begins. */
export async function fanOut<Item, Answer>(
  items: readonly Item[],
  most: number,
  work: (item: Item, index: number) => Promise<Answer>,
): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  const left = items.entries();
  let hasFailed = false;
  async function lane(): Promise<void> {
    for (const [index, item] of left) {
      if (hasFailed) return;
      answers[index] = await work(item, index).catch((error: unknown) => {
        hasFailed = true;
        throw error;
      });
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: Math.min(most, items.length) }, lane));
  const failed = ended.find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
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
