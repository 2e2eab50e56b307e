// The list of a user: their windows, the phases of their jobs, and how windows leave it.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { choiceText, joinedText } from '../../app/figures.ts';
import type { UserJobs } from '../../lab/lineage.ts';
import type { LabUser } from '../../lab/people.ts';
import type { LabAttempt } from '../../lab/record.ts';
import type { TpuCli } from './command.ts';

export interface ListOf extends UserJobs {
  readonly windows: readonly LabAttempt[];
}

export async function listOf(desk: TpuCli, client: Client, user: Pick<LabUser, 'name'>): Promise<ListOf> {
  const { record } = desk.lab;
  const [jobs, windows, { rows }] = await Promise.all([
    record.jobs(user.name),
    record.windows({ user: user.name }),
    client.list({ owner: user.name, all: true }),
  ]);
  const phases = new Map(rows.map(({ id, phase }) => [id, phase]));
  return { jobs, windows, phaseOf: (job) => phases.get(job) ?? null };
}

/**
 * The window of that number: on the user's list, else the last one that was cleared. Throws JobmanError (3) where there is none.
 */
export async function windowCalled(desk: TpuCli, user: Pick<LabUser, 'name'>, number: number): Promise<LabAttempt> {
  const windows = await desk.lab.record.windows({ user: user.name, cleared: true });
  const found = windows.filter(({ window }) => window.window === number);
  const one = found.find(({ window }) => window.clearedAt === null) ?? found.at(-1);
  if (one !== undefined) return one;
  const listed = windows.filter(({ window }) => window.clearedAt === null).map(({ window }) => window.window);
  throw new JobmanError(
    `${user.name} has no window ${number}.`,
    exitCode.notFound,
    listed.length === 0 ? [] : [choiceText(listed)],
  );
}

/**
 * Clears windows and closes them in tmux, in this order: the program of a window that is closed tells by it whether it was
 * closed manually.
 */
export async function clearWindows(
  desk: TpuCli,
  user: Pick<LabUser, 'session'>,
  windows: readonly LabAttempt[],
): Promise<void> {
  if (windows.length === 0) return;
  const { record } = desk.lab;
  await record.markWindows(
    windows.map(({ window }) => window),
    'cleared',
    desk.io.now(),
  );
  await closeWindows(
    desk,
    user,
    windows.map(({ window }) => window.window),
  );
}

/** Closes windows of ours in tmux; a tmux that does not answer is a remark. */
export async function closeWindows(
  desk: TpuCli,
  { session }: Pick<LabUser, 'session'>,
  numbers: readonly number[],
): Promise<void> {
  const host = await desk.lab.windows();
  if (host.tmux === null) return;
  for (const window of numbers) {
    try {
      await host.close({ session, window });
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      desk.note(error.message);
    }
  }
}

/** `window 12`, `windows 12, 13 and 15`. */
export function windowsText(numbers: readonly number[]): string {
  return `${numbers.length < 2 ? 'window' : 'windows'} ${joinedText(numbers.map(String))}`;
}
