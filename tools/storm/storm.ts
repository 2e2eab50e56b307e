// One storm, from the first job to the verdict.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../test/support/eventually.ts';
import type { World } from '../../test/support/world.ts';
import { createClockwork, findFaketime } from './clock.ts';
import { strike } from './faults.ts';
import { openGround, type Ground } from './ground.ts';
import { kindOf, manifestOf, placesOf } from './jobs.ts';
import { judge, type ClaimedAttempt, type JobAtEnd } from './judge.ts';
import { dealt, type FaultKind, type Plan } from './plan.ts';
import { mountSmallDisk } from './small-disk.ts';
import { readTestimony, stillAlive } from './witness.ts';

export interface Verdict {
  /** What did not hold, as sentences; none when all is well. */
  readonly problems: readonly string[];
  /** What happened, in a phrase. */
  readonly summary: string;
  /** A copy of everything that may explain the problems; null when there are none. */
  readonly traces: string | null;
}

/** A silent worker is lost after so long; where SSH is to be cut for a minute, only after that. */
const grace = { usualSeconds: 15, withCutSeconds: 100 } as const;
/**
 * When everything that strikes has struck, every job has so long to end well, beside the time that its program takes: one may
 * have been lost at the last moment, with a silent host that is waited for, twice.
 */
const calmMostMs = 600_000;
/** And then what they held has so long to be gone. */
const releaseMostMs = 60_000;

/**
 * Plays a storm in that world and judges it. What is left running ends with the world, which fails when something is left.
 * Throws when the machine lacks a part, and when jobman cannot even be asked.
 */
export async function runStorm(world: World, plan: Plan, watch: (line: string) => void): Promise<Verdict> {
  const began = performance.now();
  const said: string[] = [];
  const tell = (line: string): void => {
    const stamped = `${((performance.now() - began) / 1_000).toFixed(1).padStart(6)} s  ${line}`;
    said.push(stamped);
    watch(stamped);
  };
  const clock = clockFor(plan, world);
  // Undone last: by then everybody who had it has ended.
  world.atEnd(() => clock?.tidy());
  const disk = plan.kinds.includes('home') ? mountSmallDisk(world) : null;
  const ground = openGround(world, { tell, clock, disk });
  await prepare(ground, plan);
  const watched = watchCloud(ground);
  const { ids, struck, hits } = await blow(ground, plan);
  await calm(ground, ids, calmMostMs + Math.max(...plan.jobs.map(({ steps }) => steps)) * 1_000);
  const twoAtOnce = await watched.end();
  const jobs = await Promise.all(ids.map((id, index) => atEnd(ground, plan, id, index, struck.get(id) ?? 0)));
  const problems = judge(jobs, {
    inRecord: await inRecord(ground),
    inCloud: await leftInCloud(ground),
    twoAtOnce,
    missed: plan.kinds.filter((kind) => !hits.has(kind)),
  });
  await expectWell(ground, ['controller', 'stop']);
  await expectWell(ground, ['emulator', 'stop']);
  const traces = problems.length === 0 ? null : keepTraces(ground, plan, [...said, ...problems]);
  return { problems, summary: summaryOf(plan, hits, jobs), traces };
}

function clockFor({ kinds }: Plan, world: World): ReturnType<typeof createClockwork> | null {
  // An hour is too long to be waited for: it passes by the clock.
  if (!kinds.includes('clock') && !kinds.includes('login')) return null;
  const library = findFaketime();
  if (library === undefined)
    throw new Error('the clock cannot be moved here: libfaketime is missing (apt install libfaketime)');
  return createClockwork(library, world.folder);
}

