// Actor: the user in whose name a local process performs its calls.

import type { Actor, User, UserName } from '../core/model/user.ts';

/** Names the user on a login that several people share. */
export const userEnvVariable = 'TPU_USER';

export interface Caller {
  readonly login: string;
  /** True for root and for the login that owns the home. */
  readonly isHomeOwner: boolean;
}

/** True if no registered user has this login or this name: several people may use it. */
export function isSharedLogin(login: string, users: readonly User[]): boolean {
  return userOfLogin(login, users) === undefined;
}

/**
 * True if this login may be that user: its own login, or a shared one for a user without logins. A shared login is never
 * an admin, because everyone who has it would be one.
 */
export function mayBe(login: string, user: User, users: readonly User[]): boolean {
  const own = userOfLogin(login, users);
  return own === undefined ? user.logins.length === 0 && user.role !== 'admin' : own.name === user.name;
}

/** `requested` (--user, TPU_USER, or the user on the line) counts only if the login may be that user. Never throws. */
export function resolveActor(
  { login, isHomeOwner }: Caller,
  requested: UserName | null,
  users: readonly User[],
): Actor {
  // The names of registered users are in this form (lab/names.ts).
  const name = requested?.normalize('NFC');
  const named = users.find((user) => user.name === name && mayBe(login, user, users));
  const own = userOfLogin(login, users);
  const user = named ?? own;
  const isRenamed = user !== own;
  const isOwner = isHomeOwner && !isRenamed;
  return {
    user: user?.name ?? login,
    role: isOwner ? 'admin' : (user?.role ?? 'member'),
    via: 'local',
    logins: loginsOf(user, login, users),
    login,
    ...(isRenamed && !isHomeOwner && { otherLogin: login }),
    // The owner of the home can write its database, so nothing keeps this login out.
    ...(user?.isDisabled === true && !isOwner && { isDisabled: true }),
  };
}

/** The login of this process is the user's own or a shared one, so its jobs count too. */
function loginsOf(user: User | undefined, login: string, users: readonly User[]): readonly string[] {
  // The jobs of a name that another user has are that user's.
  const others = new Set(users.filter((other) => other !== user).map((other) => other.name));
  return [...new Set([...(user?.logins ?? []), login])].filter((one) => !others.has(one));
}

function userOfLogin(login: string, users: readonly User[]): User | undefined {
  return users.find(({ logins }) => logins.includes(login)) ?? users.find(({ name }) => name === login);
}
