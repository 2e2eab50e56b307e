// Tidying up: what is over leaves the list, windows are closed, and what fits nothing any more goes.

import { exitCode } from '../../../app/errors.ts';
import { isSettledPhase } from '../../../core/phase.ts';
import type { LabUser } from '../../../lab/people.ts';
import type { LabAttempt } from '../../../lab/record.ts';
import { fatesOf, toClear, wentOn, type Which } from '../../../lab/lineage.ts';
import { clearWindows, closeWindows, listOf, windowCalled, windowsText } from '../windows.ts';
import { actingFor } from '../people.ts';
import type { TpuBody, TpuCli } from '../command.ts';
import { endWithPrograms } from './kill.ts';

/** clean: everything that is over, and then windows that show nothing that is on the list. */
export const clean: TpuBody = async (desk, words) => {
  const { user } = await actingFor(desk, words, 'clean up');
  await clear(desk, user, { which: 'all', resumed: words.flags.has('re') });
  await closeZombieWindows(desk, user);
  return exitCode.ok;
};

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
  const list = await listOf(desk, await desk.services.client(), user);
  const windows = toClear(list, list.windows, what);
  await clearWindows(desk, user, windows);
  if (desk.json) desk.print(JSON.stringify({ cleared: numbersOf(windows) }));
  else tellCleared(desk, user, windows, `Nothing of ${user.name} is to be cleared.`);
}

function tellCleared(desk: TpuCli, { name }: LabUser, windows: readonly LabAttempt[], none: string): void {
  desk.tell(windows.length === 0 ? none : `Cleared ${windowsText(numbersOf(windows))} of ${name}.`);
}

function numbersOf(windows: readonly LabAttempt[]): readonly number[] {
  return windows.map(({ window }) => window.window);
}

/** A window is closed and leaves the list, and its job is ended. One that a running job continues stays on the list. */
export const killWindow: TpuBody = async (desk, words) => {
  const { user, by } = await actingFor(desk, words, 'close a window');
  const client = await desk.services.client();
  let code: number = exitCode.ok;
  for (const number of words.windows) {
    const found = await windowCalled(desk, user, number);
    const list = await listOf(desk, client, user);
    const { job } = found;
    const closed = `Closed ${windowsText([number])} of ${user.name}`;
    if (wentOn(list, list.windows)(found) && fatesOf(list)(job.job) === 'live') {
      await closeWindows(desk, user, [number]);
      desk.tell(`${closed}; it stays on the list, because what came of it is running.`);
      continue;
    }
    const phase = list.phaseOf(job.job);
    // Cleared first: a window that is closed under its program would be taken for one closed by hand.
    await clearWindows(desk, user, [found]);
    if (phase !== null && !isSettledPhase(phase)) {
      code = Math.max(code, await endWithPrograms(desk, { user, by, jobs: [job] }));
    }
    desk.tell(`${closed}.`);
  }
  return code;
};

export const zombieWindows: TpuBody = async (desk, words) => {
  const { user } = await actingFor(desk, words, 'close windows');
  if (!(await closeZombieWindows(desk, user)))
    desk.tell(
      `No window that jobman opened for ${user.name} is without a job; windows of other programs do not count.`,
    );
  return exitCode.ok;
};

/** Only what jobman opened; never a window of theirs, nor the shell at 0. True where there was one. */
async function closeZombieWindows(desk: TpuCli, user: LabUser): Promise<boolean> {
  const [there, windows] = await Promise.all([
    (await desk.lab.windows()).list(user.session),
    desk.lab.record.windows({ user: user.name }),
  ]);
  const listed = new Set(numbersOf(windows));
  const numbers = (there ?? []).filter((number) => number !== 0 && !listed.has(number));
  await closeWindows(desk, user, numbers);
  if (numbers.length > 0) desk.tell(`Closed ${windowsText(numbers)} of ${user.name} in tmux, of no job on the list.`);
  return numbers.length > 0;
}

export const zombieJobs: TpuBody = async (desk, words) => {
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
  tellCleared(desk, user, windows, `No job of ${user.name} that is over lacks its window.`);
  return exitCode.ok;
};
