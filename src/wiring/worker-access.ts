// Worker access: a user's commands, copies and setup steps on a job's workers, over the controller's or own
// connections.

import {
  containerLabel,
  deferSession,
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
import type { AllocationRef, Store, WorkerRef } from '../app/ports.ts';
import type { StepRunner } from '../app/manual-step.ts';
import type { Ref } from '../app/client.ts';
import type { ServerInUse } from '../app/server-in-use.ts';
import type { Services } from '../app/services.ts';
import type { WorkerLinks } from './backends.ts';
import { cacheFor } from '../controller/timers.ts';
import type { Job } from '../core/model/job.ts';
import { second, type Duration } from '../core/model/time.ts';
import { connectRelay, relaySocket, serveRelay, type RelayOptions } from '../remote/relay.ts';
import { requireOriginalHome } from '../store/open-database.ts';
import { entryOf } from '../remote/session.ts';
import type { SshPool, SshTransport } from '../remote/ssh.ts';
import { databaseOf } from './paths.ts';

/** Of a job of this machine or of the server in use. Throws JobmanError. */
export async function openWorkersOf(services: Services, ref: Ref, connection: 'shared' | 'own'): Promise<WorkerAccess> {
  const [client, server] = await Promise.all([services.client(), services.server()]);
  if (server === null) return openWorkers(services, (options) => client.workerTicket(ref, options), connection);
  return openWorkersOfServer(services, server, await client.workerTicket(ref));
}

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
    const [{ createSshLogins }, { openSshPool }, { secretSources }, { allocation, logins }] = await Promise.all([
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
      ...createSshLogins({
        home,
        pool,
        secretSources: secretSources({ io, home, settings: await services.settings() }),
      }),
    };
  }

  async function loginOf(worker: number): Promise<WorkerLogin> {
    requireWorker(ticket.job, worker, ticket.workers);
    const login = (await own()).logins?.[worker];
    if (login === undefined || 'problem' in login)
      throw new JobmanError(login?.problem ?? `worker ${worker} is unknown`, exitCode.unreachable);
    return login;
  }

  async function startOn(worker: number, request: SessionRequest): Promise<Session> {
    await ticketFor({ use: { worker } });
    const shared = relay?.start(ticket.job, worker, request);
    if (shared !== undefined) return shared;
    const transport = await (await own()).transport(await loginOf(worker));
    return startSession(transport, request, ticket.container ?? '');
  }

  const start: WorkerAccess['start'] = (worker, request) => deferSession(startOn(worker, request));

  return {
    ticket,
    start,
    ...copiesOver(start, io.cwd),
    async tunnel(worker, port) {
      try {
        await ticketFor({ use: { worker, port } });
        const transport = await (await own()).transport(await loginOf(worker));
        return await transport.tunnel(port);
      } catch (error) {
        return { problem: messageOf(error), isReached: false };
      }
    },
    ssh: {
      hosts: () =>
        Promise.all(
          Array.from({ length: ticket.workers }, async (_, worker) => {
            await ticketFor({ use: { worker } });
            return (await own()).sshHost(await loginOf(worker));
          }),
        ),
      async argv(worker, command) {
        await ticketFor({ use: { worker } });
        return (await own()).sshArgv(await loginOf(worker), command);
      },
    },
    close() {
      relay?.close();
      pool?.close();
    },
  };
}

/** Through the server, which connects. */
async function openWorkersOfServer(
  { io }: Pick<Services, 'io'>,
  server: ServerInUse,
  ticket: WorkerTicket,
): Promise<WorkerAccess> {
  const [{ createWorkerStreams }, { httpPartsOf }] = await Promise.all([
    import('../http-client/worker-streams.ts'),
    import('./server-client.ts'),
  ]);
  const streams = createWorkerStreams(httpPartsOf(io, server));
  const start: WorkerAccess['start'] = (worker, request) => {
    requireWorker(ticket.job, worker, ticket.workers);
    return streams.start(ticket, worker, request);
  };
  return {
    ticket,
    start,
    ...copiesOver(start, io.cwd),
    tunnel: (worker, port) => streams.tunnel(ticket, worker, port),
    ssh: null,
    close: () => streams.close(),
  };
}

