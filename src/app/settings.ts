// Settings: `$JOBMAN_HOME/settings.json` and the environment, over the defaults. change-settings.ts writes the file.
//
// The same files hold the settings of Kubernetes jobs, in a separate table (cluster/settings.ts): a mistake there must
// not affect commands for TPUs.

import { readFileSync } from 'node:fs';
import { minute, day, type Instant } from '../core/model/time.ts';
import { formatJsonProblems } from '../schema/json.ts';
import { JsonTextError } from '../schema/tree.ts';
import {
  urlOrNull,
  listOf,
  textOrNull,
  textListWhere,
  bool,
  int,
  isNonEmpty,
  orNull,
  objectOf,
  textWhere,
  textOrNullWhere,
  kindWhere,
  enumOf,
  type ValueOf,
} from '../schema/kinds.ts';
import { newFindings, type FoundProblem, type SourcePosition } from '../schema/problems.ts';
import {
  keysOfTable,
  readSettings,
  defineSetting,
  settingsOf,
  type SettingKey,
  type SettingsOf,
  type SettingsTable,
  type SettingValues,
} from '../schema/settings.ts';
import { exitCode, JobmanError, fileError } from './errors.ts';
import { settingsFile } from './files.ts';
import { suggestZone, zones as knownZones } from '../catalogue/zones.ts';
import { findAccelerator, suggestAccelerator, generations } from '../catalogue/accelerators.ts';

// ------------------------------------------------------------------------------------------ the lab

