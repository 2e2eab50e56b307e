// Lab: simulates a lab with the real core, controller and store. Users share TPUs that exist before and after their
// jobs. Scripts run on the login machine and drive the TPUs from there. TPUs are preempted, connections are cut, the
// login machine is rebooted, and users kill, resume, move and clean up. The invariants of every world (invariants.ts)
// and of a lab (lab-invariants.ts) are checked.

import { createHash } from 'node:crypto';
import type { Clock } from '../src/app/ports.ts';
import type { Job } from '../src/core/model/job.ts';
import { hour, minute, second } from '../src/core/model/time.ts';
import type { LabStore } from '../src/lab/lab-store.ts';
import { openStore } from '../src/store/store.ts';
import { createChance, noFaults } from './chance.ts';
import type { Chance, FaultRates } from './chance.ts';
import type { CloudModel } from './cloud.ts';
import { createOwnerClient, createControllers } from './controllers.ts';
import type { SimulationContext } from './controllers.ts';
import { createLogCopies } from './outputs.ts';
import type { Disk } from './outputs.ts';
import { createScriptSetup, lookUp } from './lab-world.ts';
import type { Lab, LabFault } from './lab-world.ts';
import { createLabChecker, firstCheckpointAfter } from './lab-invariants.ts';
import type { LabChecker, LabViolation } from './lab-invariants.ts';
import { drawLab, createScripts, scriptPlan } from './lab-people.ts';
import type { LabJobProfile, LabSize } from './lab-people.ts';
import { createTpuOperations, createPrograms } from './lab-tpus.ts';
import type { Programs } from './lab-tpus.ts';
import { createInvariantChecker, invariants } from './invariants.ts';
import type { InvariantChecker } from './invariants.ts';
import { scheduleAction, runOn, startLabFaults, reboot } from './lab-actions.ts';
import { createTimeline } from './timeline.ts';
import type { Timeline } from './timeline.ts';
import { createWorld, requestMachine, newMachine } from './world.ts';
import type { World } from './world.ts';

/** Longest time until a job finishes once no user wants anything new, in addition to the time of its own programs. */
const settleTimeout = 8 * hour;
const installation = 'thelab';
const epoch = Date.UTC(2026, 0, 1);

export interface LabResult {
  readonly seed: number;
  readonly violation: LabViolation | null;
  readonly hash: string;
  readonly lines: readonly string[];
  readonly virtualMs: number;
  readonly events: number;
  readonly jobs: number;
  readonly attempts: number;
  readonly programs: number;
  readonly controllers: number;
  readonly verdicts: Readonly<Record<string, number>>;
}

export interface LabOptions {
  readonly seed: number;
  readonly size: LabSize;
  readonly fault?: LabFault;
  readonly trace?: boolean;
}

/** Background faults in addition to the named ones: a little of everything, all the time. */
const usualFaultRates: FaultRates = {
  ...noFaults,
  replyLost: 0.02,
  requestLost: 0.02,
  effectLate: 0.01,
  stockout: 0.15,
  rateLimited: 0.02,
  internal: 0.02,
  observeFails: 0.03,
  listPartial: 0.005,
  listStale: 0.1,
  workerObserveFails: 0.02,
  startSlow: 0.1,
  tailDrops: 0.02,
  tailSlow: 0.1,
};

