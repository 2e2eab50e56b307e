// Settings: `$JOBMAN_HOME/settings.json` and the environment, over the defaults; and what each key means. Small on
// purpose; a key is added with the feature that reads it. How the file is changed by command: change-settings.ts.
//
// The same files hold the settings of Kubernetes jobs, which have keys of their own: cluster/settings.ts. Whoever has to do
// with TPUs only does not load those, and a slip in them is nothing to them.

import { readFileSync } from 'node:fs';
import { minute } from '../core/time.ts';
import { jsonLines } from '../schema/json.ts';
import { JsonTextError } from '../schema/tree.ts';
import { addressOrNull, listOf, textOrNull, textsLike, truth, whole } from '../schema/kinds.ts';
import { newFindings, type Found, type Place } from '../schema/problems.ts';
import {
  keysOf,
  readSettings,
  setting,
  settingsOf,
  type SettingKey,
  type SettingsOf,
  type SettingsTable,
  type SettingValues,
} from '../schema/settings.ts';
import { exitCode, JobmanError } from './errors.ts';
import { fileError } from './file-trouble.ts';
import { grant } from './grant-parts.ts';
import { labTable } from './lab-settings.ts';
import { settingsFile } from './settings-file.ts';

/** In the order in which people are told of them. */
const table = {
  tpu: {
    project: setting(
      textOrNull,
      null,
      'The Google Cloud project for manifests that name none; "emulator" is the built-in cloud.',
    ),
    endpoint: setting(addressOrNull, null, 'Where the Cloud TPU API is spoken, if not by Google.', {
      variable: 'JOBMAN_TPU_ENDPOINT',
    }),
    sshPort: setting(whole('a port from 1 to 65535', 1, 65_535), 22, 'The port that workers are reached on by SSH.', {
      variable: 'JOBMAN_TPU_SSH_PORT',
    }),
    tokenCommand: setting(
      textOrNull,
      null,
      "A command that prints an access token, in place of this machine's own login to Google Cloud.",
    ),
    forgottenProjects: setting(
      textsLike('a list of names', () => true),
      [],
      'Projects of finished jobs that `tpus` and `gc` no longer ask about; `tpus --forget` adds one.',
    ),
  },
  local: {
    /** By default one for each processor: see `defaultSettings`. */
    slots: setting(whole('a whole number from 1 on', 1), 1, 'How many local jobs run at once on this machine.'),
  },
  controller: {
    idleExitMs: setting(
      whole('a number of milliseconds from 0 on', 0),
      10 * minute,
      'The controller leaves when nothing has been left to watch for this long.',
    ),
  },
  terminal: {
    title: setting(truth, true, "The window's title tells what a command waits for."),
    bell: setting(truth, true, 'A job that ends while a terminal waits for it rings once.'),
  },
  grants: setting(
    listOf('a list of grants', grant),
    [],
    'What jobs may ask of a cloud without a question; none: anything.',
  ),
  lab: labTable,
};

export type Settings = SettingsOf<typeof table>;

/** Every key, in the order in which people are told of them. */
export const settingKeys: readonly SettingKey[] = keysOf(table);

/** The first words of the keys that cluster/settings.ts reads. */
export const clusterSections: readonly string[] = [
  'sharedNamespace',
  'sharedConfigmap',
  'jobsQueue',
  'job',
  'newVersion',
  'kubeConfig',
  'harbor',
  'kubernetes',
];

/** The sections of this table. */
export const ownSections: readonly string[] = Object.keys(table);

/** The settings when nobody has said anything; `cores` is how many processors this machine has. */
export function defaultSettings(cores: number): Settings {
  return withValues(cores, new Map());
}

function withValues(cores: number, values: SettingValues): Settings {
  return settingsOf(table, new Map([['local.slots', Math.max(1, cores)], ...values]));
}

/** A file of settings: the text, and what it is called to people. */
export interface SettingsLayer {
  readonly path: string;
  /** The name of the source in tables: `settings.json`. */
  readonly called: string;
  readonly text: string;
}

/** The files to read. */
export interface SettingsFiles {
  readonly home: string;
  /** The template that came with the program, which its owner may have edited; null where there is none. */
  readonly template?: string | null;
  /** The file of `--settings`, absolute. */
  readonly named?: string | undefined;
}

/**
 * The files, each over those before it: the template, the one of the home, the one that was named. Throws JobmanError when
 * the named one is not there, StoreError when one cannot be read. Reads only.
 */
