// Cluster: the adapter over the settings and the kubeconfig. Also exports the settings' loader, because each lazily
// loaded module is another file to read.

import { writeFileSync } from 'node:fs';
import type { Cluster, ClusterOptions } from '../app/cluster/cluster.ts';
import { JobmanError, reworded } from '../app/errors.ts';
import { fileModeIn, makeFolder } from '../files/files.ts';
import type { Services } from '../app/services.ts';
import { createCluster } from '../backends/kubernetes/cluster.ts';
import { readKubeContext } from '../backends/kubernetes/kubeconfig.ts';
import { submittedMarker } from './paths.ts';

export { loadClusterSettings } from '../app/cluster/settings.ts';

/** Clusters that stay open, by the contents of their kubeconfig; the most recently used one is the last. */
export type SharedClusters = Map<string, Cluster>;

const maxShared = 100;

/**
 * Shares clusters, because otherwise each request of a server would log in again. A changed kubeconfig takes effect at once.
 * Rejects as `openCluster`.
 */
export async function openSharedCluster(
  services: Services,
  options: ClusterOptions,
  shared: SharedClusters,
): Promise<Cluster> {
  const { settings } = await services.clusterSettings();
  const found = await readContext(services, options).catch(throwForUsers);
  const key = JSON.stringify([settings.job.resources.label, found]);
  const cluster = shared.get(key) ?? (await openCluster(services, { ...options, quiet: true }));
  shared.delete(key);
  shared.set(key, cluster);
  // The number is limited, because the names of namespaces come from requests. A request may still use a cluster that is removed
  // here. The connections of that cluster end when they are idle.
  for (const oldest of shared.keys()) if (shared.size > maxShared) shared.delete(oldest);
  return { ...cluster, close: () => Promise.resolve() };
}

/** Its next steps are for the server's admin. */
function throwForUsers(error: unknown): never {
  if (!(error instanceof JobmanError)) throw error;
  throw reworded(error, {
    message: `On the server: ${error.message}`,
    lines: ['Ask an admin of the server to correct its kubeconfig. To use your own kubeconfig: --server local'],
  });
}

async function readContext(services: Services, options: ClusterOptions) {
  const { io } = services;
  const { settings } = await services.clusterSettings();
  return readKubeContext({ setting: settings.kubeConfig, env: io.env, userHome: io.userHome, cwd: io.cwd }, options);
}

/** Sends no request. Rejects with JobmanError when no cluster is named. */
export async function openCluster(services: Services, options: ClusterOptions): Promise<Cluster> {
  const { io, home } = services;
  const { settings } = await services.clusterSettings();
  const context = await readContext(services, options);
  let hasReported = false;
  const isSilent = options.quiet === true || !io.stderr.isTerminal;
  const cluster = createCluster({
    context,
    ...(isSilent
      ? {}
      : {
          onWait(what: string) {
            if (hasReported) return;
            hasReported = true;
            io.stderr.write(`Waiting for the cluster of ${context.name} (${context.cluster.server}): ${what}.\n`);
          },
        }),
    flavorKey: settings.job.resources.label,
    env: io.env,
    now: () => io.now(),
  });
  return {
    ...cluster,
    async create(job, createOptions) {
      const made = await cluster.create(job, createOptions);
      // From now on `list` asks the cluster too.
      if (createOptions?.dryRun !== true) recordSubmission(home);
      return made;
    },
  };
}

function recordSubmission(home: string): void {
  try {
    makeFolder(home);
    writeFileSync(submittedMarker(home), '', { mode: fileModeIn(home) });
  } catch {
    // Then `list` asks the cluster only if KUBECONFIG or the settings name one.
  }
}
