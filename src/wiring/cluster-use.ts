// Whether a cluster is in use here: what `list` and references decide by before anything of Kubernetes is loaded.

import { existsSync, readFileSync } from 'node:fs';
import { JobmanError } from '../app/errors.ts';
import { settingsFile } from '../app/settings-file.ts';
import type { Services } from '../app/services.ts';
import { clusterMark } from './paths.ts';

/**
 * See `Services.usesCluster`. Where settings that may speak of a cluster are wrong, it counts as in use: whoever asks it is told
 * what is wrong, and whoever does not need it is not kept from the rest. Throws JobmanError when the file that was named on the
 * command line is wrong or not there.
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

/** Whether that file has a section about clusters, as far as its text tells: to parse it takes longer than the list. */
function mayName(path: string): boolean {
  try {
    return /"(?:job|kubeConfig|kubernetes)"/.test(readFileSync(path, 'utf8'));
  } catch {
    return false;
  }
}
