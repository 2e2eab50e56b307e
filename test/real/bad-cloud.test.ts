/** The built-in cloud that cannot be started says why in a sentence. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { openJobWorld } from '../support/jobs.ts';

test('a second cloud of one home, and a port that is taken, are refused in a sentence', async (t) => {
  const world = openJobWorld(t);
  await world.well(['emulator', 'start']);
  const second = await world.jobman(['emulator', 'serve']);
  assert.match(second.stderr, /^jobman: Another emulator is running on .*\n$/);
  assert.equal(second.code, 4);

  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const address = taken.address();
  assert.ok(address !== null && typeof address === 'object');
  const state = ['--state', `${world.folder}/other`];
  const refused = await world.jobman(['emulator', 'serve', '--port', String(address.port), ...state]);
  await new Promise<void>((resolve) => void taken.close(() => resolve()));
  assert.match(refused.stderr, /^jobman: Port \d+ of this machine is taken\. Name another with --port\.\n$/m);
  assert.doesNotMatch(refused.stderr, /mistake of its own|at .*\.ts/);
  assert.equal(refused.code, 4);
});
