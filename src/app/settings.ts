// Settings: `$JOBMAN_HOME/settings.json` and the environment, over the defaults. change-settings.ts writes the file.
//
// The same files hold the settings of Kubernetes jobs, in a separate table (cluster/settings.ts): a mistake there must
// not affect commands for TPUs.

import { join, resolve } from 'node:path';
import { projectIdPattern } from '../core/model/spec.ts';
import { minute } from '../core/model/time.ts';
import { grantEnd } from '../core/policy/grants.ts';
import { formatJsonProblems } from '../schema/json.ts';
import {
  urlOrNull,
  listOf,
  textOrNull,
  bool,
  int,
  milliseconds,
  port,
  isHttpUrl,
  isNonEmpty,
  orNull,
  objectOf,
  textWhere,
  textOrNullWhere,
  refined,
  reportProblem,
  reportWrongKind,
  kindWhere,
  type Kind,
  enumOf,
} from '../schema/kinds.ts';
import { formatPath, newFindings, type FoundProblem, type SourcePosition } from '../schema/problems.ts';
import { toPlainValue } from '../schema/tree.ts';
import {
  keysOfTable,
  readSettings,
  defineSetting,
  settingsOf,
  type SettingKey,
  type SettingsOf,
  type SettingsRule,
  type SettingsTable,
  type SettingValues,
} from '../schema/settings.ts';
import { exitCode, JobmanError } from './errors.ts';
import { databaseVariable, isDatabaseUrl } from './database-url.ts';
import { hostsKind, ownGpusRule } from './hosts.ts';
import { oidcKind } from './oidc.ts';
import { notifyTable, recipientsRule } from './notifications/settings.ts';
import { correctRegion, matchesKnownZone, suggestZone } from '../catalogue/zones.ts';
import { findAccelerator, suggestAccelerator, generations } from '../catalogue/accelerators.ts';

// ------------------------------------------------------------------------------------------ the lab

