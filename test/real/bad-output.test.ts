/** Programs with very large, binary or no output: the log is the output, byte for byte, and no process grows. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.ts';
import { jobmanCommand } from '../support/jobman.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

const megabyte = 1024 * 1024;

/** The peak memory of a process according to the kernel; 0 when it has exited. */
function peakOf(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

function controllerOf(world: JobWorld): number {
  const [controller] = world.processesMatching('controller run');
  assert.ok(controller);
  return controller.pid;
}

test('200 MB of output are copied byte for byte, and neither the controller nor the follower grows', async (t) => {
  const world = openJobWorld(t);
  const go = join(world.folder, 'go');
  const lines =
    'yes "0123456789 a line like any other that a program prints when it is left alone" | head -c 200000000';
  const id = await world.create(world.localManifest(`until [ -e ${go} ]; do sleep 0.1; done; ${lines}`));
  await world.waitForPhase(id, 'running');
  const controller = controllerOf(world);
  const before = peakOf(controller);

  const hash = createHash('sha256');
  let bytes = 0;
  let followerPeak = 0;
  const [file, ...args] = jobmanCommand;
  const follower = spawn(file, [...args, 'logs', id, '-f', '--raw'], {
    cwd: world.folder,
    env: world.env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const over = new Promise<number | null>((resolve) => follower.on('close', resolve));
  follower.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    hash.update(chunk);
    followerPeak = Math.max(followerPeak, peakOf(follower.pid ?? 0));
  });
  writeFileSync(go, '');
  assert.equal(await over, 0);
  await world.waitForFinish(id);
  const log = world.jobFolder(id, 'logs', 'command_worker_0.log');
  assert.equal(statSync(log).size, 200_000_000);
  const copy = createHash('sha256').update(readFileSync(log)).digest('hex');
  const original = createHash('sha256')
    .update(readFileSync(join(world.home, 'runs', id, '0', 'attempt_1', 'log')))
    .digest('hex');
  assert.equal(copy, original);
  assert.equal(bytes, 200_000_000, 'the follower prints all of it');
  assert.equal(hash.digest('hex'), original);
  assert.ok(
    peakOf(controller) - before < 100 * megabyte,
    `the controller grew from ${before} to ${peakOf(controller)}`,
  );
  assert.ok(followerPeak < 250 * megabyte, `logs -f took ${followerPeak}`);
  // The end of a large log is as cheap as that of a small one.
  const tail = await world.runOk(['logs', id, '--tail', '2']);
  assert.equal(tail.stdout.split('\n').length, 3);
});

test('output that is not UTF-8, one line of 10 MB, and no output', async (t) => {
  const world = openJobWorld(t);
  const bytes = Buffer.from(Array.from({ length: 4_096 }, (_, at) => (at * 31) % 256));
  const blob = join(world.folder, 'blob');
  writeFileSync(blob, bytes);
  const binary = await world.create(world.localManifest(`cat ${blob}`, { name: 'binary' }));
  const long = await world.create(
    world.localManifest(`head -c 10000000 /dev/zero | tr '\\0' x; echo; echo end`, { name: 'long' }),
  );
  const silent = await world.create(world.localManifest('true', { name: 'silent' }));

  await world.waitForFinish(binary);
  assert.deepEqual(world.readLog(binary), bytes);
  const shown = await world.runOk(['logs', binary]);
  // The output must not control a terminal. A carriage return is harmless in a pipe.
  // oxlint-disable-next-line no-control-regex
  assert.doesNotMatch(shown.stdout, /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/);
  const view = await world.runOk(['show', binary]);
  // oxlint-disable-next-line no-control-regex
  assert.doesNotMatch(view.stdout, /[\0-\x08\x0b-\x1f\x7f]/);
  for (const line of (await world.output('logs', binary, '--json')).trimEnd().split('\n')) JSON.parse(line);

  await world.waitForFinish(long);
  assert.equal(world.readLog(long).length, 10_000_005);
  const raw = await world.runOk(['logs', long, '--raw']);
  assert.equal(raw.stdout, `${'x'.repeat(10_000_000)}\nend\n`);
  const numbered = await world.runOk(['logs', long, '-f']);
  assert.equal(numbered.stdout.replaceAll('[0] ', '').replaceAll('\n', ''), `${'x'.repeat(10_000_000)}end`);
  assert.match(await world.output('logs', long, '--tail', '1'), /^\[0\] end\n$/);
  assert.ok((await world.output('show', long)).length < 5_000, 'the last line is truncated in a table');

  await world.waitForFinish(silent);
  const nothing = await world.runOk(['logs', silent]);
  assert.equal(nothing.stdout, '');
  assert.match(
    nothing.stderr,
    /^There is no log: the program printed nothing, .*\. Job 000003 succeeded \d+s ago\.\n$/,
  );
  assert.equal(await world.output('logs', silent, '-f'), '');
  assert.ok(await eventually(() => statSync(world.jobFolder(silent, 'config.yaml')).size > 0));
});

test('a reader that exits early is not an error', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(world.localManifest('yes | head -n 200000'));
  await world.waitForFinish(id);
  const reader = world.start(['logs', id]);
  reader.child.stdout?.once('data', () => reader.child.stdout?.destroy());
  const { code, stderr } = await reader.result;
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  assert.equal((await world.jobman(['list'])).code, 0);
});

test('a reader that pauses receives everything when it continues, wherever it paused', async (t) => {
  const world = openJobWorld(t);
  // Sizes below and above a stream's high-water mark.
  const id = await world.create(
    world.localManifest(`for i in $(seq 40); do head -c 7001 /dev/zero | tr '\\0' x; echo; sleep 0.05; done`),
  );
  const [file, ...args] = jobmanCommand;
  const argv = [...args, 'logs', id, '-f', '--raw'];
  const follower = spawn(file, argv, { cwd: world.folder, env: world.env, stdio: ['ignore', 'pipe', 'ignore'] });
  world.atEnd(() => void follower.kill('SIGKILL'));
  const over = new Promise<number | null>((resolve) => follower.on('close', resolve));
  // Node gives its children sockets as pipes. Without a reader, the follower soon exceeds their capacity.
  await world.waitForFinish(id);
  await sleep(1_000);
  let bytes = 0;
  follower.stdout.on('data', (chunk: Buffer) => (bytes += chunk.length));
  const code = await Promise.race([over, sleep(60_000, 'it hangs' as const, { ref: false })]);
  assert.equal(code, 0);
  assert.equal(bytes, 40 * 7_002);
});
