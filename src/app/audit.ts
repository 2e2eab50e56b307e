// Audit: one row for each change through Client and for each refused request. The row of a change in the database is
// written in its transaction; that of another change before the change. A row has no values of secrets and no tokens.

import type { Instant } from '../core/model/time.ts';
import type { Actor, Role, UserName } from '../core/model/user.ts';
import { permittedOwners } from '../core/policy/permissions.ts';
import { firstRows, requireLimit, spanOf, withCursor, type Page, type Rows } from './pages.ts';
import type { AccessStore } from './ports.ts';
import { forbiddenError } from './require-permission.ts';
import { normalizeName } from './user-names.ts';

export interface AuditObject {
  readonly kind: 'job' | 'cluster_job' | 'user' | 'token' | 'secret' | 'project' | 'tpu' | 'recipient';
  /** The id or the name; for a TPU the resource name. */
  readonly id: string;
}

type AuditValue = string | number | boolean | null | readonly string[];

/** A request that is recorded. */
export interface AuditEntry {
  readonly at: Instant;
  /** The user who made the request. */
  readonly actor: UserName;
  /** The role in which the user made it. */
  readonly role: Role;
  /** The login of the machine; null for a token. */
  readonly login: string | null;
  /** The token; null for a login. */
  readonly token: {
    /** The id of the token. */
    readonly id: string;
    readonly name: string;
  } | null;
  /** A command of a job such as `cancel`, or the name of another operation such as `change-user`. */
  readonly operation: string;
  /** The object of the request; null without one. */
  readonly object: AuditObject | null;
  /** `denied`: refused by role, owner or limit. `failed`: permitted, but the operation failed. */
  readonly outcome: 'allowed' | 'denied' | 'failed';
  /** More about the request, such as the new role of a user. */
  readonly detail: Readonly<Record<string, AuditValue>>;
}

export interface AuditRow extends AuditEntry {
  /** The number of the row, from 1, in the order of the requests. */
  readonly seq: number;
}

export interface AuditQuery extends Page {
  readonly user?: UserName;
  readonly since?: Instant;
  /** The id of a job. */
  readonly job?: string;
  readonly denied?: boolean;
  /** Only rows before this one. */
  readonly before?: number;
}

/** As in `AuditQuery`. `actors`: null for all. */
export interface AuditFilter extends Omit<AuditQuery, 'user' | 'cursor'> {
  readonly actors: readonly UserName[] | null;
}

export function auditEntry(
  { user, role, login, token }: Actor,
  at: Instant,
  operation: string,
  object: AuditObject | null,
  { outcome = 'allowed', detail = {} }: Partial<Pick<AuditEntry, 'outcome' | 'detail'>> = {},
): AuditEntry {
  return { at, actor: user, role, login: login ?? null, token: token ?? null, operation, object, outcome, detail };
}

/** Newest first. */
export async function readAudit(
  { access }: { readonly access: AccessStore },
  actor: Actor,
  { user, limit, cursor, before = Infinity, ...query }: AuditQuery,
): Promise<Rows<AuditRow>> {
  if (before !== Infinity) requireLimit(before, 'before');
  const { after = [before] } = spanOf('audit', {
    ...(limit !== undefined && { limit }),
    ...(cursor !== undefined && { cursor }),
  });
  const isForAll = permittedOwners(actor, 'audit') === null;
  const named = user === undefined ? null : normalizeName(user);
  if (!isForAll && named !== null && named !== actor.user)
    throw forbiddenError(`your role is ${actor.role}, which may not read the audit log of ${named}`);
  // Without the logins of the actor, which several people may share.
  const actors = !isForAll ? [actor.user] : named === null ? null : [named];
  const end = Math.min(before, Number(after[0]));
  const more = { ...(limit !== undefined && { limit: limit + 1 }), ...(end !== Infinity && { before: end }) };
  const rows = firstRows(await access.audit({ ...query, ...more, actors }), limit, ({ seq }) => [seq]);
  return withCursor('audit', rows, rows.next);
}
