// The life of a job, situation by situation.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { subjectKey } from '../../src/core/model/decision.ts';
import type { Action, Subject } from '../../src/core/model/decision.ts';
import { describeEvent } from '../../src/app/history.ts';
import { lastAllocation, lastAttempt, stepsOf, workdirTreeOf } from '../../src/core/model/job.ts';
import { holdsSlot } from '../../src/core/policy/admission.ts';
import { historyMismatches } from '../../sim/history-replay.ts';
import { violationsOf } from '../../sim/pass-invariants.ts';
import { known, unknown } from '../../src/core/model/observation.ts';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { giveUpAt } from '../../src/core/decide/recover.ts';
import type { SetupStep } from '../../src/core/model/spec.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import { World, local, spec, step, tpu } from './world.ts';

const persistent = { ...tpu, ownership: 'persistent' as const };

/** The state of a queued resource that got no capacity. */
const failedForWantOfCapacity = {
  state: 'lost',
  detail: 'FAILED',
  cause: 'failed',
  error: { kind: 'stockout', message: 'There is no more capacity.', raw: 'RESOURCE_EXHAUSTED' },
} as const;

const noneLeft = {
  kind: 'failed',
  evidence: { message: '' },
  error: { kind: 'stockout', message: 'none left', raw: 'none' },
} as const;

/** From now on a queued request gets no capacity; the returned function ends that. */
function withoutCapacity(world: World): () => void {
  const perform = world.perform.bind(world);
  world.perform = (action) => {
    const result = perform(action);
    if (action.kind === 'request') Object.assign(world.nodes.get(action.allocation) ?? {}, failedForWantOfCapacity);
    return result;
  };
  return () => void (world.perform = perform);
}

function untilEnding(world: World): void {
  world.runUntil(() => lastAttempt(world.job)?.ending !== null, hour);
}

function keys(world: World): readonly string[] {
  return world.decision?.actions.map(subjectKey) ?? [];
}

function running(given = spec()): World {
  const world = new World(given);
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'running');
  return world;
}

function host(world: World, worker: number): World['controllerHost'] {
  const found = world.node.workers[worker];
  if (found === undefined) throw new Error(`there is no worker ${worker}`);
  return found;
}

// ------------------------------------------------------------------------------------------ capacity

test('the first pass records an attempt and its allocation, and observes again before it requests anything', () => {
  const world = new World();
  const { actions, wakeAt } = world.pass();
  assert.deepEqual(actions, []);
  assert.equal(wakeAt, world.now);
  assert.equal(lastAllocation(world.job)?.requestedAt, null);
});

test('an absent allocation is requested, and the request stays in the decision until it is confirmed', () => {
  const world = new World();
  world.pass();
  world.pass();
  assert.deepEqual(keys(world), ['request/1']);
  world.pass();
  assert.deepEqual(keys(world), ['request/1']);
});

test('nothing is requested while it is unknown whether it exists', () => {
  const world = new World();
  world.isCloudUp = false;
  world.runUntilIdle();
  assert.deepEqual(keys(world), []);
  assert.equal(phaseOf(world.job), 'queued');
  assert.equal(lastAllocation(world.job)?.unreachableWho, 'cloud');
});

test('without permission to see an allocation, the job requests it until a request is confirmed', () => {
  const world = new World();
  world.pass();
  const refuse = () => {
    const fact = { ...unknown('403', world.now), refused: 'permission' as const };
    world.pass({ ...world.observe(), allocations: [{ allocation: 1, observed: fact }] });
  };
  refuse();
  assert.deepEqual(keys(world), ['request/1']);
  assert.equal(lastAllocation(world.job)?.unreachableAt, null);
  world.performActions();
  refuse();
  assert.deepEqual(keys(world), [], 'an accepted request may have created something');
  assert.equal(lastAllocation(world.job)?.unreachableWho, 'cloud');
});

test('a missing login is an event of its own, also during a silence of the cloud', () => {
  const world = new World();
  world.isCloudUp = false;
  world.runUntilIdle();
  const since = lastAllocation(world.job)?.unreachableAt;
  const details: unknown[] = [];
  const pass = (): void => {
    world.now += minute;
    for (const event of world.pass().events) if (event.kind === 'unreachable') details.push(event.message);
  };
  world.isCloudUp = true;
  world.hasLogin = false;
  pass();
  assert.deepEqual(lastAllocation(world.job), {
    ...lastAllocation(world.job),
    unreachableWho: 'login',
    unreachableAt: since,
  });
  pass();
  world.isCloudUp = false;
  pass();
  assert.equal(lastAllocation(world.job)?.unreachableWho, 'cloud');
  assert.deepEqual(details, ['log in', 'the cloud does not answer']);
});

test('an accepted request is repeated only after two observations, ten seconds apart, without the allocation', () => {
  const world = new World();
  world.pass();
  world.pass();
  world.outcomes = [{ subject: { kind: 'request', allocation: 1 }, at: world.now, result: { kind: 'done' } }];
  const asked = [0, 5, 5, 10].map((seconds) => {
    world.now += seconds * second;
    world.pass();
    return keys(world).length;
  });
  assert.deepEqual(asked, [0, 0, 0, 1]);
  assert.equal(lastAllocation(world.job)?.lastError?.error.kind, 'internal');
});

test('the wait for a stockout has no limit, and its delays grow', () => {
  const world = new World();
  world.refusal = noneLeft;
  world.runUntil(() => false, 6 * hour);
  assert.equal(phaseOf(world.job), 'queued');
  const refusals = world.events.filter(({ kind }) => kind === 'allocation_refused').map(({ at }) => at);
  const waits = refusals.slice(1).map((at, index) => at - (refusals[index] ?? 0));
  assert.ok((waits[0] ?? 0) >= 22 * second && (waits[0] ?? 0) <= 38 * second);
  assert.ok((waits.at(-1) ?? 0) >= 7.5 * minute && (waits.at(-1) ?? 0) <= 13 * minute);
  world.refusal = null;
  world.runUntilRunning();
});

for (const kind of ['permission', 'invalid', 'not_found'] as const) {
  test(`a request that ends in ${kind} ends the job at once, whether it is refused or its queue reports it`, () => {
    const error = { kind, message: 'no', raw: 'raw message' };
    const refused = new World();
    refused.refusal = { kind: 'refused', evidence: { message: '' }, error };
    const failed = new World();
    failed.pass();
    failed.pass();
    failed.nodes.set(1, { ...failed.newNode('lost'), cause: 'failed', error });
    for (const world of [refused, failed]) {
      world.runUntilIdle();
      assert.deepEqual([phaseOf(world.job), world.job.finish?.reason], ['failed', 'allocation_failed']);
      assert.equal(world.job.attempts[0]?.ending?.evidence.raw, 'raw message');
    }
  });
}

test('another resource of the same name ends the job and is never released', () => {
  const world = new World();
  world.pass();
  world.nodes.set(1, { ...world.newNode('ready'), state: 'foreign' });
  world.runUntilIdle();
  assert.equal(world.job.finish?.reason, 'allocation_failed');
  assert.equal(world.nodes.size, 1);
  assert.ok(!world.eventKinds().includes('allocation_released'));
});

test('capacity that fails before it is ready is released and requested again, after the delay of its error', () => {
  const world = new World();
  world.pass();
  world.pass();
  const failed = { ...world.newNode('lost'), cause: 'failed' as const };
  world.nodes.set(1, failed);
  world.runUntil(() => world.nodes.has(2), hour);
  assert.ok(!world.nodes.has(1));
  world.runUntilRunning();
  // The command has not started, so it is still the first attempt.
  assert.deepEqual([lastAttempt(world.job)?.ordinal, lastAttempt(world.job)?.allocation], [1, 2]);
});

test('a queue that fails repeatedly is requested with growing delays, and it stays the first attempt', () => {
  const world = new World();
  const asked: number[] = [];
  world.onPass = (_before, _observation, decision, now) => {
    if (decision.events.some(({ kind }) => kind === 'allocation_requested')) asked.push(now);
  };
  const stop = withoutCapacity(world);
  world.runUntil(() => false, 6 * hour);
  const waits = asked.slice(1).map((at, index) => at - (asked[index] ?? 0));
  assert.ok((waits[0] ?? 0) >= 22 * second && (waits[0] ?? 0) <= minute, `the first wait was ${waits[0]} ms`);
  assert.ok((waits.at(-1) ?? 0) >= 7.5 * minute && (waits.at(-1) ?? 0) <= 13 * minute);
  assert.deepEqual([world.job.attempts.length, phaseOf(world.job)], [1, 'queued']);
  assert.ok(world.nodes.size <= 1, 'a failed allocation is released before another one is requested');
  stop();
  world.runUntilRunning();
  assert.equal(lastAttempt(world.job)?.ordinal, 1);
  assert.deepEqual(historyMismatches(world.events, world.job), []);
});

