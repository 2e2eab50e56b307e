// run, resume, rerun, kill and the tidying of lists: what is asked, what is refused, and what stands in the record afterwards.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TpuSpec } from '../../../src/core/model/spec.ts';
import { aReport } from '../../lab/sample.ts';
import { tpuSpec } from '../../support/builders.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import type { DeviceHolder, TpuState } from '../../../src/lab/tpu-operations.ts';
import { hour } from '../../../src/core/model/time.ts';
import type { CliHarnessOptions } from '../support/harness.ts';
import { openLabJobWorld, terminal, type LabJobWorld } from './lab-job-world.ts';
import { aTpu } from './lab-world.ts';

const six = 'kmh-tpuvm-v2-32-6';
const seven = 'kmh-tpuvm-v2-32-7';
const p1 = 'kmh-tpuvm-v2-32-preemptible-1';
const is = (state: string): TpuState => ({ kind: 'known', state, zone: 'us-central2-b', workers: 4 });
const aHolder: DeviceHolder = { worker: 0, pid: 77, user: 'root', command: 'python3 other.py' };

async function jobCount({ client }: LabJobWorld): Promise<number> {
  return (await client.list({ all: true })).rows.length;
}

/** The requests in the history of a job. */
async function asks({ client }: LabJobWorld, id: string) {
  return (await client.events(id, 0)).flatMap(({ event }) => (event.kind === 'command_received' ? [event] : []));
}

async function booked({ record }: LabJobWorld, tpu: string): Promise<string> {
  const row = (await record.bookings()).find((one) => one.tpu === tpu);
  return row === undefined ? 'free' : `${row.status} ${row.user} ${row.scriptNote}`.trim();
}

