/** `jobman quota` and the warning of `create`, from the settings to the answers of the TPU emulator. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Io } from '../../src/app/services.ts';
import { createServices } from '../../src/wiring/services.ts';
import { minutes, startTestEmulator } from '../emulator/test-emulator.ts';
import { tpuCapacity } from '../support/builders.ts';
import { openWorld } from '../support/world.ts';

test('limits and TPUs of the emulator are joined, and a request that exceeds what is left is found', async (t) => {
  const world = openWorld(t);
  const cloud = await startTestEmulator(t);
  mkdirSync(world.home, { recursive: true });
  const settings = { tpu: { project: 'emulator', endpoint: cloud.emulator.url } };
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify(settings));
  const io = {
    env: { JOBMAN_HOME: world.home },
    userHome: world.folder,
    cwd: world.folder,
    launcher: [''],
    now: Date.now,
  };
  const client = await createServices(io as object as Io).client();
  const capacity = tpuCapacity({ project: 'emulator' });
  assert.deepEqual(await client.quotaWarnings(capacity), [], 'no limit is set');

  await cloud.admin('quota', 'us-central2-b/v4', { limit: '32', pricing: 'spot' });
  await cloud.createReadyNode('dead');
  await cloud.admin('preempt', 'dead');
  await cloud.admin('hold', 'v4');
  await cloud.createQueued('waits');
  cloud.clock.advance(minutes(1));

  const { rows, unread, unchecked } = await client.quota({});
  assert.deepEqual([unread, unchecked], [[], []]);
  assert.deepEqual(
    rows.map((row) => [row.zone, row.generation, row.pricing, row.scope, row.limitChips, row.leftChips]),
    [['us-central2-b', 'v4', 'spot', 'region', 16, 8]],
  );
  const [row] = rows;
  assert.deepEqual([row?.usedChips, row?.reclaimableChips, row?.requestedChips], [4, 4, 4]);
  assert.equal(
    row?.holders.find(({ name }) => name === 'dead')?.command,
    'gcloud compute tpus tpu-vm delete dead --zone us-central2-b --project emulator',
  );

  // `create` uses the limits that `quota` has just read.
  assert.ok(existsSync(join(world.home, 'cache', 'quota')));
  const [warning = ''] = await client.quotaWarnings(tpuCapacity({ project: 'emulator', accelerator: 'v4-32' }));
  assert.match(
    warning,
    /^v4-32 spot in us-central2-b exceeds the quota of v4 spot: it has 16 chips, and 8 of 16 are left/,
  );
  assert.deepEqual(await client.quotaWarnings(tpuCapacity({ project: 'emulator', accelerator: 'v4-16' })), []);
});
