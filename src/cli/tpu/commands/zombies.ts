// -czw and -czj: windows that show nothing which is on the list, and jobs that are over and have no window any more.

import { exitCode } from '../../../app/errors.ts';
import type { LabUser } from '../../../lab/people.ts';
import { fatesOf } from '../../../lab/tidy.ts';
import { clearWindows, closeWindows, listOf, windowsText } from '../list-of.ts';
import { actingFor } from '../people.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

export async function zombieWindows(desk: TpuCli, words: Words): Promise<number> {
  const { user } = await actingFor(desk, words, 'close windows');
  const closed = await closeZombieWindows(desk, user);
  if (closed.length === 0)
    desk.tell(
      `No window that jobman opened for ${user.name} is without a job; windows of other programs do not count.`,
    );
  return exitCode.ok;
}

/** Only what jobman opened; never a window of theirs, nor the shell at 0. Resolves with the numbers. */
export async function closeZombieWindows(desk: TpuCli, user: LabUser): Promise<readonly number[]> {
  const [there, windows] = await Promise.all([
    (await desk.lab.windows()).list(user.session),
    desk.lab.record.windows({ user: user.name }),
  ]);
  const listed = new Set(windows.map(({ window }) => window.window));
  const numbers = (there ?? []).filter((number) => number !== 0 && !listed.has(number));
  await closeWindows(desk, user, numbers);
  if (numbers.length > 0) desk.tell(`Closed ${windowsText(numbers)} of ${user.name} in tmux, of no job on the list.`);
  return numbers;
}

export async function zombieJobs(desk: TpuCli, words: Words): Promise<number> {
  const { user } = await actingFor(desk, words, 'clear the list');
  const host = await desk.lab.windows();
  if (host.tmux === null) {
    desk.tell('There is no tmux on this machine, so no job lacks a window.');
    return exitCode.ok;
  }
  const there = new Set(await host.list(user.session));
  const list = await listOf(desk, await desk.services.client(), user);
  const fateOf = fatesOf(list);
  const windows = list.windows.filter(({ window }) => !there.has(window.window) && fateOf(window.job) !== 'live');
  await clearWindows(desk, user, windows);
  const numbers = windows.map(({ window }) => window.window);
  if (numbers.length === 0) desk.tell(`No job of ${user.name} that is over lacks its window.`);
  else desk.tell(`Cleared ${windowsText(numbers)} of ${user.name}.`);
  return exitCode.ok;
}
