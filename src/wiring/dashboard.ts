// The dashboard of one user, without a server for a group: the HTTP API and the pages on a loopback address, for one session.

import { randomBytes, timingSafeEqual } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { JobmanError, exitCode, messageOf } from '../app/errors.ts';
import { createMeter } from '../app/meter.ts';
import type { DashboardService, Io, Services } from '../app/services.ts';
import { defaultLimits } from '../server/limits.ts';
import { listen } from '../server/serve.ts';
import { createLogger } from './controller-process.ts';
import { createPageFiles } from './pages.ts';
import { dashboardFolder } from './paths.ts';
import { apiParts, createClients } from './server.ts';

interface DashboardOptions {
  readonly io: Io;
  readonly home: string;
  /** 0: a free port. */
  readonly port: number;
  readonly services: Pick<Services, 'client'>;
  readonly openServices: () => Services;
}

/** The session ends with this process. Throws JobmanError if the port is not free or the dashboard is not built. */
export async function openDashboard({ io, home, port, services, openServices }: DashboardOptions) {
  const log = createLogger(io);
  const clients = createClients(openServices, home, (line) => log.warn(line));
  const pages = createPageFiles(dashboardFolder(io.launcher.at(-1) ?? ''));
  await pages();
  const client = await services.client();
  const token = randomText();
  const codes = new Set<string>();
  const folders: string[] = [];
  try {
    const server = await listen(
      { host: '127.0.0.1', port },
      {
        ...apiParts({ io, clients, meter: createMeter(), log }),
        limits: { ...defaultLimits, requestsPerSecond: 0 },
        authenticate: async (given) => (isSame(given, token) ? client.whoAmI() : null),
        login: { logins: async () => null, url: async () => null, onlyByAddress: true },
        pages: {
          files: pages,
          prefix: async () => '',
          redeemCode: (given) => (codes.delete(given) ? token : null),
        },
      },
    );
    const newAddress = (): string => {
      const code = randomText();
      codes.add(code);
      return `${server.url}/open?code=${code}`;
    };
    return {
      url: server.url,
      newAddress,
      async writeOpeningPage() {
        // Only this user can open the folder.
        const folder = await mkdtemp(join(tmpdir(), 'jobman-dashboard-'));
        folders.push(folder);
        const page = join(folder, 'open.html');
        await writeFile(page, `<meta http-equiv="refresh" content="0; url=${newAddress()}">\n`, { mode: 0o600 });
        return page;
      },
      async close() {
        for (const folder of folders) await rm(folder, { recursive: true, force: true });
        await server.close();
        await clients.close();
      },
    } satisfies DashboardService;
  } catch (error) {
    await clients.close();
    throw new JobmanError(`The dashboard cannot listen at 127.0.0.1:${port}: ${messageOf(error)}.`, exitCode.failed, [
      'To use a free port: jobman dashboard',
    ]);
  }
}

function randomText(): string {
  return randomBytes(32).toString('base64url');
}

function isSame(one: string, other: string): boolean {
  const [known, given] = [Buffer.from(one), Buffer.from(other)];
  return known.length === given.length && timingSafeEqual(known, given);
}
