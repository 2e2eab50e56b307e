/**
 * The list of the Cloud Quotas API for the Cloud TPU API, with the limits of the verb `quota`.
 * Reference: https://docs.cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.services.quotaInfos
 */
import { quotaId } from '../../catalogue/quotas.ts';
import type { Data } from '../wire/messages.ts';
import { quotasOf } from '../world/limits.ts';
import type { World } from '../world/world.ts';
import type { ParsedCall } from './tpu/parse-call.ts';

const service = 'tpu.googleapis.com';

/** Undefined for another call. The path begins with the version. */
export function parseQuotaCall(method: string, path: readonly string[]): ParsedCall | undefined {
  const [version, projects, project = '', ...rest] = path;
  const isList = rest.join('/') === `locations/global/services/${service}/quotaInfos`;
  if (method !== 'GET' || version !== 'v1' || projects !== 'projects' || !isList) return undefined;
  return {
    project,
    zone: undefined,
    collection: 'quotaInfos',
    verb: 'list',
    permission: 'cloudquotas.quotas.get',
    changes: false,
    resource: `projects/${project}`,
    answer: (world) => listQuotas(world, project),
  };
}

/** All in one page, as Google allows. Regions without a limit share an entry. */
function listQuotas(world: World, project: string): Data {
  const quotaInfos = quotasOf(world, project).map(({ limits, ...quota }): Data => {
    const id = quotaId(quota, 'region');
    const defaults = limits.filter(({ limit }) => limit < 0);
    return {
      name: `projects/${project}/locations/global/services/${service}/quotaInfos/${id}`,
      quotaId: id,
      metric: `${service}/tpu-${quota.generation}-${quota.pricing}${quota.variant === null ? '' : `-${quota.variant}`}`,
      service,
      isPrecise: true,
      containerType: 'PROJECT',
      dimensions: ['region'],
      metricUnit: '1',
      dimensionsInfos: [
        ...limits
          .filter(({ limit }) => limit >= 0)
          .map(({ region, limit }) => ({
            dimensions: { region },
            // Zero is a default value, which Google's JSON leaves out.
            details: limit === 0 ? {} : { value: String(limit) },
            applicableLocations: [region],
          })),
        ...(defaults.length === 0
          ? []
          : [{ details: { value: '-1' }, applicableLocations: defaults.map(({ region }) => region) }]),
      ],
    };
  });
  return { quotaInfos };
}