async function prepare(ground: Ground, { jobs }: Plan): Promise<void> {
  const { world, witness, say } = ground;
  mkdirSync(world.home, { recursive: true, mode: 0o700 });
  // As many slots as jobs: a storm is not about waiting for a turn.
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ local: { slots: jobs.length } }), { mode: 0o600 });
  // Also when the storm breaks off in the middle. The controller first: it would start the cloud again.
  world.atEnd(() => say(['emulator', 'stop']).then(() => undefined));
  world.atEnd(() => say(['controller', 'stop']).then(() => undefined));
  await expectWell(ground, ['emulator', 'start']);
  mkdirSync(witness, { recursive: true });
}

/** What happened while faults struck. */
interface Blown {
  /** The ids of the jobs in their order. */
  readonly ids: readonly string[];
  /** How often each was struck by something that may cost it an attempt. */
  readonly struck: ReadonlyMap<string, number>;
  /** How many faults of each kind met somebody. */
  readonly hits: ReadonlyMap<FaultKind, number>;
}

/** Lets everything happen at its moment. */
async function blow(ground: Ground, plan: Plan): Promise<Blown> {
  const struck = new Map<string, number>();
  const hits = new Map<FaultKind, number>();
  const began = performance.now();
  const at = (ms: number): Promise<void> => sleep(Math.max(0, began + ms - performance.now()));
  const creating = Promise.all(plan.jobs.map((job, index) => at(job.at).then(() => create(ground, plan, index))));
  // Of one kind one after the other: a second cut of the same line would end with the first, and under load those who wait for
  // somebody to strike would be so many that their looks alone kept the machine busy.
  const striking = plan.kinds.map(async (kind) => {
    for (const fault of plan.faults) {
      if (fault.kind !== kind) continue;
      await at(fault.at);
      const { isHit, costs } = await strike(ground, fault);
      if (isHit) hits.set(kind, (hits.get(kind) ?? 0) + 1);
      for (const id of costs) struck.set(id, (struck.get(id) ?? 0) + 1);
    }
  });
  // Both are heard at once: a job that cannot be created breaks the storm off, and what runs is taken down.
  const [ids] = await Promise.all([creating, ...striking]);
  return { ids, struck, hits };
}