const isPlainWord = (text: string): boolean => /^[^\s'"\\`$;|&<>*?]+$/u.test(text);

/** Google adds zones, so an unknown zone of the right form is valid. */
const isZone = (text: string): boolean => /^[a-z]+-[a-z]+\d+-[a-z]$/.test(text);

/** The likely correction of the first invalid zone. */
function suggestLikelyZone(value: unknown): string | undefined {
  const invalid: unknown = Array.isArray(value) ? value.find((one) => typeof one !== 'string' || !isZone(one)) : value;
  const suggestion = typeof invalid === 'string' ? suggestZone(invalid) : undefined;
  return suggestion !== undefined && knownZones.includes(suggestion) ? suggestion : undefined;
}

const share = objectOf(
  'a share',
  '{ "source": "10.0.0.2:/home", "target": "/home-nfs" }',
  {
    source: textWhere('an NFS export like "10.0.0.2:/home"', (text) => isPlainWord(text) && /^[^:]+:\/.*$/.test(text)),
    target: textWhere('an absolute path like "/home-nfs"', (text) => isPlainWord(text) && /^\/[^/]/.test(text)),
  },
  {
    zones: textListWhere('a list of zones, perhaps with a star: ["europe-*"]', (text) => /^[a-z\d*-]+$/.test(text)),
    options: textWhere('options of mount(8) like "vers=3,hard"', (text) => isPlainWord(text) && !text.startsWith('-')),
  },
);

const spreadsheet = objectOf(
  'a spreadsheet',
  '{ "id": "...", "credentials": "..." }',
  {
    id: textWhere('the id of a spreadsheet, which stands in its address behind /d/', (text) => /^[\w-]+$/.test(text)),
    credentials: textWhere('the path of a service account’s key', isNonEmpty),
  },
  { tab: textOrNullWhere('the name of a tab, or null', isNonEmpty), endpoint: urlOrNull },
);

/** Paths may begin with `~/` or be relative to `$JOBMAN_HOME`. */
const labTable = {
  zones: defineSetting(
    textListWhere('a list of zones like ["us-central2-b"]', isZone, suggestLikelyZone),
    [],
    'The zones in which the lab has TPUs.',
  ),
  shares: defineSetting(listOf('a list of shares', share), [], 'The NFS shares that its TPUs mount, in order.'),
  condaEnvironment: defineSetting(textOrNull, null, 'The conda environment that its scripts use.'),
  python: defineSetting(textOrNull, null, 'The Python on the workers that `tpu check-env` runs, an absolute path.'),
  wandbKeyFile: defineSetting(
    textOrNull,
    null,
    'A file that holds the key for Weights & Biases; the key itself is in no setting.',
    { envVariable: 'JOBMAN_WANDB_KEY_FILE' },
  ),
  remoteUser: defineSetting(textOrNull, null, 'The login on the workers; none: your own login name.'),
  privateKey: defineSetting(
    textOrNull,
    null,
    "The private key that opens it; none: jobman's own, then those of your ssh_config, of gcloud and of your SSH agent.",
  ),
  namePrefix: defineSetting(
    textWhere('a text', () => true),
    '',
    'What all names of its TPUs begin with, and is not shown.',
  ),
  stageLimit: defineSetting(int('a whole number from 1 on', 1), 10, 'How often the rules resume a job of `tpu run`.'),
  hangGraceMs: defineSetting(
    int('a number of milliseconds from 0 on', 0),
    5 * minute,
    'A job of `tpu run` whose log ends in a failed call between workers is ended after this long without output.',
  ),
  spreadsheet: defineSetting(
    orNull('a spreadsheet like { "id": "...", "credentials": "..." }, or null', spreadsheet, null),
    null,
    'The Google spreadsheet of bookings; none: a table here.',
  ),
};

export type LabSettings = SettingsOf<typeof labTable>;

export const defaultLabSettings: LabSettings = settingsOf(labTable, new Map());

// ------------------------------------------------------------------------------------------ grants

/** One entry of `grants`. An absent key limits nothing. */
const grant = objectOf(
  'a grant',
  '{ "accelerator": "v4-16", "chips": 16 }',
  {},
  {
    zone: textWhere('a zone like "us-east5-b", or with a star "us-*"', isNamePattern),
    accelerator: kindWhere(
      'a type like "v4-16", a generation like "v5e", or one with a star',
      (value): value is string =>
        typeof value === 'string' && isNamePattern(value) && suggestLikelyAccelerator(value) === undefined,
      (value) => (typeof value === 'string' ? suggestLikelyAccelerator(value) : undefined),
    ),
    pricing: enumOf('"spot", "ondemand" or "preemptible"', ['spot', 'ondemand', 'preemptible']),
    chips: int('a whole number from 1 on', 1),
    until: textWhere(
      'a day like "2026-12-31", or a moment like "2026-12-31T18:00:00Z"',
      (text) => !Number.isNaN(grantEnd(text)),
    ),
  },
);

export type Grant = ValueOf<typeof grant>;

/** The likely correction of a type that cannot exist; undefined for one that may be new. */
function suggestLikelyAccelerator(text: string): string | undefined {
  if (text.includes('*') || generations.some(({ name }) => name === text) || findAccelerator(text) !== undefined)
    return undefined;
  return suggestAccelerator(text);
}

function isNamePattern(text: string): boolean {
  return /^[a-z0-9*-]+$/.test(text);
}

/** The first time after the grant; NaN for an invalid text. */
export function grantEnd(until: string): Instant {
  const [, date = '', time] = /^(\d{4}-\d\d-\d\d)(T[\d:.]+(?:Z|[+-]\d\d:\d\d))?$/.exec(until) ?? [];
  const midnight = Date.parse(date);
  // Date.parse silently turns 30 February into 2 March.
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return Number.NaN;
  return time === undefined ? midnight + day : Date.parse(until);
}

// ------------------------------------------------------------------------------------------ all settings

const table = {
  tpu: {
    project: defineSetting(
      textOrNull,
      null,
      'The Google Cloud project for manifests that name none; "emulator" is the built-in cloud.',
    ),
    endpoint: defineSetting(urlOrNull, null, 'Where the Cloud TPU API is spoken, if not by Google.', {
      envVariable: 'JOBMAN_TPU_ENDPOINT',
    }),
    sshPort: defineSetting(
      int('a port from 1 to 65535', 1, 65_535),
      22,
      'The port that workers are reached on by SSH.',
      {
        envVariable: 'JOBMAN_TPU_SSH_PORT',
      },
    ),
    tokenCommand: defineSetting(
      textOrNull,
      null,
      "A command that prints an access token, in place of this machine's own login to Google Cloud.",
    ),
    forgottenProjects: defineSetting(
      textListWhere('a list of names', () => true),
      [],
      'Projects of finished jobs that `tpus` and `gc` no longer ask about; `tpus --forget` adds one.',
    ),
  },
  local: {
    /** The default is one per processor; see `defaultSettings`. */
    slots: defineSetting(int('a whole number from 1 on', 1), 1, 'How many local jobs run at once on this machine.'),
  },
  controller: {
    idleExitMs: defineSetting(
      int('a number of milliseconds from 0 on', 0),
      10 * minute,
      'The controller leaves when nothing has been left to watch for this long.',
    ),
  },
  terminal: {
    title: defineSetting(bool, true, "The window's title tells what a command waits for."),
    bell: defineSetting(bool, true, 'A job that ends while a terminal waits for it rings once.'),
  },
  grants: defineSetting(
    listOf('a list of grants', grant),
    [],
    'What jobs may ask of a cloud without a question; none: anything.',
  ),
  lab: labTable,
};

export type Settings = SettingsOf<typeof table>;

export const settingKeys: readonly SettingKey[] = keysOfTable(table);

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

export const ownSections: readonly string[] = Object.keys(table);

export function defaultSettings(cores: number): Settings {
  return withValues(cores, new Map());
}

function withValues(cores: number, values: SettingValues): Settings {
  return settingsOf(table, new Map([['local.slots', Math.max(1, cores)], ...values]));
}

export interface SettingsLayer {
  readonly path: string;
  readonly name: string;
  readonly text: string;
}

export interface SettingsFiles {
  readonly home: string;
  /** The template that came with the program, which its owner may have edited; null without one. */
  readonly template?: string | null;
  readonly explicit?: string | undefined;
}

/** Later files override earlier ones. Throws JobmanError without `explicit`, StoreError for an unreadable file. */
export async function settingsLayers({
  home,
  template = null,
  explicit,
}: SettingsFiles): Promise<readonly SettingsLayer[]> {
  const own = settingsFile(home);
  const files = [
    ...(template === null ? [] : [{ path: template, name: 'template' }]),
    { path: own, name: 'settings.json' },
    ...(explicit === undefined ? [] : [{ path: explicit, name: explicit }]),
  ];
  const layers: SettingsLayer[] = [];
  for (const { path, name } of files) {
    const text = await readOptional(path);
    if (text !== undefined) layers.push({ path, name, text });
    else if (path === explicit) throw new JobmanError(`There is no file of settings ${path}.`, exitCode.usage);
  }
  return layers;
}

/** Throws JobmanError with every problem and its position; StoreError for an unreadable file. */
export async function loadSettings(
  given: SettingsFiles & {
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly cores: number;
  },
): Promise<Settings> {
  const values = [...(await readValues(given))].map(([key, { value }]) => [key, value] as const);
  return withValues(given.cores, new Map(values));
}

/** The source of each key's value: a variable, a file or `default`. Throws like `loadSettings`. */
export async function settingSources(given: Parameters<typeof readValues>[0]): Promise<ReadonlyMap<string, string>> {
  const values = await readValues(given);
  return new Map(settingKeys.map(({ key }) => [key, values.get(key)?.source ?? 'default']));
}

async function readValues(
  given: SettingsFiles & { readonly env: Readonly<Record<string, string | undefined>> },
): Promise<ReadonlyMap<string, { readonly value: unknown; readonly source: string }>> {
  const layers = await settingsLayers(given);
  const values = new Map<string, { readonly value: unknown; readonly source: string }>();
  for (const { text, path, name } of layers) {
    for (const [key, value] of await parseSettings(text, path)) values.set(key, { value, source: name });
  }
  const problems: string[] = [];
  for (const one of settingKeys) {
    const { envVariable } = one;
    const text = envVariable === undefined ? '' : (given.env[envVariable] ?? '');
    if (envVariable === undefined || text === '') continue;
    const value = parseVariable(one, text);
    if (value === undefined) problems.push(`${envVariable} is "${text}", and should be ${one.kind.description}.`);
    else values.set(one.key, { value, source: envVariable });
  }
  const [problem, ...more] = problems;
  if (problem !== undefined) throw new JobmanError(problem, exitCode.usage, more);
  return values;
}

function parseVariable({ kind }: SettingKey, text: string): unknown {
  const position: SourcePosition = { in: 'set', set: text };
  const value = kind.isText === true ? text : Number(text);
  return kind.read({ kind: 'scalar', value, source: text, position }, [], newFindings());
}

export async function readOptional(path: string): Promise<string | undefined> {
  try {
    // Synchronous: fs/promises would load a part of Node and start its threads for a small file.
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw fileError(path, error);
  }
}

export function parseSettings(text: string, path: string): Promise<SettingValues> {
  return parseSettingValues(text, path, table, clusterSections);
}

/** `otherSections` belong to the other table of the same file. Throws JobmanError with every problem. */
export async function parseSettingValues(
  text: string,
  path: string,
  table: SettingsTable,
  otherSections: readonly string[],
): Promise<SettingValues> {
  const settingsError = (message: string, found: readonly FoundProblem[] = []) =>
    new JobmanError(message, exitCode.usage, formatJsonProblems(text, path, found));
  try {
    const { values, problems } = await readSettings(text, table, otherSections);
    if (values === undefined) throw settingsError(`${path} should hold one object, as in { "local": { "slots": 8 } }.`);
    if (problems.length === 0) return values;
    throw settingsError(`${path} holds something that is no setting. Nothing was changed.`, problems);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw settingsError(`${path} is not valid JSON. Nothing was changed.`, [error.finding]);
  }
}
