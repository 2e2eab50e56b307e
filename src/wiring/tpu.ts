// The Cloud TPU backend, built from settings: how TPUs are asked for, looked at and let go, and how their workers are reached.

import { readFile } from 'node:fs/promises';
import { folderOf, secretFile } from '../app/job-folder.ts';
import type { Backend } from '../app/ports.ts';
import { workdirFolder } from '../app/workdir.ts';
import { createTpuCapacity } from '../backends/tpu/capacity.ts';
import { sshKeyLines } from '../backends/tpu/login.ts';
import { createTpuWorkers } from '../backends/tpu/workers.ts';
import type { TpuWorkers } from '../backends/tpu/workers.ts';
import { createMachines } from '../backends/machines.ts';
import { remoteRoot } from '../remote/run-folder.ts';
import { second } from '../core/time.ts';
import { createSshPool } from '../remote/ssh.ts';
import { askOnce } from './ask-once.ts';
import type { BackendParts } from './backends.ts';
import { ensureEmulator } from './emulator-service.ts';
import { createTpuApis } from './tpu-api.ts';

export interface TpuBackend {
  readonly backend: Backend;
  readonly workers: TpuWorkers;
  readonly close: () => void;
}

export function createTpuBackend(parts: Omit<BackendParts, 'changed'>): TpuBackend {
  const { io, home, settings, clock, logFiles } = parts;
  const now = () => clock.now();

  const { apiFor, runningApiFor, usesBuiltIn } = createTpuApis({ io, home, settings, now });
  // Each worker's way asks this, and the cloud answers over HTTP.
  const builtIn = askOnce(() => ensureEmulator(io, home), second);
  const pool = createSshPool({
    home,
    user: io.user,
    userHome: io.userHome,
    agent: io.env['SSH_AUTH_SOCK'] ?? null,
    sshArgs: [],
  });
  const login = { home, user: io.user };
  const workers = createTpuWorkers({
    ...login,
    pool,
    apiFor,
    now,
    async sshFor(project) {
      if (!usesBuiltIn(project)) return { port: settings.tpu.sshPort, userConfig: true };
      return { port: (await builtIn('')).endpoint.sshPort, userConfig: false };
    },
  });
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
