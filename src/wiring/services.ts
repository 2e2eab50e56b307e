// Services: connects all parts and decides nothing. Each part is loaded on first use, so that a reading command loads
// only the store.

import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { userEnvVariable } from '../app/actor.ts';
import type { Client } from '../app/client.ts';
import type { LoadedClusterSettings } from '../app/cluster/settings.ts';
import { notOnServerError, serverVariable, thisMachine, type ServerInUse } from '../app/server-in-use.ts';
import type { Io, ServerChoice } from '../app/services.ts';
import type { Settings, SettingsFiles, SettingsLayer } from '../app/settings.ts';
import type { UserName } from '../core/model/user.ts';
import type { ServerClient } from '../http-client/client.ts';
import type { Lab, LabServices } from '../lab/lab.ts';
import { contextsFile, mayHaveCurrentContext, homeOf, namedSettings, templateFile } from './paths.ts';

export function createServices(io: Io): LabServices {
  const home = homeOf(io);
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

    settings: () => (settings ??= freshSettings()),

    async unreadMistake() {
      if (settings !== undefined || !existsSync(join(home, 'settings.json'))) return null;
      const { mistakesOf } = await import('../app/settings.ts');
      return services.settings().then(
        () => null,
        (error: unknown) => mistakesOf(error)[0] ?? null,
      );
    },

    settingsFiles: () => (files ??= settingsFilesOf(io, named)),

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

    isClusterConfigured: () => import('./cluster-submissions.ts').then(({ usesCluster }) => usesCluster(services)),

    newerVersion: () => import('./version-check.ts').then(({ newerVersion }) => newerVersion(services)),

    checkVersion: () => import('./version-check.ts').then(({ checkVersion }) => checkVersion(services)),

    clusterSubmissions: () =>
      import('./cluster-submissions.ts').then(({ createClusterSubmissions }) => createClusterSubmissions(services)),

    lab: () => (lab ??= openLab(services)),

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

    async dashboard(port) {
      const { openDashboard } = await import('./dashboard.ts');
      return openDashboard({ io, home, port, services, openServices: () => reopened() });
    },

    secretKeys: () => import('./secret-keys.ts').then(({ createSecretKeyService }) => createSecretKeyService(services)),

    backups: () => import('./backup.ts').then(({ createBackupService }) => createBackupService({ io, home })),

    emulator: () =>
      import('./emulator-service.ts').then(({ createEmulatorService }) => createEmulatorService({ io, home })),

    doctor: (onChange) => import('./doctor.ts').then(({ diagnose }) => diagnose(services, onChange)),

    workers: (ref, connection) =>
      import('./worker-access.ts').then(({ openWorkersOf }) => openWorkersOf(services, ref, connection)),

    onTerminal: (argv) => import('./processes.ts').then(({ runOnTerminal }) => runOnTerminal(argv)),
  };
  /** With the files of settings of this command, and nothing read yet. */
  function reopened(): LabServices {
    const fresh = createServices(io);
    fresh.useServer({ named: thisMachine });
    if (named !== undefined) fresh.useSettings(named);
    return fresh;
  }
  return { ...services, ...partsOfThisMachine(services) };
}

function settingsFilesOf(io: Io, named: string | undefined): SettingsFiles {
  const template = templateFile(io.launcher.at(-1) ?? '');
  return { home: homeOf(io), explicit: named ?? namedSettings(io), template };
}

async function openLab(services: LabServices): Promise<Lab> {
  if ((await services.server()) === null) return (await import('./lab.ts')).openLab(services);
  const [{ createServerLab }, client] = await Promise.all([import('../lab/server-lab.ts'), services.client()]);
  return createServerLab((client as ServerClient).lab);
}

