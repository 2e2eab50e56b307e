// tpu check, monitor and log: command lines and their output, with a real store and real logs.

import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, utimesSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Client } from '../../../src/app/client.ts';
import type { Services } from '../../../src/app/services.ts';
import { withLifecycle } from '../../../src/core/model/job.ts';
import { presets } from '../../../src/core/policy/presets.ts';
import { minute } from '../../../src/core/model/time.ts';
import { defaultUserSettings } from '../../../src/lab/user-settings.ts';
import { endedAttempt, readyAllocation, runningAttempt } from '../../support/builders.ts';
import { noon } from '../../support/lab-builders.ts';
import { eventually } from '../../support/eventually.ts';
import { jobView } from '../support/harness.ts';
import { openCheckWorld, type CheckWorld } from './check-world.ts';

const later = (): number => noon + 100 * minute;
const lost = endedAttempt('preempted', { message: 'the cloud took it (PREEMPTED)' });
const grpc = endedAttempt('command_failed', { message: 'exit code 1', exitCode: 1, pattern: 'grpc' });

/** The status of the first row. */
async function statusOf(world: CheckWorld): Promise<string> {
  return (await world.tpu(['check', 'ada', '-s'], { now: later })).out.split('\n')[1] ?? '';
}

test('check shows the status and origin of each window', async (t) => {
  const world = await openCheckWorld(t);
  const first = await world.job({
    attempts: [
      { ...runningAttempt, ...lost },
      { ...runningAttempt, ...grpc },
      { ...runningAttempt, startMode: 'resume', stage: 2 },
    ],
    labJob: { tag: 'vit', directory: '/code/vit', tpu: 'kmh-tpuvm-v2-32-preemptible-1' },
  });
  world.log(first, 3, 'Staging files...\nep=3.2 loss 0.3\n');
  const oom = endedAttempt('command_failed', { message: 'exit code 1', exitCode: 1, pattern: 'out_of_memory' });
  await world.job({
    attempts: [{ ...runningAttempt, ...oom }],
    job: { finish: { at: noon + 60 * minute, verdict: 'failed', reason: 'command_failed' } },
  });
  await world.job({ attempts: [runningAttempt], isReported: false });
  const { code, out } = await world.tpu(['check', 'ada'], { now: later });
  assert.equal(code, 0);
  assert.equal(
    out,
    [
      'WINDOW  TAG  DIR   TPU                  STATUS                         FROM',
      '     1  vit  vit   v2-32-preemptible-1  resumed in 2, after preempted',
      '     2  vit  vit   v2-32-preemptible-1  resumed in 3, after grpc       stage 1, 2 < 1',
      '     3  vit  vit   v2-32-preemptible-1  Running(ep 3.2)                stage 2, 3 < 2 < 1',
      '     4  -    code  v2-32-1              error: OOM 09:00:00',
      '     5  -    code  v2-32-1              starting',
      '',
    ].join('\n'),
  );
});

test('a job that was resumed on another TPU is the child of its window', async (t) => {
  const world = await openCheckWorld(t);
  const finish = { at: noon + 60 * minute, verdict: 'failed', reason: 'preempted' } as const;
  const parent = await world.job({ attempts: [{ ...runningAttempt, ...lost }], job: { finish } });
  const child = await world.job({
    attempts: [runningAttempt],
    labJob: { parent: { job: parent, attempt: 1, startMode: 'resume' }, baseStage: 1, tpu: 'kmh-tpuvm-v2-32-2' },
  });
  world.log(child, 1, 'compiling the step\n');
  const { out } = await world.tpu(['check', 'ada', '-ws'], { now: later });
  assert.deepEqual(out.split('\n').slice(1, 3), [
    '     1  resumed in 2, after preempted',
    '     2  Compiling                      stage 1, 2 < 1',
  ]);
  // A cleared window stays in the lineage.
  await world.labStore.setWindowState([{ job: parent, attempt: 1 }], 'cleared', later());
  const after = await world.tpu(['check', 'ada', '-ws'], { now: later });
  assert.deepEqual(after.out.split('\n').slice(1), ['     2  Compiling  stage 1, 2 < 1', '']);
});

