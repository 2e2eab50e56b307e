// Settings: `$JOBMAN_HOME/settings.json` and the environment, over the defaults; and what each key means. Small on
// purpose; a key is added with the feature that reads it.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { didYouMean } from '../core/did-you-mean.ts';
import { minute } from '../core/time.ts';
import { exitCode, JobmanError } from './errors.ts';
import { fileError } from './file-trouble.ts';

export interface Settings {
  readonly tpu: {
    /** Used when a manifest names no project. */
    readonly project: string | null;
    /** `http://127.0.0.1:PORT` of a server that speaks the Cloud TPU API; null means Google's. */
    readonly endpoint: string | null;
    /** The port that workers are reached on by SSH. */
    readonly sshPort: number;
  };
  readonly local: {
    /** How many local jobs run at once on this machine. */
    readonly slots: number;
  };
  readonly controller: {
    /** Leaves when nothing has been left to watch for this many milliseconds. */
    readonly idleExitMs: number;
  };
  readonly terminal: {
    /** Whether the window's title tells what a command waits for. */
    readonly title: boolean;
    /** Whether a job that ends while somebody waits for it rings once. */
    readonly bell: boolean;
  };
}

/** What may stand at a key. */
type Kind = 'text or null' | 'address or null' | 'port' | 'count' | 'milliseconds' | 'yes or no';

export interface SettingKey {
  /** `tpu.project`. */
  readonly key: string;
  readonly kind: Kind;
  /** What it does, as a sentence for people. */
  readonly meaning: string;
  /** The variable that stands above the file. */
  readonly variable?: string;
}

/** Every key, in the order in which people are told of them. */
export const settingKeys: readonly SettingKey[] = [
  {
    key: 'tpu.project',
    kind: 'text or null',
    meaning: 'The Google Cloud project for manifests that name none; "emulator" is the built-in cloud.',
  },
  {
    key: 'tpu.endpoint',
    kind: 'address or null',
    meaning: 'Where the Cloud TPU API is spoken, if not by Google.',
    variable: 'JOBMAN_TPU_ENDPOINT',
  },
  {
    key: 'tpu.sshPort',
    kind: 'port',
    meaning: 'The port that workers are reached on by SSH.',
    variable: 'JOBMAN_TPU_SSH_PORT',
  },
  { key: 'local.slots', kind: 'count', meaning: 'How many local jobs run at once on this machine.' },
  {
    key: 'controller.idleExitMs',
    kind: 'milliseconds',
    meaning: 'The controller leaves when nothing has been left to watch for this long.',
  },
  { key: 'terminal.title', kind: 'yes or no', meaning: "The window's title tells what a command waits for." },
  { key: 'terminal.bell', kind: 'yes or no', meaning: 'A job that ends while a terminal waits for it rings once.' },
];

type Value = string | number | boolean | null;

/** The settings when nobody has said anything; `cores` is how many processors this machine has. */
export function defaultSettings(cores: number): Settings {
  return {
    tpu: { project: null, endpoint: null, sshPort: 22 },
    local: { slots: Math.max(1, cores) },
    controller: { idleExitMs: 10 * minute },
    terminal: { title: true, bell: true },
  };
}

/** The path of the file. */
export function settingsFile(home: string): string {
  return join(home, 'settings.json');
}

/** What `settings.json` may look like: every key at its default. */
export function settingsTemplate(cores: number): string {
  return `${JSON.stringify(defaultSettings(cores), null, 2)}\n`;
}

/**
 * The settings in force. Throws JobmanError with every problem at once, each with its line, when the file or the
 * environment holds something that is no setting; StoreError when the file cannot be read. Reads only.
 */
export async function loadSettings(given: {
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cores: number;
}): Promise<Settings> {
  const { home, env, cores } = given;
  const path = settingsFile(home);
  const text = await readOptional(path);
  const problems: string[] = [];
  const values = text === undefined ? new Map<string, Value>() : valuesOf(text, path, problems);
  if (problems.length > 0) throw wrong(`${path} holds something that is no setting. Nothing was changed.`, problems);
  for (const setting of settingKeys) {
    const said = saidIn(env, setting);
    if (said !== undefined) values.set(setting.key, fromEnvironment(setting, said));
  }
  return merged(defaultSettings(cores), values);
}

/**
 * Where the value of each key comes from: the variable that stands above the file, `settings.json`, or `default`. For
 * settings that `loadSettings` took; what it refuses is not refused again. Reads only.
 */
