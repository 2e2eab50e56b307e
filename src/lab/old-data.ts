// The `data.json` of the earlier program. Its versions differ in names (`staage_dir`, `MONITOR_config`) and forms
// (`start_time` as one text or as one for each time zone). Unreadable parts are reported, never guessed.

import { splitArguments } from '../catalogue/shell.ts';
import type { Instant } from '../core/model/time.ts';
import { acceleratorFromName, isTpuName, type LabTpu, pricingFromName } from './tpus.ts';
import { defaultAliases } from './names.ts';
import type { LabRule } from './run-spec.ts';
import { importSettings, type UserSettings } from './user-settings.ts';

export interface OldData {
  readonly users: readonly OldUser[];
  readonly tpuAliases: ReadonlyMap<string, string>;
  readonly tpus: readonly LabTpu[];
  /** A secret. It may only go into a private file of its owner. */
  readonly wandbKey: string | null;
  readonly condaEnvironment: string | null;
  readonly notes: readonly string[];
}

export interface OldUser {
  readonly name: string;
  readonly id: number | null;
  readonly session: string;
  readonly sheetName: string;
  readonly directories: Readonly<Record<number, string>>;
  readonly aliases: Readonly<Record<string, string>>;
  readonly settings: UserSettings;
  readonly nextWindow: number;
  readonly jobs: readonly OldJob[];
  readonly notes: readonly string[];
}

/** One entry of a job. Each resume has its own entry. */
export interface OldJob {
  readonly window: number | null;
  readonly directory: string;
  readonly directoryNumber: number | null;
  readonly tpu: string;
  readonly tag: string | null;
  readonly logFolder: string | null;
  readonly stageFolder: string | null;
  readonly configs: readonly string[];
  readonly status: OldStatus;
  /** `preempted`, `grpc`, `OOM`, ...; null without an error. */
  readonly error: string | null;
  readonly stage: number;
  readonly monitor: boolean;
  readonly logStage: boolean;
  readonly rule: LabRule | null;
  readonly parent: number | null;
  /** As written in the file, for display; may be empty. */
  readonly startTime: string;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly source: string;
  readonly notes: readonly string[];
}

/** `alive`: the job was running when the file was written. */
type OldStatus = 'succeeded' | 'error' | 'killed' | 'resumed' | 'rerunned' | 'alive' | 'unknown';

export type Json = Readonly<Record<string, unknown>>;

/** Undefined if the value is not such a file: not an object, or without users. */
export function parseOldData(value: unknown): OldData | undefined {
  const data = asObject(value);
  const users = asObject(data?.['users']);
  if (data === undefined || users === undefined) return undefined;
  const notes: string[] = [];
  for (const [key, part] of Object.entries(data)) {
    if (importedKeys.has(key) || isEmpty(part)) continue;
    const why = Object.hasOwn(skippedKeys, key) ? skippedKeys[key] : 'unknown key';
    notes.push(`${key}: ${why}`);
  }
  const found = Object.entries(users).flatMap(([name, user]) => {
    const entry = asObject(user);
    if (entry === undefined) notes.push(`the user "${name}": not an object`);
    return entry === undefined ? [] : [parseUser(name, entry)];
  });
  for (const name of asList(data['user_list'])) {
    const isThere = typeof name === 'string' && found.some((user) => user.name === name);
    if (!isThere) notes.push(`user_list has ${JSON.stringify(name)}, but users does not`);
  }
  const tpuAliases = new Map<string, string>();
  for (const [alias, full] of Object.entries(asObject(data['tpu_aliases']) ?? {})) {
    if (typeof full === 'string' && full.trim() !== '') tpuAliases.set(alias.trim(), full.trim());
    else notes.push(`the TPU alias "${alias}": no TPU name`);
  }
  const tpus = parseTpus(data, tpuAliases, notes);
  return {
    users: found,
    tpuAliases,
    tpus,
    wandbKey: asText(data['wandb_api_key']),
    condaEnvironment: asText(data['conda_env_name']),
    notes,
  };
}

const importedKeys: ReadonlySet<string> = new Set(
  'users user_list id_list id_user_dict user_id_dict tpu_aliases all_tpus pre_info wandb_api_key conda_env_name ack_MONITOR'.split(
    ' ',
  ),
);

