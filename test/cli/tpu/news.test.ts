// tpu news: told once; --peek and other people's eyes leave it news.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { siteOf } from '../../../src/lab/site.ts';
import { defaultLabSettings } from '../../../src/app/settings.ts';
import { openUsualLab } from './lab-world.ts';

test('news is told once to the user whose it is', async () => {
  const site = siteOf({ ...defaultLabSettings, namePrefix: 'kmh-tpuvm-' }, { home: '/h', userHome: '/u' });
  const world = await openUsualLab({ site: async () => site });
  await world.job('xibo', { tag: 'best', tpu: 'kmh-tpuvm-v2-32-6' });
  const peeked = await world.tpu(['news', 'xibo', '--peek']);
  assert.match(peeked.out, /^window 1, code, v2-32-6, best\n {2}20 Nov 08:00 {2}created$/m);
  // Somebody else who looks takes no news away.
  assert.match((await world.tpu(['news', 'xibo', '--user', 'lyy'])).out, /created/);
  const json = await world.tpu(['--json', 'news', 'xibo', '--peek']);
  assert.deepEqual(JSON.parse(json.out).events, [{ at: '2026-11-20T12:00:00.000Z', says: 'created' }]);
  assert.match((await world.tpu(['news', 'xibo'])).out, /created/);
  const again = await world.tpu(['news', 'xibo']);
  assert.deepEqual([again.code, again.out], [0, '']);
  assert.match(again.err, /Nothing has happened to the jobs of xibo/);
});
