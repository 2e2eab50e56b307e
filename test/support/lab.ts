/**
 * A lab on the TPU emulator: its users' scripts (test/lab/scripts) with the real tmux, rsync, sudo and gcloud, and
 * helpers for its jobs.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from './eventually.ts';
import { jobman, startJobman, type JobmanResult, type JobmanOptions } from './jobman.ts';
import { findProgram, requireReal } from './real.ts';
import { root } from './root.ts';
import type { World } from './world.ts';

const requiredPrograms = ['tmux', 'rsync', 'sudo', 'git', 'ssh-keygen', 'python3'];
// Debian has no package of gcloud, so a missing gcloud is reported and is not a failure.
const missingPrograms = [...requiredPrograms, 'gcloud'].filter((name) => findProgram(name) === undefined);

/**
 * The reason why the tests of a lab cannot run on this machine, or false. Reports each missing program as a skipped
 * test.
 */
export function labSkipReason(): string | false {
  for (const name of requiredPrograms) {
    test(`this machine has ${name}`, (t) => {
      if (!requireReal(t, name, findProgram(name))) return;
      assert.ok(findProgram(name));
    });
  }
  return missingPrograms.length === 0
    ? false
    : `NOT TESTED: the scripts of a lab (this machine has no ${missingPrograms.join(', ')})`;
}

/** An attempt in `jobman show --json`. */
export interface ShownAttempt {
  readonly attempt: number;
  readonly startMode: string;
  readonly stage: number;
  readonly reason: string | null;
}

/** A job in `jobman show --json`. */
export interface ShownJob {
  readonly phase: string;
  readonly attempts: readonly ShownAttempt[];
}

/** Sets the behaviour of later training programs. */
export type TrainingMode = 'wait' | 'grpc' | 'fail' | 'succeed';

export interface LabFixture {
  /** The environment of every command; a test may change its PATH for a while. */
  env: Readonly<Record<string, string>>;
  tpu(args: readonly string[], options?: JobmanOptions): Promise<JobmanResult>;
  /** Runs a command that must succeed; resolves with its output. */
  runOk(...args: string[]): Promise<string>;
  /** Runs a job; resolves with its window and job numbers. */
  startJob(...args: string[]): Promise<{ readonly window: string; readonly id: string }>;
  show(id: string): Promise<ShownJob>;
  /** Waits until the job matches; fails with its log and the output of why. */
  waitUntil(id: string, is: (job: ShownJob) => boolean): Promise<ShownJob>;
  waitForPhase(id: string, phase: string): Promise<ShownJob>;
  log(id: string, ...more: string[]): Promise<string>;
  /** The arguments of worker 0's program in that attempt, once it has printed them. */
  programArgs(id: string, attempt: number): Promise<readonly string[]>;
  tmux(...args: string[]): string;
  setMode(mode: TrainingMode): void;
  /** The output of a script that is sourced in that folder. */
  sourceScript(folder: string, script: string, ...args: readonly string[]): string;
  /** A working directory with the scripts of the lab. */
  createDirectory(name: string): string;
}

/** The value of `--flag=value` among the arguments. */
export function flagValue(args: readonly string[], flag: string): string | undefined {
  return args.find((arg) => arg.startsWith(`${flag}=`))?.slice(flag.length + 1);
}

/**
 * Training programs on this machine, and so on the hosts of the TPU emulator, whose command line contains that text.
 */
export function trainingProcesses(text: string): readonly string[] {
  return commandLines().filter((command) => command.includes(text) && command.includes('main.py'));
}

function commandLines(): readonly string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(join('/proc', pid, 'cmdline'), 'latin1').replaceAll('\0', ' ');
      } catch {
        return '';
      }
    });
}

/** The number of running job scripts. */
function countScripts(home: string): number {
  return commandLines().filter((command) => command.includes(join(home, 'runs'))).length;
}

