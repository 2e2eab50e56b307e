// Accounts of users at an identity provider, and logins there that wait for their next step.

import type { AuditEntry } from '../app/audit.ts';
import type { GroupRole, Identity } from '../app/oidc.ts';
import type { PendingLogin } from '../app/oidc-logins.ts';
import type { LogInAnswer, LogInChange, NewPerson } from '../app/ports.ts';
import { comparisonKey, normalizeName, userNameProblem } from '../app/user-names.ts';
import type { Instant } from '../core/model/time.ts';
import { lowerRole, type Role, type UserName } from '../core/model/user.ts';
import { auditWrites } from './audit.ts';
import { sql, type Database, type Sql } from './sql.ts';
import type { UserView } from '../app/users.ts';
import { insertUser, isLastAdmin, readUserViews } from './user-changes.ts';

interface Account {
  readonly owner: UserName;
  readonly issuer: string | null;
  readonly subject: string | null;
  /** The role that groups gave at the newest login; null: none did. */
  readonly groupRole: Role | null;
}

/** See `AccessStore.logIn`. */
export async function logIn(
  db: Database,
  { issuer, subject, account }: Identity,
  person: NewPerson | null,
  at: Instant,
  audit: (user: UserName, role: Role, change: LogInChange) => AuditEntry,
  groups: GroupRole | null = null,
): Promise<LogInAnswer> {
  const { rows } = await sql<Account & { readonly account: string }>`
    select owner, account, issuer, subject, group_role as "groupRole" from account
    where (issuer = ${issuer} and subject = ${subject}) or account = ${account}`.execute(db);
  const found = rows.find((row) => row.subject === subject && row.issuer === issuer) ?? rows[0];
  const users = await readUserViews(db);
  const user = users.find(({ name }) => name === found?.owner);
  if (found === undefined || user === undefined) {
    if (person === null || userNameProblem(normalizeName(person.name)) !== null) return { kind: 'unknown' };
    const name = normalizeName(person.name);
    const similar = users.find((one) => comparisonKey(one.name) === comparisonKey(name));
    if (similar !== undefined) return { kind: 'name_taken', user: similar.name, role: similar.role };
    await insertUser(db, { name, role: person.role, createdAt: at });
    await sql`
      insert into account (owner, account, issuer, subject, bound_at, group_role)
      values (${name}, ${account}, ${issuer}, ${subject}, ${at}, ${groups?.role ?? null})`.execute(db);
    await db.runAll(auditWrites(audit(name, person.role, { added: true })));
    return { kind: 'allowed', user: name, role: person.role };
  }
  const { name } = user;
  if (user.disabledAt !== null) return { kind: 'disabled', user: name, role: user.role };
  if (found.subject === null)
    await sql`
      update account set issuer = ${issuer}, subject = ${subject}, bound_at = ${at} where owner = ${name}`.execute(db);
  else if (found.subject !== subject || found.issuer !== issuer)
    return { kind: 'other_person', user: name, role: user.role };
  const { role, ...change } = await applyGroups(db, user, found.groupRole, groups);
  await db.runAll(auditWrites(audit(name, role, change)));
  return { kind: 'allowed', user: name, role };
}

/** The role that the user has now. Without a group, only a role that groups gave is taken away. */
async function applyGroups(
  db: Database,
  user: UserView,
  before: Role | null,
  groups: GroupRole | null,
): Promise<LogInChange & { readonly role: Role }> {
  const { name, role } = user;
  if (groups === null) return { role };
  const wanted = groups.role ?? (before === role ? lowerRole(role, groups.otherwise) : role);
  await sql`update account set group_role = ${groups.role} where owner = ${name}`.execute(db);
  if (wanted === role) return { role };
  if (await isLastAdmin(db, user)) return { role, lastAdmin: true };
  await sql`update users set role = ${wanted} where name = ${name}`.execute(db);
  return { role: wanted, roleBefore: role };
}

/** Servers of one database may have different clocks, so that of the database counts. */
function clockOf(db: Database, at: Instant): Sql {
  return db.clock ?? sql`${at}`;
}

export async function addPendingLogin(
  db: Database,
  { id, kind, validForMs, body }: PendingLogin,
  at: Instant,
  max: number,
): Promise<void> {
  const clock = clockOf(db, at);
  await db.runAll([
    sql`delete from pending_login where expires_at <= ${clock}`,
    sql`
      delete from pending_login where id in (
        select id from pending_login where kind = ${kind} order by expires_at desc, id limit 1000000 offset ${max - 1})`,
    sql`insert into pending_login (id, kind, expires_at, body) values (${id}, ${kind}, ${clock} + ${validForMs}, ${body})`,
  ]);
}

/** The body, for the one who asks first; null if it was taken or has expired. */
export async function takePendingLogin(
  db: Database,
  id: string,
  kind: PendingLogin['kind'],
  at: Instant,
): Promise<string | null> {
  const { rows } = await sql<{ body: string; isExpired: number }>`
    delete from pending_login where id = ${id} and kind = ${kind}
    returning body, case when expires_at <= ${clockOf(db, at)} then 1 else 0 end as "isExpired"`.execute(db);
  const [row] = rows;
  return row === undefined || row.isExpired === 1 ? null : row.body;
}