test('after a command of the owner, the request is sent at once and then with growing delays', () => {
  const world = new World();
  world.pass();
  world.pass();
  world.nodes.set(1, { ...world.newNode('lost'), ...failedForWantOfCapacity });
  world.runUntil(() => world.job.allocations.length === 4, hour);
  for (let count = 0; count < 3; count += 1) {
    world.nodes.set(world.job.allocations.length, { ...world.newNode('lost'), ...failedForWantOfCapacity });
    world.runUntilIdle();
    world.runUntil(() => false, 20 * minute);
  }
  world.command('stop');
  world.runUntilFinished();
  world.command('start');
  world.pass();
  const before = world.job.allocations.length;
  world.nodes.set(before, { ...world.newNode('lost'), ...failedForWantOfCapacity });
  world.runUntilIdle();
  assert.equal(world.job.allocations.length, before + 1);
  assert.ok((lastAttempt(world.job)?.notBeforeAt ?? Infinity) - world.now <= 38 * second);
});

test('the limit on the wait for capacity applies to one request and to several', () => {
  for (const begin of [withoutCapacity, (world: World) => void (world.refusal = noneLeft)]) {
    const world = new World(spec({ limits: { ...spec().limits, capacityWaitMs: 20 * minute } }));
    begin(world);
    world.runUntilFinished();
    assert.deepEqual([world.job.finish?.reason, world.job.attempts.length], ['allocation_failed', 1]);
    assert.equal(world.now, world.job.createdAt + 20 * minute);
  }
});

// ------------------------------------------------------------------------------------------ setup and start

test('every worker runs its steps in order, in parallel with the others', () => {
  const world = new World(spec({ steps: [step('ssh'), step('docker')] }));
  const asked: string[][] = [];
  world.onPass = (_before, _observation, decision) => {
    const steps = decision.actions.filter(({ kind }) => kind === 'step').map(subjectKey);
    if (steps.length > 0) asked.push(steps);
  };
  world.runUntilIdle();
  assert.deepEqual(asked, [
    ['step/1/0/ssh', 'step/1/1/ssh'],
    ['step/1/0/docker', 'step/1/1/docker'],
  ]);
});

test('no worker starts before every worker is prepared', () => {
  const world = new World();
  world.pass();
  world.pass();
  world.performActions();
  world.pass();
  host(world, 0).proofs.add('ssh-1');
  world.pass();
  assert.deepEqual(keys(world), ['step/1/1/ssh']);
  host(world, 1).proofs.add('ssh-1');
  world.pass();
  assert.deepEqual(keys(world), ['start/1/0', 'start/1/1']);
  assert.equal(world.job.attempts[0]?.startedAt, world.now);
});

test('a start names the boot in which the steps were proven, unless there are no steps', () => {
  const bootsAsked = (given = spec()): readonly unknown[] => {
    const world = new World(given);
    while (!keys(world).includes('start/1/0')) {
      world.performActions();
      world.pass();
    }
    return world.decision?.actions.flatMap((one) => (one.kind === 'start' ? [one.bootId] : [])) ?? [];
  };
  assert.deepEqual(bootsAsked(), ['b1', 'b1']);
  assert.deepEqual(bootsAsked(spec({ steps: [] })), [undefined, undefined]);
});

test('a start is repeated only on a worker that shows no run', () => {
  const world = new World();
  world.pass();
  world.pass();
  world.performActions();
  for (const worker of [0, 1]) host(world, worker).proofs.add('ssh-1');
  world.pass();
  world.performActions([{ kind: 'start', attempt: 1, allocation: 1, worker: 1 }]);
  world.pass();
  assert.deepEqual(keys(world), ['start/1/0']);
});

test('a start that left no run folder is a failed try, so a program that deletes its folder is not started for ever', () => {
  const world = new World(spec({ preset: 'pass' }));
  let starts = 0;
  for (let passes = 0; passes < 200 && (world.job.attempts[0]?.ending ?? null) === null; passes += 1) {
    starts += keys(world).includes('start/1/0') ? 1 : 0;
    world.performActions();
    // The first one deletes its folder at once.
    if (starts > 0 && world.nodes.size > 0) host(world, 0).runs.length = 0;
    world.now += 5 * second;
    world.pass();
  }
  assert.equal(world.job.attempts[0]?.ending?.reason, 'setup_failed');
  assert.match(world.job.attempts[0].ending.evidence.message, /its run folder disappeared right after the start/);
  assert.equal(starts, world.job.spec.limits.setupTries);
});

test('a start is not repeated while another worker is silent, because that worker may be a new one', () => {
  const world = new World();
  while (!keys(world).includes('start/1/0')) {
    world.performActions();
    world.pass();
  }
  host(world, 1).isAnswering = false;
  world.now += 5 * second;
  world.pass();
  assert.deepEqual(keys(world), []);
  host(world, 1).isAnswering = true;
  world.pass();
  assert.deepEqual(keys(world), ['start/1/0', 'start/1/1']);
});

test('a step that fails is tried again after a delay, and ends the attempt when its tries are used up', () => {
  const world = new World(spec({ preset: 'pass' }));
  world.stepResult = { kind: 'failed', evidence: { message: 'apt is locked' } };
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'setup');
  world.runUntilFinished();
  assert.equal(world.job.finish?.reason, 'setup_failed');
  assert.match(
    world.job.attempts[0]?.ending?.evidence.message ?? '',
    /^step ssh failed on worker 0 \(3 tries\): apt is locked$/,
  );
});

test('a local job needs three passes from its creation to its end', () => {
  const world = new World(spec({ capacity: local, steps: [], preset: 'pass' }));
  world.pass();
  world.pass();
  assert.deepEqual(keys(world), ['start/1/0']);
  world.performActions();
  world.exitAll(0);
  world.pass();
  assert.equal(phaseOf(world.job), 'succeeded');
  assert.equal(world.decision?.wakeAt, undefined);
});

test('a job that waits for a slot does nothing and plans no wake-up', () => {
  const world = new World(spec({ capacity: local, steps: [] }));
  world.admitted = false;
  world.pass();
  const { job } = world;
  const { wakeAt, actions } = world.pass();
  assert.deepEqual([wakeAt, actions, phaseOf(world.job)], [undefined, [], 'queued']);
  assert.equal(world.job, job);
});

// ------------------------------------------------------------------------------------------ running and ending

test('at rest a running job stays the same object and is woken only when something may be due', () => {
  const world = running(spec({ capacity: local, steps: [], limits: { ...spec().limits, maxRuntimeMs: hour } }));
  const { job } = world;
  world.now += minute;
  const { events, actions, wakeAt } = world.pass();
  assert.equal(world.job, job);
  assert.deepEqual([events, actions, wakeAt], [[], [], (job.attempts[0]?.runningAt ?? 0) + hour]);
});

test('an attempt ends at the exit time of its program, unless the clock of the worker is wrong', () => {
  const away = 3 * hour;
  for (const exitCode of [0, 1]) {
    const world = running(spec({ preset: 'pass' }));
    const began = world.now;
    world.now = began + minute;
    world.exitAll(exitCode);
    world.now += away;
    world.runUntilIdle();
    const attempt = lastAttempt(world.job);
    assert.deepEqual([attempt?.ending?.startedAt, attempt?.endedAt], [began + minute, began + minute]);
    assert.equal(world.job.finish?.at, began + minute + away);
    assert.deepEqual(historyMismatches(world.events, world.job), []);
  }
  for (const wrong of [-hour, 30 * hour]) {
    const world = running(spec({ preset: 'pass' }));
    const { now } = world;
    world.now += wrong;
    world.exitAll(0);
    world.now = now + minute;
    world.runUntilIdle();
    const attempt = lastAttempt(world.job);
    assert.deepEqual([attempt?.ending?.startedAt, attempt?.endedAt], [world.now, world.now]);
  }
});

