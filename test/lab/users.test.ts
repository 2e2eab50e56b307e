// Settings of a user, and the user who types: by TPU_USER, by the login, or unknown.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import { actorName, actsForAnother, identifyUser } from '../../src/lab/users.ts';
import {
  defaultUserSettings,
  formatSetting,
  importSettings,
  userSettings,
  withoutSetting,
  withSetting,
} from '../../src/lab/user-settings.ts';
import { aUser } from './sample.ts';

const refused = (message: RegExp) => (error: unknown) =>
  error instanceof JobmanError && error.code === 2 && message.test(error.message);

test('each setting takes the words of the manual, and says what it takes', () => {
  const set = (key: string, text: string) => Object.entries(withSetting(defaultUserSettings, key, text));
  const value = (key: string, text: string) => set(key, text).find(([name]) => name === key)?.[1];
  assert.equal(value('monitor_after_run', 'False'), false);
  assert.equal(value('monitor_after_run', '1'), true);
  assert.equal(value('monitor_upd_time', '30'), 30);
  assert.equal(value('show_length', ' 0 '), 0);
  assert.equal(value('time_zone', 'cn'), 'cn');
  assert.equal(value('time_zone', 'US'), 'us');
  assert.equal(value('time_zone', 'europe/berlin'), 'Europe/Berlin');
  assert.equal(value('monitor_columns', 'tws'), 'tws');
  assert.equal(value('monitor_columns', 'default'), '');
  for (const [key, value] of [
    ['monitor_after_run', 'maybe'],
    ['monitor_upd_time', '0'],
    ['monitor_upd_time', '1.5'],
    ['monitor_upd_time', 'True'],
    ['time_zone', 'Mars/Base'],
    ['time_zone', '+08:00'],
    ['monitor_columns', 'wx'],
    ['monitor_columns', 'ww'],
  ] as const) {
    assert.throws(() => set(key, value), refused(/should be .*Nothing was changed/), `${key} ${value}`);
  }
  assert.throws(() => set('monitor_lenght', '3'), refused(/Did you mean "monitor_length"/));
  assert.throws(() => set('extra_settings', '3'), refused(/kept as it came/));
});

test('the table has every setting, and each default is a value that its own words mean', () => {
  const { extra_settings: _, ...settings } = defaultUserSettings;
  assert.deepEqual(userSettings.map(({ key }) => key).toSorted(), Object.keys(settings).toSorted());
  for (const { key, read } of userSettings) assert.equal(read(formatSetting(settings[key])), settings[key], key);
});

test('a reset brings back one setting or all, and keeps what nobody here knows', () => {
  const changed = { ...defaultUserSettings, show_length: 7, monitor_dir: false, extra_settings: { old: 1 } };
  assert.deepEqual(withoutSetting(changed, 'show_length'), { ...changed, show_length: 200 });
  assert.deepEqual(withoutSetting(changed, null), { ...defaultUserSettings, extra_settings: { old: 1 } });
});

test('settings of another program are taken as far as they go', () => {
  const { settings, notes } = importSettings({
    monitor_after_run: 'false',
    show_length: 300,
    time_zone: 7,
    monitor_upd_time: [1],
    colour: 'red',
    extra_settings: { theme: 'dark' },
  });
  assert.deepEqual(settings, {
    ...defaultUserSettings,
    monitor_after_run: false,
    show_length: 300,
    extra_settings: { colour: 'red', theme: 'dark' },
  });
  assert.equal(notes.length, 2);
  assert.match(notes[0] ?? '', /time_zone is 7/);
  assert.match(notes[1] ?? '', /monitor_upd_time is \[1\]/);
});

const users = [aUser('xibo', { logins: ['lyy', 'xb'] }), aUser('lyy'), aUser('root')].map((user, id) => ({
  ...user,
  id,
}));
const name = (login: string, given?: string) =>
  identifyUser({ env: given === undefined ? {} : { TPU_USER: given }, login }, users)?.name ?? null;

test('the variable comes first, then who has the login, then who is called like it', () => {
  assert.equal(name('xb', 'lyy'), 'lyy');
  assert.equal(name('xb'), 'xibo');
  assert.equal(name('lyy'), 'xibo');
  assert.equal(name('root', ''), 'root');
  assert.equal(name('shared'), null);
  assert.throws(
    () => name('xb', 'xbo'),
    (error) => error instanceof JobmanError && error.code === 3 && /TPU_USER.*Did you mean "xibo"/.test(error.message),
  );
});

test('on a shared login nobody acts for another, and the history names whom the line names', () => {
  const [xibo = null] = users;
  assert.equal(actsForAnother(xibo, 'lyy'), true);
  assert.equal(actsForAnother(xibo, 'xibo'), false);
  assert.equal(actsForAnother(null, 'lyy'), false);
  assert.equal(actorName(xibo, 'lyy'), 'xibo');
  assert.equal(actorName(null, 'lyy'), 'lyy');
});
