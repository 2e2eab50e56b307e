// Worker access: a user's commands, copies and setup steps on a job's workers, over the controller's or own
// connections.

import { requireMachines, requireWorker, type SshHost, type WorkerAccess } from '../app/worker-access.ts';
import { JobmanError, exitCode, messageOf } from '../app/errors.ts';
import type { AllocationRef, Store } from '../app/ports.ts';
import type { Services, StepRunner } from '../app/services.ts';
import type { TpuWorkers } from '../backends/tpu/workers.ts';
import { cacheFor } from '../controller/timers.ts';
import type { Job } from '../core/model/job.ts';
import { connectRelay, relaySocket, serveRelay, type RelayOptions } from '../remote/relay.ts';
import { containerEntry, deferSession } from '../remote/session.ts';
import { requireOriginalHome } from '../store/open-database.ts';
import { openStore, withStore } from '../store/store.ts';
import type { Backends } from './backends.ts';
import { databaseOf } from './paths.ts';

/** See `Services.workers`. */
export async function openWorkers(services: Services, id: string, connection: 'shared' | 'own'): Promise<WorkerAccess> {
  const { home, io } = services;
  // A command of `exec` may change anything on the workers.
  if (connection === 'shared') await requireOriginalHome(databaseOf(services));
  const ref = await currentAllocation(services, id);
  // Loaded when a connection is needed.
  let loaded: Promise<Backends> | undefined;
  const own = (): Promise<TpuWorkers> => (loaded ??= createOwnBackends(services)).then(({ workers }) => workers);
  const relay = connection === 'shared' ? await connectRelay(relaySocket(home), io.version) : undefined;

  const start: WorkerAccess['start'] = (worker, request) =>
    relay !== undefined
      ? relay.start(id, worker, request)
      : deferSession(own().then((workers) => startSession(workers, ref, worker, request)));

  return {
    workers: (ref.allocation.hosts ?? []).map((_, worker) => worker),
    allocation: ref.allocation.ordinal,
    start,
    async put(worker, request) {
      await requireOriginalHome(databaseOf(services));
      const { copyToRemote } = await import('../remote/copy.ts');
      return copyToRemote((session) => start(worker, session), { ...request, cwd: io.cwd });
    },
    async get(worker, request) {
      const { copyFromRemote } = await import('../remote/copy.ts');
      return copyFromRemote((session) => start(worker, session), { ...request, cwd: io.cwd });
    },
    async tunnel(worker, port) {
      try {
        const transport = await (await own()).transport({ ...ref, worker });
        return await transport.tunnel(port);
      } catch (error) {
        return { problem: messageOf(error), isReached: false };
      }
    },
    async sshHosts(): Promise<readonly SshHost[]> {
      const workers = await own();
      return Promise.all((ref.allocation.hosts ?? []).map((_, worker) => workers.sshHost({ ...ref, worker })));
    },
    close() {
      relay?.close();
      void loaded?.then(
        ({ close }) => close(),
        () => undefined,
      );
    },
  };
}

/** Throws JobmanError when there is no such worker now. */
export async function sshArgv(
  services: Services,
  id: string,
  worker: number,
  command: readonly string[],
): Promise<readonly string[]> {
  await requireOriginalHome(databaseOf(services));
  const ref = await currentAllocation(services, id);
  const { workers, close } = await createOwnBackends(services);
  try {
    return await workers.sshArgv(requireWorker(ref, worker), command);
  } finally {
    close();
  }
}

/** Shares the controller's connections; see remote/relay.ts. The returned function stops it. */
export async function shareConnections(parts: {
  readonly home: string;
  readonly version: string;
  readonly store: Store;
  readonly workers: TpuWorkers;
}): Promise<() => Promise<void>> {
  const { home, version, store, workers } = parts;
  const allocationOf = cacheFor((id) => loadAllocation(store, id), 200);
  const start: RelayOptions['start'] = async (id, worker, request) =>
    startSession(workers, await allocationOf(id), worker, request);
  const end = await serveRelay({ file: relaySocket(home), version, start });
  return async () => end?.();
}

const startSession = async (
  workers: TpuWorkers,
  ref: AllocationRef,
  worker: number,
  request: Parameters<WorkerAccess['start']>[1],
): ReturnType<RelayOptions['start']> => {
  const transport = await workers.transport(requireWorker(ref, worker));
  const { installation, id } = ref.job;
  return transport.session(
    request,
    request.environment === 'container' ? containerEntry(`${installation}/${id}`) : null,
  );
};

async function createOwnBackends(services: Services): Promise<Backends> {
  const { io, home } = services;
  const [{ createBackends, createClock }, { createLogFiles }, settings] = await Promise.all([
    import('./backends.ts'),
    import('../files/log-files.ts'),
    services.settings(),
  ]);
  return createBackends({
    io,
    home,
    settings,
    clock: createClock(() => io.now()),
    logFiles: createLogFiles({ home, history: () => Promise.resolve([]) }),
  });
}

async function currentAllocation(services: Services, id: string): Promise<AllocationRef> {
  return withStore(openStore(databaseOf(services)), (store) => loadAllocation(store, id));
}

/** Throws JobmanError when the job has no known machines. */
async function loadAllocation(store: Store, id: string): Promise<AllocationRef> {
  const stored = await store.load(id);
  if (stored === undefined) throw new JobmanError(`There is no job ${id}.`, exitCode.notFound);
  return { job: stored.job, allocation: requireMachines(stored.job) };
}

/** The output of the steps also goes into their logs, as when the controller runs them. */
export async function createStepRunner(services: Services, job: Job): Promise<StepRunner> {
  // The step would change the machines before its result is refused.
  await requireOriginalHome(databaseOf(services));
  const backends = await createOwnBackends(services);
  const { machines } = backends.of(job.spec);
  return {
    run: (worker, { allocation, step }, options) => machines.runStep({ job, allocation, worker }, step, options),
    close: () => backends.close(),
  };
}
