// Lab: the life of a lab, played through the real core, controller and store. People share TPUs that stand before and after
// their jobs; scripts run on the login machine and drive the TPUs from there; TPUs are taken away by the hour, lines are cut,
// the login machine is rebooted, and people kill, resume, move and tidy up. Judged by the laws of every world (laws.ts) and by
// those of a lab (lab-laws.ts).

import { createHash } from 'node:crypto';
import type { Clock } from '../src/app/ports.ts';
import type { Job } from '../src/core/job.ts';
import { hour, minute, second } from '../src/core/time.ts';
import { nameOf, stageOf } from '../src/lab/lineage.ts';
import type { LabRecord } from '../src/lab/record.ts';
import { usualRule } from '../src/lab/run.ts';
import type { LabJob } from '../src/lab/windows.ts';
import { openStore } from '../src/store/store.ts';
import { createChance } from './chance.ts';
import type { Sky } from './cloud.ts';
import { createClient, createControllers } from './controllers.ts';
import type { Ground } from './controllers.ts';
import { createCopies } from './copies.ts';
import type { Disk } from './copies.ts';
import { createBegin, specOf } from './lab-begin.ts';
import { createLabJudge, lateWord, savesAfter } from './lab-laws.ts';
import type { LabJudge, LabViolation } from './lab-laws.ts';
import { drawLab } from './lab-people.ts';
import type { LabNature, LabPlan, LabSize, LabWish } from './lab-people.ts';
import { createScripts, scriptPlan } from './lab-scripts.ts';
import { createDesk, createPrograms } from './lab-tpus.ts';
import type { Programs } from './lab-tpus.ts';
import { createJudge, laws } from './laws.ts';
import { createTimeline } from './timeline.ts';
import { calm } from './weather.ts';
import type { Weather } from './weather.ts';
import {
  createWorld,
  endRun,
  interruptMachine,
  isAlive,
  loseMachine,
  makeMachine,
  newMachine,
  restartHost,
  shutDown,
  silenceHost,
} from './world.ts';
import type { Machine, World } from './world.ts';

/** How long a job may take to finish once no user wants anything new, in addition to the time of its own programs. */
const patience = 8 * hour;
const installation = 'thelab';
const epoch = Date.UTC(2026, 0, 1);

/** Mistakes that are made on purpose, each to show that a law of the lab can fail. */
export const labFaults = {
  'forgets stages': 'a job that goes on on another TPU counts its stages from 0',
  'mute scripts': 'a script whose line was cut does not say so',
  'leaves programs': 'what an earlier attempt left on the workers is not ended',
  'one number': 'every window gets the number 1',
  'deaf to kill': 'a kill is heard as a stop and a resume after it',
  'deaf to closing': 'that a window was closed is written down, and nobody is told',
  'eager rule': 'the rule pass makes TPUs anew',
  'patient rule': 'a program that hangs after a failed call is left alone',
  'credulous scripts': 'every exit code of 0 is a success',
  'loads anything': 'a script loads the newest folder, whether or not anything was saved in it',
} as const;

export type LabFault = keyof typeof labFaults;

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
  /** How the jobs ended. */
  readonly verdicts: Readonly<Record<string, number>>;
}

export interface LabOptions {
  readonly seed: number;
  readonly size: LabSize;
  readonly fault?: LabFault;
  readonly trace?: boolean;
}

/** What goes wrong beside the accidents that have a name below: a little of everything, all the time. */
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

