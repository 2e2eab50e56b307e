/**
 * configs/jax-digits.yaml with real packages from PyPI: jax.distributed over gloo between four workers. Preempted
 * twice, and with one host killed, it reaches the accuracy of an undisturbed run. The same in containers, with an image
 * that is built here and served on loopback. Takes a quarter of an hour, mostly for installations, so it is part of
 * `npm run long` and not of the tests.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasDocker, openRegistry } from '../setup/dockerd.ts';
import { pythonImage } from '../setup/image.ts';
import { eventually } from '../support/eventually.ts';
import { requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

const minutes = 60_000;

/** The step of worker 0's newest checkpoint, over all attempts. */
async function reaches(world: JobWorld, id: string, step: number): Promise<void> {
  const line = new RegExp(`step ${step}/`, 'u');
  const is = async () => line.test(await world.output('logs', id, '--worker', '0'));
  assert.ok(await eventually(is, { withinMs: 10 * minutes, everyMs: 500 }), `it did not reach step ${step}`);
}

/** The last report of the last attempt, the same on every worker. */
function accuracyOf(world: JobWorld, id: string): string {
  const [first, ...others] = [0, 1, 2, 3].map((worker) => {
    return /final accuracy (\S+)/u.exec(world.readLog(id, worker).toString())?.[1];
  });
  assert.ok(first !== undefined);
  for (const other of others) assert.equal(other, first);
  return first;
}

/**
 * Runs it undisturbed, and with two preemptions and a killed host. Both end with the same accuracy, which is returned.
 */
async function learns(world: JobWorld, manifest: string, ...args: readonly string[]): Promise<string> {
  const job = (name: string, ...more: readonly string[]) =>
    world.create(manifest, '--set', `job.name=${name}`, '--set', `gcsfuse.bucket_name=${name}`, ...args, ...more);
  const calm = await job('calm');
  await world.waitForFinish(calm, 0, 15 * minutes);

  const storm = await job('storm', '--set', 'job.env.PAUSE=0.4');
  await reaches(world, storm, 40);
  await world.runOk(['emulator', 'preempt', storm]);
  await reaches(world, storm, 100);
  await world.runOk(['emulator', 'kill-host', storm, '--worker', '2']);
  await world.waitUntil(storm, ({ attempts }) => attempts.length === 3, 5 * minutes);
  await reaches(world, storm, 160);
  await world.runOk(['emulator', 'preempt', storm]);
  const { attempts } = await world.waitForFinish(storm, 0, 15 * minutes);
  const reasons = attempts.map(({ reason }) => reason);
  assert.deepEqual([reasons.length, reasons[0], reasons[2], reasons[3]], [4, 'preempted', 'preempted', 'succeeded']);
  const accuracy = accuracyOf(world, storm);
  assert.equal(accuracy, accuracyOf(world, calm));
  return accuracy;
}

test('digits are learned equally well despite preemptions and dying machines', async (t) => {
  t.diagnostic(`accuracy ${await learns(openJobWorld(t), join(root, 'configs/jax-digits.yaml'))}`);
});

test('and in containers on every worker', async (t) => {
  if (!requireReal(t, 'dockerd, docker, runc and a static busybox, as root', hasDocker())) return;
  const world = openJobWorld(t);
  const registry = await openRegistry(world, pythonImage(world, join(root, 'configs/jax/requirements.txt')));
  const manifest = join(root, 'configs/jax-digits-docker.yaml');
  t.diagnostic(`accuracy ${await learns(world, manifest, '--set', `docker.image=${registry}/lab/box:1`)}`);
});
