// TPU: the backend for jobs over Google's API and SSH, built from settings.

import { workdirCopiesIn } from '../files/workdir-copies.ts';
import { createSecretReader } from '../files/secret-store.ts';
import type { Backend } from '../app/ports.ts';
import { createMachines } from '../backends/machines.ts';
import { createTpuCapacity } from '../backends/tpu/capacity.ts';
import { createTpuWorkers, sshKeyLines, type TpuWorkers } from '../backends/tpu/workers.ts';
import { remoteRoot } from '../remote/run-folder.ts';
import type { BackendParts } from './backends.ts';
import { secretSources as secretSourcesOf } from './secrets.ts';
import { createTpuApis } from './google-api.ts';
import { transportResult } from '../remote/transport.ts';
import { createSshAccess, openSshPool } from './ssh-pool.ts';

interface TpuBackend {
  readonly backend: Backend;
  readonly workers: TpuWorkers;
  readonly close: () => void;
}

export function createTpuBackend(parts: BackendParts): TpuBackend {
  const { io, home, clock, logFiles, blobs } = parts;
  const now = () => clock.now();
  const { workers, apiFor, runningApiFor, close } = openTpuWorkers(parts);
  const secretSources = secretSourcesOf(parts);
  const secrets = createSecretReader(home, secretSources);
  const login = { home, user: io.user, secretSources };
  return {
    workers,
    backend: {
      capacity: createTpuCapacity({
        apiFor,
        runningApiFor,
        clock,
        sshKeyLines: (spec, job) => sshKeyLines(spec, job, login),
      }),
      machines: createMachines({
        findTransport: (ref) => transportResult(workers.transport(ref)),
        root: (ref) => remoteRoot(ref.job),
        appendStepLog: logFiles.appendStepLog.bind(logFiles),
        readSecret: secrets.read,
        blobs,
        openWorkdir: workdirCopiesIn(home, async () => blobs).open,
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
  const secretSources = secretSourcesOf(parts);
  const workers = createTpuWorkers({ home, user: io.user, pool, apiFor, now, sshAccessFor, secretSources });
  return { workers, apiFor, runningApiFor, close: () => pool.close() };
}
