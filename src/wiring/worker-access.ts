// Worker access: a user's commands, copies and setup steps on a job's workers, over the controller's or own
// connections.

import {
  containerLabel,
  requireMachines,
  requireWorker,
  type Session,
  type SessionRequest,
  type TicketOptions,
  type WorkerAccess,
  type WorkerLogin,
  type WorkerRoutes,
  type WorkerTicket,
} from '../app/worker-access.ts';
import { JobmanError, exitCode, messageOf } from '../app/errors.ts';
import type { AllocationRef, Store } from '../app/ports.ts';
import type { StepRunner } from '../app/manual-step.ts';
import type { Services } from '../app/services.ts';
import type { WorkerLinks } from './backends.ts';
import { cacheFor } from '../controller/timers.ts';
import type { Job } from '../core/model/job.ts';
import { connectRelay, relaySocket, serveRelay, type RelayOptions } from '../remote/relay.ts';
import { containerEntry, deferSession } from '../remote/session.ts';
import { requireOriginalHome } from '../store/open-database.ts';
import type { SshPool, SshTransport } from '../remote/ssh.ts';
import { databaseOf } from './paths.ts';

/** Over the relay, else over own connections. Throws JobmanError if the job has no machines. */
export async function openWorkers(
  services: Pick<Services, 'home' | 'io' | 'settings'>,
  ticketFor: (options: TicketOptions) => Promise<WorkerTicket>,
  connection: 'shared' | 'own',
): Promise<WorkerAccess> {
  const { home, io } = services;
  const ticket = await ticketFor({ logins: connection === 'own' });
  const relay = connection === 'shared' ? await connectRelay(relaySocket(home), io.version) : undefined;
  let pool: SshPool | undefined;
  let opened: ReturnType<typeof openLogins> | undefined;
  const own = () => (opened ??= openLogins());

  /** Loaded when a connection is needed. */
  async function openLogins() {
    const [{ createSshLogins }, { openSshPool }, { settingFiles }, { allocation, logins }] = await Promise.all([
      import('../remote/ssh-logins.ts'),
      import('./ssh-pool.ts'),
      import('./secrets.ts'),
      ticket.logins === null ? ticketFor({ logins: true }) : ticket,
    ]);
    if (allocation !== ticket.allocation)
      throw new JobmanError(`Job ${ticket.job} has moved to other workers.`, exitCode.unreachable);
    pool = openSshPool({ io, home });
    return {
      logins,
      ...createSshLogins({ home, pool, settingFile: settingFiles({ io, home, settings: await services.settings() }) }),
    };
  }

  async function loginOf(worker: number): Promise<WorkerLogin> {
    requireWorker(ticket.job, worker, ticket.workers);
    const login = (await own()).logins?.[worker];
    if (login === undefined || 'problem' in login)
      throw new JobmanError(login?.problem ?? `worker ${worker} is unknown`, exitCode.unreachable);
    return login;
  }

  async function startOver(worker: number, request: SessionRequest): Promise<Session> {
    const transport = await (await own()).transport(await loginOf(worker));
    return startSession(transport, request, ticket.container ?? '');
  }

  const start: WorkerAccess['start'] = (worker, request) =>
    relay?.start(ticket.job, worker, request) ?? deferSession(startOver(worker, request));

  return {
    ticket,
    start,
    async put(worker, request) {
      const { copyToRemote } = await import('../remote/copy.ts');
      return copyToRemote((session) => start(worker, session), { ...request, cwd: io.cwd });
    },
    async get(worker, request) {
      const { copyFromRemote } = await import('../remote/copy.ts');
      return copyFromRemote((session) => start(worker, session), { ...request, cwd: io.cwd });
    },
    async tunnel(worker, port) {
      try {
        const transport = await (await own()).transport(await loginOf(worker));
        return await transport.tunnel(port);
      } catch (error) {
        return { problem: messageOf(error), isReached: false };
      }
    },
    sshHosts: () =>
      Promise.all(
        Array.from({ length: ticket.workers }, async (_, worker) => (await own()).sshHost(await loginOf(worker))),
      ),
    sshArgv: async (worker, command) => (await own()).sshArgv(await loginOf(worker), command),
    close() {
      relay?.close();
      pool?.close();
    },
  };
}

function startSession(transport: SshTransport, request: SessionRequest, container: string): Session {
  return transport.session(request, request.environment === 'container' ? containerEntry(container) : null);
}

/** For tickets. Opened at the first use, because most commands need no cloud. */
export function createWorkerRoutes(services: Services): WorkerRoutes {
  let opened: Promise<WorkerLinks> | undefined;
  async function open(): Promise<WorkerLinks> {
    const [{ createClock, workerLinks }, { openTpuWorkers }, { createHostRoutes }, { openSshPool }, settings] =
      await Promise.all([
        import('./backends.ts'),
        import('./tpu.ts'),
        import('../backends/hosts/hosts.ts'),
        import('./ssh-pool.ts'),
        services.settings(),
      ]);
    const { io, home } = services;
    // It makes no connection, so there is nothing to close.
    const { workers } = openTpuWorkers({ io, home, settings, clock: createClock(() => io.now()) });
    return workerLinks(createHostRoutes({ home, pool: openSshPool({ io, home }) }), workers);
  }
  return {
    requireOriginal: () => requireOriginalHome(databaseOf(services)),
    login: async (ref, worker) => (await (opened ??= open())).login({ ...ref, worker }),
  };
}

/** Shares the controller's connections; see remote/relay.ts. The returned function stops it. */
export async function shareConnections(parts: {
  readonly home: string;
  readonly version: string;
  readonly store: Store;
  readonly workers: WorkerLinks;
}): Promise<() => Promise<void>> {
  const { home, version, store, workers } = parts;
  const allocationOf = cacheFor((id) => loadAllocation(store, id), 200);
  const start: RelayOptions['start'] = async (id, worker, request) => {
    const ref = await allocationOf(id);
    requireWorker(id, worker, ref.allocation.hosts?.length ?? 0);
    return startSession(await workers.transport({ ...ref, worker }), request, containerLabel(ref.job));
  };
  const end = await serveRelay({ file: relaySocket(home), version, start });
  return async () => end?.();
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
  const { io, home } = services;
  const [{ createBackends, createClock }, { createLogFiles }, settings] = await Promise.all([
    import('./backends.ts'),
    import('../files/log-files.ts'),
    services.settings(),
  ]);
  const backends = createBackends({
    io,
    home,
    settings,
    clock: createClock(() => io.now()),
    logFiles: createLogFiles({ home, history: () => Promise.resolve([]) }),
  });
  const { machines } = backends.of(job.spec);
  return {
    run: (worker, { allocation, step }, options) => machines.runStep({ job, allocation, worker }, step, options),
    close: () => backends.close(),
  };
}
