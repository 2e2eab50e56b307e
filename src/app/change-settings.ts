// Change settings: one key of `settings.json` set or taken out by command. The file is checked as a whole before it takes
// the place of the old one, so that a mistake changes nothing.

import { randomUUID } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { SettingKey } from '../schema/settings.ts';
import { exitCode, JobmanError, fileError } from './errors.ts';
import { fileModeIn, makeFolder, settingsFile } from './files.ts';
import { clusterSections, readOptional, settingKeys, settingsIn } from './settings.ts';

type Content = Readonly<Record<string, unknown>>;

/** Sets a key to a value as `jobman settings set` takes it: JSON or text. Throws JobmanError when it is none for the key. */
export async function setSetting(home: string, key: string, said: string): Promise<void> {
  const setting = settingNamed(key);
  await change(home, setting, (content) => put(content, key.split('.'), valueOf(setting, said)));
}

/** Removes a key; answers whether it was there. Throws as `setSetting` does. */
export async function unsetSetting(home: string, key: string): Promise<boolean> {
  let wasThere = false;
  await change(home, settingNamed(key), (content) => {
    const names = key.split('.');
    wasThere = names.reduce<unknown>((part, name) => (part as Content | undefined)?.[name], content) !== undefined;
    return take(content, names);
  });
  return wasThere;
}

function settingNamed(key: string): SettingKey {
  const setting = settingKeys.find((one) => one.key === key);
  if (setting !== undefined) return setting;
  const [section = ''] = key.split('.');
  if (clusterSections.includes(section)) {
    throw new JobmanError(
      `${key} is written into the file by hand: what Kubernetes jobs are given may be more than one line.`,
      exitCode.usage,
      ['docs/kubernetes.md shows the file; `jobman settings` names its place and what is in force.'],
    );
  }
  const meant = didYouMean(
    key,
    settingKeys.map((one) => one.key),
  );
  throw new JobmanError(
    `There is no setting ${key}.${meant === undefined ? ' `jobman settings` lists them.' : ` Did you mean ${meant}?`}`,
    exitCode.usage,
  );
}

function valueOf({ kind, otherwise }: SettingKey, said: string): unknown {
  const mayBeNull = otherwise === null;
  if (kind.isText === true && !(mayBeNull && said === 'null')) return said;
  try {
    return JSON.parse(said) as unknown;
  } catch {
    // The check of the whole file reports it as the text that it is.
    return said;
  }
}

async function change(home: string, { key }: SettingKey, to: (content: Content) => Content): Promise<void> {
  const path = settingsFile(home);
  const before = (await readOptional(path)) ?? '{}';
  await settingsIn(before, path);
  const content = to(JSON.parse(before.replace(/^\uFEFF/, '')) as Content);
  const text = `${JSON.stringify(content, null, 2)}\n`;
  try {
    await settingsIn(text, path);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    // The lines of a file that was never written would mislead.
    const says = error.lines.map((line) => line.replace(/^.*?:\d+:\d+: /, ''));
    throw new JobmanError(`${key} was not changed.`, exitCode.usage, says);
  }
  const draft = `${path}.${randomUUID()}`;
  try {
    makeFolder(dirname(path));
    await writeFile(draft, text, { mode: fileModeIn(dirname(path)) });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw fileError(path, error);
  }
}

function put(content: Content, [name = '', ...rest]: readonly string[], value: unknown): Content {
  if (rest.length === 0) return { ...content, [name]: value };
  return { ...content, [name]: put((content[name] ?? {}) as Content, rest, value) };
}

function take(content: Content, [name = '', ...rest]: readonly string[]): Content {
  const { [name]: part, ...others } = content;
  if (rest.length === 0 || part === undefined) return others;
  const left = take(part as Content, rest);
  return Object.keys(left).length === 0 ? others : { ...content, [name]: left };
}
