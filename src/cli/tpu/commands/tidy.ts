// Tidying up: removes finished jobs from the list, and closes windows without a job on it.

import { exitCode } from '../../../app/errors.ts';
import { isFinishedPhase } from '../../../core/decide/phase.ts';
import type { LabUser } from '../../../lab/users.ts';
import type { WindowWithJob } from '../../../lab/lab-store.ts';
import { outcomesOf, windowsToClear, isContinuedIn, type ClearFilter } from '../../../lab/lineage.ts';
import { clearWindows, closeWindows, readUserWindows, findWindow, formatWindows } from '../user-windows.ts';
import { resolveActingUser } from '../resolve-user.ts';
import type { TpuHandler, TpuCli } from '../command.ts';
import { endJobsAndPrograms } from './kill.ts';

export const clean: TpuHandler = async (cli, args) => {
  const user = await resolveActingUser(cli, args, 'clean up');
  await clearList(cli, user, { filter: 'all', includeContinued: args.flags.has('re') });
  await closeZombieWindows(cli, user);
  return exitCode.ok;
};

export function clearCommand(filter: ClearFilter): TpuHandler {
  return async (cli, args) => {
    const user = await resolveActingUser(cli, args, 'clear the list');
    await clearList(cli, user, { filter, includeContinued: false });
    return exitCode.ok;
  };
}

async function clearList(
  cli: TpuCli,
  user: LabUser,
  what: { readonly filter: ClearFilter; readonly includeContinued: boolean },
): Promise<void> {
  const list = await readUserWindows(cli, await cli.services.client(), user);
  const windows = windowsToClear(list, list.windows, what);
  await clearAndPrint(cli, user, windows, `There is nothing to clear for ${user.name}.`);
}

async function clearAndPrint(
  cli: TpuCli,
  user: LabUser,
  windows: readonly WindowWithJob[],
  none: string,
): Promise<void> {
  await clearWindows(cli, user, windows);
  const cleared = numbersOf(windows);
  const sentence = cleared.length === 0 ? none : `Cleared ${formatWindows(cleared)} of ${user.name}.`;
  cli.printResult({ cleared }, sentence);
}

function numbersOf(windows: readonly WindowWithJob[]): readonly number[] {
  return windows.map(({ window }) => window.window);
}

/** A window whose work continues in a live job stays on the list. */
export const killWindow: TpuHandler = async (cli, args) => {
  const user = await resolveActingUser(cli, args, 'close a window');
  const client = await cli.services.client();
  let code: number = exitCode.ok;
  for (const number of args.windows) {
    const found = await findWindow(cli, user, number);
    const list = await readUserWindows(cli, client, user);
    const { job } = found;
    const closed = `Closed ${formatWindows([number])} of ${user.name}`;
    if (isContinuedIn(list, list.windows)(found) && outcomesOf(list)(job.job) === 'live') {
      await closeWindows(cli, user, [number]);
      cli.printSentence(`${closed}. It stays on the list, because another window continues its job.`);
      continue;
    }
    const phase = list.phaseOf(job.job);
    // Clear first: a window that closes while its program runs counts as closed by the user.
    await clearWindows(cli, user, [found]);
    if (phase !== null && !isFinishedPhase(phase)) code = Math.max(code, await endJobsAndPrograms(cli, user, [job]));
    cli.printSentence(`${closed}.`);
  }
  return code;
};

export const zombieWindows: TpuHandler = async (cli, args) => {
  const user = await resolveActingUser(cli, args, 'close windows');
  if (!(await closeZombieWindows(cli, user)))
    cli.printSentence(`All tmux windows that jobman opened for ${user.name} have a job on the list.`);
  return exitCode.ok;
};

/** Closes only windows that jobman opened and that are not on the list, never the shell at 0. True if there was one. */
async function closeZombieWindows(cli: TpuCli, user: LabUser): Promise<boolean> {
  const [there, windows] = await Promise.all([
    (await cli.lab.tmuxWindows()).list(user.session),
    cli.lab.store.windows({ user: user.name }),
  ]);
  const listed = new Set(numbersOf(windows));
  const numbers = (there ?? []).filter((number) => number !== 0 && !listed.has(number));
  await closeWindows(cli, user, numbers);
  if (numbers.length > 0)
    cli.printSentence(`Closed the tmux ${formatWindows(numbers)} of ${user.name}, which had no job on the list.`);
  return numbers.length > 0;
}

export const zombieJobs: TpuHandler = async (cli, args) => {
  const user = await resolveActingUser(cli, args, 'clear the list');
  const host = await cli.lab.tmuxWindows();
  if (host.tmux === null) {
    cli.printSentence('tmux is not installed on this machine. Nothing was changed.');
    return exitCode.ok;
  }
  const there = new Set(await host.list(user.session));
  const list = await readUserWindows(cli, await cli.services.client(), user);
  const outcomeOf = outcomesOf(list);
  const windows = list.windows.filter(({ window }) => !there.has(window.window) && outcomeOf(window.job) !== 'live');
  await clearAndPrint(cli, user, windows, `Every finished job of ${user.name} has its tmux window.`);
  return exitCode.ok;
};