export async function settingSources(given: {
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): Promise<ReadonlyMap<string, string>> {
  const path = settingsFile(given.home);
  const text = await readOptional(path);
  const inFile = text === undefined ? new Map<string, Value>() : valuesOf(text, path, []);
  return new Map(
    settingKeys.map((setting) => {
      const fromFile = inFile.has(setting.key) ? 'settings.json' : 'default';
      return [setting.key, saidIn(given.env, setting) === undefined ? fromFile : (setting.variable ?? fromFile)];
    }),
  );
}

/** What the environment says of it; a variable that is set to nothing says nothing. */
function saidIn(env: Readonly<Record<string, string | undefined>>, { variable }: SettingKey): string | undefined {
  const said = variable === undefined ? undefined : env[variable];
  return said === '' ? undefined : said;
}

function fromEnvironment(setting: SettingKey, said: string): Value {
  const value = setting.kind === 'port' ? Number(said) : said;
  if (isOfKind(value, setting.kind)) return value;
  throw wrong(`${setting.variable ?? setting.key} is "${said}", and should be ${kindWords[setting.kind]}.`);
}

async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw fileError(path, error);
  }
}

// ------------------------------------------------------------------------------------------ what the file says

function valuesOf(text: string, path: string, problems: string[]): Map<string, Value> {
  const values = new Map<string, Value>();
  collect(parsed(text, path), '', (key, value) => {
    const place = `${path}:${lineOf(text, key)}`;
    const setting = settingKeys.find((one) => one.key === key);
    if (setting === undefined) problems.push(`${place}: ${unknownKey(key)}`);
    else if (isOfKind(value, setting.kind)) values.set(key, value);
    else problems.push(`${place}: "${key}" should be ${kindWords[setting.kind]}, and is ${JSON.stringify(value)}`);
  });
  return values;
}

function parsed(text: string, path: string): Readonly<Record<string, unknown>> {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw wrong(`${path} is not valid JSON: ${said}.`);
  }
  if (!isSection(content)) throw wrong(`${path} should hold one object, as "jobman settings" prints it.`);
  return content;
}

/** Every value under its full key: `tpu.sshPort`. A section is an object under a name that has keys below it. */
function collect(
  section: Readonly<Record<string, unknown>>,
  prefix: string,
  take: (key: string, value: unknown) => void,
): void {
  for (const [name, value] of Object.entries(section)) {
    const key = `${prefix}${name}`;
    if (isSection(value) && settingKeys.some((one) => one.key.startsWith(`${key}.`))) collect(value, `${key}.`, take);
    else take(key, value);
  }
}

function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function unknownKey(key: string): string {
  const names = settingKeys.map((one) => one.key);
  const meant =
    didYouMean(key, names) ?? didYouMean(key, [...new Set(names.map((name) => name.split('.')[0] ?? name))]);
  return `there is no setting "${key}"${meant === undefined ? '' : `; did you mean "${meant}"?`}`;
}

/** The line on which a key stands: where its last name comes first after the names of its sections. */
function lineOf(text: string, key: string): number {
  let from = 0;
  for (const name of key.split('.')) {
    const at = text.indexOf(JSON.stringify(name), from);
    if (at !== -1) from = at;
  }
  return text.slice(0, from).split('\n').length;
}

// ------------------------------------------------------------------------------------------ kinds

const kindWords: Readonly<Record<Kind, string>> = {
  'text or null': 'a text or null',
  'address or null': 'an address like "http://127.0.0.1:8080", or null',
  port: 'a port from 1 to 65535',
  count: 'a whole number from 1 on',
  milliseconds: 'a number of milliseconds from 0 on',
  'yes or no': 'true or false',
};

function isOfKind(value: unknown, kind: Kind): value is Value {
  switch (kind) {
    case 'text or null':
      return value === null || (typeof value === 'string' && value.trim() !== '');
    case 'address or null':
      return value === null || (typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? ''));
    case 'port':
      return isWhole(value) && value >= 1 && value <= 65_535;
    case 'count':
      return isWhole(value) && value >= 1;
    case 'milliseconds':
      return isWhole(value) && value >= 0;
    case 'yes or no':
      return typeof value === 'boolean';
  }
}

function isWhole(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value);
}

function merged(defaults: Settings, values: ReadonlyMap<string, Value>): Settings {
  const result: Record<string, Record<string, Value>> = {};
  for (const [section, keys] of Object.entries(defaults)) {
    result[section] = Object.fromEntries(
      Object.entries(keys as Record<string, Value>).map(([name, value]) => {
        const said = values.get(`${section}.${name}`);
        return [name, said === undefined ? value : said];
      }),
    );
  }
  // Every value was checked against the kind of its key above, which is the type of its field.
  return result as unknown as Settings;
}

function wrong(message: string, lines: readonly string[] = []): JobmanError {
  return new JobmanError(message, exitCode.usage, lines);
}
