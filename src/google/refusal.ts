// Refusals of Google APIs: what is missing, and the command that adds it.

import { quote } from '../catalogue/shell.ts';
import type { CloudError } from '../core/model/job.ts';

export interface Refusal {
  /** The missing permission; null if the API is off, or another reason is known. */
  readonly permission: string | null;
  /** Null if no command helps. */
  readonly fix: string | null;
}

/** `needed`: the permission of the call, and a role that has it; null for a call that needs none. */
export function explainRefusal(
  { kind, raw }: CloudError,
  call: {
    readonly project: string;
    readonly service: string;
    readonly needed: { readonly permission: string; readonly role: string } | null;
  },
): Refusal {
  const project = quote(call.project);
  // Google reports an API that is off as a missing permission.
  if (/has not been used in project|it is disabled|SERVICE_DISABLED/i.test(raw))
    return { permission: null, fix: `gcloud services enable ${call.service} --project ${project}` };
  if (kind !== 'permission') return { permission: null, fix: null };
  // The header that names the project for Google's accounting needs a permission of its own.
  const isAccounting = /serviceusage\.services\.use|required permission to use project/.test(raw);
  const missing = isAccounting ? accounting : call.needed;
  if (missing === null) return { permission: null, fix: null };
  return {
    permission: missing.permission,
    fix: `gcloud projects add-iam-policy-binding ${project} --member user:YOU --role ${missing.role}`,
  };
}

const accounting = { permission: 'serviceusage.services.use', role: 'roles/serviceusage.serviceUsageConsumer' };

/** The error for an answer that is not of the documented form, such as that of a proxy. */
export function unexpectedForm(what: string): CloudError {
  const raw = `${what} has an unexpected form`;
  return { kind: 'unreachable', message: raw, raw };
}
