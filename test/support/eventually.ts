import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Asks again and again until the answer is something other than undefined or false. For things that other processes
 * do, which no event of ours announces. Returns undefined when the time is over, which is long because a machine may be busy: the
 * caller knows what to say then.
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
