// The archive of cluster jobs for the terminal: the store, the copies of logs, and the controller that makes them.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { ClusterArchive } from '../app/cluster/commands.ts';
import type { ArchivedJob } from '../app/cluster/archive.ts';
import { JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { settingsFile } from '../files/files.ts';
import type { JobmanStore } from '../store/store.ts';
import { submittedMarker, databaseOf, hasDatabase } from './paths.ts';

/** Opens nothing before first use. */
export function createClusterArchive(services: Services): ClusterArchive {
  const { io, home } = services;
  const database = databaseOf(services);
  const isUsed = existsSync(submittedMarker(home)) && hasDatabase(database);

  /** Stays open, because opening takes longer than writing. No fsync, because the cluster has the job too. */
  let openedStore: JobmanStore | undefined;
  async function close(): Promise<void> {
    const store = openedStore;
    openedStore = undefined;
    await store?.close();
  }

  async function writing<T>(act: (store: JobmanStore) => Promise<T>): Promise<T> {
    const { withStore } = await import('../store/store.ts');
    return withStore(await open(), act);
  }
  async function open(options: { readonly skipFsync?: boolean } = {}) {
    const { openStore } = await import('../store/store.ts');
    return openStore({ ...database, ...options });
  }
  async function reading<T>(read: (store: JobmanStore) => Promise<T>, fallback: T) {
    if (!hasDatabase(database)) return fallback;
    const { withReadOnlyStore } = await import('../store/store.ts');
    return withReadOnlyStore(database, read);
  }

  async function wake(): Promise<string | null> {
    await writing((store) => store.notify({ topic: 'clusters' }));
    const { started, pid } = await (await services.controller()).start();
    return started ? `Started the controller (process ${pid}). It archives the logs and history of your jobs.` : null;
  }

  return {
    isUsed,
    async registerContext({ server, context, namespace }) {
      const { settings } = await services.clusterSettings();
      const kubeconfig = io.env['KUBECONFIG'] ?? '';
      const store = (openedStore ??= await open({ skipFsync: true }));
      await store.clusters.watchContext({
        server,
        context,
        namespace,
        setting: settings.kubeConfig,
        kubeconfig: kubeconfig === '' ? null : absolute(kubeconfig),
        flavorAnnotation: settings.job.resources.label,
        requestedAt: io.now(),
      });
      return store.installationId();
    },
    async preload() {
      await turn();
      // A failure is reported on use.
      await Promise.allSettled([import('../store/wake-folder.ts'), services.controller()]);
    },
    async recordSubmitted({ server, context }, made) {
      const { settings } = await services.clusterSettings();
      const { readJob } = await import('../backends/kubernetes/objects.ts');
      const job = readJob(made as object, settings.job.resources.label);
      const store = (openedStore ??= await open({ skipFsync: true }));
      try {
        await store.clusters.archiveObject({ server, context, observedAt: io.now(), job }, JSON.stringify(made));
      } finally {
        await close();
      }
      return wake();
    },
    close,
    wake,
    jobs: (query) => (isUsed ? reading((store) => store.clusters.jobs(query), []) : Promise.resolve([])),
    job: (uid) => reading<ArchivedJob | undefined>((store) => store.clusters.job(uid), undefined),
    events: (uid) => reading((store) => store.clusters.events(uid), []),
    async logs({ job, pods, logs }) {
      const { archivedLogPath, archiveFolder } = await import('../files/archived-logs.ts');
      const folder = archiveFolder(home, job);
      const known = new Map(logs.map((log) => [archivedLogPath(folder, log.pod, log.container), log]));
      for (const pod of pods) {
        for (const { name } of pod.containers) {
          const path = archivedLogPath(folder, pod.name, name);
          if (!known.has(path)) known.set(path, { pod: pod.name, container: name, state: 'open' });
        }
      }
      for (const name of listLogFiles(folder)) {
        const [pod = '', container = ''] = name.replace(/\.log$/, '').split('_');
        const path = join(folder, name);
        if (!known.has(path)) known.set(path, { pod, container, state: 'open' });
      }
      return [...known].flatMap(([path, log]) => (existsSync(path) ? [log] : []));
    },
    async *readLog(job, { pod, container }, query) {
      const { archivedLogPath, archiveFolder, readArchivedLog } = await import('../files/archived-logs.ts');
      yield* readArchivedLog(archivedLogPath(archiveFolder(home, job), pod, container), query);
    },
    async lastLine(job, { pod, container }) {
      const { archivedLogPath, archiveFolder, lastArchivedLine } = await import('../files/archived-logs.ts');
      return lastArchivedLine(archivedLogPath(archiveFolder(home, job), pod, container));
    },
    async recordDeleted(uid) {
      if (!isUsed) return;
      const { deletedEvent } = await import('../app/cluster/archive.ts');
      const { user } = await (await services.client()).whoAmI();
      await writing((store) => store.clusters.archiveEvent(uid, deletedEvent(io.now(), user)));
    },
    async hide(uid) {
      if (isUsed) await writing((store) => store.clusters.hide(uid));
    },
    async remove({ job }) {
      const { removeArchivedLogs } = await import('../files/archived-logs.ts');
      await removeArchivedLogs(home, job);
      await writing((store) => store.clusters.remove(job.uid));
    },
  };

  function absolute(paths: string): string {
    const all = paths.split(delimiter).filter((path) => path !== '');
    return all.map((path) => resolve(io.cwd, path)).join(delimiter);
  }
}

function listLogFiles(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.log'));
  } catch {
    return [];
  }
}

/**
 * Decided before any Kubernetes code is loaded. With wrong settings a cluster counts as used, and the command that
 * needs it reports the mistake. Throws JobmanError for a wrong settings file on the command line.
 */
export async function usesCluster(services: Services): Promise<boolean> {
  const { io, home } = services;
  const { explicit } = services.settingsFiles();
  const isIndicated = (io.env['KUBECONFIG'] ?? '') !== '' || existsSync(submittedMarker(home));
  if (!isIndicated && explicit === undefined && !mentionsCluster(settingsFile(home))) return false;
  try {
    const { settings, sources } = await services.clusterSettings();
    const isSet = [...sources].some(
      ([key, source]) => source !== 'template' && /^(job|kubeConfig|kubernetes)\./.test(key),
    );
    // A user who names a kubeconfig, or has submitted from here, must see that it is missing.
    if (isIndicated || settings.kubeConfig.type !== 'default') return true;
    if (!isSet) return false;
    const { hasClusterConfig } = await import('../backends/kubernetes/kubeconfig.ts');
    return hasClusterConfig({ setting: settings.kubeConfig, env: io.env, userHome: io.userHome, cwd: io.cwd });
  } catch (error) {
    if (!(error instanceof JobmanError) || explicit !== undefined) throw error;
    return true;
  }
}

/** A search, because parsing takes longer than the list. */
function mentionsCluster(path: string): boolean {
  try {
    return /"(?:job|kubeConfig|kubernetes)"/.test(readFileSync(path, 'utf8'));
  } catch {
    return false;
  }
}
