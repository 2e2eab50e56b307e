// Quota: round trips of `jobman quota` over 64 zones with 8 quotas each and 320 TPUs, against a local server that waits
// before every reply. The same command against a server that does not wait is subtracted, so that only waiting counts.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { jobman, node, withHome } from './home.ts';
import type { Result } from './result.ts';
import { quantile, startTimes } from './start-times.ts';

const zoneCount = 64;
const tpusPerZone = 5;
const latencyMs = 300;
const rounds = 10;
const budget = 3;

export function measureQuota(): Promise<readonly Result[]> {
  return withHome(async (home) => {
    const servers = [0, latencyMs].map((latency) =>
      spawn(node, [import.meta.filename, 'serve', String(latency)], { stdio: ['ignore', 'pipe', 'inherit'] }),
    );
    try {
      const files: string[] = [];
      for (const [index, server] of servers.entries()) {
        const [line] = (await once(server.stdout.setEncoding('utf8'), 'data')) as [string];
        const file = join(home.path, `server-${index}.json`);
        mkdirSync(home.path, { recursive: true });
        writeFileSync(file, JSON.stringify({ tpu: { project: 'lab', endpoint: line.trim() } }));
        files.push(file);
      }
      const [fast = '', slow = ''] = files;
      const rows = (await home.run(['-s', fast, 'quota', '--json'])).trim().split('\n').length;
      if (rows !== zoneCount * quotaIds.length) throw new Error(`${rows} rows were listed`);
      const argvOf = (file: string) => [jobman, '-s', file, 'quota'];
      const times = startTimes({ fast: argvOf(fast), slow: argvOf(slow) }, rounds, home);
      const [own, waited] = [quantile(times.fast, 0.5), quantile(times.slow, 0.5)];
      const roundTrips = (waited - own) / latencyMs;
      return [
        {
          name: `\`quota\` over ${zoneCount} zones`,
          measured: `${roundTrips.toFixed(2)} round trips`,
          budget: `${budget} round trips`,
          comparison: `one round trip ${latencyMs} ms; without waiting ${own.toFixed(0)} ms`,
          isWithinBudget: roundTrips <= budget,
        },
      ];
    } finally {
      for (const server of servers) server.kill();
    }
  });
}

const quotaIds = ['TPUV6E', 'TPUV5P', 'TPUV5sLitepod', 'TPUV5sLitepodServing'].flatMap((family) => {
  const preemptible = family.startsWith('TPUV5s')
    ? family.replace('TPUV5s', 'TPUV5sPreemptible')
    : `${family}Preemptible`;
  return [family, preemptible].map((name) => `${name}PerProjectPerZoneForTPUAPI`);
});

/** Runs in the other process. Answers from memory, after the latency. */
function serve(latency: number): void {
  const zones = Array.from({ length: zoneCount }, (_, index) => `region-a${index >> 2}-${'abcd'[index % 4] ?? ''}`);
  const nodes = zones.flatMap((zone) =>
    Array.from({ length: tpusPerZone }, (_, index) => ({
      name: `projects/lab/locations/${zone}/nodes/train-${index}`,
      acceleratorType: 'v6e-16',
      state: index === 0 ? 'PREEMPTED' : 'READY',
      createTime: '2026-11-20T08:00:00Z',
      schedulingConfig: { spot: true },
      metadata: { owner: 'ada' },
    })),
  );
  const quotaInfos = quotaIds.map((quotaId) => ({
    quotaId,
    dimensionsInfos: zones.map((zone) => ({
      dimensions: { zone },
      details: { value: '512' },
      applicableLocations: [zone],
    })),
  }));
  const server = createServer((request, reply) => {
    const path = request.url ?? '';
    const body = path.includes('/quotaInfos') ? { quotaInfos } : path.includes('/nodes') ? { nodes } : {};
    setTimeout(() => {
      reply.setHeader('content-type', 'application/json');
      reply.end(JSON.stringify(body));
    }, latency);
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    console.log(`http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`);
  });
}

if (import.meta.main && process.argv[2] === 'serve') serve(Number(process.argv[3]));
