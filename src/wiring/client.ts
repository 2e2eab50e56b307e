// The Client of this machine's store, for the terminal.

import { formatOtherDatabase, otherDatabaseRemedy } from '../app/database-url.ts';
import { hostsOf } from '../app/hosts.ts';
import { existsSync, statSync } from 'node:fs';
import { isSharedLogin, mayBe, resolveActor, userEnvVariable } from '../app/actor.ts';
import type { CommandResult, Client } from '../app/client.ts';
import { JobmanError, reworded } from '../app/errors.ts';
import { formatSilence } from '../app/format.ts';
import { clientFor, type ClientParts } from '../app/store-client.ts';
import type { LogFiles } from '../app/ports.ts';
import type { Services } from '../app/services.ts';
import type { WorkerRoutes } from '../app/worker-access.ts';
import type { WorkerMeter } from '../app/worker-figures.ts';
import type { Price } from '../reports/prices.ts';
import type { Job } from '../core/model/job.ts';
import type { JobSpec } from '../core/model/spec.ts';
import type { Actor, User, UserName } from '../core/model/user.ts';
import { createJobFiles } from '../files/job-files.ts';
import { localFolders } from '../files/local-folders.ts';
import type { DatabaseWaits } from '../store/open-database.ts';
import { openStore, type JobmanStore } from '../store/store.ts';
import { finalRows } from './final-rows.ts';
import type { Data } from './data.ts';
import { hasJobFiles, databaseOf, mayNameData } from './paths.ts';

/** The parts that all clients of this home share. Opens nothing yet. */
export function createClientParts(
  services: Services,
  waits?: DatabaseWaits,
): {
  readonly parts: ClientParts;
  readonly labStore: JobmanStore['lab'];
  readonly close: () => Promise<void>;
} {
  const { io, home } = services;
  const store = openClientStore(services, waits);
  const mayShare = mayNameData(home, services.settingsFiles().explicit);
  async function data(): Promise<Data> {
    const { homeData, openData } = await import('./data.ts');
    return mayShare ? openData({ io, home, settings: await services.settings() }) : homeData(home);
  }
  const blobs = async () => (await data()).blobs;
  const refresh = async (job: Job) => (await data()).bucket?.logs.refresh(job);
  let files: Promise<LogFiles> | undefined;
  /** Loaded on the first write, because lists do not need it. */
  const logFiles = () =>
    (files ??= data().then(({ openLogFiles }) => openLogFiles((id, after) => store.events(id, after))));
  const { closeMeter, ...machines } = machineParts(services);
  const startMessages: string[] = [];
  function startNotice(): string | null {
    const notice = startMessages.splice(0).join('\n');
    return notice === '' ? null : notice;
  }
  const parts: ClientParts = {
    store,
    access: store.access,
    notifications: store.notifications,
    async channels() {
      const { openChannels } = await import('./notify.ts');
      return openChannels(services, async () => (await import('./doctor.ts')).openSecrets(services));
    },
    clusters: store.clusters,
    async archivedLogs() {
      const [{ createArchivedLogs }, { openArchivedLogs }] = await Promise.all([
        import('../files/archived-logs.ts'),
        data(),
      ]);
      return openArchivedLogs(createArchivedLogs(home));
    },
    files: createJobFiles(home, { openBlobs: blobs, refresh: mayShare ? refresh : null }),
    folders: localFolders,
    blobs,
    logFiles: {
      note: async (...line) => (await logFiles()).note(...line),
      mirror: async (...copy) => (await logFiles()).mirror(...copy),
    },
    async secrets(rows = store.secrets) {
      const [{ createSecretStore }, { secretKeys }, settings] = await Promise.all([
        import('../files/secret-store.ts'),
        import('./secrets.ts'),
        services.settings(),
      ]);
      return createSecretStore(home, { rows, keys: secretKeys({ io, home, settings }) });
    },
    now: () => io.now(),
    async isChange(operation) {
      const { apiRoutes } = await import('../api/routes.ts');
      return apiRoutes.some(([name, { changes }]) => name === operation && changes);
    },
    pricePerHour: (spec) => hourlyPrice(services, spec),
    async jobFolders() {
      const [{ createJobFolders }, { openFolders, prepare }] = await Promise.all([
        import('../files/job-folders.ts'),
        data(),
      ]);
      const folders = openFolders(createJobFolders(home));
      return {
        ...folders,
        makeHome() {
          folders.makeHome();
          prepare();
        },
        async remove(job, options) {
          await store.secrets.removeOfJob(job);
          return folders.remove(job, options);
        },
      };
    },
    hasShell: () => existsSync('/bin/sh'),
    async prepareCloud(spec) {
      if (spec.capacity.kind !== 'tpu') return;
      const { ensureEmulator, isServedByEmulator, formatEmulatorStarted } = await import('./emulator-service.ts');
      if (!isServedByEmulator(await services.settings(), spec.capacity.project)) return;
      const { started, endpoint } = await ensureEmulator(io, home, spec);
      if (started) startMessages.push(formatEmulatorStarted(endpoint));
    },
    startNotice,
    pools: async () => hostsOf(await services.settings()),
    ownPrices: async () => (await services.settings()).prices,
    settings: async () => (await import('../files/setting-rows.ts')).readSettingRows(services),
    defaultProject: async () => (await services.settings()).tpu.project,
    grants: async () => (await services.settings()).grants,
    ...machines,
    ...controllerParts(services, store, startMessages, startNotice),
    installationId: async () => (await import('./installation-id.ts')).readInstallationId(services),

    controllerLogin: async () => (await import('./logins.ts')).controllerLogin(home),
  };
  return {
    parts,
    labStore: store.lab,
    async close() {
      await closeMeter();
      await store.close();
    },
  };
}