test('a worker that has succeeded waits for the others', () => {
  const world = running();
  world.exit(0, 0);
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'running');
  world.exit(1, 0);
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'succeeded');
});

test('one failing worker ends the attempt on all: the others get the stop signal once, and are then killed', () => {
  const world = running(spec({ preset: 'pass' }));
  world.ignoresStop = true;
  world.exit(1, 3);
  world.pass();
  assert.deepEqual(keys(world), ['stop/1/0/stop']);
  world.performActions();
  world.pass();
  assert.deepEqual(keys(world), []);
  world.now += 30 * second;
  world.pass();
  // The machine is released anyway, but its deletion may take long, so the program is killed too.
  assert.deepEqual(keys(world), ['stop/1/0/kill', 'release/1']);
  assert.equal(world.job.attempts[0]?.endedAt, null);
  assert.deepEqual(world.job.attempts[0]?.ending?.evidence, {
    message: 'exit code 3 on worker 1',
    worker: 1,
    exitCode: 3,
  });
});

test('on kept capacity, a program that ignores its signal is killed after the grace', () => {
  const world = running(spec({ preset: 'loop: failures' }));
  world.ignoresStop = true;
  world.exit(0, 3);
  world.runUntilIdle();
  world.now += 30 * second;
  world.pass();
  assert.deepEqual(keys(world), ['stop/1/1/kill']);
});

test('a worker that answers again late gets the stop signal and the whole grace before a kill', () => {
  const world = running();
  world.ignoresStop = true;
  host(world, 1).isAnswering = false;
  world.command('stop');
  world.runUntil(() => false, 5 * minute);
  host(world, 1).isAnswering = true;
  const answersAt = world.now;
  const run = world.run(1, 1);
  world.runUntil(() => run.ended !== null);
  assert.ok(typeof run.ended === 'object' && run.ended !== null);
  assert.equal(run.ended.signal, 'KILL');
  assert.ok(run.ended.at >= answersAt + world.job.spec.stop.graceMs);
});

for (const [sentence, act, reason, detail] of [
  [
    'of several failing workers the lowest gives the reason',
    (world) => {
      world.exit(0, 4);
      world.exit(1, 3);
    },
    'command_failed',
    /^exit code 4 on worker 0$/,
  ],
  [
    'a program that vanished counts as unreachable, and explains the failures of the others',
    (world) => {
      world.exit(0, 1);
      world.run(1, 1).ended = 'vanished';
    },
    'unreachable',
    /vanished on worker 1: the machine restarted/,
  ],
  [
    'an observed exit counts although the cloud does not answer',
    (world) => {
      world.isCloudUp = false;
      world.exitAll(0);
    },
    'succeeded',
    /^exit code 0/,
  ],
] as const satisfies readonly (readonly [string, (world: World) => void, string, RegExp])[]) {
  test(sentence, () => {
    const world = running(spec({ preset: 'pass' }));
    act(world);
    world.runUntilIdle();
    assert.equal(world.job.attempts[0]?.ending?.reason, reason);
    assert.match(world.job.attempts[0].ending.evidence.message, detail);
  });
}

test('a refused step is not tried again, and a command for a worker that does not exist fails at once', () => {
  const refused = new World(spec({ preset: 'pass' }));
  refused.stepResult = { kind: 'refused', evidence: { message: 'no such bucket' } };
  const missing = new World(spec({ command: { ...spec().command, workers: [7] } }));
  for (const [world, detail] of [
    [refused, /no such bucket/],
    [missing, /worker 7, but there are only 2 workers/],
  ] as const) {
    world.runUntilIdle();
    assert.equal(world.job.finish?.reason, 'setup_failed');
    assert.match(world.job.attempts[0]?.ending?.evidence.message ?? '', detail);
  }
});

test('no worker is judged while another one is silent: it may be the cause', () => {
  const world = running(spec({ preset: 'pass' }));
  world.exit(0, 1);
  host(world, 1).isAnswering = false;
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending, null);
  host(world, 1).isAnswering = true;
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'command_failed');
});

test('a program in another home is unknown for as long as it takes: nothing ends, stops or starts it, and only one on the same machine uses a slot', () => {
  const onController = spec({ command: { ...spec().command, runsOn: 'controller' } });
  for (const given of [spec({ capacity: local, steps: [] }), onController]) {
    const world = running(given);
    const worker = given === onController ? world.controllerHost : world.node.workers[0];
    assert.ok(worker);
    for (const where of ['home', 'machine'] as const) {
      worker.elsewhere = where;
      world.runUntil(() => false, 2 * hour);
      assert.deepEqual([phaseOf(world.job), world.job.attempts.length], ['running', 1]);
      assert.equal(world.job.allocations[0]?.unreachableWho, where);
      assert.equal(holdsSlot(world.job), given !== onController && where === 'home');
    }
    world.job = { ...world.job, desired: 'stopped' };
    world.runUntil(() => false, 2 * hour);
    assert.deepEqual([phaseOf(world.job), keys(world)], ['stopping', []]);
    worker.elsewhere = undefined;
    world.runUntil(() => world.job.finish !== null, hour);
    assert.equal(phaseOf(world.job), 'stopped');
  }
});

test('a program that is killed on a spot TPU ends its attempt only after the cloud had time to report a preemption', () => {
  const world = running();
  world.run(0, 1).ended = { exitCode: 143, signal: 'TERM', at: world.now };
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending, null);
  world.now += 10 * second;
  world.preempt();
  world.runUntilIdle();
  assert.equal(world.job.attempts[0]?.ending?.reason, 'preempted');

  const killed = running();
  killed.run(0, 1).ended = { exitCode: 143, signal: 'TERM', at: killed.now };
  killed.runUntil(() => lastAttempt(killed.job)?.ending !== null, 2 * minute);
  assert.equal(killed.job.attempts[0]?.ending?.evidence.message, 'killed by TERM on worker 0');
});

/** The script on this machine that drives a TPU has ended because its connection was lost. */
function cutOff(given: Parameters<typeof spec>[0] = {}): World {
  const world = running(spec({ ...given, command: { ...spec().command, runsOn: 'controller' } }));
  world.pattern = 'line_cut';
  world.exit('controller', 1);
  return world;
}

test('if a script here loses its connection to a spot TPU, the attempt ends only after the cloud had time to report a preemption', () => {
  const world = cutOff();
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending, null);
  world.now += 20 * second;
  world.preempt();
  world.runUntilIdle();
  assert.equal(world.job.attempts[0]?.ending?.reason, 'preempted');

  const cut = cutOff();
  cut.runUntil(() => lastAttempt(cut.job)?.ordinal === 2, 2 * minute);
  assert.equal(cut.job.attempts[0]?.ending?.reason, 'command_failed');

  // While the cloud does not answer, a preemption stays possible.
  const asked = cutOff();
  asked.isCloudUp = false;
  asked.runUntil(() => lastAttempt(asked.job)?.ending !== null, 5 * minute);
  assert.equal(lastAttempt(asked.job)?.ending, null);
  asked.preempt();
  asked.isCloudUp = true;
  asked.runUntilIdle();
  assert.equal(asked.job.attempts[0]?.ending?.reason, 'preempted');

  // The same while the cloud's list lacks it: two observations must miss it first.
  const missed = cutOff();
  missed.runUntilIdle();
  missed.now += minute;
  missed.nodes.delete(1);
  missed.pass();
  assert.equal(lastAttempt(missed.job)?.ending, null);
  untilEnding(missed);
  assert.equal(missed.job.attempts[0]?.ending?.reason, 'preempted');

  // Output without a lost connection means that the script has failed by itself, and is judged at once.
  const failed = cutOff();
  failed.pattern = null;
  failed.runUntilIdle();
  assert.equal(failed.job.finish?.reason, 'command_failed');
});

test('a program without output for the silence limit is hung, and one that prints on one worker only is not', () => {
  for (const isPrinting of [false, true]) {
    const limits = { ...spec().limits, silenceTimeoutMs: 10 * minute };
    const world = running(spec({ preset: 'pass', limits }));
    world.runUntil(() => {
      if (isPrinting) world.run(0, 1).outputAt = world.now;
      return world.job.finish !== null;
    }, hour);
    assert.equal(world.job.finish?.reason, isPrinting ? undefined : 'hung');
  }
});

