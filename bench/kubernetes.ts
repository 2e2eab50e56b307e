// Kubernetes: what jobman takes beside kubectl, in turn on one cluster, so that whatever else the machine does falls on both.
// Ten thousand Jobs with a pod each that waits; one Job that has printed 100 MB. Ratios are the budget, times are told.

import { spawn } from 'node:child_process';
import { closeSync, openSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jobman, root, tell, withHome, type Home } from './home.ts';
import { fill, scaleNamespace, withCluster, type BenchCluster } from './kubernetes-cluster.ts';
import { loadWords, peakMbOf } from './machine.ts';
import type { Result } from './result.ts';
import { quantile } from './start-times.ts';

const jobs = 10_000;
const pageLength = 500;
const logBytes = 100_000_000;

/** What several runs of one program took. */
interface Taken {
  readonly ms: number[];
  readonly peakMb: number[];
}

/** All of it; a line that says so where no cluster can be brought up. */
export async function measureKubernetes(): Promise<readonly Result[]> {
  const results = await withCluster((cluster) =>
    withHome(
      async (home) => {
        const asAdmin = { ...home, env: { ...home.env, KUBECONFIG: cluster.kubeconfig } };
        const logs = await measureLogs(cluster, asAdmin);
        const submits = [await measureSubmit(cluster, asAdmin), await measureKeptSubmit(cluster)];
        await fill(cluster, jobs);
        return [
          ...(await measureList(cluster, asAdmin)),
          await measureQueue(cluster, asAdmin),
          ...submits,
          await measureSubmit(cluster, asAdmin, ` beside ${jobs.toLocaleString('en')} others`),
          logs,
        ];
      },
      { kubernetes: { keepLogs: false } },
    ),
  );
  if (results !== undefined) return results;
  const what = 'Kubernetes: only root can bring a cluster up';
  return [{ what, measured: '-', budget: '-', beside: '-', isKept: null }];
}

async function measureList(cluster: BenchCluster, home: Home): Promise<readonly Result[]> {
  const { ours, theirs } = await inTurn(home, 5, {
    ours: [jobman, 'list', '--all', '--namespace', scaleNamespace],
    theirs: ['kubectl', 'get', 'jobs', '--namespace', scaleNamespace],
  });
  const what = `\`list\` of ${jobs.toLocaleString('en')} Jobs`;
  return [
    ratio(`${what}, time`, 'kubectl get jobs', 0.5, median(ours.ms), median(theirs.ms), seconds),
    ratio(`${what}, memory at most`, 'kubectl get jobs', 0.5, most(ours.peakMb), most(theirs.peakMb), megabytes),
  ];
}

/** Beside the same lists, page by page as they come, with nobody who reads them. */
async function measureQueue(cluster: BenchCluster, home: Home): Promise<Result> {
  const waiting = `fieldSelector=${encodeURIComponent('spec.nodeName=,status.phase=Pending')}`;
  const ms: number[] = [];
  const ours: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const began = performance.now();
    await Promise.all([pages(cluster, '/apis/batch/v1/jobs', ''), pages(cluster, '/api/v1/pods', waiting)]);
    ms.push(performance.now() - began);
    ours.push((await run(home, [jobman, 'queue'])).ms);
  }
  const what = `\`queue\` over ${jobs.toLocaleString('en')} Jobs and as many pods that wait`;
  return ratio(what, 'the transfer alone', 1.5, median(ours), median(ms), seconds);
}

async function pages({ line }: BenchCluster, path: string, query: string): Promise<void> {
  let token = '';
  do {
    const whole = await line.call(
      'GET',
      `${path}?limit=${pageLength}&${query}${token === '' ? '' : `&continue=${token}`}`,
    );
    // The list's own words stand before its items.
    token = /"continue":"([^"]+)"/.exec(whole.subarray(0, 1_000).toString('latin1'))?.[1] ?? '';
  } while (token !== '');
}

async function measureSubmit(cluster: BenchCluster, home: Home, where = ''): Promise<Result> {
  const file = join(home.path, 'job.json');
  const dry = ['submit', '-i', 'alpine', '-r', '{"name":"tiny","resources":{"requests":{"cpu":"10m"}}}', '--suspend'];
  const words = ['-n', 'jobman', '--', 'true'];
  const said = await home.run([...dry, '-j', 'same', '--dry-run', ...words]);
  writeFileSync(file, said);
  const [ours, theirs]: [number[], number[]] = [[], []];
  // The first run fills Node's cache of compiled code.
  for (let round = -1; round < 30; round += 1) {
    const all = [
      [ours, [jobman, ...dry, '-j', 'mine', ...words]],
      [theirs, ['kubectl', 'create', '-f', file, '-n', 'jobman']],
    ] as const;
    // Whoever comes second meets what the first one has set going in the cluster.
    for (const [taken, command] of round % 2 === 0 ? all : all.toReversed()) {
      const { ms } = await run(home, command);
      if (round >= 0) taken.push(ms);
    }
    cluster.kubectl('delete', 'jobs', 'mine', 'same', '-n', 'jobman');
  }
  return ratio(`\`submit\`${where}`, 'kubectl create -f', 2, median(ours), median(theirs), seconds);
}

