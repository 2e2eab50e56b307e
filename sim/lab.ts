// Lab: the life of a lab, played through the real core, controller and store. People share TPUs that stand before and after
// their jobs; scripts run on the login machine and drive the TPUs from there; TPUs are taken away by the hour, lines are cut,
// the login machine is rebooted, and people kill, resume, move and tidy up. Judged by the laws of every world (laws.ts) and by
// those of a lab (lab-laws.ts).

import { createHash } from 'node:crypto';
import type { Clock } from '../src/app/ports.ts';
import type { Job } from '../src/core/job.ts';
import { hour, minute, second } from '../src/core/time.ts';
import type { LabRecord } from '../src/lab/record.ts';
import { openStore } from '../src/store/store.ts';
import { createChance, calm } from './chance.ts';
import type { Chance, Weather } from './chance.ts';
import type { Sky } from './cloud.ts';
import { createClient, createControllers } from './controllers.ts';
import type { Ground } from './controllers.ts';
import { createCopies } from './outputs.ts';
import type { Disk } from './outputs.ts';
import { createBegin, known } from './lab-world.ts';
import type { Lab, LabFault } from './lab-world.ts';
import { createLabJudge, savesAfter } from './lab-laws.ts';
import type { LabJudge, LabViolation } from './lab-laws.ts';
import { drawLab, createScripts, scriptPlan } from './lab-people.ts';
import type { LabNature, LabSize } from './lab-people.ts';
import { createDesk, createPrograms } from './lab-tpus.ts';
import type { Programs } from './lab-tpus.ts';
import { createJudge, laws } from './laws.ts';
import type { Judge } from './laws.ts';
import { nextAct, runOn, beginAccidents, reboot } from './lab-acts.ts';
import { createTimeline } from './timeline.ts';
import type { Timeline } from './timeline.ts';
import { createWorld, makeMachine, newMachine } from './world.ts';
import type { World } from './world.ts';

/** How long a job may take to finish once no user wants anything new, in addition to the time of its own programs. */
const patience = 8 * hour;
const installation = 'thelab';
const epoch = Date.UTC(2026, 0, 1);

export interface LabStory {
  readonly seed: number;
  readonly violation: LabViolation | null;
  readonly hash: string;
  readonly lines: readonly string[];
  readonly virtualMs: number;
  readonly events: number;
  readonly jobs: number;
  readonly attempts: number;
  readonly programs: number;
  readonly lives: number;
  readonly verdicts: Readonly<Record<string, number>>;
}

export interface LabOptions {
  readonly seed: number;
  readonly size: LabSize;
  readonly fault?: LabFault;
  readonly trace?: boolean;
}

/** The faults besides the named accidents: a little of everything, all the time. */
const usual: Weather = {
  ...calm,
  replyLost: 0.02,
  requestLost: 0.02,
  effectLate: 0.01,
  stockout: 0.15,
  rateLimited: 0.02,
  internal: 0.02,
  lookFails: 0.03,
  listPartial: 0.005,
  listStale: 0.1,
  workerLookFails: 0.02,
  startSlow: 0.1,
  tailDrops: 0.02,
  tailSlow: 0.1,
};

