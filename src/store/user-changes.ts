// User changes: the statements that change registered users, for `jobman user` and for the lab, in a transaction.

import { exitCode, JobmanError } from '../app/errors.ts';
import { formatChoices } from '../app/format.ts';
import { comparisonKey } from '../app/user-names.ts';
import type { AccessChange, ChangedUser, UserView } from '../app/users.ts';
import type { AuditEntry } from '../app/audit.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { ownersLike, type UserName } from '../core/model/user.ts';
import { noLimits, type DailyBudget, type UserLimits } from '../core/policy/limits.ts';
import { auditWrites } from './audit.ts';
import { requireRow } from './counters.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { readLogins, readUsers } from './users.ts';

export async function readUserViews(db: Database, where: Sql = sql`1 = 1`): Promise<readonly UserView[]> {
  const { rows } = await sql<Omit<UserView, 'logins' | 'limits'> & { readonly limits: string | null }>`
    select name, role, account, bound_at as "accountBoundAt", created_at as "createdAt", disabled_at as "disabledAt", limits
    from users left join user_limit on user_limit.owner = users.name
    left join account on account.owner = users.name where ${where} order by name`.execute(db);
  const logins = await readLogins(db);
  return rows.map(({ limits, ...row }) => ({
    ...row,
    logins: logins.get(row.name) ?? [],
    limits: limitsOf(limits),
  }));
}

/** Of the stored JSON. */
export function limitsOf(stored: string | null): UserLimits {
  return stored === null ? noLimits : { ...noLimits, ...(JSON.parse(stored) as Partial<UserLimits>) };
}

/** Throws JobmanError (4) if the name, a similar one or a login is taken. */
export async function addUser(db: Database, user: UserView, audit: AuditEntry): Promise<UserView> {
  const { rows } = await sql<{ name: string }>`select name from users order by name`.execute(db);
  const similar = rows.find(({ name }) => comparisonKey(name) === comparisonKey(user.name));
  if (similar !== undefined)
    throw new JobmanError(
      similar.name === user.name
        ? `The user ${user.name} already exists.`
        : `The name ${user.name} is too similar to the user ${similar.name}. Choose another.`,
      exitCode.conflict,
    );
  await insertUser(db, user);
  await writeLogins(db, user.name, user.logins);
  if (user.account !== null) await writeAccount(db, user.name, user.account);
  await db.runAll(auditWrites(audit));
  return user;
}

export async function insertUser(
  db: Database,
  { name, role, createdAt }: Pick<UserView, 'name' | 'role' | 'createdAt'>,
): Promise<void> {
  await sql`
    insert into users (name, role, created_at) values (${name}, ${role}, ${createdAt})
    on conflict (name) do nothing`.execute(db);
}

/** Throws JobmanError: 3 without the user, 4 for the last admin or a login that is taken. */
export async function changeUser(
  db: Database,
  name: UserName,
  change: AccessChange,
  audit: AuditEntry,
): Promise<ChangedUser> {
  const before = await requireUser(db, name);
  await apply(db, before, change, audit);
  const user = await requireUser(db, name);
  const changed = JSON.stringify(user) !== JSON.stringify(before);
  if (changed) await db.runAll(auditWrites(audit));
  return { user, changed };
}

async function apply(db: Database, before: UserView, change: AccessChange, { at, actor }: AuditEntry): Promise<void> {
  const { name } = before;
  switch (change.kind) {
    case 'role':
      if (change.role !== 'admin') await requireOtherAdmin(db, before, 'get another role');
      await sql`update users set role = ${change.role} where name = ${name}`.execute(db);
      return;
    case 'disable':
      await requireOtherAdmin(db, before, 'be disabled');
      await sql`update users set disabled_at = ${at} where name = ${name} and disabled_at is null`.execute(db);
      return;
    case 'enable':
      await sql`update users set disabled_at = null where name = ${name}`.execute(db);
      return;
    case 'logins':
      return writeLogins(db, name, change.logins);
    case 'account':
      return writeAccount(db, name, change.account);
    case 'limits': {
      const limits = { ...before.limits, ...change.limits };
      if (JSON.stringify(limits) === JSON.stringify(before.limits)) return;
      await sql`
        insert into user_limit (owner, limits, changed_at, changed_by)
        values (${name}, ${JSON.stringify(limits)}, ${at}, ${actor})
        on conflict (owner) do update
        set limits = excluded.limits, changed_at = excluded.changed_at, changed_by = excluded.changed_by`.execute(db);
    }
  }
}