test('a program beyond its time limit is stopped, and no rule answers', () => {
  const world = running(spec({ preset: 'loop: true', limits: { ...spec().limits, maxRuntimeMs: 30 * minute } }));
  world.isCloudUp = false;
  world.now += 31 * minute;
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'timed_out');
  world.isCloudUp = true;
  world.runUntilFinished();
  assert.deepEqual([world.job.finish?.verdict, world.job.attempts.length], ['failed', 1]);
});

// ------------------------------------------------------------------------------------------ silence

test('when neither cloud nor workers answer, nothing happens, however long that lasts', () => {
  const world = running();
  world.isCloudUp = false;
  for (const worker of [0, 1]) host(world, worker).isAnswering = false;
  world.runUntil(() => false, 10 * hour);
  assert.equal(phaseOf(world.job), 'running');
  assert.equal(world.nodes.size, 1);
  assert.equal(world.job.attempts.length, 1);
});

test('a worker that is silent while the cloud reports ready ends the attempt after the grace', () => {
  const world = running(spec({ preset: 'reapply' }));
  const { now } = world;
  host(world, 1).isAnswering = false;
  world.runUntilIdle();
  assert.deepEqual(world.events.at(-1), {
    at: now,
    kind: 'unreachable',
    allocation: 1,
    message: 'no answer',
    worker: 1,
  });
  untilEnding(world);
  assert.equal(world.now, now + 3 * minute);
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'unreachable');
});

test('the silences of two workers one after the other do not add up', () => {
  const world = running(spec({ preset: 'reapply' }));
  host(world, 0).isAnswering = false;
  world.runUntilIdle();
  world.now += 2 * minute;
  host(world, 0).isAnswering = true;
  host(world, 1).isAnswering = false;
  world.runUntilIdle();
  const { now } = world;
  world.now += 2 * minute;
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending, null);
  untilEnding(world);
  assert.equal(world.now, now + 3 * minute);
  assert.equal(lastAttempt(world.job)?.ending?.evidence.worker, 1);
});

test('the grace starts again when the cloud itself was silent in between', () => {
  const world = running();
  host(world, 1).isAnswering = false;
  world.isCloudUp = false;
  world.runUntil(() => false, 20 * minute);
  world.isCloudUp = true;
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending, null);
  const back = world.now;
  untilEnding(world);
  assert.equal(world.now, back + 3 * minute);
});

test('a worker that answers again within the grace costs nothing but two events', () => {
  const world = running();
  host(world, 1).isAnswering = false;
  world.runUntilIdle();
  world.now += 2 * minute;
  host(world, 1).isAnswering = true;
  world.runUntilIdle();
  assert.deepEqual(world.eventKinds().slice(-2), ['unreachable', 'reachable']);
  const sentences = world.events.slice(-2).map((event) => describeEvent(event, world.job));
  assert.match(sentences[0] ?? '', /^worker 1 does not answer/);
  assert.equal(sentences[1], 'every worker answers again', 'the line before names a worker, not the allocation');
  assert.equal(phaseOf(world.job), 'running');
});

test('the next attempt waits until the silent worker has reported the end of the last one', () => {
  const world = running();
  host(world, 1).isAnswering = false;
  untilEnding(world);
  world.now += minute;
  world.runUntilIdle();
  assert.deepEqual([world.job.attempts.length, phaseOf(world.job)], [1, 'recovering']);
  host(world, 1).isAnswering = true;
  world.runUntil(() => world.job.attempts.length === 2, minute);
  assert.equal(world.job.attempts[1]?.allocation, 1);
});

test('ephemeral capacity whose worker stays silent for another grace is replaced', () => {
  const world = running();
  host(world, 1).isAnswering = false;
  world.runUntil(() => phaseOf(world.job) === 'running' && world.job.attempts.length === 2, hour);
  assert.deepEqual([...world.nodes.keys()], [2]);
  assert.equal(world.job.attempts[1]?.allocation, 2);
});

test('a failed attempt does not wait forever for a worker that becomes silent at its end', () => {
  const world = running(spec({ preset: 'loop: failures' }));
  world.ignoresStop = true;
  world.exit(0, 1);
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'command_failed');
  host(world, 1).isAnswering = false;
  world.runUntil(() => phaseOf(world.job) === 'running' && world.job.attempts.length === 2, hour);
  assert.deepEqual([...world.nodes.keys()], [2]);
});

/** A job in whose setup that worker has become silent for good. */
function silentInSetup(given = spec(), worker = 1): World {
  const world = new World(given);
  world.stepResult = { kind: 'unclear', evidence: { message: 'the line dropped' } };
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'setup');
  host(world, worker).isAnswering = false;
  untilEnding(world);
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'unreachable');
  world.stepResult = { kind: 'done' };
  return world;
}

test('capacity whose worker became silent before any start gets another grace too, and is then replaced', () => {
  for (const preset of ['pre', 'rerun', 'resume', 'loop: failures'] as const) {
    const world = silentInSetup(spec({ preset }));
    const { now } = world;
    world.runUntil(() => false, 2 * minute);
    assert.deepEqual([world.job.attempts.length, phaseOf(world.job)], [1, 'recovering'], preset);
    world.runUntilRunning();
    assert.deepEqual([phaseOf(world.job), world.job.attempts.length, world.nodes.size], ['running', 2, 1], preset);
    assert.equal(world.job.attempts[1]?.allocation, 2);
    assert.ok(world.now >= now + 3 * minute);
  }
});

test('the same holds for a worker that does not run the command', () => {
  const world = silentInSetup(spec({ command: { ...spec().command, workers: [0] } }));
  world.runUntilRunning();
  assert.deepEqual([phaseOf(world.job), world.job.attempts.length], ['running', 2]);
  assert.equal(world.job.attempts[1]?.allocation, 2);

  const started = running(spec({ command: { ...spec().command, workers: [0] } }));
  host(started, 1).isAnswering = false;
  started.runUntil(() => started.job.attempts.length > 1 && phaseOf(started.job) === 'running', 2 * hour);
  assert.ok(started.job.attempts.length <= 3, `${started.job.attempts.length} attempts`);
  assert.equal(lastAttempt(started.job)?.allocation, 2);
});

test('a script that drives the TPU from here continues with another TPU when a worker stays silent', () => {
  for (const begin of [silentInSetup, running]) {
    const world = begin(spec({ command: { ...spec().command, runsOn: 'controller' } }));
    host(world, 1).isAnswering = false;
    world.runUntil(() => lastAttempt(world.job)?.allocation === 2 && phaseOf(world.job) === 'running', 2 * hour);
    assert.deepEqual([phaseOf(world.job), world.job.attempts.length], ['running', 2], begin.name);
  }
});

test('a worker that answers again before that continues on the same capacity', () => {
  const world = silentInSetup();
  world.runUntil(() => false, minute);
  host(world, 1).isAnswering = true;
  world.runUntilRunning(minute);
  assert.deepEqual([phaseOf(world.job), world.job.attempts.length], ['running', 2]);
  assert.equal(world.job.attempts[1]?.allocation, 1);
});

test('jobman waits for a silent worker of a persistent TPU, which uses no tries', () => {
  const world = silentInSetup(spec({ capacity: persistent }));
  world.runUntil(() => false, 20 * minute);
  assert.equal(world.job.finish, null);
  assert.ok(world.job.attempts.length <= 2, `${world.job.attempts.length} attempts`);
  host(world, 1).isAnswering = true;
  world.runUntilRunning();
});

test('but not forever: after ten graces the job has failed, and the TPU is unchanged', () => {
  const world = running(spec({ capacity: persistent }));
  host(world, 1).isAnswering = false;
  world.runUntilIdle();
  const { now } = world;
  world.runUntilFinished();
  assert.deepEqual([phaseOf(world.job), world.job.finish?.reason], ['failed', 'unreachable']);
  assert.deepEqual([world.now, world.job.attempts.length, world.nodes.size], [now + 30 * minute, 1, 1]);
  assert.ok(!world.eventKinds().includes('allocation_released'));
  const left = world.run(0, 1).ended;
  assert.equal(left !== 'vanished' && left?.signal, 'TERM');
});

