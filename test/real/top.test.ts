/** `top` with a real controller, the TPU emulator and programs on this machine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TopJob, TopRow, TopWorker, TopZone } from '../../src/app/top.ts';
import { eventually } from '../support/eventually.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

async function topOf(world: JobWorld, ...args: readonly string[]) {
  const rows = await world.jsonRows<TopRow>('top', '--json', ...args);
  return {
    zones: rows.filter((row): row is TopZone => row.kind === 'zone'),
    job: (id: string) => rows.find((row): row is TopJob => row.kind === 'job' && row.id === id),
    workers: (id: string) => rows.filter((row): row is TopWorker => row.kind === 'worker' && row.job === id),
  };
}

function assertShare(value: number | null | undefined): void {
  assert.ok(typeof value === 'number' && value >= 0 && value <= 100, String(value));
}

test('top measures the workers of jobs, and keeps the others when one does not answer', async (t) => {
  if (!requireReal(t, 'ssh', findProgram('ssh'))) return;
  const world = openJobWorld(t, { withinMs: 120_000 });
  const steps = 'for i in $(seq 1 100000); do echo "step $i/100000"; sleep 0.2; done';
  const tpu = await world.create(world.tpuManifest(steps, { name: 'steps' }));
  const busy = await world.create(world.localManifest('while :; do :; done', { name: 'busy' }));
  const idle = await world.create(world.localManifest('sleep 1000', { name: 'idle' }));
  for (const id of [tpu, busy, idle]) await world.waitForPhase(id, 'running');

  const first = await topOf(world);
  const [zone] = first.zones;
  assert.deepEqual(
    [zone?.zone, zone?.generation, zone?.heldChips, zone?.busyChips, zone?.idleChips, zone?.waitingChips],
    ['us-central2-b', 'v4', 8, 8, 0, 0],
  );
  assert.equal(first.job(tpu)?.runningCount, 2);
  for (const id of [tpu, busy, idle]) {
    for (const worker of first.workers(id)) {
      assert.equal(worker.state, 'running');
      assertShare(worker.cpuPercent);
      assertShare(worker.programCpuPercent);
      const { memoryUsedBytes, memoryTotalBytes, diskUsedBytes, diskTotalBytes } = worker;
      assert.ok((memoryUsedBytes ?? 0) > 0 && (memoryUsedBytes ?? 0) < (memoryTotalBytes ?? 0));
      assert.ok(diskUsedBytes !== null && diskUsedBytes <= (diskTotalBytes ?? 0));
      assert.ok(worker.receivedBytesPerSecond !== null && worker.sentBytesPerSecond !== null);
      assert.ok((worker.programMemoryBytes ?? 0) > 0);
    }
  }
  assert.ok((first.job(busy)?.cpuPercent ?? 0) > (first.job(idle)?.cpuPercent ?? 0), 'A loop takes more than a sleep.');
  const logged = await eventually(async () => {
    const { job } = await topOf(world, tpu);
    return job(tpu)?.step !== null && job(tpu);
  });
  assert.match(logged ? (logged.lastLine ?? '') : '', /^step \d+\/100000$/);

  // Without a controller over its own connections.
  await world.output('controller', 'stop');
  const alone = await topOf(world, tpu);
  assert.deepEqual(
    alone.workers(tpu).map(({ state, message }) => [state, message]),
    [
      ['running', null],
      ['running', null],
    ],
  );

  await world.output('emulator', 'hang-host', tpu, '--worker', '1');
  const hung = await topOf(world, tpu);
  const [well, silent] = hung.workers(tpu);
  assert.deepEqual([well?.state, well?.silentSinceAt], ['running', null]);
  assert.equal(silent?.state, null);
  assert.ok(silent.silentSinceAt !== null && silent.message !== null);
  assert.equal(hung.job(tpu)?.runningCount, 1);
  assert.match(hung.job(tpu)?.message ?? '', /^worker 1 silent: /);

  // The whole TPU disappears, and no controller has noticed it.
  await world.output('emulator', 'preempt', tpu);
  const gone = await eventually(async () => {
    const found = await topOf(world);
    return found.zones.every(({ heldChips }) => heldChips === 0) && found;
  });
  assert.ok(gone);
  assert.ok(gone.workers(tpu).every(({ silentSinceAt }) => silentSinceAt !== null));
  assert.deepEqual(gone.workers(busy)[0]?.state, 'running', 'The other jobs are shown as before.');

  await world.output('controller', 'start');
  await world.waitUntil(tpu, ({ attempts }) => attempts.length === 2);
  const next = await topOf(world, tpu);
  assert.ok(next.workers(tpu).every(({ silentSinceAt }) => silentSinceAt === null));
  for (const id of [tpu, busy, idle]) await world.output('cancel', id);
  // Their programs end before the controller does.
  for (const id of [tpu, busy, idle]) await world.waitForPhase(id, 'cancelled');
});