suite('run', () => {
  test('makes a job of the user, on a TPU that stands, with its booking and its window', async (t) => {
    const world = await openLabJobWorld(t);
    const { id, window } = await world.run(
      'v2-32-6',
      'xibo',
      'lr=0.01',
      'tag=sweep',
      'ssn=until_monday',
      '--log-stage',
    );
    const job = await world.record.job(id);
    assert.deepEqual(
      [window, job?.user, job?.tpu, job?.configs, job?.tag, job?.logStage, job?.parent],
      [1, 'xibo', six, ['--config.training.learning_rate=0.01'], 'sweep', true, null],
    );
    assert.equal(await booked(world, six), 'running xibo until monday');
    const { spec } = await world.client.show(id);
    assert.deepEqual(
      [spec.command.runsOn, spec.capacity.ownership, spec.recovery.preset],
      ['controller', 'persistent', 'pass'],
    );
    const p = await world.run('v2-32-p1', 'xibo', 'rule=rerun', 'monitor=False', '-q');
    assert.deepEqual([p.window, (await world.client.show(p.id)).spec.recovery.rules], [2, []]);
  });

  test('by its full name, by the one in ka.sh, and by what is free of a type', async (t) => {
    const world = await openLabJobWorld(t);
    writeFileSync(join(world.folder, 'xibo/ka.sh'), 'export VM_NAME=v2-32-7\n');
    const tpuOf = async (...args: string[]) => (await world.record.job((await world.run(...args)).id))?.tpu;
    assert.equal(await tpuOf(six, 'xibo'), six);
    assert.equal(await tpuOf('xibo'), seven);
    world.tpuStates.set(p1, is('ready'));
    assert.equal(await tpuOf('v2-32', 'xibo'), p1, 'the others are in use by now');
    const none = await world.tpu(['run', '-auto', 'xibo']);
    assert.equal(none.code, exitCode.conflict);
    assert.match(none.err, /No TPU is free\.\n.*v2-32-6: job 000001 of xibo is/);
    await world.record.changeTpu('v4-8-1', () => aTpu('v4-8-1', { accelerator: 'v4-8' }));
    world.tpuStates.set('v4-8-1', is('absent'));
    const absent = await world.tpu(['run', 'v4-8', 'xibo']);
    assert.match(
      absent.err,
      /v4-8-1: the cloud has none of that name\n {2}tpu run v4-8-1 xibo -apply {4}creates it first/,
    );
    world.tpuStates.set('v4-8-1', { kind: 'unknown', message: 'no login' });
    const unsure = await world.tpu(['run', 'v4-8', 'xibo']);
    assert.deepEqual([unsure.code, /cannot be told now.*\n.*v4-8-1: no login/.test(unsure.err)], [5, true], unsure.err);
    const lacking = await world.tpu(['run', 'lyy']);
    assert.equal(lacking.code, exitCode.usage);
    assert.match(lacking.err, /Which TPU\? The line names none, and there is no .*ka\.sh/);
    const asked = await world.tpu(['run', 'lyy', '-q', '-f'], { terminal, input: ['v2-32-7'] });
    assert.match(asked.out, /^Window 1: job 000004 runs .* on v2-32-7/m, asked.err);
  });

  test('one question tells of everybody who uses it; nothing is changed before the yes', async (t) => {
    const world = await openLabJobWorld(t);
    const first = await world.run('v2-32-6', 'xibo', 'ssn=for_mine');
    world.holders.set(six, [aHolder]);
    const script = await world.tpu(['run', 'v2-32-6', 'lyy']);
    assert.equal(script.code, exitCode.conflict);
    assert.match(script.err, /Window 1 \(job 000001\) of xibo is .* on v2-32-6/);
    assert.match(script.err, /xibo runs on v2-32-6/);
    assert.match(script.err, /Process 77 on worker 0 \(root\) holds its device: python3 other\.py/);
    assert.match(script.err, /-f takes it all the same; --yes/);
    const no = await world.tpu(['run', 'v2-32-6', 'lyy'], { terminal, input: ['n'] });
    assert.deepEqual(
      [no.code, await jobCount(world), await booked(world, six), world.actions],
      [4, 1, 'running xibo for mine', []],
    );
    await world.tpu(['book', 'v2-32-7', 'xibo', 'ssn=mine\n\u001B[2Jgone']);
    const noted = await world.tpu(['run', 'v2-32-7', 'lyy'], { terminal, input: ['n'] });
    assert.match(noted.err, /"mine\\x0a\\x1b\[2Jgone"/, "other people's words change no screen");
    const yes = await world.tpu(['run', 'v2-32-6', 'lyy', '-q'], { terminal, input: ['y'] });
    assert.equal(yes.code, 0, yes.err);
    assert.equal((await world.client.show(first.id)).phase, 'cancelled');
    assert.equal((await asks(world, first.id))[0]?.by, 'lyy', 'history names who did it');
    // The note was about what ran there before.
    assert.deepEqual([world.actions, await booked(world, six)], [[`end on ${six}: 0/77`], 'running lyy']);
  });

  test('a job of a manifest that stands on the TPU is told and ended as one of the lab is', async (t) => {
    const world = await openLabJobWorld(t);
    const capacity = { ...tpuSpec().capacity, ownership: 'persistent', name: six } as TpuSpec;
    const { id } = await world.client.create({ spec: tpuSpec({ capacity }), manifest: '', owner: 'ada' });
    const refused = await world.tpu(['run', 'v2-32-6', 'xibo']);
    assert.equal(refused.code, exitCode.conflict);
    assert.match(refused.err, new RegExp(`Job ${id} \\(vit\\) of ada is queued on v2-32-6`));
    assert.equal((await world.tpu(['run', 'v2-32-6', 'xibo', '--yes'])).code, 0);
    assert.equal((await world.client.show(id)).phase, 'cancelled');
  });

  test('-f takes it without a question, -apply makes it anew without one', async (t) => {
    const world = await openLabJobWorld(t);
    await world.run('v2-32-6', 'xibo');
    assert.equal((await world.tpu(['run', 'v2-32-6', 'lyy', '-f'])).code, 0);
    world.tpuStates.set(p1, is('preempted'));
    const refused = await world.tpu(['run', 'v2-32-p1', 'lyy']);
    assert.equal(refused.code, exitCode.usage);
    assert.match(
      refused.err,
      /The cloud calls v2-32-preemptible-1 preempted, and it would be made anew\.\n.*-apply makes it/s,
    );
    assert.equal((await world.tpu(['run', 'v2-32-p1', 'lyy', '-apply'])).code, 0);
    world.tpuStates.set(seven, is('absent'));
    assert.equal((await world.tpu(['run', 'v2-32-7', 'lyy', '-q'], { terminal, input: ['yes'] })).code, 0);
    assert.deepEqual(world.actions.slice(-2), [`reapply ${p1}`, `apply ${seven}`]);
  });

  test('a state that passes by itself, and a cloud that does not answer, begin nothing', async (t) => {
    const world = await openLabJobWorld(t);
    for (const [state, code, message] of [
      [is('creating'), 4, /v2-32-6 is creating, so nothing can run there now/],
      [is('stopped'), 4, /is stopped.*\n.*tpu restart/],
      [
        { kind: 'unknown', message: 'the line is cut' },
        5,
        /cannot be told now; nothing was begun\.\n.*the line is cut/,
      ],
    ] as const) {
      world.tpuStates.set(six, state);
      const result = await world.tpu(['run', 'v2-32-6', 'xibo', '--yes']);
      assert.equal(result.code, code);
      assert.match(result.err, message);
    }
    assert.deepEqual([await jobCount(world), await booked(world, six)], [0, 'free']);
  });

  test('a sheet that does not answer is a remark; one that somebody was quicker in is a conflict', async (t) => {
    const world = await openLabJobWorld(t);
    const own = world.sheet;
    world.sheet = () => Promise.reject(new JobmanError('the sheet sleeps.', exitCode.unreachable, ['no route']));
    const result = await world.tpu(['run', 'v2-32-6', 'xibo']);
    assert.equal(result.code, 0);
    assert.match(result.err, /Who has booked it cannot be told: the sheet sleeps \(no route\)\./);
    assert.match((await world.tpu(['describe', 'v2-32-7'])).out, /^Booked +nobody can tell now$/m);
    assert.match(result.err, /The booking sheet was not changed: the sheet sleeps/);
    const sheet = await own();
    world.sheet = async () => ({
      ...sheet,
      async change(...args) {
        await sheet.change(seven, { status: 'reserved', user: 'somebody' });
        return sheet.change(...args);
      },
    });
    const late = await world.tpu(['run', 'v2-32-7', 'xibo', '--yes']);
    assert.equal(late.code, exitCode.conflict);
    assert.match(late.err, /was booked in this moment: somebody has it now/);
    assert.equal(await jobCount(world), 1);
  });

  test('of two in the same moment one wins, also where both are of one user; the other leaves neither job nor booking', async (t) => {
    for (const other of ['lyy', 'xibo']) {
      const world = await openLabJobWorld(t);
      const both = await Promise.all(['xibo', other].map((user) => world.tpu(['run', 'v2-32-6', user])));
      const codes = both.map(({ code }) => code).toSorted((one, two) => one - two);
      assert.deepEqual(codes, [0, 4], JSON.stringify(both));
      const { rows } = await world.client.list({});
      const queued = rows.filter(({ phase }) => phase === 'queued');
      assert.equal(queued.length, 1);
      assert.equal(await booked(world, six), `running ${queued[0]?.owner}`);
    }
  });

  test('a directory that is gone, has no staging.sh or was never set, and a tag that cannot be one', async (t) => {
    const world = await openLabJobWorld(t);
    const cases: readonly (readonly [number, RegExp, ...string[]])[] = [
      [3, /Working directory 2 of xibo is gone/, 'dir=2'],
      [3, /xibo has no working directory 9/, 'dir=9'],
      [2, /"a\/b" cannot be the name of a tag/, 'tag=a/b'],
      [2, /Nobody can be asked for the notes/, '-ssn'],
    ];
    for (const [code, message, ...args] of cases) {
      const result = await world.tpu(['run', 'v2-32-6', 'xibo', ...args]);
      assert.equal(result.code, code, result.err);
      assert.match(result.err, message);
    }
    rmSync(join(world.folder, 'xibo/staging.sh'));
    assert.match((await world.tpu(['run', 'v2-32-6', 'xibo'])).err, /has no staging\.sh/);
    assert.equal(await jobCount(world), 0);
  });
});

