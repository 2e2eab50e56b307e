// The user that a command is for: named on the line, else --user or TPU_USER, else the user who types, else the answer to
// a question. And the user who types, who is the actor (app/actor.ts).

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { formatChoices } from '../../app/format.ts';
import { resolveActor, userEnvVariable } from '../../app/actor.ts';
import type { Io } from '../../app/services.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import type { UserName } from '../../core/model/user.ts';
import { normalizeName } from '../../app/user-names.ts';
import { formatActing } from '../../lab/booking-changes.ts';
import type { LabUser } from '../../lab/users.ts';
import { askUntilValid, canAsk, confirm } from '../prompt.ts';
import type { TpuCli, ParsedArguments } from './command.ts';

/** For a command that only reads. Throws JobmanError (2) if the user is unknown and there is no terminal. */
export async function resolveUser(cli: TpuCli, args: ParsedArguments): Promise<LabUser> {
  return chooseUser(cli, args, await cli.lab.store.users());
}

export async function resolveUsers(cli: TpuCli, args: ParsedArguments): Promise<readonly LabUser[]> {
  const users = await cli.lab.store.users();
  const user = namedUser(users, args);
  return user === undefined ? users : [user];
}

/** For changes. `what` completes "Do you want to ... for ada". Throws JobmanError (1) after a no. */
export async function resolveActingUser(cli: TpuCli, args: ParsedArguments, what: string): Promise<LabUser> {
  const { user, actor, effect } = await resolveActingEffect(cli, args, what);
  if (effect === null) return user;
  const question = `You are ${actor}. Do you want to ${what} for ${user.name}?`;
  if (!(await confirm(cli, question, `${effect}.`))) throw new JobmanError('Nothing was changed.', exitCode.failed);
  return user;
}

/** As `resolveActingUser`, for a command whose own question contains the effect; null if the user types it. */
export async function resolveActingEffect(cli: TpuCli, args: ParsedArguments, what: string): Promise<ActingEffect> {
  const users = await cli.lab.store.users();
  const user = await chooseUser(cli, args, users);
  const actor = actorName(cli, users, user.name);
  return { user, actor, effect: actor === user.name ? null : formatActing(actor, what, user.name) };
}

interface ActingEffect {
  readonly user: LabUser;
  /** The user who types. */
  readonly actor: UserName;
  /** Without a full stop. */
  readonly effect: string | null;
}

type Caller = Pick<TpuCli, 'io' | 'requestedUser' | 'tokenUser'>;

/** The value of TPU_USER; null if it is not set. */
export function requestedInEnv({ env }: Pick<Io, 'env'>): string | null {
  const name = env[userEnvVariable];
  return name === '' ? null : (name ?? null);
}

/**
 * The client of the user who types: on a server that of the token, on a shared login the user on the line, unless the caller
 * names another.
 */
export function clientNaming({ services, requestedUser, tokenUser }: TpuCli, named: UserName | null): Promise<Client> {
  return services.clientAs(requestedUser ?? (tokenUser === null ? named : null));
}

/** The user who types, if known; as `clientNaming`. Throws JobmanError (3) if --user or TPU_USER names no user. */
export function currentUser(cli: Caller, users: readonly LabUser[], named: UserName | null = null): LabUser | null {
  if (cli.tokenUser !== null) return users.find(({ name }) => name === cli.tokenUser) ?? null;
  const requested = findRequested(cli, users)?.name ?? named;
  const { user } = resolveActor({ login: cli.io.user, isHomeOwner: false }, requested, users);
  return users.find(({ name }) => name === user) ?? null;
}

/** The name of the user who types. Throws as `currentUser`. */
export function actorName(cli: Caller, users: readonly LabUser[], named: UserName | null = null): UserName {
  return currentUser(cli, users, named)?.name ?? cli.tokenUser ?? cli.io.user;
}

/** The user of a line that names none. Throws as `currentUser`. */
export function defaultUser(cli: Caller, users: readonly LabUser[]): LabUser | null {
  return findRequested(cli, users) ?? currentUser(cli, users);
}

function findRequested({ requestedUser }: Caller, users: readonly LabUser[]): LabUser | null {
  if (requestedUser === null) return null;
  const requested = normalizeName(requestedUser);
  const names = users.map(({ name }) => name);
  const found = users.find(({ name }) => name === requested);
  if (found !== undefined) return found;
  const near = didYouMean(requested, names);
  throw new JobmanError(
    `There is no user "${requested}" (from --user or ${userEnvVariable}).${near === undefined ? '' : ` Did you mean "${near}"?`}`,
    exitCode.notFound,
    ['tpu list-users    shows the users'],
  );
}

async function chooseUser(cli: TpuCli, args: ParsedArguments, users: readonly LabUser[]): Promise<LabUser> {
  return namedUser(users, args) ?? defaultUser(cli, users) ?? askForUser(cli, users);
}

function namedUser(users: readonly LabUser[], args: ParsedArguments): LabUser | undefined {
  return args.user === null ? undefined : users.find(({ name }) => name === args.user);
}

async function askForUser(cli: TpuCli, users: readonly LabUser[]): Promise<LabUser> {
  const { tokenUser } = cli;
  // Through a server only an admin adds users.
  const adding = tokenUser === null ? [] : [`An admin adds ${tokenUser}: tpu add-user ${tokenUser}`];
  if (users.length === 0)
    throw new JobmanError(
      `There are no users yet.${tokenUser === null ? ' `tpu add-user` adds one.' : ''}`,
      exitCode.notFound,
      adding,
    );
  const names = users.map(({ name }) => name);
  if (tokenUser !== null)
    throw new JobmanError(
      `${tokenUser} is no user of the lab. Name the user that you mean. ${formatChoices(names)}`,
      exitCode.usage,
      adding,
    );
  if (!canAsk(cli))
    throw new JobmanError(
      `Which user? Give a name, or set --user or ${userEnvVariable}. ${formatChoices(names)}`,
      exitCode.usage,
    );
  return askUntilValid(cli, `Which user? (${names.join(', ')})`, '', (answer) => {
    const found = users.find(({ name, id }) => name === answer || String(id) === answer);
    if (found !== undefined) return found;
    throw usageError(answer === '' ? 'Enter a name, or press Ctrl-C.' : `There is no user ${answer}.`);
  });
}
