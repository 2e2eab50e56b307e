/** Values that no API server writes are read as missing, or end as one sentence. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEvent, readJob, readNode, readPod, readPriority } from '../../../src/backends/kubernetes/objects.ts';
import { readStatus, refusalOf } from '../../../src/backends/kubernetes/status.ts';

test('a moment that is none is no moment', () => {
  for (const at of ['+275760-09-14T00:00:00Z', '2026-99-99T00:00:00Z', '']) {
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

test('a count is a whole number that a machine can hold', () => {
  for (const parallelism of ['1e400', '-1e400', '1.5', '1e30', '"5"', '[]']) {
    const job = JSON.parse(`{"spec":{"parallelism":${parallelism}}}`) as Parameters<typeof readJob>[0];
    assert.throws(() => readJob(job, 'f'), TypeError, parallelism);
  }
  assert.equal(readJob({ spec: { parallelism: 5 } }, 'f').parallelism, 5);
});

test('the index of a pod is a number, or none', () => {
  const indexOf = (written: string): number | null =>
    readPod({ metadata: { annotations: { 'batch.kubernetes.io/job-completion-index': written } } }).index;
  assert.deepEqual(['7', '12abc', '', '1e400', '-1', 'NaN'].map(indexOf), [7, null, null, null, null, null]);
});

test('a refusal whose parts are of other kinds is a refusal without them', () => {
  const place = { context: 'lab', namespace: 'vision', server: 'https://x', user: 'ada' };
  for (const strange of ['{}', '5', 'null', '[null]', '"x"', '[{"message":{}},null,5]']) {
    for (const code of [400, 401, 403, 404, 409, 422, 429, 500]) {
      const said = `{"kind":"Status","message":${strange},"reason":${strange},"metadata":${strange},"details":{"name":${strange},"kind":${strange},"causes":${strange},"retryAfterSeconds":${strange}}}`;
      const { message, lines } = refusalOf(readStatus(code, Buffer.from(said)), { place, what: 'try it' });
      for (const line of [message, ...lines]) assert.doesNotMatch(line, /\[object|undefined|NaN/);
    }
    assert.equal(readStatus(403, Buffer.from(`{"kind":"Status","details":${strange}}`)).message, '');
  }
});
