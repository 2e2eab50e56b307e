// By hand: commands, copies and setup steps that a person runs on a job's workers, over the controller's connections or our own.

import { machinesAtHand, workerAtHand, type SshHost, type WorkerDoor } from '../app/by-hand.ts';
import { JobmanError, exitCode, textOf } from '../app/errors.ts';
import type { AllocationRef, Store } from '../app/ports.ts';
import type { Services, StepRunner } from '../app/services.ts';
import type { TpuWorkers } from '../backends/tpu/workers.ts';
import { askOnce } from '../controller/timers.ts';
import type { Job } from '../core/job.ts';
import { connectRelay, relayFile, serveRelay, type RelayOptions } from '../remote/relay.ts';
import { containerEntry, sessionLater } from '../remote/session.ts';
import { expectOriginal } from '../store/record-file.ts';
import { openStore } from '../store/store.ts';
import type { Backends } from './backends.ts';
import { recordFile } from './paths.ts';

/** The workers of that job, as `Services.workers` promises them. */
export async function openWorkers(services: Services, id: string, way: 'shared' | 'own'): Promise<WorkerDoor> {
  const { home, io } = services;
  // A command that exec runs may change anything there.
  if (way === 'shared') await expectOriginal(recordFile(home));
  const ref = await machinesOf(services, id);
  // Loaded when something has to be reached.
  let loaded: Promise<Backends> | undefined;
  const own = (): Promise<TpuWorkers> => (loaded ??= ownBackends(services)).then(({ workers }) => workers);
  const relay = way === 'shared' ? await connectRelay(relayFile(home), io.version) : undefined;

  const start: WorkerDoor['start'] = (worker, request) =>
    relay !== undefined
      ? relay.start(id, worker, request)
      : sessionLater(own().then((workers) => startSession(workers, ref, worker, request)));
  const cwd = io.cwd;

  return {
    workers: (ref.allocation.hosts ?? []).map((_, worker) => worker),
    allocation: ref.allocation.ordinal,
    start,
    async put(worker, request) {
      await expectOriginal(recordFile(home));
      const { put } = await import('../remote/copy.ts');
      return put((session) => start(worker, session), { ...request, cwd });
    },
    async get(worker, request) {
      const { get } = await import('../remote/copy.ts');
      return get((session) => start(worker, session), { ...request, cwd });
    },
    async tunnel(worker, port) {
      try {
        const transport = await (await own()).transport({ ...ref, worker });
        return await transport.tunnel(port);
      } catch (error) {
        return { problem: textOf(error), isReached: false };
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

/** The argv of the system's ssh for that worker. Throws JobmanError when there is no such worker now. */
export async function sshArgv(
  services: Services,
  id: string,
  worker: number,
  command: readonly string[],
): Promise<readonly string[]> {
  await expectOriginal(recordFile(services.home));
  const ref = await machinesOf(services, id);
  const { workers, close } = await ownBackends(services);
  try {
    return await workers.sshArgv(workerAtHand(ref, worker), command);
  } finally {
    close();
  }
}

/** Lends the controller's connections; see remote/relay.ts. The returned function ends it. */
export async function lendConnections(parts: {
  readonly home: string;
  readonly version: string;
  readonly store: Store;
  readonly workers: TpuWorkers;
}): Promise<() => Promise<void>> {
  const { home, version, store, workers } = parts;
  const machines = askOnce((id) => machinesIn(store, id), 200);
  const start: RelayOptions['start'] = async (id, worker, request) =>
    startSession(workers, await machines(id), worker, request);
  const end = await serveRelay({ file: relayFile(home), version, start });
  return async () => end?.();
}

const startSession = async (
  workers: TpuWorkers,
  ref: AllocationRef,
  worker: number,
  request: Parameters<WorkerDoor['start']>[1],
): ReturnType<RelayOptions['start']> => {
  const transport = await workers.transport(workerAtHand(ref, worker));
  const { installation, id } = ref.job;
  return transport.session(request, request.inside === 'container' ? containerEntry(`${installation}/${id}`) : null);
};

/** The backends over our own connections. */
async function ownBackends(services: Services): Promise<Backends> {
  const { io, home } = services;
  const [{ createBackends, createClock }, { createLogFiles }, settings] = await Promise.all([
    import('./backends.ts'),
    import('../app/log-files.ts'),
    services.settings(),
  ]);
  return createBackends({
    io,
    home,
    settings,
    clock: createClock(() => io.now()),
    logFiles: createLogFiles({ home, history: () => Promise.resolve([]) }),
    changed: () => undefined,
  });
}

async function machinesOf({ home }: Services, id: string): Promise<AllocationRef> {
  const store = openStore({ file: recordFile(home) });
  try {
    return await machinesIn(store, id);
  } finally {
    await store.close();
  }
}

/** The job and the allocation that it has now. Throws JobmanError when it has none whose machines are known. */
async function machinesIn(store: Store, id: string): Promise<AllocationRef> {
  const stored = await store.load(id);
  if (stored === undefined) throw new JobmanError(`There is no job ${id}.`, exitCode.notFound);
  return { job: stored.job, allocation: machinesAtHand(stored.job) };
}

/** As `Services.stepRunner` promises it. What the steps print also goes into their logs, as when the controller does them. */
export async function createStepRunner(services: Services, job: Job): Promise<StepRunner> {
  // The step would change the machines before its result is refused.
  await expectOriginal(recordFile(services.home));
  const backends = await ownBackends(services);
  const { machines } = backends.of(job.spec);
  return {
    run: (worker, { allocation, step }, byHand) => machines.step({ job, allocation, worker }, step, byHand),
    close: () => backends.close(),
  };
}
