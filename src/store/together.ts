// Together: writes that wait at the same moment share one transaction, and with it one wait for the disk. A thousand jobs
// that move at once would otherwise wait a thousand times, and keep every other process from writing meanwhile.

import type { Database } from './sql.ts';

/** Runs an operation as a part of a transaction, and resolves once that is on the disk. */
export type Together = <T>(operation: (db: Database) => Promise<T>) => Promise<T>;

interface Part {
  readonly run: (db: Database) => Promise<() => void>;
  readonly fail: (error: unknown) => void;
}

/**
 * An operation that throws is undone by itself and the others stand; when the transaction as a whole comes to nothing,
 * each of its operations is told so. `turn` keeps this process's transactions on one file apart; `gather` is how long
 * is waited for more.
 */
export function createTogether(
  db: Database,
  turn: (work: () => Promise<void>) => Promise<void>,
  gather: () => Promise<void>,
): Together {
  let waiting: Part[] = [];

  async function write(): Promise<void> {
    await gather();
    const parts = waiting;
    waiting = [];
    const answers: (() => void)[] = [];
    try {
      await db.transaction(async (transaction) => {
        for (const part of parts) answers.push(await part.run(transaction));
      });
    } catch (error) {
      for (const part of parts) part.fail(error);
      return;
    }
    for (const answer of answers) answer();
  }

  return (operation) =>
    new Promise((resolve, reject) => {
      waiting.push({
        async run(transaction) {
          try {
            const result = await transaction.transaction(operation);
            return () => resolve(result);
          } catch (error) {
            return () => reject(error);
          }
        },
        fail: reject,
      });
      if (waiting.length === 1) void turn(write);
    });
}
