/**
 * `npm run screenshots` draws the pictures of docs/dashboard/: each page of a real server with jobs of the TPU emulator, in light
 * and dark, on a desktop and a phone. It needs Chromium. Arguments choose pages: `npm run screenshots -- jobs tpus`.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { findProgram } from '../test/support/real.ts';

const root = join(import.meta.dirname, '..');
const output = join(root, 'docs/dashboard');
const home = mkdtempSync(join(tmpdir(), 'jobman-screenshots-'));
const env = { ...process.env, HOME: home, JOBMAN_HOME: join(home, 'jobman'), NO_COLOR: '1' };
const program = join(root, 'bin/jobman');
const example = join(root, 'configs/quick-start.yaml');
const cleanups: (() => Promise<void>)[] = [];

interface Shot {
  readonly name: string;
  readonly path: string;
  /** The page is complete when this text is visible. */
  readonly text: RegExp;
}

const shots: readonly Shot[] = [
  { name: 'jobs', path: '/jobs', text: /iris-large/ },
  { name: 'job', path: '/jobs/000001', text: /preempted/ },
  { name: 'logs', path: '/jobs/000001/logs?attempt=1', text: /step +\d+/ },
  { name: 'queue', path: '/queue', text: /iris-large/ },
  { name: 'tpus', path: '/tpus', text: /us-central2-b/ },
  { name: 'lab', path: '/lab?user=ada', text: /v2-8-1/ },
  { name: 'reports', path: '/reports', text: /jobman cost/ },
  { name: 'create', path: '/create?from=000001', text: /jobman create/ },
  { name: 'settings', path: '/settings', text: /jobman settings/ },
  { name: 'users', path: '/users', text: /bob/ },
  { name: 'tokens', path: '/tokens', text: /laptop/ },
  { name: 'audit', path: '/audit', text: /jobman audit/ },
];

const variants = (['light', 'dark'] as const).flatMap((colorScheme) => [
  { suffix: colorScheme, colorScheme, viewport: { width: 1280, height: 800 } },
  { suffix: `${colorScheme}-phone`, colorScheme, viewport: { width: 360, height: 740 } },
]);

function run(...args: readonly string[]): string {
  return execFileSync(program, args, { cwd: home, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

function create(name: string, ...more: readonly string[]): void {
  const settings = [`job.name=${name}`, ...more].flatMap((setting) => ['--set', setting]);
  run('create', example, ...settings);
}

interface ShownJob {
  readonly phase: string;
  readonly attempts: readonly unknown[];
}

/** Waits until the job is as it should be, for at most three minutes. */
async function until(id: string, isReady: (job: ShownJob) => boolean): Promise<void> {
  for (let tries = 0; tries < 180; tries += 1) {
    if (isReady(JSON.parse(run('show', id, '--json')) as ShownJob)) return;
    await sleep(1000);
  }
  throw new Error(`Job ${id} is not as expected: ${run('show', id)}`);
}

/** A job that runs again after a preemption, one that has failed, one that waits for capacity, and one that has succeeded. */
async function createJobs(): Promise<void> {
  create('iris', 'command.env.IRIS_PACE=2', 'job.budget=5 USD');
  create('iris-wrong', `command.run="python3 -c 'print({}[\\"petal_width\\"])'"`);
  run('emulator', 'stockout', 'us-west4-a/v5e');
  create('iris-large', 'tpu.accelerator=v5litepod-64', 'tpu.zone=us-west4-a');
  create('iris-short');
  await until('000004', ({ phase }) => phase === 'succeeded');
  // It has written a checkpoint.
  await until('000001', () => /step +[3-9]\d\//.test(run('logs', '000001', '--tail', '1')));
  run('emulator', 'preempt', '1');
  await until('000001', ({ phase, attempts }) => phase === 'running' && attempts.length === 2);
  await until('000002', ({ phase }) => phase === 'failed');
}

/** A lab with two users and three TPUs, of which one exists and is booked. */
function openLab(): void {
  const zone = 'us-central1-b';
  run('settings', 'set', 'tpu.project', 'emulator');
  run('settings', 'set', 'lab.zones', JSON.stringify([zone]));
  run('settings', 'set', 'lab.namePrefix', 'lab-');
  for (const user of ['ada', 'bob']) {
    const folder = join(home, user);
    mkdirSync(folder);
    writeFileSync(join(folder, 'staging.sh'), 'sleep 600\n');
    run('tpu', 'add-user', `name=${user}`, `session=${user}`, `sheet=${user}`, `dir=${folder}`);
  }
  for (const number of [1, 2, 3]) run('tpu', 'register', `lab-v2-8-${number}`, `zone=${zone}`);
  run('tpu', 'apply', 'lab-v2-8-1');
  run('tpu', 'book', 'v2-8-1', 'ada');
}

/** The address of the server, and a token of its admin. */
async function startServer(): Promise<readonly [url: string, token: string]> {
  const server = spawn(program, ['server', '--listen', '127.0.0.1:0'], { cwd: home, env });
  cleanups.push(async () => {
    server.kill('SIGTERM');
    await once(server, 'exit');
  });
  let url: string | undefined;
  for await (const part of server.stdout.setEncoding('utf8')) {
    [, url] = /runs at (\S+)\. /.exec(String(part)) ?? [];
    if (url !== undefined) break;
  }
  const token = run('token', 'create', '--name', 'laptop').trim();
  run('user', 'add', 'bob', '--role', 'member');
  run('token', 'create', '--user', 'bob', '--name', 'notebook');
  return [url ?? '', token];
}

async function draw(url: string, token: string, names: readonly string[]): Promise<void> {
  const executablePath = findProgram('chromium');
  if (executablePath === undefined) throw new Error('This machine has no Chromium.');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  cleanups.push(() => browser.close());
  for (const { suffix, ...options } of variants) {
    const page = await (await browser.newContext(options)).newPage();
    await page.goto(`${url}/jobs`);
    await page.getByLabel('Token', { exact: true }).fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('live', { exact: true }).waitFor();
    for (const { name, path, text } of shots) {
      if (names.length > 0 && !names.includes(name)) continue;
      await page.goto(`${url}${path}`);
      await page.getByText(text).filter({ visible: true }).first().waitFor();
      await sleep(1500);
      await page.screenshot({ path: join(output, `${name}-${suffix}.png`) });
      console.log(`${name}-${suffix}.png`);
    }
  }
}

mkdirSync(output, { recursive: true });
try {
  const [url, token] = await startServer();
  await createJobs();
  openLab();
  await draw(url, token, process.argv.slice(2));
} finally {
  for (const cleanup of cleanups.toReversed()) await cleanup();
  run('cancel', '000001', '--yes');
  run('controller', 'stop');
  run('emulator', 'stop');
  rmSync(home, { recursive: true, force: true });
}
