import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import { defaultSettings, loadSettings, settingKeys, settingsTemplate } from '../../src/app/settings.ts';
import { openWorld } from '../support/world.ts';

function settingsIn(t: TestContext, text?: string) {
  const { home } = openWorld(t);
  mkdirSync(home);
  if (text !== undefined) writeFileSync(join(home, 'settings.json'), text);
  return (env: Readonly<Record<string, string>> = {}) => loadSettings({ home, env, cores: 4 });
}

async function refusal(loading: Promise<unknown>): Promise<JobmanError> {
  const error = await loading.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof JobmanError, String(error));
  return error;
}

test('without a file the defaults are in force, with a place for each core', async (t) => {
  const settings = await settingsIn(t)();
  assert.deepEqual(settings, defaultSettings(4));
  assert.equal(settings.local.slots, 4);
  assert.equal(settings.tpu.project, null);
});

test('the file stands over the defaults, and the environment over the file', async (t) => {
  const load = settingsIn(t, '{ "tpu": { "project": "lab", "sshPort": 2222, "endpoint": "http://127.0.0.1:1" } }');
  const { tpu, local } = await load();
  assert.deepEqual(tpu, { project: 'lab', sshPort: 2222, endpoint: 'http://127.0.0.1:1' });
  assert.equal(local.slots, 4);
  const over = await load({ JOBMAN_TPU_ENDPOINT: 'http://127.0.0.1:8080', JOBMAN_TPU_SSH_PORT: '2200' });
  assert.deepEqual(over.tpu, { project: 'lab', sshPort: 2200, endpoint: 'http://127.0.0.1:8080' });
  assert.deepEqual((await load({ JOBMAN_TPU_ENDPOINT: '' })).tpu, tpu);
});

test('every problem of the file is told at once, with its line and what was meant', async (t) => {
  const load = settingsIn(
    t,
    '{\n  "tpu": {\n    "projcet": "lab",\n    "sshPort": "22"\n  },\n  "locale": { "slots": 2 },\n  "local": { "slots": 0 }\n}\n',
  );
  const error = await refusal(load());
  assert.equal(error.code, 2);
  const lines = error.lines.map((line) => line.replace(/^.*settings\.json:/, ''));
  assert.deepEqual(lines, [
    '3: there is no setting "tpu.projcet"; did you mean "tpu.project"?',
    '4: "tpu.sshPort" should be a port from 1 to 65535, and is "22"',
    '6: there is no setting "locale"; did you mean "local"?',
    '7: "local.slots" should be a whole number from 1 on, and is 0',
  ]);
});

test('a file that is no JSON, or no object, is refused as a whole', async (t) => {
  const broken = await refusal(settingsIn(t, '{ "tpu": ')());
  assert.match(broken.message, /settings\.json is not valid JSON/);
  const list = await refusal(settingsIn(t, '[]')());
  assert.match(list.message, /should hold one object/);
  assert.match((await refusal(settingsIn(t, '{ "tpu": 3 }')())).lines.join(), /no setting "tpu"/);
});

test('a variable that is no port is refused by its name', async (t) => {
  const error = await refusal(settingsIn(t)({ JOBMAN_TPU_SSH_PORT: 'ssh' }));
  assert.equal(error.message, 'JOBMAN_TPU_SSH_PORT is "ssh", and should be a port from 1 to 65535.');
});

test('the template holds every key, and is a valid file', async (t) => {
  const text = settingsTemplate(4);
  for (const { key } of settingKeys) assert.ok(text.includes(`"${key.split('.')[1] ?? ''}"`), key);
  assert.deepEqual(await settingsIn(t, text)(), defaultSettings(4));
});
