/** The parts of a client over a store and a home, without clouds and machines, which a test brings itself. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { apiRoutes } from '../../src/api/routes.ts';
import { defaultSettings } from '../../src/app/settings.ts';
import type { ClientParts } from '../../src/app/store-client.ts';
import { createArchivedLogs } from '../../src/files/archived-logs.ts';
import { createBlobs } from '../../src/files/blobs.ts';
import { createJobFiles } from '../../src/files/job-files.ts';
import { createJobFolders } from '../../src/files/job-folders.ts';
import { localFolders } from '../../src/files/local-folders.ts';
import { createLogFiles } from '../../src/files/log-files.ts';
import { createSecretStore } from '../../src/files/secret-store.ts';
import type { JobmanStore } from '../../src/store/store.ts';

const smtp = { host: '127.0.0.1', port: 25, security: 'none', from: 'jobman@example.com' } as const;

type Own = Partial<ClientParts> & Pick<ClientParts, 'now'>;

export function clientParts(home: string, store: JobmanStore, own: Own): ClientParts {
  const unavailable = (what: string) => () => Promise.reject(new Error(`this test has no ${what}`));
  return {
    store,
    access: store.access,
    notifications: store.notifications,
    channels: async () => ({
      settings: { ...defaultSettings(1).notify, smtp },
      send: unavailable('channels'),
      secretProblems: async () => new Map(),
      openSecrets: async () => [],
    }),
    isChange: async (operation) => apiRoutes.some(([name, { changes }]) => name === operation && changes),
    clusters: store.clusters,
    archivedLogs: async () => createArchivedLogs(home),
    files: createJobFiles(home),
    folders: localFolders,
    blobs: async () => createBlobs(home),
    secrets: async (rows = store.secrets) => createSecretStore(home, { rows, keys: () => null }),
    logFiles: createLogFiles({ home, history: (id, after) => store.events(id, after) }),
    pricePerHour: () => null,
    jobFolders: async () => createJobFolders(home),
    grants: () => Promise.resolve([]),
    isControllerRunning: () => Promise.resolve(true),
    pools: () => Promise.resolve([{ name: 'localhost', ssh: null, slots: 2, gpus: null }]),
    ownPrices: () => Promise.resolve([]),
    settings: async () => [{ key: 'tpu.project', value: 'lab', source: 'settings.json' }],
    defaultProject: async () => null,
    clouds: unavailable('clouds'),
    registry: unavailable('registry'),
    workerRoutes: unavailable('workers'),
    workerMeter: unavailable('workers'),
    openStepRunner: unavailable('workers'),
    controllerLogin: async () => null,
    wakeController: () => Promise.resolve(null),
    installationId: async () => (existsSync(join(home, 'state.db')) ? store.installationId() : null),
    ...own,
  };
}