suite('kill', () => {
  test('ends the job, shows what else holds the TPU, and ends that on a yes only', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.record.reportWindow('xibo', 1, aReport('/l/1', '/s/1', six));
    world.holders.set(six, [aHolder]);
    const result = await world.tpu(['kill', 'w=1', 'xibo'], { terminal, input: ['n'] });
    assert.equal(result.code, 0, result.err);
    assert.equal((await world.client.show(id)).phase, 'cancelled');
    assert.deepEqual(world.actions, [`end on ${six}: /l/1 /s/1`]);
    assert.equal(
      await booked(world, six),
      'reserved xibo',
      'though no script of it has begun that could say so at its end',
    );
    assert.match(result.err, /process 77 on worker 0 \(root\) holds its device: python3 other\.py/);
    assert.match((await world.tpu(['kill', '1', 'xibo'])).out, /Window 1 \(job 000001\) of xibo was killed already/);
    await world.run('v2-32-6', 'xibo', '-f');
    await world.run('v2-32-7', 'xibo');
    world.holders.set(six, [aHolder]);
    assert.equal((await world.tpu(['kill', 'v2-32-6', 'xibo'], { terminal, input: ['y'] })).code, 0);
    assert.equal(world.actions.at(-1), `end on ${six}: 0/77`);
    assert.equal((await world.client.show('2')).phase, 'cancelled');
    assert.equal((await world.client.show('3')).phase, 'queued', 'what runs elsewhere is left alone');
  });

  test('a job that has taken its place there is left alone', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    const other = await world.run('v2-32-7', 'lyy');
    await world.record.changeJob(other.id, (job) => ({ ...job, tpu: six }));
    await world.record.reportWindow('lyy', 1, aReport('/l/2', '/s/2', six));
    world.holders.set(six, [{ ...aHolder, command: 'python3 main.py --workdir=/l/2' }]);
    const result = await world.tpu(['kill', '1', 'xibo', '--yes']);
    assert.deepEqual([result.code, result.err, world.actions], [0, '', []]);
    assert.equal((await world.client.show(id)).phase, 'cancelled');
    world.holders.set(six, [aHolder]);
    const third = await world.run('v2-32-7', 'xibo', '-f');
    await world.record.changeJob(third.id, (job) => ({ ...job, tpu: six }));
    const script = await world.tpu(['kill', String(third.window), 'xibo']);
    assert.match(script.err, /none of the job's, and was left alone\. To see to it: tpu solve kmh-tpuvm-v2-32-6/);
  });

  test('prints an object for each job with --json', async (t) => {
    const world = await openLabJobWorld(t);
    await world.run('v2-32-6', 'xibo');
    const job = { window: 1, job: '000001', user: 'xibo', phase: 'cancelled' };
    for (const killed of [true, false]) {
      const { out, code } = await world.tpu(['kill', '1', 'xibo', '--json']);
      assert.equal(code, 0);
      assert.deepEqual(JSON.parse(out), { ...job, killed });
    }
  });

  test('what is over, not there, or not said', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.finishJob(id, 'succeeded');
    const over = await world.tpu(['kill', '1', 'xibo']);
    assert.deepEqual(
      [over.code, over.out],
      [4, 'Window 1 (job 000001) of xibo has succeeded already; there is nothing to end.\n'],
    );
    assert.equal((await world.tpu(['kill', '5', 'xibo'])).code, 3);
    assert.equal((await world.tpu(['kill', 'v2-32-7', 'xibo'])).code, 3);
    assert.equal((await world.tpu(['kill', 'xibo'])).code, 2);
  });

  test('somebody else is asked first, and stands in the history', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    const env = { TPU_USER: 'lyy' };
    const refused = await world.tpu(['kill', '1', 'xibo'], { env });
    assert.equal(refused.code, exitCode.usage);
    assert.match(refused.err, /You are lyy, and this would kill a job for xibo.*--yes/);
    assert.equal((await world.tpu(['kill', '1', 'xibo', '--yes'], { env })).code, 0);
    assert.ok((await asks(world, id)).some(({ verb, by }) => verb === 'cancel' && by === 'lyy'));
  });
});

