// Users: the statements about registered users and their logins. Keep it small: each command reads them.

import type { Role, User } from '../core/model/user.ts';
import { sql, type Database } from './sql.ts';

export async function readUsers(db: Database): Promise<readonly User[]> {
  const { rows } = await sql<{ name: string; role: Role; disabled: number }>`
    select name, role, case when disabled_at is null then 0 else 1 end as disabled from users order by name`.execute(
    db,
  );
  const logins = await readLogins(db);
  return rows.map(({ name, role, disabled }) => ({
    name,
    role,
    logins: logins.get(name) ?? [],
    ...(disabled === 1 && { isDisabled: true }),
  }));
}

/** By the name of their user. */
export async function readLogins(db: Database): Promise<ReadonlyMap<string, readonly string[]>> {
  const { rows } = await sql<{ login: string; owner: string }>`select login, owner from login order by login`.execute(
    db,
  );
  const logins = new Map<string, string[]>();
  for (const { login, owner } of rows) logins.set(owner, [...(logins.get(owner) ?? []), login]);
  return logins;
}
