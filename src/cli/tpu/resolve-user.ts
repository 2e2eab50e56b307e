// The user that a command acts for: named on the line, else the user who types, else the answer to a question.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatChoices } from '../../app/format.ts';
import { userEnvVariable } from '../../app/actor.ts';
import { actorName, actsForAnother, type LabUser, identifyUser } from '../../lab/users.ts';
import { canAsk, confirm } from '../prompt.ts';
import { ask } from './terminal.ts';
import type { TpuCli, ParsedArguments } from './command.ts';

/** For a command that only reads. Throws JobmanError (2) if the user is unknown and there is no terminal. */
export async function resolveUser(cli: TpuCli, args: ParsedArguments): Promise<LabUser> {
  const users = await cli.lab.store.users();
  return namedUser(users, args) ?? currentUser(cli, users) ?? askForUser(cli, users);
}

export async function resolveUsers(cli: TpuCli, args: ParsedArguments): Promise<readonly LabUser[]> {
  const users = await cli.lab.store.users();
  const user = namedUser(users, args);
  return user === undefined ? users : [user];
}

/** For changes; `by` is the actor. `what` completes "Do you want to ... for ada". Throws JobmanError (1) after a no. */
export async function resolveActingUser(
  cli: TpuCli,
  args: ParsedArguments,
  what: string,
): Promise<{ readonly user: LabUser; readonly by: string }> {
  const users = await cli.lab.store.users();
  const actor = currentUser(cli, users);
  const user = namedUser(users, args) ?? actor ?? (await askForUser(cli, users));
  if (actsForAnother(actor, user.name)) {
    const isMeant = await confirm(
      cli,
      `You are ${actor?.name}. Do you want to ${what} for ${user.name}?`,
      `You are ${actor?.name}; this would ${what} for ${user.name}.`,
    );
    if (!isMeant) throw new JobmanError('Nothing was changed.', exitCode.failed);
  }
  return { user, by: actorName(actor, user.name) };
}

/** The user who types, if known. Throws JobmanError (3) if --user or TPU_USER names no user. */
export function currentUser(cli: Pick<TpuCli, 'io' | 'userFlag'>, users: readonly LabUser[]): LabUser | null {
  const { env, user } = cli.io;
  return identifyUser(
    { env: cli.userFlag === undefined ? env : { ...env, [userEnvVariable]: cli.userFlag }, login: user },
    users,
  );
}

function namedUser(users: readonly LabUser[], args: ParsedArguments): LabUser | undefined {
  return args.user === null ? undefined : users.find(({ name }) => name === args.user);
}

async function askForUser(cli: TpuCli, users: readonly LabUser[]): Promise<LabUser> {
  if (users.length === 0) throw new JobmanError('There are no users yet. `tpu add-user` adds one.', exitCode.notFound);
  const names = users.map(({ name }) => name);
  if (!canAsk(cli))
    throw new JobmanError(
      `Which user? Give a name, or set --user or ${userEnvVariable}. ${formatChoices(names)}`,
      exitCode.usage,
    );
  for (;;) {
    const answer = await ask(cli, `Which user? (${names.join(', ')})`);
    const found = users.find(({ name, id }) => name === answer || String(id) === answer);
    if (found !== undefined) return found;
    cli.printStderr(answer === '' ? 'Enter a name, or press Ctrl-C.' : `There is no user ${answer}.`);
  }
}