/** A command for a server must not change or show this machine instead. */
function partsOfThisMachine(services: LabServices): Partial<LabServices> {
  const local =
    <A extends readonly unknown[], T>(what: string, call: (...args: A) => Promise<T>) =>
    async (...args: A): Promise<T> => {
      const server = await services.server();
      if (server !== null) throw notOnServerError(what, server);
      return call(...args);
    };
  let opened: ReturnType<typeof open> | undefined;
  /** The clusters of the server in use; null without one. */
  const clusters = () => (opened ??= open());
  async function open() {
    const server = await services.server();
    if (server === null) return null;
    const { openClusters } = await import('./server-clusters.ts');
    return openClusters(services.io, server, (await services.client()) as ServerClient);
  }
  return {
    controller: local('`jobman controller`', () => services.controller()),
    serve: local('`jobman server`', (options) => services.serve(options)),
    backups: local('`jobman backup`', () => services.backups()),
    secretKeys: local('`jobman secret encrypt`', () => services.secretKeys()),
    emulator: local('`jobman emulator`', () => services.emulator()),
    doctor: local('`jobman doctor`', (onChange) => services.doctor(onChange)),
    cluster: async (options) => ((await clusters()) ?? services).cluster(options),
    clusterSettings: async () => ((await clusters()) ?? services).clusterSettings(),
    clusterSubmissions: async () => ((await clusters()) ?? services).clusterSubmissions(),
    isClusterConfigured: async () => ((await clusters()) ?? services).isClusterConfigured(),
    namedSecret: async (...secret) => ((await services.server()) === null ? services.namedSecret(...secret) : null),
    labHome: local('`tpu`', () => services.labHome()),
  };
}

type ServerServices = Pick<LabServices, 'client' | 'clientAs' | 'server' | 'useServer' | 'contexts'>;

function clientServices(services: () => LabServices): ServerServices {
  let choice: ServerChoice = {};
  let chosen: Promise<ServerInUse | null> | undefined;
  let client: Promise<Client> | undefined;
  let clients: Promise<(user: UserName | null) => Client> | undefined;

  async function chooseServer({ named, ignoresCurrent = false }: ServerChoice): Promise<ServerInUse | null> {
    const { io, home } = services();
    const variable = io.env[serverVariable] ?? '';
    const value = named ?? variable;
    if (value === thisMachine) return null;
    // Before the code that uses servers is loaded, which a command on this machine does not need.
    if (value === '' && (ignoresCurrent || !mayHaveCurrentContext(contextsFile(home, io.uid)))) return null;
    const load = await import('./server-client.ts');
    return load.chooseServer(
      io,
      home,
      value === '' ? null : { value, by: named === undefined ? serverVariable : '--server' },
    );
  }

  return {
    server: () => (chosen ??= chooseServer(choice)),

    useServer(one) {
      if (chosen !== undefined) throw new Error('the server was chosen before it was named');
      choice = one;
    },

    contexts: async () => (await import('./contexts.ts')).openContexts(services().io, services().home),

    client: () => (client ??= services().clientAs(services().io.env[userEnvVariable] ?? null)),

    async clientAs(user) {
      const { io } = services();
      const { onWait = () => undefined } = choice;
      const server = await services().server();
      if (server !== null) {
        const { openServerClient } = await import('./server-client.ts');
        const { beforeChange = () => undefined } = choice;
        return openServerClient(io, server, user, { beforeChange: () => beforeChange(server), onWait });
      }
      clients ??= import('./client.ts').then(({ createLocalClients }) => createLocalClients(services(), onWait));
      return (await clients)(user);
    },
  };
}

function localServices(services: () => LabServices): Pick<LabServices, 'checkWorkdir' | 'copyWorkdir' | 'namedSecret'> {
  const load = () => import('../remote/workdir/freeze.ts');
  const folder = async (from: string) => {
    const { io, home } = services();
    const { workdir } = await services().settings();
    return { from, excluded: home, env: io.env, maxBytes: workdir.maxMiB * 1024 * 1024 };
  };
  return {
    async namedSecret(secret, given) {
      const [{ createSecretReader }, { secretSources }] = await Promise.all([
        import('../files/secret-store.ts'),
        import('./secrets.ts'),
      ]);
      const { io, home } = services();
      const owner = given ?? (await (await services().client()).whoAmI()).user;
      const settings = await services().settings();
      const reader = createSecretReader(home, secretSources({ io, home, settings }));
      return reader.read({ id: '', owner }, { kind: 'named', secret });
    },
    checkWorkdir: async (from) => (await load()).checkWorkdir(await folder(from)),
    async copyWorkdir(from) {
      const { io } = services();
      const indexes = join(io.env['XDG_CACHE_HOME'] || join(io.userHome, '.cache'), 'jobman', 'workdirs');
      const { freeze } = await load();
      return freeze({ ...(await folder(from)), client: await services().client(), indexes, at: io.now() });
    },
  };
}
