// Services: the one place that knows everybody. It builds and decides nothing. Each part is loaded when it is asked for,
// so that a read pays for the record and nothing else.

import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Client } from '../app/client.ts';
import type { ClusterSettingsRead } from '../app/cluster/settings.ts';
import type { Io } from '../app/services.ts';
import type { Settings, SettingsFiles } from '../app/settings.ts';
import type { Lab, LabServices } from '../lab/lab.ts';
import { clusterMark, homeOf, recordFile, templateFile } from './paths.ts';

/** All that the terminal may ask of the rest of the program. */
export function createServices(io: Io): LabServices {
  const home = homeOf(io);
  let settings: Promise<Settings> | undefined;
  let clusterSettings: Promise<ClusterSettingsRead> | undefined;
  let named: string | undefined;
  let files: SettingsFiles | undefined;
  let client: Promise<Client> | undefined;
  let lab: Promise<Lab> | undefined;

  async function freshSettings(): Promise<Settings> {
    const { loadSettings } = await import('../app/settings.ts');
    return loadSettings({ ...services.settingsFiles(), env: io.env, cores: availableParallelism() });
  }

  const services: LabServices = {
    io,
    home,

    settings: () => (settings ??= freshSettings()),

    settingsFiles: () => (files ??= { home, named, template: templateFile(io.launcher.at(-1) ?? '') }),

    useSettings(path) {
      if (files !== undefined) throw new Error('the settings were read before their file was named');
      named = path;
    },

    clusterSettings: () =>
      (clusterSettings ??= import('./cluster.ts').then(({ loadClusterSettings }) =>
        loadClusterSettings({ ...services.settingsFiles(), userHome: io.userHome }),
      )),

    async installation() {
      const file = recordFile(home);
      if (!existsSync(file)) return null;
      const { lookAtRecord } = await import('../store/store.ts');
      return lookAtRecord(file, (store) => store.installation());
    },

    cluster: (options) => import('./cluster.ts').then(({ openCluster }) => openCluster(services, options)),

    hasSubmitted: () => existsSync(clusterMark(home)),
    usesCluster: () => import('./cluster-keeper.ts').then(({ usesCluster }) => usesCluster(services)),

    images: () => import('./harbor.ts').then(({ openImages }) => openImages(services)),

    newerVersion: () => import('./version-check.ts').then(({ newerVersion }) => newerVersion(services)),

    lookForVersion: () => import('./version-check.ts').then(({ lookForVersion }) => lookForVersion(services)),

    keeper: () => import('./cluster-keeper.ts').then(({ createClusterKeeper }) => createClusterKeeper(services)),

    client: () => (client ??= import('./client.ts').then(({ createLocalClient }) => createLocalClient(services))),

    lab: () => (lab ??= import('./lab.ts').then(({ openLab }) => openLab(services))),

    labHome: () => import('./lab-home.ts').then(({ createLabHome }) => createLabHome(home)),

    async controller() {
      const { createControllerService } = await import('./controller-service.ts');
      const { settingsFile } = await import('../app/files.ts');
      const { named, template } = services.settingsFiles();
      return createControllerService({
        io,
        home,
        settings: () => services.settings(),
        freshSettings,
        settingsFiles: () => [settingsFile(home), ...[template, named].flatMap((path) => path ?? [])],
      });
    },

    emulator: () =>
      import('./emulator-service.ts').then(({ createEmulatorService }) => createEmulatorService({ io, home })),

    async checkLogin(spec, undone) {
      if (spec.capacity.kind !== 'tpu') return;
      const { checkLogin } = await import('./google-api.ts');
      await checkLogin({ io, settings: await services.settings() }, spec.capacity.project, undone);
    },

    forgetProject: (project, mayForget) =>
      import('./tpus.ts').then(({ forgetProject }) => forgetProject(services, project, mayForget)),

    tpus: (query) => import('./tpus.ts').then(({ lookAtClouds }) => lookAtClouds(services, query)),

    buckets: (project, coming) =>
      import('./google-api.ts').then(({ createBucketPort }) => createBucketPort(services, project, coming)),

    checkWorkdir: (from) =>
      import('../remote/workdir/freeze.ts').then(({ checkWorkdir }) =>
        checkWorkdir({ from, apart: home, env: io.env }),
      ),

    strays: () => import('./tpus.ts').then(({ openStrayKeeper }) => openStrayKeeper(services)),

    workers: (id, way) => import('./by-hand.ts').then(({ openWorkers }) => openWorkers(services, id, way)),

    stepRunner: (job) => import('./by-hand.ts').then(({ createStepRunner }) => createStepRunner(services, job)),

    sshArgv: (id, worker, command) =>
      import('./by-hand.ts').then(({ sshArgv }) => sshArgv(services, id, worker, command)),

    onTerminal: (argv) => import('./processes.ts').then(({ onTerminal }) => onTerminal(argv)),
  };
  return services;
}
