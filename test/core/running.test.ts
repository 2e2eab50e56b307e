// A program that hangs after a failed call, an exit code of 0 that is not a success, and an exit that is judged on
// request.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastAttempt } from '../../src/core/model/job.ts';
import type { PresetName } from '../../src/core/policy/presets.ts';
import { minute, second, hour } from '../../src/core/model/time.ts';
import { spec, World } from './world.ts';

const grace = 5 * minute;

function running(preset: PresetName, failedCallTimeout?: number): World {
  const given = spec({ preset });
  const limits = {
    ...given.limits,
    ...(failedCallTimeout !== undefined && { failedCallTimeoutMs: failedCallTimeout }),
  };
  const world = new World({ ...given, limits });
  world.runUntilIdle();
  return world;
}

const ended = (world: World) => () => lastAttempt(world.job)?.ending !== null || world.job.attempts.length > 1;

// The preset, the pattern in the last output and the limit on the silence after it; then the reason for the end of
// attempt 1 within an hour, and the next start mode.
for (const [preset, pattern, limit, reason, next] of [
  ['pre', 'grpc', grace, 'hung', 'resume'],
  ['pre', 'deadline', grace, 'hung', 'resume'],
  ['rerun', 'line_cut', grace, 'hung', 'rerun'],
  ['pass', 'grpc', grace, 'hung', null],
  ['pre', 'out_of_memory', grace, null, null],
  ['pre', null, grace, null, null],
  ['pre', 'grpc', undefined, null, null],
] as const) {
  const what = `${pattern ?? 'nothing'}, ${limit === undefined ? 'no limit' : 'a limit'}, rule ${preset}`;
  test(`silence after ${what}: ${reason ?? 'left alone'}, then ${next ?? 'nothing'}`, () => {
    const world = running(preset, limit);
    world.pattern = pattern;
    world.runUntil(ended(world), 60 * minute);
    const [first, second_] = world.job.attempts;
    assert.equal(first?.ending?.reason ?? null, reason);
    assert.equal(second_?.startMode ?? null, next);
    if (reason === null) return;
    assert.equal(first?.ending?.evidence.pattern, pattern);
    assert.equal(first?.ending?.evidence.message, 'no output for 5 minutes after a failed call between workers');
    const silent = (first?.ending?.startedAt ?? 0) - (first?.startedAt ?? 0);
    assert.ok(silent >= grace && silent < grace + 10 * second, `ended after ${silent} ms`);
  });
}

test('a program that keeps printing is not ended, whatever its output contains', () => {
  const world = running('pre', grace);
  world.pattern = 'grpc';
  for (let turn = 0; turn < 30; turn += 1) {
    world.now += 2 * minute;
    for (const worker of [0, 1]) world.run(worker, 1).outputAt = world.now;
    world.runUntilIdle();
  }
  assert.equal(lastAttempt(world.job)?.ending, null);
});

test('an exit code of 0 with a recorded failure is a failure, and its pattern chooses the rule', () => {
  for (const [pattern, attempts] of [
    ['grpc', 2],
    [null, 1],
  ] as const) {
    const world = running('pre');
    world.pattern = pattern;
    world.exitAll(0);
    world.run(1, 1).ended = { exitCode: 0, failure: 'exit code 0 without a success: x', at: world.now };
    world.runUntil(ended(world), minute);
    const ending = world.job.attempts[0]?.ending;
    assert.deepEqual(
      [ending?.reason, ending?.evidence.message, ending?.evidence.unconfirmed, ending?.evidence.exitCode],
      ['command_failed', 'exit code 0 without a success: x', true, undefined],
    );
    assert.equal(world.job.attempts.length, attempts);
  }
});

test('an exit that waits for the cloud is judged at once when its owner asks for that', () => {
  const world = running('pre');
  world.run(1, 1).ended = { exitCode: 137, signal: 'KILL', at: world.now };
  world.runUntil(() => lastAttempt(world.job)?.exitSeen !== undefined, minute);
  const seenAt = world.now;
  assert.equal(lastAttempt(world.job)?.ending, null);
  world.command('accept-exit');
  world.runUntilIdle();
  assert.equal(world.job.attempts[0]?.ending?.reason, 'command_failed');
  assert.equal(world.now, seenAt);
  assert.ok(world.events.some((event) => event.kind === 'command_received' && event.verb === 'accept-exit'));
});

test("if a program is killed on a spot TPU, the history shows its exit while jobman waits for the cloud's report", () => {
  const world = new World();
  world.runUntilIdle();
  world.run(1, 1).ended = { exitCode: 137, signal: 'KILL', at: world.now };
  const killedAt = world.now;
  world.runUntil(() => lastAttempt(world.job)?.exitSeen !== undefined, minute);
  assert.deepEqual(lastAttempt(world.job)?.exitSeen, { at: world.now, worker: 1, exitCode: 137, signal: 'KILL' });
  assert.equal(lastAttempt(world.job)?.ending, null);
  world.runUntil(() => lastAttempt(world.job)?.ending !== null, minute);
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'command_failed');
  assert.ok(world.now - killedAt >= 30 * second);
  assert.equal(world.events.filter(({ kind }) => kind === 'exit_seen').length, 1);
});

test('an exit that is judged at once has no event of its own', () => {
  const world = new World();
  world.runUntilIdle();
  world.exitAll(1);
  world.runUntil(() => lastAttempt(world.job)?.ending !== null, minute);
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'command_failed');
  assert.equal(
    world.events.some(({ kind }) => kind === 'exit_seen'),
    false,
  );
});

test('only an answer of the cloud after the exit counts, even if the clock of the worker is ahead', () => {
  const taken = new World();
  taken.runUntilIdle();
  const early = taken.observe();
  taken.now += 40 * second;
  taken.run(1, 1).ended = { exitCode: 137, signal: 'KILL', at: taken.now - second };
  taken.pass({ ...taken.observe(), allocations: early.allocations });
  assert.equal(lastAttempt(taken.job)?.ending, null);
  taken.preempt();
  taken.runUntilIdle();
  assert.equal(taken.job.attempts[0]?.ending?.reason, 'preempted');

  const ahead = new World();
  ahead.runUntilIdle();
  ahead.run(1, 1).ended = { exitCode: 137, signal: 'KILL', at: ahead.now + hour };
  const endedAt = ahead.now;
  ahead.runUntil(() => lastAttempt(ahead.job)?.ending !== null, minute);
  assert.equal(lastAttempt(ahead.job)?.ending?.reason, 'command_failed');
  assert.ok(ahead.now - endedAt <= 10 * second);
});
