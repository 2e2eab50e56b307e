/** Values that no API server writes are read as missing, or end as one sentence. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEvent, readJob, readNode, readPriority } from '../../../src/backends/kubernetes/objects.ts';

test('a moment that is none is no moment, in whatever form it came', () => {
  for (const at of [1e308, -9e15, Number.NaN, '2026-99-99T00:00:00Z', '']) {
    const { createdAt, startedAt } = readJob({ metadata: { creationTimestamp: at }, status: { startTime: at } }, 'f');
    assert.deepEqual([createdAt, startedAt], [0, null]);
    assert.equal(readEvent({ lastTimestamp: at }).lastAt, 0);
  }
});

test('a taint and a priority of another kind make the answer one of no API server', () => {
  const strange: unknown = { spec: { taints: [{ key: 5, effect: 'NoSchedule' }] } };
  assert.throws(() => readNode(strange as Parameters<typeof readNode>[0]), TypeError);
  const value: unknown = { value: 'much' };
  assert.throws(() => readPriority(value as Parameters<typeof readPriority>[0]), TypeError);
});
