/**
 * Jobs of the `tpu` command with the lab's own scripts: staging.sh and run_remote.sh as their manual prints them
 * (except for one user's folder), with the real tmux, rsync, sudo and gcloud, on hosts of the TPU emulator.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman, startJobman } from '../support/jobman.ts';
import { openLab, trainingProcesses, flagValue, labSkipReason, type LabFixture } from '../support/lab.ts';
import { openWorld, type World } from '../support/world.ts';

describe('tpu run', { skip: labSkipReason() }, () => {
  const world: World = openWorld({ after }, { patienceMs: 20_000 });
  let lab: LabFixture;
  const ondemand = 'lab-v4-16-1';
  const preemptible = 'lab-v4-16-preemptible-1';
  const zone = 'us-central2-b';

  before(async () => {
    lab = await openLab(world, 'ada', zone);
    await lab.runOk('add-user', 'name=ada', 'session=ada', 'sheet=Ada', `dir=${lab.createDirectory('code')}`);
    await lab.runOk('set-dir', dumping(), '2', 'ada');
    for (const [alias, name] of [
      ['v4-1', ondemand],
      ['v4-p1', preemptible],
    ] as const) {
      await lab.runOk('register', name, `zone=${zone}`);
      await lab.runOk('-ta', alias, name);
      await lab.runOk('apply', alias);
    }
  });

  /** A working directory whose staging.sh stores its arguments unchanged. Its last line confirms the success. */
  function dumping(): string {
    const folder = join(world.folder, 'dump');
    mkdirSync(folder);
    const given = join(world.folder, 'given');
    writeFileSync(join(folder, 'staging.sh'), `printf '%s\\0' "$@" >"${given}"\necho 'wandb: Run history:'\n`);
    return folder;
  }

  test('a successful run: its window, its arguments, its booking', async () => {
    const { window, id } = await lab.startJob(
      'run',
      'v4-1',
      'ada',
      'lr=0.01',
      'tag=first',
      'ssn=until_monday',
      '--log-stage',
    );
    assert.equal(window, '1');
    await lab.waitForPhase(id, 'succeeded');
    const args = await lab.programArgs(id, 1);
    assert.deepEqual(args.slice(-2), ['--config.training.learning_rate=0.01', '--config.stage=0']);
    assert.equal(flagValue(args, '--config.load_from'), undefined);
    const output = await lab.log(id);
    assert.match(output, /Current tmux window: ada:1/);
    assert.match(output, /Job completed successfully/);
    // The window checks once a second, so the database knows of the end earlier.
    const pane = () => lab.tmux('capture-pane', '-p', '-t', '=ada:1');
    assert.ok(await eventually(() => /the script exited with code 0/.test(pane())), pane());
    assert.match(lab.tmux('list-windows', '-t', '=ada:'), /^1: first/m);
    assert.equal(flagValue(args, '--workdir')?.startsWith(join(world.folder, 'data/logs/ada/vit/')), true);
  });

  test('a failed program is a failure, even if its script succeeds', async () => {
    lab.setMode('fail');
    const { id } = await lab.startJob('run', ondemand, 'ada', 'ssn=x');
    const job = await lab.waitForPhase(id, 'failed');
    assert.deepEqual(
      job.attempts.map(({ reason }) => reason),
      ['command_failed'],
    );
    assert.match(await lab.log(id), /did not call `tpu finish-job`, and its log has no line "wandb: Run history:"/);
    assert.match(await lab.runOk('find', 'style=full'), new RegExp(`${ondemand} +reserved +Ada`));
  });

  test('every value arrives at staging.sh as it was typed', async () => {
    const values = ['a=b', "it's", '"', '$(id)', '`id`', 'a  b', '*', ';', '\\', '两', ''];
    const { id } = await lab.startJob(
      'run',
      'v4-1',
      'ada',
      'dir=2',
      ...values.map((value, index) => `config.v${index}=${value}`),
    );
    await lab.waitForPhase(id, 'succeeded');
    assert.deepEqual(readFileSync(join(world.folder, 'given'), 'utf8').split('\0'), [
      `ka=${ondemand}`,
      ...values.map((value, index) => `--config.v${index}=${value}`),
      '',
    ]);
  });

  test('after a GRPC error the job resumes on the same TPU, from the frozen code and its last log folder', async () => {
    lab.setMode('grpc');
    const { id, window } = await lab.startJob('run', 'v4-1', 'ada', 'rule=resume', '--log-stage');
    const first = await lab.programArgs(id, 1);
    // The directory's code changes meanwhile, and the resumed job still runs the frozen one.
    await lab.waitUntil(id, ({ attempts }) => attempts.length === 2);
    lab.setMode('succeed');
    const job = await lab.waitForPhase(id, 'succeeded');
    const last = job.attempts.length;
    assert.deepEqual(job.attempts.map(({ startMode }) => startMode).slice(0, 2), ['fresh', 'resume']);
    const before = last === 2 ? first : await lab.programArgs(id, last - 1);
    const args = await lab.programArgs(id, last);
    assert.equal(flagValue(args, '--config.load_from'), flagValue(before, '--workdir'));
    assert.equal(flagValue(args, '--config.stage'), String(last - 1));
    assert.match(await lab.log(id, '--attempt', String(last)), new RegExp(`window ada:${Number(window) + last - 1}:`));
    assert.match(await lab.log(id, '--attempt', String(last)), /resumed from .*\/logs\/ada\/vit\//);
  });

  test('a preempted TPU is recreated, and the job resumes on it', async () => {
    lab.setMode('wait');
    const { id } = await lab.startJob('run', 'v4-p1', 'ada');
    const first = await lab.programArgs(id, 1);
    const { code, stderr } = await jobman(world, ['emulator', 'preempt', 'v4-p1'], { env: lab.env });
    assert.equal(code, 0, stderr);
    await lab.waitUntil(id, ({ attempts }) => attempts.length === 2 && attempts[0]?.reason === 'preempted');
    const second = await lab.programArgs(id, 2);
    assert.equal(flagValue(second, '--config.load_from'), flagValue(first, '--workdir'));
    // The end of the first attempt has left the booking reserved.
    assert.match(await lab.runOk('find', 'style=full'), new RegExp(`${preemptible} +running +Ada`));
    lab.setMode('succeed');
    await lab.waitForPhase(id, 'succeeded');
    assert.match(await lab.runOk('find', 'style=full'), new RegExp(`${preemptible} +reserved +Ada`));
  });

  test('kill ends the programs on every host, and names finished windows', async () => {
    lab.setMode('wait');
    const { id, window } = await lab.startJob('run', 'v4-1', 'ada');
    const workdir = flagValue(await lab.programArgs(id, 1), '--workdir') ?? 'none';
    assert.ok(await eventually(() => trainingProcesses(workdir).length >= 2), 'it runs on two workers');
    const inUse = await lab.tpu(['run', 'v4-1', 'ada']);
    assert.equal(inUse.code, 4);
    assert.match(inUse.stderr, new RegExp(`Window ${window} \\(job ${id}\\) of ada has been running`));
    assert.match(
      await lab.runOk('kill', `w=${window}`, 'ada'),
      new RegExp(`Killed window ${window} \\(job ${id}\\) of ada`),
    );
    assert.equal((await lab.show(id)).phase, 'cancelled');
    assert.ok(await eventually(() => trainingProcesses(workdir).length === 0), trainingProcesses(workdir).join('\n'));
    assert.match(await lab.runOk('kill', window, 'ada'), /was killed already/);
  });

  test('kill -9 of a kill: it has ended all of its jobs or none, and the same command finishes', async () => {
    lab.setMode('wait');
    const jobs = [await lab.startJob('run', 'v4-1', 'ada'), await lab.startJob('run', 'v4-p1', 'ada')];
    const folders: string[] = [];
    for (const { id } of jobs) folders.push(flagValue(await lab.programArgs(id, 1), '--workdir') ?? 'none');
    const command = ['kill', `windows=${jobs.map(({ window }) => window).join(',')}`, 'ada'];
    const killing = startJobman(world, ['tpu', ...command], { env: lab.env });
    const isEnding = async (id: string) => !['setup', 'running'].includes((await lab.show(id)).phase);
    const [first, second] = jobs as [(typeof jobs)[0], (typeof jobs)[0]];
    assert.ok(await eventually(() => isEnding(first.id), { everyMs: 20 }));
    killing.child.kill('SIGKILL');
    await killing.result.catch(() => undefined);
    assert.ok(await isEnding(second.id));
    await lab.runOk(...command);
    for (const { id } of jobs) assert.equal((await lab.show(id)).phase, 'cancelled');
    assert.deepEqual(folders.flatMap(trainingProcesses), []);
  });

  test('a window that is closed manually does not stop the job, and disables every rule of it', async () => {
    lab.setMode('wait');
    const { id, window } = await lab.startJob('run', 'v4-p1', 'ada');
    await lab.programArgs(id, 1);
    lab.tmux('kill-window', '-t', `=ada:${window}`);
    const heard = await eventually(
      async () =>
        /ada requested disable-recovery/.test((await jobman(world, ['history', id], { env: lab.env })).stdout),
      { withinMs: 90_000, everyMs: 300 },
    );
    assert.ok(heard, (await jobman(world, ['history', id], { env: lab.env })).stdout);
    assert.equal((await lab.show(id)).phase, 'running');
    lab.setMode('grpc');
    const job = await lab.waitForPhase(id, 'failed');
    assert.deepEqual(
      job.attempts.map(({ reason }) => reason),
      ['command_failed'],
    );
    // The user can still run it again, also on another TPU.
    lab.setMode('wait');
    const child = await lab.startJob('resume', `windows=${window}`, 'tpu=v4-1', 'ada');
    const args = await lab.programArgs(child.id, 1);
    assert.equal(flagValue(args, '--config.load_from'), flagValue(await lab.programArgs(id, 1), '--workdir'));
    assert.match(await lab.runOk('clean', 'ada'), /^Cleared windows? /m);
    const listed = JSON.stringify(await windows());
    assert.ok(
      listed.includes(`"${window}"`) && listed.includes(`"${child.window}"`),
      `${window} stays listed next to ${child.window}: ${listed}`,
    );
    lab.setMode('succeed');
    await lab.waitForPhase(child.id, 'succeeded');
    await lab.runOk('clean', 'ada');
    assert.deepEqual(await windows(), []);
  });

  /** The windows on the list, from the message of kill about a missing one. */
  async function windows(): Promise<string[]> {
    const { stderr } = await lab.tpu(['kill', '999', 'ada']);
    return /(?:There are|The only one is) ([\d, ]+)\./.exec(stderr)?.[1]?.split(', ') ?? [];
  }

  test('of two jobs that start on one TPU at the same time one wins', async () => {
    lab.setMode('succeed');
    const both = await Promise.all([
      lab.tpu(['run', 'v4-1', 'ada', 'dir=2']),
      lab.tpu(['run', 'v4-1', 'ada', 'dir=2']),
    ]);
    assert.deepEqual(
      both.map(({ code }) => code).toSorted((one, other) => (one ?? 0) - (other ?? 0)),
      [0, 4],
      both.map(({ stdout, stderr }) => stdout + stderr).join('\n'),
    );
    const id = /job (\d{6})/.exec(both.find(({ code }) => code === 0)?.stdout ?? '')?.[1] ?? '';
    await lab.waitForPhase(id, 'succeeded');
  });

  test('kill -9 of a run that creates its TPU: the job creates it and runs; a second run is refused', async () => {
    const name = 'lab-v4-8-3';
    await lab.runOk('register', name, `zone=${zone}`);
    const emulator = async (...args: string[]) => {
      const { code, stderr } = await jobman(world, ['emulator', ...args], { env: lab.env });
      assert.equal(code, 0, stderr);
    };
    const jobs = async () =>
      (await jobman(world, ['list', '--all', '--json'], { env: lab.env })).stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { readonly id: string }).id);
    const before = await jobs();
    await emulator('hold', zone);
    const running = startJobman(world, ['tpu', 'run', name, 'ada', 'dir=2', '-apply'], { env: lab.env });
    const created = await eventually(async () => (await jobs()).find((id) => !before.includes(id)), { everyMs: 20 });
    running.child.kill('SIGKILL');
    await running.result.catch(() => undefined);
    const again = await lab.tpu(['run', name, 'ada', 'dir=2', '-apply']);
    assert.equal(again.code, 4, again.stdout);
    const apply = startJobman(world, ['tpu', 'apply', name], { env: lab.env });
    await apply.waitForOutput(new RegExp(`Job ${created} .* does that already\\. Following it`));
    await emulator('clear');
    const applied = await apply.result;
    assert.deepEqual([applied.code, applied.stdout], [0, `${name} is ready.\n`], applied.stderr);
    await lab.waitForPhase(created ?? '', 'succeeded');
    assert.equal((await jobs()).length, before.length + 1);
    assert.match(await lab.runOk('find', 'style=full'), new RegExp(`${name} +reserved +Ada`));
  });

  test('a run on a TPU that its zone does not offer is refused, and nothing is created', async () => {
    const name = 'lab-v4-8-4';
    await lab.runOk('register', name, 'zone=us-west4-a');
    const refused = await lab.tpu(['run', name, 'ada', 'dir=2', '-apply']);
    assert.deepEqual([refused.code, refused.stdout], [2, '']);
    assert.match(refused.stderr, /us-west4-a has no v4-8: only us-central2-b offers it/);
    assert.doesNotMatch(await lab.runOk('find', 'style=full'), new RegExp(`${name} +reserved`));
  });

  test('without tmux a replacement answers the scripts, and the job is the same', async () => {
    const bin = join(world.folder, 'bin');
    mkdirSync(bin);
    const taken = new Set<string>();
    for (const folder of (lab.env['PATH'] ?? '').split(':').filter((one) => existsSync(one))) {
      for (const name of readdirSync(folder)) {
        if (name === 'tmux' || taken.has(name)) continue;
        taken.add(name);
        symlinkSync(join(folder, name), join(bin, name));
      }
    }
    const withTmux = lab.env;
    let begun: Awaited<ReturnType<LabFixture['startJob']>>;
    try {
      lab.env = { ...withTmux, PATH: bin };
      begun = await lab.startJob('run', 'v4-1', 'ada');
      await lab.waitForPhase(begun.id, 'succeeded');
      const output = await lab.log(begun.id);
      assert.match(output, new RegExp(`Current tmux window: ada:${begun.window}`));
      assert.match(output, /Job completed successfully/);
    } finally {
      // Otherwise the cleanup finds no tmux to end.
      lab.env = withTmux;
    }
    assert.doesNotMatch(lab.tmux('list-windows', '-t', '=ada:'), new RegExp(`^${begun.window}:`, 'm'));
  });
});