function createLab({ seed, size, fault }: LabOptions, say: (line: string) => void): Lab & { close(): Promise<void> } {
  const chance = createChance(seed);
  const timeline = createTimeline();
  const plan = drawLab(chance.fork('lab'), size);
  const judge = createJudge(
    () => world,
    () => copies,
  );
  const labJudge: LabJudge = createLabJudge(
    () => world,
    () => programs,
    (id) => judge.job(id),
  );
  const world: World = createWorld(timeline, chance.fork('world'), say, {
    begins(run) {
      judge.begins(run);
      scripts.begins(run);
    },
    asked: (run) => scripts.asked(run),
    down: (host) => programs.down(host),
  });
  const programs: Programs = createPrograms(world, (program) => labJudge.programBegins(program));
  const sky: Sky = { weather: usual, cloudIsDown: false, lineIsCut: false };
  const disk: Disk = { isFull: false };
  const copies = createCopies(disk, chance.fork('disk'));
  const store = openStore({ file: ':memory:', installation });
  const clock: Clock = {
    now: () => epoch + timeline.now,
    at: (at, call) => timeline.after(Math.max(0, at - epoch - timeline.now), call),
  };
  const record: LabRecord = watchedList(store.lab, labJudge, fault);
  const natures = new Map<string, LabNature>();
  const tpuOf = new Map<string, string>();
  const tpus = new Map(plan.tpus.map((tpu) => [tpu.name, tpu]));

  const workersOf = (tpu: string): number => known(tpus, tpu).workers;
  const desk = createDesk({ world, sky, chance: chance.fork('desk'), programs, workersOf });
  const beginning = createBegin({
    record,
    desk: fault === 'leaves programs' ? { end: async () => ({ ended: [], left: [], missed: [] }) } : desk,
    timeline,
    now: () => clock.now(),
    jobOf: async (id) => (await store.load(id))?.job ?? null,
    tpuOf: (job) => known(tpus, known(tpuOf, job)),
    hasCheckpoints: (folder) => fault !== 'loads anything' && hasSaved(programs, timeline.now, folder),
  });
  const scripts = createScripts({
    world,
    sky,
    chance: chance.fork('scripts'),
    now: () => clock.now(),
    record,
    programs,
    judge: labJudge,
    natureOf: (job) => known(natures, job),
    tpuOf: (job) => known(tpuOf, job),
    begin: (job, attempt) => beginning.begin(job, attempt),
    tidy: (job, attempt) => beginning.tidy(job, attempt),
    isMute: fault === 'mute scripts',
    isCredulous: fault === 'credulous scripts',
  });

  /** `tpu ack`. */
  const acks = chance.fork('ends that are to be judged at once');
  const ground: Ground = {
    world,
    sky,
    disk,
    copies,
    store,
    clock,
    judge: listening(judge, labJudge, (id) => void client.speak('judge', id, {}), { acks, timeline }),
    installation,
    workersOf: (job) => workersOf(known(tpuOf, job)),
    planFor: () => scriptPlan,
  };
  const [login] = world.here.hosts;
  if (login === undefined) throw new Error('there is no login machine');
  const controllers = createControllers(ground, {
    ports: chance,
    chance: chance.fork('fates'),
    born: () => undefined,
    mayBegin: () => login.isUp,
  });
  const client = createClient(ground, controllers, {
    owner: (id) => judge.job(id).owner,
    isTapLost: () => false,
  });
  return {
    world,
    sky,
    clock,
    plan,
    size,
    fault,
    judge,
    labJudge,
    record,
    controllers,
    client,
    desk,
    beginning,
    programs,
    natures,
    tpuOf,
    tpus,
    login,
    people: chance.fork('people'),
    storm: chance.fork('storm'),
    isLife: true,
    close: () => store.close(),
  };
}

/** The judge of every world, with the lab's judge behind it; `tpu ack` comes after some ends that are held back. */
function listening(
  judge: Judge,
  labJudge: LabJudge,
  ack: (job: string) => void,
  { acks, timeline }: { readonly acks: Chance; readonly timeline: Timeline },
): Judge {
  return {
    ...judge,
    get violation() {
      return judge.violation;
    },
    committed(commit, result) {
      const before = judge.job(commit.job.id);
      judge.committed(commit, result);
      if (result !== 'committed') return;
      labJudge.committed(before, commit.job);
      const isHeldBack = commit.events.some(({ kind }) => kind === 'exit_seen');
      if (isHeldBack && acks.yes(0.2)) timeline.after(acks.between(0, 25) * second, () => ack(commit.job.id));
    },
    called(kind, ref, detail) {
      if (kind === 'release') labJudge.released(ref.job);
      judge.called(kind, ref, detail);
    },
  };
}

function hasSaved(programs: Programs, now: number, folder: string): boolean {
  return programs.all.some(
    ({ logFolder, startedAt, endedAt }) => logFolder === folder && (endedAt ?? now) - startedAt >= savesAfter,
  );
}