/** One client for each user whom a line may name. They share the database, and open nothing yet. */
export function createLocalClients(
  services: Services,
  onWait: (message: string) => void = () => undefined,
): (requested: UserName | null) => Client {
  const { io, home } = services;
  const { parts, close } = createClientParts(services, { onWait, onSignal: (call) => io.onSignal(call) });
  const { store } = parts;
  let read: Promise<readonly User[]> | undefined;
  /** A failure is not kept: a display that stays open reads them again. */
  const users = () =>
    (read ??= store.users().catch((error: unknown) => {
      read = undefined;
      throw error;
    }));

  return (requested) => {
    async function whoAmI(): Promise<Actor> {
      // First, because it reports a home that cannot be read.
      const all = await users();
      return resolveActor({ login: io.user, isHomeOwner: ownsHome(home, io.uid) }, requested, all);
    }
    const client = clientFor(whoAmI, parts);

    /** The next step for a user of a shared login whom the line does not name; null for anyone else. */
    async function hintFor(owner: UserName): Promise<string | null> {
      const [actor, all] = [await whoAmI(), await users()];
      const user = all.find(({ name }) => name === owner);
      const mayBeOwner = user !== undefined && isSharedLogin(io.user, all) && mayBe(io.user, user, all);
      if (!mayBeOwner || owner === actor.user) return null;
      return `If you are ${owner}, repeat the command with ${userEnvVariable}=${owner} before it.`;
    }

    async function withHint(answer: CommandResult): Promise<CommandResult> {
      const hint = answer.refusedFor === undefined ? null : await hintFor(answer.refusedFor);
      return hint === null ? answer : { ...answer, message: `${answer.message} ${hint}` };
    }

    async function throwWithHint(error: unknown): Promise<never> {
      const owner = error instanceof JobmanError ? error.refusedFor : null;
      const hint = owner === null ? null : await hintFor(owner);
      if (hint === null || !(error instanceof JobmanError)) throw error;
      throw reworded(error, { lines: [hint] });
    }

    return {
      ...client,
      close,
      sendCommand: async (...command) => withHint(await client.sendCommand(...command)),
      clean: async (...job) => withHint(await client.clean(...job)),
      runStep(...step) {
        const run = client.runStep(...step)[Symbol.asyncIterator]();
        return { [Symbol.asyncIterator]: () => ({ ...run, next: () => run.next().catch(throwWithHint) }) };
      },
      workerTicket: (...ticket) => client.workerTicket(...ticket).catch(throwWithHint),
    };
  };
}

