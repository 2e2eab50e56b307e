// Kubernetes: jobman compared with kubectl, alternating on one cluster, so that other load affects both. Ten thousand
// Jobs with a waiting pod each; one Job that printed 100 MB. The budgets are ratios.

import { spawn } from 'node:child_process';
import { closeSync, openSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jobman, root, report, withHome, type Home } from './home.ts';
import { createJobs, scaleNamespace, withCluster, type BenchCluster } from './kubernetes-cluster.ts';
import { formatLoad, peakMbOf } from './machine.ts';
import type { Result } from './result.ts';
import { quantile } from './start-times.ts';

const jobs = 10_000;
const pageLength = 500;
const logBytes = 100_000_000;

interface Samples {
  readonly ms: number[];
  readonly peakMb: number[];
}

export async function measureKubernetes(): Promise<readonly Result[]> {
  const results = await withCluster((cluster) =>
    withHome(
      async (home) => {
        const asAdmin = { ...home, env: { ...home.env, KUBECONFIG: cluster.kubeconfig } };
        const logs = await measureLogs(cluster, asAdmin);
        const submits = [await measureSubmit(cluster, asAdmin), await measureArchivedSubmit(cluster)];
        await createJobs(cluster, jobs);
        return [
          ...(await measureList(cluster, asAdmin)),
          await measureQueue(cluster, asAdmin),
          ...submits,
          await measureSubmit(cluster, asAdmin, ` with ${jobs.toLocaleString('en')} others`),
          logs,
        ];
      },
      { kubernetes: { keepLogs: false } },
    ),
  );
  if (results !== undefined) return results;
  const name = 'Kubernetes: only root can bring a cluster up';
  return [{ name, measured: '-', budget: '-', comparison: '-', isWithinBudget: null }];
}

async function measureList(cluster: BenchCluster, home: Home): Promise<readonly Result[]> {
  const { ours, theirs } = await measureInTurn(home, 5, {
    ours: [jobman, 'list', '--all', '--namespace', scaleNamespace],
    theirs: ['kubectl', 'get', 'jobs', '--namespace', scaleNamespace],
  });
  const what = `\`list\` of ${jobs.toLocaleString('en')} Jobs`;
  return [
    ratioResult(`${what}, time`, 'kubectl get jobs', 0.5, median(ours.ms), median(theirs.ms), seconds),
    ratioResult(`${what}, memory at most`, 'kubectl get jobs', 0.5, max(ours.peakMb), max(theirs.peakMb), megabytes),
  ];
}

/** Compares with the transfer of the same lists, page by page, without parsing. */
async function measureQueue(cluster: BenchCluster, home: Home): Promise<Result> {
  const waiting = `fieldSelector=${encodeURIComponent('spec.nodeName=,status.phase=Pending')}`;
  const ms: number[] = [];
  const ours: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const began = performance.now();
    await Promise.all([readPages(cluster, '/apis/batch/v1/jobs', ''), readPages(cluster, '/api/v1/pods', waiting)]);
    ms.push(performance.now() - began);
    ours.push((await run(home, [jobman, 'queue'])).ms);
  }
  const what = `\`queue\` over ${jobs.toLocaleString('en')} Jobs and as many pods that wait`;
  return ratioResult(what, 'the transfer alone', 1.5, median(ours), median(ms), seconds);
}

async function readPages({ api }: BenchCluster, path: string, query: string): Promise<void> {
  let token = '';
  do {
    const page = await api.call(
      'GET',
      `${path}?limit=${pageLength}&${query}${token === '' ? '' : `&continue=${token}`}`,
    );
    // The list's metadata comes before its items.
    token = /"continue":"([^"]+)"/.exec(page.subarray(0, 1_000).toString('latin1'))?.[1] ?? '';
  } while (token !== '');
}

async function measureSubmit(cluster: BenchCluster, home: Home, where = ''): Promise<Result> {
  const file = join(home.path, 'job.json');
  const dry = ['submit', '-i', 'alpine', '-r', '{"name":"tiny","resources":{"requests":{"cpu":"10m"}}}', '--suspend'];
  const args = ['-n', 'jobman', '--', 'true'];
  const manifest = await home.run([...dry, '-j', 'same', '--dry-run', ...args]);
  writeFileSync(file, manifest);
  const [ours, theirs]: [number[], number[]] = [[], []];
  // The first run fills Node's cache of compiled code.
  for (let round = -1; round < 30; round += 1) {
    const all = [
      [ours, [jobman, ...dry, '-j', 'mine', ...args]],
      [theirs, ['kubectl', 'create', '-f', file, '-n', 'jobman']],
    ] as const;
    // Alternate the order, because the second command runs while the cluster still works for the first one.
    for (const [samples, command] of round % 2 === 0 ? all : all.toReversed()) {
      const { ms } = await run(home, command);
      if (round >= 0) samples.push(ms);
    }
    cluster.kubectl('delete', 'jobs', 'mine', 'same', '-n', 'jobman');
  }
  return ratioResult(`\`submit\`${where}`, 'kubectl create -f', 2, median(ours), median(theirs), seconds);
}