const checkedByController = 'not needed: the controller checks jobs by itself';
const skippedKeys: Readonly<Record<string, string>> = {
  monitor_config: checkedByController,
  MONITOR_config: checkedByController,
  monitor_all_check_time: checkedByController,
  MONITOR_logs: 'not needed: each job keeps its history',
};

function parseTpus(data: Json, aliases: ReadonlyMap<string, string>, notes: string[]): readonly LabTpu[] {
  const all = asObject(data['all_tpus']) ?? {};
  const pre = asObject(data['pre_info']) ?? {};
  const preemptible = new Set([...asList(all['preemptible']), ...asList(pre['preemptible'])]);
  const spot = new Set([...asList(all['spot']), ...asList(pre['spot'])]);
  const zones = new Map<string, string | null>();
  for (const [key, names] of Object.entries(all)) {
    if (key === 'preemptible' || key === 'spot') continue;
    if (!/^[a-z]+-[a-z]+\d+-[a-z]$/.test(key)) {
      if (!isEmpty(names)) notes.push(`all_tpus.${key}: not a zone`);
      continue;
    }
    for (const name of asList(names)) {
      // The manual's sample has "..." in its lists.
      if (typeof name !== 'string' || !/[a-z]/i.test(name)) continue;
      const before = zones.get(name);
      if (before !== undefined && before !== null && before !== key) {
        notes.push(`the TPU ${name}: in ${before} and in ${key}; imported in ${before}`);
      } else zones.set(name, key);
    }
  }
  for (const name of [...preemptible, ...spot, ...aliases.values()]) {
    if (typeof name === 'string' && /[a-z]/i.test(name) && !zones.has(name)) zones.set(name, null);
  }
  return [...zones].flatMap(([name, zone]): readonly LabTpu[] => {
    if (!isTpuName(name)) {
      notes.push(`the TPU ${JSON.stringify(name)}: not a TPU name`);
      return [];
    }
    const accelerator = acceleratorFromName(name);
    if (accelerator === null) {
      notes.push(`the TPU ${name}: its name has no type; \`tpu register ${name} type=...\` adds it`);
      return [];
    }
    const pricing = spot.has(name) ? 'spot' : preemptible.has(name) ? 'preemptible' : pricingFromName(name);
    return [{ name, project: null, zone, accelerator, pricing, runtimeVersion: null }];
  });
}

function parseUser(name: string, user: Json): OldUser {
  const notes: string[] = [];
  const directories: Record<number, string> = {};
  for (const [number, folder] of Object.entries(asObject(user['working_dir']) ?? {})) {
    if (/^\d{1,3}$/.test(number) && Number(number) >= 1 && Number(number) <= 100 && asText(folder)?.startsWith('/')) {
      directories[Number(number)] = String(folder).trim();
    } else notes.push(`its directory ${number} is ${JSON.stringify(folder)}: numbers are 1 to 100, paths absolute`);
  }
  const given = asObject(user['config_aliases']);
  const aliases: Record<string, string> = {};
  for (const [alias, key] of Object.entries(given ?? defaultAliases)) {
    if (typeof key === 'string' && key !== '') aliases[alias] = key;
    else notes.push(`its config alias ${alias} is for ${JSON.stringify(key)}, which is not a key`);
  }
  const settings = importSettings(asObject(user['settings']) ?? {});
  notes.push(...settings.notes);
  if (!isEmpty(user['logs'])) notes.push('its logs: not needed, each job keeps its history');
  const jobs = asList(user['job_data']).flatMap((job) => {
    const entry = asObject(job);
    if (entry === undefined) notes.push(`one of its jobs is ${JSON.stringify(job)}, not an object`);
    return entry === undefined ? [] : [parseJob(entry)];
  });
  const offset = asInteger(user['windows_offset']);
  return {
    name: name.normalize('NFC'),
    id: asInteger(user['id']),
    session: asText(user['tmux_name']) ?? name,
    sheetName: asText(user['spreadsheet_name']) ?? name,
    directories,
    aliases,
    settings: settings.settings,
    nextWindow: Math.max(1, offset ?? 1, ...jobs.map(({ window }) => (window ?? 0) + 1)),
    jobs,
    notes,
  };
}

