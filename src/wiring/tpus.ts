// TPUs: the parts of `jobman tpus` and `jobman gc`: the record and the API of every project, without SSH or machines.

import { setSetting } from '../app/change-settings.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { createStrayKeeper, type StrayKeeper } from '../app/strays.ts';
import { lookAtTpus, needsCloud, type TpuCloud, type TpuList, type TpuQuery } from '../app/tpus.ts';
import { listTpus } from '../backends/tpu/inventory.ts';
import { releaseFound } from '../backends/tpu/capacity.ts';
import { pricePerHour } from '../catalogue/prices.ts';
import { expectOriginal } from '../store/record-file.ts';
import { openStore } from '../store/store.ts';
import { findEmulator } from './emulator-service.ts';
import { createTpuApis, type TpuApis } from './google-api.ts';
import { recordFile } from './paths.ts';

/** See `Services.tpus`. */
export async function lookAtClouds(services: Services, query: TpuQuery): Promise<TpuList> {
  const { io, home } = services;
  const inForce = await services.settings();
  const store = openStore({ file: recordFile(home) });
  try {
    const named = {
      project: inForce.tpu.project,
      grants: inForce.grants,
      forgottenProjects: inForce.tpu.forgottenProjects,
    };
    const cloud = createTpuCloud(home, createTpuApis({ io, home, settings: inForce, now: () => io.now() }));
    return await lookAtTpus(
      { store, installation: await services.installation(), cloud, settings: named, now: () => io.now() },
      query,
    );
  } finally {
    await store.close();
  }
}

/** See `Services.forgetProject`. */
export async function forgetProject(
  services: Services,
  project: string,
  mayForget: (resources: readonly string[]) => Promise<boolean>,
): Promise<boolean> {
  const { home } = services;
  const { tpu } = await services.settings();
  if (tpu.project === project)
    throw new JobmanError(`${project} is the project of the setting tpu.project.`, exitCode.conflict, [
      'jobman settings unset tpu.project    removes it from there',
    ]);
  const store = openStore({ file: recordFile(home) });
  try {
    const { jobs } = await store.list({ settledMost: null });
    const inProject = jobs.filter(({ spec: { capacity } }) => capacity.kind === 'tpu' && capacity.project === project);
    const [first] = inProject.filter((job) => needsCloud(job));
    if (first !== undefined)
      throw new JobmanError(`Job ${first.id} still uses ${project}.`, exitCode.conflict, [
        `jobman delete ${Number(first.id)}    ends it and removes it from the list`,
      ]);
    const left = (await store.strays()).filter(({ resource }) => resource.startsWith(`projects/${project}/`));
    if (inProject.length === 0 && left.length === 0)
      throw new JobmanError(`No job used a project ${project}.`, exitCode.notFound);
    if (left.length > 0 && !(await mayForget(left.map(({ resource }) => resource)))) return false;
    for (const stray of left) await store.forgetStray(stray);
  } finally {
    await store.close();
  }
  if (tpu.forgottenProjects.includes(project)) return true;
  await setSetting(home, 'tpu.forgottenProjects', JSON.stringify([...tpu.forgottenProjects, project]));
  return true;
}

/** Asks nothing yet. */
function createTpuCloud(home: string, { runningApiFor, usesBuiltIn }: TpuApis): TpuCloud {
  const prices = new Map<string, number | null>();
  return {
    async list(place) {
      const { project } = place;
      if (usesBuiltIn(project) && (await findEmulator(home)) === undefined) {
        const says = 'the built-in cloud does not run; start it: jobman emulator start';
        return { tpus: [], missed: [{ project, zone: null, says, asleep: true }] };
      }
      return listTpus(runningApiFor(project), place);
    },
    pricePerHour({ type, zone, pricing }) {
      if (type === null) return null;
      const key = `${type} ${zone} ${pricing}`;
      const known = prices.get(key);
      if (known !== undefined) return known;
      const price = pricePerHour({ accelerator: type, zone, pricing });
      prices.set(key, price);
      return price;
    },
    isPretended: usesBuiltIn,
  };
}

/** Opens nothing yet. */
export async function openStrayKeeper(services: Services): Promise<StrayKeeper> {
  const { io, home } = services;
  const settings = await services.settings();
  const store = openStore({ file: recordFile(home) });
  const apis = createTpuApis({ io, home, settings, now: () => io.now() });
  return createStrayKeeper({
    store,
    installation: await services.installation(),
    cloud: createTpuCloud(home, apis),
    settings: {
      project: settings.tpu.project,
      grants: settings.grants,
      forgottenProjects: settings.tpu.forgottenProjects,
    },
    async release(stray) {
      // TPUs that the original has made since the copy belong to no job of the copy's record.
      await expectOriginal(recordFile(home));
      return releaseFound(apis.apiFor, stray);
    },
    now: () => io.now(),
    end: () => store.close(),
  });
}
