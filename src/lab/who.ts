// Who: which user of the registry the person at the keyboard is, and for whom a command acts.

import { exitCode, JobmanError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { kept } from './names.ts';
import type { LabUser } from './people.ts';

/** The variable by which somebody says who they are, where several people share one login. */
export const userVariable = 'TPU_USER';

/**
 * The user who types: the one that TPU_USER names, else the one that has this login among theirs, else the one that is called
 * like the login. Null where nothing tells, as on a login that people share. Throws JobmanError (3) when that is
 * nobody; --user comes here as TPU_USER.
 */
export function me(
  { env, login }: { readonly env: Readonly<Record<string, string | undefined>>; readonly login: string },
  users: readonly LabUser[],
): LabUser | null {
  const said = kept(env[userVariable] ?? '');
  if (said === '') {
    return users.find(({ logins }) => logins.includes(login)) ?? users.find(({ name }) => name === login) ?? null;
  }
  const found = users.find(({ name }) => name === said);
  if (found !== undefined) return found;
  const near = didYouMean(
    said,
    users.map(({ name }) => name),
  );
  const guess = near === undefined ? '' : ` Did you mean "${near}"?`;
  throw new JobmanError(
    `There is no user "${said}", who you are by --user or ${userVariable}.${guess}`,
    exitCode.notFound,
    ['tpu list-users    lists those that there are'],
  );
}

/**
 * How that login may act for the owner of a job in a command that names the job and no user: `yes` where the login is the owner's;
 * `if named` on a login that people share, where only TPU_USER can say that it is the owner who types.
 */
export function mayActAs(
  { env, login }: { readonly env: Readonly<Record<string, string | undefined>>; readonly login: string },
  users: readonly LabUser[],
  owner: string,
): 'yes' | 'if named' | 'no' {
  const user = users.find(({ name }) => name === owner);
  if (user === undefined) return 'no';
  if (user.logins.includes(login)) return 'yes';
  // A login of one user is not shared, and a user with logins is reached by these alone.
  if (user.logins.length > 0 || me({ env: {}, login }, users) !== null) return 'no';
  return kept(env[userVariable] ?? '') === owner ? 'yes' : 'if named';
}

/** True when that is to be asked about: it is known who types, and it is somebody else. On a shared login nobody can tell. */
export function actsForAnother(typing: LabUser | null, user: string): boolean {
  return typing !== null && typing.name !== user;
}

/** Who a job's history says it was: who types, where that is known, else the user that the line names. */
export function actor(typing: LabUser | null, user: string): string {
  return typing?.name ?? user;
}
