// The table of situations: for each row a short story in which it decides a pass.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CloudErrorKind } from '../../src/core/job.ts';
import { known, unknown } from '../../src/core/observation.ts';
import { situations } from '../../src/core/situation.ts';
import type { JobSpec } from '../../src/core/spec.ts';
import { hour, minute } from '../../src/core/time.ts';
import { World, local, spec, tpuOfPlaces } from './world.ts';

type Begin = (given?: JobSpec) => World;

const { command, limits } = spec();
const loop = spec({ preset: 'loop: failures' });

function running(begin: Begin, given?: JobSpec): World {
  const world = begin(given);
  world.settleNow();
  return world;
}

function passTenMinutesLater(world: World): void {
  world.now += 10 * minute;
  world.pass();
}

/** All requests are refused with that error. */
function refused(begin: Begin, kind: CloudErrorKind, given?: JobSpec): World {
  const world = begin(given);
  world.refusal = { kind: 'failed', evidence: { detail: 'no' }, error: { kind, message: 'no', raw: '' } };
  world.settleNow();
  return world;
}

/** A request was accepted. */
function requested(begin: Begin): World {
  const world = begin();
  world.pass();
  world.pass();
  world.act();
  return world;
}

function lostBeforeReady(begin: Begin, kind: CloudErrorKind): World {
  const world = requested(begin);
  Object.assign(world.node, { state: 'lost', cause: 'failed', error: { kind, message: 'no', raw: '' } });
  world.pass();
  return world;
}

function stopAnswering(world: World): void {
  for (const worker of world.node.workers) worker.isAnswering = false;
  world.live(() => false, 5 * minute);
}

/** The command is committed to be started, and nobody has started it. */
function committed(begin: Begin): World {
  const world = begin();
  while (world.job.attempts[0]?.startedAt === null || world.job.attempts.length === 0) {
    world.act();
    world.pass();
  }
  return world;
}

/** A rule has made a second attempt, which has to wait. */
function failedOnce(begin: Begin): World {
  const world = running(begin, loop);
  world.exitAll(1);
  world.live(() => world.job.attempts.length > 1);
  return world;
}