/** A server forgets a wake-up that no controller receives, as after a Ctrl-C before the command starts one. */
function openClientStore(services: Services, waits?: DatabaseWaits): JobmanStore {
  const { home } = services;
  const database = databaseOf(services);
  const store = openStore({
    ...database,
    isIdTaken: hasJobFiles(home),
    finalRows,
    ...(waits !== undefined && { waits }),
  });
  if ('file' in database) return store;
  return {
    ...store,
    async notify(wakeUp) {
      const folder = await import('../store/wake-folder.ts');
      folder.notify(home, wakeUp);
      await store.notify(wakeUp);
    },
  };
}

/** The controller of this home. What its start says is added to the messages. */
function controllerParts(services: Services, store: JobmanStore, messages: string[], notice: () => string | null) {
  const { io, home } = services;
  /** That of another home works for a database on a server. */
  const holdsLease = async () =>
    'url' in databaseOf(services) && ((await store.lease(io.now()))?.expiresAt ?? 0) > io.now();
  return {
    async isControllerRunning() {
      const { isControllerRunning } = await import('../controller/lock.ts');
      if (isControllerRunning(home)) {
        const { otherDatabase } = await import('./controller-database.ts');
        if ((await otherDatabase(services)) === null) return true;
      }
      return holdsLease();
    },

    async wakeController() {
      const controller = await services.controller();
      const status = await controller.status();
      const { otherDatabase } = status;
      if (otherDatabase !== null && (await holdsLease())) return notice();
      // The job is stored, and that controller may change to this database now.
      if (otherDatabase !== null)
        return `The controller of this home ${formatOtherDatabase(otherDatabase)}. ${otherDatabaseRemedy}`;
      if (status.silentSinceAt !== null) return formatSilence(status, io.now());
      const { started, pid } = await controller.start();
      if (started) messages.push(`Started the controller (process ${pid}). It runs in the background.`);
      return notice();
    },
  };
}

/** The parts that contact clouds and machines, each loaded at its first use. */
function machineParts(services: Services) {
  let routes: Promise<WorkerRoutes> | undefined;
  let meter: Promise<WorkerMeter> | undefined;
  const workerRoutes = () =>
    (routes ??= import('./worker-access.ts').then(({ createWorkerRoutes }) => createWorkerRoutes(services)));
  return {
    clouds: async (timeout) => (await import('./clouds.ts')).openClouds(services, timeout),
    registry: async () => (await import('./harbor.ts')).openImages(services),
    workerRoutes,
    openStepRunner: async (job) => (await import('./worker-access.ts')).createStepRunner(services, job),
    workerMeter: () =>
      (meter ??= Promise.all([import('./worker-meter.ts'), workerRoutes()]).then(([{ createWorkerMeter }, way]) =>
        createWorkerMeter(services, way),
      )),
    closeMeter: async () => (await meter)?.close(),
  } satisfies Partial<ClientParts> & { readonly closeMeter: () => Promise<void> };
}

/** True for root too. A home that does not exist yet belongs to the login that creates it. */
function ownsHome(home: string, uid: number): boolean {
  return uid === 0 || (statSync(home, { throwIfNoEntry: false })?.uid ?? uid) === uid;
}

async function hourlyPrice(services: Services, { capacity }: JobSpec): Promise<Price | null> {
  const [{ capacityPrice }, { prices }] = await Promise.all([import('../reports/prices.ts'), services.settings()]);
  return capacityPrice(prices, capacity, services.io.now());
}
