// User settings: one row for each setting. Commands, completion and manual read the table.

import { exitCode, JobmanError } from '../app/errors.ts';
import { formatChoices } from '../app/format.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';

interface Setting<Value> {
  readonly defaultValue: Value;
  readonly description: string;
  readonly expected: string;
  /** Parses a value of the command line; undefined if it is invalid. */
  readonly read: (text: string) => Value | undefined;
}

const timeZones = '"local" (the zone of this machine), "us" (UTC-4), "cn" (UTC+8) or a name such as Europe/Berlin';

const table = {
  monitor_after_run: booleanSetting(true, '`tpu run` starts `tpu monitor`.'),
  monitor_upd_time: numberSetting(5, 1, 3600, 'Seconds between two updates of the monitor.'),
  monitor_length: numberSetting(
    800,
    1,
    1_000_000,
    'Number of characters at the end of a log that are searched for the progress.',
  ),
  monitor_dir: booleanSetting(true, '`check` and `monitor` show the directory.'),
  monitor_tpu: booleanSetting(true, '`check` and `monitor` show the TPU.'),
  monitor_verbose: booleanSetting(false, '`check` and `monitor` always show the last lines of the log.'),
  show_length: numberSetting(200, 0, 100_000, 'Number of characters of the log to show.'),
  time_zone: setting('local', parseTimeZone, timeZones, 'Time zone of the times that are shown.'),
  /** Empty: the settings above decide. */
  monitor_columns: setting(
    '',
    parseColumns,
    'letters of "wdtsv", each at most once, or "default"',
    'Columns of `check` and `monitor`, in order; "default": the settings above.',
  ),
} satisfies { readonly [Key in UserSettingKey]: Setting<UserSettings[Key]> };

type UserSettingKey = Exclude<keyof UserSettings, 'extra_settings'>;
type Value = boolean | number | string;

export interface UserSettings {
  readonly monitor_after_run: boolean;
  readonly monitor_upd_time: number;
  readonly monitor_length: number;
  readonly monitor_dir: boolean;
  readonly monitor_tpu: boolean;
  readonly monitor_verbose: boolean;
  readonly show_length: number;
  readonly time_zone: string;
  readonly monitor_columns: string;
  /** Settings of the older program that have no meaning here. */
  readonly extra_settings: Readonly<Record<string, unknown>>;
}

export interface UserSetting extends Setting<Value> {
  readonly key: UserSettingKey;
}

export const userSettings: readonly UserSetting[] = Object.entries(table).map(([key, row]) => ({
  ...row,
  key: key as UserSettingKey,
}));

export const defaultUserSettings: UserSettings = {
  // The entries of the table, so the cast is safe.
  ...(Object.fromEntries(userSettings.map(({ key, defaultValue }) => [key, defaultValue])) as unknown as UserSettings),
  extra_settings: {},
};

/** Throws JobmanError (2) that proposes the nearest setting, or all. */
export function userSetting(key: string): UserSetting {
  const found = userSettings.find((one) => one.key === key);
  if (found !== undefined) return found;
  const keys = userSettings.map((one) => one.key);
  const near = didYouMean(key, keys);
  const guess = near === undefined ? formatChoices(keys) : `Did you mean "${near}"?`;
  throw new JobmanError(`There is no setting "${key}". ${guess}`, exitCode.usage);
}

/** Throws JobmanError (2) if the setting or the value is invalid. */
export function withSetting(settings: UserSettings, key: string, text: string): UserSettings {
  const { read, expected } = userSetting(key);
  const value = read(text.trim());
  if (value === undefined)
    throw new JobmanError(
      `"${text}" is not valid for ${key}: expected ${expected}. Nothing was changed.`,
      exitCode.usage,
    );
  return { ...settings, [key]: value };
}

/** Resets the setting, or all of them with null, to the default. `extra_settings` stay. */
export function withoutSetting(settings: UserSettings, key: string | null): UserSettings {
  if (key === null) return { ...defaultUserSettings, extra_settings: settings.extra_settings };
  const { key: known } = userSetting(key);
  return { ...settings, [known]: defaultUserSettings[known] };
}

/** `True`, `us`; `default` for columns that the user has not chosen. */
export function formatSetting(value: Value): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return value === '' ? 'default' : String(value);
}

/** Converts another program's settings, with a note for each changed value. */
export function importSettings(given: Readonly<Record<string, unknown>>): {
  readonly settings: UserSettings;
  readonly notes: readonly string[];
} {
  const notes: string[] = [];
  const imported: Record<string, Value> = {};
  const extra: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(given)) {
    const setting = userSettings.find((one) => one.key === key);
    if (key === 'extra_settings' && typeof value === 'object' && value !== null && !Array.isArray(value))
      Object.assign(extra, value);
    else if (setting === undefined) extra[key] = value;
    else {
      const isScalar = ['string', 'number', 'boolean'].includes(typeof value);
      const parsed = isScalar ? setting.read(String(value)) : undefined;
      if (parsed !== undefined) imported[key] = parsed;
      else
        notes.push(
          `its setting ${key} is ${JSON.stringify(value)}, not ${setting.expected}; imported with the default`,
        );
    }
  }
  return { settings: { ...defaultUserSettings, ...imported, extra_settings: extra }, notes };
}

function parseTimeZone(text: string): string | undefined {
  const small = text.toLowerCase();
  if (small === 'us' || small === 'cn' || small === 'local') return small;
  // Intl accepts an offset such as +08:00, but here it is most likely a mistake: it has no summer time.
  if (!/^[a-z]/i.test(text)) return undefined;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}

/** `True`, `1`, `yes`, `on` and their opposites, in any case; otherwise undefined. */
export function readBoolean(text: string): boolean | undefined {
  const small = text.toLowerCase();
  if (['true', '1', 'yes', 'on'].includes(small)) return true;
  return ['false', '0', 'no', 'off'].includes(small) ? false : undefined;
}

function parseColumns(text: string): string | undefined {
  if (text === '' || text === 'default') return '';
  return /^[wdtsv]+$/.test(text) && new Set(text).size === text.length ? text : undefined;
}

function setting<Value>(
  defaultValue: Value,
  read: Setting<Value>['read'],
  expected: string,
  description: string,
): Setting<Value> {
  return { defaultValue, description, expected, read };
}

function booleanSetting(defaultValue: boolean, description: string): Setting<boolean> {
  return setting(defaultValue, readBoolean, 'True or False', description);
}

function numberSetting(defaultValue: number, least: number, most: number, description: string): Setting<number> {
  const read = (text: string): number | undefined => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    return value >= least && value <= most ? value : undefined;
  };
  return setting(defaultValue, read, `a whole number from ${least} to ${most}`, description);
}
