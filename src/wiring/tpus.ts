// TPUs: the parts of `jobman tpus` and `jobman gc`: the store and the API of every project, without SSH or machines.

import { addToSetting } from '../files/change-settings.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { createOrphanOperations, type OrphanOperations } from '../app/orphans.ts';
import { emulatorStopped, observeTpus, needsCloud, type TpuCloud, type TpuList, type TpuQuery } from '../app/tpus.ts';
import { recordOrphanUsage } from '../app/record-orphan.ts';
import { listTpus } from '../backends/tpu/inventory.ts';
import { releaseOrphan } from '../backends/tpu/capacity.ts';
import { priceOf } from '../reports/prices.ts';
import { requireOriginalHome } from '../store/open-database.ts';
import { openStore, withStore } from '../store/store.ts';
import { findEmulator } from './emulator-service.ts';
import { createTpuApis, type TpuApis } from './google-api.ts';
import { databaseOf } from './paths.ts';

/** See `Services.tpus`. */
export async function listCloudTpus(services: Services, query: TpuQuery): Promise<TpuList> {
  const { io, home } = services;
  const settings = await services.settings();
  const now = () => io.now();
  const cloud = createTpuCloud(services, settings, createTpuApis({ io, home, settings, now }));
  const parts = {
    installation: await services.installationId(),
    cloud,
    settings: { ...settings.tpu, grants: settings.grants },
    now,
  };
  return withStore(openStore(databaseOf(services)), (store) => observeTpus({ store, ...parts }, query));
}

/** See `Services.forgetProject`. */
export async function forgetProject(
  services: Services,
  project: string,
  confirmForget: (resources: readonly string[]) => Promise<boolean>,
): Promise<boolean> {
  const { tpu } = await services.settings();
  if (tpu.project === project)
    throw new JobmanError(`${project} is the value of the setting tpu.project.`, exitCode.conflict, [
      'jobman settings unset tpu.project    removes it',
    ]);
  const store = openStore(databaseOf(services));
  try {
    const { jobs } = await store.list({ maxFinished: null });
    const inProject = jobs.filter(({ spec: { capacity } }) => capacity.kind === 'tpu' && capacity.project === project);
    const [first] = inProject.filter((job) => needsCloud(job));
    if (first !== undefined)
      throw new JobmanError(`Job ${first.id} still uses ${project}.`, exitCode.conflict, [
        `jobman delete ${Number(first.id)}    stops it and removes it from the list`,
      ]);
    const orphans = (await store.orphans()).filter(({ resource }) => resource.startsWith(`projects/${project}/`));
    if (inProject.length === 0 && orphans.length === 0)
      throw new JobmanError(`No job has used the project ${project}.`, exitCode.notFound);
    if (orphans.length > 0 && !(await confirmForget(orphans.map(({ resource }) => resource)))) return false;
    for (const orphan of orphans) {
      await recordOrphanUsage(store, orphan, [], services.io.now());
      await store.forgetOrphan(orphan);
    }
  } finally {
    await store.close();
  }
  await addToSetting(services.settingsFiles(), 'tpu.forgottenProjects', project, tpu.forgottenProjects);
  return true;
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

/** Opens nothing yet. */
export async function openOrphanCollector(services: Services): Promise<OrphanOperations> {
  const { io, home } = services;
  const settings = await services.settings();
  const store = openStore(databaseOf(services));
  const apis = createTpuApis({ io, home, settings, now: () => io.now() });
  return createOrphanOperations({
    store,
    installation: await services.installationId(),
    cloud: createTpuCloud(services, settings, apis),
    settings: { ...settings.tpu, grants: settings.grants },
    async release(orphan) {
      // TPUs that the original home has created since then belong to no job in the copy's database.
      await requireOriginalHome(databaseOf(services));
      return releaseOrphan(apis.apiFor, orphan);
    },
    now: () => io.now(),
    onClose: () => store.close(),
  });
}
