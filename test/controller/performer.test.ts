// The performer has many actions under way, and none of a kind keeps another kind waiting.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../../src/app/ports.ts';
import type { Output } from '../../src/controller/log-mirror.ts';
import { createPerformer } from '../../src/controller/performer.ts';
import type { Action } from '../../src/core/decision.ts';
import type { OutcomeResult } from '../../src/core/observation.ts';
import { World, spec, step, t0 } from '../core/world.ts';

test('a lost machine is let go of at once, however many workers are being set up', async () => {
  const done: string[] = [];
  const never = new Promise<OutcomeResult>(() => undefined);
  const backend = {
    capacity: {
      release: ({ allocation }: { readonly allocation: { readonly name: string } }) => {
        done.push(`release ${allocation.name}`);
        return Promise.resolve({ kind: 'done' });
      },
    },
    machines: { step: () => never, forget: () => undefined },
    // Only what these actions use of the ports.
  } as unknown as Backend;
  const performer = createPerformer({
    store: { addOutcome: () => Promise.resolve() } as never,
    backendOf: () => backend,
    clock: { now: () => t0, at: () => () => undefined },
    logFiles: { note: () => Promise.resolve() } as never,
    mirror: { unfinished: () => [] } as never,
    most: { request: 1, release: 1, step: 4, start: 1, stop: 1 },
    mayAct: () => true,
    wake: () => undefined,
    released: () => undefined,
    say: () => undefined,
  });

  const world = new World(spec({ steps: [step('ssh')] }));
  world.live(() => world.job.attempts.at(-1)?.runningAt !== null && world.job.attempts.length > 0);
  const steps = Array.from({ length: 20 }, (_, worker): Action => ({
    kind: 'step',
    attempt: 1,
    allocation: 1,
    worker,
    step: 'ssh',
  }));
  performer.perform({ ...world.job, id: '000002' }, steps, 1);
  performer.perform(world.job, [{ kind: 'release', allocation: 1 }], 1);
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  assert.deepEqual(done, [`release ${world.job.allocations[0]?.name}`]);
  assert.equal(performer.size, 20);
});

test('a release waits for the rest of an output that nobody follows yet, as after a new controller has begun', async () => {
  const done: string[] = [];
  const backend = {
    capacity: {
      release: () => {
        done.push('release');
        return Promise.resolve({ kind: 'done' });
      },
    },
    machines: { forget: () => undefined },
    // Only what these actions use of the ports.
  } as unknown as Backend;
  const mirror = {
    unfinished: () => [{ attempt: 1, allocation: 1, worker: 0 }],
    drain: (_job: unknown, _machines: unknown, { attempt, worker }: Output) => {
      done.push(`drain ${attempt}/${worker}`);
      return Promise.resolve(true);
    },
  };
  const performer = createPerformer({
    store: { addOutcome: () => Promise.resolve() } as never,
    backendOf: () => backend,
    clock: { now: () => t0, at: () => () => undefined },
    logFiles: { note: () => Promise.resolve() } as never,
    mirror: mirror as never,
    most: { request: 1, release: 1, step: 1, start: 1, stop: 1 },
    mayAct: () => true,
    wake: () => undefined,
    released: () => undefined,
    say: () => undefined,
  });
  const world = new World(spec({ steps: [] }));
  world.live(() => world.job.attempts.at(-1)?.runningAt !== null && world.job.attempts.length > 0);
  const attempts = world.job.attempts.map((attempt) => ({ ...attempt, endedAt: t0 }));
  performer.perform({ ...world.job, attempts }, [{ kind: 'release', allocation: 1 }], 1);
  await performer.settled();
  assert.deepEqual(done, ['drain 1/0', 'drain 1/1', 'release']);
});