/** Without an admin no user could be changed from another machine. */
export async function isLastAdmin(db: Database, { name, role, disabledAt }: UserView): Promise<boolean> {
  if (role !== 'admin' || disabledAt !== null) return false;
  const { rows } = await sql`
    select 1 from users where role = 'admin' and disabled_at is null and name <> ${name} limit 1`.execute(db);
  return rows.length === 0;
}

/** Throws JobmanError (4). */
async function requireOtherAdmin(db: Database, user: UserView, action: string): Promise<void> {
  if (!(await isLastAdmin(db, user))) return;
  const { name } = user;
  throw new JobmanError(`${name} is the last admin and cannot ${action}. Nothing was changed.`, exitCode.conflict, [
    'jobman user role NAME admin    makes another user an admin',
  ]);
}

/** Removes what would otherwise count for a later user of the same name. The lab's part of the user must be gone. */
export async function removeUser(db: Database, name: UserName): Promise<void> {
  await db.runAll([
    sql`delete from login where owner = ${name}`,
    sql`delete from account where owner = ${name}`,
    sql`delete from token where owner = ${name}`,
    sql`delete from user_limit where owner = ${name}`,
    sql`delete from blob_upload where owner = ${name}`,
    sql`delete from users where name = ${name}`,
  ]);
}

/** For a change that any member of a lab may make. Throws JobmanError (4). */
export function refuseAdmin({ name, role }: Pick<UserView, 'name' | 'role'>, command: string): void {
  if (role !== 'admin') return;
  throw new JobmanError(`${name} is an admin, whom only an admin may change. Nothing was changed.`, exitCode.conflict, [
    command,
  ]);
}

/** Names the logins that the other owner keeps. */
type LoginRemedy = (owner: UserName, logins: readonly string[]) => string;

/** Throws JobmanError (4) if a login belongs to another user. */
export async function writeLogins(
  db: Database,
  name: UserName,
  logins: readonly string[],
  remedy: LoginRemedy = (owner, others) => ['jobman user logins', owner, ...others].join(' '),
): Promise<void> {
  await sql`delete from login where owner = ${name}`.execute(db);
  for (const login of new Set(logins)) {
    const { rows } = await sql<{ owner: string }>`
      insert into login (login, owner) values (${login}, ${name})
      on conflict (login) do update set login = excluded.login returning owner`.execute(db);
    const { owner } = requireRow(rows[0]);
    if (owner === name) continue;
    const others = ((await readLogins(db)).get(owner) ?? []).filter((one) => one !== login);
    throw new JobmanError(
      `The login "${login}" belongs to ${owner}. Remove it from that user first.`,
      exitCode.conflict,
      [remedy(owner, others)],
    );
  }
}

/** Null removes the account. The next login binds it again. Throws JobmanError (4) if another user has it. */
async function writeAccount(db: Database, name: UserName, account: string | null): Promise<void> {
  await sql`delete from account where owner = ${name}`.execute(db);
  if (account === null) return;
  const { rows } = await sql<{ owner: string }>`
    insert into account (owner, account) values (${name}, ${account})
    on conflict (account) do update set account = excluded.account returning owner`.execute(db);
  const owner = rows[0]?.owner;
  if (owner === name) return;
  throw new JobmanError(
    `The account "${account}" belongs to ${owner}. Remove it from that user first.`,
    exitCode.conflict,
    [`jobman user account ${owner} none`],
  );
}

async function requireUser(db: Database, name: UserName): Promise<UserView> {
  const all = await readUserViews(db);
  const found = all.find((user) => user.name === name);
  if (found !== undefined) return found;
  const names = all.map((user) => user.name);
  const meant = didYouMean(name, names);
  const hint = meant === undefined ? formatChoices(names) : `Did you mean "${meant}"?`;
  throw new JobmanError(`There is no user ${JSON.stringify(name)}. ${hint}`, exitCode.notFound);
}

export async function readDailyBudgets(db: Database): Promise<readonly DailyBudget[]> {
  const { rows } = await sql<{ owner: string; limits: string }>`select owner, limits from user_limit`.execute(db);
  const budgets = rows.flatMap(({ owner, limits }) => {
    const { usdPerDay } = limitsOf(limits);
    return usdPerDay === null ? [] : [{ owner, usdPerDay }];
  });
  if (budgets.length === 0) return [];
  const users = await readUsers(db);
  return budgets.map(({ owner, usdPerDay }) => ({ owners: ownersLike(owner, users), usdPerDay }));
}
