// clean, clear, clear-finished, clear-error: what is over leaves the list.

import { exitCode } from '../../../app/errors.ts';
import type { LabUser } from '../../../lab/people.ts';
import { toClear, type Which } from '../../../lab/tidy.ts';
import { clearWindows, listOf, windowsText } from '../list-of.ts';
import { actingFor } from '../people.ts';
import type { TpuBody, TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';
import { closeZombieWindows } from './zombies.ts';

/** Everything that is over, and then windows that show nothing that is on the list. */
export async function clean(desk: TpuCli, words: Words): Promise<number> {
  const { user } = await actingFor(desk, words, 'clean up');
  await clear(desk, user, { which: 'all', resumed: words.flags.has('re') });
  await closeZombieWindows(desk, user);
  return exitCode.ok;
}

/** One of the commands that clear by status. */
export function clearing(which: Which): TpuBody {
  return async (desk, words) => {
    const { user } = await actingFor(desk, words, 'clear the list');
    await clear(desk, user, { which, resumed: false });
    return exitCode.ok;
  };
}

async function clear(
  desk: TpuCli,
  user: LabUser,
  what: { readonly which: Which; readonly resumed: boolean },
): Promise<void> {
  const client = await desk.services.client();
  const list = await listOf(desk, client, user);
  const windows = toClear(list, list.windows, what);
  await clearWindows(desk, user, windows);
  const numbers = windows.map(({ window }) => window.window);
  if (desk.json) desk.print(JSON.stringify({ cleared: numbers }));
  else if (numbers.length === 0) desk.tell(`Nothing of ${user.name} is to be cleared.`);
  else desk.tell(`Cleared ${windowsText(numbers)} of ${user.name}.`);
}
