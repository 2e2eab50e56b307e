// An exit that is not judged at once is told at once, and once.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastAttempt } from '../../src/core/job.ts';
import { hour, minute, second } from '../../src/core/time.ts';
import { World } from './world.ts';

test('a program that is killed on spot capacity is told to have ended while the cloud may still say why', () => {
  const world = new World();
  world.settleNow();
  world.run(1, 1).ended = { exitCode: 137, signal: 'KILL', at: world.now };
  const killedAt = world.now;
  world.live(() => lastAttempt(world.job)?.exitSeen !== undefined, minute);
  assert.deepEqual(lastAttempt(world.job)?.exitSeen, { at: world.now, worker: 1, exitCode: 137, signal: 'KILL' });
  assert.equal(lastAttempt(world.job)?.ending, null);
  world.live(() => lastAttempt(world.job)?.ending !== null, minute);
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'command_failed');
  assert.ok(world.now - killedAt >= 30 * second);
  assert.equal(world.events.filter(({ kind }) => kind === 'exit_seen').length, 1);
});

test('an exit that is judged as soon as it is seen has no line of its own', () => {
  const world = new World();
  world.settleNow();
  world.exitAll(1);
  world.live(() => lastAttempt(world.job)?.ending !== null, minute);
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'command_failed');
  assert.equal(
    world.events.some(({ kind }) => kind === 'exit_seen'),
    false,
  );
});

test('an answer of the cloud from long before the end does not clear it, and a worker whose clock is ahead delays only one pass', () => {
  const taken = new World();
  taken.settleNow();
  const early = taken.observe();
  taken.now += 40 * second;
  taken.run(1, 1).ended = { exitCode: 137, signal: 'KILL', at: taken.now - second };
  taken.pass({ ...taken.observe(), allocations: early.allocations });
  assert.equal(lastAttempt(taken.job)?.ending, null);
  taken.preempt();
  taken.settleNow();
  assert.equal(taken.job.attempts[0]?.ending?.reason, 'preempted');

  const ahead = new World();
  ahead.settleNow();
  ahead.run(1, 1).ended = { exitCode: 137, signal: 'KILL', at: ahead.now + hour };
  const endedAt = ahead.now;
  ahead.live(() => lastAttempt(ahead.job)?.ending !== null, minute);
  assert.equal(lastAttempt(ahead.job)?.ending?.reason, 'command_failed');
  assert.ok(ahead.now - endedAt <= 10 * second);
});
