// Services: the one place that knows everybody. It builds and decides nothing. Each part is loaded when it is asked for,
// so that a read pays for the record and nothing else.

import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Client } from '../app/client.ts';
import type { Io } from '../app/services.ts';
import type { ClusterSettingsRead } from '../app/cluster/settings.ts';
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
      const { lookAtRecord } = await import('./record-look.ts');
      return lookAtRecord(file, (store) => store.installation());
    },

    async cluster(options) {
      const { openCluster } = await import('./cluster.ts');
      return openCluster(services, options);
    },

    hasSubmitted: () => existsSync(clusterMark(home)),
    async usesCluster() {
      const { usesCluster } = await import('./cluster-use.ts');
      return usesCluster(services);
    },

    async images() {
      const { openImages } = await import('./harbor.ts');
      return openImages(services);
    },

    async newerVersion() {
      const { newerVersion } = await import('./version-check.ts');
      return newerVersion(services);
    },

    async lookForVersion() {
      const { lookForVersion } = await import('./version-check.ts');
      return lookForVersion(services);
    },

    async keeper() {
      const { createClusterKeeper } = await import('./cluster.ts');
      return createClusterKeeper(services);
    },

    client: () => (client ??= import('./client.ts').then(({ createLocalClient }) => createLocalClient(services))),

    lab: () => (lab ??= import('./lab.ts').then(({ openLab }) => openLab(services))),

    async labHome() {
      const { createLabHome } = await import('./lab-home.ts');
      return createLabHome(home);
    },

    async controller() {
      const { createControllerService } = await import('./controller-service.ts');
      const { settingsFile } = await import('../app/settings-file.ts');
      const { named, template } = services.settingsFiles();
      return createControllerService({
        io,
        home,
        settings: () => services.settings(),
        freshSettings,
        settingsFiles: () => [settingsFile(home), ...[template, named].flatMap((path) => path ?? [])],
      });
    },

    async emulator() {
      const { createEmulatorService } = await import('./emulator-service.ts');
      return createEmulatorService({ io, home });
    },

    async checkLogin(spec, undone) {
      if (spec.capacity.kind !== 'tpu') return;
      const { checkLogin } = await import('./tpu-api.ts');
      await checkLogin({ io, settings: await services.settings() }, spec.capacity.project, undone);
    },

    async forgetProject(project, mayForget) {
      const { forgetProject } = await import('./tpus.ts');
      return forgetProject(services, project, mayForget);
    },

    async tpus(query) {
      const { lookAtClouds } = await import('./tpus.ts');
      return lookAtClouds(services, query);
    },

    async buckets(project, coming) {
      const { createBucketPort } = await import('./buckets.ts');
      return createBucketPort(services, project, coming);
    },

    async checkWorkdir(from) {
      const { checkWorkdir } = await import('../remote/workdir/freeze.ts');
      return checkWorkdir({ from, apart: home, env: io.env });
    },

    async strays() {
      const { openStrayKeeper } = await import('./strays.ts');
      return openStrayKeeper(services);
    },

    async workers(id, way) {
      const { openWorkers } = await import('./by-hand.ts');
      return openWorkers(services, id, way);
    },

    async stepRunner(job) {
      const { createStepRunner } = await import('./setup.ts');
      return createStepRunner(services, job);
    },

    async sshArgv(id, worker, command) {
      const { sshArgv } = await import('./by-hand.ts');
      return sshArgv(services, id, worker, command);
    },

    async onTerminal(argv) {
      const { onTerminal } = await import('./on-terminal.ts');
      return onTerminal(argv);
    },
  };
  return services;
}
