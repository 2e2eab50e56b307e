// Import of the `data.json` of the earlier program. Its versions differ in names (`staage_dir`, `MONITOR_config`) and
// forms (`start_time` as one text or as one for each time zone). Unreadable parts are reported, never guessed. The plan
// depends on the file and on the present data, so the dry run and the import agree, and a second import does nothing.
// Existing data is never overwritten: a known user only gets missing values.

import { isDeepStrictEqual } from 'node:util';
import { splitArguments } from '../catalogue/shell.ts';
import type { JobSpec } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import { JobmanError } from '../app/errors.ts';
import { pluralize, importedPrefix } from '../app/format.ts';
import { defaultAliases, nameProblem, type NamesInUse } from './names.ts';
import { acceleratorFromName, isTpuName, type LabTpu, pricingFromName, tpuFromName } from './tpus.ts';
import { asInteger, asList, asObject, asText, isEmpty, type Json } from './old-data.ts';
import { importedEnd, type ImportedJob } from './imported-job.ts';
import { changedUser, lowestFreeId, type LabUser } from './users.ts';
import { importSettings } from './user-settings.ts';
import type { WindowWithJob, LabJob, LabStore } from './lab-store.ts';
import type { LabChange } from './service.ts';
import { type LabRule, defaultRule } from './run-spec.ts';

export interface OldData {
  readonly file: Json;
  readonly users: Json;
  /** A secret. It may only go into a private file of its owner. */
  readonly wandbKey: string | null;
  readonly condaEnvironment: string | null;
}

/** Undefined if the value is not such a file: not an object, or without users. */
export function parseOldData(value: unknown): OldData | undefined {
  const file = asObject(value);
  const users = asObject(file?.['users']);
  if (file === undefined || users === undefined) return undefined;
  return { file, users, wandbKey: asText(file['wandb_api_key']), condaEnvironment: asText(file['conda_env_name']) };
}

export interface ImportLine {
  /** `import`: new here. `exists`: here already. `skip`: cannot be imported. `note`: imported with a difference. */
  readonly kind: 'import' | 'exists' | 'skip' | 'note';
  readonly subject: string;
  /** A remark, or the reason for a skip. */
  readonly message: string;
}

export interface ImportContext {
  readonly reserved: Pick<NamesInUse, 'verbs' | 'keys'>;
  /** The spec for a resume of the job. Throws JobmanError if the job could not be resumed. */
  readonly specOf: (
    job: Pick<LabJob, 'directory' | 'tag' | 'monitor' | 'configs'> & { readonly tpu: LabTpu; readonly rule: LabRule },
  ) => JobSpec;
  readonly now: Instant;
}

export async function planImport(
  store: LabStore,
  data: OldData,
  context: ImportContext,
): Promise<readonly ImportLine[]> {
  return (await createPlan(store, data, context)).lines;
}

/** Applies the plan in one transaction, and returns its lines. */
export async function applyImport(
  store: LabStore,
  data: OldData,
  context: ImportContext,
): Promise<readonly ImportLine[]> {
  const { lines, changes } = await createPlan(store, data, context);
  await store.applyChanges(changes);
  return lines;
}

interface Plan {
  readonly context: ImportContext;
  readonly lines: ImportLine[];
  readonly changes: LabChange[];
  readonly addLine: (kind: ImportLine['kind'], subject: string, message?: string) => void;
  /** Those of the lab, with the planned ones. */
  readonly users: Map<string, LabUser>;
  readonly tpus: Map<string, LabTpu>;
  readonly windows: readonly WindowWithJob[];
}

async function createPlan(store: LabStore, { file, users: given }: OldData, context: ImportContext): Promise<Plan> {
  const [users, tpus, tpuAliases, windows] = await Promise.all([
    store.users(),
    store.tpus(),
    store.tpuAliases(),
    store.windows({ cleared: true }),
  ]);
  const lines: ImportLine[] = [];
  const plan: Plan = {
    context,
    lines,
    changes: [],
    addLine: (kind, subject, message = '') => void lines.push({ kind, subject, message }),
    users: new Map(users.map((user) => [user.name, user])),
    tpus: new Map(tpus.map((tpu) => [tpu.name, tpu])),
    windows,
  };
  const aliases = readTpuAliases(plan, file);
  planTpus(plan, file, aliases);
  planTpuAliases(plan, aliases, tpuAliases, [...plan.users.keys(), ...Object.keys(given).map(normalize)]);
  const use: NamesInUse = {
    ...context.reserved,
    users: [],
    tpuAliases: new Map([...tpuAliases, ...aliases]),
    tpus: [...plan.tpus.keys()],
  };
  for (const [name, entry] of Object.entries(given)) {
    const user = asObject(entry);
    if (user === undefined) plan.addLine('skip', `the user "${name}"`, 'not an object');
    else planUser(plan, normalize(name), user, use);
  }
  for (const name of asList(file['user_list'])) {
    if (typeof name !== 'string' || asObject(given[name]) === undefined)
      plan.addLine('skip', `user_list has ${JSON.stringify(name)}, but users does not`);
  }
  for (const [key, part] of Object.entries(file)) {
    if (importedKeys.has(key) || isEmpty(part)) continue;
    plan.addLine('skip', key, Object.hasOwn(skippedKeys, key) ? skippedKeys[key] : 'unknown key');
  }
  return plan;
}

