// Users: the registered users with their roles, logins and limits. An admin changes them; another user sees only their own entry.

import type { Instant } from '../core/model/time.ts';
import { roles, type Actor, type Role, type UserName } from '../core/model/user.ts';
import { noLimits, type UserLimits } from '../core/policy/limits.ts';
import { permittedOwners } from '../core/policy/permissions.ts';
import { auditEntry } from './audit.ts';
import { usageError } from './errors.ts';
import type { AccessStore } from './ports.ts';
import { requireGeneral } from './require-permission.ts';
import { nameRefusal, normalizeAccount, normalizeName, userNameProblem } from './user-names.ts';

/** A registered user. */
export interface UserView {
  readonly name: UserName;
  /** Each role has all permissions of the lower ones. */
  readonly role: Role;
  /** Logins of machines that belong to this user alone. */
  readonly logins: readonly string[];
  /** The account at the identity provider: an e-mail address, or the value of server.oidc.user_claim; null without one. */
  readonly account: string | null;
  /** Time of the first login with that account, which bound it to a person; null before. */
  readonly accountBoundAt: Instant | null;
  readonly createdAt: Instant;
  /** Null for a user who is not disabled. */
  readonly disabledAt: Instant | null;
  /** Set by an admin. */
  readonly limits: UserLimits;
}

export interface NewUser {
  readonly name: UserName;
  /** Default: member. */
  readonly role?: Role;
  readonly logins?: readonly string[];
  readonly account?: string;
}

/** `limits`: an absent limit does not change. */
export type AccessChange =
  | { readonly kind: 'role'; readonly role: Role }
  | { readonly kind: 'logins'; readonly logins: readonly string[] }
  /** Null removes it. The next login binds the account to a person again. */
  | { readonly kind: 'account'; readonly account: string | null }
  | { readonly kind: 'disable' | 'enable' }
  | { readonly kind: 'limits'; readonly limits: Partial<UserLimits> };

/** `changed` is false if the user already was as requested. */
export interface ChangedUser {
  readonly user: UserView;
  readonly changed: boolean;
}

interface UserParts {
  readonly access: AccessStore;
  readonly now: () => Instant;
}

export async function listUsers({ access }: UserParts, actor: Actor): Promise<readonly UserView[]> {
  const all = await access.users();
  return permittedOwners(actor, 'users') === null ? all : all.filter(({ name }) => name === actor.user);
}

export async function addUser({ access, now }: UserParts, actor: Actor, given: NewUser): Promise<UserView> {
  requireGeneral(actor, 'users', 'add users');
  const [name, { role = 'member', logins = [] }] = [normalizeName(given.name), given];
  const account = given.account === undefined ? null : requireAccount(given.account);
  const problem = userNameProblem(name);
  if (problem !== null) throw usageError(nameRefusal('user name', name, problem));
  requireRole(role);
  requireLogins(logins);
  const [at, user] = [now(), { name, role, logins: [...new Set(logins)], account, accountBoundAt: null }];
  const audit = auditEntry(
    actor,
    at,
    'add-user',
    { kind: 'user', id: name },
    {
      detail: { role, logins, ...(account !== null && { account }) },
    },
  );
  return access.addUser({ ...user, createdAt: at, disabledAt: null, limits: noLimits }, audit);
}

export async function changeUser(
  { access, now }: UserParts,
  actor: Actor,
  given: UserName,
  wanted: AccessChange,
): Promise<ChangedUser> {
  requireGeneral(actor, 'users', 'change users');
  const change =
    wanted.kind === 'account' && wanted.account !== null
      ? { ...wanted, account: requireAccount(wanted.account) }
      : wanted;
  if (change.kind === 'role') requireRole(change.role);
  if (change.kind === 'logins') requireLogins(change.logins);
  if (change.kind === 'limits') requireLimits(change.limits);
  const name = normalizeName(given);
  const detail = {
    change: change.kind,
    ...(change.kind === 'role' && { role: change.role }),
    ...(change.kind === 'logins' && { logins: change.logins }),
    ...(change.kind === 'account' && { account: change.account }),
    ...(change.kind === 'limits' && change.limits),
  };
  return access.changeUser(
    name,
    change,
    auditEntry(actor, now(), 'change-user', { kind: 'user', id: name }, { detail }),
  );
}

/** Over HTTP a value may be anything. Throws JobmanError (2). */
export function requireRole(role: Role): void {
  if (!roles.includes(role)) throw usageError(`${JSON.stringify(role)} is not a role: ${roles.join(', ')}.`);
}

function requireLogins(logins: readonly string[]): void {
  const wrong = logins.find((login) => !/^[^\s\p{C}/:]{1,64}$/u.test(login) || login.startsWith('-'));
  if (wrong !== undefined) throw usageError(`${JSON.stringify(wrong)} is not the name of a login.`);
}

/** Throws JobmanError (2). */
function requireAccount(given: string): string {
  if (/^[^\s\p{C}]{1,200}$/u.test(given)) return normalizeAccount(given);
  throw usageError(`${JSON.stringify(given)} is not the name of an account.`);
}

function requireLimits({ usdPerDay, projects, clusters, hosts, filesMib, ...counts }: Partial<UserLimits>): void {
  for (const [what, count] of Object.entries({ ...counts, 'MiB of files': filesMib }))
    if (count !== undefined && count !== null && !(Number.isSafeInteger(count) && count >= 0))
      throw usageError(`The limit of ${what} must be a whole number, 0 or more, and not ${count}.`);
  if (usdPerDay !== undefined && usdPerDay !== null && !(Number.isFinite(usdPerDay) && usdPerDay >= 0))
    throw usageError(`The limit of dollars per day must be a number, 0 or more, and not ${usdPerDay}.`);
  for (const [what, names] of Object.entries({ project: projects, cluster: clusters, host: hosts })) {
    const wrong = names?.find((name) => !/^[^\s\p{C}]{1,128}$/u.test(name));
    if (wrong !== undefined) throw usageError(`${JSON.stringify(wrong)} is not the name of a ${what}.`);
  }
}
