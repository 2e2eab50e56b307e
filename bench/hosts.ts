// Hosts: one short command on 64 workers of the built-in cloud, through connections that the controller keeps and through
// new ones, beside what else there is for it: pdsh over the system's ssh, and gcloud. All in one run on the same hosts,
// whose own work (a login and a shell for each) is in every number. Then the memory that 256 hosts take.

import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jobman, tell, waitFor, withHome, type Home } from './home.ts';
import { peakMbOf } from './machine.ts';
import type { Result } from './result.ts';

const rounds = 5;
const coldMostMs = 3_000;
const warmMostMs = 500;
const memoryMostMb = 100;

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
  const takes = { warm: [] as number[], cold: [] as number[], pdsh: [] as number[], gcloud: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    takes.warm.push(await timed(count, jobman, ['exec', '1', '--', 'hostname'], home.env));
    await withoutRelay(home, async () => {
      takes.cold.push(await timed(count, jobman, ['exec', '1', '--', 'hostname'], home.env));
    });
    if (hasPdsh) {
      const env = { ...home.env, PDSH_SSH_ARGS_APPEND: `-F ${config}` };
      const hosts = `jobman-1-[0-${count - 1}]`;
      takes.pdsh.push(await timed(count, 'pdsh', ['-R', 'ssh', '-f', String(count), '-w', hosts, 'hostname'], env));
    }
    // It takes minutes where the others take seconds: once is enough to see which of the two it is.
    if (hasGcloud && round === 0) takes.gcloud.push(await gcloud(home, count));
    tell(
      `round ${round + 1} of ${rounds}: ${Object.entries(takes)
        .map(([name, all]) => `${name} ${secondsText(all.at(-1))}`)
        .join(', ')}`,
    );
  }
  const beside = `pdsh ${secondsText(median(takes.pdsh))}, gcloud ${secondsText(takes.gcloud[0])}`;
  const result = (what: string, times: readonly number[], most: number): Result => ({
    what: `\`exec\` on ${count} hosts, ${what}`,
    measured: secondsText(median(times)),
    budget: secondsText(most),
    beside,
    isKept: (median(times) ?? Infinity) <= most,
  });
  return [
    result("over the controller's connections", takes.warm, warmMostMs),
    result('over new connections', takes.cold, coldMostMs),
  ];
}

async function measureMemory(home: Home, accelerator: string, count: number): Promise<Result> {
  await allocate(home, accelerator);
  const shared = await peak(home, count);
  let own = 0;
  await withoutRelay(home, async () => {
    own = await peak(home, count);
  });
  return {
    what: `\`exec\` on ${count} hosts, memory at most`,
    measured: `${shared} MB`,
    budget: `${memoryMostMb} MB`,
    beside: `${own} MB over new connections`,
    isKept: shared <= memoryMostMb,
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

/** Runs the program, which is to print a line for each host, and answers how many milliseconds it took. */
async function timed(count: number, program: string, words: readonly string[], env: Home['env']): Promise<number> {
  const began = performance.now();
  const { said } = await run(program, words, env);
  const tookMs = performance.now() - began;
  const lines = said.trim().split('\n').length;
  if (lines !== count) throw new Error(`${program} printed ${lines} lines, not ${count}:\n${said}`);
  return tookMs;
}

/** The most memory that the command had at any time, in MB. */
async function peak(home: Home, count: number): Promise<number> {
  const { said, peakMb } = await run(jobman, ['exec', '1', '--', 'hostname'], home.env);
  if (said.trim().split('\n').length !== count) throw new Error(`not every host of ${count} answered:\n${said}`);
  return peakMb;
}

function run(
  program: string,
  words: readonly string[],
  env: Home['env'],
): Promise<{ readonly said: string; readonly peakMb: number }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { env: env as NodeJS.ProcessEnv, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    let errors = '';
    let peakMb = 0;
    const look = setInterval(() => {
      peakMb = Math.max(peakMb, peakMbOf(child.pid ?? 0));
    }, 20);
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
    child.on('error', reject);
    child.on('close', (code) => {
      clearInterval(look);
      if (code === 0) resolve({ said, peakMb });
      else reject(new Error(`${program} ${words.join(' ')} ended with ${code}:\n${said}${errors}`));
    });
  });
}

/** The controller's socket out of the way: the command does as it does where there is no controller. */
async function withoutRelay(home: Home, measure: () => Promise<void>): Promise<void> {
  const file = join(home.path, 'ssh', 'relay.sock');
  renameSync(file, `${file}.away`);
  try {
    await measure();
  } finally {
    renameSync(`${file}.away`, file);
  }
}

/** Debian's package, installed when it is missing and may be. */
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
  // A key of its own kind, made beforehand: making it is not what is measured.
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
  const words = [
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
  // The first call brings its key into the node's metadata.
  await run('gcloud', [...words.slice(0, 6), '--worker=0', '--command=true', ...more], env);
  return timed(count, 'gcloud', [...words, ...more], env);
}

function median(times: readonly number[]): number | undefined {
  return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)];
}

function secondsText(ms: number | undefined): string {
  return ms === undefined ? 'is not here' : `${(ms / 1_000).toFixed(2)} s`;
}
