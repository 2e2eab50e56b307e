// Settings: one table has every key of a settings file with its kind, default and description. The type of the
// settings, the checks and the documentation follow from it.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { readJson } from './json.ts';
import { reportProblem, type Kind } from './kinds.ts';
import type { Findings, Report } from './problems.ts';
import type { Mapping, Tree } from './tree.ts';

export interface Setting<T> {
  readonly kind: Kind<T>;
  readonly defaultValue: T;
  readonly description: string;
  readonly envVariable?: string;
  readonly isSecret?: true;
  /** A relative path starts at the folder of its file. */
  readonly isPath?: true;
}

export interface SettingsTable {
  readonly [name: string]: Setting<unknown> | SettingsTable;
}

export type SettingsOf<S> = {
  readonly [N in keyof S]: S[N] extends Setting<infer T> ? T : SettingsOf<S[N]>;
};

export interface SettingKey extends Setting<unknown> {
  readonly key: string;
}

export type SettingValues = ReadonlyMap<string, unknown>;

type SettingOptions = Pick<Setting<unknown>, 'envVariable' | 'isSecret' | 'isPath'>;

export function defineSetting<T>(
  kind: Kind<T>,
  defaultValue: NoInfer<T>,
  description: string,
  options: SettingOptions = {},
): Setting<T> {
  return { kind, defaultValue, description, ...options };
}

function isSetting(one: Setting<unknown> | SettingsTable): one is Setting<unknown> {
  return typeof one['description'] === 'string';
}

export function keysOfTable(table: SettingsTable, prefix = ''): readonly SettingKey[] {
  return Object.entries(table).flatMap(([name, one]) =>
    isSetting(one) ? [{ key: `${prefix}${name}`, ...one }] : keysOfTable(one, `${prefix}${name}.`),
  );
}

export function settingsOf<S extends SettingsTable>(table: S, values: SettingValues, prefix = ''): SettingsOf<S> {
  const entries = Object.entries(table).map(([name, one]): [string, unknown] => {
    const key = `${prefix}${name}`;
    if (!isSetting(one)) return [name, settingsOf(one, values, `${key}.`)];
    return [name, values.has(key) ? values.get(key) : one.defaultValue];
  });
  // The kind of each key has read its value, so the types match.
  return Object.fromEntries(entries) as SettingsOf<S>;
}

/** The value of a full key; `(set)` instead of a secret. */
export function settingAt(settings: unknown, { key, isSecret }: SettingKey): unknown {
  const value = key.split('.').reduce<unknown>((section, name) => (section as Record<string, unknown>)[name], settings);
  return isSecret === true && value !== null ? '(set)' : value;
}

/** A rule about several keys. `trees` are the given ones, by key; a key with a problem has no value. */
export type SettingsRule = (values: SettingValues, trees: ReadonlyMap<string, Tree>, report: Report) => void;

/** `values` are the valid ones; undefined when the text is not JSON or not an object. `otherSections` belong to another table. */
export async function readSettings(
  text: string,
  table: SettingsTable,
  otherSections: readonly string[],
  rule?: SettingsRule,
): Promise<Pick<Findings, 'problems' | 'warnings'> & { readonly values: SettingValues | undefined }> {
  const settings = keysOfTable(table);
  const keys = settings.map(({ key }) => key);

  const trees = new Map<string, Tree>();
  const readSection = (section: Mapping, path: readonly string[], values: Map<string, unknown>, report: Report) => {
    for (const [name, entry] of section.entries) {
      const { value } = entry;
      const at = [...path, name];
      const key = at.join('.');
      const found = settings.find((one) => one.key === key);
      if (found !== undefined) {
        trees.set(key, value);
        const read = found.kind.read(value, at, report);
        if (read !== undefined) values.set(key, read);
      } else if (otherSections.includes(key)) continue;
      else if (!keys.some((one) => one.startsWith(`${key}.`))) {
        reportProblem(entry, [], report, `Unknown setting "${key}"`, suggestKey(key, keys, otherSections));
      } else if (value.kind === 'map') readSection(value, at, values, report);
      else reportProblem(value, at, report, `must be a section, as in { "${key}": { ... } }`);
    }
  };

  const { value: values, ...findings } = await readJson(text, (tree, report) => {
    if (tree.kind !== 'map') return undefined;
    const found = new Map<string, unknown>();
    readSection(tree, [], found, report);
    rule?.(found, trees, report);
    return found;
  });
  return { values, ...findings };
}

function suggestKey(key: string, keys: readonly string[], otherSections: readonly string[]): string | undefined {
  const sections = keys.map((name) => name.split('.')[0] ?? name);
  // A correct name in the wrong section, or in none, gets its own section.
  const moved = keys.find((name) => name.split('.').at(-1) === key.split('.').at(-1));
  return didYouMean(key, keys) ?? didYouMean(key, [...new Set([...sections, ...otherSections])]) ?? moved;
}
