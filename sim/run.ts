// Run: simulates one seed. First comes a storm of faults in which no invariant may break, then a calm in which
// everything must come to rest within a fixed time. The controller, performer, log mirror, orphan collector, core and
// store are the real ones.

import { createHash } from 'node:crypto';
import type { Clock, Store } from '../src/app/ports.ts';
import type { ReplayedPass } from '../src/core/decide/replay.ts';
import type { Job } from '../src/core/model/job.ts';
import { capacityAt, alternativeCount } from '../src/core/model/spec.ts';
import type { JobSpec } from '../src/core/model/spec.ts';
import { hour, minute, second } from '../src/core/model/time.ts';
import { openStore } from '../src/store/store.ts';
import { createChance, noFaults, drawFaultRates } from './chance.ts';
import type { Chance } from './chance.ts';
import { creationTimeOf } from './cloud.ts';
import type { CloudModel } from './cloud.ts';
import { createOwnerClient, createControllers } from './controllers.ts';
import type { Controllers, SimulationContext } from './controllers.ts';
import { createLogCopies } from './outputs.ts';
import type { DatabaseServer, Disk } from './outputs.ts';
import { emptyZone, drawJobs, grantedLaterZone, installation, planFor, drawnZones } from './jobs.ts';
import type { JobProfile, PlannedJob } from './jobs.ts';
import { createInvariantChecker, epoch, type InvariantChecker } from './invariants.ts';
import type { Violation } from './invariants.ts';
import { checkCommandsTakeEffect, checkQuiet, describeJob, hasNoController, isAtRest } from './at-rest.ts';
import type { RestContext } from './at-rest.ts';
import { startFaults, drawFaultIntensity } from './faults.ts';
import type { FaultContext, FaultIntensity, WallClock } from './faults.ts';
import { createRecipients } from './notifications.ts';
import type { Recipients } from './notifications.ts';
import { replayPasses } from './recorded-passes.ts';
import { insertWanted, drawRivals, type Rival } from './rivals.ts';
import { createTimeline, type Timeline } from './timeline.ts';
import { createWorld, findMachine, lastChangeOfMachines, requestMachine, newMachine, removeMachine } from './world.ts';
import type { World } from './world.ts';

/** After the storm everything must come to rest within this time. */
const settleTimeout = 4 * hour;
/** The clock of the controllers' machine when the world begins. */

export interface RunResult {
  readonly seed: number;
  readonly violation: Violation | null;
  /** All log lines in order; equal for equal seeds. */
  readonly hash: string;
  readonly lines: readonly string[];
  /** Counts for the report: virtual time, events, jobs, controllers. */
  readonly virtualMs: number;
  readonly events: number;
  readonly jobs: number;
  readonly controllers: number;
  /** The recorded passes of all jobs. */
  readonly passes: readonly ReplayedPass[];
}

export interface RunOptions {
  readonly seed: number;
  /** Keeps the log lines, not only their hash. */
  readonly trace?: boolean;
}

/** True if the job has a rule with `avoidZone`. */
function mayAvoidZones({ spec }: Job): boolean {
  return spec.recovery.rules.some(({ avoidZone }) => avoidZone === true);
}

function drawZones(chance: Chance): Pick<World, 'emptyZones' | 'forbiddenZones'> {
  const outcomes = drawnZones.map((zone) => ({
    zone,
    outcome: chance.pick(['gives', 'bare', 'bare', 'closed'] as const),
  }));
  const of = (wanted: string): readonly string[] =>
    outcomes.filter(({ outcome }) => outcome === wanted).map(({ zone }) => zone);
  return {
    emptyZones: new Set([emptyZone, ...of('bare')]),
    forbiddenZones: new Set([grantedLaterZone, ...of('closed')]),
  };
}

function drawOwnerBudget(chance: Chance): number | null {
  return chance.yes(0.15) ? chance.between(5, 25) / 60 : null;
}

/** A world with its jobs, owners and controllers, before its first event. */
interface Simulation extends RestContext, Omit<FaultContext, 'owners' | 'ids' | 'chance'> {
  readonly store: Store;
  readonly controllers: Controllers;
  readonly profiles: ReadonlyMap<string, JobProfile>;
  readonly recipients: Recipients;
  readonly owners: Chance;
  readonly intensity: FaultIntensity;
  readonly faultChance: Chance;
  hasFaults: boolean;
  create(wanted: PlannedJob | Rival): Promise<void>;
}

function clockBy(timeline: Timeline, wallClock: WallClock): Clock {
  const now = (): number => epoch + timeline.now + wallClock.offset;
  return { now, at: (at, call) => timeline.after(Math.max(0, at - now()), call) };
}

/** Calls back with each job whose failed exit was seen and is not judged yet. */
function watchingExits(checker: InvariantChecker, seen: (job: string) => void): InvariantChecker {
  return {
    ...checker,
    get violation() {
      return checker.violation;
    },
    committed(commit, result) {
      checker.committed(commit, result);
      if (result === 'committed' && commit.events.some(({ kind }) => kind === 'exit_seen')) seen(commit.job.id);
    },
  };
}

