// User settings: one row for each setting; commands, completion and manual read the table.

import { exitCode, JobmanError } from '../app/errors.ts';
import { choiceText } from '../app/figures.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Kind } from '../schema/kinds.ts';
import { newFindings } from '../schema/problems.ts';
import { keysOf, setting, settingsOf, type SettingsOf } from '../schema/settings.ts';

const truth = wordOf('True or False', yesOrNo);

const table = {
  monitor_after_run: setting(truth, true, '`tpu run` goes on as `tpu monitor`.'),
  monitor_upd_time: setting(number(1, 3600), 5, 'Seconds between two looks of the monitor.'),
  monitor_length: setting(number(1, 1_000_000), 800, 'How many characters at the end of a log tell the phase.'),
  monitor_dir: setting(truth, true, '`check` and `monitor` show the directory.'),
  monitor_tpu: setting(truth, true, '`check` and `monitor` show the TPU.'),
  monitor_verbose: setting(truth, false, 'The last lines are shown also where the status is known.'),
  show_length: setting(number(0, 100_000), 200, 'How many characters of output are shown.'),
  time_zone: setting(
    wordOf('"local" (that of this machine), "us" (UTC-4), "cn" (UTC+8) or a name such as Europe/Berlin', zoneNamed),
    'local',
    'The time zone that moments are shown in.',
  ),
  /** Empty: as the settings above say. */
  monitor_columns: setting(
    wordOf('letters of "wdtsv", each at most once, or "default"', (word) => {
      if (word === '' || word === 'default') return '';
      return /^[wdtsv]+$/.test(word) && new Set(word).size === word.length ? word : undefined;
    }),
    '',
    'The columns of `check` and `monitor` in their order; by default what the settings above say.',
  ),
};

type UserSettingKey = keyof typeof table;

/** The settings of a user. Those of an older program that have no meaning here are kept in `extra_settings`. */
export type UserSettings = SettingsOf<typeof table> & { readonly extra_settings: Readonly<Record<string, unknown>> };

type Value = UserSettings[UserSettingKey];

export const defaultUserSettings: UserSettings = { ...settingsOf(table, new Map()), extra_settings: {} };

export interface UserSetting {
  readonly key: UserSettingKey;
  /** The values, as the end of "should be": `True or False`. */
  readonly form: string;
  readonly meaning: string;
  /** The value that a word of a command line means; undefined when it means none. */
  readonly read: (word: string) => Value | undefined;
}

export const userSettings: readonly UserSetting[] = keysOf(table).map(({ key, kind, meaning }) => ({
  key: key as UserSettingKey,
  form: kind.words,
  meaning,
  read(word) {
    const place = { in: 'set', set: word } as const;
    return (kind as Kind<Value>).read({ kind: 'scalar', value: word, source: word, place }, [], newFindings());
  },
}));

/** The row of a setting. Throws JobmanError (2) with the nearest one, or all. */
export function userSetting(key: string): UserSetting {
  const found = userSettings.find((one) => one.key === key);
  if (found !== undefined) return found;
  if (key === 'extra_settings')
    throw new JobmanError(
      '"extra_settings" is what an older program wrote and nothing here reads: it is kept as it came, and is no setting to change.',
      exitCode.usage,
    );
  const keys = userSettings.map((one) => one.key);
  const near = didYouMean(key, keys);
  const guess = near === undefined ? choiceText(keys) : `Did you mean "${near}"?`;
  throw new JobmanError(`There is no setting "${key}". ${guess}`, exitCode.usage);
}

/** The settings with that one set to what the word means. Throws JobmanError (2) when there is none, or no such value. */
export function withSetting(settings: UserSettings, key: string, word: string): UserSettings {
  const { read, form } = userSetting(key);
  const value = read(word.trim());
  if (value === undefined) {
    throw new JobmanError(`"${key}" should be ${form}, and "${word}" is not. Nothing was changed.`, exitCode.usage);
  }
  return { ...settings, [key]: value };
}

/** The settings with that one, or with null all, as a new user has them. Settings that nobody here knows stay. */
export function withoutSetting(settings: UserSettings, key: string | null): UserSettings {
  if (key === null) return { ...defaultUserSettings, extra_settings: settings.extra_settings };
  const { key: known } = userSetting(key);
  return { ...settings, [known]: defaultUserSettings[known] };
}

/** A value as people write it: `True`, `us`; `default` for columns that nobody has chosen. */
export function settingWord(value: Value): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return value === '' ? 'default' : String(value);
}

/** The settings of another program's file, with a sentence for each that could not be taken as it was. */
export function takenSettings(given: Readonly<Record<string, unknown>>): {
  readonly settings: UserSettings;
  readonly notes: readonly string[];
} {
  const notes: string[] = [];
  const taken: Record<string, Value> = {};
  const extra: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(given)) {
    const setting = userSettings.find((one) => one.key === key);
    if (key === 'extra_settings' && typeof value === 'object' && value !== null && !Array.isArray(value))
      Object.assign(extra, value);
    else if (setting === undefined) extra[key] = value;
    else {
      const isWord = ['string', 'number', 'boolean'].includes(typeof value);
      const meant = isWord ? setting.read(String(value)) : undefined;
      if (meant !== undefined) taken[key] = meant;
      else
        notes.push(
          `its setting ${key} is ${JSON.stringify(value)}, and should be ${setting.form}: left at its default`,
        );
    }
  }
  return { settings: { ...defaultUserSettings, ...taken, extra_settings: extra }, notes };
}

/** The name as it is kept; undefined where there is no such zone. */
function zoneNamed(word: string): string | undefined {
  const small = word.toLowerCase();
  if (small === 'us' || small === 'cn' || small === 'local') return small;
  // An offset alone (+08:00) is one to Intl, and a slip for a name to people: it keeps no summer time.
  if (!/^[a-z]/i.test(word)) return undefined;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: word }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}

/** `True`, `1`, `yes`, `on` and their opposites, in any case; undefined for every other word. */
export function yesOrNo(word: string): boolean | undefined {
  const small = word.toLowerCase();
  if (['true', '1', 'yes', 'on'].includes(small)) return true;
  return ['false', '0', 'no', 'off'].includes(small) ? false : undefined;
}

function number(least: number, most: number): Kind<number> {
  return wordOf(`a whole number from ${least} to ${most}`, (word) => {
    const value = /^\d{1,9}$/.test(word) ? Number(word) : Number.NaN;
    return value >= least && value <= most ? value : undefined;
  });
}

function wordOf<T>(words: string, read: (word: string) => T | undefined): Kind<T> {
  return { words, read: (tree) => (tree.kind === 'scalar' ? read(tree.source) : undefined) };
}
