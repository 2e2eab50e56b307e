import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../test/support/eventually.ts';
import type { World } from '../../test/support/world.ts';
import { createMovableClock, findFaketime } from './clock.ts';
import { injectFault } from './faults.ts';
import { createChaosContext, type ChaosContext } from './context.ts';
import { kindOf, manifestOf, workersOf } from './jobs.ts';
import { violationsOf, type RecordedAttempt, type JobAtEnd } from './invariants.ts';
import { faultDefaults, type FaultKind, type ChaosPlan } from './plan.ts';
import { mountSmallDisk } from './small-disk.ts';
import { readReports, livePrograms } from './program-reports.ts';

export interface ChaosResult {
  /** A sentence for each violated invariant. */
  readonly violations: readonly string[];
  /** A phrase. */
  readonly summary: string;
  /** A folder with traces; null without violations. */
  readonly traces: string | null;
}

/** Limit for a silent worker in seconds. With SSH cuts of a minute it must be longer than a cut. */
const grace = { defaultSeconds: 15, withCutSeconds: 100 } as const;
/** Limit after the last fault, in addition to the programs' time: a job may just have lost a silent host, twice. */
const maxRecoveryMs = 600_000;
/** Limit for their resources to disappear after that. */
const maxReleaseMs = 60_000;

/** The world ends remaining processes and then fails. Throws when the machine lacks a part or jobman cannot run. */
export async function runChaosTest(
  world: World,
  plan: ChaosPlan,
  onLine: (line: string) => void,
): Promise<ChaosResult> {
  const began = performance.now();
  const log: string[] = [];
  const report = (line: string): void => {
    const stamped = `${((performance.now() - began) / 1_000).toFixed(1).padStart(6)} s  ${line}`;
    log.push(stamped);
    onLine(stamped);
  };
  const clock = openClock(plan, world);
  // Runs last, when all programs with this clock have ended.
  world.atEnd(() => clock?.cleanUp());
  const disk = plan.kinds.includes('home') ? mountSmallDisk(world) : null;
  const context = createChaosContext(world, { report, clock, disk });
  await prepare(context, plan);
  const watcher = watchDuplicates(context);
  const { ids, faultCounts, hits } = await injectFaults(context, plan);
  await waitForJobs(context, ids, maxRecoveryMs + Math.max(...plan.jobs.map(({ steps }) => steps)) * 1_000);
  const jobsWithTwoTpus = await watcher.end();
  const jobs = await Promise.all(
    ids.map((id, index) => readJobAtEnd(context, plan, id, index, faultCounts.get(id) ?? 0)),
  );
  const violations = violationsOf(jobs, {
    storedJobs: await listJobIds(context),
    remainingResources: await waitForRelease(context),
    jobsWithTwoTpus,
    faultsWithoutTarget: plan.kinds.filter((kind) => !hits.has(kind)),
  });
  await runOk(context, ['controller', 'stop']);
  await runOk(context, ['emulator', 'stop']);
  const traces = violations.length === 0 ? null : saveTraces(context, plan, [...log, ...violations]);
  return { violations, summary: summaryOf(plan, hits, jobs), traces };
}

function openClock({ kinds }: ChaosPlan, world: World): ReturnType<typeof createMovableClock> | null {
  // The login fault takes an hour, so the clock is moved.
  if (!kinds.includes('clock') && !kinds.includes('login')) return null;
  const library = findFaketime();
  if (library === undefined)
    throw new Error('the clock cannot be moved here: libfaketime is missing (apt install libfaketime)');
  return createMovableClock(library, world.folder);
}

async function prepare(context: ChaosContext, { jobs }: ChaosPlan): Promise<void> {
  const { world, reportFolder, run } = context;
  mkdirSync(world.home, { recursive: true, mode: 0o700 });
  // A slot for each job: the test does not cover waiting.
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ local: { slots: jobs.length } }), { mode: 0o600 });
  // Also when the test stops early. The controller first, because it would start the emulator again.
  world.atEnd(() => run(['emulator', 'stop']).then(() => undefined));
  world.atEnd(() => run(['controller', 'stop']).then(() => undefined));
  await runOk(context, ['emulator', 'start']);
  mkdirSync(reportFolder, { recursive: true });
}

