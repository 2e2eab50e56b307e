// Import of the data of the program before this one. A plan is made from the file and from what is here, so that the dry run and
// the import tell the same and a second import does nothing. What is here is never overwritten: of a known user only what is
// missing is filled in.

import type { JobSpec } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import { JobmanError } from '../app/errors.ts';
import { countText, importedWords } from '../app/figures.ts';
import { nameProblem, type WordsInUse } from './names.ts';
import { isTpuName, type LabTpu, tpuNamed } from './tpus.ts';
import { newsKinds } from './news.ts';
import type { OldData, OldJob, OldUser } from './old-data.ts';
import type { PastJob } from './past-job.ts';
import { lowestFreeId, type LabUser } from './people.ts';
import type { LabAttempt, LabRecord } from './record.ts';
import { type LabRule, usualRule } from './run.ts';

export interface ImportLine {
  /** `take`: it is new here. `have`: it is here already. `leave`: it cannot be taken. `note`: it is taken, but not as it was. */
  readonly kind: 'take' | 'have' | 'leave' | 'note';
  readonly what: string;
  /** A remark, or the reason, for what is left. */
  readonly says: string;
}

export interface ImportParts {
  readonly words: Pick<WordsInUse, 'verbs' | 'keys'>;
  /** The spec of such a job for a resume. Throws JobmanError where it could not be resumed. */
  readonly specOf: (
    job: Pick<OldJob, 'directory' | 'tag' | 'monitor' | 'configs'> & { readonly tpu: LabTpu; readonly rule: LabRule },
  ) => JobSpec;
  readonly now: Instant;
}

interface Standing {
  readonly users: readonly LabUser[];
  readonly tpus: readonly LabTpu[];
  readonly tpuAliases: ReadonlyMap<string, string>;
  readonly windows: readonly LabAttempt[];
}

export async function planImport(record: LabRecord, data: OldData, parts: ImportParts): Promise<readonly ImportLine[]> {
  return planned(await standingIn(record), data, parts).lines;
}

/** Does it in one transaction, by what is here then; resolves with what was done. All of it stands, or nothing. */
export function applyImport(record: LabRecord, data: OldData, parts: ImportParts): Promise<readonly ImportLine[]> {
  return record.together(async (one) => {
    const { lines, acts } = planned(await standingIn(one), data, parts);
    for (const act of acts) await act(one);
    return lines;
  });
}

async function standingIn(record: LabRecord): Promise<Standing> {
  const [users, tpus, tpuAliases, windows] = await Promise.all([
    record.users(),
    record.tpus(),
    record.tpuAliases(),
    record.windows({ cleared: true }),
  ]);
  return { users, tpus, tpuAliases, windows };
}

interface Plan extends Standing {
  readonly parts: ImportParts;
  readonly lines: ImportLine[];
  readonly acts: ((record: LabRecord) => Promise<unknown>)[];
  readonly say: (kind: ImportLine['kind'], what: string, says?: string) => void;
}

function planned(standing: Standing, data: OldData, parts: ImportParts): Plan {
  const lines: ImportLine[] = [];
  const plan: Plan = {
    ...standing,
    parts,
    lines,
    acts: [],
    say: (kind, what, says = '') => void lines.push({ kind, what, says }),
  };
  const tpus = planTpus(plan, data);
  const words: WordsInUse = {
    ...parts.words,
    users: [],
    tpuAliases: new Map([...standing.tpuAliases, ...data.tpuAliases]),
    tpus: [...tpus.keys()],
  };
  const users = new Map<string, LabUser>(standing.users.map((user) => [user.name, user]));
  for (const old of data.users) {
    const user = planUser(plan, users, words, old);
    if (user === null) {
      if (old.jobs.length > 0) plan.say('leave', `jobs of ${old.name}`, `${old.jobs.length}, with their user`);
      continue;
    }
    users.set(user.name, user);
    planJobs(plan, user, old, tpus);
  }
  for (const note of data.notes) plan.say('leave', note);
  return plan;
}

