// Texts of the audit log.

import type { AuditRow } from './audit.ts';

/** `token laptop`, `login ada`; `-` without either. */
export function formatAuditMeans({ login, token }: Pick<AuditRow, 'login' | 'token'>): string {
  if (token !== null) return `token ${token.name}`;
  return login === null ? '-' : `login ${login}`;
}

/** `job 000042`; `-` without an object. */
export function formatAuditObject({ object }: Pick<AuditRow, 'object'>): string {
  return object === null ? '-' : `${object.kind.replace('_', ' ')} ${object.id}`;
}

/** `role=viewer before=member`. */
export function formatAuditDetail({ detail }: Pick<AuditRow, 'detail'>): string {
  return Object.entries(detail)
    .map(([key, value]) => `${key}=${Array.isArray(value) ? value.join(',') : String(value ?? 'none')}`)
    .join(' ');
}
