// TPU: the backend for jobs and the lab's TPU operations, both over Google's API and SSH, built from settings.

import { createBlobs } from '../files/blobs.ts';
import { workdirCopiesIn } from '../files/workdir-copies.ts';
import { createSecretStore } from '../files/secret-store.ts';
import type { Backend } from '../app/ports.ts';
import type { Services, Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { createMachines } from '../backends/machines.ts';
import { createTpuCapacity } from '../backends/tpu/capacity.ts';
import { createTpuOperations } from '../backends/tpu/operations/tpu-operations.ts';
import {
  createSshRoutes,
  createTpuWorkers,
  sshKeyLines,
  type SshAccess,
  type TpuWorkers,
} from '../backends/tpu/workers.ts';
import { cacheFor } from '../controller/timers.ts';
import { second } from '../core/model/time.ts';
import type { Site } from '../lab/site.ts';
import type { TpuOperations } from '../lab/tpu-operations.ts';
import { remoteRoot } from '../remote/run-folder.ts';
import type { BackendParts } from './backends.ts';
import { settingFiles } from './secrets.ts';
import { formatEmulatorStarted, ensureEmulator, type EmulatorEndpoint } from './emulator-service.ts';
import { createTpuApis, type TpuApis } from './google-api.ts';
import { openSshPool } from './ssh-pool.ts';

interface TpuBackend {
  readonly backend: Backend;
  readonly workers: TpuWorkers;
  readonly close: () => void;
}

export function createTpuBackend(parts: BackendParts): TpuBackend {
  const { io, home, clock, logFiles } = parts;
  const now = () => clock.now();
  const { workers, apiFor, runningApiFor, close } = openTpuWorkers(parts);
  const settingFile = settingFiles(parts);
  const secrets = createSecretStore(home, settingFile);
  const login = { home, user: io.user, settingFile };
  return {
    workers,
    backend: {
      capacity: createTpuCapacity({ apiFor, runningApiFor, clock, sshKeyLines: (spec) => sshKeyLines(spec, login) }),
      machines: createMachines({
        findTransport: (ref) => workers.findTransport(ref),
        root: (ref) => remoteRoot(ref.job),
        appendStepLog: logFiles.appendStepLog.bind(logFiles),
        readSecret: (job, ref) => secrets.read(job, ref),
        blobs: createBlobs(home),
        openWorkdir: workdirCopiesIn(home).open,
        now,
        disconnect: (ref) => workers.disconnect(ref),
      }),
    },
    close,
  };
}

/** The workers of TPU jobs, and the APIs of their projects. */
export function openTpuWorkers(parts: Pick<BackendParts, 'io' | 'home' | 'settings' | 'clock'>) {
  const { io, home, settings, clock } = parts;
  const now = () => clock.now();
  const apis = createTpuApis({ io, home, settings, now });
  const pool = openSshPool(parts);
  const { apiFor, runningApiFor } = apis;
  const sshAccessFor = createSshAccess({ io, home, settings, apis });
  const settingFile = settingFiles(parts);
  const workers = createTpuWorkers({ home, user: io.user, pool, apiFor, now, sshAccessFor, settingFile });
  return { workers, apiFor, runningApiFor, close: () => pool.close() };
}

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
  const pool = openSshPool(services);
  const sshAccessFor = createSshAccess({ io, home, settings, apis });
  const settingFile = settingFiles({ io, home, settings });
  const routes = createSshRoutes({ home, pool, apiFor, now, sshAccessFor, settingFile });
  return createTpuOperations({
    routes,
    closeRoutes: () => pool.close(),
    apiFor,
    project: settings.tpu.project,
    site,
    user: io.user,
    now,
  });
}

function createSshAccess(parts: {
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