test('a host that does not answer is waited for without limit, and the job continues there or ends once it answers', () => {
  for (const preset of ['pre', 'pass'] as const) {
    const world = running(spec({ capacity: local, preset, steps: [] }));
    host(world, 0).isAnswering = false;
    world.runUntil(() => false, 30 * hour);
    assert.deepEqual([lastAttempt(world.job)?.ending?.reason, world.job.finish], ['unreachable', null]);
    // No other job gets its slot, and its program is still alive.
    assert.equal(holdsSlot(world.job), true);
    assert.equal(world.run(0, 1).ended, null);
    host(world, 0).isAnswering = true;
    world.runUntil(() => world.run(0, 1).ended !== null, hour);
    world.runUntil(() => phaseOf(world.job) === (preset === 'pre' ? 'running' : 'failed'), hour);
    assert.equal(world.job.attempts.length, preset === 'pre' ? 2 : 1);
  }
});

test('a job that was deleted by force keeps the slot of a silent host until its program there has ended, or the host has left the settings', () => {
  for (const returns of [true, false]) {
    const world = running(spec({ capacity: local, steps: [] }));
    host(world, 0).isAnswering = false;
    world.runUntilIdle();
    world.command('delete', { force: true });
    world.runUntil(() => false, 30 * hour);
    assert.equal(holdsSlot(world.job), true);
    if (returns) host(world, 0).isAnswering = true;
    // The backend reports a host of a removed job that the settings do not name as absent.
    else world.node.state = 'absent';
    world.runUntil(() => !holdsSlot(world.job), hour);
    assert.equal(world.run(0, 1).ended !== null, returns);
    world.runUntil(() => false, hour);
    assert.deepEqual([world.decision?.actions, world.decision?.wakeAt], [[], undefined]);
  }
});

test('a stop on a persistent TPU waits for a dead worker only as long', () => {
  const world = running(spec({ capacity: persistent }));
  host(world, 1).isAnswering = false;
  world.command('stop');
  const { now } = world;
  world.runUntilIdle();
  const attempt = lastAttempt(world.job);
  assert.ok(attempt !== undefined);
  assert.equal(giveUpAt(world.job, attempt, now), now + 30 * minute);
  world.runUntilFinished();
  assert.deepEqual([phaseOf(world.job), world.now, world.nodes.size], ['stopped', now + 30 * minute, 1]);
  // Processes that were left there are stopped before anything else starts.
  host(world, 1).isAnswering = true;
  world.command('resume');
  world.runUntilRunning();
  assert.ok(world.run(1, 1).ended !== null);
});

/** Stopped, and then a worker of its kept capacity dies; then its owner resumes it. */
function resumedOntoSilence(given = spec()): World {
  const world = running(given);
  world.command('stop');
  world.runUntilFinished();
  host(world, 1).isAnswering = false;
  world.command('resume');
  world.runUntilIdle();
  return world;
}

test('if kept capacity does not answer, a resume moves to other capacity without a new attempt', () => {
  for (const preset of ['pre', 'pass'] as const) {
    const world = resumedOntoSilence(spec({ preset }));
    const { now } = world;
    world.runUntilRunning();
    assert.deepEqual([phaseOf(world.job), world.job.attempts.length, world.job.allocations.length], ['running', 2, 2]);
    const released = world.events.find((event) => event.kind === 'allocation_released');
    assert.deepEqual([released?.at, released?.message], [now + 3 * minute, 'worker 1 does not answer']);
    assert.equal(historyMismatches(world.events, world.job).length, 0);
  }
});

test('kept capacity that answers again within the grace is used', () => {
  const world = resumedOntoSilence();
  world.runUntil(() => false, 2 * minute);
  host(world, 1).isAnswering = true;
  world.runUntilRunning();
  assert.deepEqual([world.job.attempts.length, world.job.allocations.length], [2, 1]);
});

test('a resume on a persistent TPU that does not answer waits within the attempt, and fails after ten graces', () => {
  const back = resumedOntoSilence(spec({ capacity: persistent }));
  back.runUntil(() => false, 20 * minute);
  host(back, 1).isAnswering = true;
  back.runUntilRunning();
  assert.deepEqual([phaseOf(back.job), back.job.attempts.length], ['running', 2]);

  const dead = resumedOntoSilence(spec({ capacity: persistent }));
  const { now } = dead;
  dead.runUntilFinished();
  assert.deepEqual([phaseOf(dead.job), dead.now, dead.job.attempts.length], ['failed', now + 30 * minute, 2]);
  assert.equal(dead.nodes.size, 1);
});

test('the owner need not wait for a silent worker on which nothing was started', () => {
  const world = silentInSetup();
  world.command('cancel');
  world.runUntilFinished(minute);
  assert.equal(phaseOf(world.job), 'cancelled');
});

test('a stopped job releases its capacity after ten grace periods of silence', () => {
  const world = running();
  host(world, 1).isAnswering = false;
  world.command('stop');
  const { now } = world;
  world.runUntilIdle();
  const attempt = lastAttempt(world.job);
  assert.ok(attempt !== undefined);
  assert.equal(giveUpAt(world.job, attempt, world.now), now + 30 * minute);
  world.runUntil(() => false, 29 * minute);
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['stopping', 1]);
  world.runUntilFinished();
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['stopped', 0]);
  const released = world.events.find((event) => event.kind === 'allocation_released');
  assert.deepEqual([released?.at, released?.message], [now + 30 * minute, 'worker 1 does not answer any more']);
});

test('a stop ends when the silent worker answers again, and keeps its capacity', () => {
  const world = running();
  host(world, 1).isAnswering = false;
  world.command('stop');
  world.runUntil(() => false, 20 * minute);
  host(world, 1).isAnswering = true;
  world.runUntilFinished();
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['stopped', 1]);
});

test('while the cloud does not answer either, a stop releases nothing', () => {
  const world = running();
  for (const worker of [0, 1]) host(world, worker).isAnswering = false;
  world.isCloudUp = false;
  world.command('stop');
  world.runUntil(() => false, 10 * hour);
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['stopping', 1]);
});

test('capacity_wait does not limit the wait for maintenance', () => {
  const world = new World(spec({ limits: { ...spec().limits, capacityWaitMs: 20 * minute } }));
  world.stepResult = { kind: 'unclear', evidence: { message: 'the line dropped' } };
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'setup');
  Object.assign(world.node, { state: 'interrupted', detail: 'REPAIRING' });
  world.runUntil(() => false, 20 * hour);
  assert.deepEqual([world.job.attempts.length, world.job.attempts[0]?.ending], [1, null]);
  Object.assign(world.node, { state: 'ready', detail: 'READY' });
  world.stepResult = { kind: 'done' };
  world.runUntilRunning();
});

test('a program under maintenance has no limit but its own', () => {
  const world = running(spec({ limits: { ...spec().limits, maxRuntimeMs: 10 * hour } }));
  Object.assign(world.node, { state: 'interrupted', detail: 'REPAIRING' });
  const { now } = world;
  world.runUntil(() => lastAttempt(world.job)?.ending !== null, 20 * hour);
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'timed_out');
  assert.equal(world.now, now + 10 * hour);
});

test('maintenance is not a loss: the run is judged when the machine is back', () => {
  const world = running();
  world.node.state = 'interrupted';
  world.runUntil(() => false, 30 * minute);
  assert.equal(lastAttempt(world.job)?.ending, null);
  world.node.state = 'ready';
  world.run(0, 1).ended = 'vanished';
  world.run(1, 1).ended = 'vanished';
  world.runUntilIdle();
  assert.deepEqual(
    [world.job.attempts[0]?.ending?.reason, world.job.attempts[1]?.startMode],
    ['unreachable', 'resume'],
  );
});

// ------------------------------------------------------------------------------------------ loss

test('a preempted node is released and deleted before a new one is requested', () => {
  const world = running();
  world.preempt();
  world.pass();
  assert.deepEqual(keys(world), ['release/1']);
  assert.equal(phaseOf(world.job), 'recovering');
  world.runUntilRunning();
  assert.deepEqual([...world.nodes.keys()], [2]);
  const kinds = world.eventKinds();
  assert.ok(kinds.lastIndexOf('allocation_gone') < kinds.lastIndexOf('allocation_requested'));
  assert.deepEqual([lastAttempt(world.job)?.startMode, lastAttempt(world.job)?.stage], ['resume', 1]);
});

