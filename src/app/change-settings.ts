// Change settings: sets or removes one key of `settings.json`. The new file is checked as a whole before it replaces
// the old one, so that a mistake changes nothing.

import { dirname } from 'node:path';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { SettingKey } from '../schema/settings.ts';
import { exitCode, JobmanError, fileError, usageError } from './errors.ts';
import { formatList } from './format.ts';
import { makeFolder, settingsFile, writeAtomically } from './files.ts';
import { clusterSections, readOptional, settingKeys, parseSettings } from './settings.ts';

type Content = Readonly<Record<string, unknown>>;

/** Throws JobmanError if the value is invalid for the key. */
export async function setSetting(home: string, key: string, text: string): Promise<void> {
  const setting = settingNamed(key);
  await change(home, setting, (content) => withKey(content, key.split('.'), parseValue(setting, text)));
}

export async function unsetSetting(home: string, key: string): Promise<boolean> {
  let wasThere = false;
  await change(home, settingNamed(key), (content) => {
    const names = key.split('.');
    wasThere = names.reduce<unknown>((part, name) => (part as Content | undefined)?.[name], content) !== undefined;
    return withoutKey(content, names);
  });
  return wasThere;
}

function settingNamed(key: string): SettingKey {
  const setting = settingKeys.find((one) => one.key === key);
  if (setting !== undefined) return setting;
  const [section = ''] = key.split('.');
  if (clusterSections.includes(section)) {
    throw new JobmanError(
      `${key} is a setting of Kubernetes jobs. Edit the settings file to change it.`,
      exitCode.usage,
      ['See docs/kubernetes.md. Path of the file and current values: jobman settings'],
    );
  }
  throw unknownSetting(
    key,
    settingKeys.map((one) => one.key),
  );
}

export function unknownSetting(key: string, keys: readonly string[]): JobmanError {
  const inSection = keys.filter((one) => one.startsWith(`${key}.`));
  if (inSection.length > 0) return usageError(`There is no setting ${key}, only ${formatList(inSection)}.`);
  const suggestion = keys.find((one) => one.endsWith(`.${key}`)) ?? didYouMean(key, keys);
  return usageError(
    `There is no setting ${key}. ${suggestion === undefined ? 'List all: jobman settings' : `Did you mean ${suggestion}?`}`,
  );
}

function parseValue({ kind, defaultValue }: SettingKey, text: string): unknown {
  const mayBeNull = defaultValue === null;
  if (kind.isText === true && !(mayBeNull && text === 'null')) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // The check of the whole file reports invalid JSON as a text.
    return text;
  }
}

async function change(home: string, { key }: SettingKey, edit: (content: Content) => Content): Promise<void> {
  const path = settingsFile(home);
  const before = (await readOptional(path)) ?? '{}';
  await parseSettings(before, path);
  const content = edit(JSON.parse(before.replace(/^\uFEFF/, '')) as Content);
  const text = `${JSON.stringify(content, null, 2)}\n`;
  try {
    await parseSettings(text, path);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    // Line numbers of a file that was never written would mislead.
    const messages = error.lines.map((line) => line.replace(/^.*?:\d+:\d+:? /, ''));
    throw new JobmanError(`${key} was not changed.`, exitCode.usage, messages);
  }
  try {
    makeFolder(dirname(path));
    writeAtomically(path, text);
  } catch (error) {
    throw fileError(path, error);
  }
}

function withKey(content: Content, [name = '', ...rest]: readonly string[], value: unknown): Content {
  if (rest.length === 0) return { ...content, [name]: value };
  return { ...content, [name]: withKey((content[name] ?? {}) as Content, rest, value) };
}

function withoutKey(content: Content, [name = '', ...rest]: readonly string[]): Content {
  const { [name]: part, ...others } = content;
  if (rest.length === 0 || part === undefined) return others;
  const left = withoutKey(part as Content, rest);
  return Object.keys(left).length === 0 ? others : { ...content, [name]: left };
}
