// TPUs: additional time of `jobman tpus` over an idle Node, with a thousand nodes, half of them of queued resources. A
// local server answers from memory without a login, in pages of five hundred as Google does, so that only jobman's time
// counts.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { node, jobman, withHome } from './home.ts';
import { writeDatabase } from './sample-database.ts';
import type { Result } from './result.ts';
import { quantile, startTimes } from './start-times.ts';

const nodes = 1_000;
const pageLength = 500;
const rounds = 20;
const budgetMs = 150;

/** Alternates with an idle Node, so that other load affects both. */
export function measureTpus(): Promise<readonly Result[]> {
  return withHome(async (home) => {
    await writeDatabase(home.path, 1_000, 200);
    const server = spawn(node, [import.meta.filename, 'serve'], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      const [line] = (await once(server.stdout.setEncoding('utf8'), 'data')) as [string];
      writeFileSync(
        join(home.path, 'settings.json'),
        JSON.stringify({ tpu: { project: 'lab', endpoint: line.trim() } }),
      );
      const listed = (await home.run(['tpus', '--all', '--project', 'lab', '--json'])).trim().split('\n').length;
      if (listed !== nodes) throw new Error(`${listed} of ${nodes} were listed`);
      const times = startTimes(
        { bare: [node, '-e', '0'], tpus: [jobman, 'tpus', '--all', '--project', 'lab'] },
        rounds,
        home,
      );
      const [own, bare] = [quantile(times.tpus, 0.5), quantile(times.bare, 0.5)];
      return [
        {
          name: `\`tpus\` of ${nodes.toLocaleString('en')} nodes`,
          measured: `+${(own - bare).toFixed(0)} ms`,
          budget: `+${budgetMs} ms`,
          comparison:
            `bare Node ${bare.toFixed(0)} ms, ${(own / bare).toFixed(2)} times; tenth percentile ` +
            `+${(quantile(times.tpus, 0.1) - quantile(times.bare, 0.1)).toFixed(0)} ms`,
          isWithinBudget: own - bare <= budgetMs,
        },
      ];
    } finally {
      server.kill();
    }
  });
}

/** Runs in the other process. The lists are prepared, so that each page is only sent. */
function serve(): void {
  const parent = 'projects/lab/locations/us-central2-b';
  const queued = (index: number): string => `${parent}/queuedResources/train-${String(index).padStart(6, '0')}-1`;
  const node = (index: number): object => ({
    name: `${parent}/nodes/train-${String(index).padStart(6, '0')}-1`,
    acceleratorType: 'v4-32',
    state: 'READY',
    runtimeVersion: 'tpu-ubuntu2204-base',
    createTime: '2026-11-20T08:00:00.123456789Z',
    health: 'HEALTHY',
    networkConfig: { network: 'projects/1/global/networks/default', enableExternalIps: true },
    networkEndpoints: [0, 1, 2, 3].map((worker) => ({
      ipAddress: `10.128.${index % 256}.${worker}`,
      port: 8470,
      accessConfig: { externalIp: `192.0.2.${worker}` },
    })),
    labels: { 'jobman-installation': 'q7k2zz', 'jobman-job': '000001', 'jobman-allocation': '1' },
    metadata: { 'ssh-keys': `ada:ssh-ed25519 ${'A'.repeat(68)} ada` },
    schedulingConfig: { spot: true },
    apiVersion: 'V2_ALPHA1',
    ...(index % 2 === 0 ? { queuedResource: queued(index) } : {}),
  });
  const all = Array.from({ length: nodes }, (_, index) => index);
  const lists: Readonly<Record<string, readonly object[]>> = {
    nodes: all.map(node),
    queuedResources: all
      .filter((index) => index % 2 === 0)
      .map((index) => ({ name: queued(index), spot: {}, state: { state: 'ACTIVE' }, tpu: { nodeSpec: [{ parent }] } })),
  };
  const pages = new Map<string, string>();
  for (const [field, items] of Object.entries(lists)) {
    for (let from = 0; from < items.length; from += pageLength) {
      const next = from + pageLength < items.length ? { nextPageToken: String(from + pageLength) } : {};
      pages.set(
        `${field}/${from}`,
        JSON.stringify({ [field]: items.slice(from, from + pageLength), ...next }, null, 2),
      );
    }
  }
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
    const page = pages.get(`${pathname.slice(pathname.lastIndexOf('/') + 1)}/${searchParams.get('pageToken') ?? '0'}`);
    response.writeHead(page === undefined ? 404 : 200, { 'content-type': 'application/json' }).end(page);
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    if (typeof address === 'object' && address !== null) console.log(`http://127.0.0.1:${address.port}`);
  });
}

if (import.meta.main && process.argv[2] === 'serve') serve();
