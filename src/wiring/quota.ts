// Quota: the parts of `jobman quota` and of the check of `create`.

import { join } from 'node:path';
import { createAnswerCache } from '../files/answer-cache.ts';
import { observeQuota, quotaCheckTimeout, quotaWarnings, type QuotaCache, type QuotaReport } from '../app/quota.ts';
import type { Services } from '../app/services.ts';
import type { TpuQuery } from '../app/tpus.ts';
import type { TpuSpec } from '../core/model/spec.ts';
import type { Duration } from '../core/model/time.ts';
import { createQuotaPort } from '../google/quotas.ts';
import { quotaRows, type QuotaRow, type ReadLimits } from '../reports/quota.ts';
import { openStore, withStore } from '../store/store.ts';
import { createGoogleService, createTpuApis } from './google-api.ts';
import { databaseOf } from './paths.ts';
import { createTpuCloud } from './tpus.ts';

/** See `Services.quota`. `cache` replaces that of the home. */
export async function readQuota(
  services: Services,
  query: Pick<TpuQuery, 'project' | 'zone'>,
  cache?: QuotaCache,
): Promise<QuotaReport> {
  const settings = await services.settings();
  const own = await quotaParts(services);
  const parts = {
    ...own,
    cache: cache ?? own.cache,
    installation: await services.installationId(),
    settings: { ...settings.tpu, grants: settings.grants },
  };
  return withStore(openStore(databaseOf(services)), (store) => observeQuota({ store, ...parts }, query));
}

/** See `Services.knownQuota`. */
export function knownQuota(home: string, projects: readonly string[]): readonly QuotaRow[] {
  const cache = createQuotaCache(home);
  return projects.flatMap((project) => {
    const limits = cache.read(project);
    return limits === undefined ? [] : quotaRows({ project, limits, tpus: [], uncheckedZones: 'all' });
  });
}

/** See `Services.quotaWarnings`. */
export async function checkQuota(services: Services, capacity: TpuSpec): Promise<readonly string[]> {
  return quotaWarnings(await quotaParts(services, quotaCheckTimeout), capacity);
}

async function quotaParts(services: Services, timeout?: Duration) {
  const { io, home } = services;
  const settings = await services.settings();
  const now = () => io.now();
  const limit = timeout === undefined ? {} : { timeout };
  const apis = createTpuApis({ io, home, settings, now, ...limit });
  return {
    cloud: createTpuCloud(services, settings, apis),
    quotas: createQuotaPort(createGoogleService({ io, home, settings, now, name: 'quota', ...limit })),
    cache: createQuotaCache(home),
    now,
  };
}

function createQuotaCache(home: string): QuotaCache {
  const cache = createAnswerCache(join(home, 'cache', 'quota'));
  return {
    read(project) {
      const found = cache.read<ReadLimits['limits']>(project);
      return found === undefined ? undefined : { readAt: found.fetchedAt, limits: found.value };
    },
    write: (project, { readAt, limits }) => cache.write(project, { fetchedAt: readAt, value: limits }),
  };
}
