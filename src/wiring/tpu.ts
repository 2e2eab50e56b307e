// TPU: the backend for jobs and the desk for people, both over Google's API and SSH, built from settings.

import { readFile } from 'node:fs/promises';
import { folderOf, secretFile } from '../app/job-folder.ts';
import type { Backend } from '../app/ports.ts';
import type { Services, Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { workdirFolder } from '../app/workdir.ts';
import { createMachines } from '../backends/machines.ts';
import { createTpuCapacity } from '../backends/tpu/capacity.ts';
import { createTpuDesk } from '../backends/tpu/desk/desk.ts';
import { createDoors, createTpuWorkers, sshKeyLines, type SshWay, type TpuWorkers } from '../backends/tpu/workers.ts';
import { askOnce } from '../controller/timers.ts';
import { second } from '../core/time.ts';
import type { Site } from '../lab/site.ts';
import type { TpuDesk } from '../lab/tpu-desk.ts';
import { remoteRoot } from '../remote/run-folder.ts';
import { createSshPool, type SshPool } from '../remote/ssh.ts';
import type { BackendParts } from './backends.ts';
import { startedText, ensureEmulator, type Endpoint } from './emulator-service.ts';
import { createTpuApis, type TpuApis } from './google-api.ts';

interface TpuBackend {
  readonly backend: Backend;
  readonly workers: TpuWorkers;
  readonly close: () => void;
}

export function createTpuBackend(parts: Omit<BackendParts, 'changed'>): TpuBackend {
  const { io, home, settings, clock, logFiles } = parts;
  const now = () => clock.now();

  const apis = createTpuApis({ io, home, settings, now });
  const { apiFor, runningApiFor } = apis;
  const { pool, sshFor } = createSshWay({ io, home, settings, apis });
  const login = { home, user: io.user };
  const workers = createTpuWorkers({ ...login, pool, apiFor, now, sshFor });
  return {
    workers,
    backend: {
      capacity: createTpuCapacity({
        apiFor,
        runningApiFor,
        clock,
        sshKeyLines: (spec) => sshKeyLines(spec, login),
      }),
      machines: createMachines({
        reach: (ref) => workers.reach(ref),
        root: (ref) => remoteRoot(ref.job),
        stepLog: logFiles.step.bind(logFiles),
        readFile: (path) => readFile(path),
        secretFile: (job, name) => secretFile(folderOf(home, job), name),
        workdirOf: (job, snapshot) => workdirFolder(folderOf(home, job), snapshot),
        now,
        forget: (ref) => workers.forget(ref),
      }),
    },
    close: () => pool.close(),
  };
}

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
  // Several requests at once may each have started it.
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
    lookEvery: settings.tpu.project !== null && usesBuiltIn(settings.tpu.project) ? second / 2 : 3 * second,
  });
}

/** A pool of connections, and how the workers of a project are reached. Makes no connection by itself. */
function createSshWay({
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
  // Each worker asks this, and the emulator answers over HTTP.
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