suite('resume and rerun', () => {
  test('on the same TPU the job has another attempt, with a window of its own', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    const early = await world.tpu(['resume', 'windows=1', 'xibo']);
    assert.equal(early.code, exitCode.conflict);
    assert.match(early.err, /Window 1 of xibo \(job 000001\) is .* already\.\n.*tpu kill 1 xibo/);
    await world.finishJob(id, 'failed');
    const result = await world.tpu(['resume', 'windows=1', 'xibo']);
    assert.equal(result.out, 'Window 2: job 000001 resumes window 1 on v2-32-6\n', result.err);
    assert.match(result.err, /Window 1 has never told where its log is .* it begins from the start\./);
    assert.ok((await asks(world, id)).some(({ verb }) => verb === 'resume'));
    assert.equal(await jobCount(world), 1);
  });

  test('on another TPU a job comes of it that names its parent and counts on', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-p1', 'xibo', 'lr=1', '--log-stage');
    await world.record.reportWindow('xibo', 1, aReport('/l/1', '/s/1', p1));
    await world.finishJob(id, 'failed', 3);
    const result = await world.tpu(['resume', 'w=1', 'tpu=v2-32-6', 'xibo']);
    assert.equal(result.code, 0, result.err);
    assert.doesNotMatch(result.err, /from the start/);
    const child = await world.record.job('000002');
    assert.deepEqual(
      [child?.tpu, child?.parent, child?.baseStage, child?.configs, child?.logStage],
      [six, { job: id, attempt: 3, startMode: 'resume' }, 3, ['--config.training.learning_rate=1'], true],
    );
    const { spec } = await world.client.show('2');
    assert.deepEqual([spec.recovery.preset, spec.capacity.kind === 'tpu' && spec.capacity.name], ['pass', six]);
    await world.tpu(['rerun', 'w=1', 'tpu=v2-32-7', 'xibo']);
    const other = await world.record.job('000003');
    assert.deepEqual([other?.parent?.startMode, other?.baseStage], ['rerun', 0]);
  });

  test('what is under way there is ended first, and that is asked', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-p1', 'xibo');
    const refused = await world.tpu(['resume', 'w=1', 'tpu=v2-32-6', 'xibo']);
    assert.equal(refused.code, exitCode.usage);
    assert.match(refused.err, /Window 1 is .* on v2-32-preemptible-1, and would be ended/);
    assert.equal((await world.tpu(['resume', 'w=1', 'tpu=v2-32-6', 'xibo', '--yes'])).code, 0);
    assert.equal((await world.client.show(id)).phase, 'cancelled');
    assert.equal((await world.record.job('000002'))?.parent?.job, id);
  });
});

