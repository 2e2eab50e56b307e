// The Cloud TPU backend, built from settings: how TPUs are asked for, looked at and let go, and how their workers are reached.

import { readFile } from 'node:fs/promises';
import { folderOf, secretFile } from '../app/job-folder.ts';
import type { Backend } from '../app/ports.ts';
import { workdirFolder } from '../app/workdir.ts';
import { createTpuCapacity } from '../backends/tpu/capacity.ts';
import { createTpuWorkers, sshKeyLines } from '../backends/tpu/workers.ts';
import type { TpuWorkers } from '../backends/tpu/workers.ts';
import { createMachines } from '../backends/machines.ts';
import { remoteRoot } from '../remote/run-folder.ts';
import type { BackendParts } from './backends.ts';
import { createSshWay } from './ssh-way.ts';
import { createTpuApis } from './tpu-api.ts';

export interface TpuBackend {
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
