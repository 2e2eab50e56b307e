// The owner's commands: which are allowed when, and the effect of each.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyCommand } from '../../src/core/decide/commands.ts';
import { checkAction } from '../../src/core/policy/permissions.ts';
import type { Verb } from '../../src/core/decide/commands.ts';
import { historyMismatches } from '../../sim/history-replay.ts';
import { withLifecycle } from '../../src/core/model/job.ts';
import type { Job } from '../../src/core/model/job.ts';
import { violationsOf } from '../../sim/pass-invariants.ts';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { aMember } from '../support/builders.ts';
import { World, freshJob, local, spec, tpu } from './world.ts';

const alice = aMember('alice');

const verbs: readonly Verb[] = [
  'start',
  'stop',
  'resume',
  'rerun',
  'cancel',
  'delete',
  'disable-recovery',
  'accept-exit',
];

function allowed(job: Job, options: { readonly release?: boolean } = {}): readonly Verb[] {
  return verbs.filter((verb) => checkAction(job, verb, alice, options).answer === 'allow');
}

function brought(to: 'running' | 'stopped' | 'succeeded' | 'failed' | 'cancelled' | 'kept'): World {
  const world = new World(
    spec({ preset: 'pass', finish: { capacity: to === 'kept' ? 'keep' : 'release', keepForMs: null } }),
  );
  world.runUntilIdle();
  if (to === 'stopped') world.command('stop');
  if (to === 'cancelled') world.command('cancel');
  if (to === 'succeeded' || to === 'kept') world.exitAll(0);
  if (to === 'failed') world.exitAll(1);
  if (to !== 'running') world.runUntil(() => false, hour / 10);
  assert.equal(phaseOf(world.job), to === 'kept' ? 'succeeded' : to);
  return world;
}

test('the commands that each phase allows', () => {
  assert.deepEqual(allowed(freshJob().job), ['stop', 'cancel', 'delete', 'disable-recovery']);
  assert.deepEqual(allowed(brought('running').job), ['stop', 'cancel', 'delete', 'disable-recovery']);
  assert.deepEqual(allowed(brought('stopped').job), ['start', 'stop', 'resume', 'rerun', 'cancel', 'delete']);
  assert.deepEqual(allowed(brought('succeeded').job), ['resume', 'rerun', 'delete']);
  assert.deepEqual(allowed(brought('failed').job), ['resume', 'rerun', 'delete']);
  assert.deepEqual(allowed(brought('cancelled').job), ['resume', 'rerun', 'cancel', 'delete']);
  assert.deepEqual(allowed(brought('kept').job), ['resume', 'rerun', 'cancel', 'delete']);
  assert.deepEqual(allowed(brought('kept').job, { release: true }), ['stop', 'resume', 'rerun', 'cancel', 'delete']);
});

test('a refusal names the problem, the job and the next step', () => {
  const job = brought('running').job;
  assert.deepEqual(checkAction(job, 'stop', aMember('bob')), {
    answer: 'deny',
    cause: 'permission',
    message: 'job 000001 (iris) belongs to alice; only its owner or an admin may stop it',
  });
  assert.deepEqual(checkAction(job, 'resume', alice), {
    answer: 'deny',
    cause: 'state',
    message: 'job 000001 (iris) is already active (running); stop it first to resume it',
  });
  assert.deepEqual(checkAction(brought('succeeded').job, 'stop', alice), {
    answer: 'deny',
    cause: 'state',
    message: 'job 000001 (iris) is not running: it has succeeded and holds no capacity',
  });
});

test('the refusal of a stop says whether the capacity is kept or being released', () => {
  const { job } = brought('kept');
  const stop = (held: Job) => checkAction(held, 'stop', alice);
  const isReleased = { ...job, allocations: job.allocations.map((one) => withLifecycle({ ...one, releasedAt: 5 })) };
  assert.match(JSON.stringify(stop(job)), /use stop --release to release its capacity/);
  assert.match(JSON.stringify(stop(isReleased)), /it has succeeded, and its capacity is being released/);
});

test('a job that is being deleted accepts only delete, and a removed job accepts no command', () => {
  const world = brought('running');
  world.command('delete');
  assert.deepEqual(allowed(world.job), ['delete']);
  world.runUntil(() => world.job.removed, hour);
  assert.deepEqual(allowed(world.job), []);
});

test('a command given twice changes nothing the second time', () => {
  for (const verb of ['stop', 'cancel', 'delete'] as const) {
    const once = applyCommand(brought('running').job, verb, { by: 'alice' }, 5).job;
    const twice = applyCommand(once, verb, { by: 'alice' }, 6);
    assert.equal(twice.job, once);
    assert.deepEqual(twice.events, []);
  }
});

test('a stop after a cancel takes nothing back', () => {
  const cancelled = applyCommand(brought('running').job, 'cancel', { by: 'alice' }, 5).job;
  assert.equal(applyCommand(cancelled, 'stop', { by: 'alice' }, 6).job.desired, 'cancelled');
});