function createSimulation(chance: Chance, log: (line: string) => void): Simulation {
  const timeline = createTimeline();
  const checker = createInvariantChecker(
    () => world,
    () => logCopies,
  );
  const world: World = createWorld(
    timeline,
    chance.fork('world'),
    log,
    { runBegins: (run) => checker.runBegins(run) },
    drawZones(chance.fork('zones')),
  );
  world.ownerBudgetUsd = drawOwnerBudget(chance.fork('grants'));
  const cloudModel: CloudModel = {
    faultRates: drawFaultRates(chance.fork('conditions')),
    isCloudDown: false,
    isNetworkCut: false,
  };
  const disk: Disk = { isFull: false };
  const hasServers = chance.fork('servers').yes(0.25);
  const databaseServer: DatabaseServer = { isUnsteady: false, chance: chance.fork('database server') };
  const logCopies = createLogCopies(disk, chance.fork('disk'));
  const store = openStore({ file: ':memory:', installation });
  const wallClock = { offset: 0, setBack: 0 };
  const clock = clockBy(timeline, wallClock);

  const recipients = createRecipients({
    world,
    store: store.notifications,
    disk,
    clock,
    chance: chance.fork('notifications'),
    hasFaults: () => simulation.hasFaults,
    onDuplicate: (message) => checker.fail(15, message),
  });

  const profiles = new Map<string, JobProfile>();
  const owners = chance.fork('owners');
  /** `tpu ack`. A fork, so that it does not change the rest of a seed. */
  const ackChance = chance.fork('accepted exits');

  async function create(wanted: PlannedJob | Rival): Promise<void> {
    const job = await insertWanted(context, client, { ...wanted, spec: withSharedMachine(world, owners, wanted) });
    if (job === null) return;
    profiles.set(job.id, wanted.profile);
    createForeignMachine(world, owners, job.id, wanted);
    client.wake(job.id);
  }

  const controllerChance = chance.fork('restarts');
  const faultChance = chance.fork('storm');
  const intensity = drawFaultIntensity(faultChance);
  const context: SimulationContext = {
    world,
    cloudModel,
    disk,
    databaseServer,
    hasServers,
    logCopies,
    store,
    clock,
    checker: watchingExits(checker, (id) => {
      if (simulation.hasFaults && ackChance.yes(0.5))
        timeline.after(ackChance.between(0, 25) * second, () => void client.sendCommand('accept-exit', id, {}));
    }),
    installation,
    recipients,
    workersOf: (job) => profiles.get(job)?.workers ?? 1,
    planFor: (job, attempt, worker) => planFor(profileOf(job), attempt, worker),
  };
  const controllers = createControllers(context, {
    portChance: chance,
    restartChance: controllerChance,
    // After the storm, one of two servers is enough.
    serverCount: () => (hasServers && simulation.hasFaults ? 2 : 1),
    onStart({ process: simulated }) {
      if (simulation.hasFaults && controllerChance.yes(intensity.killProbability))
        simulated.crashAt(controllerChance.between(1, 400), controllerChance.pick(['before', 'after']));
    },
  });
  const client = createOwnerClient(context, controllers, {
    owner: () => 'owner',
    isWakeLost: () => simulation.hasFaults && owners.yes(0.2),
  });

  function profileOf(job: string): JobProfile {
    const profile = profiles.get(job);
    if (profile === undefined) throw new Error(`there is no job ${job}`);
    return profile;
  }

  const simulation: Simulation = {
    world,
    store,
    cloudModel,
    disk,
    databaseServer,
    wallClock,
    checker,
    controllers,
    hasServers,
    processes: controllers.processes,
    client,
    profiles,
    recipients,
    owners,
    faultChance,
    intensity,
    hasFaults: true,
    create,
  };
  return simulation;
}

/**
 * Creates the shared machine of a persistent allocation, unless it exists or an operation is to create it. The command
 * that begins an operation reads the creation time of the TPU that it may release.
 */
function withSharedMachine(world: World, owners: Chance, { spec, profile }: PlannedJob): JobSpec {
  const { capacity } = spec;
  if (capacity.kind !== 'tpu' || capacity.ownership !== 'persistent') return spec;
  const { name, zone, operation } = capacity;
  const isAbsent = operation?.kind === 'create' && owners.fork(`absent ${name}`).yes(0.7);
  const at = world.timeline.now;
  if (findMachine(world, zone, name) === undefined && !isAbsent)
    requestMachine(world, newMachine({ name, labels: null, isPersistent: true, workers: profile.workers, at }));
  if (operation === undefined || !('creationTime' in operation)) return spec;
  const machine = findMachine(world, zone, name);
  const creationTime = machine === undefined ? null : creationTimeOf(machine);
  return { ...spec, capacity: { ...capacity, operation: { ...operation, creationTime } } };
}

/** Sometimes a machine of another owner has the name of an ephemeral allocation. */
function createForeignMachine(world: World, owners: Chance, id: string, { spec: { capacity } }: PlannedJob): void {
  if (capacity.kind !== 'tpu' || capacity.ownership === 'persistent') return;
  if (!owners.yes(0.03) || alternativeCount(capacity) !== 1) return;
  const name = `${capacity.name}-${id}-1`;
  requestMachine(world, newMachine({ name, labels: null, isPersistent: true, workers: 1, at: world.timeline.now }));
}

