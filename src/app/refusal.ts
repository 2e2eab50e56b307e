// Refusals of Google APIs: what is missing, and the command that adds it.

import { quote } from '../catalogue/shell.ts';
import type { CloudError } from '../core/model/job.ts';
import { asClause } from './format.ts';

export interface Refusal {
  /** Without a full stop. */
  readonly message: string;
  /** The missing permission; null if the API is disabled, or another reason is known. */
  readonly permission: string | null;
  /** Null if no command helps. */
  readonly fix: string | null;
}

/** `needed`: the permission of the call, and a role that has it; null for a call that needs none. */
export function explainRefusal(
  error: CloudError,
  call: {
    readonly project: string;
    readonly service: string;
    readonly needed: { readonly permission: string; readonly role: string } | null;
  },
): Refusal {
  const { kind, raw } = error;
  // A request of another machine can name any text, and no argument of a shell has a NUL character.
  const project = quote(call.project.replaceAll('\0', '\uFFFD'));
  // Google reports a disabled API as a missing permission. The disabled API may be another than that of the call.
  const disabled = error.disabledService ?? (disabledApi.test(raw) ? call.service : undefined);
  if (disabled !== undefined)
    return {
      message: `the API ${disabled} is disabled in ${call.project}`,
      permission: null,
      fix: `gcloud services enable ${quote(disabled)} --project ${project}`,
    };
  if (kind === 'not_found' || unknownProject.test(raw))
    return {
      message: `it does not exist, or your login cannot see it: ${asClause(raw)}`,
      permission: null,
      fix: unknownProject.test(raw) ? 'gcloud projects list' : null,
    };
  const other = { message: asClause(raw), permission: null, fix: null };
  if (kind !== 'permission' || refusedZone.test(raw)) return other;
  // The header that names the project for Google's accounting needs a permission of its own.
  const isAccounting = /serviceusage\.services\.use|required permission to use project/.test(raw);
  const missing = isAccounting ? accounting : call.needed;
  if (missing === null) return other;
  return {
    ...other,
    permission: isAccounting ? missing.permission : (namedPermission.exec(raw)?.[1] ?? missing.permission),
    fix: `gcloud projects add-iam-policy-binding ${project} --member user:YOU --role ${missing.role}`,
  };
}

const accounting = { permission: 'serviceusage.services.use', role: 'roles/serviceusage.serviceUsageConsumer' };
const disabledApi = /has not been used in project|it is disabled|SERVICE_DISABLED|accessNotConfigured/i;
const namedPermission = /\bPermission '([\w.]+)' denied/;
const refusedZone = /Permission denied on 'locations\//;
/** Cloud Storage has its own sentence; the other services report an invalid consumer. */
const unknownProject =
  /CONSUMER_INVALID|Unknown project id|Permission denied on resource project|Project '[^']*' not found/i;

/** The error for an answer that does not have the documented form, such as the page of a proxy. */
export function unexpectedForm(what: string): CloudError {
  const raw = `${what} has an unexpected form`;
  return { kind: 'unreachable', message: raw, raw };
}
