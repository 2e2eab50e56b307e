// Change settings: sets or removes one key of `settings.json`, or adds to its list. The new file is checked as a whole
// before it replaces the old one, so that a mistake changes nothing.

import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { quote } from '../catalogue/shell.ts';
import type { SettingKey } from '../schema/settings.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { formatList } from '../app/format.ts';
import { lockOf, makeFolder, replaceIfUnchanged, settingsFile } from './files.ts';
import { readOptional } from './settings-files.ts';
import { clusterSections, settingKeys, parseSettings, type SettingsFiles } from '../app/settings.ts';

type Content = Readonly<Record<string, unknown>>;

/** A key of the table, or one entry of a setting that is an object, such as `notify.channels.slack`. */
interface Target {
  readonly setting: SettingKey;
  /** Null: the whole setting. */
  readonly entry: string | null;
  /** Of the value in the file. */
  readonly names: readonly string[];
}

export interface SettingChange {
  /** False: the file had this value, or no value to remove, already. */
  readonly changed: boolean;
  /** The names of an object and the elements of a list that a new value has left out. */
  readonly removed: readonly string[];
  /** The channels of notifications that are gone. */
  readonly removedChannels: readonly string[];
}

/** Called before a change that removes these hosts. It throws to refuse the change. */
type HostsGuard = (removed: readonly string[]) => Promise<void>;

/** Throws JobmanError if the value is invalid for the key. */
export async function setSetting(
  files: SettingsFiles,
  key: string,
  text: string,
  guard?: HostsGuard,
): Promise<SettingChange> {
  const { setting, entry, names } = settingNamed(key);
  return change(files, key, names, (content) => withKey(content, names, parseValue(setting, text, entry)), guard);
}

/** Adds an element to the list in the file, or to the list in force if the file has none. */
export async function addToSetting(
  files: SettingsFiles,
  key: string,
  text: string,
  inForce: unknown,
): Promise<SettingChange> {
  const { setting, entry, names } = settingNamed(key);
  if (entry !== null || !Array.isArray(setting.defaultValue))
    throw usageError(`${key} is not a list. To change it: jobman settings set ${key} VALUE`);
  const element = parseJsonOrText(text);
  return change(files, key, names, (content) => {
    const list = (valueAt(content, names) ?? inForce) as readonly unknown[];
    return list.some((one) => isDeepStrictEqual(one, element)) ? content : withKey(content, names, [...list, element]);
  });
}

export async function unsetSetting(files: SettingsFiles, key: string, guard?: HostsGuard): Promise<SettingChange> {
  const { names } = settingNamed(key);
  return change(files, key, names, (content) => withoutKey(content, names), guard);
}

function settingNamed(key: string): Target {
  const setting = settingKeys.find((one) => one.key === key);
  if (setting !== undefined) return { setting, entry: null, names: key.split('.') };
  const whole = settingKeys.find((one) => key.startsWith(`${one.key}.`) && isObject(one));
  if (whole !== undefined) {
    const entry = key.slice(whole.key.length + 1);
    return { setting: whole, entry, names: [...whole.key.split('.'), entry] };
  }
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

/** True if the values of the setting are objects, or null. */
function isObject({ kind, defaultValue }: SettingKey): boolean {
  return kind.isText !== true && typeof defaultValue === 'object' && !Array.isArray(defaultValue);
}

export function unknownSetting(key: string, keys: readonly string[]): JobmanError {
  const inSection = keys.filter((one) => one.startsWith(`${key}.`));
  if (inSection.length > 0) return usageError(`There is no setting ${key}, only ${formatList(inSection)}.`);
  const suggestion = keys.find((one) => one.endsWith(`.${key}`)) ?? didYouMean(key, keys);
  return usageError(
    `There is no setting ${key}. ${suggestion === undefined ? 'List all: jobman settings' : `Did you mean ${suggestion}?`}`,
  );
}

function parseValue({ kind, defaultValue }: SettingKey, text: string, entry: string | null): unknown {
  const mayBeNull = defaultValue === null;
  const isText = entry === null && kind.isText === true && !(mayBeNull && text === 'null');
  return isText ? text : parseJsonOrText(text);
}

function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // The check of the whole file reports invalid JSON as a text.
    return text;
  }
}

/** With the pause between them, much longer than a hundred commands at once need. */
const maxTries = 200;
const pauseMs = 10;

/** Reads the file again if another command has changed it since it was read. */
async function change(...request: Parameters<typeof tryChange>): Promise<SettingChange> {
  for (let tries = 0; tries < maxTries; tries += 1) {
    const result = await tryChange(...request);
    if (result !== null) return result;
    await pause(pauseMs);
  }
  const [{ home }, key] = request;
  const lock = lockOf(settingsFile(home));
  throw new JobmanError(`${key} was not changed: another command is changing the settings.`, exitCode.conflict, [
    `If none runs, one was killed while it did: rm ${quote(lock)}`,
  ]);
}

/** Null if another command has changed the file meanwhile; then nothing was written. */
async function tryChange(
  { home, template = null }: SettingsFiles,
  key: string,
  names: readonly string[],
  edit: (content: Content) => Content,
  guard?: HostsGuard,
): Promise<SettingChange | null> {
  const path = settingsFile(home);
  const templateText = template === null ? undefined : await readOptional(template);
  const below =
    template === null || templateText === undefined ? undefined : await parseSettings(templateText, template);
  const stored = await readOptional(path);
  const before = stored ?? '{}';
  await parseSettings(before, path, below);
  const content = JSON.parse(before.replace(/^\uFEFF/, '')) as Content;
  const edited = edit(content);
  const text = `${JSON.stringify(edited, null, 2)}\n`;
  try {
    await parseSettings(text, path, below);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    // Line numbers of a file that was never written would mislead.
    const messages = error.lines.map((line) => line.replace(/^.*?:\d+:\d+:? /, ''));
    throw new JobmanError(`${key} was not changed.`, exitCode.usage, messages);
  }
  const removedHosts = removedParts(content['hosts'] ?? {}, edited['hosts'] ?? {});
  if (removedHosts.length > 0) await guard?.(removedHosts);
  try {
    makeFolder(dirname(path));
    if (!replaceIfUnchanged(path, stored, text)) return null;
  } catch (error) {
    throw fileError(path, error);
  }
  const channels = ['notify', 'channels'];
  return {
    changed: !isDeepStrictEqual(content, edited),
    removed: removedParts(valueAt(content, names), valueAt(edited, names)),
    removedChannels: removedParts(valueAt(content, channels), valueAt(edited, channels) ?? {}),
  };
}

/** The names of an object, or the elements of a list, that the other value does not have. */
function removedParts(before: unknown, after: unknown): readonly string[] {
  const parts = partsOf(after);
  return parts === undefined ? [] : (partsOf(before) ?? []).filter((one) => !parts.includes(one));
}

function partsOf(value: unknown): readonly string[] | undefined {
  if (Array.isArray(value)) return value.map((one) => JSON.stringify(one));
  return typeof value === 'object' && value !== null ? Object.keys(value) : undefined;
}

function valueAt(content: Content, names: readonly string[]): unknown {
  return names.reduce<unknown>((part, name) => (part as Content | undefined)?.[name], content);
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