function copiesOver(start: WorkerAccess['start'], cwd: string): Pick<WorkerAccess, 'put' | 'get'> {
  return {
    async put(worker, request) {
      const { copyToRemote } = await import('../remote/copy.ts');
      return copyToRemote((session) => start(worker, session), { ...request, cwd });
    },
    async get(worker, request) {
      const { copyFromRemote } = await import('../remote/copy.ts');
      return copyFromRemote((session) => start(worker, session), { ...request, cwd });
    },
  };
}

function startSession(transport: SshTransport, request: SessionRequest, container: string): Session {
  return transport.session(request, entryOf(request, container));
}

/** For tickets. Opened at the first use, because most commands need no cloud. */
export function createWorkerRoutes(services: Services): WorkerRoutes {
  let opened: Promise<WorkerLinks & { readonly close: () => void }> | undefined;
  async function open(): Promise<WorkerLinks & { readonly close: () => void }> {
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
    const pool = openSshPool({ io, home });
    return { ...workerLinks(createHostRoutes({ home, pool }), workers), close: () => pool.close() };
  }
  return {
    requireOriginal: () => requireOriginalHome(databaseOf(services)),
    login: async (ref, worker) => (await (opened ??= open())).login({ ...ref, worker }),
    async connect(ref, worker) {
      const transport = await (await (opened ??= open())).transport({ ...ref, worker });
      return {
        start: (request) => startSession(transport, request, containerLabel(ref.job)),
        tunnel: (port) => transport.tunnel(port),
      };
    },
    async removeRunFolders(ref) {
      const links = await open();
      const remote = (ref.allocation.hosts ?? []).flatMap(({ externalIp }, worker) =>
        externalIp === null ? [] : [worker],
      );
      const problems = await Promise.all(remote.map((worker) => removeRunFolder(links, { ...ref, worker })));
      links.close();
      return problems.flat();
    },
  };
}

const removeTimeout: Duration = 30 * second;

async function removeRunFolder(links: WorkerLinks, ref: WorkerRef): Promise<readonly string[]> {
  const { job, worker } = ref;
  const [{ runRoot }, { jobMarker, removeScript }] = await Promise.all([
    import('./backends.ts'),
    import('../remote/run-folder.ts'),
  ]);
  const keeps = (reason: string) => [`worker ${worker}: ${reason}`];
  try {
    const script = removeScript(runRoot(job, worker), jobMarker(job));
    const transport = await links.transport(ref);
    const result = await transport.run({
      script,
      timeoutMs: removeTimeout,
      maxOutputBytes: 10_000,
      isRepeatable: true,
    });
    if (result.kind === 'no_answer') return keeps(result.reason);
    return result.exitCode === 0 ? [] : keeps(new TextDecoder().decode(result.stderr).trim());
  } catch (error) {
    return keeps(messageOf(error));
  }
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
export async function loadAllocation(store: Store, id: string): Promise<AllocationRef> {
  const stored = await store.load(id);
  if (stored === undefined) throw new JobmanError(`There is no job ${id}.`, exitCode.notFound);
  return { job: stored.job, allocation: requireMachines(stored.job) };
}

/** The output of the steps also goes into their logs, as when the controller runs them. */
export async function createStepRunner(services: Services, job: Job): Promise<StepRunner> {
  // The step would change the machines before its result is refused.
  await requireOriginalHome(databaseOf(services));
  const { io, home } = services;
  const [{ createBackends, createClock }, { openData }, settings] = await Promise.all([
    import('./backends.ts'),
    import('./data.ts'),
    services.settings(),
  ]);
  const { blobs, openLogFiles } = await openData({ io, home, settings });
  const backends = createBackends({
    io,
    home,
    settings,
    clock: createClock(() => io.now()),
    logFiles: openLogFiles(() => Promise.resolve([])),
    blobs,
  });
  const { machines } = backends.of(job.spec);
  return {
    run: (worker, { allocation, step }, options) => machines.runStep({ job, allocation, worker }, step, options),
    close: () => backends.close(),
  };
}
