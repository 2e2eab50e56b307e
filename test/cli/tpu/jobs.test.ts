// run, resume, rerun, kill and clean up: questions, refusals, and the state of the database afterwards.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TpuSpec } from '../../../src/core/model/spec.ts';
import { aReport, aSheetCopy } from '../../support/lab-builders.ts';
import { readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../../support/builders.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import type { DeviceHolder } from '../../../src/app/lab-job.ts';
import type { TpuState } from '../../../src/lab/tpu-operations.ts';
import { hour } from '../../../src/core/model/time.ts';
import { now, type CliHarnessOptions } from '../support/harness.ts';
import type { BookingCommand } from '../../../src/lab/service.ts';
import { createSheetOutbox } from '../../../src/lab/sheet-outbox.ts';
import type { Scope } from '../../support/world.ts';
import { createConfirmed } from '../../support/create-confirmed.ts';
import { openLabJobWorld, openServerLabJobWorld, terminal, type LabJobWorld } from './lab-job-world.ts';
import { aTpu } from './lab-world.ts';
import { onBoth } from './serve-lab.ts';

/** A job of the lab on the TPU of job `id`, which `tpu run` refuses. Its specification names another TPU. */
async function addJobOn({ store, labStore }: LabJobWorld, id: string, owner: string) {
  const [stored, labJob] = await Promise.all([store.load(id), labStore.job(id)]);
  assert.ok(stored?.job.spec.capacity.kind === 'tpu' && labJob !== null);
  const spec = { ...stored.job.spec, capacity: { ...stored.job.spec.capacity, name: seven } };
  const [row] = await labStore.bookings();
  const lab = { job: labJob, booking: { user: owner, seenUser: row?.user ?? null } };
  const added = await store.insert({ owner, spec, manifest: '', at: now, lab });
  const [window] = await labStore.windows({ jobs: [added.job.id] });
  return { id: added.job.id, window: window?.window.window };
}

const labs = [(scope: Scope) => openLabJobWorld(scope), openServerLabJobWorld] as const;

const six = 'kmh-tpuvm-v2-32-6';
const seven = 'kmh-tpuvm-v2-32-7';
const p1 = 'kmh-tpuvm-v2-32-preemptible-1';
const is = (state: string): TpuState => ({ kind: 'known', state, zone: 'us-central2-b', workers: 4 });
const aHolder: DeviceHolder = { worker: 0, pid: 77, user: 'root', command: 'python3 other.py' };

async function jobCount({ client }: LabJobWorld): Promise<number> {
  return (await client.list({ all: true })).rows.length;
}

/** The commands in the history of a job. */
async function receivedCommands({ client }: LabJobWorld, id: string) {
  return (await client.events(id, 0)).flatMap(({ event }) => (event.kind === 'command_received' ? [event] : []));
}

async function booked({ labStore }: LabJobWorld, tpu: string): Promise<string> {
  const row = (await labStore.bookings()).find((one) => one.tpu === tpu);
  return row === undefined ? 'free' : `${row.status} ${row.user} ${row.scriptNote}`.trim();
}

onBoth('run', labs, (openLabJobWorld) => {
  test('creates a job on a persistent TPU with its booking and window', async (t) => {
    const world = await openLabJobWorld(t);
    const { id, window } = await world.run('v2-32-6', 'xibo', 'lr=0.01', 'tag=deep', 'ssn=until_monday', '--log-stage');
    const job = await world.labStore.job(id);
    assert.deepEqual(
      [window, job?.user, job?.tpu, job?.configs, job?.tag, job?.logStage, job?.parent],
      [1, 'xibo', six, ['--config.training.learning_rate=0.01'], 'deep', true, null],
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

  test('takes a full name, the TPU of ka.sh, or a free TPU of a type', async (t) => {
    const world = await openLabJobWorld(t);
    writeFileSync(join(world.folder, 'xibo/ka.sh'), 'export VM_NAME=v2-32-7\n');
    const tpuOf = async (...args: string[]) => (await world.labStore.job((await world.run(...args)).id))?.tpu;
    assert.equal(await tpuOf(six, 'xibo'), six);
    assert.equal(await tpuOf('xibo'), seven);
    world.tpuStates.set(p1, is('ready'));
    assert.equal(await tpuOf('v2-32', 'xibo'), p1, 'the others are in use');
    const none = await world.tpu(['run', '-auto', 'xibo']);
    assert.equal(none.code, exitCode.conflict);
    assert.match(none.err, /No TPU is free\.\n.*v2-32-6: window 1 \(job 000001\) of xibo is/);
    await world.labStore.changeTpu('v4-8-1', { kind: 'add', tpu: aTpu('v4-8-1', { accelerator: 'v4-8' }) });
    world.tpuStates.set('v4-8-1', is('absent'));
    const absent = await world.tpu(['run', 'v4-8', 'xibo']);
    assert.match(absent.err, /v4-8-1: it does not exist\n {2}tpu run v4-8-1 xibo -apply {4}creates it first/);
    world.tpuStates.set('v4-8-1', { kind: 'unknown', message: 'no login' });
    const unsure = await world.tpu(['run', 'v4-8', 'xibo']);
    assert.deepEqual([unsure.code, /is unknown.*\n.*v4-8-1: no login/.test(unsure.err)], [5, true], unsure.err);
    const missing = await world.tpu(['run', 'lyy']);
    assert.equal(missing.code, exitCode.usage);
    assert.match(missing.err, /Which TPU\? .*ka\.sh does not exist/);
    const asked = await world.tpu(['run', 'lyy', '-q', '-f'], { terminal, input: ['v2-32-7'] });
    assert.match(asked.out, /^Window 1: job 000004 runs .* on v2-32-7/m, asked.err);
  });

  test('one question lists all users of the TPU; nothing changes before the answer', async (t) => {
    const world = await openLabJobWorld(t);
    const first = await world.run('v2-32-6', 'xibo', 'ssn=for_mine');
    world.holders.set(six, [aHolder]);
    const script = await world.tpu(['run', 'v2-32-6', 'lyy']);
    assert.equal(script.code, exitCode.conflict);
    assert.match(script.err, /Window 1 \(job 000001\) of xibo is .* on v2-32-6/);
    assert.match(script.err, /In the booking sheet v2-32-6 is running for xibo/);
    assert.match(script.err, /Process 77 on worker 0 \(root\) uses the device: python3 other\.py/);
    assert.match(script.err, /-f takes the TPU\. Confirm with --yes\./);
    const no = await world.tpu(['run', 'v2-32-6', 'lyy'], { terminal, input: ['n'] });
    assert.deepEqual(
      [no.code, await jobCount(world), await booked(world, six), world.actions],
      [4, 1, 'running xibo for mine', []],
    );
    await world.tpu(['book', 'v2-32-7', 'xibo', 'ssn=mine\n\u001B[2Jgone']);
    const noted = await world.tpu(['run', 'v2-32-7', 'lyy'], { terminal, input: ['n'] });
    assert.match(noted.err, /\(mine\\x0a\\x1b\[2Jgone\)/, 'notes of other users have no control characters');
    const yes = await world.tpu(['run', 'v2-32-6', 'lyy', '-q'], { terminal, input: ['y'] });
    assert.equal(yes.code, 0, yes.err);
    assert.equal((await world.client.show(first.id)).phase, 'cancelled');
    assert.equal((await receivedCommands(world, first.id))[0]?.by, 'lyy', 'the history names the actor');
    // The note was about the previous job.
    assert.deepEqual([world.actions, await booked(world, six)], [[], 'running lyy']);
    // The job ends the program, so that a command that is killed has changed nothing or has created the job.
    const begin = () => world.tpu(['__begin', world.folder], { env: { JOBMAN_JOB_ID: '000002', JOBMAN_ATTEMPT: '1' } });
    world.holders.set(six, [{ ...aHolder, command: 'python3 later.py' }]);
    await begin();
    assert.deepEqual(world.actions, [], 'another program has its process id now');
    world.holders.set(six, [aHolder]);
    await begin();
    assert.deepEqual(world.actions, [`end on ${six}: 0/77`]);
  });

  test('a job of a manifest on the TPU is shown and ended like a job of the lab', async (t) => {
    const world = await openLabJobWorld(t);
    const capacity = { ...tpuSpec().capacity, ownership: 'persistent', name: six } as TpuSpec;
    const { id } = await createConfirmed(world.client, {
      spec: tpuSpec({ capacity }),
      manifest: '',
      onBehalfOf: 'ada',
    });
    const refused = await world.tpu(['run', 'v2-32-6', 'xibo']);
    assert.equal(refused.code, exitCode.conflict);
    assert.match(refused.err, new RegExp(`Job ${id} \\(vit\\) of ada is queued on v2-32-6`));
    assert.equal((await world.tpu(['run', 'v2-32-6', 'xibo', '--yes'])).code, 0);
    assert.equal((await world.client.show(id)).phase, 'cancelled');
  });

  test('-f takes the TPU and -apply creates it without a question', async (t) => {
    const world = await openLabJobWorld(t);
    const first = await world.run('v2-32-6', 'xibo');
    const taken = await world.tpu(['run', 'v2-32-6', 'lyy', '-f']);
    assert.deepEqual([taken.code, taken.err], [0, `It starts once job ${first.id} has ended.\n`]);
    const [, taker] = (await world.store.list({ maxFinished: null })).jobs.map(({ id }) => id).toReversed();
    assert.ok(taker !== undefined);
    assert.equal((await world.store.load(taker))?.job.startRequest?.waitsForTpu, true);
    assert.deepEqual((await world.labStore.job(taker))?.replaces, [first.id]);
    assert.match((await world.tpu(['check', 'lyy'])).out, / starting$/m);
    assert.equal((await receivedCommands(world, first.id))[0]?.by, 'lyy');
    world.tpuStates.set(p1, is('preempted'));
    const refused = await world.tpu(['run', 'v2-32-p1', 'lyy']);
    assert.equal(refused.code, exitCode.conflict);
    assert.match(
      refused.err,
      /The TPU v2-32-preemptible-1 is preempted and would be created again\. -apply creates it/,
    );
    assert.equal((await world.tpu(['run', 'v2-32-p1', 'lyy', '-apply'])).code, 0);
    world.tpuStates.set(seven, is('absent'));
    assert.equal((await world.tpu(['run', 'v2-32-7', 'lyy', '-q'], { terminal, input: ['yes'] })).code, 0);
    // One request: the job itself creates the TPU and then runs its script, whatever happens to the command.
    const operation = async (id: string) => {
      const job = (await world.store.load(id))?.job;
      return job?.spec.capacity.kind === 'tpu' ? [job.startRequest?.after, job.spec.capacity.operation] : [];
    };
    assert.deepEqual(await operation('000003'), [undefined, { kind: 'create', withCommand: true }]);
    assert.deepEqual(await operation('000004'), [undefined, { kind: 'create', withCommand: true }]);
    assert.equal((await world.tpu(['run', 'v2-32-p1', 'xibo', '-f', '-apply'])).code, 0);
    assert.deepEqual(await operation('000005'), [['000003'], { kind: 'create', withCommand: true }]);
    assert.equal((await receivedCommands(world, '000003'))[0]?.by, 'xibo');
    assert.deepEqual([await jobCount(world), world.actions], [5, []]);
    // A resume on a TPU that must be created is a new job, which names the old one as its parent.
    await world.finishJob('000005', 'failed');
    const resumed = await world.tpu(['resume', 'w=2', 'xibo', '-apply']);
    assert.match(resumed.out, /job 000006 resumes window 2 on v2-32-preemptible-1/, resumed.err);
    assert.match(resumed.err, /^It creates its TPU first: jobman why 6$/m);
    assert.equal((await world.labStore.job('000006'))?.parent?.job, '000005');
  });

  test('a TPU that is not ready, or whose state is unknown, starts nothing', async (t) => {
    const world = await openLabJobWorld(t);
    for (const [state, code, expected] of [
      [is('creating'), 4, /v2-32-6 is being created\. Nothing was started/],
      [is('stopped'), 4, /is stopped.*\n.*tpu restart/],
      [{ kind: 'unknown', message: 'the line is cut' }, 5, /is unknown\. Nothing was started\.\n.*the line is cut/],
    ] as const) {
      world.tpuStates.set(six, state);
      const result = await world.tpu(['run', 'v2-32-6', 'xibo', '--yes']);
      assert.equal(result.code, code);
      assert.match(result.err, expected);
    }
    assert.deepEqual([await jobCount(world), await booked(world, six)], [0, 'free']);
  });

  test('a booking that another user just made is a conflict', async (t) => {
    const world = await openLabJobWorld(t);
    const sheet = await world.sheet();
    world.sheet = async () => ({
      ...sheet,
      async read() {
        const before = await sheet.read();
        await sheet.change(seven, { kind: 'book', user: 'bob' });
        return before;
      },
    });
    const late = await world.tpu(['run', 'v2-32-7', 'xibo', '--yes']);
    assert.equal(late.code, exitCode.conflict);
    assert.match(late.err, /bob has just booked/);
    assert.equal(await jobCount(world), 0);
    assert.equal(await booked(world, seven), 'reserved bob');
  });

  test('a spreadsheet that does not answer gets the booking later; one that refuses it is reported', async (t) => {
    const world = await openLabJobWorld(t);
    world.site = { ...world.site, spreadsheet: { id: 'a', tab: null, credentials: '/key', endpoint: null } };
    const table = await world.sheet();
    let isAwake = false;
    const answer = <Answer>(work: () => Promise<Answer>): Promise<Answer> =>
      isAwake ? work() : Promise.reject(new JobmanError('the sheet sleeps.', exitCode.unreachable, ['no route']));
    const remote = {
      name: 'the spreadsheet',
      read: () => answer(() => table.read()),
      change: (tpu: string, command: BookingCommand) => answer(() => table.change(tpu, command)),
    };
    let time: number = now;
    const outbox = createSheetOutbox(remote, world.labStore, () => time, aSheetCopy());
    world.sheet = async () => outbox;
    const started = await world.tpu(['run', 'v2-32-7', 'xibo', 'ssn=mine']);
    assert.equal(started.code, 0);
    assert.match(started.err, /The booking is unknown: the sheet sleeps \(no route\)\./);
    const late = /The booking sheet is late: \S+-7 is not running for xibo in the spreadsheet yet: the sheet sleeps\./;
    assert.match(started.err, late);
    assert.match((await world.tpu(['describe', 'v2-32-7'])).out, /^Booking +unknown$/m);
    isAwake = true;
    const found = await world.tpu(['find', 'v2', 'style=full']);
    assert.match(found.out, /v2-32-7 .* running +xibo +- +mine/, 'the booking that the sheet does not have yet counts');
    assert.match(found.err, late);
    assert.equal(await booked(world, seven), 'free');
    time += 60_000;
    assert.deepEqual(await outbox.deliver(), { late: [], nextAt: null });
    assert.equal(await booked(world, seven), 'running xibo mine');
    await world.finishJob('000001', 'failed');
    await outbox.deliver();
    assert.equal(await booked(world, seven), 'reserved xibo mine', 'the end of the attempt');

    world.sheet = async () => ({
      ...outbox,
      async read() {
        const before = await outbox.read();
        await table.change(seven, { kind: 'book', user: 'bob' });
        return before;
      },
    });
    const refused = await world.tpu(['run', 'v2-32-7', 'xibo']);
    assert.equal(refused.code, 0);
    assert.match(refused.err, /The booking sheet was not changed: bob has just booked kmh-tpuvm-v2-32-7\./);
    world.sheet = async () => outbox;
    assert.match((await world.tpu(['find'])).err, /was not changed: bob has just booked/);
    await outbox.change(seven, { kind: 'book', user: 'xibo' });
    assert.doesNotMatch((await world.tpu(['find'])).err, /not changed/);
  });

  test('of two commands at the same time one wins; the other leaves neither job nor booking', async (t) => {
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

  test('refuses a missing directory, a missing staging.sh and an invalid tag', async (t) => {
    const world = await openLabJobWorld(t);
    const cases: readonly (readonly [number, RegExp, ...string[]])[] = [
      [3, /Working directory 2 of xibo does not exist/, 'dir=2'],
      [3, /xibo has no working directory 9/, 'dir=9'],
      [2, /"a\/b" is not allowed as a tag/, 'tag=a/b'],
      [2, /Without a terminal, give the notes/, '-ssn'],
    ];
    for (const [code, expected, ...args] of cases) {
      const result = await world.tpu(['run', 'v2-32-6', 'xibo', ...args]);
      assert.equal(result.code, code, result.err);
      assert.match(result.err, expected);
    }
    rmSync(join(world.folder, 'xibo/staging.sh'));
    assert.match((await world.tpu(['run', 'v2-32-6', 'xibo'])).err, /has no staging\.sh/);
    assert.equal(await jobCount(world), 0);
  });
});

onBoth('kill', labs, (openLabJobWorld) => {
  test('ends the job, shows other programs on the TPU, and ends them only after a confirmation', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.labStore.reportWindow('xibo', 1, aReport('/l/1', '/s/1', six));
    world.holders.set(six, [aHolder]);
    const result = await world.tpu(['kill', 'w=1', 'xibo'], { terminal, input: ['n'] });
    assert.equal(result.code, 0, result.err);
    assert.equal((await world.client.show(id)).phase, 'cancelled');
    assert.deepEqual(world.actions, [`end on ${six}: /l/1 /s/1`]);
    assert.equal(await booked(world, six), 'reserved xibo');
    assert.match(result.err, /process 77 on worker 0 \(root\) uses the device: python3 other\.py/);
    const again = await world.tpu(['kill', '1', 'xibo']);
    assert.match(again.out, /^Window 1 \(job 000001\) of xibo was killed already/);
    assert.deepEqual(
      world.actions.splice(1),
      [`end on ${six}: /l/1 /s/1`],
      'the first command may not have come so far',
    );
    await world.run('v2-32-6', 'xibo', '-f');
    await world.run('v2-32-7', 'xibo');
    world.holders.set(six, [aHolder]);
    assert.equal((await world.tpu(['kill', 'v2-32-6', 'xibo'], { terminal, input: ['y'] })).code, 0);
    assert.equal(world.actions.at(-1), `end on ${six}: 0/77`);
    assert.equal((await world.client.show('2')).phase, 'cancelled');
    assert.equal((await world.client.show('3')).phase, 'queued', 'a job on another TPU continues');
  });

  test('another job on the TPU continues', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    const other = await addJobOn(world, id, 'lyy');
    await world.labStore.reportWindow('lyy', 1, aReport('/l/2', '/s/2', six));
    world.holders.set(six, [{ ...aHolder, command: 'python3 main.py --workdir=/l/2' }]);
    const result = await world.tpu(['kill', '1', 'xibo', '--yes']);
    assert.deepEqual([result.code, result.err, world.actions], [0, '', []]);
    assert.equal((await world.client.show(id)).phase, 'cancelled');
    world.holders.set(six, [aHolder]);
    await world.finishJob(other.id, 'succeeded');
    const third = await addJobOn(world, id, 'xibo');
    const script = await world.tpu(['kill', String(third.window), 'xibo']);
    assert.match(script.err, /does not belong to the job and still runs\. To end it: tpu solve kmh-tpuvm-v2-32-6/);
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

  test('a finished job, an unknown window, and no job', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.finishJob(id, 'succeeded');
    const over = await world.tpu(['kill', '1', 'xibo']);
    assert.deepEqual([over.code, over.out], [4, 'Window 1 (job 000001) of xibo has succeeded already.\n']);
    assert.equal((await world.tpu(['kill', '5', 'xibo'])).code, 3);
    assert.equal((await world.tpu(['kill', 'v2-32-7', 'xibo'])).code, 3);
    assert.equal((await world.tpu(['kill', 'xibo'])).code, 2);
  });

  test('another user needs a confirmation and appears in the history', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.labStore.changeUser('lyy', { kind: 'set', values: { logins: ['alice'] } });
    // On a login of their own a user cannot be another.
    for (const env of [{}, { TPU_USER: 'xibo' }]) {
      const refused = await world.tpu(['kill', '1', 'xibo'], { env });
      assert.equal(refused.code, exitCode.conflict);
      assert.match(refused.err, /You are lyy; this would kill a job for xibo.*--yes/);
    }
    assert.equal((await world.tpu(['kill', '1', 'xibo', '--yes'])).code, 0);
    assert.ok((await receivedCommands(world, id)).some(({ verb, by }) => verb === 'cancel' && by === 'lyy'));
    const { id: own } = await world.run('v2-32-p1', 'lyy');
    const taking = await world.tpu(['run', 'v2-32-p1', 'xibo']);
    assert.equal(taking.code, exitCode.conflict);
    assert.match(
      taking.err,
      /of lyy is .* This job would be ended\. You are lyy; this would run a job for xibo\..*--yes/,
    );
    assert.equal((await world.tpu(['run', 'v2-32-p1', 'xibo', '-f'])).code, exitCode.conflict, '-f takes only the TPU');
    assert.deepEqual(await receivedCommands(world, own), []);
    const { id: started } = await world.run('v2-32-7', 'xibo', '--yes');
    assert.deepEqual(
      [(await world.client.show(started)).owner, (await world.client.events(started, 0))[0]?.event],
      ['xibo', { kind: 'created', at: now, by: 'lyy' }],
    );
  });
});

onBoth('resume and rerun', labs, (openLabJobWorld) => {
  test('on the same TPU the job gets another attempt with a new window', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    const early = await world.tpu(['resume', 'windows=1', 'xibo']);
    assert.equal(early.code, exitCode.conflict);
    assert.match(early.err, /Window 1 of xibo \(job 000001\) is still .*\.\n.*tpu kill 1 xibo/);
    await world.finishJob(id, 'failed');
    const result = await world.tpu(['resume', 'windows=1', 'xibo']);
    assert.equal(result.out, 'Window 2: job 000001 resumes window 1 on v2-32-6\n', result.err);
    assert.match(result.err, /Window 1 never reported its log folder .* it starts from the beginning\./);
    assert.ok((await receivedCommands(world, id)).some(({ verb }) => verb === 'resume'));
    assert.equal(await jobCount(world), 1);
  });

  test('on another TPU a new job names its parent and continues the stage', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-p1', 'xibo', 'lr=1', '--log-stage');
    await world.labStore.reportWindow('xibo', 1, aReport('/l/1', '/s/1', p1));
    await world.finishJob(id, 'failed', 3);
    const result = await world.tpu(['resume', 'w=1', 'tpu=v2-32-6', 'xibo']);
    assert.equal(result.code, 0, result.err);
    assert.doesNotMatch(result.err, /from the beginning/);
    const child = await world.labStore.job('000002');
    assert.deepEqual(
      [child?.tpu, child?.parent, child?.baseStage, child?.configs, child?.logStage],
      [six, { job: id, attempt: 3, startMode: 'resume' }, 3, ['--config.training.learning_rate=1'], true],
    );
    const { spec } = await world.client.show('2');
    assert.deepEqual([spec.recovery.preset, spec.capacity.kind === 'tpu' && spec.capacity.name], ['pass', six]);
    await world.tpu(['rerun', 'w=1', 'tpu=v2-32-7', 'xibo']);
    const other = await world.labStore.job('000003');
    assert.deepEqual([other?.parent?.startMode, other?.baseStage], ['rerun', 0]);
  });

  test('an unfinished job is killed after a confirmation, and the new job waits for its end', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-p1', 'xibo');
    const refused = await world.tpu(['resume', 'w=1', 'tpu=v2-32-6', 'xibo']);
    assert.equal(refused.code, exitCode.conflict);
    assert.match(refused.err, /Window 1 is .* on v2-32-preemptible-1 and would be killed/);
    const moved = await world.tpu(['resume', 'w=1', 'tpu=v2-32-6', 'xibo', '--yes']);
    assert.equal(moved.code, 0);
    assert.match(moved.err, /^It starts once job 000001 has ended\.$/m);
    assert.equal((await world.client.show(id)).phase, 'cancelled');
    assert.equal((await world.labStore.job('000002'))?.parent?.job, id);
    const { startRequest } = (await world.store.load('000002'))?.job ?? {};
    assert.deepEqual([startRequest?.waitsForTpu, startRequest?.after], [true, [id]], 'stored in the same transaction');
  });
});

suite('the end of a script', () => {
  const reportFor = (tpu: string) => ({ logFolder: '/l/1', stageFolder: '/s/1', tpu, startTime: 'x', at: 1 });
  const end = (world: LabJobWorld, id: string, ...args: string[]) =>
    world.tpu(['__end', ...args], { env: { JOBMAN_JOB_ID: id, JOBMAN_ATTEMPT: '1' } });

  test('a failure, or an end without finish-job, ends its programs on the workers', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    const failure = join(world.folder, 'failure');
    // The script calls neither command, and its program failed.
    writeFileSync(join(world.folder, 'log'), 'ep=1\nValueError: bad shape\nJob failed\n');
    const stale = await end(world, id, world.folder, '0');
    assert.equal(stale.out, '0\n');
    assert.match(
      stale.err,
      /called neither `tpu upd-log` nor `tpu finish-job`.*; last error in its log: ValueError: bad shape/,
    );
    assert.match(readFileSync(failure, 'utf8'), /^exit code 0, but the script .*ValueError: bad shape\n$/);
    rmSync(failure);
    await world.labStore.reportWindow('xibo', 1, reportFor(six));
    const unproven = await end(world, id, world.folder, '0');
    assert.equal(unproven.out, '0\n', 'the exit code is unchanged');
    assert.match(
      readFileSync(failure, 'utf8'),
      /did not call `tpu finish-job`, and its log has no line "wandb: Run history:"/,
    );
    rmSync(failure);
    // Scripts of jobs that an earlier version created do not pass their run folder.
    assert.equal((await end(world, id, '0')).out, '1\n');
    world.actions.splice(1);
    assert.deepEqual(world.actions, [`end on ${six}: /l/1 /s/1`]);
    // After a kill or a failure no program runs there, even if the job continues.
    for (const args of [['1'], ['--stopped', '143'], ['1']]) await end(world, id, ...args);
    await world.labStore.finishWindow('xibo', 1, 2);
    assert.equal((await end(world, id, world.folder, '0')).out, '0\n');
    assert.equal(existsSync(failure), false);
    assert.equal((await end(world, id, '--stopped', '143')).out, '143\n');
    assert.equal(world.actions.length, 5);
  });

  test('an attempt waits for a silent worker with programs of an earlier attempt, and fails after a limit', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.labStore.reportWindow('xibo', 1, { ...reportFor(six), stageFolder: join(world.folder, 'xibo') });
    await world.finishJob(id, 'failed');
    await world.tpu(['resume', 'w=1', 'xibo']);
    const begin = (options: CliHarnessOptions = {}) =>
      world.tpu(['__begin', world.folder], { env: { JOBMAN_JOB_ID: id, JOBMAN_ATTEMPT: '2' }, ...options });
    world.unreachableTpus.add(six);
    let time = 0;
    const refused = await begin({ now: () => (time += hour) });
    assert.deepEqual([refused.code, refused.out], [exitCode.unreachable, '']);
    assert.match(
      refused.err,
      /may still run on .*: worker 1 does not answer \(no route\)\. This attempt was not started\./,
    );
    const answering = setTimeout(() => world.unreachableTpus.delete(six), 100);
    const begun = await begin();
    clearTimeout(answering);
    assert.match(begun.err, /^-- waiting to end programs of earlier attempts: worker 1 does not answer \(no route\)$/m);
    assert.equal(begun.err.match(/does not answer/g)?.length, 1, 'reported once');
    assert.match(begun.out, /^jobman_folder=/m);
  });

  test('an attempt without its working directory does not start', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    rmSync(join(world.folder, 'xibo'), { recursive: true });
    const env = { JOBMAN_JOB_ID: id, JOBMAN_ATTEMPT: '1' };
    const { code, err } = await world.tpu(['__begin', join(world.folder, 'run')], { env });
    assert.equal(code, exitCode.notFound);
    assert.match(err, /Working directory 1 does not exist/);
  });

  test('after a failure with a silent worker, the script waits for the cloud to report a preemption', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-p1', 'xibo');
    await world.labStore.reportWindow('xibo', 1, reportFor(p1));
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

onBoth('the list', labs, (openLabJobWorld) => {
  async function listed({ labStore }: LabJobWorld): Promise<number[]> {
    return (await labStore.windows({ user: 'xibo' })).map(({ window }) => window.window);
  }

  test('clear removes finished jobs by result, and keeps windows that a running job continues', async (t) => {
    const world = await openLabJobWorld(t);
    const ids: string[] = [];
    for (const verdict of ['succeeded', 'failed', 'cancelled'] as const) {
      const { id } = await world.run('v2-32-6', 'xibo', '-f');
      await world.finishJob(id, verdict);
      ids.push(id);
    }
    const parent = await world.run('v2-32-6', 'xibo', '-f');
    await world.finishJob(parent.id, 'failed');
    await world.tpu(['resume', `w=${parent.window}`, 'tpu=v2-32-7', 'xibo']);
    world.windows.set('xibo', [1, 2, 3, 4, 5, 8]);
    assert.equal((await world.tpu(['clear-finished', 'xibo'])).out, 'Cleared window 1 of xibo.\n');
    assert.equal((await world.tpu(['clear-error', 'xibo'])).out, 'Cleared window 2 of xibo.\n');
    assert.deepEqual(await listed(world), [3, 4, 5], '4 failed, and 5 continues it');
    assert.equal(
      (await world.tpu(['clean', 'xibo'])).out,
      'Cleared window 3 of xibo.\nClosed the tmux window 8 of xibo, which had no job on the list.\n',
    );
    assert.deepEqual(await listed(world), [4, 5]);
    assert.deepEqual(world.windows.get('xibo'), [4, 5]);
    assert.equal((await world.tpu(['clean', 'xibo', '-re'])).out, 'Cleared window 4 of xibo.\n');
    await world.finishJob('000005', 'succeeded');
    assert.equal((await world.tpu(['clear', 'xibo'])).out, 'Cleared window 5 of xibo.\n');
    assert.equal((await world.tpu(['clear-all', 'xibo'])).out, 'There is nothing to clear for xibo.\n');
    assert.equal(await jobCount(world), 5, 'the jobs stay in the database');
  });

  test('zombies: windows without a job, jobs without a window', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.run('v2-32-7', 'xibo');
    world.windows.set('xibo', [0, 9]);
    assert.match((await world.tpu(['-czw', 'xibo'])).out, /Closed the tmux window 9 of xibo/);
    assert.deepEqual(world.actions, ['close xibo:9']);
    await world.finishJob(id, 'failed');
    assert.equal((await world.tpu(['-czj', 'xibo'])).out, 'Cleared window 1 of xibo.\n');
    assert.deepEqual(await listed(world), [2], 'unfinished jobs stay');
  });

  test('kill-window kills the job, but only closes a window that a running job continues', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    world.windows.set('xibo', [1, 2]);
    await world.finishJob(id, 'failed');
    await world.tpu(['resume', 'w=1', 'tpu=v2-32-7', 'xibo']);
    assert.match((await world.tpu(['-kw', '1', 'xibo'])).out, /Closed window 1 of xibo\. It stays on the list/);
    assert.deepEqual([await listed(world), world.windows.get('xibo')], [[1, 2], [2]]);
    assert.equal((await world.tpu(['kill-window', '2', 'xibo'])).code, 0);
    assert.deepEqual([await listed(world), (await world.client.show('2')).phase], [[1], 'cancelled']);
  });

  test('add-tag tags the job of a window', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    assert.equal((await world.tpu(['add-tag', '1', 'baseline', 'xibo'])).code, 0);
    assert.equal((await world.labStore.job(id))?.tag, 'baseline');
    assert.equal((await world.tpu(['add-tag', '7', 'baseline', 'xibo'])).code, 3);
  });

  test('closing a window in tmux turns recovery off', async (t) => {
    const world = await openLabJobWorld(t);
    const isRecoveryDisabled = async (id: string) =>
      (await receivedCommands(world, id)).some(({ verb }) => verb === 'disable-recovery');
    const { id } = await world.run('v2-32-6', 'xibo');
    await world.tpu(['__closed', id, '1']);
    assert.equal(await isRecoveryDisabled(id), false, 'the whole session was closed');
    world.windows.set('xibo', [1]);
    await world.tpu(['__closed', id, '1']);
    assert.equal(await isRecoveryDisabled(id), false, 'the window exists');
    world.windows.set('xibo', []);
    await world.tpu(['__closed', id, '1']);
    assert.equal(await isRecoveryDisabled(id), true);
    assert.equal((await receivedCommands(world, id)).at(-1)?.by, 'xibo', 'on a shared login');
    assert.notEqual((await world.labStore.windows({ user: 'xibo' }))[0]?.window.closedAt, null);
    const other = await world.run('v2-32-7', 'xibo');
    await world.labStore.setWindowState([{ job: other.id, attempt: 1 }], 'cleared', 1);
    await world.tpu(['__closed', other.id, '1']);
    assert.equal(await isRecoveryDisabled(other.id), false, 'the command that cleared the window closed it');
  });

  test('ack is recorded as the act of the user who types', async (t) => {
    const world = await openLabJobWorld(t);
    const { id } = await world.run('v2-32-6', 'xibo');
    const stored = await world.store.load(id);
    assert.ok(stored);
    const exited = { ...runningAttempt, allocation: 1, exitSeen: { at: now, worker: 0, exitCode: 1 } };
    const job = withAttempts(stored.job, [readyAllocation], [exited]);
    const { revision } = stored;
    await world.store.commit({ job, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
    await world.labStore.changeUser('lyy', { kind: 'set', values: { logins: ['alice'] } });
    assert.match((await world.tpu(['ack', 'xibo'])).out, /^Window 1: its program has ended/m);
    assert.deepEqual(
      (await receivedCommands(world, id)).map(({ verb, by }) => [verb, by]),
      [['accept-exit', 'lyy']],
    );
  });
});

suite('on this machine', () => {
  test('a job that takes the TPU after it was checked is a conflict', async (t) => {
    const world = await openLabJobWorld(t);
    const own = { project: 'lab', zone: 'us-central2-b', name: six, ownership: 'persistent' };
    const capacity = { ...tpuSpec().capacity, ...own } as TpuSpec;
    // It is read after the check.
    world.project = async () => {
      await createConfirmed(world.client, { spec: tpuSpec({ capacity }), manifest: '', onBehalfOf: 'ada' });
      return 'lab';
    };
    const { code, err } = await world.tpu(['run', 'v2-32-6', 'xibo', '-f']);
    assert.equal(code, exitCode.conflict, err);
    assert.match(err, /Nothing was started\. .* of ada, .*\n.*Run the command again to take the TPU/);
    assert.equal(await jobCount(world), 1);
  });

  test('attach opens a window on a terminal', async (t) => {
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

onBoth('delete', labs, (openLabJobWorld) => {
  test('always asks, lists the users of the TPU, and changes nothing without a confirmation', async (t) => {
    const world = await openLabJobWorld(t);
    await world.run('v2-32-6', 'xibo');
    const refused = await world.tpu(['delete', 'v2-32-6']);
    assert.equal(refused.code, exitCode.conflict);
    assert.match(refused.err, /of xibo is .* on .*was not deleted\. Deleting it also deletes its disks.*--yes/s);
    const no = await world.tpu(['delete', 'v2-32-7'], { terminal, input: ['n'] });
    assert.equal(no.code, exitCode.failed);
    assert.match(no.err, /Delete kmh-tpuvm-v2-32-7 \(v2-32, ready, in us-central2-b\) and its disks, for all users\?/);
    assert.equal(world.actions.filter((one) => one.startsWith('delete')).length, 0);
    assert.equal((await world.tpu(['delete', 'v2-32-7', '--yes'])).code, 0);
    assert.deepEqual(world.actions.at(-1), `delete ${seven}`);
    world.tpuStates.set(seven, is('absent'));
    const again = await world.tpu(['delete', 'v2-32-7']);
    assert.deepEqual([again.code, again.out], [0, `${seven} does not exist.\n`]);
    world.tpuStates.set(seven, { kind: 'unknown', message: 'no login' });
    assert.equal((await world.tpu(['delete', 'v2-32-7', '--yes'])).code, exitCode.unreachable);
  });

  test('find lists a deleted TPU as gone, until it is created again or unregistered', async (t) => {
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

test('mount-disk without shares names the setting and changes nothing', async (t) => {
  const world = await openLabJobWorld(t);
  const { code, err } = await world.tpu(['mount-disk', 'v2-32-6']);
  assert.equal(code, exitCode.usage);
  assert.match(err, /The settings have no share for us-central2-b and no W&B key\.\n.*lab\.shares/);
  assert.deepEqual(world.actions, []);
});

onBoth('a TPU with an unfinished job', labs, (openLabJobWorld) => {
  test('is not released, and find does not list it as free', async (t) => {
    const world = await openLabJobWorld(t);
    await world.run('v2-32-6', 'xibo');
    const refused = await world.tpu(['rel', 'v2-32-6', 'xibo']);
    assert.equal(refused.code, exitCode.conflict);
    assert.match(refused.err, /Window 1 \(job 000001\) of xibo is .*\. Its booking was not changed\./);
    assert.match(refused.err, /tpu kill w=1 xibo {4}kills it/);
    assert.equal(await booked(world, six), 'running xibo');
    // A user changed the booking to free.
    await (await world.sheet()).change(six, { kind: 'release' });
    const { out } = await world.tpu(['find', 'v2-32']);
    assert.match(out, /Running:\n +v2-32-6 +xibo +window 1; not booked/);
    assert.doesNotMatch(out, /Free:\n[^:]*v2-32-6/);
  });

  test('restarting or recreating a booked TPU from a shared login needs a confirmation', async (t) => {
    const world = await openLabJobWorld(t);
    await (await world.sheet()).change(six, { kind: 'book', user: 'lyy', scriptNote: 'do not touch' });
    for (const verb of ['restart', 'reapply']) {
      const refused = await world.tpu([verb, 'v2-32-6']);
      assert.notEqual(refused.code, 0);
      assert.match(refused.err, /reserved for lyy \(do not touch\)/, verb);
      assert.deepEqual(world.actions, []);
    }
  });

  test('a restart prints an object with --json', async (t) => {
    const { code, out } = await (await openLabJobWorld(t)).tpu(['restart', 'v2-32-6', '-y', '--json']);
    assert.equal(code, 0);
    assert.deepEqual(JSON.parse(out), { tpu: six, zone: 'us-central2-b', prepared: true });
  });
});

test('without lab.python, check-env names the setting, and solve says that it checked no Python', async (t) => {
  const world = await openLabJobWorld(t);
  world.site = { ...world.site, python: null };
  assert.match(
    (await world.tpu(['check-env', 'v2-32-6'])).err,
    /`python3`, because the setting lab\.python is not set/,
  );
  const solved = await world.tpu(['solve', 'v2-32-6', '--dry-run']);
  assert.match(solved.out + solved.err, /Python was not checked.*lab\.python/);
});
