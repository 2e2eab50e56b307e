// One job under the real controller in the simulator's world, for tests that need to put a hand between the two: a clock
// that is set at a certain moment, an answer that is held back. Nothing goes wrong there by itself.

import { createChance, calm, type Weather } from '../../sim/chance.ts';
import { createCloud, createHere } from '../../sim/cloud.ts';
import { createHosts } from '../../sim/hosts.ts';
import { createCopies, type Copies } from '../../sim/outputs.ts';
import { createTimeline, type Timeline } from '../../sim/timeline.ts';
import { createWorld, type Plan, type World } from '../../sim/world.ts';
import type { Backend, CapacityPort, Clock, MachinePort, Store } from '../../src/app/ports.ts';
import { createController, type Controller } from '../../src/controller/controller.ts';
import { ask, type Verb } from '../../src/core/commands.ts';
import type { Job } from '../../src/core/job.ts';
import type { JobSpec } from '../../src/core/spec.ts';
import { minute, second, type Duration } from '../../src/core/time.ts';
import { openStore } from '../../src/store/store.ts';
import { simulatedSpec } from '../support/builders.ts';

const epoch = Date.UTC(2026, 0, 1);

/** What a test may reach into. */
export interface Life {
  readonly timeline: Timeline;
  readonly world: World;
  readonly copies: Copies;
  readonly controller: Controller;
  readonly job: () => Promise<Job>;
  /** The controller leaves, and another one begins that much later. */
  readonly restartAfter: (length: Duration) => Promise<void>;
  /** The controller's clock is set by that much. */
  readonly jump: (length: Duration) => void;
  /** With `isUnheard` the wake-up of the controller is lost; `isForced` is for `delete`. */
  readonly say: (verb: Verb, how?: { readonly isUnheard?: boolean; readonly isForced?: boolean }) => Promise<void>;
  /** Lets the world go on until that holds, asked at every step; false when it does not within `most`. */
  readonly until: (holds: (job: Job) => boolean, most: Duration) => Promise<boolean>;
  readonly close: () => Promise<void>;
}

/** Creates the job and starts the controller. The ports are as the simulator's, or what the test makes of them. */
export async function openLife(given: {
  readonly plan?: Partial<Plan>;
  readonly weather?: Partial<Weather>;
  readonly spec?: Partial<JobSpec>;
  readonly capacity?: (real: CapacityPort, life: () => Life) => CapacityPort;
  readonly machines?: (real: MachinePort, life: () => Life) => MachinePort;
  readonly cannotOpenFiles?: () => boolean;
  /** Gets the lines of the controller's log. */
  readonly warn?: (line: string) => void;
  /** The record as the controller has it; the test itself uses the real one. */
  readonly store?: (real: Store) => Store;
}): Promise<Life> {
  const chance = createChance(1);
  const timeline = createTimeline();
  const world = createWorld(timeline, chance.fork('world'), () => undefined, { begins: () => undefined });
  let offset = 0;
  const clock: Clock = {
    now: () => epoch + timeline.now + offset,
    at: (at, call) => timeline.after(Math.max(0, at - (epoch + timeline.now + offset)), call),
  };
  const parts = {
    world,
    sky: { weather: { ...calm, ...given.weather }, cloudIsDown: false, lineIsCut: false },
    chance: chance.fork('ports'),
    clock,
    watcher: { called: () => undefined, strayReleased: () => undefined },
    installation: 'pretnd',
    workersOf: () => 1,
  };
  const plan: Plan = {
    slow: 0,
    length: null,
    exitCode: 0,
    linePeriod: 5 * second,
    silentAfter: null,
    lastLine: 'the end',
    obeysAfter: 0,
    ...given.plan,
  };
  const life = (): Life => opened;
  const cloud = createCloud(parts);
  const hosts = createHosts({ ...parts, planFor: () => plan });
  const backend: Backend = {
    capacity: given.capacity?.(cloud, life) ?? cloud,
    machines: given.machines?.(hosts, life) ?? hosts,
  };
  const copies = createCopies({ isFull: false }, chance.fork('disk'));
  const store = openStore({ file: ':memory:', installation: 'pretnd' });
  const begin = (holder: string): Controller =>
    createController({
      store: given.store?.(store) ?? store,
      backendOf: (of) => (of.capacity.kind === 'local' ? { ...backend, capacity: createHere(clock, world) } : backend),
      clock,
      logFiles: copies,
      log: { info: () => undefined, warn: (line) => given.warn?.(line) },
      ...(given.cannotOpenFiles === undefined ? {} : { cannotOpenFiles: given.cannotOpenFiles }),
      holder,
      version: '0.0.0',
      certain: true,
      slots: 1,
      idleExitMs: 10 * second,
    });
  let controller = begin('controller');
  const created = await store.insert({
    owner: 'owner',
    spec: { ...simulatedSpec('job'), ...given.spec },
    manifest: '',
    at: clock.now(),
  });
  const { id } = created.job;
  const loaded = async (): Promise<NonNullable<Awaited<ReturnType<typeof store.load>>>> => {
    const stored = await store.load(id);
    if (stored === undefined) throw new Error(`there is no job ${id}`);
    return stored;
  };
  const opened: Life = {
    timeline,
    world,
    copies,
    get controller() {
      return controller;
    },
    job: async () => (await loaded()).job,
    async restartAfter(length) {
      const left = controller.stop();
      const to = timeline.now + length;
      timeline.at(to, () => undefined);
      await timeline.play(to, () => false);
      await left;
      controller = begin('the next controller');
      controller.start();
    },
    jump: (length) => void (offset += length),
    async say(verb, { isUnheard = false, isForced = false } = {}) {
      for (;;) {
        const { job, revision } = await loaded();
        const { job: asked, events } = ask(job, verb, { by: 'owner', force: isForced }, clock.now());
        const wish = { job: asked, revision, events, folded: [], wakeAt: clock.now(), epoch: null };
        if ((await store.commit(wish)) === 'committed') break;
      }
      if (!isUnheard) controller.wake(id);
    },
    async until(holds, most) {
      // Time does not pass by itself where nothing is left to happen.
      for (let passed = 0; passed < most; passed += second) {
        const to = timeline.now + second;
        timeline.at(to, () => undefined);
        await timeline.play(to, () => false);
        if (holds((await loaded()).job)) return true;
      }
      return false;
    },
    async close() {
      const left = controller.stop();
      await timeline.play(timeline.now + minute, () => false);
      await left;
      await store.close();
    },
  };
  controller.start();
  return opened;
}
