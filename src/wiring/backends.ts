// Backends: the ports of each kind of capacity, built from settings, and the real clock.

import { readFile } from 'node:fs/promises';
import { callAt } from '../app/concurrency.ts';
import { withoutDatabasePassword } from '../app/database-url.ts';
import type { Backend, Clock, LogFiles } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { createLocalCapacity, createLocalMachines } from '../backends/hosts/machines.ts';
import { withControllerMachine } from '../backends/machines.ts';
import type { TpuWorkers } from '../backends/tpu/workers.ts';
import { createSecretStore } from '../files/secret-store.ts';
import type { JobSpec } from '../core/model/spec.ts';
import { createBlobs } from '../files/blobs.ts';
import { createTpuBackend } from './tpu.ts';

export interface BackendParts {
  readonly io: Io;
  readonly home: string;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logFiles: LogFiles;
  /** Calls regularly, to check processes on this machine; without it the backend uses its own timers. */
  readonly addPeriodicCheck?: (call: () => void) => () => void;
}

export interface Backends {
  readonly of: (spec: JobSpec) => Backend;
  readonly workers: TpuWorkers;
  readonly close: () => void;
}

export function createBackends(parts: BackendParts): Backends {
  const { io, home, clock, logFiles } = parts;
  const stepLog = logFiles.appendStepLog.bind(logFiles);
  const local: Backend = {
    capacity: createLocalCapacity({ now: () => clock.now() }),
    machines: createLocalMachines({
      home,
      env: withoutDatabasePassword(io.env),
      userHome: io.userHome,
      now: () => clock.now(),
      appendStepLog: stepLog,
      readFile: (path) => readFile(path),
      readSecret: (job, ref) => createSecretStore(home).read(job, ref),
      blobs: createBlobs(home),
      ...(parts.addPeriodicCheck === undefined ? {} : { addPeriodicCheck: parts.addPeriodicCheck }),
    }),
  };
  const { backend, workers, close } = createTpuBackend(parts);
  // A command may also run on this machine and drive its TPU from here.
  const tpu: Backend = { ...backend, machines: withControllerMachine(backend.machines, local.machines) };
  return { of: (spec) => ({ hosts: local, tpu })[spec.capacity.kind], workers, close };
}

/** Wall-clock time in milliseconds. Its timers keep no process alive. */
export function createClock(now: () => number): Clock {
  return { now, at: (at, call) => callAt(at, now, call, true) };
}