/** Starts the emulator and adds `user` as the login of the scripts; `zone` has all TPUs of the lab. */
export async function openLab(world: World, user: string, zone: string): Promise<LabFixture> {
  const home = world.env['HOME'] ?? '';
  mkdirSync(join(home, '.ssh'), { mode: 0o700 });
  // gcloud would create a key of 3072 bits, which takes long.
  const key = join(home, '.ssh/google_compute_engine');
  execFileSync('ssh-keygen', ['-q', '-t', 'rsa', '-b', '2048', '-N', '', '-C', user, '-f', key]);
  // staging.sh copies there with rsync, which creates only the last folder.
  mkdirSync(join(world.folder, 'data/staging', user), { recursive: true });

  const lab: LabFixture = {
    env: {
      CLOUDSDK_CONFIG: join(world.folder, 'gcloud'),
      CLOUDSDK_CORE_DISABLE_USAGE_REPORTING: '1',
      CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK: '1',
      ...world.env,
      TEST_DATA_ROOT: join(world.folder, 'data'),
      TEST_ZONE: zone,
      USER: user,
    },
    tpu: (args, options = {}) =>
      jobman(world, ['tpu', ...args], { ...options, env: { ...lab.env, ...options.env }, withinMs: 120_000 }),
    async runOk(...args) {
      const { code, stdout, stderr } = await lab.tpu(args);
      assert.equal(code, 0, `tpu ${args.join(' ')}\n${stdout}${stderr}`);
      return stdout;
    },
    async startJob(...args) {
      const [, window = '', id = ''] = /^Window (\d+): job (\d{6}) /m.exec(await lab.runOk(...args)) ?? [];
      assert.ok(id !== '', args.join(' '));
      return { window, id };
    },
    async show(id) {
      const { stdout, stderr } = await jobman(world, ['show', id, '--json'], { env: lab.env });
      assert.ok(stdout !== '', stderr);
      return JSON.parse(stdout) as ShownJob;
    },
    async waitUntil(id, is) {
      let job = await lab.show(id);
      const reached = await eventually(async () => is((job = await lab.show(id))), {
        withinMs: 120_000,
        everyMs: 300,
      });
      if (reached !== undefined) return job;
      const why = await jobman(world, ['why', id], { env: lab.env });
      throw new Error(`${JSON.stringify(job)}\n${await lab.log(id)}\n${why.stdout}`);
    },
    waitForPhase: (id, phase) => lab.waitUntil(id, (job) => job.phase === phase),
    log: async (id, ...more) => (await jobman(world, ['logs', id, ...more], { env: lab.env })).stdout,
    async programArgs(id, attempt) {
      let found: string | undefined;
      const hasPrinted = await eventually(
        async () => (found = /ARGS (\[.*\])/.exec(await lab.log(id, '--attempt', String(attempt)))?.[1]) !== undefined,
        { withinMs: 90_000, everyMs: 300 },
      );
      assert.ok(hasPrinted, `attempt ${attempt} of ${id} printed nothing\n${await lab.log(id)}`);
      return JSON.parse(found ?? '[]') as string[];
    },
    tmux(...args) {
      const { stdout, stderr } = spawnSync('tmux', args, { env: lab.env, encoding: 'utf8' });
      return stdout + stderr;
    },
    sourceScript(folder, script, ...args) {
      const argv = ['-c', 'source "$@"', 'bash', script, ...args];
      return execFileSync('bash', argv, {
        cwd: folder,
        env: lab.env,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
      });
    },
    setMode: (mode) => writeFileSync(join(world.folder, 'mode'), mode),
    createDirectory(name) {
      const folder = join(world.folder, name);
      cpSync(join(root, 'test/lab/scripts'), folder, { recursive: true });
      writeFileSync(join(folder, 'mode-file'), join(world.folder, 'mode'));
      return folder;
    },
  };

  lab.setMode('succeed');
  const emulator = startJobman(world, ['emulator', 'serve', '--speed', '200'], { env: lab.env, withinMs: 1_200_000 });
  world.atEnd(async () => {
    // Scripts that a failed test left waiting must end now: a later end would start the emulator again.
    lab.setMode('fail');
    await eventually(() => trainingProcesses(world.folder).length === 0 && countScripts(world.home) === 0, {
      withinMs: 30_000,
      everyMs: 300,
    });
    await jobman(world, ['controller', 'stop'], { env: lab.env });
    await jobman(world, ['emulator', 'stop'], { env: lab.env });
    await emulator.result;
    lab.tmux('kill-server');
  });
  await emulator.waitForOutput('127.0.0.1');
  await jobman(world, ['settings', 'set', 'tpu.project', 'emulator'], { env: lab.env });
  await jobman(world, ['settings', 'set', 'lab.zones', JSON.stringify([zone])], { env: lab.env });
  return lab;
}
