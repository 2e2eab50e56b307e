// One job under the real controller in the simulated world, for tests that intervene at a certain time: they set a
// clock or hold an answer back. No fault happens by itself.

import { createChance, noFaults, type FaultRates } from '../../sim/chance.ts';
import { createCloudPort, createLocalPort } from '../../sim/cloud.ts';
import { createMachinePort } from '../../sim/hosts.ts';
import { createLogCopies, type LogCopies } from '../../sim/outputs.ts';
import { createTimeline, type Timeline } from '../../sim/timeline.ts';
import { createWorld, type ProgramPlan, type World } from '../../sim/world.ts';
import type { Meter } from '../../src/app/meter.ts';
import type { Backend, CapacityPort, Clock, MachinePort, Store } from '../../src/app/ports.ts';
import { createController, type Controller } from '../../src/controller/controller.ts';
import { fileLease } from '../../src/controller/lease.ts';
import { applyCommand, type Verb } from '../../src/core/decide/commands.ts';
import type { Job } from '../../src/core/model/job.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { minute, second, type Duration } from '../../src/core/model/time.ts';
import { openStore } from '../../src/store/store.ts';
import { simulatedSpec } from '../support/builders.ts';

const epoch = Date.UTC(2026, 0, 1);

/** The parts that a test may use. */
export interface SimulatedJob {
  readonly timeline: Timeline;
  readonly world: World;
  readonly logCopies: LogCopies;
  readonly controller: Controller;
  readonly job: () => Promise<Job>;
  /** The controller exits, and another one starts that much later. */
  readonly restartAfter: (length: Duration) => Promise<void>;
  /** Sets the controller's clock by that much. */
  readonly moveClock: (length: Duration) => void;
  /** With `isWakeLost` the wake-up of the controller is lost; `isForced` is for `delete`. */
  readonly command: (
    verb: Verb,
    options?: { readonly isWakeLost?: boolean; readonly isForced?: boolean },
  ) => Promise<void>;
  /** Runs the world until that holds, checked at every step; false if it does not within `timeLimit`. */
  readonly runUntil: (isTrue: (job: Job) => boolean, timeLimit: Duration) => Promise<boolean>;
  readonly close: () => Promise<void>;
}

/** Creates the job and starts the controller. The ports are those of the simulator, or the test's own. */
export async function openSimulatedJob(options: {
  readonly plan?: Partial<ProgramPlan>;
  readonly faultRates?: Partial<FaultRates>;
  readonly spec?: Partial<JobSpec>;
  readonly capacity?: (real: CapacityPort, simulatedJob: () => SimulatedJob) => CapacityPort;
  readonly machines?: (real: MachinePort, simulatedJob: () => SimulatedJob) => MachinePort;
  readonly isOutOfDescriptors?: () => boolean;
  readonly meter?: Meter;
  /** Gets the lines of the controller's log. */
  readonly warn?: (line: string) => void;
  /** The store of the controller; the test itself uses the real one. */
  readonly store?: (real: Store) => Store;
}): Promise<SimulatedJob> {
  const chance = createChance(1);
  const timeline = createTimeline();
  const world = createWorld(timeline, chance.fork('world'), () => undefined, { runBegins: () => undefined });
  let offset = 0;
  const clock: Clock = {
    now: () => epoch + timeline.now + offset,
    at: (at, call) => timeline.after(Math.max(0, at - (epoch + timeline.now + offset)), call),
  };
  const parts = {
    world,
    cloudModel: { faultRates: { ...noFaults, ...options.faultRates }, isCloudDown: false, isNetworkCut: false },
    chance: chance.fork('ports'),
    clock,
    watcher: { called: () => undefined, orphanReleased: () => undefined },
    installation: 'pretnd',
    workersOf: () => 1,
  };
  const plan: ProgramPlan = {
    startDelay: 0,
    duration: null,
    exitCode: 0,
    linePeriod: 5 * second,
    silentAfter: null,
    lastLine: 'the end',
    stopDelay: 0,
    ...options.plan,
  };
  const simulatedJob = (): SimulatedJob => opened;
  const cloud = createCloudPort(parts);
  const hosts = createMachinePort({ ...parts, planFor: () => plan });
  const backend: Backend = {
    capacity: options.capacity?.(cloud, simulatedJob) ?? cloud,
    machines: options.machines?.(hosts, simulatedJob) ?? hosts,
  };
  const logCopies = createLogCopies({ isFull: false }, chance.fork('disk'));
  const store = openStore({ file: ':memory:', installation: 'pretnd' });
  const startController = (holder: string): Controller =>
    createController({
      store: options.store?.(store) ?? store,
      backendOf: (of) =>
        of.capacity.kind === 'hosts' ? { ...backend, capacity: createLocalPort(clock, world) } : backend,
      clock,
      logFiles: logCopies,
      log: { info: () => undefined, warn: (line) => options.warn?.(line) },
      ...(options.isOutOfDescriptors === undefined ? {} : { isOutOfDescriptors: options.isOutOfDescriptors }),
      meter: options.meter,
      holder,
      version: '0.0.0',
      holdsLock: true,
      leaseTimes: fileLease,
      keptPasses: { days: 7, count: 2_000 },
      grants: [],
      pools: [{ name: 'localhost', slots: 1, gpus: null }],
      idleExitMs: 10 * second,
    });
  let controller = startController('controller');
  const created = await store.insert({
    owner: 'owner',
    spec: { ...simulatedSpec('job'), ...options.spec },
    manifest: '',
    at: clock.now(),
  });
  const { id } = created.job;
  const loaded = async (): Promise<NonNullable<Awaited<ReturnType<typeof store.load>>>> => {
    const stored = await store.load(id);
    if (stored === undefined) throw new Error(`there is no job ${id}`);
    return stored;
  };
  const opened: SimulatedJob = {
    timeline,
    world,
    logCopies,
    get controller() {
      return controller;
    },
    job: async () => (await loaded()).job,
    async restartAfter(length) {
      const exited = controller.stop();
      const to = timeline.now + length;
      timeline.at(to, () => undefined);
      await timeline.run(to, () => false);
      await exited;
      controller = startController('the next controller');
      controller.start();
    },
    moveClock: (length) => void (offset += length),
    async command(verb, { isWakeLost = false, isForced = false } = {}) {
      for (;;) {
        const { job, revision } = await loaded();
        const { job: changed, events } = applyCommand(job, verb, { by: 'owner', force: isForced }, clock.now());
        const update = { job: changed, revision, events, foldedOutcomes: [], wakeAt: clock.now(), epoch: null };
        if ((await store.commit(update)) === 'committed') break;
      }
      if (!isWakeLost) controller.wake(id);
    },
    async runUntil(isTrue, timeLimit) {
      // Time does not pass by itself if no event is left.
      for (let passed = 0; passed < timeLimit; passed += second) {
        const to = timeline.now + second;
        timeline.at(to, () => undefined);
        await timeline.run(to, () => false);
        if (isTrue((await loaded()).job)) return true;
      }
      return false;
    },
    async close() {
      const exited = controller.stop();
      await timeline.run(timeline.now + minute, () => false);
      await exited;
      await store.close();
    },
  };
  controller.start();
  return opened;
}