function normalize(name: string): string {
  return name.normalize('NFC');
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

// ------------------------------------------------------------------------------------------ TPUs

function readTpuAliases({ addLine }: Plan, file: Json): ReadonlyMap<string, string> {
  const aliases = new Map<string, string>();
  for (const [alias, full] of Object.entries(asObject(file['tpu_aliases']) ?? {})) {
    if (typeof full === 'string' && full.trim() !== '') aliases.set(alias.trim(), full.trim());
    else addLine('skip', `the TPU alias "${alias}"`, 'no TPU name');
  }
  return aliases;
}

function planTpus({ tpus, addLine, changes }: Plan, file: Json, aliases: ReadonlyMap<string, string>): void {
  const all = asObject(file['all_tpus']) ?? {};
  const pre = asObject(file['pre_info']) ?? {};
  const preemptible = new Set([...asList(all['preemptible']), ...asList(pre['preemptible'])]);
  const spot = new Set([...asList(all['spot']), ...asList(pre['spot'])]);
  const zones = new Map<string, string | null>();
  for (const [key, names] of Object.entries(all)) {
    if (key === 'preemptible' || key === 'spot') continue;
    if (!/^[a-z]+-[a-z]+\d+-[a-z]$/.test(key)) {
      if (!isEmpty(names)) addLine('skip', `all_tpus.${key}`, 'not a zone');
      continue;
    }
    for (const name of asList(names)) {
      // The manual's sample has "..." in its lists.
      if (typeof name !== 'string' || !/[a-z]/i.test(name)) continue;
      const before = zones.get(name);
      if (before !== undefined && before !== null && before !== key)
        addLine('skip', `the TPU ${name}`, `in ${before} and in ${key}; imported in ${before}`);
      else zones.set(name, key);
    }
  }
  for (const name of [...preemptible, ...spot, ...aliases.values()])
    if (typeof name === 'string' && /[a-z]/i.test(name) && !zones.has(name)) zones.set(name, null);
  for (const [name, zone] of zones) {
    const accelerator = acceleratorFromName(name);
    if (tpus.has(name)) addLine('exists', `TPU ${name}`);
    else if (!isTpuName(name)) addLine('skip', `the TPU ${JSON.stringify(name)}`, 'not a TPU name');
    else if (accelerator === null)
      addLine('skip', `the TPU ${name}`, `its name has no type; \`tpu register ${name} type=...\` adds it`);
    else {
      const pricing = spot.has(name) ? 'spot' : preemptible.has(name) ? 'preemptible' : pricingFromName(name);
      const tpu: LabTpu = { name, project: null, zone, accelerator, pricing, runtimeVersion: null };
      tpus.set(name, tpu);
      addLine('import', `TPU ${name}`, `${accelerator}, ${pricing}, ${zone ?? 'zone unknown'}`);
      changes.push({ kind: 'change_tpu', name, change: { kind: 'add', tpu } });
    }
  }
}

function planTpuAliases(
  { tpus, addLine, changes, context }: Plan,
  aliases: ReadonlyMap<string, string>,
  present: ReadonlyMap<string, string>,
  users: readonly string[],
): void {
  for (const [alias, name] of aliases) {
    const what = `TPU alias ${alias}`;
    const here = present.get(alias);
    const problem = nameProblem('TPU alias', alias, { ...context.reserved, users, tpuAliases: new Map(), tpus: [] });
    if (here === name) addLine('exists', what);
    else if (here !== undefined) addLine('skip', what, `it is an alias of ${here} here, and of ${name} in the file`);
    else if (problem !== null) addLine('skip', what, problem);
    else if (!isTpuName(name)) addLine('skip', what, `${JSON.stringify(name)} is not a TPU name`);
    else {
      addLine('import', what, `${name}${tpus.has(name) ? '' : ', which is not registered'}`);
      changes.push({ kind: 'set_tpu_alias', alias, name });
    }
  }
}

// ------------------------------------------------------------------------------------------ users

interface OldUser extends Pick<LabUser, 'directories' | 'aliases' | 'settings' | 'sheetName' | 'nextWindow'> {
  readonly jobs: readonly OldJob[];
  readonly notes: readonly string[];
}

function planUser(plan: Plan, name: string, entry: Json, use: NamesInUse): void {
  const { addLine, changes, users } = plan;
  const what = `user ${name}`;
  const old = readUser(plan, name, entry, use);
  const here = users.get(name);
  const problem = here === undefined ? nameProblem('user', name, { ...use, users: [...users.keys()] }) : null;
  if (problem !== null) {
    addLine('skip', what, problem);
    if (old.jobs.length > 0)
      addLine('skip', `jobs of ${name}`, `${pluralize(old.jobs.length, 'job')}: their user is not imported`);
    return;
  }
  const user = here === undefined ? newUser(plan, name, entry, old, use) : fillMissing(here, old);
  users.set(name, user);
  if (here === user) addLine('exists', what);
  else if (here !== undefined) {
    addLine('import', what, 'missing directories, aliases or the number of the next window');
    changes.push({ kind: 'change_user', name, change: { kind: 'fill', from: old } });
  }
  planJobs(plan, user, old.jobs);
}

function readUser({ addLine }: Plan, name: string, entry: Json, use: NamesInUse): OldUser {
  const notes: string[] = [];
  const directories: Record<number, string> = {};
  for (const [number, folder] of Object.entries(asObject(entry['working_dir']) ?? {})) {
    if (/^\d{1,3}$/.test(number) && Number(number) >= 1 && Number(number) <= 100 && asText(folder)?.startsWith('/')) {
      directories[Number(number)] = String(folder).trim();
    } else notes.push(`its directory ${number} is ${JSON.stringify(folder)}: numbers are 1 to 100, paths absolute`);
  }
  const aliases: Record<string, string> = {};
  for (const [alias, key] of Object.entries(asObject(entry['config_aliases']) ?? defaultAliases)) {
    const problem = nameProblem('config alias', alias, use);
    if (typeof key !== 'string' || key === '')
      notes.push(`its config alias ${alias} is for ${JSON.stringify(key)}, which is not a key`);
    else if (problem === null) aliases[alias] = key;
    else addLine('skip', `config alias ${alias} of ${name}`, problem);
  }
  const { settings, notes: changed } = importSettings(asObject(entry['settings']) ?? {});
  notes.push(...changed);
  if (!isEmpty(entry['logs'])) notes.push('its logs: not needed, each job keeps its history');
  const jobs = asList(entry['job_data']).flatMap((one) => {
    const job = asObject(one);
    if (job === undefined) notes.push(`one of its jobs is ${JSON.stringify(one)}, not an object`);
    return job === undefined ? [] : [readJob(job)];
  });
  const offset = asInteger(entry['windows_offset']) ?? 1;
  const nextWindow = Math.max(1, offset, ...jobs.map(({ window }) => (window ?? 0) + 1));
  return {
    directories,
    aliases,
    settings,
    sheetName: asText(entry['spreadsheet_name']) ?? name,
    nextWindow,
    jobs,
    notes,
  };
}

function newUser(
  { addLine, changes, context, users }: Plan,
  name: string,
  entry: Json,
  { jobs: _jobs, notes, ...fields }: OldUser,
  use: NamesInUse,
): LabUser {
  const what = `user ${name}`;
  const others = [...users.values()];
  const wantedId = asInteger(entry['id']);
  const id = wantedId === null || others.some((other) => other.id === wantedId) ? lowestFreeId(others) : wantedId;
  const wanted = asText(entry['tmux_name']) ?? name;
  const sessionProblem = nameProblem('session', toSessionName(wanted), use);
  const session = freeSession(sessionProblem === null ? wanted : `user-${id}`, others);
  const user: LabUser = {
    ...fields,
    name,
    id,
    role: 'member',
    session,
    logins: [],
    createdAt: context.now,
    newsSeen: 0,
  };
  const counts = [
    `id ${id}`,
    pluralize(Object.keys(user.directories).length, 'directory', 'directories'),
    pluralize(Object.keys(user.aliases).length, 'alias', 'aliases'),
    `next window ${user.nextWindow}`,
  ];
  addLine('import', what, counts.join(', '));
  if (wantedId !== id)
    addLine('note', what, wantedId === null ? `new id: ${id}` : `new id: ${id}, because ${wantedId} is in use`);
  if (sessionProblem !== null) addLine('note', what, `new tmux session: "${session}". ${sessionProblem}`);
  else if (session !== wanted) addLine('note', what, `new tmux session: "${session}", because "${wanted}" is in use`);
  for (const note of notes) addLine('note', what, note);
  changes.push({ kind: 'add_user', user });
  return user;
}

function fillMissing(user: LabUser, { directories, aliases, nextWindow }: OldUser): LabUser {
  const filled = changedUser(user, { kind: 'fill', from: { directories, aliases, nextWindow } });
  return isDeepStrictEqual(filled, user) ? user : filled;
}

/** tmux reserves both characters and replaces them with `_`. */
function toSessionName(wanted: string): string {
  return wanted.replaceAll(/[.:]/g, '_').normalize('NFC');
}

function freeSession(wanted: string, users: readonly LabUser[]): string {
  const name = toSessionName(wanted);
  const taken = (one: string): boolean => users.some(({ session }) => session === one);
  let free = name;
  for (let count = 2; taken(free); count += 1) free = `${name}-${count}`;
  return free;
}

// ------------------------------------------------------------------------------------------ jobs

/** `alive`: the job was running when the file was written. */
type OldStatus = 'succeeded' | 'error' | 'killed' | 'resumed' | 'rerunned' | 'alive' | 'unknown';

const statuses: Readonly<Record<string, OldStatus>> = {
  finished: 'succeeded',
  error: 'error',
  killed: 'killed',
  resumed: 'resumed',
  rerunned: 'rerunned',
  running: 'alive',
  starting: 'alive',
};

type OldJob = ReturnType<typeof readJob>;

/** One entry of a job. Each resume has its own entry. */
function readJob(job: Json) {
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
    lab: {
      directory: asText(job['job_dir']) ?? '',
      directoryNumber: asInteger(job['job_dir_id']),
      tpu: asText(job['tpu']) ?? '',
      tag: asText(job['job_tags']) ?? (tags.length === 0 ? null : tags.join(',')),
      configs: args ?? line.split(/\s+/),
      monitor: job['monitor'] !== false,
      logStage: asObject(job['customized_settings'])?.['log_stage'] === true,
      baseStage: asInteger(job['stage']) ?? 0,
    },
    logFolder: asText(job['log_dir']),
    stageFolder: asText(job['stage_dir']) ?? asText(job['staage_dir']),
    status,
    /** `preempted`, `grpc`, `OOM`, ...; null without an error. */
    error: asText(job['error']),
    rule,
    parent: asInteger(extra['father']),
    /** As written in the file, for display; may be empty. */
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

function planJobs(plan: Plan, user: LabUser, jobs: readonly OldJob[]): void {
  const { windows, addLine, changes } = plan;
  const own = windows.filter(({ window }) => window.user === user.name);
  const shown = new Set(own.filter(({ window }) => window.clearedAt === null).map(({ window }) => window.window));
  /** Ids of present jobs, and positions of the changes that add the others. */
  const known = new Map<OldJob, string | number>();
  /** A job without a start time began after the job before it. */
  let last: Instant | null = null;
  for (const [index, job] of jobs.entries()) {
    if (job.window === null) {
      addLine('skip', `job ${index + 1} of ${user.name}`, 'it has no window number, which identifies a job');
      continue;
    }
    const what = `window ${job.window} of ${user.name}`;
    const here = own.find((one) => isSameJob(one, job));
    if (here !== undefined) {
      known.set(job, here.job.job);
      addLine('exists', what);
      continue;
    }
    last = job.startedAt ?? job.endedAt ?? last;
    const imported = importedJobOf(plan, user, { ...job, startedAt: last, window: job.window });
    if (typeof imported === 'string') {
      addLine('skip', what, imported);
      continue;
    }
    // If two jobs have one number, users see the window of the later one.
    const isLast = !jobs.slice(index + 1).some((other) => other.window === job.window);
    const isFree = isLast && !shown.has(job.window);
    if (isFree) shown.add(job.window);
    const parent = parentOf(jobs, index);
    addLine(
      'import',
      what,
      `${formatStatus(job)}, ${job.lab.tpu}${job.lab.baseStage === 0 ? '' : `, stage ${job.lab.baseStage}`}`,
    );
    if (job.status === 'alive') addLine('note', what, stillRunningNote);
    if (!isFree) addLine('note', what, 'not on the list: another window has this number');
    if (job.parent !== null && parent === undefined)
      addLine('note', what, `imported without its parent, window ${job.parent}, which is not in the file`);
    for (const note of job.notes) addLine('note', what, note);
    const found = parent === undefined ? undefined : known.get(parent);
    const startMode = parent?.status === 'rerunned' ? 'rerun' : 'resume';
    known.set(job, changes.length);
    changes.push({
      kind: 'add_job',
      job: {
        ...imported,
        lab: { ...imported.lab, parent: typeof found === 'string' ? { job: found, attempt: 1, startMode } : null },
        window: { ...imported.window, cleared: !isFree },
      },
      ...(typeof found === 'number' && { parent: { change: found, startMode } }),
    });
  }
}

const stillRunningNote = 'it was running; imported as stopped. Its program may still run, and jobman does not watch it';

function isSameJob({ window }: WindowWithJob, job: OldJob): boolean {
  return (
    window.window === job.window &&
    (window.report?.logFolder ?? null) === job.logFolder &&
    (job.startedAt === null || window.openedAt === job.startedAt)
  );
}

function parentOf(jobs: readonly OldJob[], index: number): OldJob | undefined {
  const window = jobs[index]?.parent ?? null;
  return window === null ? undefined : jobs.slice(0, index).findLast((one) => one.window === window);
}

/** The reason as text if it cannot be imported. */
function importedJobOf(
  { tpus, context: { specOf, now } }: Plan,
  user: LabUser,
  job: OldJob & { readonly window: number },
): (ImportedJob & { readonly [Part in 'lab' | 'window']: NonNullable<ImportedJob[Part]> }) | string {
  const { lab, logFolder, stageFolder, startTime } = job;
  if (lab.tpu === '') return 'it has no TPU';
  const tpu = tpus.get(lab.tpu) ?? tpuFromName(lab.tpu);
  if (tpu === null)
    return `the type of its TPU ${lab.tpu} is unknown; register the TPU (\`tpu register\`) and import again`;
  let spec: JobSpec;
  try {
    spec = specOf({ ...lab, tpu, rule: job.rule ?? defaultRule(tpu) });
  } catch (error) {
    if (error instanceof JobmanError) return [error.message, ...error.lines].join(' ').replaceAll(/ {2,}/g, ', ');
    throw error;
  }
  const createdAt = job.startedAt ?? now;
  // A job that was still running ends at the time of the import.
  const wasRunning = job.status === 'alive' || job.status === 'unknown';
  const endedAt = Math.max(createdAt, job.endedAt ?? (wasRunning ? now : createdAt));
  const report =
    logFolder === null
      ? null
      : { logFolder, stageFolder: stageFolder ?? lab.directory, tpu: lab.tpu, startTime, at: createdAt };
  return {
    owner: user.name,
    spec,
    manifest: job.source,
    createdAt,
    startedAt: report === null ? null : createdAt,
    endedAt,
    ...outcomeOf(job),
    lab: { ...lab, parent: null },
    window: {
      session: user.session,
      window: job.window,
      report,
      finishedAt: job.status === 'succeeded' ? endedAt : null,
      cleared: false,
    },
  };
}

function outcomeOf({ status, error }: OldJob): ReturnType<typeof importedEnd> {
  switch (status) {
    case 'succeeded':
      return importedEnd('succeeded', 'succeeded', 'succeeded before the import');
    case 'killed':
      return importedEnd('cancelled', 'stopped', 'killed before the import');
    case 'alive':
    case 'unknown':
      // This prefix prevents messages that the owner stopped the job.
      return importedEnd(
        'stopped',
        'stopped',
        `${importedPrefix}, ${status === 'alive' ? 'was running' : 'end unknown'}`,
      );
    case 'error':
    case 'resumed':
    case 'rerunned': {
      const message = `failed before the import${error === null ? '' : `: ${error}`}`;
      if (/preempt/i.test(error ?? '')) return importedEnd('failed', 'preempted', message);
      return importedEnd('failed', 'command_failed', message, patternOf(error ?? ''));
    }
  }
}

const patterns = [
  [/grpc/i, 'grpc'],
  [/lock/i, 'busy'],
  [/oom/i, 'out_of_memory'],
  [/file/i, 'file_missing'],
  [/deadline/i, 'deadline'],
  [/pointer/i, 'invalid_pointer'],
] as const;

function patternOf(error: string): string | undefined {
  return patterns.find(([expression]) => expression.test(error))?.[1];
}

function formatStatus({ status, error }: OldJob): string {
  if (status === 'alive') return 'running';
  return error === null || status !== 'error' ? status : `error (${error})`;
}