suite('the end of a script', () => {
  const reportFor = (tpu: string) => ({ logFolder: '/l/1', stageFolder: '/s/1', tpu, startTime: 'x', at: 1 });
  const end = (world: LabJobWorld, id: string, ...args: string[]) =>
    world.tpu(['__end', ...args], { env: { JOBMAN_JOB_ID: id, JOBMAN_ATTEMPT: '1' } });

  test('every end reserves the TPU for whoever ran there; a failure ends what it left on the workers', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    const failure = join(world.folder, 'failure');
    // A script that calls neither of the two lines, and whose program failed.
    writeFileSync(join(world.folder, 'log'), 'ep=1\nValueError: bad shape\nJob failed\n');
    const stale = await end(world, id, world.folder, '0');
    assert.deepEqual([stale.out, await booked(world, six)], ['0\n', 'reserved xibo']);
    assert.match(
      stale.err,
      /called neither `tpu upd-log` nor `tpu finish-job`.*; last error in its log: ValueError: bad shape/,
    );
    assert.match(readFileSync(failure, 'utf8'), /^exit code 0, but the script .*ValueError: bad shape\n$/);
    rmSync(failure);
    await world.record.reportWindow('xibo', 1, reportFor(six));
    const unproven = await end(world, id, world.folder, '0');
    assert.equal(unproven.out, '0\n', 'the exit code stays what it was');
    assert.match(
      readFileSync(failure, 'utf8'),
      /did not call `tpu finish-job`, and its log has no line "wandb: Run history:"/,
    );
    rmSync(failure);
    // The script of a job that an earlier version created does not say where its run folder is.
    assert.equal((await end(world, id, '0')).out, '1\n');
    world.actions.splice(1);
    assert.deepEqual(world.actions, [`end on ${six}: /l/1 /s/1`]);
    // What is killed or has failed does not run there any more, whatever comes of the job.
    for (const args of [['1'], ['--stopped', '143']]) {
      await (await world.sheet()).change(six, { status: 'running' });
      await end(world, id, ...args);
      assert.equal(await booked(world, six), 'reserved xibo', args.join(' '));
    }
    await (await world.sheet()).change(six, { status: 'running', user: 'lyy' });
    await end(world, id, '1');
    assert.equal(await booked(world, six), 'running lyy');
    await world.record.finishWindow('xibo', 1, 2);
    assert.equal((await end(world, id, world.folder, '0')).out, '0\n');
    assert.equal(existsSync(failure), false);
    assert.equal((await end(world, id, '--stopped', '143')).out, '143\n');
    assert.equal(world.actions.length, 5);
  });

  test('an attempt waits for a worker that is silent to end what an earlier one left there; beyond patience it does not begin', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.record.reportWindow('xibo', 1, { ...reportFor(six), stageFolder: join(world.folder, 'xibo') });
    await world.finishJob(id, 'failed');
    await world.tpu(['resume', 'w=1', 'xibo']);
    const begin = (options: CliHarnessOptions = {}) =>
      world.tpu(['__begin', world.folder], { env: { JOBMAN_JOB_ID: id, JOBMAN_ATTEMPT: '2' }, ...options });
    world.unreachableTpus.add(six);
    let time = 0;
    const refused = await begin({ now: () => (time += hour) });
    assert.deepEqual([refused.code, refused.out], [exitCode.unreachable, '']);
    assert.match(refused.err, /may be running still: worker 1 does not answer \(no route\)\. This one was not begun\./);
    const answering = setTimeout(() => world.unreachableTpus.delete(six), 100);
    const begun = await begin();
    clearTimeout(answering);
    assert.match(
      begun.err,
      /^-- waits to end what earlier attempts may have left: worker 1 does not answer \(no route\)$/m,
    );
    assert.equal(begun.err.match(/does not answer/g)?.length, 1, 'said once');
    assert.match(begun.out, /^jobman_folder=/m);
  });

  test('one that cannot begin has not run there', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    rmSync(join(world.folder, 'xibo'), { recursive: true });
    const env = { JOBMAN_JOB_ID: id, JOBMAN_ATTEMPT: '1' };
    const { code, err } = await world.tpu(['__begin', join(world.folder, 'run')], { env });
    assert.equal(code, exitCode.notFound);
    assert.match(err, /Working directory 1 is gone/);
    assert.equal(await booked(world, six), 'reserved xibo');
  });

  test('where a worker of a preemptible TPU is silent the cloud is given a while to say that it took it', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-p1', 'xibo');
    await world.record.reportWindow('xibo', 1, reportFor(p1));
    world.unreachableTpus.add(p1);
    let isTaken = false;
    const taking = setTimeout(() => {
      isTaken = true;
      world.tpuStates.set(p1, is('preempted'));
    }, 100);
    const result = await end(world, id, '1');
    clearTimeout(taking);
    assert.deepEqual([result.out, isTaken], ['1\n', true]);
  });
});

