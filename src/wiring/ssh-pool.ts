// SSH pool: the connections of this process to workers, with the keys and the agent of its user.

import type { Io, Services } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import type { SshAccess } from '../backends/tpu/workers.ts';
import { cacheFor } from '../controller/timers.ts';
import { second } from '../core/model/time.ts';
import { createSshPool, type SshPool } from '../remote/ssh.ts';
import { ensureEmulator } from './emulator-service.ts';
import type { TpuApis } from './google-api.ts';

/** Makes no connection by itself. */
export function openSshPool({ io, home }: Pick<Services, 'io' | 'home'>): SshPool {
  return createSshPool({
    home,
    user: io.user,
    userHome: io.userHome,
    agent: io.env['SSH_AUTH_SOCK'] ?? null,
    sshArgs: [],
  });
}

/** The way to the workers of a project's TPUs. */
export function createSshAccess(parts: {
  readonly io: Io;
  readonly home: string;
  readonly settings: Settings;
  readonly apis: Pick<TpuApis, 'usesEmulator'>;
}): (project: string) => Promise<SshAccess> {
  const { io, home, settings, apis } = parts;
  // Each worker requests this, and the emulator answers over HTTP.
  const emulator = cacheFor(() => ensureEmulator(io, home), second);
  return async (project) => {
    if (!apis.usesEmulator(project)) return { port: settings.tpu.sshPort, usesUserConfig: true };
    return { port: (await emulator('')).endpoint.sshPort, usesUserConfig: false };
  };
}