function planTpus(plan: Plan, data: OldData): ReadonlyMap<string, LabTpu> {
  const { tpus, tpuAliases, users, say, acts } = plan;
  const known = new Map(tpus.map((tpu) => [tpu.name, tpu]));
  for (const tpu of data.tpus) {
    const here = known.get(tpu.name);
    if (here !== undefined) {
      say('have', `TPU ${tpu.name}`);
      continue;
    }
    known.set(tpu.name, tpu);
    say('take', `TPU ${tpu.name}`, `${tpu.accelerator}, ${tpu.pricing}, ${tpu.zone ?? 'its zone is not known yet'}`);
    acts.push((record) => record.changeTpu(tpu.name, (stands) => stands ?? tpu));
  }
  const names = [...new Set([...users.map(({ name }) => name), ...data.users.map(({ name }) => name)])];
  for (const [alias, name] of data.tpuAliases) {
    const what = `TPU alias ${alias}`;
    const here = tpuAliases.get(alias);
    const problem = nameProblem('TPU alias', alias, {
      ...plan.parts.words,
      users: names,
      tpuAliases: new Map(),
      tpus: [],
    });
    if (here === name) say('have', what);
    else if (here !== undefined) say('leave', what, `it means ${here} here, and ${name} there`);
    else if (problem !== null) say('leave', what, problem);
    else if (!isTpuName(name)) say('leave', what, `no TPU can have the name ${JSON.stringify(name)}`);
    else {
      say('take', what, `${name}${known.has(name) ? '' : ', which is not registered'}`);
      acts.push((record) => record.setTpuAlias(alias, name));
    }
  }
  return known;
}

function planUser(
  { say, acts, parts }: Plan,
  users: ReadonlyMap<string, LabUser>,
  use: WordsInUse,
  given: OldUser,
): LabUser | null {
  const what = `user ${given.name}`;
  const aliases = Object.fromEntries(
    Object.entries(given.aliases).filter(([alias]) => {
      const why = nameProblem('config alias', alias, { ...use, users: [] });
      if (why !== null) say('leave', `config alias ${alias} of ${given.name}`, why);
      return why === null;
    }),
  );
  const old = { ...given, aliases };
  const here = users.get(old.name);
  if (here !== undefined) {
    const filled = fill(here, old);
    if (filled === here) say('have', what);
    else {
      say('take', what, 'what was missing here: directories, aliases or the number of the next window');
      acts.push((record) => record.changeUser(old.name, (user) => fill(user, old)));
    }
    return filled;
  }
  const problem = nameProblem('user', old.name, { ...use, users: [...users.keys()] });
  if (problem !== null) {
    say('leave', what, problem);
    return null;
  }
  const others = [...users.values()];
  const id = old.id === null || others.some((other) => other.id === old.id) ? lowestFreeId(others) : old.id;
  const unfit = nameProblem('session', sessionName(old.session), use);
  const session = freeSession(unfit === null ? old.session : `user-${id}`, others);
  const user: LabUser = {
    name: old.name,
    id,
    session,
    sheetName: old.sheetName,
    logins: [],
    directories: old.directories,
    aliases,
    settings: old.settings,
    nextWindow: old.nextWindow,
    createdAt: parts.now,
    newsSeen: 0,
  };
  const counts = [
    `id ${id}`,
    countText(Object.keys(old.directories).length, 'directory', 'directories'),
    countText(Object.keys(aliases).length, 'alias', 'aliases'),
    `next window ${user.nextWindow}`,
  ];
  say('take', what, counts.join(', '));
  if (old.id !== id) say('note', what, old.id === null ? `it had no id` : `its id ${old.id} is another's here: ${id}`);
  if (unfit !== null) say('note', what, `its session is "${session}" here. ${unfit}`);
  else if (session !== old.session) say('note', what, `the session "${old.session}" is another's here: "${session}"`);
  for (const note of old.notes) say('note', what, note);
  acts.push((record) => record.addUser(user));
  return user;
}

