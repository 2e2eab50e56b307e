import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AllocationRef } from '../../src/app/ports.ts';
import { createLocalCapacity } from '../../src/backends/local/machines.ts';

test('this machine is there, costs nothing known, and is never released', async () => {
  const capacity = createLocalCapacity({ now: () => 7 });
  const ref = {} as AllocationRef;
  const value = { state: 'ready', detail: 'this machine', workers: 1 };
  assert.deepEqual(await capacity.look([ref, ref]), [
    { kind: 'known', value, seenAt: 7 },
    { kind: 'known', value, seenAt: 7 },
  ]);
  assert.deepEqual(await capacity.request(ref), { kind: 'done' });
  assert.deepEqual(await capacity.release(ref), { kind: 'done' });
  assert.deepEqual(await capacity.sweep([ref]), { kind: 'known', value: [], seenAt: 7 });
  assert.equal(capacity.pricePerHour({} as Parameters<typeof capacity.pricePerHour>[0]), null);
});