suite('the list', () => {
  async function listed({ record }: LabJobWorld): Promise<number[]> {
    return (await record.windows({ user: 'xibo' })).map(({ window }) => window.window);
  }

  test('clear takes what is over by how it came out, and keeps what a running job came of', async (t) => {
    const world = await openLabJobWorld(t);
    const ids: string[] = [];
    for (const verdict of ['succeeded', 'failed', 'cancelled'] as const) {
      const { id } = await world.run('v2-32-6', 'xibo', '-f');
      await world.finishJob(id, verdict);
      ids.push(id);
    }
    const father = await world.run('v2-32-6', 'xibo', '-f');
    await world.finishJob(father.id, 'failed');
    await world.tpu(['resume', `w=${father.window}`, 'tpu=v2-32-7', 'xibo']);
    world.windows.set('xibo', [1, 2, 3, 4, 5, 8]);
    assert.equal((await world.tpu(['clear-finished', 'xibo'])).out, 'Cleared window 1 of xibo.\n');
    assert.equal((await world.tpu(['clear-error', 'xibo'])).out, 'Cleared window 2 of xibo.\n');
    assert.deepEqual(await listed(world), [3, 4, 5], '4 failed, and 5 goes on from it');
    assert.equal(
      (await world.tpu(['clean', 'xibo'])).out,
      'Cleared window 3 of xibo.\nClosed window 8 of xibo in tmux, of no job on the list.\n',
    );
    assert.deepEqual(await listed(world), [4, 5]);
    assert.deepEqual(world.windows.get('xibo'), [4, 5]);
    assert.equal((await world.tpu(['clean', 'xibo', '-re'])).out, 'Cleared window 4 of xibo.\n');
    await world.finishJob('000005', 'succeeded');
    assert.equal((await world.tpu(['clear', 'xibo'])).out, 'Cleared window 5 of xibo.\n');
    assert.equal((await world.tpu(['clear-all', 'xibo'])).out, 'Nothing of xibo is to be cleared.\n');
    assert.equal(await jobCount(world), 5, 'all of it stays in the record');
  });

  test('zombies: windows without a job, jobs without a window', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.run('v2-32-7', 'xibo');
    world.windows.set('xibo', [0, 9]);
    assert.match((await world.tpu(['-czw', 'xibo'])).out, /Closed window 9 of xibo/);
    assert.deepEqual(world.actions, ['close xibo:9']);
    await world.finishJob(id, 'failed');
    assert.equal((await world.tpu(['-czj', 'xibo'])).out, 'Cleared window 1 of xibo.\n');
    assert.deepEqual(await listed(world), [2], 'what runs stays, window or not');
  });

  test('kill-window ends the job of a window, and only closes one that a running job came of', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    world.windows.set('xibo', [1, 2]);
    await world.finishJob(id, 'failed');
    await world.tpu(['resume', 'w=1', 'tpu=v2-32-7', 'xibo']);
    assert.match((await world.tpu(['-kw', '1', 'xibo'])).out, /Closed window 1 of xibo; it stays on the list/);
    assert.deepEqual([await listed(world), world.windows.get('xibo')], [[1, 2], [2]]);
    assert.equal((await world.tpu(['kill-window', '2', 'xibo'])).code, 0);
    assert.deepEqual([await listed(world), (await world.client.show('2')).phase], [[1], 'cancelled']);
  });

  test('a tag is given to the job of a window', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    assert.equal((await world.tpu(['add-tag', '1', 'baseline', 'xibo'])).code, 0);
    assert.equal((await world.record.job(id))?.tag, 'baseline');
    assert.equal((await world.tpu(['add-tag', '7', 'baseline', 'xibo'])).code, 3);
  });

  test('a window that is closed by hand while its session stands keeps every rule from its job', async (t) => {
    const world = await openLabJobWorld(t);
    const isRecoveryDisabled = async (id: string) =>
      (await asks(world, id)).some(({ verb }) => verb === 'disable-recovery');
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.tpu(['__closed', id, '1']);
    assert.equal(await isRecoveryDisabled(id), false, 'the session is gone: nobody has said anything of this job');
    world.windows.set('xibo', [1]);
    await world.tpu(['__closed', id, '1']);
    assert.equal(await isRecoveryDisabled(id), false, 'the window is there');
    world.windows.set('xibo', []);
    await world.tpu(['__closed', id, '1']);
    assert.equal(await isRecoveryDisabled(id), true);
    assert.notEqual((await world.record.windows({ user: 'xibo' }))[0]?.window.closedAt, null);
    const other = await world.run('v2-32-7', 'xibo');
    await world.record.setWindowState([{ job: other.id, attempt: 1 }], 'cleared', 1);
    await world.tpu(['__closed', other.id, '1']);
    assert.equal(
      await isRecoveryDisabled(other.id),
      false,
      'what was cleared was closed by the command that cleared it',
    );
  });

  test('attach goes to a window on a terminal, and says where else to look', async (t) => {
    const world = await openLabJobWorld(t);
    await world.run('v2-32-6', 'xibo');
    assert.equal((await world.tpu(['attach', 'xibo'])).code, 3);
    world.windows.set('xibo', [1]);
    assert.equal((await world.tpu(['attach', '1', 'xibo'])).code, 2);
    const argv: (readonly string[])[] = [];
    const services = { onTerminal: async (args: readonly string[]) => argv.push(args) - 1 };
    assert.equal((await world.tpu(['attach', '1', 'xibo'], { terminal, services })).code, 0);
    assert.deepEqual(argv, [['/usr/bin/tmux', 'attach-session', '-t', '=xibo:1']]);
  });
});

