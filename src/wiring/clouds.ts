// Clouds: the APIs of the projects, for the client: no SSH and no machines.

import { join } from 'node:path';
import { createAnswerCache } from '../files/answer-cache.ts';
import { addToSetting } from '../files/change-settings.ts';
import type { Clouds } from '../app/cloud-client.ts';
import type { QuotaCache } from '../app/quota.ts';
import type { Services } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { emulatorStopped, type TpuCloud } from '../app/tpus.ts';
import { listTpus } from '../backends/tpu/inventory.ts';
import { releaseOrphan } from '../backends/tpu/capacity.ts';
import type { Duration } from '../core/model/time.ts';
import { createQuotaPort } from '../google/quotas.ts';
import { priceOf } from '../reports/prices.ts';
import type { ReadLimits } from '../reports/quota.ts';
import { requireOriginalHome } from '../store/open-database.ts';
import { findEmulator } from './emulator-service.ts';
import { checkLogin, createBucketPort, createGoogleService, createTpuApis, type TpuApis } from './google-api.ts';
import { readInstallationId } from './installation-id.ts';
import { databaseOf } from './paths.ts';

/** See `OpenClouds`. */
export async function openClouds(services: Services, timeout?: Duration): Promise<Clouds> {
  const { io, home } = services;
  const [settings, installation] = await Promise.all([services.settings(), readInstallationId(services)]);
  const now = () => io.now();
  const limit = timeout === undefined ? {} : { timeout };
  const apis = createTpuApis({ io, home, settings, now, ...limit });
  const { tpu, grants } = settings;
  return {
    tpus: createTpuCloud(services, settings, apis),
    quotas: createQuotaPort(createGoogleService({ io, home, settings, now, name: 'quota', ...limit })),
    quotaCache: createQuotaCache(home),
    settings: { ...tpu, grants },
    installation,
    async releaseOrphan(orphan) {
      // TPUs that the original home has created since then belong to no job in the copy's database.
      await requireOriginalHome(databaseOf(services));
      return releaseOrphan(apis.apiFor, orphan);
    },
    billing: async () => (await import('./billing.ts')).openBillingExport(services),
    checkLogin: (project) => checkLogin({ io, settings }, project),
    bucketsOf: (project) => createBucketPort({ io, home, settings }, project),
    storageOf: async (project) => (await import('./storage.ts')).openStorage(services, settings, project),
    async *countFiles(root, signal) {
      const { countFiles } = await import('../files/count-files.ts');
      yield* countFiles(root, signal);
    },
    async excludeProject(project) {
      await addToSetting(services.settingsFiles(), 'tpu.forgottenProjects', project, tpu.forgottenProjects);
    },
  };
}

/** Sends no request yet. Starts nothing. */
export function createTpuCloud(
  { home, io }: Services,
  { prices: own }: Settings,
  { runningApiFor, usesEmulator }: TpuApis,
): TpuCloud {
  const prices = new Map<string, number | null>();
  return {
    async list(location) {
      const { project } = location;
      if (usesEmulator(project) && (await findEmulator(home)) === undefined) {
        const gap = { project, zone: null, message: emulatorStopped, isEmulatorStopped: true };
        return { tpus: [], unchecked: [gap] };
      }
      return listTpus(runningApiFor(project), location);
    },
    pricePerHour({ accelerator, zone, pricing }) {
      if (accelerator === null) return null;
      const key = `${accelerator} ${zone} ${pricing}`;
      const price = prices.get(key) ?? priceOf(own, { accelerator, zone, pricing, at: io.now() })?.usdPerHour ?? null;
      prices.set(key, price);
      return price;
    },
    isSimulated: usesEmulator,
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
