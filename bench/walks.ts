// Walks: the files of ours whose functions a command runs before its first request over the network. A person who reads
// the command from its beginning enters these files. From the source, because the bundle has no files.
// JOBMAN_BENCH_FILES=1 lists them. A function that builds a table while its file is loaded counts too.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { node, root, withHome, type Home } from './home.ts';
import type { Result } from './result.ts';

/** Ends the process at its first connection to a host, with the coverage until then. */
const untilConnected = `
import net from 'node:net';
import v8 from 'node:v8';
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
  const [options] = args.flat();
  if (options?.port === undefined) return connect.apply(this, args);
  v8.takeCoverage();
  v8.stopCoverage();
  process.exit(0);
};`;

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
    }[];
  }[];
}

export function measureWalks(): Promise<readonly Result[]> {
  return withHome(
    async (home) => {
      const code = join(home.path, 'code');
      mkdirSync(code);
      writeFileSync(join(code, 'staging.sh'), 'true\n');
      for (const line of ['add-user name=ada', `set-cur 1 ada`, 'register lab-v4-8-1 zone=us-central2-b'])
        runSource(home, ['tpu', ...line.split(' ')], code, {});
      const cluster = { server: 'http://127.0.0.1:9' };
      const context = { cluster: 'c', user: 'u', namespace: 'n' };
      writeFileSync(
        join(home.path, 'kubeconfig'),
        JSON.stringify({
          clusters: [{ name: 'c', cluster }],
          users: [{ name: 'u', user: { token: 't' } }],
          contexts: [{ name: 'x', context }],
          'current-context': 'x',
        }),
      );
      return [
        walk(home, code, ['tpu', 'run', 'lab-v4-8-1', 'ada', '-q']),
        walk(home, code, ['submit', '--image', 'alpine', '-r', 'no-gpu', '--', 'true']),
      ];
    },
    {
      tpu: { project: 'lab', endpoint: 'http://127.0.0.1:9', tokenCommand: 'echo t' },
      lab: { zones: ['us-central2-b'] },
    },
  );
}

function walk(home: Home, cwd: string, args: readonly string[]): Result {
  const command = args[0] === 'tpu' ? 'tpu run' : 'submit';
  const folder = join(home.path, `walk-${args[0]}`);
  runSource(home, args, cwd, { NODE_V8_COVERAGE: folder });
  const entered = new Set<string>();
  for (const file of readdirSync(folder)) {
    const { result } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Coverage;
    for (const { url, functions } of result) {
      const path = url.split(`${root}/src/`)[1];
      // The first function is the module itself.
      if (path !== undefined && functions.slice(1).some(({ ranges }) => (ranges[0]?.count ?? 0) > 0)) entered.add(path);
    }
  }
  if (process.env['JOBMAN_BENCH_FILES'] !== undefined) console.error([...entered].toSorted().join('\n'));
  return {
    name: `files before the first request of \`${command}\``,
    measured: `${entered.size}`,
    budget: '-',
    comparison: '15 wanted',
    isWithinBudget: null,
  };
}

function runSource(home: Home, args: readonly string[], cwd: string, env: Readonly<Record<string, string>>): void {
  const preload = `data:text/javascript,${encodeURIComponent(untilConnected)}`;
  const options = 'NODE_V8_COVERAGE' in env ? ['--import', preload] : [];
  const { status, stderr } = spawnSync(node, [...options, join(root, 'src/main.ts'), ...args], {
    cwd,
    env: { ...home.env, KUBECONFIG: join(home.path, 'kubeconfig'), ...env },
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${args.join(' ')} failed: ${stderr}`);
}