test('one observation that misses a ready node means nothing, two mean that it is lost', () => {
  const world = running();
  const node = world.nodes.get(1);
  world.omitNext = true;
  world.runUntilIdle();
  assert.equal(lastAttempt(world.job)?.ending, null);
  assert.ok(node !== undefined);
  world.nodes.delete(1);
  world.pass();
  assert.equal(lastAttempt(world.job)?.ending, null);
  world.now += 10 * second;
  world.pass();
  assert.equal(lastAttempt(world.job)?.ending?.reason, 'preempted');
});

test('a release is repeated until it is confirmed, and the deletion counts at the second observation', () => {
  const world = running();
  world.preempt();
  world.pass();
  world.pass();
  assert.deepEqual(keys(world), ['release/1']);
  world.performActions();
  world.pass();
  assert.deepEqual(keys(world), []);
  assert.equal(world.job.allocations[0]?.goneAt, null);
  world.now += 10 * second;
  world.pass();
  assert.equal(world.job.allocations[0]?.goneAt, world.now);
});

test('a deletion that was accepted and did not happen is repeated', () => {
  const world = running();
  world.preempt();
  world.pass();
  world.outcomes = [{ subject: { kind: 'release', allocation: 1 }, at: world.now, result: { kind: 'done' } }];
  world.pass();
  assert.deepEqual(keys(world), []);
  world.now += 30 * second;
  world.pass();
  assert.deepEqual(keys(world), ['release/1']);
});

test('a deletion that the cloud dropped in a temporary state is repeated at once', () => {
  const world = running();
  world.preempt();
  world.node.detail = 'SUSPENDING';
  world.pass();
  world.outcomes = [{ subject: { kind: 'release', allocation: 1 }, at: world.now, result: { kind: 'done' } }];
  world.now += 5 * second;
  world.pass();
  assert.deepEqual(keys(world), []);
  world.node.detail = 'SUSPENDED';
  world.now += 5 * second;
  world.pass();
  assert.deepEqual(keys(world), ['release/1']);
});

test('a late outcome of an earlier allocation changes nothing', () => {
  const world = running();
  world.preempt();
  world.runUntilRunning();
  const { job } = world;
  for (const result of [{ kind: 'done' }, { kind: 'failed', evidence: { message: '' } }] as const) {
    const subjects: readonly Subject[] = [
      { kind: 'request', allocation: 1 },
      { kind: 'release', allocation: 1 },
      { kind: 'step', allocation: 1, worker: 0, step: 'ssh' },
      { kind: 'start', attempt: 1, worker: 0 },
    ];
    world.outcomes = subjects.map((subject) => ({ subject, at: world.now, result }));
    world.pass();
    assert.equal(world.job, job);
  }
});

test('a persistent TPU is used as it is and never released at the end', () => {
  const world = running(spec({ capacity: persistent }));
  assert.equal(lastAllocation(world.job)?.name, 'iris');
  world.exitAll(0);
  world.runUntilIdle();
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['succeeded', 1]);
  assert.ok(!world.eventKinds().includes('allocation_released'));
});

test('a missing persistent TPU is not created', () => {
  const world = new World(spec({ capacity: persistent }));
  world.nodes.clear();
  world.runUntilFinished();
  const { message: detail, raw = '' } = world.job.attempts[0]?.ending?.evidence ?? { message: '' };
  assert.match(detail, /there is no TPU iris/);
  // The cloud did not refuse it: it was missing in a list.
  assert.equal(raw, '');
  assert.equal(world.nodes.size, 0);
});

test('a rule may recreate a persistent TPU: released, deleted, and requested under the same name', () => {
  const world = running(spec({ capacity: persistent, preset: 'reapply' }));
  world.preempt();
  world.runUntilRunning();
  assert.deepEqual(
    world.job.allocations.map(({ name, goneAt }) => [name, goneAt !== null]),
    [
      ['iris', true],
      ['iris', false],
    ],
  );
});

test('while a TPU is recreated, the old one does not count as the new one', () => {
  const world = new World(spec({ capacity: persistent, preset: 'reapply' }));
  world.stepResult = { kind: 'unclear', evidence: { message: 'the line dropped' } };
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'setup');
  const node = world.node;
  const perform = world.perform.bind(world);
  world.perform = (action) => {
    if (action.kind !== 'release') return perform(action);
    Object.assign(node, { state: 'releasing', detail: 'DELETING' });
    return { kind: 'done' };
  };
  Object.assign(node, { state: 'lost', detail: 'PREEMPTED', cause: 'preempted' });
  world.runUntil(() => false, 5 * minute);
  assert.deepEqual([world.job.attempts.length, world.job.allocations.length], [2, 2]);
  assert.equal(world.job.allocations[1]?.lastObserved, null);
  world.nodes.delete(1);
  world.stepResult = { kind: 'done' };
  world.runUntilRunning();
  assert.deepEqual([world.job.attempts.length, world.job.allocations.length], [2, 2]);
});

test('a TPU that is preempted before the command for which it is created has started is created again without a rule', () => {
  const capacity = { ...persistent, operation: { kind: 'create', withCommand: true } } as const;
  const world = new World(spec({ capacity, preset: 'pass' }));
  const preempt = (): void =>
    void Object.assign(world.nodes.get(1) ?? {}, { state: 'lost', detail: 'PREEMPTED', cause: 'preempted' });
  world.stepResult = { kind: 'unclear', evidence: { message: 'the line dropped' } };
  world.runUntil(() => phaseOf(world.job) === 'setup');
  preempt();
  world.stepResult = { kind: 'done' };
  world.runUntilRunning();
  assert.deepEqual([world.job.attempts.length, world.job.allocations.length], [1, 2]);
  preempt();
  world.runUntilFinished();
  assert.deepEqual([phaseOf(world.job), world.job.allocations.length], ['failed', 2], 'the command has started');
});

test('a job that creates its TPU waits while another job replaces it, and releases no later TPU of its name', () => {
  const capacity = { ...persistent, operation: { kind: 'create', withCommand: true } } as const;
  const waiting = new World(spec({ capacity }));
  const [old] = [...waiting.nodes.values()];
  Object.assign(old ?? {}, { state: 'releasing', detail: 'DELETING' });
  waiting.runUntil(() => false, 5 * minute);
  assert.deepEqual([waiting.job.attempts.length, waiting.job.allocations.length], [1, 1]);
  assert.equal(waiting.job.allocations[0]?.releasedAt, null);
  waiting.nodes.clear();
  waiting.runUntilRunning();

  const failed = new World(spec({ capacity }));
  Object.assign(failed.nodes.get(1) ?? {}, { state: 'lost', detail: 'FAILED', cause: 'failed' });
  failed.runUntil(() => failed.job.allocations[0]?.releasedAt !== null);
  failed.recreateNode();
  const later = failed.nodes.get(1)?.creationTime;
  failed.runUntilRunning();
  assert.equal(failed.nodes.get(1)?.creationTime, later);
});

test('a preempted persistent TPU that no rule recreates fails the job after the grace', () => {
  const world = running(spec({ capacity: persistent, preset: 'pass' }));
  world.preempt();
  const takenAt = world.now;
  world.runUntilFinished();
  assert.deepEqual([phaseOf(world.job), world.job.finish?.reason], ['failed', 'preempted']);
  // Not half a minute later, with the next normal check.
  assert.ok(world.now - takenAt <= world.job.spec.recovery.unreachableGraceMs + 2 * second, `${world.now - takenAt}`);
});

for (const preset of ['pre', 'reapply', 'pass'] as const) {
  test(`${preset}: a persistent TPU that had failed before the job is not released, and fails the job`, () => {
    const world = new World(spec({ capacity: persistent, preset }));
    Object.assign(world.nodes.get(1) ?? {}, failedForWantOfCapacity);
    world.runUntilFinished();
    assert.deepEqual([phaseOf(world.job), world.job.finish?.reason], ['failed', 'allocation_failed']);
    assert.equal(world.nodes.size, 1);
    assert.ok(!world.eventKinds().includes('allocation_released'));
  });
}

test('a recreation without capacity continues until it gets some: its rule still applies', () => {
  const world = running(spec({ capacity: persistent, preset: 'reapply' }));
  const perform = world.perform.bind(world);
  let failures = 0;
  world.perform = (action) => {
    const result = perform(action);
    if (action.kind === 'request' && failures < 2) {
      failures += 1;
      Object.assign(world.nodes.get(1) ?? {}, failedForWantOfCapacity);
    }
    return result;
  };
  world.preempt();
  world.runUntilRunning();
  assert.deepEqual([phaseOf(world.job), world.job.attempts.length, world.job.allocations.length], ['running', 2, 4]);
});