function createLab({ seed, size, fault }: LabOptions, log: (line: string) => void): Lab & { close(): Promise<void> } {
  const chance = createChance(seed);
  const timeline = createTimeline();
  const plan = drawLab(chance.fork('lab'), size);
  const checker = createInvariantChecker(
    () => world,
    () => logCopies,
  );
  const labChecker: LabChecker = createLabChecker(
    () => world,
    () => programs,
    (id) => checker.job(id),
  );
  const world: World = createWorld(timeline, chance.fork('world'), log, {
    runBegins(run) {
      checker.runBegins(run);
      scripts.runBegins(run);
    },
    stopRequested: (run) => scripts.stopRequested(run),
    hostDown: (host) => programs.hostDown(host),
  });
  const programs: Programs = createPrograms(world, (program) => labChecker.programBegins(program));
  const cloudModel: CloudModel = { faultRates: usualFaultRates, isCloudDown: false, isNetworkCut: false };
  const disk: Disk = { isFull: false };
  const logCopies = createLogCopies(disk, chance.fork('disk'));
  const store = openStore({ file: ':memory:', installation });
  const clock: Clock = {
    now: () => epoch + timeline.now,
    at: (at, call) => timeline.after(Math.max(0, at - epoch - timeline.now), call),
  };
  const record: LabStore = watchedRecord(store.lab, labChecker, fault);
  const profiles = new Map<string, LabJobProfile>();
  const tpuOf = new Map<string, string>();
  const tpus = new Map(plan.tpus.map((tpu) => [tpu.name, tpu]));

  const workersOf = (tpu: string): number => lookUp(tpus, tpu).workers;
  const tpuChance = chance.fork('tpu operations');
  const tpuOperations = createTpuOperations({ world, cloudModel, chance: tpuChance, programs, workersOf });
  const scriptSetup = createScriptSetup({
    record,
    tpuOperations:
      fault === 'programs-left' ? { end: async () => ({ ended: [], left: [], unreachable: [] }) } : tpuOperations,
    timeline,
    now: () => clock.now(),
    jobOf: async (id) => (await store.load(id))?.job ?? null,
    tpuOf: (job) => lookUp(tpus, lookUp(tpuOf, job)),
    hasCheckpoints: (folder) => fault !== 'empty-checkpoint-loaded' && hasCheckpoint(programs, timeline.now, folder),
  });
  const scripts = createScripts({
    world,
    cloudModel,
    chance: chance.fork('scripts'),
    now: () => clock.now(),
    record,
    programs,
    checker: labChecker,
    profileOf: (job) => lookUp(profiles, job),
    tpuOf: (job) => lookUp(tpuOf, job),
    begin: (job, attempt) => scriptSetup.begin(job, attempt),
    cleanUp: (job, attempt) => scriptSetup.cleanUp(job, attempt),
    hidesLastLine: fault === 'last-line-hidden',
    trustsExitCode: fault === 'exit-code-trusted',
  });

  /** `tpu ack`. */
  const ackChance = chance.fork('accepted exits');
  const context: SimulationContext = {
    world,
    cloudModel,
    disk,
    logCopies,
    store,
    clock,
    checker: withLabChecker(checker, labChecker, (id) => void client.sendCommand('accept-exit', id, {}), {
      ackChance,
      timeline,
    }),
    installation,
    workersOf: (job) => workersOf(lookUp(tpuOf, job)),
    planFor: () => scriptPlan,
  };
  const [loginHost] = world.controllerMachine.hosts;
  if (loginHost === undefined) throw new Error('there is no login machine');
  const controllers = createControllers(context, {
    portChance: chance,
    restartChance: chance.fork('controllers'),
    onStart: () => undefined,
    mayStart: () => loginHost.isUp,
  });
  const client = createOwnerClient(context, controllers, {
    owner: (id) => checker.job(id).owner,
    isWakeLost: () => false,
  });
  return {
    world,
    cloudModel,
    clock,
    plan,
    size,
    fault,
    checker,
    labChecker,
    record,
    controllers,
    client,
    tpuOperations,
    scriptSetup,
    programs,
    profiles,
    tpuOf,
    tpus,
    loginHost,
    peopleChance: chance.fork('people'),
    faultChance: chance.fork('storm'),
    hasFaults: true,
    close: () => store.close(),
  };
}

/** The checker of every world, and the lab's behind it; `tpu ack` follows some ends that are held back. */
function withLabChecker(
  checker: InvariantChecker,
  labChecker: LabChecker,
  ack: (job: string) => void,
  { ackChance, timeline }: { readonly ackChance: Chance; readonly timeline: Timeline },
): InvariantChecker {
  return {
    ...checker,
    get violation() {
      return checker.violation;
    },
    committed(commit, result) {
      const before = checker.job(commit.job.id);
      checker.committed(commit, result);
      if (result !== 'committed') return;
      labChecker.committed(before, commit.job);
      const isHeldBack = commit.events.some(({ kind }) => kind === 'exit_seen');
      if (isHeldBack && ackChance.yes(0.2)) timeline.after(ackChance.between(0, 25) * second, () => ack(commit.job.id));
    },
    called(kind, ref, detail) {
      if (kind === 'release') labChecker.released(ref.job);
      checker.called(kind, ref, detail);
    },
  };
}

function hasCheckpoint(programs: Programs, now: number, folder: string): boolean {
  return programs.all.some(
    ({ logFolder, startedAt, endedAt }) => logFolder === folder && (endedAt ?? now) - startedAt >= firstCheckpointAfter,
  );
}

