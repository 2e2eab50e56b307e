// The owner's words: who may say which when, and what each does to a job.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, jobCan } from '../../src/core/commands.ts';
import type { Verb } from '../../src/core/commands.ts';
import { historyTellsTheState } from '../../sim/pass-history.ts';
import { withLife } from '../../src/core/job.ts';
import type { Job } from '../../src/core/job.ts';
import { broken } from '../../sim/pass-laws.ts';
import { phaseOf } from '../../src/core/phase.ts';
import { hour, minute } from '../../src/core/time.ts';
import { World, freshJob, local, spec, tpu } from './world.ts';

const verbs: readonly Verb[] = ['start', 'stop', 'resume', 'rerun', 'cancel', 'delete', 'last', 'judge'];

function allowed(job: Job, options: { readonly release?: boolean } = {}): readonly Verb[] {
  return verbs.filter((verb) => jobCan(job, verb, 'alice', options).ok);
}

function brought(to: 'running' | 'stopped' | 'succeeded' | 'failed' | 'cancelled' | 'kept'): World {
  const world = new World(
    spec({ preset: 'pass', finish: { capacity: to === 'kept' ? 'keep' : 'release', keepFor: null } }),
  );
  world.settleNow();
  if (to === 'stopped') world.ask('stop');
  if (to === 'cancelled') world.ask('cancel');
  if (to === 'succeeded' || to === 'kept') world.exitAll(0);
  if (to === 'failed') world.exitAll(1);
  if (to !== 'running') world.live(() => false, hour / 10);
  assert.equal(phaseOf(world.job), to === 'kept' ? 'succeeded' : to);
  return world;
}

test('which words each phase allows', () => {
  assert.deepEqual(allowed(freshJob().job), ['stop', 'cancel', 'delete', 'last']);
  assert.deepEqual(allowed(brought('running').job), ['stop', 'cancel', 'delete', 'last']);
  assert.deepEqual(allowed(brought('stopped').job), ['start', 'stop', 'resume', 'rerun', 'cancel', 'delete']);
  assert.deepEqual(allowed(brought('succeeded').job), ['resume', 'rerun', 'delete']);
  assert.deepEqual(allowed(brought('failed').job), ['resume', 'rerun', 'delete']);
  assert.deepEqual(allowed(brought('cancelled').job), ['resume', 'rerun', 'cancel', 'delete']);
  assert.deepEqual(allowed(brought('kept').job), ['resume', 'rerun', 'cancel', 'delete']);
  assert.deepEqual(allowed(brought('kept').job, { release: true }), ['stop', 'resume', 'rerun', 'cancel', 'delete']);
});

test('a refusal says what happened, to which job, and what to do', () => {
  const job = brought('running').job;
  assert.deepEqual(jobCan(job, 'stop', 'bob'), {
    ok: false,
    sentence: 'job 000001 (iris) belongs to alice; only its owner may stop it',
  });
  assert.deepEqual(jobCan(job, 'resume', 'alice'), {
    ok: false,
    sentence: 'job 000001 (iris) is under way already (running); stop it first to resume it',
  });
  assert.deepEqual(jobCan(brought('succeeded').job, 'stop', 'alice'), {
    ok: false,
    sentence: 'job 000001 (iris) is not running: it has succeeded, and holds nothing',
  });
});

test('what is on its way out already needs no word to go', () => {
  const { job } = brought('kept');
  const stop = (held: Job) => jobCan(held, 'stop', 'alice');
  const isReleased = { ...job, allocations: job.allocations.map((one) => withLife({ ...one, releasedAt: 5 })) };
  assert.match(JSON.stringify(stop(job)), /stop --release lets go of what it holds/);
  assert.match(JSON.stringify(stop(isReleased)), /it has succeeded, and what it held is being let go/);
});

test('another owner is refused every word', () => {
  const job = brought('stopped').job;
  for (const verb of verbs) assert.equal(jobCan(job, verb, 'bob').ok, false);
});

test('a job that is being deleted hears no other word, and one that is removed none at all', () => {
  const world = brought('running');
  world.ask('delete');
  assert.deepEqual(allowed(world.job), ['delete']);
  world.live(() => world.job.removed, hour);
  assert.deepEqual(allowed(world.job), []);
});

test('a word said twice changes nothing the second time', () => {
  for (const verb of ['stop', 'cancel', 'delete'] as const) {
    const once = ask(brought('running').job, verb, { by: 'alice' }, 5).job;
    const twice = ask(once, verb, { by: 'alice' }, 6);
    assert.equal(twice.job, once);
    assert.deepEqual(twice.events, []);
  }
});

