// TPU operations: those of the lab over Google's API and SSH, built from settings. SSH is loaded for the first script on a
// worker, because most commands stop at the cloud's answer.

import { createTpuOperations } from '../backends/tpu/operations/tpu-operations.ts';
import type { Services } from '../app/services.ts';
import type { Site } from '../lab/site.ts';
import type { TpuOperations } from '../lab/tpu-operations.ts';
import { formatEmulatorStarted, type EmulatorEndpoint } from './emulator-service.ts';
import { createTpuApis } from './google-api.ts';

/** See `Lab.tpus`. Sends no request yet. */
export async function openTpuOperations(
  services: Services,
  site: Site,
  note: (line: string) => void = () => undefined,
): Promise<TpuOperations> {
  const { io, home } = services;
  const settings = await services.settings();
  const now = () => io.now();
  // Several concurrent requests may each have started it.
  let hasNoted = false;
  const onEmulatorStarted = (endpoint: EmulatorEndpoint): void => {
    if (!hasNoted) note(formatEmulatorStarted(endpoint));
    hasNoted = true;
  };
  const apis = createTpuApis({ io, home, settings, now, onEmulatorStarted });
  const { apiFor } = apis;
  let opened: ReturnType<typeof openRoutes> | undefined;
  async function openRoutes() {
    const [{ createSshRoutes }, { createSshAccess, openSshPool }, { secretSources: secretSourcesOf }] =
      await Promise.all([import('../backends/tpu/workers.ts'), import('./ssh-pool.ts'), import('./secrets.ts')]);
    const pool = openSshPool(services);
    const sshAccessFor = createSshAccess({ io, home, settings, apis });
    const secretSources = secretSourcesOf({ io, home, settings });
    return { pool, routes: createSshRoutes({ home, pool, apiFor, now, sshAccessFor, secretSources }) };
  }
  return createTpuOperations({
    transport: async (machines, worker) => (await (opened ??= openRoutes())).routes.transport(machines, worker),
    // A failure to open them has been reported.
    close: () => void opened?.then(({ pool }) => pool.close()).catch(() => undefined),
    apiFor,
    project: settings.tpu.project,
    site,
    user: io.user,
    now,
  });
}