interface InjectionResult {
  /** Ids of the jobs in order. */
  readonly ids: readonly string[];
  /** Number of faults by job that may have ended an attempt. */
  readonly faultCounts: ReadonlyMap<string, number>;
  /** Number of effective faults by kind. */
  readonly hits: ReadonlyMap<FaultKind, number>;
}

async function injectFaults(context: ChaosContext, plan: ChaosPlan): Promise<InjectionResult> {
  const faultCounts = new Map<string, number>();
  const hits = new Map<FaultKind, number>();
  const began = performance.now();
  const at = (ms: number): Promise<void> => sleep(Math.max(0, began + ms - performance.now()));
  const creating = Promise.all(plan.jobs.map((job, index) => at(job.at).then(() => createJob(context, plan, index))));
  // Faults of one kind run one after the other: two cuts of one connection would end together, and too many faults
  // waiting for a target would keep the machine busy with their checks.
  const injecting = plan.kinds.map(async (kind) => {
    for (const fault of plan.faults) {
      if (fault.kind !== kind) continue;
      await at(fault.at);
      const { isHit, affectedJobs } = await injectFault(context, fault);
      if (isHit) hits.set(kind, (hits.get(kind) ?? 0) + 1);
      for (const id of affectedJobs) faultCounts.set(id, (faultCounts.get(id) ?? 0) + 1);
    }
  });
  // A job that cannot be created rejects at once and stops the test.
  const [ids] = await Promise.all([creating, ...injecting]);
  return { ids, faultCounts, hits };
}

/** Checks repeatedly for jobs with two TPUs, which the end state cannot show. */
function watchDuplicates(context: ChaosContext): { end(): Promise<readonly string[]> } {
  const seen = new Set<string>();
  const over = new AbortController();
  const watching = (async () => {
    while (!over.signal.aborted) {
      for (const found of await context.jobsWithTwoTpus()) seen.add(found);
      await sleep(1_000, undefined, { signal: over.signal }).catch(() => undefined);
    }
  })();
  return {
    async end() {
      over.abort();
      await watching;
      return [...seen];
    },
  };
}

/** Retries until the job is known to exist; the end state would show a duplicate. */
async function createJob(context: ChaosContext, plan: ChaosPlan, index: number): Promise<string> {
  const { world, reportFolder, buckets } = context;
  const name = `chaos-${String(index + 1).padStart(2, '0')}`;
  const file = join(world.folder, `${name}.yaml`);
  const graceSeconds = plan.kinds.includes('ssh') ? grace.withCutSeconds : grace.defaultSeconds;
  const manifest = manifestOf(name, kindOf(index), plan.jobs[index]?.steps ?? 0, {
    reportFolder,
    buckets,
    graceSeconds,
  });
  writeFileSync(file, JSON.stringify(manifest, null, 2));
  let id = '';
  const isCreated = async (): Promise<boolean> => {
    const { code, stdout, stderr } = await context.run(['create', file, '--quiet']);
    id = stdout.trim();
    if (/^\d{6}$/.test(id)) return true;
    context.report(`${name} could not be created (exit code ${code}): ${stdout}${stderr}`.trim());
    return false;
  };
  // On a full disk jobman refuses the job, and the user tries again later.
  const withinMs = plan.kinds.includes('home') ? 180_000 : 0;
  if (!(await eventually(isCreated, { withinMs, everyMs: 2_000 }))) throw new Error(`${name} could not be created`);
  context.report(`${name} (${kindOf(index)}) is job ${id}`);
  return id;
}

