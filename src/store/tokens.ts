// Tokens: the statements about tokens of the HTTP API. Only hashes are stored.

import type { AuditEntry } from '../app/audit.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { pluralize } from '../app/format.ts';
import { firstRows, type Key, type Rows, type Span } from '../app/pages.ts';
import type { FoundToken, NewToken } from '../app/ports.ts';
import type { TokenView } from '../app/tokens.ts';
import { minute, type Instant } from '../core/model/time.ts';
import type { Role, UserName } from '../core/model/user.ts';
import { auditWrites } from './audit.ts';
import { atMost, sql, wroteRow, type Database, type Sql } from './sql.ts';
import { insertUser, limitsOf, readUserViews } from './user-changes.ts';

const columns = sql`
  token.id, token.name, token.owner as "user", token.role, token.created_at as "createdAt",
  token.created_by as "createdBy", token.expires_at as "expiresAt", token.last_used_at as "lastUsedAt",
  token.revoked_at as "revokedAt"`;

/** Of one user, or of all with null. */
export async function readTokens(
  db: Database,
  user: UserName | null,
  { after, limit }: Span = {},
): Promise<Rows<TokenView, Key>> {
  const where: Sql = user === null ? sql`1 = 1` : sql`owner = ${user}`;
  const [owner = '', createdAt = 0, id = ''] = after ?? [];
  const rest = after === undefined ? sql`` : sql`and (owner, created_at, id) > (${owner}, ${createdAt}, ${id})`;
  const { rows } = await sql<TokenView>`
    select ${columns} from token where ${where} ${rest} order by owner, created_at, id ${atMost(limit)}`.execute(db);
  return firstRows(
    rows.map((row) => ({ ...row })),
    limit,
    (row) => [row.user, row.createdAt, row.id],
  );
}

async function requireFreeToken(db: Database, { user, createdAt }: NewToken, allowed: number): Promise<void> {
  const { rows } = await sql`
    select 1 from token where owner = ${user} and revoked_at is null and expires_at > ${createdAt}`.execute(db);
  if (rows.length < allowed) return;
  throw new JobmanError(
    `No token was created: ${user} has ${pluralize(rows.length, 'valid token')}, and ${pluralize(allowed, 'is allowed', 'are allowed')}.`,
    exitCode.conflict,
    [
      `jobman token revoke NAME    revokes one that nothing uses`,
      `jobman user limit ${user} tokens=N    changes the limit, for an admin`,
    ],
    { reasons: ['user_limit'] },
  );
}

/** See `AccessStore.addToken`. */
export async function addToken(
  db: Database,
  token: NewToken,
  roleFor: (registered: Role | null, isFirstUser: boolean) => Role,
  audit: AuditEntry,
): Promise<{ readonly role: Role; readonly registered: boolean }> {
  const { id, name, user, hash, createdAt, createdBy, expiresAt } = token;
  const [found] = await readUserViews(db, sql`name = ${user}`);
  if (found !== undefined && found.disabledAt !== null)
    throw new JobmanError(`The user ${user} is disabled and can get no token.`, exitCode.conflict, [
      `jobman user enable ${user}    enables the user again`,
    ]);
  const isFirstUser = found === undefined && (await readUserViews(db)).length === 0;
  const role = roleFor(found?.role ?? null, isFirstUser);
  const registered = found === undefined;
  if (registered) await insertUser(db, { name: user, role: 'admin', createdAt });
  // The name of an expired token is free again.
  await sql`
    update token set revoked_at = expires_at
    where owner = ${user} and name = ${name} and revoked_at is null and expires_at <= ${createdAt}`.execute(db);
  const allowed = found?.limits.tokens ?? null;
  if (allowed !== null) await requireFreeToken(db, token, allowed);
  const isNew = await wroteRow(
    db,
    sql`
      insert into token (id, owner, name, role, hash, created_at, created_by, expires_at)
      values (${id}, ${user}, ${name}, ${role}, ${hash}, ${createdAt}, ${createdBy}, ${expiresAt})
      on conflict do nothing returning id`,
  );
  if (!isNew)
    throw new JobmanError(
      `${user} has a token ${name} already. Choose another name, or revoke it first.`,
      exitCode.conflict,
      [`jobman token revoke ${name} --user ${user}`],
    );
  await db.runAll(auditWrites({ ...audit, detail: { ...audit.detail, role, ...(registered && { registered }) } }));
  return { role, registered };
}

/** False if it was revoked already. */
export async function revokeToken(db: Database, id: string, at: Instant, audit: AuditEntry): Promise<boolean> {
  const isChanged = await wroteRow(
    db,
    sql`update token set revoked_at = ${at} where id = ${id} and revoked_at is null returning id`,
  );
  if (isChanged) await db.runAll(auditWrites(audit));
  return isChanged;
}

export async function findToken(db: Database, hash: string): Promise<FoundToken | null> {
  const { rows } = await sql<
    Omit<FoundToken, 'isUserDisabled' | 'userLimits'> & {
      readonly disabledAt: number | null;
      readonly limits: string | null;
    }
  >`
    select ${columns}, users.role as "userRole", users.disabled_at as "disabledAt", user_limit.limits
    from token join users on users.name = token.owner
    left join user_limit on user_limit.owner = users.name where token.hash = ${hash}`.execute(db);
  const [row] = rows;
  if (row === undefined) return null;
  const { disabledAt, limits, ...token } = row;
  return { ...token, isUserDisabled: disabledAt !== null, userLimits: limitsOf(limits) };
}

/** At most once a minute, also by several servers. */
export function recordUse(db: Database, id: string, at: Instant): Promise<unknown> {
  return sql`
    update token set last_used_at = ${at}
    where id = ${id} and (last_used_at is null or last_used_at <= ${at - minute} or last_used_at > ${at})`.execute(db);
}

/** A client that repeats its calls adds one row a minute. */
export async function recordRefusedToken(db: Database, id: string, before: Instant, audit: AuditEntry): Promise<void> {
  const isDue = await wroteRow(
    db,
    sql`
      update token set refused_at = ${audit.at}
      where id = ${id} and (refused_at is null or refused_at <= ${before} or refused_at > ${audit.at}) returning id`,
  );
  if (isDue) await db.runAll(auditWrites(audit));
}