suite('delete', () => {
  test('asks always, names who uses the TPU, and changes nothing without a yes', async (t) => {
    const world = await openLabJobWorld(t);
    await world.run('v2-32-6', 'xibo');
    const refused = await world.tpu(['delete', 'v2-32-6']);
    assert.equal(refused.code, exitCode.usage);
    assert.match(refused.err, /of xibo is .* on .*was not deleted; its disks would be lost.*--yes/s);
    const no = await world.tpu(['delete', 'v2-32-7'], { terminal, input: ['n'] });
    assert.equal(no.code, exitCode.failed);
    assert.match(no.err, /Delete kmh-tpuvm-v2-32-7 \(v2-32, ready, in us-central2-b\) with its disks, for everybody\?/);
    assert.equal(world.actions.filter((one) => one.startsWith('delete')).length, 0);
    assert.equal((await world.tpu(['delete', 'v2-32-7', '--yes'])).code, 0);
    assert.deepEqual(world.actions.at(-1), `delete ${seven}`);
    world.tpuStates.set(seven, is('absent'));
    const again = await world.tpu(['delete', 'v2-32-7']);
    assert.deepEqual([again.code, again.out], [0, `${seven} does not exist; there is nothing to delete.\n`]);
    world.tpuStates.set(seven, { kind: 'unknown', message: 'no login' });
    assert.equal((await world.tpu(['delete', 'v2-32-7', '--yes'])).code, exitCode.unreachable);
  });

  test('find lists what was deleted as gone, until it is made again or forgotten', async (t) => {
    const world = await openLabJobWorld(t);
    const found = async () => (await world.tpu(['find', 'v2-32', '-n'])).out;
    assert.match(await found(), /^Free:\n[^]*v2-32-7/);
    assert.equal((await world.tpu(['delete', 'v2-32-7', '--yes'])).code, 0);
    assert.match(await found(), /^Free:\n(?!.*v2-32-7)[^]*\nGone:\n {2}v2-32-7\n$/);
    world.tpuStates.set(seven, is('absent'));
    const applied = await world.tpu(['apply', 'v2-32-7']);
    assert.equal(applied.code, 0, applied.err);
    assert.doesNotMatch(await found(), /Gone/);
    await world.tpu(['delete', 'v2-32-7', '--yes']);
    assert.match(await found(), /Gone/);
    assert.equal((await world.tpu(['unregister', 'v2-32-7', '--yes'])).code, 0);
    assert.doesNotMatch(await found(), /v2-32-7/);
  });
});

