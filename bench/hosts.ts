// Hosts: one short command on 64 workers of the TPU emulator, through the controller's connections and through new
// ones, compared with pdsh and gcloud in the same run. Every time includes the hosts' own work. Then the memory for 256
// hosts.

import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jobman, report, waitFor, withHome, type Home } from './home.ts';
import { peakMbOf } from './machine.ts';
import type { Result } from './result.ts';

const rounds = 5;
const maxColdMs = 3_000;
const maxWarmMs = 500;
const maxMemoryMb = 100;

export async function measureHosts(): Promise<readonly Result[]> {
  const few = await withHome((home) => measureTimes(home, 'v4-512', 64));
  const many = await withHome((home) => measureMemory(home, 'v4-2048', 256));
  return [...few, many];
}

async function measureTimes(home: Home, accelerator: string, count: number): Promise<readonly Result[]> {
  await allocate(home, accelerator);
  const config = join(home.path, 'ssh.config');
  writeFileSync(config, await home.run(['ssh-config', '1']));
  const hasPdsh = ensurePdsh();
  const hasGcloud = spawnSync('gcloud', ['--version'], { stdio: 'ignore' }).status === 0;
  const samples = { warm: [] as number[], cold: [] as number[], pdsh: [] as number[], gcloud: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    samples.warm.push(await timed(count, jobman, ['exec', '1', '--', 'hostname'], home.env));
    await withoutRelay(home, async () => {
      samples.cold.push(await timed(count, jobman, ['exec', '1', '--', 'hostname'], home.env));
    });
    if (hasPdsh) {
      const env = { ...home.env, PDSH_SSH_ARGS_APPEND: `-F ${config}` };
      const hosts = `jobman-1-[0-${count - 1}]`;
      samples.pdsh.push(await timed(count, 'pdsh', ['-R', 'ssh', '-f', String(count), '-w', hosts, 'hostname'], env));
    }
    // gcloud takes minutes and the others seconds, so one round is enough.
    if (hasGcloud && round === 0) samples.gcloud.push(await gcloud(home, count));
    report(
      `round ${round + 1} of ${rounds}: ${Object.entries(samples)
        .map(([name, all]) => `${name} ${formatSeconds(all.at(-1))}`)
        .join(', ')}`,
    );
  }
  const comparison = `pdsh ${formatSeconds(median(samples.pdsh))}, gcloud ${formatSeconds(samples.gcloud[0])}`;
  const result = (route: string, times: readonly number[], budgetMs: number): Result => ({
    name: `\`exec\` on ${count} hosts, ${route}`,
    measured: formatSeconds(median(times)),
    budget: formatSeconds(budgetMs),
    comparison,
    isWithinBudget: (median(times) ?? Infinity) <= budgetMs,
  });
  return [
    result("over the controller's connections", samples.warm, maxWarmMs),
    result('over new connections', samples.cold, maxColdMs),
  ];
}

async function measureMemory(home: Home, accelerator: string, count: number): Promise<Result> {
  await allocate(home, accelerator);
  const shared = await peakMemory(home, count);
  let own = 0;
  await withoutRelay(home, async () => {
    own = await peakMemory(home, count);
  });
  return {
    name: `\`exec\` on ${count} hosts, memory at most`,
    measured: `${shared} MB`,
    budget: `${maxMemoryMb} MB`,
    comparison: `${own} MB over new connections`,
    isWithinBudget: shared <= maxMemoryMb,
  };
}

async function allocate(home: Home, accelerator: string): Promise<void> {
  const manifest = join(home.path, 'hosts.yaml');
  writeFileSync(
    manifest,
    [
      'job: { name: hosts }',
      `tpu: { project: emulator, name: hosts, accelerator: ${accelerator}, zone: us-central2-b, pricing: ondemand, version: tpu-ubuntu2204-base }`,
      'command: { cmd: sleep 1000000 }',
      '',
    ].join('\n'),
  );
  await home.run(['create', manifest]);
  await waitFor(
    `${accelerator} to run`,
    async () => {
      const { phase } = JSON.parse(await home.run(['show', '1', '--json'])) as { readonly phase: string };
      return phase === 'running' ? true : undefined;
    },
    300_000,
    1_000,
  );
}

