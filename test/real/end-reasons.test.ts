/** Each kind of failure has its own reason with evidence, on this machine and on the TPU emulator. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { sendSignal, openJobWorld } from '../support/jobs.ts';

const never = 'while :; do sleep 0.1; done';

test('a failure, a kill, a hang and a timeout have different reasons on this machine', async (t) => {
  const world = openJobWorld(t);
  const ids = {
    failed: await world.create(world.localManifest('echo first; echo boom >&2; exit 7', { name: 'failed' })),
    killed: await world.create(world.localManifest(`echo $$; ${never}`, { name: 'killed' })),
    hung: await world.create(
      world.localManifest(`echo still; ${never}`, { name: 'hung', job: { silence_timeout: '1s' } }),
    ),
    late: await world.create(
      world.localManifest('while :; do echo tick; sleep 0.1; done', { name: 'late', job: { max_runtime: '2s' } }),
    ),
  };
  await world.waitUntil(ids.killed, (job) => /^\d+$/.test(job.workers[0]?.lastLine ?? ''));
  sendSignal(Number(world.readLog(ids.killed).toString().trim()), 'SIGKILL');

  for (const [id, reason, message, more] of [
    [ids.failed, 'command_failed', 'exit code 7 (', { exitCode: 7, worker: 0 }],
    [ids.killed, 'command_failed', 'killed by SIGKILL (exit code 137);', { exitCode: 137, signal: 'KILL', worker: 0 }],
    [ids.hung, 'hung', 'no output for 1s (job.silence_timeout) (', {}],
    [ids.late, 'timed_out', 'reached its time limit of 2s (job.max_runtime) (', {}],
  ] as const) {
    const job = await world.waitForFinish(id, 1);
    assert.equal(job.phase, 'failed');
    assert.equal(job.attempts.length, 1);
    const [attempt] = job.attempts;
    assert.equal(attempt?.reason, reason);
    const { message: _detail, ...evidence } = attempt?.evidence ?? { message: '' };
    const none = {
      worker: null,
      exitCode: null,
      signal: null,
      unconfirmed: false,
      pattern: null,
      line: null,
      raw: null,
    };
    assert.deepEqual(evidence, { ...none, ...more });
    const why = await world.runOk(['why', id]);
    assert.ok(why.stdout.includes(`because   ${message}`), why.stdout);
    assert.match(why.stdout, new RegExp(`jobman resume ${Number(id)} · Start over: jobman rerun ${Number(id)}`));
  }
  assert.equal(world.readLog(ids.failed).toString(), 'first\nboom\n');
});

test('a kill on one worker or a hang ends the job on both, and a failed step shows its last output', async (t) => {
  const world = openJobWorld(t);
  // Not on spot, where a killed program first waits half a minute for a preemption.
  const killed = await world.create(
    world.tpuManifest(`echo $$; ${never}`, { name: 'killed', tpu: { pricing: 'ondemand' } }),
  );
  const hung = await world.create(
    world.tpuManifest(`[ $JOBMAN_WORKER = 1 ] || echo tick; ${never}`, {
      name: 'hung',
      job: { silence_timeout: '2s' },
    }),
  );
  // A file blocks the bucket's folder, so the step fails at every try.
  const setup = await world.create(
    world.tpuManifest('true', { name: 'setup', gcsfuse: { bucket_name: 'shared', mount_path: '/etc/passwd/x' } }),
  );

  await world.waitUntil(
    killed,
    (job) => job.workers.length === 2 && job.workers.every(({ lastLine }) => /^\d+$/.test(lastLine ?? '')),
  );
  const pid = world.readLog(killed, 1).toString().trim();
  await world.runOk(['ssh', killed, '--worker', '1', '--', `kill -9 ${pid}`]);

  for (const [id, reason, message] of [
    [killed, 'command_failed', /^because {3}killed by SIGKILL \(exit code 137\) on worker 1; /m],
    [hung, 'hung', /^because {3}no output on any worker for 2s \(job\.silence_timeout\) \(/m],
    [
      setup,
      'setup_failed',
      /^because {3}step gcsfuse failed on worker [01] \(3 tries\): .*\/etc\/passwd\/x cannot be created on this host \(exit code 1/m,
    ],
  ] as const) {
    const job = await world.waitForFinish(id, 1);
    assert.equal(job.attempts.length, 1);
    assert.equal(job.attempts[0]?.reason, reason);
    assert.match(await world.output('why', id), message);
  }
  assert.match(await world.output('logs', setup, '--step', 'gcsfuse'), /^\[0\] mkdir: .*Not a directory$/m);
  // The job leaves no program and no TPU.
  for (const id of [killed, hung, setup])
    await world.waitUntil(id, (job) => job.allocations.every(({ goneAt: gone }) => gone !== null));
  const isEmpty = async () => /"tpus":\[\]/.test(await world.output('emulator', 'status', '--json'));
  assert.ok(await eventually(isEmpty));
});

test('a stop first signals, then kills, all children, also those in another session', async (t) => {
  const world = openJobWorld(t);
  const note = join(world.folder, 'asked');
  const script = [
    `trap 'echo asked >>${note}' TERM`,
    // One child ignores the signal, the other has left the session and lost its parent; both belong to the job.
    `(trap '' TERM; exec -a stubborn-child sleep 1000) &`,
    `(setsid bash -c 'trap "" TERM; exec -a stubborn-orphan sleep 1000' &) `,
    `echo ready`,
    `while :; do sleep 0.1; done`,
  ].join('\n');
  const id = await world.create(world.localManifest(script, { job: { stop_grace: '1s' } }));
  await world.waitUntil(id, (job) => job.workers[0]?.lastLine === 'ready');
  assert.ok(await eventually(() => world.processesMatching('stubborn').length === 2));

  const asked = await world.runOk(['stop', id]);
  assert.match(asked.stdout, /^Stopping job 000001 \(bad\)\.\n$/);
  const job = await world.waitForFinish(id, 1);
  assert.equal(job.phase, 'stopped');
  assert.equal(job.attempts[0]?.reason, 'stopped');
  assert.equal(readFileSync(note, 'utf8'), 'asked\n', 'it was asked, once');
  assert.deepEqual(world.processesMatching('stubborn'), [], 'programs that ignored the signal were killed');
  assert.deepEqual(world.processesMatching(join('attempt_1', 'script')), []);
});

test('delete --force removes a job from the list at once, and ends its program after the grace period', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(
    world.localManifest(`trap '' TERM; echo ready; ${never}`, { job: { stop_grace: '1s' } }),
  );
  await world.waitUntil(id, (job) => job.workers[0]?.lastLine === 'ready');
  assert.match(await world.output('delete', id, '--force'), /^Deleted job .* Its program is being ended/);
  assert.equal(await world.output('list', '--json'), '');
  const isOver = () => world.processesMatching(join('attempt_1', 'script')).length === 0;
  assert.ok(await eventually(isOver, { withinMs: 60_000 }), 'the program is still alive');
});

test('a pid that belongs to another program after a restart is not signalled', async (t) => {
  const world = openJobWorld(t);
  const bootId = join(world.folder, 'boot-id');
  const env = { JOBMAN_BOOT_ID_FILE: bootId };
  writeFileSync(bootId, '11111111-1111-4111-8111-111111111111\n');
  const id = (await world.runOk(['create', world.localManifest(never), '--quiet'], { env })).stdout.trim();
  await world.waitForPhase(id, 'running');
  await world.runOk(['controller', 'stop'], { env });

  // The machine "restarts": all processes are dead, and another process has the launcher's pid and even its start time.
  for (const { pid } of world.processesMatching('attempt_1')) sendSignal(pid, 'SIGKILL');
  const unrelated = spawn('sleep', ['1000'], { stdio: 'ignore', cwd: '/' });
  world.atEnd(() => void unrelated.kill('SIGKILL'));
  const ticks = readFileSync(`/proc/${unrelated.pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19];
  const file = join(world.home, 'runs', id, '0', 'attempt_1', 'pid');
  const [, , boot, startedAt] = readFileSync(file, 'utf8').split(' ');
  writeFileSync(file, `${unrelated.pid} ${ticks} ${boot} ${startedAt}`);
  writeFileSync(bootId, '22222222-2222-4222-8222-222222222222\n');

  await world.runOk(['controller', 'start'], { env });
  const job = await world.waitForFinish(id, 1);
  assert.equal(job.attempts.length, 1);
  assert.match(job.attempts[0]?.evidence?.message ?? '', /the machine was restarted/);
  assert.match(await world.output('why', id), /the machine was restarted/);
  assert.equal(unrelated.exitCode ?? unrelated.signalCode, null, 'the unrelated process is still alive');
});
