// Backends: the ports of each kind of capacity, built from settings, and the real clock.

import { workdirCopiesIn } from '../files/workdir-copies.ts';
import { hostRoot, remoteRoot } from '../remote/run-folder.ts';
import { openSshPool } from './ssh-pool.ts';
import { hostsOf } from '../app/hosts.ts';
import { callAt } from '../app/concurrency.ts';
import { withoutDatabasePassword } from '../app/database-url.ts';
import type { Backend, Blobs, Clock, LogFiles, WorkerRef } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import {
  createHostRoutes,
  createHostsCapacity,
  hostLogin,
  isOnOwnHost,
  type HostRoutes,
} from '../backends/hosts/hosts.ts';
import { createLocalMachines, withOtherHomes } from '../backends/hosts/machines.ts';
import { createMachines, withThisMachine } from '../backends/machines.ts';
import { createSecretReader } from '../files/secret-store.ts';
import type { HomeRef, Job } from '../core/model/job.ts';
import type { JobSpec, WorkerId } from '../core/model/spec.ts';
import { homeRefOf } from '../files/home-ref.ts';
import { databaseOf } from './paths.ts';
import { secretSources } from './secrets.ts';
import { transportResult } from '../remote/transport.ts';
import { createTpuBackend } from './tpu.ts';

export interface BackendParts {
  readonly io: Io;
  readonly home: string;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logFiles: LogFiles;
  readonly blobs: Blobs;
  /** Calls regularly, to check processes on this machine; without it the backend uses its own timers. */
  readonly addPeriodicCheck?: (call: () => void) => () => void;
}

export interface Backends {
  readonly of: (spec: JobSpec) => Backend;
  readonly workers: WorkerLinks;
  readonly close: () => void;
}

export function createBackends(parts: BackendParts): Backends {
  const { io, home, clock, logFiles, blobs } = parts;
  const secrets = createSecretReader(home, secretSources(parts));
  const stepLog = logFiles.appendStepLog.bind(logFiles);
  const shared = {
    appendStepLog: stepLog,
    readSecret: secrets.read,
    blobs,
    openWorkdir: workdirCopiesIn(home, async () => blobs).open,
    now: () => clock.now(),
  };
  let ownHome: HomeRef | undefined;
  const local = createLocalMachines({
    ...shared,
    home,
    env: withoutDatabasePassword(io.env),
    userHome: io.userHome,
    ...(parts.addPeriodicCheck === undefined ? {} : { addPeriodicCheck: parts.addPeriodicCheck }),
  });
  const here =
    'url' in databaseOf(parts) ? withOtherHomes(local, () => (ownHome ??= homeRefOf(home)), shared.now) : local;
  const pool = openSshPool({ io, home });
  const routes = createHostRoutes({ home, pool });
  const hosts: Backend = {
    capacity: createHostsCapacity({
      hosts: hostsOf(parts.settings),
      resolve: async (address) => (await pool.config({ ...hostLogin('', address, 0), keyFile: null })).host,
      now: shared.now,
    }),
    machines: withThisMachine(
      createMachines({
        ...shared,
        findTransport: (ref) => transportResult(routes.transport(ref)),
        root: (ref) => hostRoot(ref.job, ref.worker),
        // Other jobs use the same connections, which close when they are idle.
        disconnect: () => undefined,
      }),
      here,
      isOnOwnHost,
    ),
  };
  const { backend, workers, close } = createTpuBackend(parts);
  // A command may also run on this machine and drive its TPU from here.
  const tpu: Backend = { ...backend, machines: withThisMachine(backend.machines, here) };
  return {
    of: (spec) => ({ hosts, tpu })[spec.capacity.kind],
    workers: workerLinks(routes, workers),
    close() {
      pool.close();
      close();
    },
  };
}

/** The job's folder on a remote worker, quoted for a shell script. */
export function runRoot(job: Job, worker: WorkerId): string {
  return { hosts: hostRoot, tpu: remoteRoot }[job.spec.capacity.kind](job, worker);
}

/** The way to each worker of any job. */
export type WorkerLinks = Pick<HostRoutes, 'login' | 'transport'>;

export function workerLinks(hosts: WorkerLinks, tpus: WorkerLinks): WorkerLinks {
  const of = ({ job }: WorkerRef): WorkerLinks => ({ hosts, tpu: tpus })[job.spec.capacity.kind];
  return { login: (ref) => of(ref).login(ref), transport: (ref) => of(ref).transport(ref) };
}

/** Wall-clock time in milliseconds. Its timers keep no process alive. */
export function createClock(now: () => number): Clock {
  return { now, at: (at, call) => callAt(at, now, call, true) };
}