/** The record, with the judge looking at the list whenever a number is given or taken off it. */
function watchedList(real: LabRecord, labJudge: LabJudge, fault: LabFault | undefined): LabRecord {
  return {
    ...real,
    async openWindow(job, attempt, now) {
      const opened = await real.openWindow(job, attempt, now);
      await labJudge.listChanged(numbered(real, fault), opened.job.user);
      return opened;
    },
  };
}

function numbered(real: LabRecord, fault: LabFault | undefined): LabRecord {
  if (fault !== 'one number') return real;
  return {
    ...real,
    windows: async (query) =>
      (await real.windows(query)).map((one) => ({ ...one, window: { ...one.window, window: 1 } })),
  };
}

/** The longest that the programs of one unfinished job can take: it may fail as often as its budget allows. */
function longestProgramTime(lab: Lab): number {
  const { judge, natures } = lab;
  const open = judge.jobs.filter(({ settled }) => settled === null);
  const lengths = open.map(({ id, spec }) => (spec.recovery.budget.failures + 1) * known(natures, id).length);
  return Math.max(0, ...lengths);
}

/** Plays that seed to its end, or to the first law that is broken. */
export async function runLab(options: LabOptions): Promise<LabStory> {
  const { seed, size, trace = false } = options;
  const hash = createHash('sha256');
  const lines: string[] = [];
  const lab = createLab(options, (line) => {
    hash.update(line).update('\n');
    if (trace) lines.push(line);
  });
  const { world, sky, plan, judge, labJudge, record, controllers, programs, natures, people, storm } = lab;
  const { timeline } = world;
  const isBroken = (): boolean => judge.violation !== null || labJudge.violation !== null;

  for (const user of plan.users) await record.addUser(user);
  for (const { workers, ...tpu } of plan.tpus) {
    await record.changeTpu(tpu.name, () => tpu);
    const { name, zone } = tpu;
    makeMachine(world, newMachine({ name, labels: null, isStanding: true, workers, at: 0, zone: zone ?? '' }));
  }
  for (const wish of plan.wishes) {
    const tpu = people.pick(plan.tpus).name;
    timeline.after(wish.at, () => void runOn(lab, wish, tpu));
    if (wish.isTwice)
      timeline.after(wish.at, () => void runOn(lab, { ...wish, user: people.pick(plan.users).name }, tpu));
  }
  for (let at = storm.between(1, 30) * hour; at < size.length; at += storm.between(6, 30) * hour)
    timeline.after(at, () => reboot(lab));
  beginAccidents(lab);
  nextAct(lab);
  await timeline.play(size.length, isBroken);
  lab.isLife = false;
  judge.becomeCalm();
  sky.weather = calm;
  world.say('nobody wants anything new');
  let restingSince: number | null = null;
  await timeline.play(size.length + longestProgramTime(lab) + patience, () => {
    if (isBroken()) return true;
    if (!judge.jobs.every(({ settled }) => settled !== null)) {
      restingSince = null;
      return false;
    }
    restingSince ??= timeline.now;
    return timeline.now - restingSince > 10 * minute;
  });
  if (!isBroken() && restingSince === null) {
    const late = judge.jobs.find(({ settled }) => settled === null);
    judge.break(10, `job ${late?.id} has not come to rest`);
  }
  if (!isBroken()) judge.atRest();
  for (const life of controllers.lives) life.incarnation.die();
  await lab.close();
  return {
    seed,
    violation: labJudge.violation ?? inWords(judge.violation),
    hash: hash.digest('hex'),
    lines,
    virtualMs: timeline.now,
    events: timeline.played,
    jobs: natures.size,
    attempts: judge.jobs.reduce((sum, { attempts }) => sum + attempts.length, 0),
    programs: programs.all.length,
    lives: controllers.lives.length,
    verdicts: verdictsOf(judge.jobs),
  };
}

function inWords(violation: ReturnType<typeof createJudge>['violation']): LabViolation | null {
  if (violation === null) return null;
  return { ...violation, law: `${violation.law} (${laws[violation.law]})` };
}

function verdictsOf(jobs: readonly Job[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { settled } of jobs) {
    const word = settled === null ? 'unsettled' : `${settled.verdict}: ${settled.reason}`;
    counts[word] = (counts[word] ?? 0) + 1;
  }
  return counts;
}
