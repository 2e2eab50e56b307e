// Services: connects all parts and decides nothing. Each part is loaded on first use, so that a reading command loads
// only the store.

import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { userEnvVariable } from '../app/actor.ts';
import type { Client } from '../app/client.ts';
import { notOnServerError } from '../app/errors.ts';
import type { LoadedClusterSettings } from '../app/cluster/settings.ts';
import type { Io } from '../app/services.ts';
import type { Settings, SettingsFiles, SettingsLayer } from '../app/settings.ts';
import type { UserName } from '../core/model/user.ts';
import type { Lab, LabServices } from '../lab/lab.ts';
import { submittedMarker, homeOf, templateFile } from './paths.ts';

export function createServices(io: Io): LabServices {
  const home = homeOf(io);
  const server = io.env['JOBMAN_SERVER'] || null;
  let settings: Promise<Settings> | undefined;
  let clusterSettings: Promise<LoadedClusterSettings> | undefined;
  let named: string | undefined;
  let files: SettingsFiles | undefined;
  let lab: Promise<Lab> | undefined;

  async function readLayers(): Promise<readonly SettingsLayer[]> {
    const { settingsLayers } = await import('../files/settings-files.ts');
    return settingsLayers(services.settingsFiles());
  }

  async function freshSettings(): Promise<Settings> {
    const [{ loadSettings }, layers] = await Promise.all([import('../app/settings.ts'), readLayers()]);
    return loadSettings({ layers, env: io.env, cores: availableParallelism() });
  }

  const services: LabServices = {
    ...clientServices(() => services),
    ...localServices(() => services),
    io,
    home,
    server,

    settings: () => (settings ??= freshSettings()),

    async unreadMistake() {
      if (settings !== undefined || !existsSync(join(home, 'settings.json'))) return null;
      const { mistakesOf } = await import('../app/settings.ts');
      return services.settings().then(
        () => null,
        (error: unknown) => mistakesOf(error)[0] ?? null,
      );
    },

    settingsFiles: () => (files ??= { home, explicit: named, template: templateFile(io.launcher.at(-1) ?? '') }),

    useSettings(path) {
      if (files !== undefined) throw new Error('the settings were read before their file was named');
      named = path;
    },

    clusterSettings: () =>
      (clusterSettings ??= import('./cluster.ts')
        .then(async ({ loadClusterSettings }) =>
          loadClusterSettings({ layers: await readLayers(), userHome: io.userHome }),
        )
        .catch((error: unknown) => {
          // A display that stays open reads them again: the file may be repaired meanwhile.
          clusterSettings = undefined;
          throw error;
        })),

    cluster: (options) => import('./cluster.ts').then(({ openCluster }) => openCluster(services, options)),

    hasSubmitted: () => existsSync(submittedMarker(home)),
    isClusterConfigured: () => import('./cluster-submissions.ts').then(({ usesCluster }) => usesCluster(services)),

    newerVersion: () => import('./version-check.ts').then(({ newerVersion }) => newerVersion(services)),

    checkVersion: () => import('./version-check.ts').then(({ checkVersion }) => checkVersion(services)),

    clusterSubmissions: () =>
      import('./cluster-submissions.ts').then(({ createClusterSubmissions }) => createClusterSubmissions(services)),

    lab: () => (lab ??= import('./lab.ts').then(({ openLab }) => openLab(services))),

    labHome: () => import('./lab-home.ts').then(({ createLabHome }) => createLabHome(home)),

    async controller() {
      const { createControllerService } = await import('./controller-service.ts');
      const { settingsFile } = await import('../files/files.ts');
      const { explicit, template } = services.settingsFiles();
      return createControllerService({
        io,
        home,
        settings: () => services.settings(),
        freshSettings,
        settingsFiles: () => [settingsFile(home), ...[template, explicit].flatMap((path) => path ?? [])],
      });
    },

    async serve(options) {
      const { runServer } = await import('./server.ts');
      return runServer({
        ...options,
        io,
        home,
        controller: await services.controller(),
        openServices: () => reopened(),
      });
    },

    emulator: () =>
      import('./emulator-service.ts').then(({ createEmulatorService }) => createEmulatorService({ io, home })),

    doctor: (onChange) => import('./doctor.ts').then(({ diagnose }) => diagnose(services, onChange)),

    async workers(ref, connection) {
      const [{ openWorkers }, client] = await Promise.all([import('./worker-access.ts'), services.client()]);
      return openWorkers(services, (options) => client.workerTicket(ref, options), connection);
    },

    onTerminal: (argv) => import('./processes.ts').then(({ runOnTerminal }) => runOnTerminal(argv)),
  };
  /** With the files of settings of this command, and nothing read yet. */
  function reopened(): LabServices {
    const fresh = createServices(io);
    if (named !== undefined) fresh.useSettings(named);
    return fresh;
  }
  return server === null ? services : { ...services, ...partsOfThisMachine(server) };
}

/** A command for a server must not change or show this machine instead. */
function partsOfThisMachine(server: string): Partial<LabServices> {
  const refuse = (what: string) => () => Promise.reject(notOnServerError(what, server));
  const cluster = refuse('A Kubernetes cluster');
  return {
    controller: refuse('`jobman controller`'),
    serve: refuse('`jobman server`'),
    emulator: refuse('`jobman emulator`'),
    doctor: refuse('`jobman doctor`'),
    workers: refuse('`jobman ssh`'),
    cluster,
    namedSecret: cluster,
    lab: refuse('`tpu`'),
    labHome: refuse('`tpu`'),
    isClusterConfigured: () => Promise.resolve(false),
    hasSubmitted: () => false,
    clusterSubmissions: () =>
      Promise.resolve({
        isUsed: false,
        registerContext: cluster,
        preload: cluster,
        recordSubmitted: cluster,
        close: () => Promise.resolve(),
        wake: cluster,
      }),
  };
}

function clientServices(services: () => LabServices): Pick<LabServices, 'client' | 'clientAs'> {
  let client: Promise<Client> | undefined;
  let clients: Promise<(user: UserName | null) => Client> | undefined;
  return {
    client: () => (client ??= services().clientAs(services().io.env[userEnvVariable] ?? null)),

    async clientAs(user) {
      const { server, io } = services();
      if (server !== null) {
        const { openServerClient } = await import('./server-client.ts');
        return openServerClient(io, server, user);
      }
      clients ??= import('./client.ts').then(({ createLocalClients }) => createLocalClients(services()));
      return (await clients)(user);
    },
  };
}

function localServices(services: () => LabServices): Pick<LabServices, 'checkWorkdir' | 'copyWorkdir' | 'namedSecret'> {
  const load = () => import('../remote/workdir/freeze.ts');
  const folder = (from: string) => ({ from, excluded: services().home, env: services().io.env });
  return {
    async namedSecret(secret) {
      const { createSecretStore } = await import('../files/secret-store.ts');
      const { user: owner } = await (await services().client()).whoAmI();
      return createSecretStore(services().home).read({ id: '', owner }, { kind: 'named', secret });
    },
    checkWorkdir: async (from) => (await load()).checkWorkdir(folder(from)),
    async copyWorkdir(from) {
      const { io } = services();
      const indexes = join(io.env['XDG_CACHE_HOME'] || join(io.userHome, '.cache'), 'jobman', 'workdirs');
      const { freeze } = await load();
      return freeze({ ...folder(from), client: await services().client(), indexes, at: io.now() });
    },
  };
}
