// The record of clusters' jobs for the terminal: the record, the copies of logs, and the controller that makes them.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { ClusterKeeper } from '../app/cluster/client.ts';
import type { KeptJob } from '../app/cluster/kept.ts';
import { JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { settingsFile } from '../app/files.ts';
import type { RecordStore } from '../store/store.ts';
import { clusterMark, recordFile } from './paths.ts';

/** Opens nothing before it is asked. */
export function createClusterKeeper(services: Services): ClusterKeeper {
  const { io, home } = services;
  const file = recordFile(home);
  const isUsed = existsSync(clusterMark(home)) && existsSync(file);

  /** Open between `begin` and what follows it, because opening takes longer than writing. The cluster has what is submitted. */
  let begun: RecordStore | undefined;
  async function close(): Promise<void> {
    const store = begun;
    begun = undefined;
    await store?.close();
  }

  async function writing<T>(act: (store: RecordStore) => Promise<T>): Promise<T> {
    const store = await open();
    try {
      return await act(store);
    } finally {
      await store.close();
    }
  }
  async function open(how: { readonly isCopy?: boolean } = {}) {
    const { openStore } = await import('../store/store.ts');
    return openStore({ file, ...how });
  }
  async function reading<T>(look: (store: RecordStore) => Promise<T>, otherwise: T) {
    if (!existsSync(file)) return otherwise;
    const { lookAtRecord } = await import('../store/store.ts');
    return lookAtRecord(file, look);
  }

  async function wake(): Promise<string | null> {
    const { dropClustersWake } = await import('../controller/wake-folder.ts');
    // Without the hint the controller looks a little later.
    await dropClustersWake(home).catch(() => undefined);
    const { started, pid } = await (await services.controller()).start();
    return started ? `Started the controller (process ${pid}), which keeps the logs and history of your jobs.` : null;
  }

  return {
    isUsed,
    async begin({ server, context, namespace }) {
      const { settings } = await services.clusterSettings();
      const named = io.env['KUBECONFIG'] ?? '';
      const store = (begun ??= await open({ isCopy: true }));
      await store.clusters.wantPlace({
        server,
        context,
        namespace,
        setting: settings.kubeConfig,
        kubeconfig: named === '' ? null : absolute(named),
        flavorKey: settings.job.resources.label,
        wantedAt: io.now(),
      });
      return store.installation();
    },
    async prepare() {
      // After the request has been sent.
      await turn();
      // A failure is reported on use.
      await Promise.allSettled([import('../controller/wake-folder.ts'), services.controller()]);
    },
    async submitted({ server, context }, made) {
      const { settings } = await services.clusterSettings();
      const { readJob } = await import('../backends/kubernetes/objects.ts');
      const job = readJob(made as object, settings.job.resources.label);
      const store = (begun ??= await open({ isCopy: true }));
      try {
        await store.clusters.keepObject({ server, context, seenAt: io.now(), job }, JSON.stringify(made));
      } finally {
        await close();
      }
      return wake();
    },
    close,
    wake,
    jobs: (query) => (isUsed ? reading((store) => store.clusters.jobs(query), []) : Promise.resolve([])),
    job: (uid) => reading<KeptJob | undefined>((store) => store.clusters.job(uid), undefined),
    moments: (uid) => reading((store) => store.clusters.moments(uid), []),
    async logs({ job, pods, logs }) {
      const { keptFile, keptFolder } = await import('../app/cluster/kept-logs.ts');
      const folder = keptFolder(home, job);
      const known = new Map(logs.map((log) => [keptFile(folder, log.pod, log.container), log]));
      for (const pod of pods) {
        for (const { name } of pod.containers) {
          const path = keptFile(folder, pod.name, name);
          if (!known.has(path)) known.set(path, { pod: pod.name, container: name, state: 'open' });
        }
      }
      for (const name of namesIn(folder)) {
        const [pod = '', container = ''] = name.replace(/\.log$/, '').split('_');
        const path = join(folder, name);
        if (!known.has(path)) known.set(path, { pod, container, state: 'open' });
      }
      return [...known].flatMap(([path, log]) => (existsSync(path) ? [{ ...log, path }] : []));
    },
    async deleted(uid) {
      if (!isUsed) return;
      const { deletedMoment } = await import('../app/cluster/kept.ts');
      await writing((store) => store.clusters.keepMoment(uid, deletedMoment(io.now(), io.user)));
    },
    async hide(uid) {
      if (isUsed) await writing((store) => store.clusters.hide(uid));
    },
    async drop({ job }) {
      const { dropKept } = await import('../app/cluster/kept-logs.ts');
      await dropKept(home, job);
      await writing((store) => store.clusters.drop(job.uid));
    },
  };

  function absolute(paths: string): string {
    const all = paths.split(delimiter).filter((path) => path !== '');
    return all.map((path) => resolve(io.cwd, path)).join(delimiter);
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.log'));
  } catch {
    return [];
  }
}

/**
 * See `Services.usesCluster`; decided before anything of Kubernetes is loaded. With wrong settings a cluster counts as in use: a command
 * that needs it reports what is wrong. Throws JobmanError when the settings file named on the command line is wrong or missing.
 */
export async function usesCluster(services: Services): Promise<boolean> {
  const { io, home } = services;
  const { named } = services.settingsFiles();
  const isSaid = (io.env['KUBECONFIG'] ?? '') !== '' || existsSync(clusterMark(home));
  if (!isSaid && named === undefined && !mayName(settingsFile(home))) return false;
  try {
    const { settings, sources } = await services.clusterSettings();
    const isSet = [...sources].some(
      ([key, source]) => source !== 'template' && /^(job|kubeConfig|kubernetes)\./.test(key),
    );
    // A user who names a kubeconfig, or has submitted from here, is told when it is not there.
    if (isSaid || settings.kubeConfig.type !== 'default') return true;
    if (!isSet) return false;
    const { namesCluster } = await import('../backends/kubernetes/kubeconfig.ts');
    return namesCluster({ setting: settings.kubeConfig, env: io.env, userHome: io.userHome, cwd: io.cwd });
  } catch (error) {
    if (!(error instanceof JobmanError) || named !== undefined) throw error;
    return true;
  }
}

/** Whether that file's text has a section about clusters: parsing it takes longer than the list. */
function mayName(path: string): boolean {
  try {
    return /"(?:job|kubeConfig|kubernetes)"/.test(readFileSync(path, 'utf8'));
  } catch {
    return false;
  }
}
