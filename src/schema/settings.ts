// Settings: one table lists every key of a settings file with its allowed values, its default and its meaning. The
// type of the settings, the check of a file and the manual follow from the table.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { readJson } from './json.ts';
import { refuse, type Kind } from './kinds.ts';
import { linePosIn, type Found, type Report } from './problems.ts';
import type { Mapping } from './tree.ts';

export interface Setting<T> {
  readonly kind: Kind<T>;
  readonly otherwise: T;
  readonly meaning: string;
  readonly variable?: string;
  readonly isSecret?: true;
  /** A relative path starts at its own file. */
  readonly isPath?: true;
}

/** Settings by their names; a section has more below it. */
export interface SettingsTable {
  readonly [name: string]: Setting<unknown> | SettingsTable;
}

export type SettingsOf<S> = {
  readonly [N in keyof S]: S[N] extends Setting<infer T> ? T : SettingsOf<S[N]>;
};

/** A setting under its full key: `tpu.sshPort`. */
export interface SettingKey extends Setting<unknown> {
  readonly key: string;
}

export type SettingValues = ReadonlyMap<string, unknown>;

type More = Pick<Setting<unknown>, 'variable' | 'isSecret' | 'isPath'>;

export function setting<T>(kind: Kind<T>, otherwise: NoInfer<T>, meaning: string, more: More = {}): Setting<T> {
  return { kind, otherwise, meaning, ...more };
}

function isSetting(one: Setting<unknown> | SettingsTable): one is Setting<unknown> {
  return typeof one['meaning'] === 'string';
}

export function keysOf(table: SettingsTable, prefix = ''): readonly SettingKey[] {
  return Object.entries(table).flatMap(([name, one]) =>
    isSetting(one) ? [{ key: `${prefix}${name}`, ...one }] : keysOf(one, `${prefix}${name}.`),
  );
}

/** The settings with these values, and otherwise at their defaults. */
export function settingsOf<S extends SettingsTable>(table: S, values: SettingValues, prefix = ''): SettingsOf<S> {
  const entries = Object.entries(table).map(([name, one]): [string, unknown] => {
    const key = `${prefix}${name}`;
    if (!isSetting(one)) return [name, settingsOf(one, values, `${key}.`)];
    return [name, values.has(key) ? values.get(key) : one.otherwise];
  });
  // Every value was read by the kind of its key, which is the type of the field.
  return Object.fromEntries(entries) as SettingsOf<S>;
}

/** The value under a full key; `(set)` in the place of a secret. */
export function settingAt(settings: unknown, { key, isSecret }: SettingKey): unknown {
  const value = key.split('.').reduce<unknown>((section, name) => (section as Record<string, unknown>)[name], settings);
  return isSecret === true && value !== null ? '(set)' : value;
}

/** The right values (undefined for no object) and the problems. `elsewhere` are sections of another table. Throws JsonTextError. */
export async function readSettings(
  text: string,
  table: SettingsTable,
  elsewhere: readonly string[],
): Promise<{ readonly values: SettingValues | undefined; readonly problems: readonly Found[] }> {
  const settings = keysOf(table);
  const keys = settings.map(({ key }) => key);

  const readSection = (section: Mapping, path: readonly string[], values: Map<string, unknown>, report: Report) => {
    for (const one of section.repeated ?? []) {
      const line = one.first.in === 'file' ? linePosIn(text)(one.first.offset).line : 0;
      refuse(one, [...path, one.name], report, `stands here again; it is on line ${line} already`);
    }
    for (const [name, entry] of section.entries) {
      const { value } = entry;
      const at = [...path, name];
      const key = at.join('.');
      const found = settings.find((one) => one.key === key);
      if (found !== undefined) {
        const read = found.kind.read(value, at, report);
        if (read !== undefined) values.set(key, read);
      } else if (elsewhere.includes(key)) continue;
      else if (!keys.some((one) => one.startsWith(`${key}.`))) {
        refuse(entry, [], report, `there is no setting "${key}"`, keyMeant(key, keys, elsewhere));
      } else if (value.kind === 'map') readSection(value, at, values, report);
      else refuse(value, at, report, `should be a section, as in { "${key}": { ... } }`);
    }
  };

  const { value: values, problems } = await readJson(text, (whole, report) => {
    if (whole.kind !== 'map') return undefined;
    const found = new Map<string, unknown>();
    readSection(whole, [], found, report);
    return found;
  });
  return { values, problems };
}

function keyMeant(key: string, keys: readonly string[], elsewhere: readonly string[]): string | undefined {
  const sections = keys.map((name) => name.split('.')[0] ?? name);
  // The right name in the wrong section, or in none, is meant for its own.
  const moved = keys.find((name) => name.split('.').at(-1) === key.split('.').at(-1));
  return didYouMean(key, keys) ?? didYouMean(key, [...new Set([...sections, ...elsewhere])]) ?? moved;
}