test('a softer word after a harder one gives nothing back', () => {
  const cancelled = ask(brought('running').job, 'cancel', { by: 'alice' }, 5).job;
  assert.equal(ask(cancelled, 'stop', { by: 'alice' }, 6).job.desired, 'end');
});

test('cancel makes a stopped job cancelled, and leaves a verdict that the job came to by itself', () => {
  const stopped = brought('stopped');
  stopped.ask('cancel');
  assert.equal(phaseOf(stopped.job), 'cancelled');
  assert.deepEqual(historyTellsTheState(stopped.events, stopped.job), []);
  const kept = brought('kept');
  kept.ask('cancel');
  assert.equal(phaseOf(kept.job), 'succeeded');
  kept.live(() => false, hour);
  assert.equal(kept.nodes.size, 0);
});

test('delete takes a job that has ended and holds nothing off the list at once', () => {
  for (const to of ['succeeded', 'failed', 'cancelled'] as const) {
    const world = brought(to);
    assert.equal(world.nodes.size, 0, to);
    world.ask('delete');
    assert.equal(world.job.removed, true, to);
    assert.equal(world.job.settled?.verdict, to, 'it keeps its verdict');
    assert.deepEqual(historyTellsTheState(world.events, world.job), []);
  }
  for (const to of ['running', 'kept'] as const) {
    const world = brought(to);
    world.ask('delete');
    assert.equal(world.job.removed, false, to);
    world.live(() => world.job.removed, hour);
    assert.equal(world.nodes.size, 0, to);
  }
});

test('delete with force takes the job off the list now, whatever it still holds', () => {
  const world = brought('running');
  world.ask('delete', { force: true });
  assert.equal(world.job.removed, true);
  assert.equal(world.nodes.size, 1);
  world.settleNow();
  assert.deepEqual(world.decision?.actions, []);
  assert.deepEqual(historyTellsTheState(world.events, world.job), []);
});

const standing = { ...tpu, ownership: 'standing' as const };

for (const [name, given, where] of [
  ['this machine', spec({ capacity: local, steps: [] }), 0],
  ['a standing TPU', spec({ capacity: standing }), 0],
  ['this machine, driving a TPU of its own', spec({ command: { ...spec().command, place: 'here' } }), 'here'],
] as const) {
  test(`delete with force ends a program on ${name} all the same: asked, then killed, off the list the while`, () => {
    const world = new World(given);
    world.settleNow();
    world.isStubborn = true;
    const faults: string[] = [];
    world.onPass = (before, observation, decision, now) =>
      void faults.push(...broken({ before, observation, decision, now }));
    world.ask('delete', { force: true });
    assert.deepEqual([world.job.removed, phaseOf(world.job)], [true, 'cancelled']);
    world.settleNow();
    assert.equal(world.run(where, 1).ended, null);
    world.live(() => false, hour);
    assert.deepEqual(world.run(where, 1).ended, {
      exitCode: 137,
      signal: 'KILL',
      at: (world.job.desiredAt ?? 0) + 30_000,
    });
    assert.deepEqual([world.decision?.actions, world.decision?.wakeAt], [[], undefined]);
    assert.deepEqual([world.job.settled?.verdict, phaseOf(world.job)], ['cancelled', 'cancelled']);
    // What it had of its own is a stray now, which is let go by a person's word; what stands, stands.
    assert.ok(!world.kinds().includes('allocation_released'));
    assert.equal(world.kinds().filter((kind) => kind === 'removed').length, 1);
    assert.deepEqual(historyTellsTheState(world.events, world.job), []);
    assert.deepEqual(faults, []);
  });
}

