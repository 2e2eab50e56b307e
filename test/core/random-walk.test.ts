// Random walks through a small world: first a storm in which no invariant may break, then a calm in which the job must
// come to rest.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ruleMutants, importMutant } from '../../sim/mutants/load.ts';
import type { Verb } from '../../src/core/decide/commands.ts';
import { presets } from '../../src/core/policy/presets.ts';
import type { PresetName } from '../../src/core/policy/presets.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { minute } from '../../src/core/model/time.ts';
import { violationsAfter } from './world-events.ts';
import type { WorldEvent } from './world-events.ts';
import { local, spec, step, tpu, tpuWithAlternatives } from './world.ts';

const worker = fc.nat({ max: 1 });

const worldEvent: fc.Arbitrary<WorldEvent> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), seconds: fc.constantFrom(0, 1, 5, 12, 40, 200, 900) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('exit' as const), worker, code: fc.constantFrom(0, 0, 1, 143) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('vanish' as const, 'disconnect' as const), worker }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('command' as const),
      verb: fc.constantFrom<Verb>(
        'start',
        'stop',
        'resume',
        'rerun',
        'cancel',
        'delete',
        'disable-recovery',
        'accept-exit',
      ),
      more: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('refuse' as const),
      error: fc.constantFrom('stockout' as const, 'quota' as const, 'internal' as const, 'permission' as const, null),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('steps' as const), works: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('spend' as const), share: fc.constantFrom(0, 0.7, 0.85, 1, null) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'preempt' as const,
        'cloud_outage' as const,
        'omit' as const,
        'crash' as const,
        'lose_reply' as const,
        'repeat_reply' as const,
        'ignore_stop' as const,
        'interrupt' as const,
      ),
    }),
  },
);

const given: fc.Arbitrary<JobSpec> = fc
  .record({
    preset: fc.constantFrom(...(Object.keys(presets) as PresetName[])),
    capacity: fc.constantFrom(tpu, tpuWithAlternatives, { ...tpu, ownership: 'persistent' as const }, local),
    runsOn: fc.constantFrom('workers' as const, 'workers' as const, 'controller' as const),
    keep: fc.boolean(),
    limited: fc.boolean(),
  })
  .map(({ preset, capacity, runsOn, keep, limited }) => {
    const full = spec({
      preset,
      capacity,
      steps: [step('ssh'), step('docker')],
      command: { ...spec().command, runsOn },
    });
    return {
      ...full,
      recovery: { ...full.recovery, budget: { preemptions: 2, failures: 1, setupFailures: 0 } },
      limits: limited
        ? { maxRuntimeMs: 20 * minute, silenceTimeoutMs: 10 * minute, capacityWaitMs: 30 * minute, setupTries: 2 }
        : { ...full.limits, ...(keep && { budgetUsd: 6 }) },
      finish: keep ? { capacity: 'keep' as const, keepForMs: 10 * minute } : full.finish,
    };
  });

const stories = fc.tuple(given, fc.array(worldEvent, { minLength: 1, maxLength: 24 }));

test('no storm breaks an invariant, and after every storm the job comes to rest', () => {
  fc.assert(
    fc.property(stories, ([job, worldEvents]) => {
      assert.deepEqual(violationsAfter(job, worldEvents), []);
    }),
    {
      numRuns: Number(process.env['JOBMAN_WALKS'] ?? 100),
      ...(process.env['JOBMAN_SEED'] === undefined ? {} : { seed: Number(process.env['JOBMAN_SEED']) }),
    },
  );
});

for (const { name, invariant, description } of ruleMutants) {
  test(`invariant ${invariant} finds this mutant: ${description}`, async () => {
    // The module is a copy of world-events.ts with the mutant in its imports.
    const copy = await importMutant(new URL('world-events.ts', import.meta.url).href, name);
    const mutated = copy as { readonly violationsAfter: typeof violationsAfter };
    const isFound = fc.property(stories, ([job, worldEvents]) =>
      mutated.violationsAfter(job, worldEvents).every((fault) => !fault.startsWith(`${invariant} `)),
    );
    assert.ok(fc.check(isFound, { numRuns: 500, seed: 7, endOnFailure: true }).failed);
  });
}
