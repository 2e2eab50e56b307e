// Storage: the adapters of `jobman storage`, built from settings.

import { readCheckpoints } from '../app/checkpoints.ts';
import { countFiles } from '../files/count-files.ts';
import { readStorage, type StorageParts, type StoragePort, type StorageReader } from '../app/storage.ts';
import type { Services } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { createGoogleApiClient } from '../backends/tpu/api.ts';
import { createCredentials } from '../backends/tpu/credentials.ts';
import { readBucketMetrics } from '../google/monitoring.ts';
import { countObjects, listBuckets } from '../google/storage-list.ts';
import { openStore, withStore } from '../store/store.ts';
import { findEmulator, isServedByEmulator } from './emulator-service.ts';
import { createGoogleLogin, createGoogleService, localCloud, serviceEndpoint, serviceServers } from './google-api.ts';
import { databaseOf } from './paths.ts';

/** See `Services.storage`. */
export async function createStorageReader(services: Services): Promise<StorageReader> {
  const { io } = services;
  const settings = await services.settings();
  const portFor = createPorts(services, settings);
  const parts = {
    settings: { ...settings.tpu, grants: settings.grants },
    portFor,
    isSimulated: (project: string) => isServedByEmulator(settings, project),
    now: () => io.now(),
  } satisfies Omit<StorageParts, 'store'>;
  const open = () => openStore(databaseOf(services));
  const { project } = settings.tpu;
  return {
    read: (query, options) => withStore(open(), (store) => readStorage({ store, ...parts }, query, options)),
    checkpoints: (options) =>
      withStore(open(), (store) => readCheckpoints({ store, portFor, project, countFiles }, options)),
  };
}

/** All projects share one login. Sends no request yet. */
function createPorts({ io, home }: Services, settings: Settings): StorageParts['portFor'] {
  const now = () => io.now();
  const login = createGoogleLogin({ io, settings, now });
  const monitoring = createGoogleService({ io, home, settings, now, name: 'monitoring' });
  // A server on this machine that replaces Google's may have buckets, but no metrics.
  const hasMetrics = localCloud(settings) === null || settings.google.endpoints.monitoring !== undefined;
  return async (project): Promise<StoragePort | undefined> => {
    const isEmulated = isServedByEmulator(settings, project);
    if (isEmulated && (await findEmulator(home)) === undefined) return undefined;
    const endpoint = () => serviceEndpoint({ home, settings }, 'storage', project);
    const credentials = createCredentials({ endpoint, login });
    const storage = createGoogleApiClient({ endpoint, env: io.env, credentials });
    const address = await endpoint();
    return {
      gcloudEndpoint: address === serviceServers.storage ? null : `${address.replace(/\/$/, '')}/storage/v1/`,
      buckets: () => listBuckets(storage, project),
      metrics: isEmulated || !hasMetrics ? null : (at) => readBucketMetrics(monitoring(project), project, at),
      count: (folder, options) => countObjects(storage, folder, options),
    };
  };
}
