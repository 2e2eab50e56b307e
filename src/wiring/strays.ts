// What `jobman gc` works with: the record and every backend.

import { createLogFiles } from '../app/log-files.ts';
import type { Services } from '../app/services.ts';
import { createStrayKeeper, type StrayKeeper } from '../app/strays.ts';
import { openStore } from '../store/store.ts';
import { createBackends } from './backends.ts';
import { createClock } from './clock.ts';
import { recordFile } from './paths.ts';

/** Opens nothing yet but the files of the backends. */
export async function openStrayKeeper(services: Services): Promise<StrayKeeper> {
  const { io, home } = services;
  const store = openStore({ file: recordFile(home) });
  const backends = await createBackends({
    io,
    home,
    settings: await services.settings(),
    clock: createClock(() => io.now()),
    logFiles: createLogFiles({ home, history: (id, after) => store.events(id, after) }),
    changed: () => undefined,
  });
  return createStrayKeeper({
    store,
    capacityOf: (spec) => backends.of(spec).capacity,
    async end() {
      backends.close();
      await store.close();
    },
  });
}
