// Settings: `$JOBMAN_HOME/settings.json` and the environment, over the defaults; and what each key means. Commands change the
// file in change-settings.ts.
//
// The same files hold the settings of Kubernetes jobs, in a table of their own (cluster/settings.ts), so that a mistake in
// those does not matter to commands for TPUs.

import { readFileSync } from 'node:fs';
import { minute, day, type Instant } from '../core/time.ts';
import { jsonLines } from '../schema/json.ts';
import { JsonTextError } from '../schema/tree.ts';
import {
  addressOrNull,
  listOf,
  textOrNull,
  textsLike,
  truth,
  whole,
  isFilled,
  orNull,
  record,
  textLike,
  textOrNullLike,
  checked,
  wordOf,
  type ValueOf,
} from '../schema/kinds.ts';
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
import { exitCode, JobmanError, fileError } from './errors.ts';
import { settingsFile } from './files.ts';
import { zoneMeant, zones as knownZones } from '../catalogue/zones.ts';
import { accelerator, acceleratorMeant, generations } from '../catalogue/accelerators.ts';

// ------------------------------------------------------------------------------------------ the lab

/** A word that no shell and no command line reads as something else. */
const isPlain = (text: string): boolean => /^[^\s'"\\`$;|&<>*?]+$/u.test(text);

/** Google adds zones, so an unknown one may be right where it could be one. */
const isZone = (text: string): boolean => /^[a-z]+-[a-z]+\d+-[a-z]$/.test(text);

/** The zone that was most likely meant by the first of a list that is none. */
function zoneSlip(value: unknown): string | undefined {
  const wrong: unknown = Array.isArray(value) ? value.find((one) => typeof one !== 'string' || !isZone(one)) : value;
  const meant = typeof wrong === 'string' ? zoneMeant(wrong) : undefined;
  return meant !== undefined && knownZones.includes(meant) ? meant : undefined;
}

const share = record(
  'a share',
  '{ "source": "10.0.0.2:/home", "target": "/home-nfs" }',
  {
    source: textLike('an NFS export like "10.0.0.2:/home"', (text) => isPlain(text) && /^[^:]+:\/.*$/.test(text)),
    target: textLike('an absolute path like "/home-nfs"', (text) => isPlain(text) && /^\/[^/]/.test(text)),
  },
  {
    zones: textsLike('a list of zones, perhaps with a star: ["europe-*"]', (text) => /^[a-z\d*-]+$/.test(text)),
    options: textLike('options of mount(8) like "vers=3,hard"', (text) => isPlain(text) && !text.startsWith('-')),
  },
);

const spreadsheet = record(
  'a spreadsheet',
  '{ "id": "...", "credentials": "..." }',
  {
    id: textLike('the id of a spreadsheet, which stands in its address behind /d/', (text) => /^[\w-]+$/.test(text)),
    credentials: textLike('the path of a service account’s key', isFilled),
  },
  { tab: textOrNullLike('the name of a tab, or null', isFilled), endpoint: addressOrNull },
);

/** Paths may begin with `~/` or be relative to `$JOBMAN_HOME`. */
const labTable = {
  zones: setting(
    textsLike('a list of zones like ["us-central2-b"]', isZone, zoneSlip),
    [],
    'The zones in which the lab has TPUs.',
  ),
  shares: setting(listOf('a list of shares', share), [], 'The NFS shares that its TPUs mount, in order.'),
  condaEnvironment: setting(textOrNull, null, 'The conda environment that its scripts use.'),
  python: setting(textOrNull, null, 'The Python on the workers that `tpu check-env` runs, an absolute path.'),
  wandbKeyFile: setting(
    textOrNull,
    null,
    'A file that holds the key for Weights & Biases; the key itself is in no setting.',
    { variable: 'JOBMAN_WANDB_KEY_FILE' },
  ),
  remoteUser: setting(textOrNull, null, 'The login on the workers; none: your own login name.'),
  privateKey: setting(
    textOrNull,
    null,
    "The private key that opens it; none: jobman's own, then those of your ssh_config, of gcloud and of your SSH agent.",
  ),
  namePrefix: setting(
    textLike('a text', () => true),
    '',
    'What all names of its TPUs begin with, and is not shown.',
  ),
  stageLimit: setting(whole('a whole number from 1 on', 1), 10, 'How often the rules resume a job of `tpu run`.'),
  hangGraceMs: setting(
    whole('a number of milliseconds from 0 on', 0),
    5 * minute,
    'A job of `tpu run` whose log ends in a failed call between workers is ended after this long without output.',
  ),
  spreadsheet: setting(
    orNull('a spreadsheet like { "id": "...", "credentials": "..." }, or null', spreadsheet, null),
    null,
    'The Google spreadsheet of bookings; none: a table here.',
  ),
};

export type LabSettings = SettingsOf<typeof labTable>;

export const defaultLabSettings: LabSettings = settingsOf(labTable, new Map());

// ------------------------------------------------------------------------------------------ grants

/** One row of the setting `grants`. A part that is not there limits nothing. */
const grant = record(
  'a grant',
  '{ "accelerator": "v4-16", "chips": 16 }',
  {},
  {
    /** `*` stands for any text. */
    zone: textLike('a zone like "us-east5-b", or with a star "us-*"', isName),
    accelerator: checked(
      'a type like "v4-16", a generation like "v5e", or one with a star',
      (value): value is string => typeof value === 'string' && isName(value) && acceleratorSlip(value) === undefined,
      (value) => (typeof value === 'string' ? acceleratorSlip(value) : undefined),
    ),
    pricing: wordOf('"spot", "ondemand" or "preemptible"', ['spot', 'ondemand', 'preemptible']),
    chips: whole('a whole number from 1 on', 1),
    until: textLike(
      'a day like "2026-12-31", or a moment like "2026-12-31T18:00:00Z"',
      (text) => !Number.isNaN(endOf(text)),
    ),
  },
);

export type Grant = ValueOf<typeof grant>;

/** The type that was most likely meant, when it is certain that no type is called so; undefined for what may be a new one. */
function acceleratorSlip(text: string): string | undefined {
  if (text.includes('*') || generations.some(({ name }) => name === text) || accelerator(text) !== undefined)
    return undefined;
  return acceleratorMeant(text);
}

function isName(text: string): boolean {
  return /^[a-z0-9*-]+$/.test(text);
}

/** The first moment that is not within it any more; NaN for what is neither a day nor a moment. */
export function endOf(until: string): Instant {
  const [, date = '', time] = /^(\d{4}-\d\d-\d\d)(T[\d:.]+(?:Z|[+-]\d\d:\d\d))?$/.exec(until) ?? [];
  const midnight = Date.parse(date);
  // Date.parse takes 30 February for 2 March, and says nothing of it.
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return Number.NaN;
  return time === undefined ? midnight + day : Date.parse(until);
}

// ------------------------------------------------------------------------------------------ all settings

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

export const ownSections: readonly string[] = Object.keys(table);

export function defaultSettings(cores: number): Settings {
  return withValues(cores, new Map());
}

function withValues(cores: number, values: SettingValues): Settings {
  return settingsOf(table, new Map([['local.slots', Math.max(1, cores)], ...values]));
}

export interface SettingsLayer {
  readonly path: string;
  readonly called: string;
  readonly text: string;
}

export interface SettingsFiles {
  readonly home: string;
  /** The template that came with the program, which its owner may have edited; null where there is none. */
  readonly template?: string | null;
  readonly named?: string | undefined;
}

/** Each file is over those before it. Throws JobmanError when the named one is not there, StoreError when one cannot be read. */
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

/** The settings in force. Throws JobmanError with every problem, each with its place; StoreError for an unreadable file. */
export async function loadSettings(
  given: SettingsFiles & {
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly cores: number;
  },
): Promise<Settings> {
  const values = [...(await valuesSet(given))].map(([key, { value }]) => [key, value] as const);
  return withValues(given.cores, new Map(values));
}

/** The source of each key's value: a variable, a file or `default`. Throws what `loadSettings` throws. */
export async function settingSources(given: Parameters<typeof valuesSet>[0]): Promise<ReadonlyMap<string, string>> {
  const values = await valuesSet(given);
  return new Map(settingKeys.map(({ key }) => [key, values.get(key)?.source ?? 'default']));
}

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

function fromEnvironment({ kind }: SettingKey, said: string): unknown {
  const place: Place = { in: 'set', set: said };
  const value = kind.isText === true ? said : Number(said);
  return kind.read({ kind: 'scalar', value, source: said, place }, [], newFindings());
}

export async function readOptional(path: string): Promise<string | undefined> {
  try {
    // At once: the other way loads a part of Node and starts its threads, for a file of a page.
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw fileError(path, error);
  }
}

export function settingsIn(text: string, path: string): Promise<SettingValues> {
  return valuesIn(text, path, table, clusterSections);
}

/** The values of a text for one of the tables; `elsewhere` are the sections of the other. Throws JobmanError with every problem. */
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
