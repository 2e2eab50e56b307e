// The parts of `jobman gc`: the record, and the API of every project.

import type { Services } from '../app/services.ts';
import { createStrayKeeper, type StrayKeeper } from '../app/strays.ts';
import { releaseFound } from '../backends/tpu/capacity.ts';
import { openStore } from '../store/store.ts';
import { expectOriginal } from './original-home.ts';
import { recordFile } from './paths.ts';
import { createTpuApis } from './tpu-api.ts';
import { createTpuCloud } from './tpus.ts';

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