/** Plays that seed to its end, or to the first law that is broken. */
export async function runLab({ seed, size, fault, trace = false }: LabOptions): Promise<LabStory> {
  const hash = createHash('sha256');
  const lines: string[] = [];
  const say = (line: string): void => {
    hash.update(line).update('\n');
    if (trace) lines.push(line);
  };
  const chance = createChance(seed);
  const timeline = createTimeline();
  const plan: LabPlan = drawLab(chance.fork('lab'), size);
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
  const record: LabRecord = watchedList(store.lab);
  const natures = new Map<string, LabNature>();
  const tpuOf = new Map<string, string>();
  const tpus = new Map(plan.tpus.map((tpu) => [tpu.name, tpu]));

  function known<Value>(map: ReadonlyMap<string, Value>, name: string): Value {
    const value = map.get(name);
    if (value === undefined) throw new Error(`the lab knows no ${name}`);
    return value;
  }

  const workersOf = (tpu: string): number => known(tpus, tpu).workers;
  const desk = createDesk({ world, sky, chance: chance.fork('desk'), programs, workersOf });
  const beginning = createBegin({
    record,
    desk: fault === 'leaves programs' ? { end: async () => ({ ended: [], left: [], missed: [] }) } : desk,
    timeline,
    now: () => clock.now(),
    jobOf: async (id) => (await store.load(id))?.job ?? null,
    tpuOf: (job) => known(tpus, known(tpuOf, job)),
    hasCheckpoints: (folder) => fault !== 'loads anything' && hasSaved(folder),
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

  /** A program saves something now and then. */
  function hasSaved(folder: string): boolean {
    return programs.all.some(
      ({ logFolder, startedAt, endedAt }) =>
        logFolder === folder && (endedAt ?? timeline.now) - startedAt >= savesAfter,
    );
  }

  /** The record, with the judge looking at the list whenever a number is given or taken off it. */
  function watchedList(real: LabRecord): LabRecord {
    return {
      ...real,
      async openWindow(job, attempt, now) {
        const opened = await real.openWindow(job, attempt, now);
        await labJudge.listChanged(numbered(real), opened.job.user);
        return opened;
      },
    };
  }

  function numbered(real: LabRecord): LabRecord {
    if (fault !== 'one number') return real;
    return {
      ...real,
      windows: async (query) =>
        (await real.windows(query)).map((one) => ({ ...one, window: { ...one.window, window: 1 } })),
    };
  }

  // -------------------------------------------------------------------------------------- controllers

  const ground: Ground = {
    world,
    sky,
    disk,
    copies,
    store,
    clock,
    judge: {
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
        if (isHeldBack && acks.yes(0.2))
          timeline.after(acks.between(0, 25) * second, () => void client.speak('judge', commit.job.id, {}));
      },
      called(kind, ref, detail) {
        if (kind === 'release') labJudge.released(ref.job);
        judge.called(kind, ref, detail);
      },
    },
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

  // -------------------------------------------------------------------------------------- what people do

  const people = chance.fork('people');
  /** `tpu ack`. */
  const acks = chance.fork('ends that are to be judged at once');

  const jobsOf = (user: string): readonly Job[] => judge.jobs.filter(({ owner }) => owner === user);
  const holding = (tpu: string): Job | undefined =>
    judge.jobs.find(({ id, settled }) => settled === null && tpuOf.get(id) === tpu);

  /** `tpu run`: the TPU is looked at, whoever holds it is asked about, and then the job is made. */
  async function runOn(wish: LabWish, tpuName: string, father: Father | null = null): Promise<void> {
    const tpu = known(tpus, tpuName);
    if (!(await isMine(tpuName))) return;
    const made = specOf(tpu, wish.rule ?? usualRule(tpu), `/code/${wish.user}`, fault === 'eager rule');
    const { troubleTimeout: _grace, ...patient } = made.limits;
    const spec = fault === 'patient rule' ? { ...made, limits: patient } : made;
    // What was true a moment ago may be true no more: the record is asked in the same breath in which it is written.
    const other = holding(tpuName);
    if (other !== undefined) {
      world.say(`${wish.user}: ${tpuName} is held by job ${other.id} now`);
      return;
    }
    const job = await client.insert({ owner: wish.user, spec, manifest: '', at: clock.now() });
    natures.set(job.id, wish.nature);
    tpuOf.set(job.id, tpuName);
    const labJob: LabJob = {
      job: job.id,
      user: wish.user,
      directory: `/code/${wish.user}`,
      directoryNumber: 1,
      tpu: tpuName,
      configs: [],
      tag: null,
      monitor: true,
      logStage: wish.logStage,
      father: father === null ? null : { job: father.job.id, attempt: father.job.attempts.length, how: father.how },
      baseStage: father === null || fault === 'forgets stages' ? 0 : father.baseStage,
    };
    labJudge.made(job, labJob);
    await record.addJob(labJob);
    client.tap(job.id);
  }

  interface Father {
    readonly job: Job;
    readonly how: 'resume' | 'rerun';
    readonly baseStage: number;
  }

  /** Looks at the TPU and at who is on it, and has it put right if its people say so. False: not now. */
  async function isMine(tpuName: string): Promise<boolean> {
    const tpu = known(tpus, tpuName);
    const state = await desk.describe(tpu);
    if (state.kind === 'unknown') return false;
    const other = holding(tpuName);
    if (other !== undefined) {
      if (!people.yes(0.15)) return false;
      await kill(other.id);
      if (holding(tpuName) !== undefined) return false;
    }
    if (state.state !== 'ready') {
      if (state.state === 'creating' || state.state === 'repairing' || state.state === 'deleting') return false;
      if (holding(tpuName) !== undefined) return false;
      await desk.reapply(tpu);
      return (await desk.describe(tpu)).kind === 'known';
    }
    const { holders, missed } = await desk.holders(tpu);
    if (missed.length > 0) return false;
    if (holders.length === 0) return true;
    if (!people.yes(0.7)) return false;
    const ended = await desk.end(tpu, { folders: [], pids: holders, graceMs: 0 });
    return ended.missed.length === 0;
  }

  /** `tpu kill`: the job is cancelled, and what it has left on the workers is ended. */
  async function kill(id: string): Promise<void> {
    if (fault === 'deaf to kill') {
      labJudge.killed(id);
      if (await client.speak('stop', id, {})) timeline.after(5 * minute, () => void client.speak('resume', id, {}));
      return;
    }
    if (!(await client.speak('cancel', id, {}))) return;
    labJudge.killed(id);
    for (let tries = 0; tries < 60 && judge.job(id).settled === null; tries += 1) await timeline.pause(5 * second);
    await beginning.tidy(id, judge.job(id).attempts.length);
  }

  /** `tpu resume` or `tpu rerun`, on the same TPU or on another. */
  async function again(user: string, how: 'resume' | 'rerun', isElsewhere: boolean): Promise<void> {
    const over = jobsOf(user).filter(({ settled, attempts }) => settled !== null && attempts.length > 0);
    if (over.length === 0) return;
    const job = people.pick(over);
    if (isElsewhere) {
      const labJob = await record.job(job.id);
      if (labJob === null) return;
      const nature = known(natures, job.id);
      const baseStage = how === 'resume' ? stageOf(labJob, job, job.attempts.length) + 1 : 0;
      const wish = { at: 0, user, rule: null, logStage: labJob.logStage, nature, isTwice: false };
      await runOn(wish, people.pick(plan.tpus).name, { job, how, baseStage });
      return;
    }
    const tpu = known(tpuOf, job.id);
    if (!(await isMine(tpu)) || holding(tpu) !== undefined) return;
    if (await client.speak(how, job.id, {})) labJudge.wanted(job.id, how);
  }

  /** The tmux window of something that runs is closed by hand: `tpu __closed` says so. */
  async function close(job: Job): Promise<void> {
    const attempt = job.attempts.length;
    const [shown] = (await record.windows({ jobs: [job.id] })).filter(({ window }) => window.attempt === attempt);
    if (shown === undefined) return;
    world.say(`${job.owner}: closes window ${shown.window.window}`);
    await record.markWindows([{ job: job.id, attempt }], 'closed', clock.now());
    if (fault === 'deaf to closing' || (await client.speak('last', job.id, {}))) labJudge.closed(job.id);
  }

  /** `tpu clean`: what is over leaves the list. */
  async function clean(user: string): Promise<void> {
    const shown = await record.windows({ user });
    const over = shown.filter(({ window }) => judge.job(window.job).settled !== null);
    world.say(`${user}: clears ${over.map(({ window }) => nameOf(window)).join(' ')}`);
    await record.markWindows(
      over.map(({ window: { job, attempt } }) => ({ job, attempt })),
      'cleared',
      clock.now(),
    );
    await labJudge.listChanged(record, user);
  }

  const things = [
    ...(['kill', 'kill', 'close', 'resume', 'resume', 'rerun', 'move', 'move', 'move anew', 'clean'] as const),
  ];

  async function act(): Promise<void> {
    const user = people.pick(plan.users).name;
    const running = jobsOf(user).filter(({ settled }) => settled === null);
    switch (people.pick(things)) {
      case 'kill':
        return running.length === 0 ? undefined : kill(people.pick(running).id);
      case 'close':
        return running.length === 0 ? undefined : close(people.pick(running));
      case 'resume':
        return again(user, 'resume', false);
      case 'rerun':
        return again(user, 'rerun', false);
      case 'move':
        return again(user, 'resume', true);
      case 'move anew':
        return again(user, 'rerun', true);
      case 'clean':
        return clean(user);
    }
  }

  // -------------------------------------------------------------------------------------- what goes wrong

  const storm = chance.fork('storm');
  let isLife = true;

  function onMachine(isMeant: (machine: Machine) => boolean, hit: (machine: Machine) => void): void {
    const there = world.machines.filter((one) => one !== world.here && one.state === 'ready' && isMeant(one));
    if (there.length > 0) hit(storm.pick(there));
  }

  const isPreemptible = ({ name }: Machine): boolean => tpus.get(name)?.pricing !== 'ondemand';

  function during(what: string, length: number, turn: (on: boolean) => void): void {
    world.say(`storm: ${what} for ${length}`);
    turn(true);
    timeline.after(length, () => turn(false));
  }

  function reboot(): void {
    world.say('storm: the login machine is rebooted');
    for (const life of controllers.lives) life.incarnation.die();
    if (login !== undefined) void restartHost(world, login);
    timeline.after(3 * minute, () => controllers.ensureAlive('the login machine is back'));
  }

  const accidents: readonly (readonly [weight: number, hit: () => void])[] = [
    [10, () => onMachine(isPreemptible, (machine) => takeAway(machine))],
    [
      1,
      () =>
        onMachine(
          () => true,
          (machine) => loseMachine(world, machine, 'failed'),
        ),
    ],
    [
      2,
      () =>
        onMachine(
          () => true,
          (machine) => void interruptMachine(world, machine, storm.between(30, 600) * second),
        ),
    ],
    [
      2,
      () =>
        onMachine(
          () => true,
          ({ hosts }) => void restartHost(world, storm.pick(hosts)),
        ),
    ],
    [
      3,
      () =>
        onMachine(
          () => true,
          ({ hosts }) => silenceHost(world, storm.pick(hosts), storm.between(5, 900) * second),
        ),
    ],
    [1, () => during('the cloud is out of reach', storm.between(1, 10) * minute, (on) => (sky.cloudIsDown = on))],
    [1, () => cutLine(storm.between(10, 240) * second)],
    [1, () => during('there is no capacity', storm.between(5, 60) * minute, (on) => (world.hasCapacity = !on))],
    [2, () => controllers.lives.at(-1)?.incarnation.die()],
    [1, killScript],
    [2, () => onMachine(() => true, makeAnew)],
  ];

  /** A colleague deletes it and makes it anew, whoever has a job on it. */
  function makeAnew(machine: Machine): void {
    const tpu = plan.tpus.find(({ name }) => name === machine.name);
    if (tpu === undefined) return;
    world.say(`storm: ${tpu.name} is made anew by hand`);
    labJudge.madeAnew(machine);
    void desk.reapply(tpu);
  }

  /** Its machines go down, and the cloud says so some time after. */
  function takeAway(machine: Machine): void {
    world.say(`storm: ${machine.name} is taken away`);
    machine.troubledAt = timeline.now;
    for (const host of machine.hosts) shutDown(world, host);
    timeline.after(storm.between(0, lateWord), () => loseMachine(world, machine, 'preempted'));
  }

  function cutLine(length: number): void {
    world.lineCutLongest += length;
    world.lineCutUntil = Math.max(world.lineCutUntil, timeline.now + length);
    during('the line to all TPUs is cut', length, (on) => (sky.lineIsCut = on));
  }

  /** Somebody kills a script on the login machine, or it runs out of memory. */
  function killScript(): void {
    const alive = world.runs.filter(isAlive);
    if (alive.length === 0) return;
    const run = storm.pick(alive);
    run.killed = true;
    world.say(`storm: somebody kills the script of ${run.job}/${run.attempt}`);
    endRun(world, run, storm.yes(0.5) ? 137 : null);
  }

  const weights = accidents.flatMap(([weight, hit]) => Array.from({ length: weight }, () => hit));

  /** About as many an hour as there are jobs on preemptible TPUs to hit. */
  function nextAccident(): void {
    timeline.after(storm.between(1, Math.ceil((1200 * 30) / size.tpus / 4)) * second, () => {
      if (!isLife) return;
      storm.pick(weights)();
      nextAccident();
    });
  }

  function nextAct(): void {
    timeline.after(people.between(1, Math.ceil((1500 * 8) / size.users)) * second, () => {
      if (!isLife) return;
      void act();
      nextAct();
    });
  }

  /** The longest that the programs of one unfinished job can take: it may fail as often as its budget allows. */
  function longestProgramTime(): number {
    const open = judge.jobs.filter(({ settled }) => settled === null);
    const lengths = open.map(({ id, spec }) => (spec.recovery.budget.failures + 1) * known(natures, id).length);
    return Math.max(0, ...lengths);
  }

  // -------------------------------------------------------------------------------------- the story

  const isBroken = (): boolean => judge.violation !== null || labJudge.violation !== null;

  for (const user of plan.users) await record.addUser(user);
  for (const { workers, ...tpu } of plan.tpus) {
    await record.changeTpu(tpu.name, () => tpu);
    const { name, zone } = tpu;
    makeMachine(world, newMachine({ name, labels: null, isStanding: true, workers, at: 0, zone: zone ?? '' }));
  }
  for (const wish of plan.wishes) {
    const tpu = people.pick(plan.tpus).name;
    timeline.after(wish.at, () => void runOn(wish, tpu));
    if (wish.isTwice) timeline.after(wish.at, () => void runOn({ ...wish, user: people.pick(plan.users).name }, tpu));
  }
  for (let at = storm.between(1, 30) * hour; at < size.length; at += storm.between(6, 30) * hour)
    timeline.after(at, reboot);
  nextAccident();
  nextAct();
  await timeline.play(size.length, isBroken);
  isLife = false;
  judge.becomeCalm();
  sky.weather = calm;
  world.say('nobody wants anything new');
  let restingSince: number | null = null;
  await timeline.play(size.length + longestProgramTime() + patience, () => {
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
  await store.close();
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
