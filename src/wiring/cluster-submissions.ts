// The submissions of the terminal in the archive of cluster jobs, and the controller that completes it.

import { existsSync, readFileSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { ClusterSubmissions } from '../app/cluster/commands.ts';
import { JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { settingsFile } from '../files/files.ts';
import type { JobmanStore } from '../store/store.ts';
import { submittedMarker, databaseOf, hasDatabase } from './paths.ts';

/** Opens nothing before first use. */
export function createClusterSubmissions(services: Services): ClusterSubmissions {
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

  async function open(options: { readonly skipFsync?: boolean } = {}) {
    const { openStore } = await import('../store/store.ts');
    return openStore({ ...database, ...options });
  }
  async function wake(): Promise<string | null> {
    const { withStore } = await import('../store/store.ts');
    await withStore(await open(), (store) => store.notify({ topic: 'clusters' }));
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
  };

  function absolute(paths: string): string {
    const all = paths.split(delimiter).filter((path) => path !== '');
    return all.map((path) => resolve(io.cwd, path)).join(delimiter);
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
