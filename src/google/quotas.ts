// The limits of the Cloud TPU API, from the Cloud Quotas API.
// Reference: https://docs.cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.services.quotaInfos

import type { GoogleApi } from '../app/google.ts';
import { splitByShape, type Shape, type ShapeValue } from '../app/json.ts';
import type { LimitsAnswer, QuotaPort } from '../app/quota.ts';
import { parseQuotaId } from '../catalogue/quotas.ts';
import type { QuotaLimit } from '../reports/quota.ts';
import { explainRefusal } from '../app/refusal.ts';

const service = 'cloudquotas.googleapis.com';
const needed = { permission: 'cloudquotas.quotas.get', role: 'roles/cloudquotas.viewer' };
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
      const path = `v1/projects/${encodeURIComponent(project)}/locations/global/services/tpu.googleapis.com`;
      const answer = await apiFor(project).list<unknown>(`${path}/quotaInfos?pageSize=${pageSize}`, 'quotaInfos');
      if (!answer.ok) {
        return { ok: false, problem: { project, ...explainRefusal(answer.error, { project, service, needed }) } };
      }
      const { matching, unreadable } = splitByShape(answer.value.items, quotaInfo, ['quotaId']);
      if (matching.length === 0 && unreadable.length > 0) {
        const message = 'the answer of the quota API has an unexpected form';
        return { ok: false, problem: { project, message, permission: null, fix: null } };
      }
      const wrongValues = matching.filter(hasWrongValue).map(({ quotaId = '' }) => quotaId);
      return { ok: true, limits: matching.flatMap(limitsOf), unreadable: [...unreadable, ...wrongValues] };
    },
  };
}

function hasWrongValue({ dimensionsInfos = [] }: ShapeValue<typeof quotaInfo>): boolean {
  return dimensionsInfos.some(({ details = {} }) => !Number.isFinite(limitOf(details)));
}

function limitOf({ value = '0' }: { readonly value?: string }): number {
  return value === '' ? Number.NaN : Number(value);
}

function limitsOf({ quotaId = '', dimensionsInfos = [] }: ShapeValue<typeof quotaInfo>): readonly QuotaLimit[] {
  const quota = parseQuotaId(quotaId);
  if (quota === undefined) return [];
  const found = new Map<string, QuotaLimit>();
  for (const { dimensions = {}, details = {}, applicableLocations = [] } of dimensionsInfos) {
    const value = limitOf(details);
    const named = dimensions[quota.scope];
    for (const location of named === undefined ? applicableLocations : [named]) {
      // The first is the most specific.
      if (!found.has(location) && Number.isFinite(value))
        found.set(location, { ...quota, location, limit: value < 0 ? null : value });
    }
  }
  return [...found.values()];
}
