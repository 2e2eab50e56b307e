/**
 * Jobs of the `tpu` command with the lab's own scripts, as they are: staging.sh and run_remote.sh as their manual prints them
 * (but for one person's folder), with the real tmux, rsync, sudo and gcloud in them, on hosts of the built-in cloud.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman, startJobman, type Ended } from '../support/jobman.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

const needed = ['tmux', 'rsync', 'sudo', 'git', 'ssh-keygen', 'python3'];
// gcloud is in no package of Debian, so its lack is said and fails nothing.
const missing = [...needed, 'gcloud'].filter((name) => findProgram(name) === undefined);

for (const name of needed) {
  test(`this machine has ${name}`, (t) => {
    if (!requireReal(t, name, findProgram(name))) return;
    assert.ok(findProgram(name));
  });
}

interface Attempt {
  readonly attempt: number;
  readonly how: string;
  readonly stage: number;
  readonly reason: string | null;
}

describe(
  'tpu run',
  {
    skip:
      missing.length > 0
        ? `NOT TESTED: the scripts of a lab as they are (this machine has no ${missing.join(', ')})`
        : false,
  },
  () => {
    const world: World = openWorld({ after }, { patienceMs: 20_000 });
    let env: Record<string, string>;
    /** What the training programs do, in a file that they read again and again. */
    let setMode: (mode: 'wait' | 'grpc' | 'fail' | 'succeed') => void;
    const ondemand = 'lab-v4-16-1';
    const preemptible = 'lab-v4-16-preemptible-1';

    const tpu = (...words: string[]): Promise<Ended> => jobman(world, ['tpu', ...words], { env });
    async function ok(...words: string[]): Promise<string> {
      const { code, stdout, stderr } = await tpu(...words);
      assert.equal(code, 0, `tpu ${words.join(' ')}\n${stdout}${stderr}`);
      return stdout;
    }
    /** Runs a job and resolves with the numbers of its window and of itself. */
    async function begun(...words: string[]): Promise<{ window: string; id: string }> {
      const [, window = '', id = ''] = /^Window (\d+): job (\d{6}) /m.exec(await ok(...words)) ?? [];
      assert.ok(id !== '', words.join(' '));
      return { window, id };
    }
    async function show(id: string): Promise<{ phase: string; attempts: Attempt[] }> {
      const { stdout, stderr } = await jobman(world, ['show', id, '--json'], { env });
      assert.ok(stdout !== '', stderr);
      return JSON.parse(stdout) as { phase: string; attempts: Attempt[] };
    }
    async function reaches(
      id: string,
      is: (job: { phase: string; attempts: Attempt[] }) => boolean,
    ): Promise<{ phase: string; attempts: Attempt[] }> {
      let job = await show(id);
      const reached = await eventually(async () => is((job = await show(id))), { withinMs: 120_000, everyMs: 300 });
      assert.ok(
        reached,
        `${JSON.stringify(job)}\n${await log(id)}\n${(await jobman(world, ['why', id], { env })).stdout}`,
      );
      return job;
    }
    const becomes = (id: string, phase: string) => reaches(id, (job) => job.phase === phase);
    async function log(id: string, ...more: string[]): Promise<string> {
      return (await jobman(world, ['logs', id, ...more], { env })).stdout;
    }
    /** What worker 0's program of that attempt was given, once it has said so. */
    async function argsOf(id: string, attempt: number): Promise<string[]> {
      let found: string | undefined;
      const said = await eventually(
        async () => (found = /ARGS (\[.*\])/.exec(await log(id, '--attempt', String(attempt)))?.[1]) !== undefined,
        { withinMs: 90_000, everyMs: 300 },
      );
      assert.ok(said, `attempt ${attempt} of ${id} said nothing\n${await log(id)}`);
      return JSON.parse(found ?? '[]') as string[];
    }
    const valueOf = (args: readonly string[], flag: string): string | undefined =>
      args.find((arg) => arg.startsWith(`${flag}=`))?.slice(flag.length + 1);
    const tmux = (...words: string[]): string => {
      const { stdout, stderr } = spawnSync('tmux', words, { env, encoding: 'utf8' });
      return stdout + stderr;
    };
    /** Processes on this machine, and so on the hosts of the built-in cloud, whose command line has that text. */
    function processesWith(text: string): string[] {
      return readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .map((pid) => {
          try {
            return readFileSync(join('/proc', pid, 'cmdline'), 'latin1').replaceAll('\0', ' ');
          } catch {
            return '';
          }
        })
        .filter((command) => command.includes(text) && command.includes('main.py'));
    }
    /** A working directory with the scripts of the lab. */
    function directory(name: string): string {
      const folder = join(world.folder, name);
      cpSync(join(root, 'test/lab/scripts'), folder, { recursive: true });
      writeFileSync(join(folder, 'mode-file'), join(world.folder, 'mode'));
      return folder;
    }

    before(async () => {
      const home = world.env['HOME'] ?? '';
      mkdirSync(join(home, '.ssh'), { mode: 0o700 });
      // gcloud would make one for itself, of 3072 bits, which takes its time.
      execFileSync('ssh-keygen', [
        '-q',
        '-t',
        'rsa',
        '-b',
        '2048',
        '-N',
        '',
        '-C',
        'ada',
        '-f',
        join(home, '.ssh/google_compute_engine'),
      ]);
      env = {
        TMUX_TMPDIR: world.folder,
        TEST_DATA_ROOT: join(world.folder, 'data'),
        USER: 'ada',
        CLOUDSDK_CONFIG: join(world.folder, 'gcloud'),
        CLOUDSDK_CORE_DISABLE_USAGE_REPORTING: '1',
        CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK: '1',
        ...world.env,
      };
      env['USER'] = 'ada';
      // staging.sh copies there with rsync, which makes one folder and no more.
      mkdirSync(join(world.folder, 'data/staging/ada'), { recursive: true });
      setMode = (mode) => writeFileSync(join(world.folder, 'mode'), mode);
      setMode('succeed');
      const cloud = startJobman(world, ['emulator', 'serve', '--speed', '200'], { env, withinMs: 1_200_000 });
      world.atEnd(async () => {
        await jobman(world, ['controller', 'stop'], { env });
        await jobman(world, ['emulator', 'stop'], { env });
        await cloud.ended;
        tmux('kill-server');
      });
      await cloud.prints('127.0.0.1');
      await ok('add-user', 'name=ada', 'session=ada', 'sheet=Ada', `dir=${directory('code')}`);
      await ok('set-dir', dumping(), '2', 'ada');
      await jobman(world, ['settings', 'set', 'tpu.project', 'emulator'], { env });
      await jobman(world, ['settings', 'set', 'lab.zones', '["us-central2-b"]'], { env });
      for (const [alias, name] of [
        ['v4-1', ondemand],
        ['v4-p1', preemptible],
      ] as const) {
        await ok('register', name, 'zone=us-central2-b');
        await ok('-ta', alias, name);
        await ok('apply', alias);
      }
    });

    /** A working directory whose staging.sh writes down what it was given, as it was given. */
    function dumping(): string {
      const folder = join(world.folder, 'dump');
      mkdirSync(folder);
      writeFileSync(join(folder, 'staging.sh'), `printf '%s\\0' "$@" >"${join(world.folder, 'given')}"\n`);
      return folder;
    }

    test('a run that succeeds: its window, its arguments, its booking', async () => {
      const { window, id } = await begun(
        'run',
        'v4-1',
        'ada',
        'lr=0.01',
        'tag=first',
        'ssn=until_monday',
        '--log-stage',
      );
      assert.equal(window, '1');
      await becomes(id, 'succeeded');
      const args = await argsOf(id, 1);
      assert.deepEqual(args.slice(-2), ['--config.training.learning_rate=0.01', '--config.stage=0']);
      assert.equal(valueOf(args, '--config.load_from'), undefined);
      const output = await log(id);
      assert.match(output, /Current tmux window: ada:1/);
      assert.match(output, /Job completed successfully/);
      // The record knows of the end before the window does, which looks once a second.
      const pane = () => tmux('capture-pane', '-p', '-t', '=ada:1');
      assert.ok(await eventually(() => /its script has ended with exit code 0/.test(pane())), pane());
      assert.match(tmux('list-windows', '-t', '=ada:'), /^1: first/m);
      assert.equal(valueOf(args, '--workdir')?.startsWith(join(world.folder, 'data/logs/ada/vit/')), true);
    });

    test('a program that fails behind a script that ends well has failed', async () => {
      setMode('fail');
      const { id } = await begun('run', ondemand, 'ada', 'ssn=x');
      const job = await becomes(id, 'failed');
      assert.deepEqual(
        job.attempts.map(({ reason }) => reason),
        ['command_failed'],
      );
      assert.match(await log(id), /neither called `tpu finish-job` nor left the line "wandb: Run history:"/);
    });

    test('every value arrives at staging.sh as it was typed', async () => {
      const values = ['a=b', "it's", '"', '$(id)', '`id`', 'a  b', '*', ';', '\\', '两', ''];
      const { id } = await begun(
        'run',
        'v4-1',
        'ada',
        'dir=2',
        ...values.map((value, index) => `config.v${index}=${value}`),
      );
      await becomes(id, 'succeeded');
      assert.deepEqual(readFileSync(join(world.folder, 'given'), 'utf8').split('\0'), [
        `ka=${ondemand}`,
        ...values.map((value, index) => `--config.v${index}=${value}`),
        '',
      ]);
    });

    test('after a GRPC error it goes on, on the same TPU, from the frozen code and its last log folder', async () => {
      setMode('grpc');
      const { id, window } = await begun('run', 'v4-1', 'ada', 'rule=resume', '--log-stage');
      const first = await argsOf(id, 1);
      // The code of the directory changes meanwhile; what goes on runs what it began with.
      await reaches(id, ({ attempts }) => attempts.length === 2);
      setMode('succeed');
      const job = await becomes(id, 'succeeded');
      const last = job.attempts.length;
      assert.deepEqual(job.attempts.map(({ how }) => how).slice(0, 2), ['fresh', 'resume']);
      const before = last === 2 ? first : await argsOf(id, last - 1);
      const args = await argsOf(id, last);
      assert.equal(valueOf(args, '--config.load_from'), valueOf(before, '--workdir'));
      assert.equal(valueOf(args, '--config.stage'), String(last - 1));
      assert.match(await log(id, '--attempt', String(last)), new RegExp(`window ada:${Number(window) + last - 1}:`));
      assert.match(await log(id, '--attempt', String(last)), /goes on from .*\/logs\/ada\/vit\//);
    });

    test('a TPU that the cloud takes is made anew, and the job goes on there', async () => {
      setMode('wait');
      const { id } = await begun('run', 'v4-p1', 'ada');
      const first = await argsOf(id, 1);
      const { code, stderr } = await jobman(world, ['emulator', 'preempt', preemptible], { env });
      assert.equal(code, 0, stderr);
      await reaches(id, ({ attempts }) => attempts.length === 2 && attempts[0]?.reason === 'preempted');
      const second = await argsOf(id, 2);
      assert.equal(valueOf(second, '--config.load_from'), valueOf(first, '--workdir'));
      setMode('succeed');
      await becomes(id, 'succeeded');
    });

    test('kill ends the programs on every host, and says what is over already', async () => {
      setMode('wait');
      const { id, window } = await begun('run', 'v4-1', 'ada');
      const workdir = valueOf(await argsOf(id, 1), '--workdir') ?? 'none';
      assert.ok(processesWith(workdir).length >= 2, 'it runs on two workers');
      const inUse = await tpu('run', 'v4-1', 'ada');
      assert.equal(inUse.code, 4);
      assert.match(inUse.stderr, new RegExp(`Window ${window} \\(job ${id}\\) of ada is running`));
      assert.match(await ok('kill', `w=${window}`, 'ada'), new RegExp(`Job ${id} of ada is killed`));
      assert.equal((await show(id)).phase, 'cancelled');
      assert.ok(await eventually(() => processesWith(workdir).length === 0), processesWith(workdir).join('\n'));
      assert.match(await ok('kill', window, 'ada'), /was killed already/);
    });

    test('a window that is closed by hand lets the job go on, and keeps every rule from running it again', async () => {
      setMode('wait');
      const { id, window } = await begun('run', 'v4-p1', 'ada');
      await argsOf(id, 1);
      tmux('kill-window', '-t', `=ada:${window}`);
      const heard = await eventually(
        async () => /ada said last/.test((await jobman(world, ['history', id], { env })).stdout),
        { withinMs: 30_000, everyMs: 300 },
      );
      assert.ok(heard, (await jobman(world, ['history', id], { env })).stdout);
      assert.equal((await show(id)).phase, 'running');
      setMode('grpc');
      const job = await becomes(id, 'failed');
      assert.deepEqual(
        job.attempts.map(({ reason }) => reason),
        ['command_failed'],
      );
      // Asked for by hand it runs all the same, on another TPU too.
      setMode('wait');
      const child = await begun('resume', `windows=${window}`, 'tpu=v4-1', 'ada');
      const args = await argsOf(child.id, 1);
      assert.equal(valueOf(args, '--config.load_from'), valueOf(await argsOf(id, 1), '--workdir'));
      assert.match(await ok('clean', 'ada'), /^Cleared windows? /m);
      const listed = JSON.stringify(await windows());
      assert.ok(
        listed.includes(`"${window}"`) && listed.includes(`"${child.window}"`),
        `${window} stays beside ${child.window}: ${listed}`,
      );
      setMode('succeed');
      await becomes(child.id, 'succeeded');
      await ok('clean', 'ada');
      assert.deepEqual(await windows(), []);
    });

    /** The windows on the list, by what kill says of one that is not there. */
    async function windows(): Promise<string[]> {
      const { stderr } = await tpu('kill', '999', 'ada');
      return /There are ([\d, ]+)\./.exec(stderr)?.[1]?.split(', ') ?? [];
    }

    test('of two who run on one TPU in the same moment one wins', async () => {
      setMode('succeed');
      const both = await Promise.all([tpu('run', 'v4-1', 'ada', 'dir=2'), tpu('run', 'v4-1', 'ada', 'dir=2')]);
      assert.deepEqual(
        both.map(({ code }) => code).toSorted((one, other) => (one ?? 0) - (other ?? 0)),
        [0, 4],
        both.map(({ stdout, stderr }) => stdout + stderr).join('\n'),
      );
      const id = /job (\d{6})/.exec(both.find(({ code }) => code === 0)?.stdout ?? '')?.[1] ?? '';
      await becomes(id, 'succeeded');
    });

    test('without tmux a stand-in answers the scripts, and the job is the same', async () => {
      const bin = join(world.folder, 'bin');
      mkdirSync(bin);
      const taken = new Set<string>();
      for (const folder of (env['PATH'] ?? '').split(':').filter((one) => existsSync(one))) {
        for (const name of readdirSync(folder)) {
          if (name === 'tmux' || taken.has(name)) continue;
          taken.add(name);
          symlinkSync(join(folder, name), join(bin, name));
        }
      }
      const withTmux = env;
      env = { ...env, PATH: bin };
      const { window, id } = await begun('run', 'v4-1', 'ada');
      await becomes(id, 'succeeded');
      const output = await log(id);
      assert.match(output, new RegExp(`Current tmux window: ada:${window}`));
      assert.match(output, /Job completed successfully/);
      env = withTmux;
      assert.doesNotMatch(tmux('list-windows', '-t', '=ada:'), new RegExp(`^${window}:`, 'm'));
    });

    test('what cannot be run is said, and nothing is begun', async () => {
      const { stdout } = await jobman(world, ['list', '--all', '--json'], { env });
      const cases: readonly (readonly [number, RegExp, ...string[]])[] = [
        [3, /ada has no working directory 7/, 'run', 'v4-1', 'ada', 'dir=7'],
        [2, /`lrr` is none of your aliases.*Did you mean lr=\?/, 'run', 'v4-1', 'ada', 'lrr=1'],
        [3, /The registry has no TPU of type v3-8/, 'run', 'v3-8', 'ada'],
        [3, /ada has no window 999/, 'resume', 'windows=999', 'ada'],
      ];
      for (const [code, says, ...words] of cases) {
        const ended = await tpu(...words);
        assert.equal(ended.code, code, words.join(' ') + ended.stderr);
        assert.match(ended.stderr, says);
      }
      assert.equal(
        (await jobman(world, ['list', '--all', '--json'], { env })).stdout.split('\n').length,
        stdout.split('\n').length,
      );
    });
  },
);
