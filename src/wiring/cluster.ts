// Cluster: the settings and the kubeconfig of a command, and the adapter over them. The settings' loader is exported from here too, since
// each lazily loaded module is another file to read.

import { writeFileSync } from 'node:fs';
import type { Cluster, ClusterOptions } from '../app/cluster/cluster.ts';
import { fileModeIn, makeFolder } from '../app/files.ts';
import type { Services } from '../app/services.ts';
import { createCluster } from '../backends/kubernetes/cluster.ts';
import { readKubeContext } from '../backends/kubernetes/kubeconfig.ts';
import { clusterMark } from './paths.ts';

export { loadClusterSettings } from '../app/cluster/settings.ts';

/** Reads the settings and the kubeconfig; asks nothing. Rejects with JobmanError when they name no cluster. */
export async function openCluster(services: Services, options: ClusterOptions): Promise<Cluster> {
  const { io, home } = services;
  const { settings } = await services.clusterSettings();
  const context = await readKubeContext(
    { setting: settings.kubeConfig, env: io.env, userHome: io.userHome, cwd: io.cwd },
    options,
  );
  let hasSaid = false;
  const isSilent = options.isSilent === true || !io.stderr.isTerminal;
  const cluster = createCluster({
    context,
    ...(isSilent
      ? {}
      : {
          onWait(what: string) {
            if (hasSaid) return;
            hasSaid = true;
            io.stderr.write(
              `Waiting for an answer of the cluster of ${context.name} (${context.cluster.server}) to: ${what}.\n`,
            );
          },
        }),
    flavorKey: settings.job.resources.label,
    env: io.env,
    now: () => io.now(),
  });
  return {
    ...cluster,
    async create(job, how) {
      const made = await cluster.create(job, how);
      // From now on `list` asks the cluster too.
      if (how?.dryRun !== true) mark(home);
      return made;
    },
  };
}

function mark(home: string): void {
  try {
    makeFolder(home);
    writeFileSync(clusterMark(home), '', { mode: fileModeIn(home) });
  } catch {
    // Then `list` asks the cluster where KUBECONFIG or the settings name one.
  }
}