test('delete with force does not wait for ever for a standing TPU that does not answer', () => {
  const world = new World(spec({ capacity: standing }));
  world.settleNow();
  for (const worker of world.node.workers) worker.isAnswering = false;
  world.ask('delete', { force: true });
  const asked = world.now;
  world.live(() => false, hour);
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
  test(`delete with force does not wait for ever where the reply to the release of a standing TPU was lost, and it ${name}`, () => {
    const world = new World(spec({ preset: 'reapply', capacity: standing }));
    world.settleNow();
    const perform = world.perform.bind(world);
    world.perform = (action) =>
      action.kind === 'release' ? { kind: 'unclear', evidence: { detail: 'lost' } } : perform(action);
    world.preempt();
    world.settleNow();
    assert.notEqual(world.job.allocations[0]?.releasedAt, null);
    assert.equal(world.job.attempts[0]?.endedAt, null);
    world.ask('delete', { force: true });
    const asked = world.now;
    become(world);
    world.live(() => false, hour);
    assert.equal(world.decision?.wakeAt, undefined);
    assert.ok(world.now <= asked + 4 * minute, `it gave up after ${world.now - asked} ms`);
  });
}

test('a stop says in history whether there is capacity that it can keep', () => {
  const asked = (job: Job) => ask(job, 'stop', { by: 'alice' }, 6).events;
  const running = brought('running');
  assert.deepEqual(
    asked(running.job).map(({ at: _at, ...event }) => event),
    [{ kind: 'asked', verb: 'stop', by: 'alice', desired: 'hold' }],
  );
  const keepsNothing = { keepsNothing: true };
  running.nodes.set(1, { ...running.newNode('lost'), cause: 'preempted' });
  running.pass();
  assert.partialDeepStrictEqual(asked(running.job), [keepsNothing]);
  assert.partialDeepStrictEqual(asked(freshJob().job), [keepsNothing]);
});

test('a second wish before the first is answered replaces it', () => {
  const world = brought('stopped');
  world.ask('resume');
  world.ask('stop');
  world.ask('rerun');
  world.settleNow();
  assert.deepEqual([world.job.attempts.at(-1)?.how, world.job.attempts.length], ['rerun', 2]);
});

test('just the command, where no workers are held: the sentence names a word that can be said', () => {
  const world = new World(spec({ steps: [] }));
  world.settleNow();
  const settledAs = (verdict: 'stopped' | 'succeeded'): Job => ({
    ...world.job,
    allocations: world.job.allocations.map((one) => withLife({ ...one, goneAt: world.now })),
    settled: { at: world.now, verdict, reason: verdict },
  });
  for (const [verdict, word] of [
    ['stopped', 'start'],
    ['succeeded', 'rerun'],
  ] as const) {
    const job = settledAs(verdict);
    const can = jobCan(job, 'start', job.owner, { commandOnly: true });
    assert.ok(!can.ok);
    assert.match(can.sentence, new RegExp(`holds no ready workers .*${word}`, 'u'));
    assert.equal(jobCan(job, word, job.owner).ok, true);
  }
});

test('whoever acts for the owner is let in, and named in the history', () => {
  const { job } = brought('running');
  assert.equal(jobCan(job, 'cancel', 'bob', { onBehalf: true }).ok, true);
  assert.deepEqual(ask(job, 'cancel', { by: 'bob', onBehalf: true }, 5).events, [
    { at: 5, kind: 'asked', verb: 'cancel', by: 'bob', desired: 'end' },
  ]);
});

test('after the last attempt that its owner wants no rule begins another, and what it came to is said', () => {
  for (const exitCode of [0, 1]) {
    const world = new World(spec({ preset: 'loop: true' }));
    world.settleNow();
    world.ask('last');
    assert.equal(phaseOf(world.job), 'running', 'the program goes on');
    world.exitAll(exitCode);
    world.live(() => false, hour);
    assert.deepEqual([world.job.attempts.length, phaseOf(world.job)], [1, exitCode === 0 ? 'succeeded' : 'failed']);
    assert.deepEqual(historyTellsTheState(world.events, world.job), []);
    world.ask('resume');
    world.settleNow();
    assert.equal(world.job.answersNothing, undefined, 'a wish to run it again takes the word back');
    world.exitAll(1);
    world.live(() => world.job.attempts.length === 3, hour);
    assert.equal(world.job.attempts.length, 3);
    assert.deepEqual(historyTellsTheState(world.events, world.job), []);
  }
});

test('an attempt that a rule has made and that has not begun is called off by the word', () => {
  const world = new World(spec({ preset: 'pre', capacity: standing }));
  world.settleNow();
  world.refusal = { kind: 'failed', evidence: { detail: '' }, error: { kind: 'stockout', message: 'no', raw: '' } };
  world.preempt();
  world.live(() => world.job.attempts.length === 2, hour);
  assert.equal(phaseOf(world.job), 'recovering');
  world.ask('last');
  world.calm();
  world.live(() => false, hour);
  assert.deepEqual([world.job.attempts.length, phaseOf(world.job)], [2, 'stopped']);
  assert.equal(world.job.attempts[1]?.startedAt, null);
  assert.deepEqual(historyTellsTheState(world.events, world.job), []);
});

test('a command stores the situation that it makes, unless an attempt that is under way or an end still says more', () => {
  const world = new World();
  world.settleNow();
  const situations = (...verbs: readonly Verb[]): readonly (string | undefined)[] =>
    verbs.map((verb) => {
      world.ask(verb);
      return world.job.situation;
    });
  assert.deepEqual(situations('stop', 'resume'), ['stop-requested', 'stop-requested']);
  world.pass();
  assert.deepEqual(situations('cancel'), ['attempt-ending']);
  world.settleNow();
  assert.deepEqual(situations('start', 'cancel', 'delete'), ['start-requested', 'ended-by-owner', 'ended-by-owner']);
  world.ask('delete', { force: true });
  assert.equal(world.job.situation, 'removed');
});