test('the status shows that a rule resumes the job, until the next attempt begins', async (t) => {
  const world = await openCheckWorld(t);
  const id = await world.job({
    attempts: [{ ...runningAttempt, ...lost }, {}],
    allocations: [readyAllocation],
    windows: 1,
  });
  const status = () => statusOf(world);
  assert.equal(await status(), 'error: preempted 09:00:00; resumes soon');
  // While there is no capacity, the status shows it.
  const error = { kind: 'stockout', message: 'no capacity', raw: '' } as const;
  await world.becomes(id, (job) => ({
    ...job,
    allocations: job.allocations.flatMap((one) => [
      one,
      withLifecycle({ ...one, ordinal: 2, readyAt: null, lastError: { at: noon, error } }),
    ]),
    attempts: job.attempts.map((one, index) => (index === 1 ? { ...one, allocation: 2 } : one)),
  }));
  assert.match(await status(), /^error: preempted 09:00:00; resumes soon: no capacity for /);
  // The rule has not created an attempt yet.
  await world.becomes(id, (job) => ({
    ...job,
    attempts: job.attempts.slice(0, 1),
    spec: { ...job.spec, recovery: { ...job.spec.recovery, rules: presets.pre } },
  }));
  assert.equal(await status(), 'error: preempted 09:00:00; resumes soon');
  await world.becomes(id, (job) => ({ ...job, finish: { at: noon, verdict: 'failed', reason: 'preempted' } }));
  assert.equal(await status(), 'error: preempted 09:00:00');
});

test('a job that its owner ended while it waited for its TPU is killed or stopped', async (t) => {
  const world = await openCheckWorld(t);
  const attempts = [
    { ...runningAttempt, ...lost },
    { allocation: 2, ...endedAttempt('stopped', { message: 'asked by the owner' }) },
  ];
  const allocations = [{ ...readyAllocation, releasedAt: noon }, {}];
  for (const verdict of ['cancelled', 'stopped'] as const) {
    const finish = { at: noon + 90 * minute, verdict, reason: 'stopped' } as const;
    await world.job({ attempts, allocations, windows: 1, job: { finish } });
  }
  const { out } = await world.tpu(['check', 'ada', '-ws'], { now: later });
  assert.match(out, /^ {5}1 {2}killed 09:30:00$/m);
  assert.match(out, /^ {5}2 {2}stopped 09:30:00$/m);
});

test('the status shows a wait that is longer than usual', async (t) => {
  const world = await openCheckWorld(t);
  const attempts = [{ ...runningAttempt, ...lost }, { allocation: 2 }];
  const taken = { ...readyAllocation, releasedAt: noon };
  const finish = { at: noon + 5 * minute, verdict: 'succeeded', reason: 'succeeded' } as const;
  const error = { kind: 'stockout', message: 'no capacity', raw: '' } as const;
  const waiting = [taken, { lastError: { at: noon, error } }];
  await world.job({ attempts, allocations: waiting, windows: 1 });
  const status = () => statusOf(world);
  assert.equal(await status(), 'error: preempted 09:00:00; resumes soon: no capacity for 1h');
  for (const minutes of [1, 2, 3, 4, 5]) {
    const allocations = [taken, { ...readyAllocation, readyAt: noon + minutes * minute }];
    await world.job({ attempts, allocations, job: { finish } });
  }
  assert.equal(await status(), 'error: preempted 09:00:00; resumes soon: no capacity for 1h, longer than usual');
});

test('a program that has ended, while jobman waits for the report of the cloud', async (t) => {
  const world = await openCheckWorld(t);
  const id = await world.job({
    attempts: [{ ...runningAttempt, exitSeen: { at: noon, worker: 'controller', exitCode: 1 } }],
  });
  const unreported = await world.job({
    attempts: [{ ...runningAttempt, exitSeen: { at: noon, worker: 'controller', exitCode: 1 } }],
    isReported: false,
  });
  for (const job of [id, unreported]) world.log(job, 1, 'epoch 3\nE0000 GRPC error: Connection reset by peer\n');
  const { out } = await world.tpu(['check', 'ada', '-s'], { now: later });
  const ended = 'ended, exit 1; log: grpc';
  assert.deepEqual(out.split('\n').slice(1), [ended, ended, '']);
});

