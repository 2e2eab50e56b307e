// The database that a home uses: its file, or the server that a variable or the settings name.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { withoutDatabasePassword } from '../../src/app/database-url.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { loadSettings } from '../support/settings.ts';
import { databaseOf } from '../../src/wiring/paths.ts';
import { openWorld } from '../support/world.ts';

const url = 'postgres://ada:secret@db.lab/jobs';
const other = 'postgresql://db.lab/other';

test('the database is that of the variable, else that of the settings, else a file', (t) => {
  const { home } = openWorld(t);
  const database = (env: Readonly<Record<string, string>> = {}) => databaseOf({ io: { env }, home });
  const write = (text: string) => {
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, 'settings.json'), text);
  };
  const file = { file: join(home, 'state.db') };
  assert.deepEqual(database(), file);
  write('{ "local": { "slots": 2 } }');
  assert.deepEqual(database({ JOBMAN_DATABASE: '' }), file);
  write(`\uFEFF${JSON.stringify({ database: other })}`);
  assert.deepEqual(database(), { url: other });
  assert.deepEqual(database({ JOBMAN_DATABASE: url }), { url });
  // Not the file: jobs of two databases would mix.
  write('{ "database": "postgres://db.lab/jobs", }');
  assert.throws(() => database(), /settings\.json is not JSON, so its database is unknown/);
});

test('a wrong URL in the settings is reported without its password', async (t) => {
  const { folder, home } = openWorld(t);
  mkdirSync(home);
  const load = (env: Readonly<Record<string, string>> = {}, explicit?: string) =>
    loadSettings({ home, env, cores: 1, explicit }).then(
      ({ database }) => database,
      (error: unknown) => (error instanceof JobmanError ? [error.message, ...error.lines].join('\n') : String(error)),
    );
  assert.equal(await load({ JOBMAN_DATABASE: url }), url);
  const wrong = await load({ JOBMAN_DATABASE: 'mysql://ada:secret@db.lab/jobs' });
  writeFileSync(join(home, 'settings.json'), '{ "database": "ada:secret@db.lab" }');
  for (const message of [wrong, await load()]) {
    assert.match(message ?? '', /a URL like "postgres:\/\/USER@HOST\/DATABASE"/);
    assert.doesNotMatch(message ?? '', /secret/);
  }
  writeFileSync(join(home, 'settings.json'), '{}');
  writeFileSync(join(folder, 'more.json'), JSON.stringify({ database: url }));
  assert.match(
    (await load({}, join(folder, 'more.json'))) ?? '',
    /more\.json must not set "database"\. Set it in the settings\.json of the home/,
  );
});

test('the programs of jobs do not get the password', () => {
  const env = (value: string) => withoutDatabasePassword({ HOME: '/root', JOBMAN_DATABASE: value });
  assert.deepEqual(env(url), { HOME: '/root', JOBMAN_DATABASE: 'postgres://ada@db.lab/jobs' });
  assert.deepEqual(env(`${other}?password=secret`), { HOME: '/root', JOBMAN_DATABASE: other });
  assert.deepEqual(env('ada secret'), { HOME: '/root' });
});
