/** A real server for the built pages, whose client and lab answer from memory. */
import { join } from 'node:path';
import type { Client } from '../../src/app/client.ts';
import type { ClusterClient } from '../../src/app/cluster/cluster-client.ts';
import { createMeter } from '../../src/app/meter.ts';
import type { Actor } from '../../src/core/model/user.ts';
import type { LabClient } from '../../src/lab/lab-client.ts';
import { defaultLimits } from '../../src/server/limits.ts';
import { listen } from '../../src/server/serve.ts';
import { createPageFiles } from '../../src/wiring/pages.ts';
import { root } from './root.ts';

export interface PageServer {
  /** Logs a browser in. */
  readonly address: string;
  close(): Promise<void>;
}

interface PageServerParts {
  readonly actor: Actor;
  /** Any other method fails. */
  readonly client: Partial<Client>;
  readonly lab?: Partial<LabClient>;
}

export async function openPageServer({ actor, client, lab }: PageServerParts): Promise<PageServer> {
  const code = 'sample';
  const server = await listen(
    { host: '127.0.0.1', port: 0 },
    {
      authenticate: async () => actor,
      clientOf: () => client as Client,
      connectWorker: () => Promise.reject(new Error('no workers')),
      labOf: () => (lab === undefined ? Promise.reject(new Error('no lab')) : (lab as LabClient)),
      clustersOf: () => ({
        client: {
          site: async () => ({ isConfigured: false, hasSubmitted: false }),
        } as Partial<ClusterClient> as ClusterClient,
        openPod: () => Promise.reject(new Error('no pods')),
      }),
      ready: () => Promise.resolve(),
      metrics: {
        meter: createMeter(),
        store: async () => ({ lease: async () => undefined, list: async () => ({ jobs: [], more: 0 }) }),
        now: () => Date.now(),
        version: '0',
        resourceUsage: () => ({ residentBytes: 1, heapBytes: 1, cpuSeconds: 0 }),
      },
      limits: { ...defaultLimits, requestsPerSecond: 0 },
      login: { logins: async () => null, url: async () => null },
      pages: {
        files: createPageFiles(join(root, 'dist/dashboard')),
        prefix: async () => '',
        redeemCode: (given) => (given === code ? 'sample' : null),
      },
      reportBug: (line) => console.error(line),
      reportOutage: () => undefined,
    },
  );
  return { address: `${server.url}/open?code=${code}`, close: () => server.close() };
}