const stories: Readonly<Record<string, (begin: Begin) => void>> = {
  removed(begin) {
    const world = begin();
    world.ask('delete', { force: true });
    world.pass();
  },
  finished(begin) {
    const world = running(begin);
    world.exitAll(0);
    world.settleNow();
    world.pass();
  },
  'ended-by-owner'(begin) {
    const world = begin();
    world.ask('cancel');
    world.pass();
  },
  'waiting-for-slot'(begin) {
    const world = begin(spec({ capacity: local }));
    world.admitted = false;
    world.pass();
  },
  'start-requested': (begin) => void begin().pass(),
  'attempt-over'(begin) {
    const world = running(begin);
    world.ask('stop');
    world.settleNow();
    world.pass();
  },
  'attempt-ending'(begin) {
    const world = running(begin);
    world.ask('stop');
    world.pass();
    world.pass();
  },
  'command-succeeded'(begin) {
    const world = running(begin);
    world.exitAll(0);
    world.pass();
  },
  'stop-requested'(begin) {
    const world = running(begin);
    world.ask('stop');
    world.pass();
  },
  'recovery-disabled'(begin) {
    const world = failedOnce(begin);
    world.ask('last');
    world.pass();
  },
  'max-runtime-reached': (begin) =>
    passTenMinutesLater(running(begin, spec({ limits: { ...limits, maxRuntime: minute } }))),
  'capacity-wait-reached': (begin) =>
    passTenMinutesLater(refused(begin, 'stockout', spec({ limits: { ...limits, capacityWait: minute } }))),
  'alternative-exhausted': (begin) => void refused(begin, 'stockout', spec({ capacity: tpuOfPlaces })),
  'request-refused': (begin) => void refused(begin, 'permission'),
  preempted(begin) {
    const world = running(begin);
    world.preempt();
    world.pass();
  },
  'allocation-failed': (begin) => void lostBeforeReady(begin, 'stockout'),
  'allocation-failed-for-good': (begin) => void lostBeforeReady(begin, 'invalid'),
  'program-vanished'(begin) {
    const world = running(begin);
    world.run(0, 1).ended = 'vanished';
    world.pass();
  },
  'command-failed'(begin) {
    const world = running(begin);
    world.exit(1, 1);
    world.pass();
  },
  'hung-after-failed-call'(begin) {
    const world = running(begin, spec({ limits: { ...limits, troubleTimeout: minute } }));
    world.pattern = 'grpc';
    passTenMinutesLater(world);
  },
  hung: (begin) => passTenMinutesLater(running(begin, spec({ limits: { ...limits, silenceTimeout: minute } }))),
  'kept-capacity-unreachable'(begin) {
    const world = running(begin);
    world.ask('stop');
    world.settleNow();
    world.ask('resume');
    stopAnswering(world);
  },
  'worker-unreachable': (begin) => stopAnswering(running(begin)),
  'setup-failed'(begin) {
    const world = begin();
    world.stepResult = { kind: 'failed', evidence: { detail: 'no' } };
    world.live(() => false, hour);
  },
  'no-worker-for-command': (begin) => void running(begin, spec({ command: { ...command, workers: [] } })),
  'worker-does-not-exist': (begin) => void running(begin, spec({ command: { ...command, workers: [7] } })),
  'other-attempt-alive'(begin) {
    const world = failedOnce(begin);
    world.run(0, 1).ended = null;
    world.pass();
  },
  running: (begin) => void running(begin).pass(),
  'setup-lost'(begin) {
    const world = committed(begin);
    world.node.workers[0]?.proofs.clear();
    world.pass();
  },
  'partly-started': (begin) => void committed(begin).pass(),
  'previous-allocation-releasing': (begin) => void lostBeforeReady(begin, 'stockout').pass(),
  backoff: (begin) => void failedOnce(begin).pass(),
  'attempt-waiting-for-slot'(begin) {
    const world = begin();
    world.pass();
    world.admitted = false;
    world.pass();
  },
  'allocation-unknown'(begin) {
    const world = begin();
    world.cloudAnswers = false;
    world.settleNow();
  },
  'better-alternative'(begin) {
    const world = begin(spec({ capacity: tpuOfPlaces }));
    world.pass();
    const said = [{ place: 0, answer: 'stockout' as const, at: world.now }];
    world.pass({ ...world.observe(), places: known(said, world.now) });
  },
  'refused-and-unconfirmed'(begin) {
    const world = begin();
    world.pass();
    const fact = { ...unknown('403', world.now), refused: 'permission' as const };
    world.pass({ ...world.observe(), allocations: [{ allocation: 1, fact }] });
  },
  'request-due'(begin) {
    const world = begin();
    world.pass();
    world.pass();
  },
  'request-accepted'(begin) {
    const world = requested(begin);
    world.missNext = true;
    world.pass();
  },
  'allocation-pending'(begin) {
    const world = requested(begin);
    world.node.state = 'provisioning';
    world.pass();
  },
  'workers-in-setup': (begin) => void requested(begin).pass(),
  'setup-done': (begin) => void running(begin, spec({ command: { ...command, isSetupOnly: true } })),
  'start-due': (begin) => void committed(begin),
};

test('every row has a story, and every story a row', () => {
  assert.deepEqual(
    Object.keys(stories),
    situations.map(({ name }) => name),
  );
});

for (const { name, means } of situations) {
  test(`${name}: ${means}`, () => {
    const rows = new Set<string | undefined>();
    stories[name]?.((given) => {
      const world = new World(given);
      world.onPass = (_, __, decision) => rows.add(decision.job.situation);
      return world;
    });
    assert.ok(rows.has(name), `these rows decided: ${[...rows].join(', ')}`);
  });
}
