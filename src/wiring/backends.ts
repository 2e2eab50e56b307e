// Backends: the ports of each kind of capacity, built from settings, and the real clock.

import { readFile } from 'node:fs/promises';
import type { Backend, Clock, LogFiles } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { createLocalCapacity, createLocalMachines } from '../backends/local/machines.ts';
import { withHere } from '../backends/machines.ts';
import type { TpuWorkers } from '../backends/tpu/workers.ts';
import type { JobSpec } from '../core/spec.ts';
import { createTpuBackend } from './tpu.ts';

export interface BackendParts {
  readonly io: Io;
  readonly home: string;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logFiles: LogFiles;
  /** That job deserves a look now. */
  readonly changed: (jobId: string) => void;
  /** Calls regularly, to check what is followed on this machine; timers of its own when absent. */
  readonly rounds?: (call: () => void) => () => void;
}

export interface Backends {
  readonly of: (spec: JobSpec) => Backend;
  /** The workers of TPUs, for commands by hand. */
  readonly workers: TpuWorkers;
  readonly close: () => void;
}

/** Every backend of this program. */
export function createBackends(parts: BackendParts): Backends {
  const { io, home, clock, logFiles } = parts;
  const stepLog = logFiles.step.bind(logFiles);
  const local: Backend = {
    capacity: createLocalCapacity({ now: () => clock.now() }),
    machines: createLocalMachines({
      home,
      env: io.env,
      userHome: io.userHome,
      now: () => clock.now(),
      stepLog,
      readFile: (path) => readFile(path),
      changed: parts.changed,
      ...(parts.rounds === undefined ? {} : { rounds: parts.rounds }),
    }),
  };
  const { backend, workers, close } = createTpuBackend(parts);
  // A command may also run on this machine and drive its TPU from here.
  const tpu: Backend = { ...backend, machines: withHere(backend.machines, local.machines) };
  return {
    of: (spec) => ({ local, tpu })[spec.capacity.kind],
    workers,
    close,
  };
}

/** Longest single timer; Node's own limit is 2^31-1 ms. A later moment is waited for in several. */
const longest = 2 ** 31 - 1;

/** Wall-clock time in milliseconds. Timers keep no process alive by themselves. */
export function createClock(now: () => number): Clock {
  return {
    now,
    at(at, call) {
      let timer: NodeJS.Timeout | undefined;
      const arm = (): void => {
        const wait = Math.max(0, at - now());
        timer = wait > longest ? setTimeout(arm, longest) : setTimeout(call, wait);
        timer.unref();
      };
      arm();
      return () => clearTimeout(timer);
    },
  };
}