function fill(user: LabUser, { directories, aliases, nextWindow }: OldUser): LabUser {
  const filled = {
    ...user,
    directories: { ...directories, ...user.directories },
    aliases: { ...aliases, ...user.aliases },
    nextWindow: Math.max(user.nextWindow, nextWindow),
  };
  const isSame =
    Object.keys(filled.directories).length === Object.keys(user.directories).length &&
    Object.keys(filled.aliases).length === Object.keys(user.aliases).length &&
    filled.nextWindow === user.nextWindow;
  return isSame ? user : filled;
}

/** tmux keeps both signs for itself, and makes this of them. */
function sessionName(wanted: string): string {
  return wanted.replaceAll(/[.:]/g, '_').normalize('NFC');
}

function freeSession(wanted: string, users: readonly LabUser[]): string {
  const name = sessionName(wanted);
  const taken = (one: string): boolean => users.some(({ session }) => session === one);
  let free = name;
  for (let count = 2; taken(free); count += 1) free = `${name}-${count}`;
  return free;
}

function planJobs(plan: Plan, user: LabUser, old: OldUser, tpus: ReadonlyMap<string, LabTpu>): void {
  const { windows, parts, say, acts } = plan;
  const own = windows.filter(({ window }) => window.user === user.name);
  const shown = new Set(own.filter(({ window }) => window.clearedAt === null).map(({ window }) => window.window));
  /** The ids that the jobs have here, by their place in the file; known once they are written. */
  const ids = new Map<OldJob, string>();
  let taken = false;
  /** Records without a moment of their own began after those before them. */
  let last: Instant | null = null;
  for (const [index, job] of old.jobs.entries()) {
    if (job.window === null) {
      const why = 'it has no number of a window, by which it would be known again';
      say('leave', `job ${index + 1} of ${user.name}`, why);
      continue;
    }
    const what = `window ${job.window} of ${user.name}`;
    const here = own.find((one) => isSame(one, job));
    if (here !== undefined) {
      ids.set(job, here.job.job);
      say('have', what);
      continue;
    }
    last = job.startedAt ?? job.endedAt ?? last;
    const past = pastOf(user, { ...job, startedAt: last, window: job.window }, tpus, parts);
    if (typeof past === 'string') {
      say('leave', what, past);
      continue;
    }
    // Of two records with one number the later one is the window that people see.
    const isLast = !old.jobs.slice(index + 1).some((other) => other.window === job.window);
    const isFree = isLast && !shown.has(job.window);
    if (isFree) shown.add(job.window);
    const father = fatherOf(old.jobs, index);
    say('take', what, `${statusWords(job)}, ${job.tpu}${job.stage === 0 ? '' : `, stage ${job.stage}`}`);
    if (job.status === 'alive') say('note', what, goesOnThere);
    if (!isFree) say('note', what, 'the number is that of another window: taken off the list');
    if (job.father !== null && father === undefined) {
      say('note', what, `its father, window ${job.father}, is not in the file: taken without`);
    }
    for (const note of job.notes) say('note', what, note);
    taken = true;
    acts.push(async (record) => {
      const fatherId = father === undefined ? undefined : ids.get(father);
      const how = father?.status === 'rerunned' ? 'rerun' : 'resume';
      const id = await record.addPastJob({
        ...past,
        lab: { ...past.lab, father: fatherId === undefined ? null : { job: fatherId, attempt: 1, how } },
        window: { ...past.window, cleared: !isFree },
      });
      ids.set(job, id);
    });
  }
  if (!taken) return;
  // Old events are no news.
  acts.push(async (record) => {
    const last = (await record.eventsSince(user.name, 0, newsKinds)).at(-1)?.number ?? 0;
    await record.changeUser(user.name, (one) => ({ ...one, newsSeen: Math.max(one.newsSeen, last) }));
  });
}

const goesOnThere =
  'it was going on there: taken as stopped; where its program is alive it goes on, and nobody here watches it';

function isSame({ window }: LabAttempt, job: OldJob): boolean {
  return (
    window.window === job.window &&
    (window.report?.logFolder ?? null) === job.logFolder &&
    (job.startedAt === null || window.openedAt === job.startedAt)
  );
}