test('the next command of the owner continues a recreation that a stop has interrupted', () => {
  const world = running(spec({ capacity: persistent, preset: 'reapply' }));
  world.preempt();
  world.refusal = noneLeft;
  world.runUntil(() => world.job.allocations.length === 2, hour);
  world.runUntil(() => false, 5 * minute);
  world.command('stop');
  world.runUntilFinished();
  world.refusal = null;
  world.command('resume');
  world.runUntilRunning();
});

test('a program on this machine outlives its TPU, so it is stopped before the next one starts', () => {
  const world = running(spec({ command: { ...spec().command, runsOn: 'controller' } }));
  world.ignoresStop = true;
  world.preempt();
  world.pass();
  assert.deepEqual(keys(world), ['stop/1/controller/stop', 'release/1']);
  world.performActions();
  world.runUntil(() => world.job.attempts.length === 2, hour);
  assert.notEqual(world.run('controller', 1).ended, null);
  assert.ok((world.job.attempts[0]?.endedAt ?? 0) >= (world.job.attempts[0]?.ending?.startedAt ?? 0) + 30 * second);
});

test('a run of an earlier attempt that starts late is stopped before anything is started', () => {
  const world = running(spec({ preset: 'loop: failures' }));
  world.exitAll(1);
  world.runUntil(() => lastAttempt(world.job)?.ordinal === 2, minute);
  world.run(1, 1).ended = null;
  world.now += minute;
  world.pass();
  assert.deepEqual(keys(world), ['stop/1/1/stop']);
  world.performActions();
  world.runUntilRunning();
});

// ------------------------------------------------------------------------------------------ the owner's commands

test('stop ends the program and keeps the capacity; start continues with it', () => {
  const world = running();
  world.command('stop');
  assert.equal(phaseOf(world.job), 'stopping');
  world.runUntilIdle();
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['stopped', 1]);
  assert.ok((world.decision?.wakeAt ?? Infinity) <= world.now + minute);
  world.command('start');
  world.runUntilIdle();
  assert.deepEqual(
    [phaseOf(world.job), lastAttempt(world.job)?.allocation, lastAttempt(world.job)?.stage],
    ['running', 1, 0],
  );
});

test('a start with commandOnly skips the steps on workers that are held ready, which invariant 5 allows', () => {
  const world = running();
  world.command('stop');
  world.runUntilIdle();
  for (const worker of [0, 1]) host(world, worker).proofs.clear();
  const faults: string[] = [];
  world.onPass = (before, observation, decision, now) =>
    void faults.push(...violationsOf({ before, observation, decision, now }));
  world.command('start', { commandOnly: true });
  world.runUntilIdle();
  assert.deepEqual([phaseOf(world.job), faults], ['running', []]);
  assert.equal(world.node.workers[0]?.proofs.size, 0);
});

test('commandOnly works only on kept capacity: on a new machine every step comes first', () => {
  const world = running();
  world.command('stop');
  world.runUntilIdle();
  const faults: string[] = [];
  world.onPass = (before, observation, decision, now) =>
    void faults.push(...violationsOf({ before, observation, decision, now }));
  world.command('start', { commandOnly: true });
  // The kept capacity is preempted before the start request is handled.
  world.preempt();
  world.runUntilRunning();
  assert.deepEqual([phaseOf(world.job), faults], ['running', []]);
  assert.deepEqual(
    world.node.workers.map(({ proofs }) => proofs.size),
    [1, 1],
  );
});

test('stop with release, and cancel, release the capacity', () => {
  for (const [verb, phase] of [
    ['stop', 'stopped'],
    ['cancel', 'cancelled'],
  ] as const) {
    const world = running();
    world.command(verb, { release: true });
    world.runUntil(() => false, hour);
    assert.deepEqual([phaseOf(world.job), world.nodes.size, world.decision?.wakeAt], [phase, 0, undefined]);
  }
});

test('resume after cancel requests new capacity and continues', () => {
  const world = running();
  world.command('cancel');
  world.runUntil(() => false, hour);
  world.command('resume');
  world.runUntilRunning();
  assert.deepEqual([[...world.nodes.keys()], lastAttempt(world.job)?.stage], [[2], 1]);
});

test('resume right after cancel waits until the old capacity is deleted', () => {
  const world = running();
  world.command('cancel');
  world.pass();
  world.performActions();
  world.command('resume');
  world.runUntilRunning();
  assert.deepEqual([phaseOf(world.job), lastAttempt(world.job)?.stage], ['running', 1]);
});

test('stop and resume between two passes start a new attempt, and a success of it is not repeated', () => {
  const world = running();
  world.command('stop');
  world.command('resume');
  world.runUntil(() => phaseOf(world.job) === 'running' && world.job.attempts.length === 2, hour);
  assert.deepEqual(
    world.job.attempts.map(({ stage, ending }) => [stage, ending?.reason]),
    [
      [0, 'stopped'],
      [1, undefined],
    ],
  );
  world.exitAll(0);
  world.runUntil(() => false, hour);
  assert.deepEqual([phaseOf(world.job), world.job.attempts.length], ['succeeded', 2]);
});

test('a stop keeps the first reason of an attempt that is already ending', () => {
  const world = running(spec({ preset: 'loop: failures' }));
  world.ignoresStop = true;
  world.exit(0, 1);
  world.runUntilIdle();
  world.command('stop');
  world.runUntilFinished();
  assert.deepEqual([world.job.finish?.verdict, world.job.finish?.reason], ['stopped', 'command_failed']);
});

test('a stop does not keep capacity that was never ready', () => {
  const world = new World();
  world.pass();
  world.pass();
  world.nodes.set(1, world.newNode('waiting'));
  world.runUntilIdle();
  world.command('stop');
  world.runUntil(() => false, hour);
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['stopped', 0]);
});

test('kept capacity that the cloud preempts is released', () => {
  const world = running();
  world.command('stop');
  world.runUntilIdle();
  world.preempt();
  world.runUntil(() => world.nodes.size === 0, hour);
  assert.equal(world.nodes.size, 0);
});

test('a finished job keeps its capacity as long as its spec says', () => {
  const world = running(spec({ finish: { capacity: 'keep', keepForMs: 30 * minute } }));
  world.exitAll(0);
  world.runUntilIdle();
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['succeeded', 1]);
  const end = world.now;
  world.runUntil(() => world.nodes.size === 0, hour);
  assert.equal(world.now, end + 30 * minute);
});

test('only a failed job holds its capacity for debugging, and its owner may release it earlier', () => {
  const held = spec({ preset: 'pass', finish: { capacity: 'release', keepForMs: null, holdOnFailureMs: 2 * hour } });
  const failed = running(held);
  failed.exitAll(3);
  failed.runUntilIdle();
  assert.deepEqual([phaseOf(failed.job), failed.nodes.size], ['failed', 1]);
  const end = failed.now;
  failed.runUntil(() => failed.nodes.size === 0, 3 * hour);
  assert.equal(failed.now, end + 2 * hour);
  assert.equal(failed.events.find(({ kind }) => kind === 'allocation_released')?.at, end + 2 * hour);

  const finished = running(held);
  finished.exitAll(0);
  finished.runUntil(() => finished.nodes.size === 0, hour);
  assert.deepEqual([phaseOf(finished.job), finished.nodes.size], ['succeeded', 0]);

  const looked = running(held);
  looked.exitAll(3);
  looked.runUntilIdle();
  looked.command('stop', { release: true });
  looked.runUntil(() => looked.nodes.size === 0, 10 * minute);
  assert.deepEqual([phaseOf(looked.job), looked.nodes.size], ['failed', 0]);
});

test('an attempt records its copy of the working directory, and a resume may choose another', () => {
  const base = spec({ preset: 'pass' });
  const copied = {
    ...base,
    steps: [
      { ...base.steps[0], name: 'workdir', key: 'workdir-1', workdirCopy: 1 } as SetupStep,
      ...base.steps.slice(1),
    ],
  };
  const world = running({ ...copied, workdir: { tree: `sha256:${'1'.repeat(64)}` } });
  world.exitAll(1);
  world.runUntilIdle();
  const workdirTree = `sha256:${'2'.repeat(64)}` as const;
  world.command('resume', { workdirCopy: 2, workdirTree });
  world.runUntilRunning();
  assert.deepEqual(
    world.job.attempts.map(({ workdirCopy }) => workdirCopy),
    [1, 2],
  );
  assert.deepEqual(
    stepsOf(world.job).map(({ key }) => key),
    ['workdir-2', ...base.steps.slice(1).map(({ key }) => key)],
  );
  assert.equal(workdirTreeOf(world.job), workdirTree);
});

