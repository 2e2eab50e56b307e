import assert from 'node:assert/strict';
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { AllocationRef } from '../../src/app/ports.ts';
import { createLocalCapacity } from '../../src/backends/hosts/machines.ts';
import { followFile } from '../../src/backends/hosts/tail.ts';
import { openWorld } from '../support/world.ts';

/** No search without a file system event. */
const noRounds = () => () => undefined;

test('a program that prints as fast as it is read does not block other work', async (t) => {
  const { folder } = openWorld(t);
  const log = join(folder, 'log');
  writeFileSync(log, 'x');
  let chunks = 0;
  let chunksBeforeTurn: number | undefined;
  setImmediate(() => {
    chunksBeforeTurn = chunks;
  });
  await new Promise<void>((resolve) => {
    const callOff = followFile(
      { folder, file: 'log', hasEnded: () => false, from: 0, addPeriodicCheck: noRounds },
      {
        bytes() {
          chunks += 1;
          if (chunks < 1_000) appendFileSync(log, 'x');
          else {
            callOff();
            resolve();
          }
        },
        ended: () => assert.fail('it still runs'),
        dropped: (reason) => assert.fail(reason),
      },
    );
  });
  assert.ok(chunksBeforeTurn !== undefined && chunksBeforeTurn < 10, `${chunksBeforeTurn} chunks came first`);
});

test('a follower has the function that cancels before the first bytes come', async (t) => {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'log'), 'all of it');
  const heard: string[] = [];
  await new Promise<void>((resolve) => {
    followFile(
      { folder, file: 'log', hasEnded: () => true, from: 4, addPeriodicCheck: noRounds },
      {
        bytes: (chunk) => void heard.push(new TextDecoder().decode(chunk)),
        ended: () => {
          heard.push('ended');
          resolve();
        },
        dropped: (reason) => assert.fail(reason),
      },
    );
    heard.push('held');
  });
  assert.deepEqual(heard, ['held', 'of it', 'ended']);
});

test('this machine is there, costs nothing known, and is never released', async () => {
  const capacity = createLocalCapacity({ now: () => 7 });
  const ref = {} as AllocationRef;
  const value = { state: 'ready', detail: 'this machine', workers: 1 };
  assert.deepEqual(await capacity.observe([ref, ref]), [
    { kind: 'known', value, observedAt: 7 },
    { kind: 'known', value, observedAt: 7 },
  ]);
  assert.deepEqual(await capacity.request(ref), { kind: 'done' });
  assert.deepEqual(await capacity.release(ref), { kind: 'done' });
  assert.deepEqual(await capacity.listLabelled([ref]), { kind: 'known', value: [], observedAt: 7 });
  assert.equal(capacity.pricePerHour({} as Parameters<typeof capacity.pricePerHour>[0]), null);
});