const isUnquoted = (text: string): boolean => /^[^\s'"\\`$;|&<>*?]+$/u.test(text);

/** Refuses a misspelled zone. An unknown one is a warning, because Google adds zones. */
function zoneKind(description: string, form: RegExp): Kind<string> {
  return {
    description,
    isText: true,
    read(tree, path, report) {
      const value = toPlainValue(tree);
      const isForm = typeof value === 'string' && form.test(value);
      const correction = isForm ? correctRegion(value) : typeof value === 'string' ? suggestZone(value) : undefined;
      if (!isForm || correction !== undefined) return reportWrongKind(description, tree, path, report, correction);
      if (!matchesKnownZone(value)) {
        const message = `${JSON.stringify(value)} matches no zone with TPUs that jobman knows`;
        report.warning({ position: tree.position, path: formatPath(path), message, suggestion: suggestZone(value) });
      }
      return value;
    },
  };
}

const zone = zoneKind('a zone like "us-east5-b"', /^[a-z]+-[a-z]+\d+-[a-z]$/);
const zonePattern = zoneKind('a zone like "us-east5-b" or "us-*"', /^(?:[a-z]+-[a-z]+\d+-[a-z]|(?=.*\*)[a-z\d*-]+)$/);

const share = objectOf(
  '{ "source": "10.0.0.2:/home", "target": "/home-nfs" }',
  {
    source: textWhere('an NFS export like "10.0.0.2:/home"', (text) => isUnquoted(text) && /^[^:]+:\/.*$/.test(text)),
    target: textWhere('an absolute path like "/home-nfs"', (text) => isUnquoted(text) && /^\/[^/]/.test(text)),
  },
  {
    zones: listOf('a list of zones, perhaps with a star: ["europe-*"]', zonePattern),
    options: textWhere('options of mount(8) like "vers=3,hard"', (text) => isUnquoted(text) && !text.startsWith('-')),
  },
);

const spreadsheet = objectOf(
  '{ "id": "...", "credentials": "..." }',
  {
    id: textWhere('the id of a spreadsheet: the part of its address after /d/', /^[\w-]+$/),
    credentials: textWhere('the path of the key of a service account', isNonEmpty),
  },
  { tab: textOrNullWhere('the name of a tab, or null', isNonEmpty), endpoint: urlOrNull },
);

/** Paths may begin with `~/` or be relative to `$JOBMAN_HOME`. */
const labTable = {
  zones: defineSetting(listOf('a list of zones like ["us-central2-b"]', zone), [], 'Zones in which the lab has TPUs.'),
  shares: defineSetting(listOf('a list of shares', share), [], 'NFS shares that its TPUs mount, in order.'),
  condaEnvironment: defineSetting(textOrNull, null, 'Conda environment of its scripts.'),
  python: defineSetting(textOrNull, null, 'Absolute path of the Python on the workers, for `tpu check-env`.'),
  wandbKeyFile: defineSetting(textOrNull, null, 'File with the API key of Weights & Biases.', {
    envVariable: 'JOBMAN_WANDB_KEY_FILE',
  }),
  remoteUser: defineSetting(textOrNull, null, 'Login name on the workers; null: your own.'),
  privateKey: defineSetting(
    textOrNull,
    null,
    "Private key for that login; null: jobman's own key, then those of your ssh_config, gcloud and your SSH agent.",
  ),
  namePrefix: defineSetting(textWhere('text'), '', 'Prefix of the names of its TPUs. It is not shown.'),
  stageLimit: defineSetting(
    int(1),
    10,
    'Maximum number of automatic resumes of a job of `tpu run` after losses of its TPU, and separately after failures.',
  ),
  hangGraceMs: defineSetting(
    milliseconds(0),
    5 * minute,
    'A job of `tpu run` is ended after this time without output if its log ends in a failed call between workers.',
  ),
  spreadsheet: defineSetting(
    orNull('a spreadsheet like { "id": "...", "credentials": "..." }, or null', spreadsheet, null),
    null,
    'Google spreadsheet of the bookings; null: a local table.',
  ),
};

export type LabSettings = SettingsOf<typeof labTable>;

// ------------------------------------------------------------------------------------------ grants

const acceleratorPattern = kindWhere(
  'a type like "v4-16", a generation like "v5e", or a pattern like "v4-*"',
  (value): value is string =>
    typeof value === 'string' && isNamePattern(value) && suggestLikelyAccelerator(value) === undefined,
  (value) => (typeof value === 'string' ? suggestLikelyAccelerator(value) : undefined),
);

const dayOrTime = textWhere(
  'a day like "2026-12-31" or a time like "2026-12-31T18:00:00Z"',
  (text) => !Number.isNaN(grantEnd(text)),
);

const grant = refined(
  objectOf(
    '{ "accelerator": "v4-16", "chips": 16 }',
    {},
    {
      zone: zonePattern,
      accelerator: acceleratorPattern,
      pricing: enumOf('"spot", "ondemand" or "preemptible"', ['spot', 'ondemand', 'preemptible']),
      chips: int(1),
      until: dayOrTime,
      budgetUsd: kindWhere(
        'US dollars like 500, more than 0',
        (value): value is number => typeof value === 'number' && value > 0 && Number.isFinite(value),
      ),
      budgetPeriod: enumOf('"day", "week" or "month"', ['day', 'week', 'month']),
    },
  ),
  (value, fail) =>
    value.budgetPeriod !== undefined && value.budgetUsd === undefined
      ? fail('requires "budgetUsd" with "budgetPeriod"')
      : value,
);

// ------------------------------------------------------------------------------------------ prices

const usd = kindWhere(
  'US dollars like 1.25, at least 0',
  (value): value is number => typeof value === 'number' && value >= 0 && Number.isFinite(value),
);

const ownPrice = refined(
  objectOf(
    '{ "accelerator": "v5e", "usdPerChipHour": 0.5 }',
    {},
    {
      accelerator: acceleratorPattern,
      flavor: textWhere('the name of a resource flavor', isNonEmpty),
      host: textWhere('the name of a machine', isNonEmpty),
      zone: zonePattern,
      pricing: enumOf('"spot", "preemptible", "ondemand" or "reserved"', [
        'spot',
        'preemptible',
        'ondemand',
        'reserved',
      ]),
      usdPerHour: usd,
      usdPerChipHour: usd,
      since: dayOrTime,
    },
  ),
  (price, fail) => {
    const { accelerator, flavor, host, zone, pricing, usdPerHour, usdPerChipHour } = price;
    if ([accelerator, flavor, host].filter((one) => one !== undefined).length !== 1)
      return fail('requires exactly one of "accelerator", "flavor" and "host"');
    if ((usdPerHour === undefined) === (usdPerChipHour === undefined))
      return fail('requires exactly one of "usdPerHour" and "usdPerChipHour"');
    if (accelerator === undefined && (zone ?? pricing) !== undefined)
      return fail('allows "zone" and "pricing" only with "accelerator"');
    return host !== undefined && usdPerChipHour !== undefined ? fail('requires "usdPerHour" with "host"') : price;
  },
);

/** The likely correction of a type that cannot exist; undefined for one that may be new. */
function suggestLikelyAccelerator(text: string): string | undefined {
  if (text.includes('*') || generations.some(({ name }) => name === text) || findAccelerator(text) !== undefined)
    return undefined;
  return suggestAccelerator(text);
}

function isNamePattern(text: string): boolean {
  return /^[a-z0-9*-]+$/.test(text);
}

// ------------------------------------------------------------------------------------------ Google's other services

const httpUrl = textWhere('an address like "https://quota.example"', isHttpUrl);

const googleEndpoints = objectOf(
  '{ "quota": "https://quota.example" }',
  {},
  { bigquery: httpUrl, monitoring: httpUrl, quota: httpUrl, resourceManager: httpUrl, storage: httpUrl },
);
/** https://cloud.google.com/bigquery/docs/datasets#dataset-naming; a project may belong to a domain (`example.com:lab`). */
const exportTable = /^(?:[a-z\d.-]+:)?[a-z][a-z\d-]{4,28}[a-z\d]\.\w+\.[\w-]+$/;

const databaseUrl: Kind<string | null> = {
  description: 'a URL like "postgres://USER@HOST/DATABASE", or null',
  isText: true,
  read(tree, path, report) {
    const value = toPlainValue(tree);
    if (value === null || (typeof value === 'string' && isDatabaseUrl(value))) return value;
    // The value may contain a password.
    return reportProblem(tree, path, report, `must be ${this.description}`);
  },
};

// ------------------------------------------------------------------------------------------ the server

const network = textWhere('an address like "10.0.0.5" or a network like "10.0.0.0/24"', isNetwork);

/** A network of all addresses would let every sender choose the address that it claims to have. */
export function isNetwork(text: string): boolean {
  const [, address = '', prefix] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const isVersion6 = address.includes(':');
  const isAddress = isVersion6
    ? URL.canParse(`http://[${address}]`)
    : URL.parse(`http://${address}`)?.hostname === address;
  const bits = isVersion6 ? 128 : 32;
  return isAddress && /^[\da-f.:]+$/i.test(address) && Number(prefix ?? bits) <= bits && Number(prefix ?? bits) > 0;
}

/** Null for a folder. */
export function parseBucketAddress(text: string): { readonly bucket: string; readonly prefix: string } | null {
  const [, bucket, prefix = ''] = /^gs:\/\/([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:\/(.*?))?\/*$/.exec(text) ?? [];
  return bucket === undefined ? null : { bucket, prefix };
}

const dataLocation = textOrNullWhere(
  'a folder, or a bucket like "gs://my-bucket/jobman"',
  (text) => text !== '' && (!/^\w+:\/\//.test(text) || parseBucketAddress(text) !== null),
);

/** `jobman server` reads them when it starts. Paths may begin with `~/` or be relative to `$JOBMAN_HOME`. */
const serverTable = {
  listen: defineSetting(
    textOrNull,
    null,
    'Address at which `jobman server` listens, `HOST:PORT` or a port; see [docs/server.md](server.md).',
  ),
  tls: {
    certificate: defineSetting(textOrNull, null, 'File with the certificate of the server and its chain, in PEM.'),
    key: defineSetting(
      textOrNull,
      null,
      'File with the private key of that certificate, which only the login of the server may read.',
    ),
  },
  secrets_key: defineSetting(
    textOrNull,
    null,
    'Key file with which jobman encrypts secrets in the database; `jobman secret encrypt` sets it.',
  ),
  data: defineSetting(
    dataLocation,
    null,
    'Folder, or bucket `gs://BUCKET/PREFIX`, in which servers share logs and files of jobs; see [docs/postgresql.md](postgresql.md#two-servers).',
  ),
  rate_limit: defineSetting(
    int(0),
    100,
    'Requests per second that one token may send on average. The limit of one address is ten times as high. 0: no limit.',
  ),
  trusted_proxies: defineSetting(
    listOf('a list of addresses and networks', network),
    [],
    'Addresses and networks of the proxies in front of the server. If there are any, the server accepts requests only from them.',
  ),
  oidc: defineSetting(
    orNull('an object like { "issuer": "https://login.example", "client_id": "jobman" }, or null', oidcKind, null),
    null,
    'Identity provider (OpenID Connect) at which people log in; see [docs/login.md](login.md).',
  ),
};

export type ServerSettings = SettingsOf<typeof serverTable>;

// ------------------------------------------------------------------------------------------ all settings

const projectOrNull = textOrNullWhere(
  'a project id like "lab-1234" (lower-case letters, digits and -), or null',
  projectIdPattern,
);

const table = {
  database: defineSetting(
    databaseUrl,
    null,
    'PostgreSQL database, instead of a file in the home; see [docs/postgresql.md](postgresql.md).',
    { envVariable: databaseVariable, isSecret: true },
  ),
  tpu: {
    project: defineSetting(
      projectOrNull,
      null,
      'Google Cloud project of manifests that name none; "emulator" is the TPU emulator.',
    ),
    endpoint: defineSetting(urlOrNull, null, 'Address of another server of the Cloud TPU API.', {
      envVariable: 'JOBMAN_TPU_ENDPOINT',
    }),
    sshPort: defineSetting(port, 22, 'SSH port of the workers.', {
      envVariable: 'JOBMAN_TPU_SSH_PORT',
    }),
    tokenCommand: defineSetting(
      textOrNull,
      null,
      "Command that prints an access token, instead of this machine's Google Cloud login.",
    ),
    forgottenProjects: defineSetting(
      listOf('a list of names', textWhere('a name')),
      [],
      'Projects of finished jobs that `tpus` and `gc` skip; `tpus --forget` adds one.',
    ),
  },
  google: {
    endpoints: defineSetting(
      googleEndpoints,
      {},
      'Addresses of other servers of Google APIs: `bigquery`, `monitoring`, `quota`, `resourceManager`, `storage`. A loopback address needs no login.',
    ),
  },
  local: {
    /** The default is one per GPU or processor; see `defaultSettings`. */
    slots: defineSetting(int(1), 1, 'Maximum number of jobs that run on this machine at the same time.'),
    gpus: defineSetting(int(0), 0, 'Number of GPUs of this machine; its slots share them evenly, as on other hosts.'),
  },
  workdir: {
    maxMiB: defineSetting(
      int(1),
      512,
      'Maximum size of a working directory that a job copies (`job.workdir`), in MiB.',
    ),
  },
  hosts: defineSetting(
    hostsKind,
    {},
    'Your other machines, by name, as `hosts add` writes them. Manifests name them in `hosts`.',
  ),
  controller: {
    idleExitMs: defineSetting(milliseconds(0), 10 * minute, 'The controller exits after this time without work.'),
  },
  passes: {
    days: defineSetting(int(1), 7, 'Days for which the controller keeps recorded passes, for `replay`.'),
    count: defineSetting(int(0), 2_000, 'Maximum number of recorded passes of each job; 0 records none.'),
  },
  terminal: {
    title: defineSetting(bool, true, 'Show in the window title what a command waits for.'),
    bell: defineSetting(bool, true, 'Ring once when a job ends while a terminal waits for it.'),
  },
  grants: defineSetting(
    listOf('a list of grants', grant),
    [],
    'Capacity that jobs may request without a confirmation, and what each user may spend on it; empty: no limit.',
  ),
  prices: defineSetting(
    listOf('a list of prices', ownPrice),
    [],
    'Your own prices, which replace the catalogue: for an accelerator, a resource flavor, or a machine.',
  ),
  notify: notifyTable,
  billing: {
    exportTable: defineSetting(
      textOrNullWhere(
        'a table like "my-project.billing.gcp_billing_export_v1_0A1B2C_D3E4F5_06A7B8", or null',
        exportTable,
      ),
      null,
      'BigQuery table to which Google exports the costs of your billing account: `project.dataset.table`.',
      { envVariable: 'JOBMAN_BILLING_EXPORT_TABLE' },
    ),
    queryProject: defineSetting(
      projectOrNull,
      null,
      'Project that runs the queries of `billing` and pays for them; null: the project of the table.',
    ),
    maxQueryBytes: defineSetting(
      int(10_485_760),
      20_000_000_000,
      'BigQuery refuses a query of `billing` that would read more bytes than this, and charges nothing for it.',
    ),
  },
  server: serverTable,
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

export function defaultSettings(cores: number, values: SettingValues = new Map()): Settings {
  return settingsOf(table, new Map([['local.slots', values.get('local.gpus') || Math.max(1, cores)], ...values]));
}

/** The absolute path of a file that a setting names: `~/key`, or relative to `home`, which is `$JOBMAN_HOME`. */
export function resolveSettingPath(
  path: string,
  { home, userHome }: { readonly home: string; readonly userHome: string },
): string {
  return path === '~' || path.startsWith('~/') ? join(userHome, path.slice(1)) : resolve(home, path);
}

export interface SettingsLayer {
  readonly path: string;
  readonly name: string;
  readonly text: string;
  /** True for the file of the home. */
  readonly isOwn: boolean;
}

export interface SettingsFiles {
  readonly home: string;
  /** The template that came with the program, which its owner may have edited; null without one. */
  readonly template?: string | null;
  readonly explicit?: string | undefined;
}

/** The values in force, and the source of each: a file or a variable. A default is in neither. */
export interface LayeredValues {
  readonly values: SettingValues;
  readonly sources: ReadonlyMap<string, string>;
}

/** `parse` also gets the values of the layers below. */
export async function readLayers(
  layers: readonly SettingsLayer[],
  parse: (layer: SettingsLayer, below: SettingValues) => Promise<SettingValues>,
): Promise<{ readonly values: Map<string, unknown>; readonly sources: Map<string, string> }> {
  const [values, sources] = [new Map<string, unknown>(), new Map<string, string>()];
  for (const layer of layers) {
    for (const [key, value] of await parse(layer, values)) {
      values.set(key, value);
      sources.set(key, layer.name);
    }
  }
  return { values, sources };
}

interface GivenSettings {
  /** Later ones override earlier ones. */
  readonly layers: readonly SettingsLayer[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Throws JobmanError with every problem and its position. */
export async function loadSettings(given: GivenSettings & { readonly cores: number }): Promise<Settings> {
  return defaultSettings(given.cores, (await layeredSettings(given)).values);
}

/** The lines of an error about settings: each mistake with its position. Rethrows other errors. */
export function mistakesOf(error: unknown): readonly string[] {
  if (!(error instanceof JobmanError)) throw error;
  return error.lines.length === 0 ? [error.message] : error.lines;
}

/** Throws like `loadSettings`. */
export async function layeredSettings(given: GivenSettings): Promise<LayeredValues> {
  const { values, sources } = await readLayers(given.layers, async ({ text, path, isOwn }, below) => {
    const parsed = await parseSettings(text, path, below);
    // Commands that need no other setting read only the home's own file.
    if (parsed.has('database') && !isOwn)
      throw new JobmanError(
        `${path} must not set "database". Set it in the settings.json of the home.`,
        exitCode.usage,
      );
    return parsed;
  });
  const problems: string[] = [];
  for (const one of settingKeys) {
    const { envVariable, isSecret = false } = one;
    const text = envVariable === undefined ? '' : (given.env[envVariable] ?? '');
    if (envVariable === undefined || text === '') continue;
    const value = parseVariable(one, text);
    if (value === undefined)
      problems.push(`${envVariable} should be ${one.kind.description}${isSecret ? '' : `, not "${text}"`}.`);
    values.set(one.key, value);
    sources.set(one.key, envVariable);
  }
  const [problem, ...more] = problems;
  if (problem !== undefined) throw new JobmanError(problem, exitCode.usage, more);
  return { values, sources };
}

function parseVariable({ kind }: SettingKey, text: string): unknown {
  const position: SourcePosition = { in: 'set', set: text };
  const value = kind.isText === true ? text : Number(text);
  return kind.read({ kind: 'scalar', value, source: text, position }, [], newFindings());
}

/** `below` are the values of the files below this one. Throws JobmanError with every problem. */
export function parseSettings(text: string, path: string, below: SettingValues = new Map()): Promise<SettingValues> {
  const rules = [recipientsRule(below.get('notify.channels')), ownGpusRule(below)];
  return parseSettingValues(text, path, table, clusterSections, (...file) => rules.forEach((rule) => rule(...file)));
}

/** The doubts about a file, or about one of its keys, each with its position. */
export async function settingsWarnings({ text, path }: SettingsLayer, key = ''): Promise<readonly string[]> {
  const { warnings } = await readSettings(text, table, clusterSections);
  return formatJsonProblems(
    text,
    path,
    warnings.filter((one) => one.path.startsWith(key)),
  );
}

/** `otherSections` belong to the other table of the same file. Throws JobmanError with every problem. */
export async function parseSettingValues(
  text: string,
  path: string,
  table: SettingsTable,
  otherSections: readonly string[],
  rule?: SettingsRule,
): Promise<SettingValues> {
  const settingsError = (message: string, found: readonly FoundProblem[] = []) =>
    new JobmanError(message, exitCode.usage, formatJsonProblems(text, path, found));
  const { values, problems } = await readSettings(text, table, otherSections, rule);
  if (problems.length > 0) throw settingsError(`${path} has invalid settings. Nothing was changed.`, problems);
  if (values === undefined) throw settingsError(`${path} should contain one object like { "local": { "slots": 8 } }.`);
  return values;
}
