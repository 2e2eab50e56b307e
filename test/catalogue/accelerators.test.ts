import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  findAccelerator,
  acceleratorOfTopology,
  suggestAccelerator,
  acceleratorsOf,
  generations,
} from '../../src/catalogue/accelerators.ts';

test('a type has a number of chips and workers', () => {
  const table: readonly (readonly [type: string, chips: number, workers: number, topology: string])[] = [
    ['v2-8', 4, 1, '2x2'],
    ['v2-32', 16, 4, '4x4'],
    ['v2-512', 256, 64, '16x16'],
    ['v3-2048', 1024, 256, '32x32'],
    ['v4-8', 4, 1, '2x2x1'],
    ['v4-16', 8, 2, '2x2x2'],
    ['v4-128', 64, 16, '4x4x4'],
    ['v4-4096', 2048, 512, '8x16x16'],
    ['v5litepod-1', 1, 1, '1x1'],
    ['v5litepod-4', 4, 1, '2x2'],
    ['v5litepod-8', 8, 1, '2x4'],
    ['v5litepod-16', 16, 4, '4x4'],
    ['v5litepod-256', 256, 64, '16x16'],
    ['v5p-8', 4, 1, '2x2x1'],
    ['v5p-12288', 6144, 1536, '16x16x24'],
    ['v6e-1', 1, 1, '1x1'],
    ['v6e-8', 8, 1, '2x4'],
    ['v6e-64', 64, 16, '8x8'],
    ['tpu7x-2', 1, 1, '1x1x1'],
    ['tpu7x-8', 4, 1, '2x2x1'],
  ];
  for (const [type, chips, workers, topology] of table) {
    const found = findAccelerator(type);
    assert.deepEqual([found?.chips, found?.workers, found?.topology], [chips, workers, topology], type);
  }
});

test('every type of the table is consistent', () => {
  for (const found of generations.flatMap(acceleratorsOf)) {
    assert.deepEqual(findAccelerator(found.type), found);
    const product = found.topology.split('x').reduce((all, part) => all * Number(part), 1);
    assert.equal(found.chips, product, found.type);
    assert.equal(found.workers * found.chipsPerWorker, found.chips, found.type);
    assert.ok(Number.isInteger(found.workers), found.type);
  }
});

test('an unknown type is refused with a suggestion', () => {
  for (const type of ['v4-17', 'v4-08', 'v4-', 'v4', 'v1-8', 'V4-8', 'v5e-8', 'v4-8 ', '', 'v6e-2'])
    assert.equal(findAccelerator(type), undefined, type);
  const meant: readonly (readonly [string, string | undefined])[] = [
    ['v5e-8', 'v5litepod-8'],
    ['v5lite-16', 'v5litepod-16'],
    ['v4_8', 'v4-8'],
    ['V4-8', 'v4-8'],
    ['v4-9', 'v4-8'],
    ['v4-17', 'v4-16'],
    ['v4-12', 'v4-16'],
    ['v5litepod-17', 'v5litepod-16'],
    ['tpu-v4-8', 'v4-8'],
    ['v4-100000', 'v4-8192'],
    ['v4-0', 'v4-8'],
    ['v6e-2', 'v6e-4'],
    ['v5litepd-8', 'v5litepod-8'],
    ['banana', undefined],
  ];
  for (const [type, expected] of meant) assert.equal(suggestAccelerator(type), expected, type);
});

test('a torus may have another shape, and only a torus', () => {
  const usual = acceleratorOfTopology('V4', '4x8x8');
  const other = acceleratorOfTopology('V4', '4x4x16');
  assert.equal(usual?.type, 'v4-512');
  assert.deepEqual([other?.type, other?.topology, other?.workers], ['v4-512', '4x4x16', 64]);
  for (const topology of ['4x4x6', '16x4x4', '2x2x8', '4x4', 'x', '']) {
    assert.equal(acceleratorOfTopology('V4', topology), undefined, topology);
  }
  assert.equal(acceleratorOfTopology('V6E', '4x4x4'), undefined);
});