test('check restarts a killed controller, and reports a missing one if a job is unfinished', async (t) => {
  const world = await openCheckWorld(t);
  assert.equal((await world.tpu(['check', 'ada'])).err.includes('controller'), false, 'no unfinished job');
  await world.job({ attempts: [runningAttempt] });
  const controller = async () =>
    ({ status: async () => ({ running: false }) }) as unknown as Awaited<ReturnType<Services['controller']>>;
  const { err: note } = await world.tpu(['check', 'ada'], { client: { isControllerRunning: async () => false } });
  assert.match(note, /No controller runs, so this is the last known state/);
  assert.equal((await world.tpu(['check', 'ada', '--json'])).err, '');
  // A reboot leaves the file of the running controller.
  mkdirSync(world.home, { recursive: true });
  writeFileSync(join(world.home, 'controller.json'), '{}');
  const client = async () => ({ wake: async () => 'Started the controller.' }) as unknown as Client;
  const { err } = await world.tpu(['check', 'ada'], { services: { client, controller } });
  assert.equal(err, 'Started the controller.\n');
});

test('succeeded, killed, a closed window, a job that waits for its TPU', async (t) => {
  const world = await openCheckWorld(t);
  await world.job({ attempts: [{ ...runningAttempt, ...endedAttempt('succeeded', { message: 'exit code 0' }) }] });
  await world.job({ attempts: [{ ...runningAttempt, ...endedAttempt('stopped', { message: 'asked by the owner' }) }] });
  const closed = await world.job({ attempts: [runningAttempt] });
  await world.labStore.setWindowState([{ job: closed, attempt: 1 }], 'closed', noon);
  await world.job({ attempts: [{}], windows: 0 });
  const { out } = await world.tpu(['check', 'ada', '-ws'], { now: later });
  assert.match(out, /^ {5}1 {2}succeeded 09:00:00$/m);
  assert.match(out, /^ {5}2 {2}killed 09:00:00$/m);
  assert.match(out, /^ {5}3 {2}Running, window closed: recovery is off$/m);
  assert.match(out, /^ {5}- {2}starting, queued/m);
});

test('letters choose the columns and their order; v shows the last lines', async (t) => {
  const world = await openCheckWorld(t, {
    settings: { ...defaultUserSettings, monitor_columns: 'sw', show_length: 30 },
  });
  const id = await world.job({ attempts: [runningAttempt] });
  world.log(id, 1, 'a line that is older than what is shown\nep=1 \u001b[31mred\u001b[0m\n');
  const lines = async (...args: string[]): Promise<readonly string[]> =>
    (await world.tpu(['check', 'ada', ...args], { now: later })).out.split('\n');
  assert.deepEqual(await lines(), ['STATUS         WINDOW', 'Running(ep 1)       1', '']);
  assert.deepEqual(await lines('-td'), ['TPU      DIR', 'v2-32-1  code', '']);
  assert.deepEqual((await lines('-sv')).slice(0, 3), ['STATUS', 'Running(ep 1)', '    | at is shown']);
  assert.deepEqual((await lines('-vs')).at(-2), '    | ep=1 red');
});

test('v alone shows the window above its output', async (t) => {
  const world = await openCheckWorld(t);
  const first = await world.job({ attempts: [runningAttempt], labJob: { directory: '/code/vit' } });
  const second = await world.job({ attempts: [runningAttempt] });
  world.log(first, 1, 'ep=1\n');
  world.log(second, 1, 'ep=2\n');
  const { out } = await world.tpu(['check', 'ada', '-v'], { now: later });
  assert.equal(out, 'window 1, vit:\n    | ep=1\nwindow 2, code:\n    | ep=2\n');
});

