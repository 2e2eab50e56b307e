// Audit: the statements about the audit log. Rows are only added; no statement updates or deletes one.

import type { AuditEntry, AuditFilter, AuditRow } from '../app/audit.ts';
import { advance, lastGiven } from './counters.ts';
import { isOneOf, sql, type Database, type Sql } from './sql.ts';

/** A refused request may name any text, and an index of PostgreSQL cannot hold a long one. */
const maxIdLength = 500;

/** For the transaction of the change. None without an entry. */
export function auditWrites(entry: AuditEntry | undefined): readonly Sql[] {
  if (entry === undefined) return [];
  const { at, actor, role, login, token, operation, object, outcome, detail } = entry;
  const id = object?.id.slice(0, maxIdLength).toWellFormed() ?? null;
  return [
    advance('audit'),
    sql`
      insert into audit (seq, at, actor, role, login, token, token_name, operation, object_kind, object, outcome, detail)
      values (${lastGiven('audit')}, ${at}, ${actor}, ${role}, ${login}, ${token?.id ?? null}, ${token?.name ?? null},
        ${operation}, ${object?.kind ?? null}, ${id}, ${outcome}, ${JSON.stringify(detail)})`,
  ];
}

interface Columns extends Omit<AuditRow, 'token' | 'object' | 'detail'> {
  readonly token: string | null;
  readonly token_name: string | null;
  readonly object_kind: NonNullable<AuditRow['object']>['kind'] | null;
  readonly object: string | null;
  readonly detail: string;
}

/** Newest first. */
export async function readAudit(db: Database, filter: AuditFilter): Promise<readonly AuditRow[]> {
  const { actors, since, job, denied, before, limit } = filter;
  const parts: readonly Sql[] = [
    ...(actors === null ? [] : [isOneOf(sql`actor`, actors)]),
    ...(since === undefined ? [] : [sql`at >= ${since}`]),
    ...(job === undefined ? [] : [sql`object_kind = 'job' and object = ${job}`]),
    ...(denied === true ? [sql`outcome = 'denied'`] : []),
    ...(before === undefined ? [] : [sql`seq < ${before}`]),
  ];
  const { rows } = await sql<Columns>`
    select seq, at, actor, role, login, token, token_name, operation, object_kind, object, outcome, detail
    from audit where ${parts.length === 0 ? sql`1 = 1` : sql.join(parts, sql` and `)}
    order by seq desc ${limit === undefined ? sql`` : sql`limit ${limit}`}`.execute(db);
  return rows.map(({ token, token_name: name, object_kind: kind, object: id, detail, ...row }) => ({
    ...row,
    token: token === null ? null : { id: token, name: name ?? token },
    object: kind === null || id === null ? null : { kind, id },
    detail: JSON.parse(detail) as AuditRow['detail'],
  }));
}