function fatherOf(jobs: readonly OldJob[], index: number): OldJob | undefined {
  const window = jobs[index]?.father ?? null;
  return window === null ? undefined : jobs.slice(0, index).findLast((one) => one.window === window);
}

function pastOf(
  user: LabUser,
  job: OldJob & { readonly window: number },
  tpus: ReadonlyMap<string, LabTpu>,
  { specOf, now }: ImportParts,
): (PastJob & { readonly [Part in 'lab' | 'window']: NonNullable<PastJob[Part]> }) | string {
  if (job.tpu === '') return 'it names no TPU';
  const tpu = tpus.get(job.tpu) ?? tpuNamed(job.tpu);
  if (tpu === null) return `nothing tells the type of its TPU ${job.tpu}; \`tpu register\` it, and import again`;
  let spec: JobSpec;
  try {
    spec = specOf({ ...job, tpu, rule: job.rule ?? usualRule(tpu) });
  } catch (error) {
    if (error instanceof JobmanError) return [error.message, ...error.lines].join(' ').replaceAll(/ {2,}/g, ', ');
    throw error;
  }
  const createdAt = job.startedAt ?? now;
  // A job that was still running there ends for this record when it is imported.
  const wasRunning = job.status === 'alive' || job.status === 'unknown';
  const endedAt = Math.max(createdAt, job.endedAt ?? (wasRunning ? now : createdAt));
  const { logFolder, stageFolder, startTime } = job;
  const report =
    logFolder === null
      ? null
      : { logFolder, stageFolder: stageFolder ?? job.directory, tpu: job.tpu, startTime, at: createdAt };
  return {
    owner: user.name,
    spec,
    manifest: job.text,
    createdAt,
    startedAt: report === null ? null : createdAt,
    endedAt,
    ...endOf(job),
    lab: {
      directory: job.directory,
      directoryNumber: job.directoryNumber,
      tpu: job.tpu,
      configs: job.configs,
      tag: job.tag,
      monitor: job.monitor,
      logStage: job.logStage,
      father: null,
      baseStage: job.stage,
    },
    window: {
      session: user.session,
      window: job.window,
      report,
      finishedAt: job.status === 'finished' ? endedAt : null,
      cleared: false,
    },
  };
}

function endOf({ status, error }: OldJob): Pick<PastJob, 'verdict' | 'reason' | 'evidence'> {
  switch (status) {
    case 'finished':
      return { verdict: 'succeeded', reason: 'succeeded', evidence: { detail: 'finished there' } };
    case 'killed':
      return { verdict: 'cancelled', reason: 'stopped', evidence: { detail: 'killed there' } };
    case 'alive':
    case 'unknown': {
      // Because of these words no message says that its owner stopped it.
      const detail = `${importedWords}, ${status === 'alive' ? 'was running' : 'end not known'}`;
      return { verdict: 'stopped', reason: 'stopped', evidence: { detail } };
    }
    case 'error':
    case 'resumed':
    case 'rerunned': {
      const detail = error === null ? 'failed there' : `failed there: ${error}`;
      if (/preempt/i.test(error ?? '')) return { verdict: 'failed', reason: 'preempted', evidence: { detail } };
      return { verdict: 'failed', reason: 'command_failed', evidence: { detail, ...patternOf(error) } };
    }
  }
}

function patternOf(error: string | null): { readonly pattern?: string } {
  const found = [
    [/grpc/i, 'grpc'],
    [/lock/i, 'busy'],
    [/oom/i, 'out_of_memory'],
    [/file/i, 'file_missing'],
    [/deadline/i, 'deadline'],
    [/pointer/i, 'invalid_pointer'],
  ] as const;
  const pattern = found.find(([words]) => words.test(error ?? ''))?.[1];
  return pattern === undefined ? {} : { pattern };
}

function statusWords({ status, error }: OldJob): string {
  if (status === 'alive') return 'going on';
  return error === null || status !== 'error' ? status : `error (${error})`;
}
