/** `jobman settings`, set and unset: what is printed, what the file holds afterwards, and who has to be told. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadSettings } from '../../src/app/settings.ts';
import { openWorld } from '../support/world.ts';
import { jobman } from './support/pretend.ts';

test('set and unset change one key, and a controller that runs is told of', async (t) => {
  const { home } = openWorld(t);
  const settings = (...words: readonly string[]) =>
    jobman(['settings', ...words], {
      services: { home, settings: () => loadSettings({ home, env: {}, cores: 4 }) },
    });
  const first = await settings('set', 'local.slots', '8');
  assert.deepEqual([first.code, first.out], [0, 'local.slots is set.\n']);
  assert.match(first.err, /^The running controller starts over with the new settings/);
  const second = await settings('set', 'grants', '[{ "zone": "us-*" }]');
  assert.deepEqual([second.code, second.err], [0, '']);
  assert.match((await settings()).out, /^local\.slots +8 +settings\.json$/m);
  assert.match((await settings()).out, /^grants +\[\{"zone":"us-\*"\}\] +settings\.json$/m);
  assert.equal((await settings('unset', 'local.slots')).out, 'local.slots is at its default again.\n');
  assert.equal((await settings('unset', 'local.slots')).out, 'local.slots was not set in the file.\n');
  assert.deepEqual(JSON.parse(readFileSync(join(home, 'settings.json'), 'utf8')), { grants: [{ zone: 'us-*' }] });
});

test('a variable that overrides the file is named', async (t) => {
  const { home } = openWorld(t);
  const env = { JOBMAN_TPU_ENDPOINT: 'http://127.0.0.1:1' };
  const { err } = await jobman(['settings', 'set', 'tpu.endpoint', 'http://127.0.0.1:2'], { services: { home }, env });
  assert.match(err, /^The variable JOBMAN_TPU_ENDPOINT overrides the file/);
});

test('what is no setting, no value or no way to say it changes nothing', async (t) => {
  const { home } = openWorld(t);
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['set', 'local.slot', '3'], /There is no setting local\.slot\. Did you mean local\.slots\?/],
    [['set', 'local.slots', 'many'], /local\.slots was not changed\.\n {2}"local\.slots" should be a whole number/],
    [['set', 'local.slots'], /is none of: jobman settings, jobman settings set <key> <value>/],
    [['set', 'local.slots', '3', '4'], /is none of/],
    [['unset', 'nonsense.at.all'], /There is no setting nonsense\.at\.all\. `jobman settings` lists them\./],
    [['change', 'local.slots', '3'], /is none of/],
  ];
  for (const [words, says] of cases) {
    const { code, out, err } = await jobman(['settings', ...words], { services: { home } });
    assert.deepEqual([code, out], [2, ''], words.join(' '));
    assert.match(err, says);
  }
  assert.equal(existsSync(home), false);
});
