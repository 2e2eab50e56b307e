// The performer runs many actions, and no kind of action delays another.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../../src/app/ports.ts';
import type { Output } from '../../src/controller/log-tail.ts';
import { createPerformer } from '../../src/controller/performer.ts';
import type { Action } from '../../src/core/model/decision.ts';
import type { OutcomeResult } from '../../src/core/model/observation.ts';
import { World, spec, step, t0 } from '../core/world.ts';

/** A performer over these ports, and a job with a running program. Released machines are added to `done`. */
function performing(given: { readonly steps: number; readonly machines?: object; readonly mirror: object }) {
  const done: string[] = [];
  const backend = {
    capacity: {
      release: ({ allocation }: { readonly allocation: { readonly name: string } }) => {
        done.push(`release ${allocation.name}`);
        return Promise.resolve({ kind: 'done' });
      },
    },
    machines: { disconnect: () => undefined, ...given.machines },
    // These actions use only these functions of the ports.
  } as unknown as Backend;
  const performer = createPerformer({
    store: { addOutcome: () => Promise.resolve() } as never,
    backendOf: () => backend,
    clock: { now: () => t0, at: () => () => undefined },
    logFiles: { note: () => Promise.resolve() } as never,
    mirror: given.mirror as never,
    maxConcurrent: { request: 1, release: 1, step: given.steps, start: 1, stop: 1 },
    mayAct: () => true,
    wake: () => undefined,
    onReleased: () => undefined,
    report: () => undefined,
  });
  const world = new World(spec({ steps: [step('ssh')] }));
  world.runUntil(() => world.job.attempts.at(-1)?.runningAt !== null && world.job.attempts.length > 0);
  return { performer, job: world.job, name: world.job.allocations[0]?.name, done };
}

test('a lost machine is released at once, however many workers are being set up', async () => {
  const never = new Promise<OutcomeResult>(() => undefined);
  const { performer, job, name, done } = performing({
    steps: 4,
    machines: { runStep: () => never },
    mirror: { unfinished: () => [] },
  });
  const steps = Array.from({ length: 20 }, (_, worker): Action => ({
    kind: 'step',
    attempt: 1,
    allocation: 1,
    worker,
    step: 'ssh',
  }));
  performer.perform({ ...job, id: '000002' }, steps, 1);
  performer.perform(job, [{ kind: 'release', allocation: 1 }], 1);
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  assert.deepEqual(done, [`release ${name}`]);
  assert.equal(performer.size, 20);
});

test('a new controller copies the rest of the logs before it releases a TPU', async () => {
  const { performer, job, name, done } = performing({
    steps: 1,
    mirror: {
      unfinished: () => [{ attempt: 1, allocation: 1, worker: 0, file: 'log' }],
      drain: (_job: unknown, _machines: unknown, { attempt, worker, file }: Output) => {
        done.push(`drain ${attempt}/${worker}/${file}`);
        return Promise.resolve(true);
      },
    },
  });
  const attempts = job.attempts.map((attempt) => ({ ...attempt, endedAt: t0 }));
  performer.perform({ ...job, attempts }, [{ kind: 'release', allocation: 1 }], 1);
  await performer.whenIdle();
  assert.deepEqual(done.slice(0, -1).toSorted(), [
    'drain 1/0/log',
    'drain 1/0/metrics',
    'drain 1/1/log',
    'drain 1/1/metrics',
  ]);
  assert.equal(done.at(-1), `release ${name}`);
});
