// User: the people who use jobman, and the actor, in whose name a call is performed.

/** The name of a registered user, or the login of an unregistered one. */
export type UserName = string;

/** In ascending order: each role has all permissions of the lower ones. */
export const roles = ['viewer', 'member', 'admin'] as const;

export type Role = (typeof roles)[number];

export function lowerRole(one: Role, other: Role): Role {
  return roles.indexOf(one) < roles.indexOf(other) ? one : other;
}

/** A registered user. */
export interface User {
  readonly name: UserName;
  readonly role: Role;
  /** Logins of machines that belong to this user alone; empty for a user of a shared login. */
  readonly logins: readonly string[];
  /** An admin has disabled the user, who may do nothing. */
  readonly isDisabled?: true;
}

/** A user who performs calls. Every client is bound to one actor. */
export interface Actor {
  readonly user: UserName;
  readonly role: Role;
  readonly via: 'local' | 'token' | 'session';
  /** Logins whose jobs are the actor's own: those of the user, and the one of this process. Empty for a token. */
  readonly logins: readonly string[];
  /** The login that performs the call, unless it is known to be the user's or owns the home. */
  readonly otherLogin?: string;
  /** The login of this machine that performs the call; absent for a token. */
  readonly login?: string;
  /** Projects of Google Cloud that the user of the token may use; null for all. Absent for a login, which has its own. */
  readonly projects?: readonly string[] | null;
  /** Clusters of the server that the user of the token may use, as in `UserLimits`; null for all. */
  readonly clusters?: readonly string[] | null;
  /** MiB of files that the user of the token may store on the server; null without a limit. */
  readonly filesMib?: number | null;
  /** An admin lets the user of the token run programs on the machine of the server. */
  readonly mayUseServerMachine?: true;
  /** The token of the call; absent for a login. */
  readonly token?: { readonly id: string; readonly name: string };
  /** As in `User`. */
  readonly isDisabled?: true;
}

/** The name of the actor in the history. */
export function nameInHistory({ user, otherLogin }: Actor): string {
  return otherLogin === undefined ? user : `${user} (login ${otherLogin})`;
}

export function owns(actor: Actor, owner: UserName): boolean {
  return ownNames(actor).includes(owner);
}

/** The owners whose jobs belong to the same person: the user and the user's logins, except names of other users. */
export function ownersLike(owner: UserName, users: readonly User[]): readonly UserName[] {
  const user = users.find(({ name }) => name === owner) ?? users.find(({ logins }) => logins.includes(owner));
  if (user === undefined) return [owner];
  return [user.name, ...user.logins.filter((login) => users.every(({ name }) => name !== login))];
}

/** Every owner whose jobs are the actor's own, the user first. */
export function ownNames({ user, logins }: Actor): readonly UserName[] {
  return [...new Set([user, ...logins])];
}
