// A user's list: windows, the phases of their jobs, and removal from the list.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatChoices, formatList } from '../../app/format.ts';
import type { UserJobs } from '../../lab/lineage.ts';
import type { LabUser } from '../../lab/users.ts';
import type { WindowWithJob } from '../../lab/lab-store.ts';
import type { TpuCli } from './command.ts';

export interface UserWindows extends UserJobs {
  readonly windows: readonly WindowWithJob[];
}

export async function readUserWindows(cli: TpuCli, client: Client, user: Pick<LabUser, 'name'>): Promise<UserWindows> {
  const { store } = cli.lab;
  const [jobs, windows, { rows }] = await Promise.all([
    store.jobs(user.name),
    store.windows({ user: user.name }),
    client.list({ user: user.name, all: true }),
  ]);
  const phases = new Map(rows.map(({ id, phase }) => [id, phase]));
  return { jobs, windows, phaseOf: (job) => phases.get(job) ?? null };
}

/** The listed window with the number, else the last cleared one. Throws JobmanError (3) if there is none. */
export async function findWindow(cli: TpuCli, user: Pick<LabUser, 'name'>, number: number): Promise<WindowWithJob> {
  const windows = await cli.lab.store.windows({ user: user.name, cleared: true });
  const found = windows.filter(({ window }) => window.window === number);
  const one = found.find(({ window }) => window.clearedAt === null) ?? found.at(-1);
  if (one !== undefined) return one;
  const listed = windows.filter(({ window }) => window.clearedAt === null).map(({ window }) => window.window);
  throw new JobmanError(
    `${user.name} has no window ${number}.`,
    exitCode.notFound,
    listed.length === 0 ? [] : [formatChoices(listed)],
  );
}

/** Clears windows before it closes them: a window that closes first counts as closed by the user. */
export async function clearWindows(
  cli: TpuCli,
  user: Pick<LabUser, 'session'>,
  windows: readonly WindowWithJob[],
): Promise<void> {
  if (windows.length === 0) return;
  const { store } = cli.lab;
  await store.setWindowState(
    windows.map(({ window }) => window),
    'cleared',
    cli.io.now(),
  );
  await closeWindows(
    cli,
    user,
    windows.map(({ window }) => window.window),
  );
}

/** Closes windows that jobman opened. A tmux error is only a note. */
export async function closeWindows(
  cli: TpuCli,
  { session }: Pick<LabUser, 'session'>,
  numbers: readonly number[],
): Promise<void> {
  const host = await cli.lab.tmuxWindows();
  if (host.tmux === null) return;
  for (const window of numbers) {
    try {
      await host.close({ session, window });
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      cli.note(error.message);
    }
  }
}

/** `window 12`, `windows 12, 13 and 15`. */
export function formatWindows(numbers: readonly number[]): string {
  return `${numbers.length < 2 ? 'window' : 'windows'} ${formatList(numbers.map(String))}`;
}
