// kill-window: a window is closed and leaves the list, and its job is ended with it. One that a running job goes on from stays on
// the list; its window is closed all the same.

import { exitCode } from '../../../app/errors.ts';
import { isSettledPhase } from '../../../core/phase.ts';
import { fatesOf, wentOn } from '../../../lab/tidy.ts';
import { clearWindows, closeWindows, listOf, windowCalled, windowsText } from '../list-of.ts';
import { actingFor } from '../people.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';
import { endWithPrograms } from './kill.ts';

export async function killWindow(desk: TpuCli, words: Words): Promise<number> {
  const { user, by } = await actingFor(desk, words, 'close a window');
  const client = await desk.services.client();
  let code: number = exitCode.ok;
  for (const number of words.windows) {
    const found = await windowCalled(desk, user, number);
    const list = await listOf(desk, client, user);
    const { job, window } = found;
    const fateOf = fatesOf(list);
    const hasGoneOn = wentOn(list, list.windows)(found);
    if (hasGoneOn && fateOf(window.job) === 'live') {
      await closeWindows(desk, user, [number]);
      desk.tell(
        `Closed ${windowsText([number])} of ${user.name}; it stays on the list, because what came of it is running.`,
      );
      continue;
    }
    const phase = list.phaseOf(window.job);
    // Cleared first: a window that is closed under its program would be taken for one closed by hand.
    await clearWindows(desk, user, [found]);
    if (phase !== null && !isSettledPhase(phase)) {
      code = Math.max(code, await endWithPrograms(desk, client, { user, by, jobs: [job] }));
    }
    desk.tell(`Closed ${windowsText([number])} of ${user.name}.`);
  }
  return code;
}
