// Settings: `$JOBMAN_HOME/settings.json` and the environment, over the defaults; and what each key means. Small on
// purpose; a key is added with the feature that reads it. How the file is changed by command: change-settings.ts.
//
// The same files hold the settings of Kubernetes jobs, which have keys of their own: cluster/settings.ts. Whoever has to do
// with TPUs only does not load those, and a slip in them is nothing to them.

import { readFileSync } from 'node:fs';
import { didYouMean } from '../core/did-you-mean.ts';
import { minute } from '../core/time.ts';
import { exitCode, JobmanError } from './errors.ts';
import { fileError } from './file-trouble.ts';
import { acceleratorSlip, grantParts, type Grant } from './grant-parts.ts';
import {
  defaultLabSettings,
  isZoneList,
  shareParts,
  spreadsheetParts,
  zoneSlip,
  type LabSettings,
  type Part,
  type ShareSetting,
  type SpreadsheetSetting,
} from './lab-settings.ts';
import { settingsFile } from './settings-file.ts';
import {
  jsonIn,
  JsonTextError,
  jsonWithoutPlaces,
  plainJson,
  type JsonMember,
  type JsonNode,
  type TextPlace,
} from './json-text.ts';

export interface Settings {
  readonly tpu: {
    /** Used when a manifest names no project. */
    readonly project: string | null;
    /** `http://127.0.0.1:PORT` of a server that speaks the Cloud TPU API; null means Google's. */
    readonly endpoint: string | null;
    /** The port that workers are reached on by SSH. */
    readonly sshPort: number;
    /** A line for /bin/sh that prints an access token; null means this machine's own login to Google Cloud. */
    readonly tokenCommand: string | null;
    /** Projects that `tpus` and `gc` do not read because of finished jobs alone. */
    readonly forgottenProjects: readonly string[];
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
  /** What may be asked of a cloud without a question; none means anything. */
  readonly grants: readonly Grant[];
  /** What is true of the lab whose TPUs the `tpu` command shares. */
  readonly lab: LabSettings;
}

/** What may stand at a key. */
type Kind =
  | 'text or null'
  | 'text'
  | 'address or null'
  | 'port'
  | 'count'
  | 'milliseconds'
  | 'yes or no'
  | 'grants'
  | 'zones'
  | 'names'
  | 'shares'
  | 'spreadsheet';

export interface SettingKey {
  /** `tpu.project`. */
  readonly key: string;
  readonly kind: Kind;
  /** What it does, as a sentence for people. */
  readonly meaning: string;
  /** The variable that overrides the file. */
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
  {
    key: 'tpu.tokenCommand',
    kind: 'text or null',
    meaning: "A command that prints an access token, in place of this machine's own login to Google Cloud.",
  },
  {
    key: 'tpu.forgottenProjects',
    kind: 'names',
    meaning: 'Projects of finished jobs that `tpus` and `gc` no longer ask about; `tpus --forget` adds one.',
  },
  { key: 'local.slots', kind: 'count', meaning: 'How many local jobs run at once on this machine.' },
  {
    key: 'controller.idleExitMs',
    kind: 'milliseconds',
    meaning: 'The controller leaves when nothing has been left to watch for this long.',
  },
  { key: 'terminal.title', kind: 'yes or no', meaning: "The window's title tells what a command waits for." },
  { key: 'terminal.bell', kind: 'yes or no', meaning: 'A job that ends while a terminal waits for it rings once.' },
  { key: 'grants', kind: 'grants', meaning: 'What jobs may ask of a cloud without a question; none: anything.' },
  { key: 'lab.zones', kind: 'zones', meaning: 'The zones in which the lab has TPUs.' },
  { key: 'lab.shares', kind: 'shares', meaning: 'The NFS shares that its TPUs mount, in order.' },
  {
    key: 'lab.condaEnvironment',
    kind: 'text or null',
    meaning: 'The conda environment that its scripts use.',
  },
  {
    key: 'lab.python',
    kind: 'text or null',
    meaning: 'The Python on the workers that `tpu check-env` runs, an absolute path.',
  },
  {
    key: 'lab.wandbKeyFile',
    kind: 'text or null',
    meaning: 'A file that holds the key for Weights & Biases; the key itself is in no setting.',
    variable: 'JOBMAN_WANDB_KEY_FILE',
  },
  { key: 'lab.remoteUser', kind: 'text or null', meaning: 'The login on the workers; none: your own login name.' },
  {
    key: 'lab.privateKey',
    kind: 'text or null',
    meaning:
      "The private key that opens it; none: jobman's own, then those of your ssh_config, of gcloud and of your SSH agent.",
  },
  { key: 'lab.namePrefix', kind: 'text', meaning: 'What all names of its TPUs begin with, and is not shown.' },
  { key: 'lab.stageLimit', kind: 'count', meaning: 'How often the rules resume a job of `tpu run`.' },
  {
    key: 'lab.hangGraceMs',
    kind: 'milliseconds',
    meaning:
      'A job of `tpu run` whose log ends in a failed call between workers is ended after this long without output.',
  },
  { key: 'lab.spreadsheet', kind: 'spreadsheet', meaning: 'The Google spreadsheet of bookings; none: a table here.' },
];

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

type Structured = readonly Grant[] | readonly string[] | readonly ShareSetting[] | SpreadsheetSetting;
type Value = string | number | boolean | null | Structured;

/** The settings when nobody has said anything; `cores` is how many processors this machine has. */
export function defaultSettings(cores: number): Settings {
  return {
    tpu: { project: null, endpoint: null, sshPort: 22, tokenCommand: null, forgottenProjects: [] },
    local: { slots: Math.max(1, cores) },
    controller: { idleExitMs: 10 * minute },
    terminal: { title: true, bell: true },
    grants: [],
    lab: defaultLabSettings,
  };
}

/** A file of settings: the text, and what it is called to people. */
export interface SettingsLayer {
  readonly path: string;
  /** Where a value comes from, in a word: `settings.json`. */
  readonly called: string;
  readonly text: string;
}

/** Which files there are to read. */
export interface SettingsFiles {
  readonly home: string;
  /** The template that came with the program, which its owner may have edited; null where there is none. */
  readonly template?: string | null;
  /** What `--settings` names, absolute. */
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
  const { env, cores } = given;
  const layers = await settingsLayers(given);
  const values = new Map(layers.flatMap(({ text, path }) => [...settingsIn(text, path)]));
  const problems: string[] = [];
  for (const setting of settingKeys) {
    const said = saidIn(env, setting);
    if (said === undefined) continue;
    const value = fromEnvironment(setting, said);
    if (value === undefined)
      problems.push(`${setting.variable} is "${said}", and should be ${kindWords[setting.kind]}.`);
    else values.set(setting.key, value);
  }
  const [problem, ...more] = problems;
  if (problem !== undefined) throw wrong(problem, more);
  return merged(defaultSettings(cores), values);
}

/**
 * Where the value of each key comes from: the variable that overrides the files, `settings.json` or another of them, or
 * `default`. For settings that `loadSettings` took. Throws what it throws of the files. Reads only.
 */
export async function settingSources(
  given: SettingsFiles & { readonly env: Readonly<Record<string, string | undefined>> },
): Promise<ReadonlyMap<string, string>> {
  const layers = await settingsLayers(given);
  const inFiles = new Map(
    layers.flatMap(({ text, path, called }) => [...settingsIn(text, path).keys()].map((key) => [key, called] as const)),
  );
  return new Map(
    settingKeys.map((setting) => {
      const fromFile = inFiles.get(setting.key) ?? 'default';
      return [setting.key, saidIn(given.env, setting) === undefined ? fromFile : (setting.variable ?? fromFile)];
    }),
  );
}

/** What the environment says of it; a variable that is set to nothing says nothing. */
function saidIn(env: Readonly<Record<string, string | undefined>>, { variable }: SettingKey): string | undefined {
  const said = variable === undefined ? undefined : env[variable];
  return said === '' ? undefined : said;
}

/** What a variable's text means for the setting; undefined when it is no value for it. */
function fromEnvironment({ kind }: SettingKey, said: string): Value | undefined {
  const value = kind === 'port' ? Number(said) : said;
  return isSimple(kind) && isOfKind(value, kind) ? value : undefined;
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

// ------------------------------------------------------------------------------------------ what the file says

/** What that text sets. Throws JobmanError with every problem at once; `path` is what the file is called in it. */
export function settingsIn(text: string, path: string): Map<string, Value> {
  const values = new Map<string, Value>();
  readKeys(text, path, { keys: settingKeys.map(({ key }) => key), elsewhere: clusterSections }, (key, node) => {
    const setting = settingKeys.find((one) => one.key === key);
    if (setting === undefined) return [];
    const found = problemsOf(node, setting);
    if (found.length === 0) values.set(key, plainJson(node) as Value);
    return found;
  });
  return values;
}

/** Something that is wrong in a file of settings. */
export interface SettingProblem {
  readonly at: TextPlace;
  readonly says: string;
}

/** The keys that one part of the program reads, and the first words of those that another part does. */
export interface SettingTable {
  readonly keys: readonly string[];
  readonly elsewhere: readonly string[];
}

/**
 * Hands every value of a file of settings to `take` under its full key (`tpu.sshPort`), which answers what is wrong with
 * it; where anything is, it is asked a second time, with the places. Throws JobmanError with every problem of the file at
 * once, each with its place; `path` is what it is called in them.
 */
export function readKeys(
  text: string,
  path: string,
  table: SettingTable,
  take: (key: string, node: JsonNode) => readonly SettingProblem[],
): void {
  // A file that is right, as nearly all are, is read without the places that nobody asks for.
  const plain = jsonWithoutPlaces(text);
  if (plain?.kind === 'object') {
    const problems: SettingProblem[] = [];
    collect(plain.members, '', table, problems, take);
    if (problems.length === 0) return;
  }
  let whole: JsonNode;
  try {
    whole = jsonIn(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw wrong(`${path} is not valid JSON. Nothing was changed.`, [`${placeText(path, error.at)}: ${error.message}`]);
  }
  if (whole.kind !== 'object') throw wrong(`${path} should hold one object, as in { "local": { "slots": 8 } }.`);
  const problems: SettingProblem[] = [];
  collect(whole.members, '', table, problems, take);
  if (problems.length === 0) return;
  throw wrong(
    `${path} holds something that is no setting. Nothing was changed.`,
    problems
      .toSorted(({ at: one }, { at: other }) => one.line - other.line || one.column - other.column)
      .map(({ at, says }) => `${placeText(path, at)}: ${says}`),
  );
}

function placeText(path: string, { line, column }: TextPlace): string {
  return `${path}:${line}:${column}`;
}

/** Every value under its full key: `tpu.sshPort`. A section is an object under a name that has keys below it. */
function collect(
  members: readonly JsonMember[],
  prefix: string,
  table: SettingTable,
  problems: SettingProblem[],
  take: (key: string, node: JsonNode) => readonly SettingProblem[],
): void {
  const { keys, elsewhere } = table;
  for (const member of members) {
    const { name, at, value } = member;
    const key = `${prefix}${name}`;
    const first = members.find((one) => one.name === name);
    if (first !== undefined && first !== member) {
      problems.push({ at, says: `"${key}" stands here again; it is on line ${first.at.line} already` });
    } else if (keys.includes(key)) problems.push(...take(key, value));
    else if (elsewhere.includes(key)) continue;
    else if (!keys.some((one) => one.startsWith(`${key}.`))) problems.push({ at, says: unknownKey(key, table) });
    else if (value.kind === 'object') collect(value.members, `${key}.`, table, problems, take);
    else problems.push({ at: value.at, says: `"${key}" should be a section, as in { "${key}": { ... } }` });
  }
}

function unknownKey(key: string, { keys, elsewhere }: SettingTable): string {
  const sections = keys.map((name) => name.split('.')[0] ?? name);
  // The right name in the wrong section, or in none, is meant for its own.
  const moved = keys.find((name) => name.split('.').at(-1) === key.split('.').at(-1));
  const meant = didYouMean(key, keys) ?? didYouMean(key, [...new Set([...sections, ...elsewhere])]) ?? moved;
  return `there is no setting "${key}"${meantText(meant)}`;
}

function meantText(meant: string | undefined): string {
  return meant === undefined ? '' : `; did you mean "${meant}"?`;
}

/** What is wrong with the value of a setting, each with its own place. */
function problemsOf(node: JsonNode, { key, kind }: SettingKey): readonly SettingProblem[] {
  const value = plainJson(node);
  if (kind === 'grants' && node.kind === 'array') {
    return node.items.flatMap((item, index) =>
      partProblems(item, `${key}[${index}]`, 'a grant', '{ "accelerator": "v4-16", "chips": 16 }', grantRows),
    );
  }
  if (kind === 'shares' && node.kind === 'array') {
    return node.items.flatMap((item, index) =>
      partProblems(
        item,
        `${key}[${index}]`,
        'a share',
        '{ "source": "10.0.0.2:/home", "target": "/home-nfs" }',
        shareParts,
      ),
    );
  }
  if (kind === 'spreadsheet' && node.kind === 'object') {
    return partProblems(node, key, 'a spreadsheet', '{ "id": "...", "credentials": "..." }', spreadsheetParts);
  }
  if (kind === 'names' && Array.isArray(value) && value.every((one) => typeof one === 'string')) return [];
  if (kind === 'zones' ? isZoneList(value) : isSimple(kind) && isOfKind(value, kind)) return [];
  if (kind === 'spreadsheet' && value === null) return [];
  const meant = kind === 'zones' ? zoneSlip(value) : undefined;
  return [
    { at: node.at, says: `"${key}" should be ${kindWords[kind]}, and is ${shortened(value)}${meantText(meant)}` },
  ];
}

/** The parts of a grant limit something each, and none has to be there. */
const grantRows: Readonly<Record<string, Part>> = {
  ...grantParts,
  accelerator: {
    ...grantParts.accelerator,
    meant: (value) => (typeof value === 'string' ? acceleratorSlip(value) : undefined),
  },
};

/** What is wrong with an object of named parts, which is called so and looks like `example`. */
function partProblems(
  node: JsonNode,
  key: string,
  called: string,
  example: string,
  parts: Readonly<Record<string, Part>>,
): readonly SettingProblem[] {
  if (node.kind !== 'object') return [{ at: node.at, says: `"${key}" should be an object like ${example}` }];
  const problems = node.members.flatMap(({ name, at, value }, index): readonly SettingProblem[] => {
    const first = node.members.findIndex((one) => one.name === name);
    if (first < index) return [{ at, says: `"${key}.${name}" stands here again` }];
    const part = Object.hasOwn(parts, name) ? parts[name] : undefined;
    const said = plainJson(value);
    if (part === undefined) {
      const meant = didYouMean(name, Object.keys(parts));
      return [{ at, says: `${called} has no "${name}"${meantText(meant)}` }];
    }
    if (part.isRight(said)) return [];
    const meant = meantText(part.meant?.(said));
    return [{ at: value.at, says: `"${key}.${name}" should be ${part.words}, and is ${shortened(said)}${meant}` }];
  });
  const missing = Object.entries(parts).filter(
    ([name, { isNeeded }]) => isNeeded === true && !node.members.some((one) => one.name === name),
  );
  return [
    ...problems,
    ...missing.map(([name, { words }]) => ({ at: node.at, says: `"${key}" lacks "${name}": ${words}` })),
  ];
}

/** What was written, for a line of a message. */
export function shortened(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}

// ------------------------------------------------------------------------------------------ kinds

const kindWords: Readonly<Record<Kind, string>> = {
  'text or null': 'a text or null',
  text: 'a text',
  'address or null': 'an address like "http://127.0.0.1:8080", or null',
  port: 'a port from 1 to 65535',
  count: 'a whole number from 1 on',
  milliseconds: 'a number of milliseconds from 0 on',
  'yes or no': 'true or false',
  grants: 'a list of grants',
  names: 'a list of names',
  zones: 'a list of zones like ["us-central2-b"]',
  shares: 'a list of shares',
  spreadsheet: 'a spreadsheet like { "id": "...", "credentials": "..." }, or null',
};

/** Kinds of several parts, which have no variable: nobody would write one on a line. */
type StructuredKind = 'grants' | 'names' | 'zones' | 'shares' | 'spreadsheet';

function isSimple(kind: Kind): kind is Exclude<Kind, StructuredKind> {
  return kind !== 'grants' && kind !== 'names' && kind !== 'zones' && kind !== 'shares' && kind !== 'spreadsheet';
}

function isOfKind(value: unknown, kind: Exclude<Kind, StructuredKind>): value is Exclude<Value, Structured> {
  switch (kind) {
    case 'text':
      return typeof value === 'string';
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
  const said = (key: string, value: unknown): unknown => (values.has(key) ? values.get(key) : value);
  const result = Object.fromEntries(
    Object.entries(defaults).map(([name, value]: [string, unknown]) => {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return [name, said(name, value)];
      const keys = Object.entries(value).map(([key, one]: [string, unknown]) => [key, said(`${name}.${key}`, one)]);
      return [name, Object.fromEntries(keys)];
    }),
  );
  // Every value was checked against the kind of its key above, which is the type of its field.
  return result as unknown as Settings;
}

function wrong(message: string, lines: readonly string[] = []): JobmanError {
  return new JobmanError(message, exitCode.usage, lines);
}
