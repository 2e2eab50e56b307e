// Round trips of a command against a local server that waits before every reply. The same command against a server that does
// not wait is subtracted, so that only waiting counts.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { jobman, node, withHome } from './home.ts';
import type { Result } from './result.ts';
import { quantile, startTimes } from './start-times.ts';

const latencyMs = 300;
const rounds = 10;
const budget = 3;

export interface RoundTripMeasurement {
  readonly name: string;
  readonly argv: readonly string[];
  /** A file that calls `serveReplies` when it is run with the argument `serve`. */
  readonly serverFile: string;
  /** Number of lines that the command prints with --json. */
  readonly lines: number;
  readonly settings: (url: string) => object;
}

export function measureRoundTrips(measurement: RoundTripMeasurement): Promise<readonly Result[]> {
  const { name, argv, serverFile, lines, settings } = measurement;
  return withHome(async (home) => {
    const servers = [0, latencyMs].map((latency) =>
      spawn(node, [serverFile, 'serve', String(latency)], { stdio: ['ignore', 'pipe', 'inherit'] }),
    );
    try {
      const files: string[] = [];
      for (const [index, server] of servers.entries()) {
        const [line] = (await once(server.stdout.setEncoding('utf8'), 'data')) as [string];
        const file = join(home.path, `server-${index}.json`);
        mkdirSync(home.path, { recursive: true });
        writeFileSync(file, JSON.stringify(settings(line.trim())));
        files.push(file);
      }
      const [fast = '', slow = ''] = files;
      const printed = (await home.run(['-s', fast, ...argv, '--json'])).trim().split('\n').length;
      if (printed !== lines) throw new Error(`${printed} of ${lines} lines were printed`);
      const argvOf = (file: string) => [jobman, '-s', file, ...argv];
      const times = startTimes({ fast: argvOf(fast), slow: argvOf(slow) }, rounds, home);
      const [own, waited] = [quantile(times.fast, 0.5), quantile(times.slow, 0.5)];
      const roundTrips = (waited - own) / latencyMs;
      return [
        {
          name,
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

/** Runs in the other process. Answers from memory, after the latency; prints its address. */
export function serveReplies(latency: number, replyTo: (path: string) => object): void {
  const server = createServer((request, reply) => {
    const body = replyTo(request.url ?? '');
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
