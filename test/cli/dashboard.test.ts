/** The command that serves the pages for one browser. */
import assert from 'node:assert/strict';
import { syncBuiltinESMExports } from 'node:module';
import { test } from 'node:test';
import timers from 'node:timers/promises';
import type { ServerContexts } from '../../src/app/services.ts';
import { run } from '../support/output-schema.ts';
import { createCliHarness } from './support/harness.ts';

test('the dashboard ends at a signal and not before, however long that takes', async (t) => {
  // The longest timer of Node ends after 25 days.
  t.mock.method(timers, 'setTimeout', () => Promise.resolve());
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  const closed: string[] = [];
  const dashboard = {
    url: 'http://127.0.0.1:7421',
    newAddress: () => 'http://127.0.0.1:7421/open?code=1',
    writeOpeningPage: () => Promise.reject(new Error('the test opens no browser')),
    close: async () => void closed.push('dashboard'),
  };
  const world = createCliHarness({
    services: {
      dashboard: async () => dashboard,
      contexts: async () => ({ machine: { hasBrowser: false } }) as ServerContexts,
    },
  });
  const ended = run(['dashboard', '--no-browser'], world.services);
  for (let turns = 0; turns < 10_000 && !world.out().includes('code=1'); turns += 1) await timers.setImmediate();
  await timers.setImmediate();
  assert.deepEqual(closed, []);
  world.signal();
  assert.equal(await ended, 0);
  assert.deepEqual(closed, ['dashboard']);
});
