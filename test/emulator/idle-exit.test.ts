// The idle time of an emulator, and its exit.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runAdminVerb } from '../../src/emulator/admin.ts';
import { serveEmulator } from '../../src/emulator/serve.ts';
import { minutes, nodeBody, startTestEmulator, zone } from './test-emulator.ts';
import { createManualClock } from './manual-clock.ts';
import { temporaryFolder } from '../support/folder.ts';

test('the idle time starts without resources, and starts again after each change', async (t) => {
  const cloud = await startTestEmulator(t);
  const begin = cloud.clock.now();
  assert.equal(cloud.emulator.idleSince(), begin);
  cloud.clock.advance(minutes(1));
  await cloud.ok('GET', 'nodes');
  assert.equal(cloud.emulator.idleSince(), begin);
  await cloud.createNode('n1');
  cloud.clock.advance(minutes(3));
  assert.equal(cloud.emulator.idleSince(), null);
  await cloud.ok('DELETE', 'nodes/n1');
  await cloud.admin('clear', 'all');
  cloud.clock.advance(minutes(10));
  const since = cloud.emulator.idleSince();
  assert.ok(since !== null && since > begin + minutes(4) && since < begin + minutes(6));
  await cloud.admin('clear', 'all');
  assert.equal(cloud.emulator.idleSince(), cloud.clock.now());
});

test('the program exits after the idle time, and not earlier', async (t) => {
  const stateDir = temporaryFolder(t);
  const time = createManualClock();
  let left = 0;
  const lines: string[] = [];
  const emulator = await serveEmulator({
    stateDir,
    clock: time,
    isolation: 'none',
    env: {},
    pid: 1,
    write: (text) => lines.push(text),
    onShouldClose: () => (left += 1),
    idleExitMs: minutes(10),
  });
  t.after(() => emulator.close());
  assert.deepEqual(lines, [`READY ${emulator.url}\n`]);
  time.advance(minutes(9));
  const nodes = `${emulator.url}/v2/projects/emulator/locations/${zone}/nodes`;
  await fetch(`${nodes}?nodeId=n1`, { method: 'POST', body: JSON.stringify(nodeBody) });
  time.advance(minutes(60));
  assert.equal(left, 0);
  await fetch(`${nodes}/n1`, { method: 'DELETE' });
  await runAdminVerb(emulator.url, 'clear', 'all');
  time.advance(minutes(9));
  await runAdminVerb(emulator.url, 'hold', zone);
  time.advance(minutes(9));
  assert.equal(left, 0);
  time.advance(minutes(2));
  assert.equal(left, 1);
  time.advance(minutes(60));
  assert.equal(left, 1);
  await emulator.close();
  assert.equal(existsSync(join(stateDir, 'endpoint.json')), false);
});