/** Runs a program that prints one line for each host; returns milliseconds. */
async function timed(count: number, program: string, args: readonly string[], env: Home['env']): Promise<number> {
  const began = performance.now();
  const { output } = await run(program, args, env);
  const tookMs = performance.now() - began;
  const lines = output.trim().split('\n').length;
  if (lines !== count) throw new Error(`${program} printed ${lines} lines, not ${count}:\n${output}`);
  return tookMs;
}

/** Peak memory of the command in MB. */
async function peakMemory(home: Home, count: number): Promise<number> {
  const { output, peakMb } = await run(jobman, ['exec', '1', '--', 'hostname'], home.env);
  if (output.trim().split('\n').length !== count) throw new Error(`not every host of ${count} answered:\n${output}`);
  return peakMb;
}

function run(
  program: string,
  args: readonly string[],
  env: Home['env'],
): Promise<{ readonly output: string; readonly peakMb: number }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env: env as NodeJS.ProcessEnv, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let errors = '';
    let peakMb = 0;
    const sampler = setInterval(() => {
      peakMb = Math.max(peakMb, peakMbOf(child.pid ?? 0));
    }, 20);
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
    child.on('error', reject);
    child.on('close', (code) => {
      clearInterval(sampler);
      if (code === 0) resolve({ output, peakMb });
      else reject(new Error(`${program} ${args.join(' ')} ended with ${code}:\n${output}${errors}`));
    });
  });
}

/** Moves the controller's socket away, so that the command opens its own connections. */
async function withoutRelay(home: Home, measure: () => Promise<void>): Promise<void> {
  const file = join(home.path, 'ssh', 'relay.sock');
  renameSync(file, `${file}.away`);
  try {
    await measure();
  } finally {
    renameSync(`${file}.away`, file);
  }
}

/** Debian's package, installed when it is missing and apt may install it. */
function ensurePdsh(): boolean {
  const isThere = (): boolean => spawnSync('pdsh', ['-V'], { stdio: 'ignore' }).status === 0;
  if (!isThere()) spawnSync('apt-get', ['install', '-y', '-q', 'pdsh'], { stdio: 'ignore' });
  return isThere();
}

async function gcloud(home: Home, count: number): Promise<number> {
  const { url, sshPort } = JSON.parse(readFileSync(join(home.path, 'emulator', 'endpoint.json'), 'utf8')) as {
    readonly url: string;
    readonly sshPort: number;
  };
  const folder = join(home.path, 'gcloud');
  mkdirSync(join(folder, '.ssh'), { recursive: true, mode: 0o700 });
  // gcloud needs an RSA key; creating it is not part of the measurement.
  const key = join(folder, '.ssh', 'google_compute_engine');
  spawnSync('ssh-keygen', ['-q', '-t', 'rsa', '-N', '', '-C', 'bench', '-f', key]);
  const env = {
    PATH: home.env['PATH'],
    HOME: folder,
    CLOUDSDK_CONFIG: join(folder, 'config'),
    CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU: `${url}/`,
    CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE: `${url}/compute/v1/`,
    CLOUDSDK_AUTH_DISABLE_CREDENTIALS: 'true',
    CLOUDSDK_CORE_PROJECT: 'emulator',
    CLOUDSDK_COMPUTE_ZONE: 'us-central2-b',
    CLOUDSDK_CORE_DISABLE_PROMPTS: '1',
    CLOUDSDK_CORE_DISABLE_USAGE_REPORTING: '1',
    CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK: '1',
  };
  const args = [
    'alpha',
    'compute',
    'tpus',
    'tpu-vm',
    'ssh',
    'bench@hosts-000001-1',
    '--worker=all',
    '--command=hostname',
  ];
  const more = [`--ssh-flag=-p${sshPort}`, `--batch-size=${count}`];
  // The first call adds the key to the node's metadata.
  await run('gcloud', [...args.slice(0, 6), '--worker=0', '--command=true', ...more], env);
  return timed(count, 'gcloud', [...args, ...more], env);
}

function median(times: readonly number[]): number | undefined {
  return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)];
}

function formatSeconds(ms: number | undefined): string {
  return ms === undefined ? 'is not here' : `${(ms / 1_000).toFixed(2)} s`;
}
