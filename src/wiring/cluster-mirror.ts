// The mirror of cluster jobs, for the controller's process. Nothing of Kubernetes is loaded before there is a place to look after.

import { keptFile, keptFolder, openKept } from '../app/cluster/kept-logs.ts';
import type { KeptPlace } from '../app/cluster/kept.ts';
import type { Cluster } from '../app/cluster/cluster.ts';
import type { Clock } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import { createClusterMirror, type ClusterMirror } from '../controller/cluster-mirror.ts';
import type { RecordStore } from '../store/store.ts';
import { templateFile } from './paths.ts';

export interface MirrorParts {
  readonly io: Io;
  readonly home: string;
  readonly store: RecordStore;
  readonly clock: Clock;
  readonly say: (line: string) => void;
}

/** Begins with its first look. */
export function openClusterMirror({ io, home, store, clock, say }: MirrorParts): ClusterMirror {
  const record = store.clusters;
  let keeps: Promise<boolean> | undefined;

  return createClusterMirror({
    record: {
      ...record,
      async places() {
        const places = await record.places();
        if (places.length === 0) return places;
        keeps ??= keepsLogs();
        return (await keeps) ? places : [];
      },
    },
    installation: () => store.installation(),
    open,
    copyOf: (job, pod, container) => openKept(keptFile(keptFolder(home, job), pod, container)),
    clock,
    say,
  });

  /** Settings that are wrong are the matter of the commands: what was wanted when it was submitted goes on. */
  async function keepsLogs(): Promise<boolean> {
    const { loadClusterSettings } = await import('../app/cluster/settings.ts');
    try {
      const template = templateFile(io.launcher.at(-1) ?? '');
      return (await loadClusterSettings({ home, template, userHome: io.userHome })).settings.kubernetes.keepLogs;
    } catch (error) {
      say(`settings of clusters cannot be read: ${error instanceof Error ? error.message : String(error)}`);
      return true;
    }
  }

  async function open({ setting, kubeconfig, context, namespace, flavorKey }: KeptPlace): Promise<Cluster> {
    const [{ readKubeContext }, { createCluster }] = await Promise.all([
      import('../backends/kubernetes/kubeconfig.ts'),
      import('../backends/kubernetes/cluster.ts'),
    ]);
    const env = { ...io.env, KUBECONFIG: kubeconfig ?? undefined };
    const way = { setting, env, userHome: io.userHome, cwd: io.cwd };
    const found = await readKubeContext(way, setting.type === 'cluster' ? { namespace } : { context, namespace });
    return createCluster({ context: found, flavorKey, env, now: () => io.now() });
  }
}