const statuses: Readonly<Record<string, OldStatus>> = {
  finished: 'succeeded',
  error: 'error',
  killed: 'killed',
  resumed: 'resumed',
  rerunned: 'rerunned',
  running: 'alive',
  starting: 'alive',
};

function parseJob(job: Json): OldJob {
  const notes: string[] = [];
  const extra = asObject(job['extra_msgs']) ?? {};
  const rawStatus = job['status'];
  // A resumed job had no status until its script reported its log.
  const status =
    rawStatus === null || rawStatus === undefined ? 'alive' : (statuses[asText(rawStatus) ?? ''] ?? 'unknown');
  if (status === 'unknown') notes.push(`its status is ${JSON.stringify(rawStatus)}`);
  const line = asText(job['extra_configs']) ?? '';
  const args = splitArguments(line);
  if (args === undefined)
    notes.push(`its configs have an unclosed quote and are split at spaces: ${JSON.stringify(line)}`);
  const given = asObject(job['rules']);
  const rule = rules[`${String(given?.['preempted'])} ${String(given?.['grpc'])}`] ?? null;
  if (rule === null && !isEmpty(job['rules'])) notes.push(`its rules are unknown: ${JSON.stringify(job['rules'])}`);
  const tags = asList(job['job_tags']).filter((one) => typeof one === 'string' && one !== '');
  const start = job['start_time'];
  const zones = asObject(start);
  return {
    window: asInteger(job['windows_id']),
    directory: asText(job['job_dir']) ?? '',
    directoryNumber: asInteger(job['job_dir_id']),
    tpu: asText(job['tpu']) ?? '',
    tag: asText(job['job_tags']) ?? (tags.length === 0 ? null : tags.join(',')),
    logFolder: asText(job['log_dir']),
    stageFolder: asText(job['stage_dir']) ?? asText(job['staage_dir']),
    configs: args ?? line.split(/\s+/),
    status,
    error: asText(job['error']),
    stage: asInteger(job['stage']) ?? 0,
    monitor: job['monitor'] !== false,
    logStage: asObject(job['customized_settings'])?.['log_stage'] === true,
    rule,
    parent: asInteger(extra['father']),
    startTime: asText(zones?.['utc'] ?? zones?.['edt'] ?? zones?.['chn'] ?? start) ?? '',
    startedAt: parseTime(start),
    endedAt:
      parseTime({ utc: extra['finish_time_utc'], edt: extra['finish_time_edt'], chn: extra['finish_time_chn'] }) ??
      parseTime(extra['finish_time']),
    source: JSON.stringify(job, null, 2),
    notes,
  };
}

/** The earlier program's reactions, for preempted and then for GRPC. Its `rerun` after a new TPU was a resume. */
const rules: Readonly<Record<string, LabRule>> = {
  'reapply resume': 'pre',
  'pass pass': 'pass',
  'reapply reapply': 'reapply',
  'reapply rerun': 'rerun',
  'pass resume': 'resume',
};

/** `20250420_011026`, or one such text for each of `utc`, `edt` (UTC-4 all year) and `chn`. */
function parseTime(value: unknown): Instant | null {
  const zones = asObject(value);
  if (zones !== undefined) {
    for (const [key, hours] of [
      ['utc', 0],
      ['edt', 4],
      ['chn', -8],
    ] as const) {
      const time = parseTime(zones[key]);
      if (time !== null) return time + hours * 3_600_000;
    }
    return null;
  }
  // A single text is in the machine's local time, and its zone is unknown. Machines in the cloud use UTC.
  const match = /^(\d{4})[-/]?(\d\d)[-/]?(\d\d)[ _T-]?(\d\d):?(\d\d):?(\d\d)/.exec(asText(value) ?? '');
  if (match === null) return null;
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = match.slice(1).map(Number);
  const time = Date.UTC(year, month - 1, day, hour, minute, second);
  return Number.isFinite(time) ? time : null;
}

/** Undefined for a list, null, or any other value. */
export function asObject(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asText(value: unknown): string | null {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
}

/** A whole number from 0, also as a text. */
function asInteger(value: unknown): number | null {
  const text = asText(value);
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
