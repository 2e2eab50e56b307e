// Storage: the buckets of a project, for the client.

import type { Services } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import type { StoragePort } from '../app/storage.ts';
import { createGoogleApiClient } from '../backends/tpu/api.ts';
import { createCredentials } from '../backends/tpu/credentials.ts';
import { readBucketMetrics } from '../google/monitoring.ts';
import { countObjects, listBuckets } from '../google/storage-list.ts';
import { findEmulator, isServedByEmulator } from './emulator-service.ts';
import { createGoogleLogin, createGoogleService, localCloud, serviceEndpoint, serviceServers } from './google-api.ts';

/** See `Clouds.storageOf`. */
export async function openStorage(
  { io, home }: Services,
  settings: Settings,
  project: string,
): Promise<StoragePort | undefined> {
  const now = () => io.now();
  const isEmulated = isServedByEmulator(settings, project);
  if (isEmulated && (await findEmulator(home)) === undefined) return undefined;
  const endpoint = () => serviceEndpoint({ home, settings }, 'storage', project);
  const credentials = createCredentials({ endpoint, login: createGoogleLogin({ io, settings, now }) });
  const storage = createGoogleApiClient({ endpoint, env: io.env, credentials });
  const monitoring = createGoogleService({ io, home, settings, now, name: 'monitoring' });
  // A server on this machine that replaces Google's may have buckets, but no metrics.
  const hasMetrics = localCloud(settings) === null || settings.google.endpoints.monitoring !== undefined;
  const address = await endpoint();
  return {
    gcloudEndpoint: address === serviceServers.storage ? null : `${address.replace(/\/$/, '')}/storage/v1/`,
    buckets: () => listBuckets(storage, project),
    metrics: isEmulated || !hasMetrics ? null : (at) => readBucketMetrics(monitoring(project), project, at),
    count: (folder, signal) => countObjects(storage, folder, signal),
  };
}
