// A shortened name of a TPU, as `check` and `run` print it, is understood.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tpuCalled, tpuNamed } from '../../src/lab/names-of-tpus.ts';
import type { LabTpu } from '../../src/lab/tpus.ts';

const names = [
  'kmh-tpuvm-v2-32-1',
  'kmh-tpuvm-v2-32-preemptible-1',
  'kmh-tpuvm-v2-32-spot-1',
  'old-tpu-v2-32-spot-1',
  'kmh-tpuvm-v4-8',
];
const tpus = names.map((name): LabTpu => tpuNamed(name) ?? assert.fail(name));

for (const [word, meant] of [
  ['v2-32-preemptible-1', 'kmh-tpuvm-v2-32-preemptible-1'],
  ['v2-32-1', 'kmh-tpuvm-v2-32-1'],
  ['tpuvm-v2-32-1', 'kmh-tpuvm-v2-32-1'],
  // Two have that end, it is a type, it lacks the type, it is a number.
  ['v2-32-spot-1', undefined],
  ['v4-8', undefined],
  ['preemptible-1', undefined],
  ['1', undefined],
  ['32-1', undefined],
] as const)
  test(`${word} means ${meant ?? 'no TPU'}`, () => assert.equal(tpuCalled(tpus, word)?.name, meant));