/** The database. The checker sees the list whenever a number is given or removed. */
function watchedRecord(real: LabStore, labChecker: LabChecker, fault: LabFault | undefined): LabStore {
  return {
    ...real,
    async openWindow(job, attempt, now) {
      const opened = await real.openWindow(job, attempt, now);
      await labChecker.listChanged(withSingleNumber(real, fault), opened.job.user);
      return opened;
    },
  };
}

function withSingleNumber(real: LabStore, fault: LabFault | undefined): LabStore {
  if (fault !== 'same-window-number') return real;
  return {
    ...real,
    windows: async (query) =>
      (await real.windows(query)).map((one) => ({ ...one, window: { ...one.window, window: 1 } })),
  };
}

/** Longest time of the programs of one unfinished job: it may fail as often as its budget allows. */
function longestProgramTime(lab: Lab): number {
  const { checker, profiles } = lab;
  const open = checker.jobs().filter(({ finish }) => finish === null);
  const lengths = open.map(({ id, spec }) => (spec.recovery.budget.failures + 1) * lookUp(profiles, id).duration);
  return Math.max(0, ...lengths);
}

/** Simulates that seed to its end, or to the first broken invariant. */
export async function runLab(options: LabOptions): Promise<LabResult> {
  const { seed, size, trace = false } = options;
  const hash = createHash('sha256');
  const lines: string[] = [];
  const lab = createLab(options, (line) => {
    hash.update(line).update('\n');
    if (trace) lines.push(line);
  });
  const {
    world,
    cloudModel,
    plan,
    checker,
    labChecker,
    record,
    controllers,
    programs,
    profiles,
    peopleChance,
    faultChance,
  } = lab;
  const { timeline } = world;
  const isBroken = (): boolean => checker.violation !== null || labChecker.violation !== null;

  for (const user of plan.users) await record.addUser(user);
  for (const { workers, ...tpu } of plan.tpus) {
    await record.changeTpu(tpu.name, { kind: 'add', tpu });
    const { name, zone } = tpu;
    requestMachine(world, newMachine({ name, labels: null, isPersistent: true, workers, at: 0, zone: zone ?? '' }));
  }
  for (const planned of plan.runs) {
    const tpu = peopleChance.pick(plan.tpus).name;
    timeline.after(planned.at, () => void runOn(lab, planned, tpu));
    if (planned.isDuplicated)
      timeline.after(planned.at, () => void runOn(lab, { ...planned, user: peopleChance.pick(plan.users).name }, tpu));
  }
  for (let at = faultChance.between(1, 30) * hour; at < size.length; at += faultChance.between(6, 30) * hour)
    timeline.after(at, () => reboot(lab));
  startLabFaults(lab);
  scheduleAction(lab);
  await timeline.run(size.length, isBroken);
  lab.hasFaults = false;
  checker.faultsStopped();
  cloudModel.faultRates = noFaults;
  world.log('no user starts anything new');
  let restingSince: number | null = null;
  await timeline.run(size.length + longestProgramTime(lab) + settleTimeout, () => {
    if (isBroken()) return true;
    if (!checker.jobs().every(({ finish }) => finish !== null)) {
      restingSince = null;
      return false;
    }
    restingSince ??= timeline.now;
    return timeline.now - restingSince > 10 * minute;
  });
  if (!isBroken() && restingSince === null) {
    const late = checker.jobs().find(({ finish }) => finish === null);
    checker.fail(10, `job ${late?.id} has not come to rest`);
  }
  if (!isBroken()) checker.checkAtRest();
  for (const controllerProcess of controllers.processes) controllerProcess.process.crash();
  await lab.close();
  return {
    seed,
    violation: labChecker.violation ?? labViolationOf(checker.violation),
    hash: hash.digest('hex'),
    lines,
    virtualMs: timeline.now,
    events: timeline.eventCount,
    jobs: profiles.size,
    attempts: checker.jobs().reduce((sum, { attempts }) => sum + attempts.length, 0),
    programs: programs.all.length,
    controllers: controllers.processes.length,
    verdicts: verdictsOf(checker.jobs()),
  };
}

function labViolationOf(violation: ReturnType<typeof createInvariantChecker>['violation']): LabViolation | null {
  if (violation === null) return null;
  return { ...violation, invariant: `${violation.invariant} (${invariants[violation.invariant]})` };
}

function verdictsOf(jobs: readonly Job[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { finish } of jobs) {
    const verdict = finish === null ? 'unsettled' : `${finish.verdict}: ${finish.reason}`;
    counts[verdict] = (counts[verdict] ?? 0) + 1;
  }
  return counts;
}