test('the status shows a silent worker and the time when a program counts as hung', async (t) => {
  const world = await openCheckWorld(t);
  const silent = { ...readyAllocation, unreachableAt: noon + 99 * minute, unreachableWho: 'worker' } as const;
  await world.job({ attempts: [runningAttempt], allocations: [silent], isReported: false });
  const noAnswer = await world.job({ attempts: [runningAttempt], allocations: [silent] });
  world.log(noAnswer, 1, 'ep=1\n');
  const given = { attempts: [runningAttempt], allocations: [readyAllocation], hangGrace: 5 * minute };
  const id = await world.job({ ...given, isReported: false });
  const reported = await world.job(given);
  for (const job of [id, reported]) {
    const path = world.log(job, 1, 'ep=1\nE0000 GRPC error: Connection reset by peer\n');
    utimesSync(path, (noon + 98 * minute) / 1_000, (noon + 98 * minute) / 1_000);
  }
  const { out } = await world.tpu(['check', 'ada', '-ws'], { now: later });
  assert.match(out, /^ {5}1 {2}starting, no answer for 1m$/m);
  assert.match(out, /^ {5}2 {2}Running\(ep 1\), no answer for 1m$/m);
  assert.match(out, /^ {5}3 {2}starting; log: grpc, ended at \d\d:43:00 if silent$/m);
  assert.match(out, /^ {5}4 {2}Running\(ep 1\); log: grpc, ended at \d\d:43:00 if silent$/m);
  const jobs = [jobView({ id, owner: 'ada' }), jobView({ id: reported, owner: 'ada' })];
  const answer = (refused: string) => ({ id: refused, ok: false, message: '', exitCode: 4 });
  const acknowledged = await world.tpu(['ack', 'ada'], { now: later, jobs, answerCommand: answer });
  for (const window of [3, 4]) {
    const expected = new RegExp(
      `^Window ${window}: the log reports grpc; if it prints nothing until \\d\\d:43:00, it is ended`,
      'm',
    );
    assert.match(acknowledged.out, expected);
  }
});

test('if the log shows no progress, check shows its last lines', async (t) => {
  const world = await openCheckWorld(t);
  const id = await world.job({ attempts: [runningAttempt] });
  world.log(id, 1, 'the error of the fit is small\n');
  const { out } = await world.tpu(['check', 'ada', '-s'], { now: later });
  assert.deepEqual(out.split('\n').slice(1, 3), ['Running', '    | the error of the fit is small']);
});

test('--json prints all fields', async (t) => {
  const world = await openCheckWorld(t);
  const id = await world.job({ attempts: [runningAttempt], labJob: { tag: 'vit' } });
  world.log(id, 1, 'Sampling 3\n');
  const { out } = await world.tpu(['--json', 'check', 'ada', '-w'], { now: later });
  assert.deepEqual(JSON.parse(out), {
    window: 1,
    job: id,
    attempt: 1,
    tag: 'vit',
    stage: 0,
    lineage: [1],
    directory: '/srv/code',
    folder: 'code',
    tpu: 'kmh-tpuvm-v2-32-1',
    tpuShort: 'v2-32-1',
    message: 'Sampling 3\n',
    windowClosed: false,
    status: 'running',
    progress: 'Sampling',
    error: null,
    errorMessage: null,
    next: null,
    child: null,
    waitReason: null,
    trouble: null,
    hangsAt: null,
    statusAt: '2026-11-20T12:00:00.000Z',
  });
});

test('of a log of five gigabytes check reads only the end', async (t) => {
  const world = await openCheckWorld(t, { settings: { ...defaultUserSettings, monitor_length: 40 } });
  const id = await world.job({ attempts: [runningAttempt] });
  const path = world.log(id, 1, 'ep=1\n');
  // Holes take no space on the disk, and reading them would take seconds and as much memory.
  const file = openSync(path, 'r+');
  writeSync(file, 'ep=7\n', 5 * 1024 ** 3);
  closeSync(file);
  assert.equal(await statusOf(world), 'Running(ep 7)');
  world.log(id, 1, `ep=1 long ago\n${'.'.repeat(40)}`);
  assert.equal(await statusOf(world), 'Running');
});

test('a user without windows, and a narrow terminal', async (t) => {
  const world = await openCheckWorld(t);
  const none = await world.tpu(['check', 'ada'], { now: later });
  assert.deepEqual([none.code, none.out], [0, '']);
  assert.match(none.err, /ada has no windows/);
  await world.job({
    attempts: [runningAttempt],
    labJob: { tag: 'a-tag-that-takes-some-room', directory: '/code/a-long-folder' },
  });
  const { out } = await world.tpu(['check', 'ada'], { now: later, terminal: { columns: 40, rows: 20 } });
  assert.ok(
    out.split('\n').every((line) => line.length <= 40),
    out,
  );
  assert.match(out, /Running/);
});

