// Settings of a user.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import {
  defaultUserSettings,
  formatSetting,
  importSettings,
  userSettings,
  withoutSetting,
  withSetting,
} from '../../src/lab/user-settings.ts';

const refused = (expected: RegExp) => (error: unknown) =>
  error instanceof JobmanError && error.code === 2 && expected.test(error.message);

test('each setting accepts the values of the manual and names the expected ones', () => {
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
  for (const [key, text] of [
    ['monitor_after_run', 'maybe'],
    ['monitor_upd_time', '0'],
    ['monitor_upd_time', '1.5'],
    ['monitor_upd_time', 'True'],
    ['time_zone', 'Mars/Base'],
    ['time_zone', '+08:00'],
    ['monitor_columns', 'wx'],
    ['monitor_columns', 'ww'],
  ] as const) {
    assert.throws(() => set(key, text), refused(/expected .*Nothing was changed/), `${key} ${text}`);
  }
  assert.throws(() => set('monitor_lenght', '3'), refused(/Did you mean "monitor_length"/));
  assert.throws(() => set('extra_settings', '3'), refused(/no setting "extra_settings"/));
});

test('the table has every setting with a valid default', () => {
  const { extra_settings: _, ...settings } = defaultUserSettings;
  assert.deepEqual(userSettings.map(({ key }) => key).toSorted(), Object.keys(settings).toSorted());
  for (const { key, read } of userSettings) assert.equal(read(formatSetting(settings[key])), settings[key], key);
});

test('a reset changes one setting or all, and keeps unknown imported settings', () => {
  const changed = { ...defaultUserSettings, show_length: 7, monitor_dir: false, extra_settings: { old: 1 } };
  assert.deepEqual(withoutSetting(changed, 'show_length'), { ...changed, show_length: 200 });
  assert.deepEqual(withoutSetting(changed, null), { ...defaultUserSettings, extra_settings: { old: 1 } });
});

test('valid settings of the older program are imported', () => {
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