test('a deleted job leaves the list only when an observation has confirmed the deletion of its capacity', () => {
  const world = running();
  world.command('delete');
  world.runUntilIdle();
  assert.equal(world.job.removed, false);
  world.isCloudUp = false;
  world.runUntil(() => false, hour);
  assert.equal(world.job.removed, false);
  world.isCloudUp = true;
  world.runUntil(() => false, hour);
  assert.deepEqual([world.job.removed, world.events.at(-1)?.kind], [true, 'removed']);
});

test('a cancel does not wait for workers that cannot answer', () => {
  const world = running();
  for (const worker of [0, 1]) host(world, worker).isAnswering = false;
  world.runUntilIdle();
  world.command('cancel');
  const asked = world.now;
  world.runUntil(() => world.nodes.size === 0, hour);
  assert.equal(world.now, asked + 30 * second);
});

test('a fact that was not observed counts as unknown, and an unknown allocation is ignored', () => {
  const world = running();
  const { job, now } = world;
  world.pass({
    admitted: true,
    allocations: [],
    workers: [],
    outcomes: [{ subject: { kind: 'request', allocation: 9 }, at: now, result: { kind: 'done' } }],
  });
  assert.equal(world.job, job);
  world.pass({
    admitted: true,
    allocations: [{ allocation: 9, observed: known({ state: 'lost', detail: '' }, now) }],
    workers: [{ allocation: 9, worker: 0, observed: unknown('', now) }],
    outcomes: [],
  });
  assert.equal(world.job, job);
});

test('if a user recreates a persistent TPU, the rule answers at once and the job uses the new one', () => {
  for (const runsOn of ['workers', 'controller'] as const) {
    const world = running(spec({ preset: 'pre', capacity: persistent, command: { ...spec().command, runsOn } }));
    world.recreateNode();
    const made = world.nodes.get(1)?.creationTime;
    const since = world.now;
    world.runUntil(() => world.job.attempts.length === 2 && phaseOf(world.job) === 'running', hour);
    assert.deepEqual(
      [
        phaseOf(world.job),
        world.job.attempts[0]?.ending?.reason,
        world.nodes.get(1)?.creationTime,
        world.job.allocations[1]?.creationTime,
      ],
      ['running', 'preempted', made, made],
      runsOn,
    );
    assert.ok(world.now - since < 3 * minute, 'sooner than a silent worker is given up');
    assert.deepEqual(historyMismatches(world.events, world.job), []);
  }
});

test('a script here that loses its connection because a user deletes an on-demand TPU ends as a lost TPU', () => {
  const capacity = { ...persistent, pricing: 'ondemand' as const };
  const deleted = cutOff({ capacity });
  // The cloud's answer is up to date: another TPU of its name is being created.
  deleted.nodes.get(1)!.state = 'provisioning';
  deleted.runUntilIdle();
  assert.equal(lastAttempt(deleted.job)?.ending, null);
  deleted.recreateNode();
  deleted.runUntil(() => lastAttempt(deleted.job)?.ending !== null, minute);
  assert.equal(deleted.job.attempts[0]?.ending?.reason, 'preempted');

  // A TPU that the cloud reports as ready was not deleted, and on-demand TPUs are not preempted: there is no wait.
  const cut = cutOff({ capacity });
  cut.runUntilIdle();
  assert.equal(cut.job.attempts[0]?.ending?.reason, 'command_failed');
});

test('an answer of the cloud that is older than the grace period does not count', () => {
  const spot = { ...persistent, pricing: 'preemptible' as const };
  const lost = cutOff({ capacity: spot });
  lost.runUntilIdle();
  lost.now += 24 * second;
  const early = lost.observe();
  lost.now += 7 * second;
  lost.pass(early);
  assert.equal(lastAttempt(lost.job)?.ending, null);
  lost.nodes.get(1)!.state = 'lost';
  lost.nodes.get(1)!.cause = 'preempted';
  lost.runUntilIdle();
  assert.equal(lost.job.attempts[0]?.ending?.reason, 'preempted');

  const silent = running(spec({ preset: 'pre' }));
  host(silent, 0).isAnswering = false;
  silent.runUntilIdle();
  silent.now += silent.job.spec.recovery.unreachableGraceMs - second;
  const before = silent.observe();
  silent.now += 8 * second;
  silent.pass(before);
  assert.equal(lastAttempt(silent.job)?.ending, null);
  silent.preempt();
  silent.runUntilIdle();
  assert.equal(silent.job.attempts[0]?.ending?.reason, 'preempted');
});

test('a setup step that fails after its attempt has ended counts in that attempt, and not in the next', () => {
  const world = new World(spec({ preset: 'loop: failures' }));
  world.stepResult = { kind: 'failed', evidence: { message: 'exit 100' } };
  const late: Action[] = [];
  while (world.job.attempts.length < 2) {
    const { actions, wakeAt } = world.pass();
    // Worker 1 takes long, and worker 0 uses up its tries meanwhile.
    const isSlow = (action: Action): boolean => action.kind === 'step' && action.worker === 1;
    if (late.length === 0) late.push(...actions.filter(isSlow));
    world.performActions(actions.filter((action) => !isSlow(action)));
    if (world.outcomes.length === 0) world.now = Math.max(world.now + 1, wakeAt ?? world.now);
  }
  world.performActions(late);
  world.pass();
  const [first, second] = world.job.attempts;
  const late_ = first?.failures.find(({ task }) => task.worker === 1);
  assert.deepEqual([first?.ending?.reason, late_?.tries], ['setup_failed', 1]);
  assert.deepEqual(second?.failures, []);
  const stepEvent = world.events.findLast((event) => event.kind === 'step_failed');
  assert.deepEqual([stepEvent?.attempt, stepEvent?.worker, stepEvent?.tries], [1, 1, 1]);
  assert.deepEqual(historyMismatches(world.events, world.job), []);
});

test('a failure of a setup step that is stored twice, because the answer of the database was lost, counts once', () => {
  const world = new World(spec({ preset: 'loop: failures' }));
  world.stepResult = { kind: 'failed', evidence: { message: 'exit 100' } };
  const failures = () => world.outcomes.filter(({ subject }) => subject.kind === 'step');
  while (failures().length === 0) {
    world.pass();
    world.performActions();
  }
  const stored = failures();
  world.pass();
  world.outcomes.push(...stored);
  world.pass();
  assert.deepEqual(
    world.job.attempts[0]?.failures.map(({ tries }) => tries),
    stored.map(() => 1),
  );
  assert.equal(world.events.filter(({ kind }) => kind === 'step_failed').length, stored.length);
});

test('a persistent TPU is lost once another user has recreated it, and the job does not touch the new one', () => {
  const world = running(spec({ preset: 'reapply', capacity: persistent }));
  world.preempt();
  world.runUntil(() => world.job.attempts.length === 2 && phaseOf(world.job) === 'running', hour);
  world.isCloudUp = false;
  world.runUntilIdle();
  world.recreateNode();
  world.now += minute;
  world.isCloudUp = true;
  const made = world.nodes.get(1)?.creationTime;
  world.runUntil(() => world.job.attempts.length === 3 && phaseOf(world.job) === 'running', hour);
  const [, reapplied, third] = world.job.allocations;
  assert.notEqual(reapplied?.goneAt, null);
  assert.notEqual(reapplied?.creationTime, made);
  assert.deepEqual(
    [third?.creationTime, world.nodes.get(1)?.creationTime, phaseOf(world.job)],
    [made, made, 'running'],
  );
  assert.deepEqual(historyMismatches(world.events, world.job), []);
});

test('a job that no rule continues fails because of it, and does not delete the new node', () => {
  const world = running(spec({ preset: 'pass', capacity: persistent }));
  world.recreateNode();
  world.runUntilFinished();
  assert.deepEqual([phaseOf(world.job), world.nodes.size], ['failed', 1]);
});
