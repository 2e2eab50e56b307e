/** A server on this machine whose operations are those of the test, and its client. */
import type { TestContext } from 'node:test';
import { createMeter } from '../../../src/app/meter.ts';
import type { Client } from '../../../src/app/client.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import type { Actor } from '../../../src/core/model/user.ts';
import { createServerClient } from '../../../src/http-client/client.ts';
import type { AppParts } from '../../../src/server/app.ts';
import type { MetricsParts } from '../../../src/server/metrics.ts';
import { defaultLimits } from '../../../src/server/limits.ts';
import type { PageRoutes } from '../../../src/server/pages.ts';
import { listen, type Listening } from '../../../src/server/serve.ts';

export const token = 'token-of-ada';

const ada: Actor = { user: 'ada', role: 'member', via: 'token', logins: [] };

/** Of a server whose database has no jobs. */
export const emptyMetrics = (): MetricsParts => ({
  meter: createMeter(),
  store: async () => ({ lease: async () => undefined, list: async () => ({ jobs: [], more: 0 }) }),
  now: () => 0,
  version: '0',
  resourceUsage: () => ({ residentBytes: 1, heapBytes: 1, cpuSeconds: 0.5 }),
});

/** A dashboard of one page without scripts. */
export const emptyPages: PageRoutes = {
  files: async () => ({ html: '<!doctype html><title>jobman</title>', assets: new Map() }),
  prefix: async () => '',
  redeemCode: () => null,
};

/** `token-of-NAME` is the token of that user. */
export async function openServer(
  t: TestContext,
  {
    client = {},
    tls,
    ...own
  }: Omit<Partial<AppParts>, 'client'> & {
    readonly client?: Partial<Record<keyof Client, unknown>>;
    readonly tls?: { readonly cert: Buffer; readonly key: Buffer };
  },
): Promise<{ readonly server: Listening; readonly client: Client; readonly bugs: readonly string[] }> {
  const bugs: string[] = [];
  const server = await listen(
    { host: '127.0.0.1', port: 0, tls: tls && (() => tls) },
    {
      authenticate: async (text) => (text.startsWith('token-of-') ? { ...ada, user: text.slice(9) } : null),
      clientOf: () => client as Client,
      connectWorker: () => Promise.reject(new JobmanError('This server has no workers.', exitCode.unreachable)),
      labOf: () => Promise.reject(new Error('this test has no lab')),
      clustersOf: () => Promise.reject(new Error('this test has no cluster')),
      ready: () => Promise.resolve(),
      metrics: emptyMetrics(),
      limits: { ...defaultLimits, requestsPerSecond: 0 },
      login: { logins: async () => null, url: async () => null },
      pages: emptyPages,
      reportBug: (line) => void bugs.push(line),
      reportOutage: () => undefined,
      ...own,
    },
  );
  const opened = createServerClient({ server: server.url, token, env: {} });
  t.after(async () => {
    await opened.close();
    await server.close();
  });
  return { server, client: opened, bugs };
}