/**
 * The default settings: jobman stores the job and notifies the controller, which the first, uncounted submit starts.
 */
function measureArchivedSubmit(cluster: BenchCluster): Promise<Result> {
  return withHome(async (home) => {
    const asAdmin = { ...home, env: { ...home.env, KUBECONFIG: cluster.kubeconfig } };
    const result = await measureSubmit(cluster, asAdmin, ' with its logs and history archived');
    // Without a running controller the result would be wrong.
    await home.controller();
    return result;
  });
}

/**
 * A slow node may rotate the log in the middle, and both programs print only the newer file. Then the Job runs again,
 * up to four times. It has ended, so the log no longer grows.
 */
async function measureLogs(cluster: BenchCluster, home: Home): Promise<Result> {
  const name = 'talker';
  const at = ['--namespace', 'jobman'];
  let bytes = 0;
  for (let attempt = 0; attempt < 4 && bytes < logBytes; attempt += 1) {
    cluster.kubectl('delete', 'job', name, ...at, '--ignore-not-found');
    // A hundred bytes a line.
    const program = `yes ${'x'.repeat(99)} | head -c ${logBytes}`;
    cluster.kubectl('create', 'job', name, '--image=alpine', ...at, '--', 'sh', '-c', program);
    cluster.kubectl('wait', '--for=condition=Complete', `job/${name}`, '--timeout=300s', ...at);
    bytes = (await run(home, ['kubectl', 'logs', `job/${name}`, ...at])).printed;
  }
  const { ours, theirs } = await measureInTurn(
    home,
    5,
    {
      ours: [jobman, 'logs', '-f', '--raw', '-j', name, ...at],
      theirs: ['kubectl', 'logs', '-f', `job/${name}`, ...at],
    },
    bytes,
  );
  return ratioResult(
    `\`logs -f\` of ${Math.round(bytes / 1_000_000)} MB`,
    'kubectl logs -f',
    1.25,
    median(ours.ms),
    median(theirs.ms),
    seconds,
  );
}

/** Rotates the order; the first round is not counted. Throws when a program fails or does not print `bytes`. */
async function measureInTurn<Name extends string>(
  home: Home,
  rounds: number,
  programs: Readonly<Record<Name, readonly string[]>>,
  bytes?: number,
): Promise<Readonly<Record<Name, Samples>>> {
  const all = Object.entries<readonly string[]>(programs);
  const samples = new Map(all.map(([name]): [string, Samples] => [name, { ms: [], peakMb: [] }]));
  for (let round = -1; round < rounds; round += 1) {
    for (const [name, args] of round % 2 === 0 ? all : all.toReversed()) {
      const { ms, peakMb, printed } = await run(home, args);
      if (bytes !== undefined && printed !== bytes) throw new Error(`${args.join(' ')} printed ${printed} bytes`);
      if (round >= 0) {
        samples.get(name)?.ms.push(ms);
        samples.get(name)?.peakMb.push(peakMb);
      }
    }
  }
  return Object.fromEntries(samples) as Record<Name, Samples>;
}

/** Runs a program with its output in a file, as with a redirection. Rejects when the exit code is not 0. */
async function run(
  home: Home,
  [program = '', ...args]: readonly string[],
): Promise<{ readonly ms: number; readonly peakMb: number; readonly printed: number }> {
  const path = join(home.path, 'output');
  const output = openSync(path, 'w');
  try {
    const began = performance.now();
    const child = spawn(program, args, {
      env: home.env as NodeJS.ProcessEnv,
      cwd: root,
      stdio: ['ignore', output, 'ignore'],
    });
    let peakMb = 0;
    const sampler = setInterval(() => {
      peakMb = Math.max(peakMb, peakMbOf(child.pid ?? 0));
    }, 10);
    const code = await new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    }).finally(() => clearInterval(sampler));
    const ms = performance.now() - began;
    if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${String(code)}`);
    report(
      `${(ms / 1_000).toFixed(2)} s, ${peakMb} MB: ${program.replace(/.*\//, '')} ${args.slice(0, 3).join(' ')} (load ${formatLoad()})`,
    );
    return { ms, peakMb, printed: statSync(path).size };
  } finally {
    closeSync(output);
  }
}

function ratioResult(
  name: string,
  peer: string,
  budget: number,
  ours: number,
  theirs: number,
  format: (amount: number) => string,
): Result {
  const share = ours / theirs;
  return {
    name,
    measured: format(ours),
    budget: `${budget} times ${peer}`,
    comparison: `${peer} ${format(theirs)}: ${share.toFixed(2)} times`,
    isWithinBudget: share <= budget,
  };
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`;
const megabytes = (mb: number): string => `${mb.toFixed(0)} MB`;
const median = (numbers: readonly number[]): number => quantile(numbers, 0.5);
const max = (numbers: readonly number[]): number => Math.max(...numbers);
