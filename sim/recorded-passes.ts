// Recorded passes: decides every pass of a world again, from the inputs in the database. Without them a wrong decision of a
// user's controller could not be repeated.

import type { Store } from '../src/app/ports.ts';
import { differencesOf } from '../src/core/decide/replay.ts';
import type { ReplayedPass } from '../src/core/decide/replay.ts';
import type { InvariantChecker } from './invariants.ts';

/** The recorded passes of these jobs. Breaks invariant 17 if one is missing or is decided differently now. */
export async function replayPasses(
  store: Pick<Store, 'passes'>,
  jobs: readonly string[],
  checker: Pick<InvariantChecker, 'fail'>,
): Promise<readonly ReplayedPass[]> {
  const found: ReplayedPass[] = [];
  for (const job of jobs) {
    for (const { seq, situation, inputs, events } of await store.passes(job)) {
      if (situation === null) continue;
      const name = `job ${job}: pass ${seq} (${situation})`;
      if (inputs === null) {
        checker.fail(17, `${name} cannot be read`);
        continue;
      }
      const pass = { ...inputs, events };
      found.push(pass);
      const [difference] = differencesOf(pass);
      if (difference !== undefined) checker.fail(17, `${name} is decided differently: ${JSON.stringify(difference)}`);
    }
  }
  return found;
}