export async function settingsLayers({
  home,
  template = null,
  named,
}: SettingsFiles): Promise<readonly SettingsLayer[]> {
  const own = settingsFile(home);
  const files = [
    ...(template === null ? [] : [{ path: template, called: 'template' }]),
    { path: own, called: 'settings.json' },
    ...(named === undefined ? [] : [{ path: named, called: named }]),
  ];
  const layers: SettingsLayer[] = [];
  for (const { path, called } of files) {
    const text = await readOptional(path);
    if (text !== undefined) layers.push({ path, called, text });
    else if (path === named) throw new JobmanError(`There is no file of settings ${path}.`, exitCode.usage);
  }
  return layers;
}

/**
 * The settings in force. Throws JobmanError with every problem at once, each with its line and column, when a file or the
 * environment holds something that is no setting; StoreError when a file cannot be read. Reads only.
 */
export async function loadSettings(
  given: SettingsFiles & {
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly cores: number;
  },
): Promise<Settings> {
  const values = [...(await valuesSet(given))].map(([key, { value }]) => [key, value] as const);
  return withValues(given.cores, new Map(values));
}

/**
 * The source of each key's value: the variable that overrides the files, `settings.json` or another of them, or
 * `default`. Throws what `loadSettings` throws. Reads only.
 */
export async function settingSources(given: Parameters<typeof valuesSet>[0]): Promise<ReadonlyMap<string, string>> {
  const values = await valuesSet(given);
  return new Map(settingKeys.map(({ key }) => [key, values.get(key)?.source ?? 'default']));
}

/** The values that the files and the environment set, by full keys. */
async function valuesSet(
  given: SettingsFiles & { readonly env: Readonly<Record<string, string | undefined>> },
): Promise<ReadonlyMap<string, { readonly value: unknown; readonly source: string }>> {
  const layers = await settingsLayers(given);
  const values = new Map<string, { readonly value: unknown; readonly source: string }>();
  for (const { text, path, called } of layers) {
    for (const [key, value] of await settingsIn(text, path)) values.set(key, { value, source: called });
  }
  const problems: string[] = [];
  for (const one of settingKeys) {
    const { variable } = one;
    const said = variable === undefined ? '' : (given.env[variable] ?? '');
    if (variable === undefined || said === '') continue;
    const value = fromEnvironment(one, said);
    if (value === undefined) problems.push(`${variable} is "${said}", and should be ${one.kind.words}.`);
    else values.set(one.key, { value, source: variable });
  }
  const [problem, ...more] = problems;
  if (problem !== undefined) throw new JobmanError(problem, exitCode.usage, more);
  return values;
}

/** The value of the setting from a variable's text; undefined when the text is none. */
function fromEnvironment({ kind }: SettingKey, said: string): unknown {
  const place: Place = { in: 'set', set: said };
  const value = kind.isText === true ? said : Number(said);
  return kind.read({ kind: 'scalar', value, source: said, place }, [], newFindings());
}

/** The text of a file, or undefined where there is none. Throws StoreError when it cannot be read. */
export async function readOptional(path: string): Promise<string | undefined> {
  try {
    // At once: the other way loads a part of Node and starts its threads, for a file of a page.
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw fileError(path, error);
  }
}

/** The values that a text sets. Throws JobmanError with every problem at once; `path` is what the file is called in it. */
export function settingsIn(text: string, path: string): Promise<SettingValues> {
  return valuesIn(text, path, table, clusterSections);
}

/**
 * The values of a text for one of the tables; `elsewhere` are the sections of the other. Throws JobmanError with every problem
 * of the file at once, each with its place; `path` is what it is called in them.
 */
export async function valuesIn(
  text: string,
  path: string,
  ofTable: SettingsTable,
  elsewhere: readonly string[],
): Promise<SettingValues> {
  const wrong = (message: string, found: readonly Found[] = []) =>
    new JobmanError(message, exitCode.usage, jsonLines(text, path, found));
  try {
    const { values, problems } = await readSettings(text, ofTable, elsewhere);
    if (values === undefined) throw wrong(`${path} should hold one object, as in { "local": { "slots": 8 } }.`);
    if (problems.length === 0) return values;
    throw wrong(`${path} holds something that is no setting. Nothing was changed.`, problems);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw wrong(`${path} is not valid JSON. Nothing was changed.`, [error.found]);
  }
}
