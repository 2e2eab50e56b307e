// Import of the earlier program's data. The plan depends on the file and on the present data, so the dry run and the
// import agree, and a second import does nothing. Existing data is never overwritten: a known user only gets missing
// values.

import { isDeepStrictEqual } from 'node:util';
import type { JobSpec } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import { JobmanError } from '../app/errors.ts';
import { pluralize, importedPrefix } from '../app/format.ts';
import { nameProblem, type NamesInUse } from './names.ts';
import { isTpuName, type LabTpu, tpuFromName } from './tpus.ts';
import { newsEventKinds } from './news.ts';
import type { OldData, OldJob, OldUser } from './old-data.ts';
import { importedEnd, type ImportedJob } from './imported-job.ts';
import { lowestFreeId, type LabUser } from './users.ts';
import type { WindowWithJob, LabStore } from './lab-store.ts';
import { type LabRule, defaultRule } from './run-spec.ts';

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
    job: Pick<OldJob, 'directory' | 'tag' | 'monitor' | 'configs'> & { readonly tpu: LabTpu; readonly rule: LabRule },
  ) => JobSpec;
  readonly now: Instant;
}

interface LabSnapshot {
  readonly users: readonly LabUser[];
  readonly tpus: readonly LabTpu[];
  readonly tpuAliases: ReadonlyMap<string, string>;
  readonly windows: readonly WindowWithJob[];
}

export async function planImport(
  store: LabStore,
  data: OldData,
  context: ImportContext,
): Promise<readonly ImportLine[]> {
  return buildPlan(await readSnapshot(store), data, context).lines;
}

/** Plans and applies the import in one transaction. Returns the plan's lines. */
export function applyImport(store: LabStore, data: OldData, context: ImportContext): Promise<readonly ImportLine[]> {
  return store.transaction(async (one) => {
    const { lines, changes } = buildPlan(await readSnapshot(one), data, context);
    for (const change of changes) await change(one);
    return lines;
  });
}

async function readSnapshot(store: LabStore): Promise<LabSnapshot> {
  const [users, tpus, tpuAliases, windows] = await Promise.all([
    store.users(),
    store.tpus(),
    store.tpuAliases(),
    store.windows({ cleared: true }),
  ]);
  return { users, tpus, tpuAliases, windows };
}

interface ImportPlan extends LabSnapshot {
  readonly context: ImportContext;
  readonly lines: ImportLine[];
  readonly changes: ((store: LabStore) => Promise<unknown>)[];
  readonly addLine: (kind: ImportLine['kind'], subject: string, message?: string) => void;
}

function buildPlan(snapshot: LabSnapshot, data: OldData, context: ImportContext): ImportPlan {
  const lines: ImportLine[] = [];
  const plan: ImportPlan = {
    ...snapshot,
    context,
    lines,
    changes: [],
    addLine: (kind, subject, message = '') => void lines.push({ kind, subject, message }),
  };
  const tpus = planTpus(plan, data);
  const names: NamesInUse = {
    ...context.reserved,
    users: [],
    tpuAliases: new Map([...snapshot.tpuAliases, ...data.tpuAliases]),
    tpus: [...tpus.keys()],
  };
  const users = new Map<string, LabUser>(snapshot.users.map((user) => [user.name, user]));
  for (const old of data.users) {
    const user = planUser(plan, users, names, old);
    if (user === null) {
      if (old.jobs.length > 0)
        plan.addLine('skip', `jobs of ${old.name}`, `${pluralize(old.jobs.length, 'job')}: their user is not imported`);
      continue;
    }
    users.set(user.name, user);
    planJobs(plan, user, old, tpus);
  }
  for (const note of data.notes) plan.addLine('skip', note);
  return plan;
}

