import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Repeats a check until it returns something other than undefined or false, for changes in other processes. Returns
 * undefined after the timeout, which is long because machines may be busy; the caller then fails with its own message.
 */
export async function eventually<T>(
  ask: () => T | undefined | false | Promise<T | undefined | false>,
  { withinMs = 30_000, everyMs = 20 }: { readonly withinMs?: number; readonly everyMs?: number } = {},
): Promise<T | undefined> {
  const end = performance.now() + withinMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (performance.now() >= end) return undefined;
    await sleep(everyMs);
  }
}