/** Looks again and again whether a job has two TPUs, which no later look could tell. */
function watchCloud(ground: Ground): { end(): Promise<readonly string[]> } {
  const seen = new Set<string>();
  const over = new AbortController();
  const watching = (async () => {
    while (!over.signal.aborted) {
      for (const found of await ground.twoAtOnce()) seen.add(found);
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

/** Creates a job, again and again until it is known to be there: two of one name would be seen at the end. */
async function create(ground: Ground, plan: Plan, index: number): Promise<string> {
  const { world, witness, buckets } = ground;
  const name = `storm-${String(index + 1).padStart(2, '0')}`;
  const file = join(world.folder, `${name}.yaml`);
  const graceSeconds = plan.kinds.includes('ssh') ? grace.withCutSeconds : grace.usualSeconds;
  const manifest = manifestOf(name, kindOf(index), plan.jobs[index]?.steps ?? 0, { witness, buckets, graceSeconds });
  writeFileSync(file, JSON.stringify(manifest, null, 2));
  let id = '';
  const isCreated = async (): Promise<boolean> => {
    const { code, stdout, stderr } = await ground.say(['create', file, '--quiet']);
    id = stdout.trim();
    if (/^\d{6}$/.test(id)) return true;
    ground.tell(`${name} could not be created (exit code ${code}): ${stdout}${stderr}`.trim());
    return false;
  };
  // On a full disk it cannot be, and says so; a person then comes again.
  const withinMs = plan.kinds.includes('home') ? 180_000 : 0;
  if (!(await eventually(isCreated, { withinMs, everyMs: 2_000 }))) throw new Error(`${name} could not be created`);
  ground.tell(`${name} (${kindOf(index)}) is job ${id}`);
  return id;
}

/** Nothing strikes any more; somebody waits until everything has ended. */
async function calm(ground: Ground, ids: readonly string[], withinMs: number): Promise<void> {
  ground.clock?.move(0);
  await ground.say(['emulator', 'clear']);
  ground.tell('calm');
  const isOver = async (): Promise<boolean> => {
    const { code, stderr } = await ground.say(['wait', ...ids, '--timeout', '20s']);
    return code === 0 || !stderr.includes('Not settled');
  };
  if ((await eventually(isOver, { withinMs })) === undefined) ground.tell('not all jobs have ended');
}

/** A job is over with its command; what it held is seen gone a little later, as long as somebody works on it. */
async function leftInCloud(ground: Ground): Promise<readonly string[]> {
  let left: readonly string[] = [];
  await eventually(async () => (left = await ground.inCloud()).length === 0, { withinMs: releaseMostMs, everyMs: 500 });
  return left;
}

/** The ids of all jobs that the record knows of. */
async function inRecord(ground: Ground): Promise<readonly string[]> {
  const { stdout } = await expectWell(ground, ['list', '--all', '--json']);
  const rows = stdout.split('\n').filter((line) => line !== '');
  return rows.map((row) => (JSON.parse(row) as { readonly id: string }).id);
}

async function atEnd(ground: Ground, plan: Plan, id: string, index: number, struck: number): Promise<JobAtEnd> {
  const { stdout } = await expectWell(ground, ['show', id, '--json']);
  const shown = JSON.parse(stdout) as { readonly phase: string; readonly attempts: readonly ClaimedAttempt[] };
  const places = placesOf(kindOf(index));
  const logs = join(ground.world.home, 'jobs', userInfo().username, id, 'logs');
  const mirrored = new Map<string, string>();
  for (const { attempt } of shown.attempts) {
    for (const place of places) {
      const file = join(logs, `attempt_${attempt}`, `command_worker_${place}.log`);
      mirrored.set(`${attempt}-${place}`, textOf(file));
    }
  }
  return {
    id,
    phase: shown.phase,
    attempts: shown.attempts,
    places,
    testimony: readTestimony(ground.witness, id),
    alive: await stillAlive(ground.witness, id),
    mirrored,
    struck,
    steps: plan.jobs[index]?.steps ?? 0,
  };
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    // Of an attempt that printed nothing there is no copy.
    return '';
  }
}

async function expectWell(ground: Ground, words: readonly string[]): Promise<{ readonly stdout: string }> {
  const { code, stdout, stderr } = await ground.say(words);
  if (code !== 0) throw new Error(`jobman ${words.join(' ')} ended with ${code}: ${stdout}${stderr}`);
  return { stdout };
}

/** Copies what may explain it out of the world, which is about to be taken down: all but the hosts' disks. */
function keepTraces({ world, witness }: Ground, { seed }: Plan, said: readonly string[]): string {
  const to = mkdtempSync(join(tmpdir(), `jobman-storm-${seed}-`));
  const left = ['emulator/hosts', 'emulator/buckets', 'ssh', 'wake'];
  cpSync(world.home, join(to, 'home'), {
    recursive: true,
    filter: (from) => !left.includes(relative(world.home, from)),
  });
  cpSync(witness, join(to, 'witness'), { recursive: true });
  writeFileSync(join(to, 'storm.log'), `${said.join('\n')}\n`);
  return to;
}

function summaryOf({ kinds }: Plan, hits: ReadonlyMap<FaultKind, number>, jobs: readonly JobAtEnd[]): string {
  const counts = kinds.map((kind) => `${hits.get(kind) ?? 0} × ${dealt[kind].about}`);
  const attempts = jobs.reduce((sum, job) => sum + job.attempts.length, 0);
  const lines = jobs.reduce(
    (sum, { testimony }) =>
      sum + [...testimony.printed.values()].reduce((of, text) => of + text.split('\n').length - 1, 0),
    0,
  );
  return `${jobs.length} jobs, ${attempts} attempts, ${lines} lines printed, under: ${counts.join('; ')}`;
}
