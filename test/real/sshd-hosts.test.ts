/** A job on hosts with OpenSSH's server, and their faults. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { findSshd } from '../../src/emulator/hosts/sshd.ts';
import { eventually } from '../support/eventually.ts';
import { requireReal } from '../support/real.ts';
import { sendSignal, openJobWorld, type JobWorld, reasonsOf } from '../support/jobs.ts';

/**
 * Starts an emulator with such hosts for the jobs of this world; undefined, and the test skipped, where there is no
 * sshd.
 */
async function openSshdWorld(t: TestContext): Promise<JobWorld | undefined> {
  if (!requireReal(t, 'sshd', findSshd(existsSync))) return undefined;
  const world = openJobWorld(t);
  const cloud = world.start(['emulator', 'serve', '--hosts', 'sshd', '--speed', '60'], { withinMs: 240_000 });
  await cloud.waitForOutput(/^READY /m, 60_000);
  return world;
}

/** A program that counts, stores the count in the bucket, and ends on request. */
const program = `echo "begins from \${JOBMAN_RESUME_FROM:-nothing} as $(whoami) on $(hostname)"
trap 'echo asked; exit 143' TERM
mkdir -p "$JOBMAN_CHECKPOINT_DIR"
count=0
while [ ! -e ~/bucket/go ]; do
  count=$((count + 1))
  echo "count $count"
  [ "$JOBMAN_WORKER" != 0 ] || echo $count >"$JOBMAN_CHECKPOINT_DIR/step_$JOBMAN_ATTEMPT"
  sleep 0.5
done
echo over`;

const manifest = (world: JobWorld): string =>
  world.tpuManifest(program, {
    job: { checkpoint_dir: '~/bucket/checkpoints' },
    recovery: { preset: 'pre', unreachable_grace: '90s' },
  });

const prints = (world: JobWorld, id: string, text: string): Promise<true | undefined> =>
  eventually(() => existsSync(join(world.home, 'jobs')) && logText(world, id).includes(text), { withinMs: 60_000 });

function logText(world: JobWorld, id: string): string {
  try {
    return world.readLog(id).toString();
  } catch {
    return '';
  }
}

/** The length of worker 0's copied log, once it grows. */
async function goesOn(world: JobWorld, id: string): Promise<void> {
  const before = logText(world, id).length;
  assert.ok(await eventually(() => logText(world, id).length > before, { withinMs: 60_000 }), 'its log does not grow');
}

/** Every line once: the counts in the log of one program are consecutive. */
function assertWhole(log: string): void {
  const counts = [...log.matchAll(/^count (\d+)$/gm)].map(([, count]) => Number(count));
  assert.deepEqual(
    counts,
    counts.map((_, index) => index + 1),
  );
}

test('on hosts with sshd a job is set up, runs, is stopped, resumes, is preempted and recovers', async (t) => {
  const world = await openSshdWorld(t);
  if (world === undefined) return;
  const id = await world.create(manifest(world));
  await world.waitForPhase(id, 'running', 240_000);
  assert.ok(await prints(world, id, 'count 3'));
  const { stdout } = await world.runOk(['exec', id, '--', 'cat /proc/$PPID/comm; echo "$TPU_WORKER_ID"']);
  assert.match(stdout, /^\[0\] 0$/m);
  assert.match(stdout, /^\[1\] 1$/m);
  assert.ok(
    world.processesMatching('sshd').some(({ command }) => command.includes('[listener]')),
    'only OpenSSH listens',
  );

  await world.runOk(['stop', id]);
  await world.waitForPhase(id, 'stopped');
  assert.match(logText(world, id), /\nasked\n$/);
  await world.runOk(['resume', id]);
  await world.waitUntil(id, (job) => job.phase === 'running' && job.attempts.length === 2);
  assert.ok(await prints(world, id, 'step_1 as'));

  await world.runOk(['emulator', 'preempt', id]);
  await world.waitUntil(id, (job) => job.phase === 'running' && job.attempts.length === 3, 60_000);
  assert.ok(await prints(world, id, 'step_2 as'));
  writeFileSync(world.bucketPath('go'), '');
  const job = await world.waitForFinish(id);
  assert.deepEqual(reasonsOf(job), ['stopped', 'preempted', 'succeeded']);
  assertWhole(logText(world, id));
  assert.match(logText(world, id), /\nover\n$/);
});