test('the monitor draws changes, explains its keys, and keeps the last frame after q', async (t) => {
  const world = await openCheckWorld(t, { settings: { ...defaultUserSettings, monitor_upd_time: 1 } });
  const id = await world.job({ attempts: [runningAttempt], labJob: { tag: 'vit' } });
  world.log(id, 1, 'Staging files...\n');
  const { rest, ends } = world.begin(['monitor', 'ada'], {
    terminal: { columns: 80, rows: 24 },
    env: { NO_COLOR: '1' },
  });
  const shows = async (what: RegExp): Promise<void> =>
    assert.ok(await eventually(async () => what.test(rest.out())), rest.out());
  await shows(/Staging/);
  assert.match(rest.out(), /ada {2}1 window, 1 running/);
  assert.match(rest.out(), /show or hide: w window · d directory · t TPU · s status · v output {5}q quit/);
  world.log(id, 1, 'Staging files...\nep=4\n');
  await shows(/Running\(ep 4\)/);
  const before = rest.out().length;
  rest.typeKeys('d');
  await shows(/WINDOW {2}TAG {2}TPU {6}STATUS/);
  // The screen was not cleared.
  assert.ok(!rest.out().slice(before).includes('\u001b[2J'));
  rest.resize({ columns: 28, rows: 10 });
  await shows(/1 {2}vit {2}v2-32-1\n {2}.*Running\(ep 4\)/);
  rest.typeKeys('q');
  assert.equal(await ends, 0);
});

test('a monitor that is taller than the terminal shows the newest', async (t) => {
  const world = await openCheckWorld(t);
  for (let index = 0; index < 12; index += 1) await world.job({ attempts: [{ ...runningAttempt, ...grpc }] });
  const { rest, ends } = world.begin(['monitor', 'ada', '-w'], { terminal: { columns: 80, rows: 8 } });
  assert.ok(await eventually(async () => /10 more above/.test(rest.out())), rest.out());
  assert.match(rest.out(), /^ {4}12$/m);
  assert.doesNotMatch(rest.out(), /^ {5}1$/m);
  rest.typeKeys('q');
  assert.equal(await ends, 0);
});

test('without a terminal the monitor prints a line for each change', async (t) => {
  const world = await openCheckWorld(t, { settings: { ...defaultUserSettings, monitor_upd_time: 1 } });
  const id = await world.job({ attempts: [runningAttempt] });
  world.log(id, 1, 'ep=1\n');
  const { rest, ends } = world.begin(['monitor', 'ada', '-ws', '--json'], {});
  const lines = (): readonly string[] => rest.out().split('\n').slice(0, -1);
  assert.ok(await eventually(async () => lines().length === 1), rest.out());
  world.log(id, 1, 'ep=1\nep=2\n');
  assert.ok(await eventually(async () => lines().length === 2), rest.out());
  assert.equal(JSON.parse(lines()[1] ?? '').progress, 'Running(ep 2)');
  rest.signal();
  assert.equal(await ends, 130);
});

test('without a terminal and without windows the monitor reports that it waits', async (t) => {
  const world = await openCheckWorld(t, { settings: { ...defaultUserSettings, monitor_upd_time: 1 } });
  const { rest, ends } = world.begin(['monitor', 'ada', '-ws'], {});
  assert.ok(await eventually(async () => rest.err() !== ''), rest.err());
  assert.match(rest.err(), /^ada has no windows yet\. Waiting for one; press Ctrl-C to quit\.$/m);
  const id = await world.job({ attempts: [runningAttempt] });
  world.log(id, 1, 'ep=1\n');
  assert.ok(await eventually(async () => /^ +1 +Running\(ep 1\)$/m.test(rest.out())), rest.out());
  rest.signal();
  assert.equal(await ends, 130);
  assert.equal(rest.err().match(/Waiting for one/g)?.length, 1, 'reported once');
});