function planTpus(plan: ImportPlan, data: OldData): ReadonlyMap<string, LabTpu> {
  const { tpus, tpuAliases, users, addLine, changes } = plan;
  const known = new Map(tpus.map((tpu) => [tpu.name, tpu]));
  for (const tpu of data.tpus) {
    const here = known.get(tpu.name);
    if (here !== undefined) {
      addLine('exists', `TPU ${tpu.name}`);
      continue;
    }
    known.set(tpu.name, tpu);
    addLine('import', `TPU ${tpu.name}`, `${tpu.accelerator}, ${tpu.pricing}, ${tpu.zone ?? 'zone unknown'}`);
    changes.push((store) => store.changeTpu(tpu.name, (existing) => existing ?? tpu));
  }
  const names = [...new Set([...users.map(({ name }) => name), ...data.users.map(({ name }) => name)])];
  for (const [alias, name] of data.tpuAliases) {
    const what = `TPU alias ${alias}`;
    const here = tpuAliases.get(alias);
    const problem = nameProblem('TPU alias', alias, {
      ...plan.context.reserved,
      users: names,
      tpuAliases: new Map(),
      tpus: [],
    });
    if (here === name) addLine('exists', what);
    else if (here !== undefined) addLine('skip', what, `it is an alias of ${here} here, and of ${name} in the file`);
    else if (problem !== null) addLine('skip', what, problem);
    else if (!isTpuName(name)) addLine('skip', what, `${JSON.stringify(name)} is not a TPU name`);
    else {
      addLine('import', what, `${name}${known.has(name) ? '' : ', which is not registered'}`);
      changes.push((store) => store.setTpuAlias(alias, name));
    }
  }
  return known;
}

function planUser(
  { addLine, changes, context }: ImportPlan,
  users: ReadonlyMap<string, LabUser>,
  use: NamesInUse,
  given: OldUser,
): LabUser | null {
  const what = `user ${given.name}`;
  const aliases = Object.fromEntries(
    Object.entries(given.aliases).filter(([alias]) => {
      const why = nameProblem('config alias', alias, { ...use, users: [] });
      if (why !== null) addLine('skip', `config alias ${alias} of ${given.name}`, why);
      return why === null;
    }),
  );
  const old = { ...given, aliases };
  const here = users.get(old.name);
  if (here !== undefined) {
    const filled = fillMissing(here, old);
    if (filled === here) addLine('exists', what);
    else {
      addLine('import', what, 'missing directories, aliases or the number of the next window');
      changes.push((store) => store.changeUser(old.name, (user) => fillMissing(user, old)));
    }
    return filled;
  }
  const problem = nameProblem('user', old.name, { ...use, users: [...users.keys()] });
  if (problem !== null) {
    addLine('skip', what, problem);
    return null;
  }
  const others = [...users.values()];
  const id = old.id === null || others.some((other) => other.id === old.id) ? lowestFreeId(others) : old.id;
  const sessionProblem = nameProblem('session', toSessionName(old.session), use);
  const session = freeSession(sessionProblem === null ? old.session : `user-${id}`, others);
  const { jobs: _jobs, notes, ...fields } = old;
  const user: LabUser = { ...fields, id, role: 'member', session, logins: [], createdAt: context.now, newsSeen: 0 };
  const counts = [
    `id ${id}`,
    pluralize(Object.keys(old.directories).length, 'directory', 'directories'),
    pluralize(Object.keys(aliases).length, 'alias', 'aliases'),
    `next window ${user.nextWindow}`,
  ];
  addLine('import', what, counts.join(', '));
  if (old.id !== id)
    addLine('note', what, old.id === null ? `new id: ${id}` : `new id: ${id}, because ${old.id} is in use`);
  if (sessionProblem !== null) addLine('note', what, `new tmux session: "${session}". ${sessionProblem}`);
  else if (session !== old.session)
    addLine('note', what, `new tmux session: "${session}", because "${old.session}" is in use`);
  for (const note of notes) addLine('note', what, note);
  changes.push((store) => store.addUser(user));
  return user;
}

