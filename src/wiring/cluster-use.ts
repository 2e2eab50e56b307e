// Whether a cluster is in use here: what `list` and references decide by before anything of Kubernetes is loaded.

import { existsSync } from 'node:fs';
import { settingsFile } from '../app/settings-file.ts';
import type { Services } from '../app/services.ts';
import { clusterMark } from './paths.ts';

/** See `Services.usesCluster`. Throws JobmanError when a file of settings is wrong. */
export async function usesCluster(services: Services): Promise<boolean> {
  const { io, home } = services;
  const { named } = services.settingsFiles();
  const hasSettings = named !== undefined || existsSync(settingsFile(home));
  const isSaid = (io.env['KUBECONFIG'] ?? '') !== '' || existsSync(clusterMark(home));
  if (!hasSettings && !isSaid) return false;
  const { settings, sources } = await services.clusterSettings();
  const isSet = [...sources].some(
    ([key, source]) => source !== 'template' && /^(job|kubeConfig|kubernetes)\./.test(key),
  );
  if (!isSaid && !isSet) return false;
  const { namesCluster } = await import('../backends/kubernetes/kubeconfig.ts');
  return namesCluster({ setting: settings.kubeConfig, env: io.env, userHome: io.userHome, cwd: io.cwd });
}