test('cancel makes a stopped job cancelled, and keeps the verdict of a job that finished by itself', () => {
  const stopped = brought('stopped');
  stopped.command('cancel');
  assert.equal(phaseOf(stopped.job), 'cancelled');
  assert.deepEqual(historyMismatches(stopped.events, stopped.job), []);
  const kept = brought('kept');
  kept.command('cancel');
  assert.equal(phaseOf(kept.job), 'succeeded');
  kept.runUntil(() => false, hour);
  assert.equal(kept.nodes.size, 0);
});

test('delete removes a finished job without capacity from the list at once', () => {
  for (const to of ['succeeded', 'failed', 'cancelled'] as const) {
    const world = brought(to);
    assert.equal(world.nodes.size, 0, to);
    world.command('delete');
    assert.equal(world.job.removed, true, to);
    assert.equal(world.job.finish?.verdict, to, 'it keeps its verdict');
    assert.deepEqual(historyMismatches(world.events, world.job), []);
  }
  for (const to of ['running', 'kept'] as const) {
    const world = brought(to);
    world.command('delete');
    assert.equal(world.job.removed, false, to);
    world.runUntil(() => world.job.removed, hour);
    assert.equal(world.nodes.size, 0, to);
  }
});

test('delete with force removes the job from the list at once, whatever it still holds', () => {
  const world = brought('running');
  world.command('delete', { force: true });
  assert.equal(world.job.removed, true);
  assert.equal(world.nodes.size, 1);
  world.runUntilIdle();
  assert.deepEqual(world.decision?.actions, []);
  assert.deepEqual(historyMismatches(world.events, world.job), []);
});

const persistent = { ...tpu, ownership: 'persistent' as const };

for (const [name, given, where] of [
  ['this machine', spec({ capacity: local, steps: [] }), 0],
  ['a persistent TPU', spec({ capacity: persistent }), 0],
  [
    'this machine, driving an ephemeral TPU',
    spec({ command: { ...spec().command, runsOn: 'controller' } }),
    'controller',
  ],
] as const) {
  test(`delete with force also ends a program on ${name}: stopped, then killed, after the job has left the list`, () => {
    const world = new World(given);
    world.runUntilIdle();
    world.ignoresStop = true;
    const faults: string[] = [];
    world.onPass = (before, observation, decision, now) =>
      void faults.push(...violationsOf({ before, observation, decision, now }));
    world.command('delete', { force: true });
    assert.deepEqual([world.job.removed, phaseOf(world.job)], [true, 'cancelled']);
    world.runUntilIdle();
    assert.equal(world.run(where, 1).ended, null);
    world.runUntil(() => false, hour);
    assert.deepEqual(world.run(where, 1).ended, {
      exitCode: 137,
      signal: 'KILL',
      at: (world.job.desiredAt ?? 0) + 30_000,
    });
    assert.deepEqual([world.decision?.actions, world.decision?.wakeAt], [[], undefined]);
    assert.deepEqual([world.job.finish?.verdict, phaseOf(world.job)], ['cancelled', 'cancelled']);
    // Its ephemeral capacity is an orphan now, which a user releases; persistent capacity stays.
    assert.ok(!world.eventKinds().includes('allocation_released'));
    assert.equal(world.eventKinds().filter((kind) => kind === 'removed').length, 1);
    assert.deepEqual(historyMismatches(world.events, world.job), []);
    assert.deepEqual(faults, []);
  });
}

test('delete with force does not wait forever for a persistent TPU that does not answer', () => {
  const world = new World(spec({ capacity: persistent }));
  world.runUntilIdle();
  for (const worker of world.node.workers) worker.isAnswering = false;
  world.command('delete', { force: true });
  const asked = world.now;
  world.runUntil(() => false, hour);
  assert.equal(world.decision?.wakeAt, undefined);
  assert.ok(world.now <= asked + 4 * minute, `it gave up after ${world.now - asked} ms`);
});

for (const [name, become] of [
  ['is gone', (world: World) => world.nodes.clear()],
  ['stays lost', () => undefined],
  [
    'is gone by a clock that has been set back',
    (world: World) => {
      world.nodes.clear();
      world.now -= 24 * hour;
    },
  ],
  [
    'is ready, and silent',
    (world: World) => {
      world.node.state = 'ready';
      for (const worker of world.node.workers) worker.isAnswering = false;
    },
  ],
] as const) {
  test(`delete with force does not wait forever if the outcome of a persistent TPU's release was lost, and it ${name}`, () => {
    const world = new World(spec({ preset: 'reapply', capacity: persistent }));
    world.runUntilIdle();
    const perform = world.perform.bind(world);
    world.perform = (action) =>
      action.kind === 'release' ? { kind: 'unclear', evidence: { message: 'lost' } } : perform(action);
    world.preempt();
    world.runUntilIdle();
    assert.notEqual(world.job.allocations[0]?.releasedAt, null);
    assert.equal(world.job.attempts[0]?.endedAt, null);
    world.command('delete', { force: true });
    const asked = world.now;
    become(world);
    world.runUntil(() => false, hour);
    assert.equal(world.decision?.wakeAt, undefined);
    assert.ok(world.now <= asked + 4 * minute, `it gave up after ${world.now - asked} ms`);
  });
}

