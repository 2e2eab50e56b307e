/** The check for users of a TPU before a command starts: files stand for chips, and real processes open them. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createMachines } from '../../src/backends/machines.ts';
import { createLocalTransport } from '../support/local-transport.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld } from '../support/world.ts';
import { launchOf, testRef } from './machines-contract.ts';

/** A worker with a chip of that name. */
function openGround(t: TestContext, chip: string) {
  const world = openWorld(t);
  const path = join(world.folder, 'dev', chip);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, '');
  const env = { ...world.env, JOBMAN_DEVICES: join(world.folder, 'dev') };
  const ref = testRef('000001');
  const machines = createMachines({
    findTransport: () => Promise.resolve({ kind: 'open', transport: createLocalTransport({ env, cwd: world.folder }) }),
    root: () => `'${join(world.folder, 'run')}'`,
    appendStepLog: () => Promise.resolve(),
    openWorkdir: () => Promise.resolve(null),
    blobs: { read: () => Promise.reject(new Error('no blob is needed')) },
    readSecret: () => Promise.reject(new Error('no secret is needed')),
    now: () => Date.now(),
    disconnect: () => undefined,
  });
  /** Opens the chip until it is ended; with a marker it is one of jobman's programs. */
  const hold = async (marker?: string) => {
    const marked = marker === undefined ? {} : { JOBMAN_RUN: marker };
    const child = spawn('sh', ['-c', 'exec 9<"$0"; echo held; exec sleep 300', path], {
      env: { ...world.env, ...marked },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    world.atEnd(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    return child;
  };
  const start = (attempt: number, script = 'true\n') => machines.start(ref, launchOf(attempt, script));
  const kill = (attempt: number) => machines.stop(ref, attempt, 'kill', 'TERM');
  const isOver = async (attempt: number) => {
    const [fact] = await machines.observe([ref]);
    return fact?.kind === 'known' && fact.value.runs.some((run) => run.attempt === attempt && run.state === 'exited');
  };
  return { ref, hold, start, kill, isOver };
}

for (const chip of ['accel0', 'vfio/0']) {
  test(`another program that uses ${chip} is named and not touched, and after its end the command starts`, async (t) => {
    const { hold, start, isOver } = openGround(t, chip);
    const child = await hold();
    const outcome = await start(1);
    assert.equal(outcome.kind, 'failed');
    assert.ok(outcome.kind === 'failed');
    assert.equal(outcome.evidence.pattern, 'busy');
    assert.match(outcome.evidence.message, new RegExp(`uses its TPU: process ${child.pid} \\(sleep 300\\)`, 'u'));
    assert.equal(child.exitCode ?? child.signalCode, null, 'it lives');
    assert.equal(await isOver(1), false, 'nothing was started');
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('exit', resolve));
    assert.deepEqual(await start(1), { kind: 'done' });
    assert.ok(await eventually(() => isOver(1)));
  });
}

test('processes of an earlier attempt of the same job are ended, those of another job are not', async (t) => {
  const { ref, hold, start, isOver } = openGround(t, 'accel0');
  const left = await hold(`${ref.job.installation}/000001/1/0`);
  assert.deepEqual(await start(2), { kind: 'done' });
  assert.ok(await eventually(() => left.signalCode === 'SIGKILL'));
  assert.ok(await eventually(() => isOver(2)));
  const other = await hold(`${ref.job.installation}/000002/1/0`);
  assert.equal((await start(3)).kind, 'failed');
  assert.equal(other.exitCode ?? other.signalCode, null, 'it lives');
});

test('the program itself does not block a second start', async (t) => {
  const { ref, hold, start, kill } = openGround(t, 'accel0');
  const own = await hold(`${ref.job.installation}/000001/1/0`);
  // A program that keeps running: at its end, processes with its marker are ended.
  assert.deepEqual(await start(1, 'sleep 300\n'), { kind: 'done' });
  assert.equal(own.exitCode ?? own.signalCode, null, 'it lives');
  assert.deepEqual(await kill(1), { kind: 'done' });
});
