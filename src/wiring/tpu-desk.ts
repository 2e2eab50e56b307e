// The desk of the TPUs, built from settings: the clouds' API and SSH, as for jobs, with nothing of any job.

import type { Services } from '../app/services.ts';
import { createDoors, sshKeyLines } from '../backends/tpu/workers.ts';
import { createTpuDesk } from '../backends/tpu/desk/desk.ts';
import { second } from '../core/time.ts';
import type { Site } from '../lab/site.ts';
import type { TpuDesk } from '../lab/tpu-desk.ts';
import { startedText, type Endpoint } from './emulator-service.ts';
import { createSshWay } from './ssh-way.ts';
import { createTpuApis } from './tpu-api.ts';

/** See `Lab.tpus`. Asks nobody yet. */
export async function openTpuDesk(
  services: Services,
  site: Site,
  note: (line: string) => void = () => undefined,
  owner: string = services.io.user,
): Promise<TpuDesk> {
  const { io, home } = services;
  const settings = await services.settings();
  const now = () => io.now();
  // Several questions at once may each have begun it.
  let isNoted = false;
  const began = (endpoint: Endpoint): void => {
    if (!isNoted) note(startedText(endpoint));
    isNoted = true;
  };
  const apis = createTpuApis({ io, home, settings, now, began });
  const { apiFor, usesBuiltIn } = apis;
  const { pool, sshFor } = createSshWay({ io, home, settings, apis });
  const doors = createDoors({ home, pool, apiFor, now, sshFor });
  return createTpuDesk({
    doors,
    closeDoors: () => pool.close(),
    apiFor,
    project: settings.tpu.project,
    site,
    user: io.user,
    maker: async () => ({ installation: await services.installation(), owner }),
    sshKeys: () => sshKeyLines(site, { home, user: io.user }),
    now,
    // The built-in cloud does in seconds what takes Google minutes.
    lookEvery: settings.tpu.project !== null && usesBuiltIn(settings.tpu.project) ? second / 2 : 3 * second,
  });
}