function fillMissing(user: LabUser, { directories, aliases, nextWindow }: OldUser): LabUser {
  const filled = {
    ...user,
    directories: { ...directories, ...user.directories },
    aliases: { ...aliases, ...user.aliases },
    nextWindow: Math.max(user.nextWindow, nextWindow),
  };
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

function planJobs(plan: ImportPlan, user: LabUser, old: OldUser, tpus: ReadonlyMap<string, LabTpu>): void {
  const { windows, context, addLine, changes } = plan;
  const own = windows.filter(({ window }) => window.user === user.name);
  const shown = new Set(own.filter(({ window }) => window.clearedAt === null).map(({ window }) => window.window));
  const ids = new Map<OldJob, string>();
  let taken = false;
  /** A job without a start time began after the job before it. */
  let last: Instant | null = null;
  for (const [index, job] of old.jobs.entries()) {
    if (job.window === null) {
      addLine('skip', `job ${index + 1} of ${user.name}`, 'it has no window number, which identifies a job');
      continue;
    }
    const what = `window ${job.window} of ${user.name}`;
    const here = own.find((one) => isSameJob(one, job));
    if (here !== undefined) {
      ids.set(job, here.job.job);
      addLine('exists', what);
      continue;
    }
    last = job.startedAt ?? job.endedAt ?? last;
    const imported = importedJobOf(user, { ...job, startedAt: last, window: job.window }, tpus, context);
    if (typeof imported === 'string') {
      addLine('skip', what, imported);
      continue;
    }
    // If two jobs have one number, users see the window of the later one.
    const isLast = !old.jobs.slice(index + 1).some((other) => other.window === job.window);
    const isFree = isLast && !shown.has(job.window);
    if (isFree) shown.add(job.window);
    const parent = parentOf(old.jobs, index);
    addLine('import', what, `${formatStatus(job)}, ${job.tpu}${job.stage === 0 ? '' : `, stage ${job.stage}`}`);
    if (job.status === 'alive') addLine('note', what, stillRunningNote);
    if (!isFree) addLine('note', what, 'not on the list: another window has this number');
    if (job.parent !== null && parent === undefined)
      addLine('note', what, `imported without its parent, window ${job.parent}, which is not in the file`);
    for (const note of job.notes) addLine('note', what, note);
    taken = true;
    changes.push(async (store) => {
      const parentId = parent === undefined ? undefined : ids.get(parent);
      const startMode = parent?.status === 'rerunned' ? 'rerun' : 'resume';
      const id = await store.addImportedJob({
        ...imported,
        lab: { ...imported.lab, parent: parentId === undefined ? null : { job: parentId, attempt: 1, startMode } },
        window: { ...imported.window, cleared: !isFree },
      });
      ids.set(job, id);
    });
  }
  if (!taken) return;
  changes.push(async (store) => {
    const last = (await store.eventsSince(user.name, 0, newsEventKinds)).at(-1)?.number ?? 0;
    await store.changeUser(user.name, (one) => ({ ...one, newsSeen: Math.max(one.newsSeen, last) }));
  });
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

function importedJobOf(
  user: LabUser,
  job: OldJob & { readonly window: number },
  tpus: ReadonlyMap<string, LabTpu>,
  { specOf, now }: ImportContext,
): (ImportedJob & { readonly [Part in 'lab' | 'window']: NonNullable<ImportedJob[Part]> }) | string {
  if (job.tpu === '') return 'it has no TPU';
  const tpu = tpus.get(job.tpu) ?? tpuFromName(job.tpu);
  if (tpu === null)
    return `the type of its TPU ${job.tpu} is unknown; register the TPU (\`tpu register\`) and import again`;
  let spec: JobSpec;
  try {
    spec = specOf({ ...job, tpu, rule: job.rule ?? defaultRule(tpu) });
  } catch (error) {
    if (error instanceof JobmanError) return [error.message, ...error.lines].join(' ').replaceAll(/ {2,}/g, ', ');
    throw error;
  }
  const createdAt = job.startedAt ?? now;
  // A job that was still running ends at the time of the import.
  const wasRunning = job.status === 'alive' || job.status === 'unknown';
  const endedAt = Math.max(createdAt, job.endedAt ?? (wasRunning ? now : createdAt));
  const { directory, directoryNumber, configs, tag, monitor, logStage, stage, logFolder, stageFolder, startTime } = job;
  const report =
    logFolder === null
      ? null
      : { logFolder, stageFolder: stageFolder ?? directory, tpu: job.tpu, startTime, at: createdAt };
  return {
    owner: user.name,
    spec,
    manifest: job.source,
    createdAt,
    startedAt: report === null ? null : createdAt,
    endedAt,
    ...outcomeOf(job),
    lab: { directory, directoryNumber, tpu: job.tpu, configs, tag, monitor, logStage, parent: null, baseStage: stage },
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
