// One key of settings.json changed by command: what was there stays, and a mistake changes nothing.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setSetting, unsetSetting } from '../../src/app/change-settings.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { openWorld } from '../support/world.ts';

function openHome(t: TestContext) {
  const { home } = openWorld(t);
  const file = join(home, 'settings.json');
  return { home, file, content: () => JSON.parse(readFileSync(file, 'utf8')) as unknown };
}

test('the first key makes the folder and the file, for their owner only', async (t) => {
  const { home, file, content } = openHome(t);
  await setSetting(home, 'tpu.project', 'lab');
  assert.deepEqual(content(), { tpu: { project: 'lab' } });
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(home), ['settings.json']);
});

test('each kind of value is taken for what it says, and what was there stays', async (t) => {
  const { home, content } = openHome(t);
  await setSetting(home, 'local.slots', '8');
  await setSetting(home, 'terminal.bell', 'false');
  await setSetting(home, 'tpu.project', '42');
  await setSetting(home, 'tpu.tokenCommand', 'cat ~/token | head -1');
  await setSetting(home, 'tpu.endpoint', 'null');
  await setSetting(home, 'grants', '[{ "accelerator": "v5e", "chips": 16 }]');
  assert.deepEqual(content(), {
    local: { slots: 8 },
    terminal: { bell: false },
    tpu: { project: '42', tokenCommand: 'cat ~/token | head -1', endpoint: null },
    grants: [{ accelerator: 'v5e', chips: 16 }],
  });
  assert.equal(await unsetSetting(home, 'local.slots'), true);
  assert.equal(await unsetSetting(home, 'local.slots'), false);
  assert.equal(await unsetSetting(home, 'tpu.endpoint'), true);
  assert.deepEqual(content(), {
    terminal: { bell: false },
    tpu: { project: '42', tokenCommand: 'cat ~/token | head -1' },
    grants: [{ accelerator: 'v5e', chips: 16 }],
  });
});

test('a wrong key or value is refused in a sentence, and nothing is changed', async (t) => {
  const { home, file } = openHome(t);
  const said = async (key: string, value: string) => {
    const error = await setSetting(home, key, value).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof JobmanError, `${key} ${value}`);
    assert.equal(error.code, 2);
    return [error.message, ...error.lines].join(' | ');
  };
  assert.equal(await said('local.slot', '3'), 'There is no setting local.slot. Did you mean local.slots?');
  assert.equal(
    await said('local.slots', 'many'),
    'local.slots was not changed. | "local.slots" should be a whole number from 1 on, and is "many"',
  );
  assert.equal(
    await said('grants', '[{"chips":0}]'),
    'grants was not changed. | "grants[0].chips" should be a whole number from 1 on, and is 0',
  );
  assert.equal(existsSync(home), false);
  await setSetting(home, 'local.slots', '3');
  writeFileSync(file, '{ "local": { "slots": 3, } }');
  assert.match(await said('local.slots', '4'), /settings\.json is not valid JSON.*1:24: no comma/);
  assert.equal(readFileSync(file, 'utf8'), '{ "local": { "slots": 3, } }');
});
