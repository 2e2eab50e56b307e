// The user that a command acts for: named on the line, else the one who types, else asked for.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { choiceText } from '../../app/figures.ts';
import { actor, actsForAnother, type LabUser, me, userVariable } from '../../lab/people.ts';
import { confirm } from '../prompt.ts';
import { canAsk, question } from './terminal.ts';
import type { TpuCli, Words } from './command.ts';

/**
 * The user that the line is about, for a command that only reads; asked for on a terminal where nothing tells. Throws
 * JobmanError (2) where nobody can be asked.
 */
export async function userOf(desk: TpuCli, words: Words): Promise<LabUser> {
  const users = await desk.lab.record.users();
  return named(users, words) ?? typing(desk, users) ?? asked(desk, users);
}

export async function usersOf(desk: TpuCli, words: Words): Promise<readonly LabUser[]> {
  const users = await desk.lab.record.users();
  const user = named(users, words);
  return user === undefined ? users : [user];
}

/**
 * `userOf` for a command that changes something; `by` is who acts. A user who acts for another confirms it: `what` continues "Do
 * you want to ... for ada". Throws JobmanError (1) when the answer is no.
 */
export async function actingFor(
  desk: TpuCli,
  words: Words,
  what: string,
): Promise<{ readonly user: LabUser; readonly by: string }> {
  const users = await desk.lab.record.users();
  const typist = typing(desk, users);
  const user = named(users, words) ?? typist ?? (await asked(desk, users));
  if (actsForAnother(typist, user.name)) {
    const isMeant = await confirm(
      desk,
      `You are ${typist?.name}. Do you want to ${what} for ${user.name}?`,
      `You are ${typist?.name}, and this would ${what} for ${user.name}.`,
    );
    if (!isMeant) throw new JobmanError('Nothing was done.', exitCode.failed);
  }
  return { user, by: actor(typist, user.name) };
}

/** The user who types, if known. Throws JobmanError (3) if --user or TPU_USER names no user. */
export function typing(desk: Pick<TpuCli, 'io' | 'me'>, users: readonly LabUser[]): LabUser | null {
  const { env, user } = desk.io;
  return me({ env: desk.me === undefined ? env : { ...env, [userVariable]: desk.me }, login: user }, users);
}

function named(users: readonly LabUser[], words: Words): LabUser | undefined {
  return words.user === null ? undefined : users.find(({ name }) => name === words.user);
}

async function asked(desk: TpuCli, users: readonly LabUser[]): Promise<LabUser> {
  if (users.length === 0) {
    throw new JobmanError('There are no users yet. `tpu add-user` adds one.', exitCode.notFound);
  }
  const names = users.map(({ name }) => name);
  if (!canAsk(desk)) {
    throw new JobmanError(
      `Which user? Say a name on the line, or who you are with --user or ${userVariable}. ${choiceText(names)}`,
      exitCode.usage,
    );
  }
  for (;;) {
    const answer = await question(desk, `Which user? (${names.join(', ')})`);
    const found = users.find(({ name, id }) => name === answer || String(id) === answer);
    if (found !== undefined) return found;
    desk.complain(answer === '' ? 'A user is needed; Ctrl-C leaves.' : `There is no user ${answer}.`);
  }
}