test('an attempt survives an sshd host that hangs, refuses SSH or has a full disk, but not a power loss', async (t) => {
  const world = await openSshdWorld(t);
  if (world === undefined) return;
  const id = await world.create(manifest(world));
  const job = await world.waitForPhase(id, 'running', 240_000);
  assert.ok(await prints(world, id, 'count 3'));
  const worker = `${id}/0`;

  await world.runOk(['emulator', 'hang-host', worker]);
  const isSilent = async (): Promise<boolean> =>
    (await world.output('history', id)).includes('worker 0 does not answer');
  assert.ok(await eventually(isSilent, { withinMs: 50_000, everyMs: 500 }), 'the hang is not noticed');
  await world.runOk(['emulator', 'start-host', worker]);
  await goesOn(world, id);

  await world.runOk(['emulator', 'ssh-refuse', worker]);
  assert.ok(
    await eventually(() => world.processesMatching('[listener]').length === 1, { withinMs: 60_000 }),
    'it lets people in',
  );
  await goesOn(world, id);
  await world.runOk(['emulator', 'start-host', worker]);
  assert.ok(
    await eventually(() => world.processesMatching('[listener]').length === 2, { withinMs: 60_000 }),
    'no login succeeds',
  );

  await world.runOk(['emulator', 'fill-disk', worker]);
  const full = await world.jobman(['exec', id, '--workers', '0', '--', 'echo more >"$HOME/more"']);
  assert.notEqual(full.code, 0);
  assert.match(full.stdout + full.stderr, /No space left on device/);
  await world.runOk(['emulator', 'start-host', worker]);
  await goesOn(world, id);

  const after = await world.waitForPhase(id, 'running');
  assert.equal(after.attempts.length, 1);
  assert.deepEqual(after.attempts[0]?.startedAt, job.attempts[0]?.startedAt);
  assertWhole(logText(world, id));

  await world.runOk(['emulator', 'kill-host', worker]);
  await world.runOk(['emulator', 'start-host', worker]);
  const again = await world.waitUntil(id, (now) => now.phase === 'running' && now.attempts.length === 2, 90_000);
  assert.equal(again.attempts[0]?.reason, 'unreachable');
  writeFileSync(world.bucketPath('go'), '');
  assert.deepEqual(
    (await world.waitForFinish(id)).attempts.map(({ reason }) => reason),
    ['unreachable', 'succeeded'],
  );
});

test('after a kill -9 of the emulator its sshd hosts are found again', async (t) => {
  const world = await openSshdWorld(t);
  if (world === undefined) return;
  const id = await world.create(manifest(world));
  await world.waitForPhase(id, 'running', 240_000);
  assert.ok(await prints(world, id, 'count 3'));
  const listeners = (): readonly number[] =>
    world
      .processesMatching('[listener]')
      .map(({ pid }) => pid)
      .toSorted((a, b) => a - b);
  const before = listeners();
  assert.equal(before.length, 2);

  const clouds = world.processesMatching('emulator serve');
  for (const { pid } of clouds) sendSignal(pid, 'SIGKILL');
  // No option names the kind of hosts: jobman restarts the emulator.
  const note = join(world.home, 'emulator', 'endpoint.json');
  const pidIn = (): number => (JSON.parse(readFileSync(note, 'utf8')) as { readonly pid: number }).pid;
  await world.runOk(['emulator', 'start']);
  assert.ok(!clouds.some(({ pid }) => pid === pidIn()), 'another process serves it');
  assert.match(await world.output('emulator', 'status'), /, 60 times as fast as Google Cloud\./);
  assert.deepEqual(listeners(), before);
  await goesOn(world, id);
  assert.equal(await world.output('ssh', id, '--worker', '1', '--', 'echo "$TPU_WORKER_ID"'), '1\n');

  // ssh-refuse still works on the hosts that it found.
  await world.runOk(['emulator', 'ssh-refuse', `${id}/1`]);
  assert.ok(
    await eventually(() => listeners().length === 1, { withinMs: 60_000 }),
    'the SSH server still accepts connections',
  );
  await world.runOk(['emulator', 'start-host', `${id}/1`]);
  assert.equal(await world.output('ssh', id, '--worker', '1', '--', 'echo in'), 'in\n');

  writeFileSync(world.bucketPath('go'), '');
  assert.equal((await world.waitForFinish(id)).attempts.length, 1);
  assertWhole(logText(world, id));
  assert.ok(
    await eventually(() => listeners().length === 0, { withinMs: 60_000 }),
    'the hosts are removed with the job',
  );
});