/**
 * As it is without any settings: what was submitted is put on record, and a controller is told. The first submit, which starts it, is
 * not counted.
 */
function measureKeptSubmit(cluster: BenchCluster): Promise<Result> {
  return withHome(async (home) => {
    const asAdmin = { ...home, env: { ...home.env, KUBECONFIG: cluster.kubeconfig } };
    const result = await measureSubmit(cluster, asAdmin, ' with its logs and history kept');
    // Without one that runs, something else was measured.
    await home.controller();
    return result;
  });
}

/**
 * The Job has ended, so its log grows no more. Where the machine is slow the node begins a new file of it in the middle, and both
 * tell the newer one: then it is printed anew, a few times.
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
  const { ours, theirs } = await inTurn(
    home,
    5,
    {
      ours: [jobman, 'logs', '-f', '--raw', '-j', name, ...at],
      theirs: ['kubectl', 'logs', '-f', `job/${name}`, ...at],
    },
    bytes,
  );
  return ratio(
    `\`logs -f\` of ${Math.round(bytes / 1_000_000)} MB`,
    'kubectl logs -f',
    1.25,
    median(ours.ms),
    median(theirs.ms),
    seconds,
  );
}

/** One of each in every round, each first in turn; the first round is not counted. Throws when one fails, or does not print so many bytes. */
async function inTurn<Name extends string>(
  home: Home,
  rounds: number,
  programs: Readonly<Record<Name, readonly string[]>>,
  bytes?: number,
): Promise<Readonly<Record<Name, Taken>>> {
  const all = Object.entries<readonly string[]>(programs);
  const taken = new Map(all.map(([name]): [string, Taken] => [name, { ms: [], peakMb: [] }]));
  for (let round = -1; round < rounds; round += 1) {
    for (const [name, words] of round % 2 === 0 ? all : all.toReversed()) {
      const { ms, peakMb, printed } = await run(home, words);
      if (bytes !== undefined && printed !== bytes) throw new Error(`${words.join(' ')} printed ${printed} bytes`);
      if (round >= 0) {
        taken.get(name)?.ms.push(ms);
        taken.get(name)?.peakMb.push(peakMb);
      }
    }
  }
  return Object.fromEntries(taken) as Record<Name, Taken>;
}

/** One run with its output in a file, as a redirection gives it. Rejects when it does not end with 0. */
async function run(
  home: Home,
  [program = '', ...words]: readonly string[],
): Promise<{ readonly ms: number; readonly peakMb: number; readonly printed: number }> {
  const path = join(home.path, 'output');
  const output = openSync(path, 'w');
  try {
    const began = performance.now();
    const child = spawn(program, words, {
      env: home.env as NodeJS.ProcessEnv,
      cwd: root,
      stdio: ['ignore', output, 'ignore'],
    });
    let peakMb = 0;
    const look = setInterval(() => {
      peakMb = Math.max(peakMb, peakMbOf(child.pid ?? 0));
    }, 10);
    const code = await new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    }).finally(() => clearInterval(look));
    const ms = performance.now() - began;
    if (code !== 0) throw new Error(`${program} ${words.join(' ')} ended with ${String(code)}`);
    tell(
      `${(ms / 1_000).toFixed(2)} s, ${peakMb} MB: ${program.replace(/.*\//, '')} ${words.slice(0, 3).join(' ')} (load ${loadWords()})`,
    );
    return { ms, peakMb, printed: statSync(path).size };
  } finally {
    closeSync(output);
  }
}

function ratio(
  what: string,
  peer: string,
  budget: number,
  ours: number,
  theirs: number,
  text: (amount: number) => string,
): Result {
  const share = ours / theirs;
  return {
    what,
    measured: text(ours),
    budget: `${budget} times ${peer}`,
    beside: `${peer} ${text(theirs)}: ${share.toFixed(2)} times`,
    isKept: share <= budget,
  };
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`;
const megabytes = (mb: number): string => `${mb.toFixed(0)} MB`;
const median = (numbers: readonly number[]): number => quantile(numbers, 0.5);
const most = (numbers: readonly number[]): number => Math.max(...numbers);