/** Clears the faults and waits until all jobs have ended. */
async function waitForJobs(context: ChaosContext, ids: readonly string[], withinMs: number): Promise<void> {
  context.clock?.setOffset(0);
  await context.run(['emulator', 'clear']);
  context.report('calm');
  const isOver = async (): Promise<boolean> => {
    const { code, stderr } = await context.run(['wait', ...ids, '--timeout', '20s']);
    return code === 0 || !stderr.includes('Not finished');
  };
  if ((await eventually(isOver, { withinMs })) === undefined) context.report('not all jobs have ended');
}

/** A job ends with its command; the release of its TPU takes longer and needs a running controller. */
async function waitForRelease(context: ChaosContext): Promise<readonly string[]> {
  let left: readonly string[] = [];
  await eventually(async () => (left = await context.listResources()).length === 0, {
    withinMs: maxReleaseMs,
    everyMs: 500,
  });
  return left;
}

async function listJobIds(context: ChaosContext): Promise<readonly string[]> {
  const { stdout } = await runOk(context, ['list', '--all', '--json']);
  const rows = stdout.split('\n').filter((line) => line !== '');
  return rows.map((row) => (JSON.parse(row) as { readonly id: string }).id);
}

async function readJobAtEnd(
  context: ChaosContext,
  plan: ChaosPlan,
  id: string,
  index: number,
  faultCount: number,
): Promise<JobAtEnd> {
  const { stdout } = await runOk(context, ['show', id, '--json']);
  const shown = JSON.parse(stdout) as { readonly phase: string; readonly attempts: readonly RecordedAttempt[] };
  const workers = workersOf(kindOf(index));
  const logs = join(context.world.home, 'jobs', userInfo().username, id, 'logs');
  const logCopies = new Map<string, string>();
  for (const { attempt } of shown.attempts) {
    for (const workerId of workers) {
      const file = join(logs, `attempt_${attempt}`, `command_worker_${workerId}.log`);
      logCopies.set(`${attempt}-${workerId}`, textOf(file));
    }
  }
  const replayed = await context.run(['replay', id, '--decide']);
  return {
    id,
    replay: replayed.code === 0 ? null : replayed.stdout + replayed.stderr,
    phase: shown.phase,
    attempts: shown.attempts,
    workers,
    reports: readReports(context.reportFolder, id),
    alive: await livePrograms(context.reportFolder, id),
    logCopies,
    faultCount,
    steps: plan.jobs[index]?.steps ?? 0,
  };
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    // An attempt that printed nothing has no copy.
    return '';
  }
}

async function runOk(context: ChaosContext, args: readonly string[]): Promise<{ readonly stdout: string }> {
  const { code, stdout, stderr } = await context.run(args);
  if (code !== 0) throw new Error(`jobman ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
  return { stdout };
}

/** Copies the traces, without the hosts' disks, before the world is removed. */
function saveTraces({ world, reportFolder }: ChaosContext, { seed }: ChaosPlan, log: readonly string[]): string {
  const to = mkdtempSync(join(tmpdir(), `jobman-chaos-${seed}-`));
  const skipped = ['emulator/hosts', 'emulator/buckets', 'ssh', 'wake'];
  cpSync(world.home, join(to, 'home'), {
    recursive: true,
    filter: (from) => !skipped.includes(relative(world.home, from)),
  });
  cpSync(reportFolder, join(to, 'reports'), { recursive: true });
  writeFileSync(join(to, 'chaos.log'), `${log.join('\n')}\n`);
  return to;
}

function summaryOf({ kinds }: ChaosPlan, hits: ReadonlyMap<FaultKind, number>, jobs: readonly JobAtEnd[]): string {
  const counts = kinds.map((kind) => `${hits.get(kind) ?? 0} × ${faultDefaults[kind].description}`);
  const attempts = jobs.reduce((sum, job) => sum + job.attempts.length, 0);
  const lines = jobs.reduce(
    (sum, { reports }) => sum + [...reports.printed.values()].reduce((of, text) => of + text.split('\n').length - 1, 0),
    0,
  );
  return `${jobs.length} jobs, ${attempts} attempts, ${lines} lines printed, under: ${counts.join('; ')}`;
}