test('mount-disk at a site without shares says which setting names them, and touches no worker', async (t) => {
  const world = await openLabJobWorld(t);
  const { code, err } = await world.tpu(['mount-disk', 'v2-32-6']);
  assert.equal(code, exitCode.usage);
  assert.match(err, /The settings name no share for us-central2-b, and no key for W&B\.\n.*lab\.shares/);
  assert.deepEqual(world.actions, []);
});

suite('a TPU with a job under way', () => {
  test('is not released, and is not listed as free', async (t) => {
    const world = await openLabJobWorld(t);
    await world.run('v2-32-6', 'xibo');
    const refused = await world.tpu(['rel', 'v2-32-6', 'xibo']);
    assert.equal(refused.code, exitCode.conflict);
    assert.match(refused.err, /Window 1 \(job 000001\) of xibo is .*, so its booking stays\. Nothing was changed\./);
    assert.match(refused.err, /tpu kill w=1 xibo {4}ends it/);
    assert.equal(await booked(world, six), 'running xibo');
    // The table says free, because a person wrote that into it.
    await (await world.sheet()).change(six, { status: 'free', user: '' });
    const { out } = await world.tpu(['find', 'v2-32']);
    assert.match(out, /Running:\n +v2-32-6 +xibo +window 1; not booked/);
    assert.doesNotMatch(out, /Free:\n[^:]*v2-32-6/);
  });

  test('a booked TPU is not restarted or made anew by a login that is no user, without a question', async (t) => {
    const world = await openLabJobWorld(t);
    await (await world.sheet()).change(six, { status: 'reserved', user: 'lyy', note: 'do not touch' });
    for (const verb of ['restart', 'reapply']) {
      const refused = await world.tpu([verb, 'v2-32-6']);
      assert.notEqual(refused.code, 0);
      assert.match(refused.err, /reserved for lyy \("do not touch"\)/, verb);
      assert.deepEqual(world.actions, []);
    }
  });
});
