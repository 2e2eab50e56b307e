// Old data: the `data.json` of the program before this one, read as people left it: its versions did not agree on names
// (`staage_dir`, `MONITOR_config`) or forms (`start_time` as one text or one for each time zone). What cannot be read is reported,
// never guessed.

import type { Instant } from '../core/time.ts';
import { acceleratorIn, isTpuName, type LabTpu, pricingIn } from './tpus.ts';
import { defaultAliases } from './names.ts';
import type { LabRule } from './run.ts';
import { takenSettings, type UserSettings } from './user-settings.ts';

export interface OldData {
  readonly users: readonly OldUser[];
  readonly tpuAliases: ReadonlyMap<string, string>;
  readonly tpus: readonly LabTpu[];
  /** A secret: for a file of its owner's, and nowhere else. */
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

/** One record of a job: each resume has one of its own there. */
export interface OldJob {
  /** Null where it has none that is a number. */
  readonly window: number | null;
  readonly directory: string;
  readonly directoryNumber: number | null;
  readonly tpu: string;
  readonly tag: string | null;
  readonly logFolder: string | null;
  readonly stageFolder: string | null;
  /** Words for staging.sh, as a shell would have split them. */
  readonly configs: readonly string[];
  readonly status: OldStatus;
  /** `preempted`, `grpc`, `OOM`, ...; null where none was told. */
  readonly error: string | null;
  readonly stage: number;
  readonly monitor: boolean;
  readonly logStage: boolean;
  /** One of our rules; null where it says none that is one. */
  readonly rule: LabRule | null;
  readonly father: number | null;
  /** As it was written, for people; empty where there is none. */
  readonly startTime: string;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly text: string;
  readonly notes: readonly string[];
}

/** `alive`: it was going on when the file was written. */
type OldStatus = 'finished' | 'error' | 'killed' | 'resumed' | 'rerunned' | 'alive' | 'unknown';

type Json = Readonly<Record<string, unknown>>;

/** Reads such a file. Undefined when it is none: it is no object, or has no users. */
export function oldDataIn(value: unknown): OldData | undefined {
  const data = recordIn(value);
  const users = recordIn(data?.['users']);
  if (data === undefined || users === undefined) return undefined;
  const notes: string[] = [];
  for (const [key, part] of Object.entries(data)) {
    if (takenParts.has(key) || isEmpty(part)) continue;
    const why = Object.hasOwn(leftOut, key) ? leftOut[key] : 'nobody here knows what it is for';
    notes.push(`${key}: ${why}`);
  }
  const found = Object.entries(users).flatMap(([name, user]) => {
    const record = recordIn(user);
    if (record === undefined) notes.push(`the user "${name}": what is said of it is no record`);
    return record === undefined ? [] : [userIn(name, record)];
  });
  for (const name of listIn(data['user_list'])) {
    const isThere = typeof name === 'string' && found.some((user) => user.name === name);
    if (!isThere) notes.push(`user_list names ${JSON.stringify(name)}, of whom nothing else is said`);
  }
  const tpuAliases = new Map<string, string>();
  for (const [alias, full] of Object.entries(recordIn(data['tpu_aliases']) ?? {})) {
    if (typeof full === 'string' && full.trim() !== '') tpuAliases.set(alias.trim(), full.trim());
    else notes.push(`the TPU alias "${alias}": it means no name`);
  }
  const tpus = tpusIn(data, tpuAliases, notes);
  return {
    users: found,
    tpuAliases,
    tpus,
    wandbKey: textIn(data['wandb_api_key']),
    condaEnvironment: textIn(data['conda_env_name']),
    notes,
  };
}

/** The parts of the file that are taken over, or are told again by another part. */
const takenParts: ReadonlySet<string> = new Set(
  'users user_list id_list id_user_dict user_id_dict tpu_aliases all_tpus pre_info wandb_api_key conda_env_name ack_MONITOR'.split(
    ' ',
  ),
);

const looksByItself = 'the controller looks by itself, and at once';
const leftOut: Readonly<Record<string, string>> = {
  monitor_config: looksByItself,
  MONITOR_config: looksByItself,
  monitor_all_check_time: looksByItself,
  MONITOR_logs: 'the history of each job is kept with it here',
};

function tpusIn(data: Json, aliases: ReadonlyMap<string, string>, notes: string[]): readonly LabTpu[] {
  const all = recordIn(data['all_tpus']) ?? {};
  const pre = recordIn(data['pre_info']) ?? {};
  const preemptible = new Set([...listIn(all['preemptible']), ...listIn(pre['preemptible'])]);
  const spot = new Set([...listIn(all['spot']), ...listIn(pre['spot'])]);
  const zones = new Map<string, string | null>();
  for (const [key, names] of Object.entries(all)) {
    if (key === 'preemptible' || key === 'spot') continue;
    if (!/^[a-z]+-[a-z]+\d+-[a-z]$/.test(key)) {
      if (!isEmpty(names)) notes.push(`all_tpus.${key}: it is no zone`);
      continue;
    }
    for (const name of listIn(names)) {
      // The sample of the manual has "..." in its lists.
      if (typeof name !== 'string' || !/[a-z]/i.test(name)) continue;
      const before = zones.get(name);
      if (before !== undefined && before !== null && before !== key) {
        notes.push(`the TPU ${name}: it is in ${before} and in ${key}; taken as in ${before}`);
      } else zones.set(name, key);
    }
  }
  for (const name of [...preemptible, ...spot, ...aliases.values()]) {
    if (typeof name === 'string' && /[a-z]/i.test(name) && !zones.has(name)) zones.set(name, null);
  }
  return [...zones].flatMap(([name, zone]): readonly LabTpu[] => {
    if (!isTpuName(name)) {
      notes.push(`the TPU ${JSON.stringify(name)}: no TPU can have that name`);
      return [];
    }
    const accelerator = acceleratorIn(name);
    if (accelerator === null) {
      notes.push(`the TPU ${name}: its name does not tell its type; \`tpu register ${name} type=...\` does`);
      return [];
    }
    const pricing = spot.has(name) ? 'spot' : preemptible.has(name) ? 'preemptible' : pricingIn(name);
    return [{ name, project: null, zone, accelerator, pricing, runtimeVersion: null }];
  });
}

function userIn(name: string, user: Json): OldUser {
  const notes: string[] = [];
  const directories: Record<number, string> = {};
  for (const [number, folder] of Object.entries(recordIn(user['working_dir']) ?? {})) {
    if (/^\d{1,3}$/.test(number) && Number(number) >= 1 && Number(number) <= 100 && textIn(folder)?.startsWith('/')) {
      directories[Number(number)] = String(folder).trim();
    } else notes.push(`its directory ${number} is ${JSON.stringify(folder)}: numbers are 1 to 100, paths absolute`);
  }
  const given = recordIn(user['config_aliases']);
  const aliases: Record<string, string> = {};
  for (const [alias, key] of Object.entries(given ?? defaultAliases)) {
    if (typeof key === 'string' && key !== '') aliases[alias] = key;
    else notes.push(`its config alias ${alias} means ${JSON.stringify(key)}, which is no key`);
  }
  const settings = takenSettings(recordIn(user['settings']) ?? {});
  notes.push(...settings.notes);
  if (!isEmpty(user['logs'])) notes.push('its logs: what happens to jobs is kept with them here');
  const jobs = listIn(user['job_data']).flatMap((job) => {
    const record = recordIn(job);
    if (record === undefined) notes.push(`one of its jobs is ${JSON.stringify(job)}, and no record`);
    return record === undefined ? [] : [jobIn(record)];
  });
  const offset = numberIn(user['windows_offset']);
  return {
    name: name.normalize('NFC'),
    id: numberIn(user['id']),
    session: textIn(user['tmux_name']) ?? name,
    sheetName: textIn(user['spreadsheet_name']) ?? name,
    directories,
    aliases,
    settings: settings.settings,
    nextWindow: Math.max(1, offset ?? 1, ...jobs.map(({ window }) => (window ?? 0) + 1)),
    jobs,
    notes,
  };
}

const statuses: Readonly<Record<string, OldStatus>> = {
  finished: 'finished',
  error: 'error',
  killed: 'killed',
  resumed: 'resumed',
  rerunned: 'rerunned',
  running: 'alive',
  starting: 'alive',
};

function jobIn(job: Json): OldJob {
  const notes: string[] = [];
  const extra = recordIn(job['extra_msgs']) ?? {};
  const said = job['status'];
  // A resumed job had no status until its script told where its log is.
  const status = said === null || said === undefined ? 'alive' : (statuses[textIn(said) ?? ''] ?? 'unknown');
  if (status === 'unknown') notes.push(`its status is ${JSON.stringify(said)}`);
  const { words, problem } = wordsIn(textIn(job['extra_configs']) ?? '');
  if (problem !== null) notes.push(problem);
  const given = recordIn(job['rules']);
  const rule = rules[`${String(given?.['preempted'])} ${String(given?.['grpc'])}`] ?? null;
  if (rule === null && !isEmpty(job['rules'])) notes.push(`its rules ${JSON.stringify(job['rules'])} are none of ours`);
  const tags = listIn(job['job_tags']).filter((one) => typeof one === 'string' && one !== '');
  const start = job['start_time'];
  return {
    window: numberIn(job['windows_id']),
    directory: textIn(job['job_dir']) ?? '',
    directoryNumber: numberIn(job['job_dir_id']),
    tpu: textIn(job['tpu']) ?? '',
    tag: textIn(job['job_tags']) ?? (tags.length === 0 ? null : tags.join(',')),
    logFolder: textIn(job['log_dir']),
    stageFolder: textIn(job['stage_dir']) ?? textIn(job['staage_dir']),
    configs: words,
    status,
    error: textIn(job['error']),
    stage: numberIn(job['stage']) ?? 0,
    monitor: job['monitor'] !== false,
    logStage: recordIn(job['customized_settings'])?.['log_stage'] === true,
    rule,
    father: numberIn(extra['father']),
    startTime: startText(start),
    startedAt: momentIn(start),
    endedAt:
      momentIn({ utc: extra['finish_time_utc'], edt: extra['finish_time_edt'], chn: extra['finish_time_chn'] }) ??
      momentIn(extra['finish_time']),
    text: JSON.stringify(job, null, 2),
    notes,
  };
}

/** Tables of what each rule did there: preempted, then GRPC. `rerun` resumed after a new allocation, whatever it was called. */
const rules: Readonly<Record<string, LabRule>> = {
  'reapply resume': 'pre',
  'pass pass': 'pass',
  'reapply reapply': 'reapply',
  'reapply rerun': 'rerun',
  'pass resume': 'resume',
};

/** `20250420_011026`, or one such text for each of `utc`, `edt` (UTC-4 the year round) and `chn`. */
function momentIn(value: unknown): Instant | null {
  const zones = recordIn(value);
  if (zones !== undefined) {
    for (const [key, hours] of [
      ['utc', 0],
      ['edt', 4],
      ['chn', -8],
    ] as const) {
      const moment = momentIn(zones[key]);
      if (moment !== null) return moment + hours * 3_600_000;
    }
    return null;
  }
  // The text alone was the machine's own clock, whose zone nobody knows any more: machines in the cloud keep UTC.
  const match = /^(\d{4})[-/]?(\d\d)[-/]?(\d\d)[ _T-]?(\d\d):?(\d\d):?(\d\d)/.exec(textIn(value) ?? '');
  if (match === null) return null;
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = match.slice(1).map(Number);
  const moment = Date.UTC(year, month - 1, day, hour, minute, second);
  return Number.isFinite(moment) ? moment : null;
}

function startText(value: unknown): string {
  const zones = recordIn(value);
  return textIn(zones?.['utc'] ?? zones?.['edt'] ?? zones?.['chn'] ?? value) ?? '';
}

/** The words of a line as a shell splits them, without any other of its doings: quotes and backslashes only. */
function wordsIn(line: string): { readonly words: readonly string[]; readonly problem: string | null } {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let at = 0; at < line.length; at += 1) {
    const sign = line.charAt(at);
    if (quote === '' && /\s/.test(sign)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else if (quote === '' && (sign === "'" || sign === '"')) {
      quote = sign;
      word ??= '';
    } else if (sign === quote) quote = '';
    else if (sign === '\\' && (quote === '' || (quote === '"' && /["\\$`]/.test(line.charAt(at + 1))))) {
      at += 1;
      word = (word ?? '') + line.charAt(at);
    } else word = (word ?? '') + sign;
  }
  if (word !== undefined) words.push(word);
  if (quote === '') return { words, problem: null };
  return {
    words: line.split(/\s+/).filter((one) => one !== ''),
    problem: `its configs ${JSON.stringify(line)} have a quote that does not end; taken as they stand`,
  };
}

function recordIn(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}

function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textIn(value: unknown): string | null {
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
}

/** A whole number from 0, also one that was written as a text. */
function numberIn(value: unknown): number | null {
  const text = typeof value === 'number' ? String(value) : textIn(value);
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
