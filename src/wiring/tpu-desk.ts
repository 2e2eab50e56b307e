// The desk of the TPUs, built from settings: the clouds' API and SSH, as for jobs, with nothing of any job.

import type { Services } from '../app/services.ts';
import { createDoors } from '../backends/tpu/doors.ts';
import { createTpuDesk } from '../backends/tpu/desk/desk.ts';
import { sshKeyLines } from '../backends/tpu/login.ts';
import { second } from '../core/time.ts';
import type { Site } from '../lab/site.ts';
import type { TpuDesk } from '../lab/tpu-desk.ts';
import { createSshPool } from '../remote/ssh.ts';
import { askOnce } from './ask-once.ts';
import { ensureEmulator, startedText, type Endpoint } from './emulator-service.ts';
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
  const { apiFor, usesBuiltIn } = createTpuApis({ io, home, settings, now, began });
  const builtIn = askOnce(() => ensureEmulator(io, home), second);
  const pool = createSshPool({
    home,
    user: io.user,
    userHome: io.userHome,
    agent: io.env['SSH_AUTH_SOCK'] ?? null,
    sshArgs: [],
  });
  const doors = createDoors({
    home,
    pool,
    apiFor,
    now,
    async sshFor(project) {
      if (!usesBuiltIn(project)) return { port: settings.tpu.sshPort, userConfig: true };
      return { port: (await builtIn('')).endpoint.sshPort, userConfig: false };
    },
  });
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
