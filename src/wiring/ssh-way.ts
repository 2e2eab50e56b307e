// The way to the workers of TPUs over SSH, built from settings.

import type { Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import type { SshWay } from '../backends/tpu/workers.ts';
import { second } from '../core/time.ts';
import { createSshPool, type SshPool } from '../remote/ssh.ts';
import { askOnce } from './ask-once.ts';
import { ensureEmulator } from './emulator-service.ts';
import type { TpuApis } from './tpu-api.ts';

/** A pool of connections, and how the workers of a project are reached. Makes no connection by itself. */
export function createSshWay({
  io,
  home,
  settings,
  apis,
}: {
  readonly io: Io;
  readonly home: string;
  readonly settings: Settings;
  readonly apis: Pick<TpuApis, 'usesBuiltIn'>;
}): { readonly pool: SshPool; readonly sshFor: (project: string) => Promise<SshWay> } {
  // Each worker's way asks this, and the cloud answers over HTTP.
  const builtIn = askOnce(() => ensureEmulator(io, home), second);
  return {
    pool: createSshPool({
      home,
      user: io.user,
      userHome: io.userHome,
      agent: io.env['SSH_AUTH_SOCK'] ?? null,
      sshArgs: [],
    }),
    async sshFor(project) {
      if (!apis.usesBuiltIn(project)) return { port: settings.tpu.sshPort, userConfig: true };
      return { port: (await builtIn('')).endpoint.sshPort, userConfig: false };
    },
  };
}