/** Ends all faults, and repairs what people repair. */
function stopFaults(simulation: Simulation): void {
  const { world, checker, cloudModel, controllers } = simulation;
  const { timeline } = world;
  simulation.hasFaults = false;
  checker.faultsStopped();
  world.log('the storm is over');
  cloudModel.faultRates = noFaults;
  world.forbiddenZones.delete(grantedLaterZone);
  // A job that avoids the only zone with capacity waits for the others, which get capacity in the end.
  for (const { capacity } of checker
    .jobs()
    .filter(mayAvoidZones)
    .map(({ spec }) => spec)) {
    for (let alternative = 0; alternative < alternativeCount(capacity); alternative += 1) {
      const at = capacityAt(capacity, alternative);
      if (at.kind !== 'tpu') continue;
      world.emptyZones.delete(at.zone);
      world.forbiddenZones.delete(at.zone);
    }
  }
  for (const machine of world.machines) {
    if (machine.isPersistent && machine.state === 'lost') {
      // The owner of a shared machine creates it again, without jobman and therefore without a job label.
      removeMachine(world, machine);
      const { name, hosts } = machine;
      requestMachine(
        world,
        newMachine({ name, labels: null, isPersistent: true, workers: hosts.length, at: timeline.now }),
      );
    }
  }
  timeline.after(2 * second, () => controllers.ensureAlive('a user starts it'));
}

async function runWithoutFaults(simulation: Simulation, isBroken: () => boolean): Promise<void> {
  const { world, checker, profiles, recipients } = simulation;
  const { timeline } = world;
  stopFaults(simulation);
  const until = timeline.now + settleTimeout;
  let restingSince: number | null = null;
  const faultsStoppedAt = timeline.now;
  await timeline.run(until, () => {
    checkCommandsTakeEffect(simulation, faultsStoppedAt);
    if (isBroken()) return true;
    const isReported = recipients.missing === undefined && recipients.isQuiet;
    const isResting = isReported && checker.jobs().every((job) => isAtRest(simulation, job));
    if (profiles.size === 0 || hasNoController(simulation) || !isResting) {
      restingSince = null;
      return false;
    }
    restingSince ??= timeline.now;
    // Late effects and the orphan collections that find them need time too. After an orphan the controller waits for
    // another one just as long, so this wait starts again.
    return timeline.now - Math.max(restingSince, lastChangeOfMachines(world)) > 8 * minute;
  });
  if (!isBroken() && restingSince === null) {
    const late = checker.jobs().find((job) => !isAtRest(simulation, job));
    if (late === undefined && recipients.missing !== undefined)
      checker.fail(15, `not delivered: ${recipients.missing}`);
    const holds = late?.finish !== null && late?.removed === false;
    checker.fail(
      holds ? 6 : 10,
      late === undefined ? 'no job was created' : `job ${late.id} has not come to rest: ${describeJob(late)}`,
    );
  }
  if (!isBroken()) checker.checkAtRest();
  if (!isBroken()) await checkQuiet(simulation, isBroken);
}

/** Simulates that seed to its end, or to the first broken invariant. */
export async function run({ seed, trace = false }: RunOptions): Promise<RunResult> {
  const hash = createHash('sha256');
  const lines: string[] = [];
  const chance = createChance(seed);
  const simulation = createSimulation(chance, (line) => {
    hash.update(line).update('\n');
    if (trace) lines.push(line);
  });
  const { world, checker, controllers, profiles } = simulation;
  const { timeline } = world;
  const isBroken = (): boolean => checker.violation !== null;
  // The grants of a world have chips or budgets.
  const rivals = world.ownerBudgetUsd === null ? drawRivals(chance.fork('rivals')) : [];
  for (const wanted of [...drawJobs(chance.fork('jobs')), ...rivals])
    timeline.after(wanted.at, () => void simulation.create(wanted));
  // Resources of another installation: with our label, from a copied database, or with none.
  if (chance.yes(0.3)) {
    const labels = { installation, job: '999999', allocation: 1 };
    requestMachine(world, newMachine({ name: 'left-behind', labels, isPersistent: false, workers: 1, at: 0 }));
  }
  timeline.after(50, () => controllers.ensureAlive('a user starts it'));
  startFaults(
    simulation.faultChance,
    { ...simulation, chance, ids: () => [...profiles.keys()] },
    () => simulation.hasFaults,
  );
  await timeline.run(simulation.intensity.length, isBroken);
  if (!isBroken()) await runWithoutFaults(simulation, isBroken);
  for (const controllerProcess of controllers.processes) controllerProcess.process.crash();
  const passes = await replayPasses(simulation.store, [...profiles.keys()], checker);
  await simulation.store.close();
  return {
    seed,
    violation: checker.violation,
    hash: hash.digest('hex'),
    lines,
    virtualMs: timeline.now,
    events: timeline.eventCount,
    jobs: profiles.size,
    controllers: controllers.processes.length,
    passes,
  };
}
