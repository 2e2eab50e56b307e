// The limits of the Cloud TPU API, from the Cloud Quotas API.
// Reference: https://docs.cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.services.quotaInfos

import { asClause } from '../app/format.ts';
import type { GoogleApi } from '../app/google.ts';
import { matchesShape, type Shape, type ShapeValue } from '../app/json.ts';
import type { LimitsAnswer, QuotaPort } from '../app/quota.ts';
import { parseQuotaId } from '../catalogue/quotas.ts';
import { quote } from '../catalogue/shell.ts';
import type { CloudError } from '../core/model/job.ts';
import type { QuotaLimit } from '../reports/quota.ts';

const permission = 'cloudquotas.quotas.get';
/** One page has all of them; Google's default size is not documented. */
const pageSize = 1_000;

const quotaInfo = {
  quotaId: 'string',
  // From the most specific to the least. `value` is an int64 in quotes; Google leaves zero out.
  dimensionsInfos: [
    {
      dimensions: { '*': 'string' },
      details: { value: 'string' },
      applicableLocations: ['string'],
    },
  ],
} as const satisfies Shape;

/** `apiFor` rejects if there is no server for the project. */
export function createQuotaPort(apiFor: (project: string) => GoogleApi): QuotaPort {
  return {
    async limits(project): Promise<LimitsAnswer> {
      const service = `v1/projects/${encodeURIComponent(project)}/locations/global/services/tpu.googleapis.com`;
      const answer = await apiFor(project).list<ShapeValue<typeof quotaInfo>>(
        `${service}/quotaInfos?pageSize=${pageSize}`,
        'quotaInfos',
      );
      if (!answer.ok) return { ok: false, problem: describeProblem(project, answer.error) };
      const { items } = answer.value;
      if (items.every((item) => matchesShape(item, quotaInfo))) return { ok: true, limits: items.flatMap(limitsOf) };
      const message = 'the answer of the quota API has an unexpected form';
      return { ok: false, problem: { project, message, permission: null, fix: null } };
    },
  };
}

function limitsOf({ quotaId = '', dimensionsInfos = [] }: ShapeValue<typeof quotaInfo>): readonly QuotaLimit[] {
  const quota = parseQuotaId(quotaId);
  if (quota === undefined) return [];
  const found = new Map<string, QuotaLimit>();
  for (const { dimensions = {}, details = {}, applicableLocations = [] } of dimensionsInfos) {
    const value = Number(details.value ?? 0);
    const named = dimensions[quota.scope];
    for (const location of named === undefined ? applicableLocations : [named]) {
      // The first is the most specific.
      if (!found.has(location) && Number.isFinite(value))
        found.set(location, { ...quota, location, limit: value < 0 ? null : value });
    }
  }
  return [...found.values()];
}

function describeProblem(project: string, { kind, raw }: CloudError): Extract<LimitsAnswer, { ok: false }>['problem'] {
  const message = asClause(raw);
  const isDisabled = /has not been used in project|it is disabled|SERVICE_DISABLED/i.test(raw);
  if (isDisabled)
    return {
      project,
      message,
      permission: null,
      fix: `gcloud services enable cloudquotas.googleapis.com --project ${quote(project)}`,
    };
  if (kind !== 'permission') return { project, message, permission: null, fix: null };
  // The header that names the project for Google's accounting needs a permission of its own.
  const missing = /serviceusage\.services\.use|required permission to use project/.test(raw)
    ? 'serviceusage.services.use'
    : permission;
  const role = missing === permission ? 'roles/cloudquotas.viewer' : 'roles/serviceusage.serviceUsageConsumer';
  return {
    project,
    message,
    permission: missing,
    fix: `gcloud projects add-iam-policy-binding ${quote(project)} --member user:YOU --role ${role}`,
  };
}