test('the event of a stop records whether there is capacity to keep', () => {
  const asked = (job: Job) => applyCommand(job, 'stop', { by: 'alice' }, 6).events;
  const running = brought('running');
  assert.deepEqual(
    asked(running.job).map(({ at: _at, ...event }) => event),
    [{ kind: 'command_received', verb: 'stop', by: 'alice', desired: 'stopped' }],
  );
  const keepsNothing = { keepsNothing: true };
  running.nodes.set(1, { ...running.newNode('lost'), cause: 'preempted' });
  running.pass();
  assert.partialDeepStrictEqual(asked(running.job), [keepsNothing]);
  assert.partialDeepStrictEqual(asked(freshJob().job), [keepsNothing]);
});

test('a second start request replaces the first', () => {
  const world = brought('stopped');
  world.command('resume');
  world.command('stop');
  world.command('rerun');
  world.runUntilIdle();
  assert.deepEqual([world.job.attempts.at(-1)?.startMode, world.job.attempts.length], ['rerun', 2]);
});

test('commandOnly without held workers: the refusal names a command that is allowed', () => {
  const world = new World(spec({ steps: [] }));
  world.runUntilIdle();
  const finishedWith = (verdict: 'stopped' | 'succeeded'): Job => ({
    ...world.job,
    allocations: world.job.allocations.map((one) => withLifecycle({ ...one, goneAt: world.now })),
    finish: { at: world.now, verdict, reason: verdict },
  });
  for (const [verdict, verb] of [
    ['stopped', 'start'],
    ['succeeded', 'rerun'],
  ] as const) {
    const job = finishedWith(verdict);
    const can = checkAction(job, 'start', alice, { commandOnly: true });
    assert.ok(can.answer === 'deny');
    assert.match(can.message, new RegExp(`has no ready workers .*${verb}`, 'u'));
    assert.equal(checkAction(job, verb, alice).answer, 'allow');
  }
});

test('a user who acts for the owner is named in the history', () => {
  const world = new World(spec());
  world.runUntilIdle();
  world.command('cancel', { by: 'bob', onBehalf: true });
  world.runUntil(() => false, hour);
  const events = world.events.flatMap((event) => {
    if (event.kind === 'command_received') return [event.by];
    return event.kind === 'attempt_ending' ? [event.evidence.message] : [];
  });
  assert.deepEqual(events, ['bob', 'requested by bob']);
});

test('after recovery was disabled no rule creates another attempt, and the verdict is that of the last one', () => {
  for (const exitCode of [0, 1]) {
    const world = new World(spec({ preset: 'loop: true' }));
    world.runUntilIdle();
    world.command('disable-recovery');
    assert.equal(phaseOf(world.job), 'running', 'the program continues');
    world.exitAll(exitCode);
    world.runUntil(() => false, hour);
    assert.deepEqual([world.job.attempts.length, phaseOf(world.job)], [1, exitCode === 0 ? 'succeeded' : 'failed']);
    assert.deepEqual(historyMismatches(world.events, world.job), []);
    world.command('resume');
    world.runUntilIdle();
    assert.equal(world.job.recoveryDisabled, undefined, 'a start request enables recovery again');
    world.exitAll(1);
    world.runUntil(() => world.job.attempts.length === 3, hour);
    assert.equal(world.job.attempts.length, 3);
    assert.deepEqual(historyMismatches(world.events, world.job), []);
  }
});

test('disabled recovery ends an attempt that a rule has created and that has not started', () => {
  const world = new World(spec({ preset: 'pre', capacity: persistent }));
  world.runUntilIdle();
  world.refusal = { kind: 'failed', evidence: { message: '' }, error: { kind: 'stockout', message: 'no', raw: '' } };
  world.preempt();
  world.runUntil(() => world.job.attempts.length === 2, hour);
  assert.equal(phaseOf(world.job), 'recovering');
  world.command('disable-recovery');
  world.clearFaults();
  world.runUntil(() => false, hour);
  assert.deepEqual([world.job.attempts.length, phaseOf(world.job)], [2, 'stopped']);
  assert.equal(world.job.attempts[1]?.startedAt, null);
  assert.deepEqual(historyMismatches(world.events, world.job), []);
});

test('a command stores the situation that it causes, unless the open attempt has a more exact one', () => {
  const world = new World();
  world.runUntilIdle();
  const situations = (...verbs: readonly Verb[]): readonly (string | undefined)[] =>
    verbs.map((verb) => {
      world.command(verb);
      return world.job.situation;
    });
  assert.deepEqual(situations('stop', 'resume'), ['stop-requested', 'stop-requested']);
  world.pass();
  assert.deepEqual(situations('cancel'), ['attempt-ending']);
  world.runUntilIdle();
  assert.deepEqual(situations('start', 'cancel', 'delete'), ['start-requested', 'ended-by-owner', 'ended-by-owner']);
  world.command('delete', { force: true });
  assert.equal(world.job.situation, 'removed');
});
