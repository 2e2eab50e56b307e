// Controllers: one life after another, and the record that they share with the owners of the jobs. The controller, performer,
// mirror, sweeper, core and store in it are the real ones; every world is played with them, whatever its story is.

import type { Backend, Clock, Store, WorkerRef } from '../src/app/ports.ts';
import { createController } from '../src/controller/controller.ts';
import type { Controller, LeftBecause } from '../src/controller/controller.ts';
import { ask, jobCan } from '../src/core/commands.ts';
import type { AskOptions, Verb } from '../src/core/commands.ts';
import type { Job } from '../src/core/job.ts';
import type { Outcome, OutcomeResult } from '../src/core/observation.ts';
import type { SetupStep } from '../src/core/spec.ts';
import { minute, second } from '../src/core/time.ts';
import type { Chance } from './chance.ts';
import { createCloud, createHere } from './cloud.ts';
import type { PortParts, Sky } from './cloud.ts';
import { fullDisk } from './outputs.ts';
import type { Copies, Disk } from './outputs.ts';
import { createHosts } from './hosts.ts';
import type { HostParts } from './hosts.ts';
import { slots } from './laws.ts';
import type { Judge } from './laws.ts';
import { createIncarnation } from './incarnation.ts';
import type { Incarnation } from './incarnation.ts';
import type { World } from './world.ts';

export interface Ground {
  readonly world: World;
  readonly sky: Sky;
  readonly disk: Disk;
  readonly copies: Copies;
  readonly store: Store;
  readonly clock: Clock;
  readonly judge: Judge;
  readonly installation: string;
  /** How many workers a machine for that job has, and how its programs behave. */
  readonly workersOf: (job: string) => number;
  readonly planFor: HostParts['planFor'];
}

export interface Life {
  readonly incarnation: Incarnation;
  readonly controller: Controller;
  /** Once it has the lease; before, it only waits. */
  hasBegun: boolean;
  hasLeft: LeftBecause | null;
  /** When it died or left, by the world's clock. */
  overAt: number | null;
}

export interface Controllers {
  readonly lives: readonly Life[];
  /** `certain`: the machine's lock says that an earlier one cannot be alive. */
  begin(why: string, certain?: boolean): Life;
  ensureAlive(why: string): void;
}

export interface Fates {
  /** Splits off a generator for the ports of each life. */
  readonly ports: Chance;
  /** When the next one begins after one has died or left. */
  readonly chance: Chance;
  readonly born: (life: Life) => void;
  readonly mayBegin?: () => boolean;
}

export function createControllers(ground: Ground, fates: Fates): Controllers {
  const { world, judge, clock } = ground;
  const { timeline } = world;
  const lives: Life[] = [];
  const recorded = recordOf(ground, judge);

  function begin(why: string, certain = true): Life {
    const name = `controller ${lives.length + 1}`;
    world.say(`${name} begins: ${why}`);
    const incarnation = createIncarnation(name);
    const begun = (): void => void (life.hasBegun = true);
    const life: Life = {
      incarnation,
      controller: controllerFor(incarnation, certain, begun),
      hasBegun: false,
      hasLeft: null,
      overAt: null,
    };
    lives.push(life);
    void life.controller.left.then((because) => {
      if (incarnation.isDead) return;
      life.hasLeft = because;
      life.overAt ??= timeline.now;
      world.say(`${name} leaves: ${because}`);
      // A client that needs a controller starts another before long.
      if (because === 'lease_lost')
        timeline.after(fates.chance.between(1_000, 30_000), () => ensureAlive('the last one lost its lease'));
    });
    void incarnation.dead.then(() => {
      life.overAt ??= timeline.now;
      world.say(`${name} is dead`);
      timeline.after(fates.chance.between(100, 60_000), () => ensureAlive('the last one is dead'));
    });
    fates.born(life);
    life.controller.start();
    return life;
  }

  function ensureAlive(why: string): void {
    if (fates.mayBegin?.() === false) return;
    if (lives.every((life) => life.incarnation.isDead || life.hasLeft !== null)) begin(why);
  }

  function controllerFor(incarnation: Incarnation, certain: boolean, begun: () => void): Controller {
    const parts: PortParts = {
      world,
      sky: ground.sky,
      chance: fates.ports.fork(`ports ${lives.length}`),
      clock,
      watcher: {
        called: (kind, ref, detail) => judge.called(kind, ref, detail),
        strayReleased: (stray) => judge.strayReleased(stray),
      },
      installation: ground.installation,
      workersOf: ground.workersOf,
    };
    const machines = incarnation.through(heard(createHosts({ ...parts, planFor: ground.planFor })));
    const cloud: Backend = { capacity: incarnation.through(heard(createCloud(parts))), machines };
    const here: Backend = { capacity: incarnation.through(createHere(clock, world)), machines };
    return createController({
      store: incarnation.through(recorded),
      backendOf: (spec) => (spec.capacity.kind === 'local' ? here : cloud),
      clock: incarnation.clock(clock),
      logFiles: incarnation.through(ground.copies),
      log: {
        info: (line) => incarnation.isDead || world.say(`${incarnation.name}: ${line}`),
        warn: (line) => incarnation.isDead || world.say(`${incarnation.name}! ${line}`),
      },
      holder: incarnation.name,
      version: '0.0.0',
      certain,
      slots,
      idleExitMs: minute,
      onRenewal: begun,
    });
  }

  /** The ports, with the judge hearing every reply as it is given. */
  function heard<T extends object>(port: T): T {
    return new Proxy(port, {
      get(target, key) {
        const member = Reflect.get(target, key) as unknown;
        const isAct = key === 'request' || key === 'release' || key === 'step' || key === 'start' || key === 'stop';
        if (!isAct || typeof member !== 'function') return member;
        return async (...given: unknown[]) => {
          const result = (await Reflect.apply(member, target, given)) as OutcomeResult;
          const ref = given[0] as Parameters<typeof judge.replied>[1] & Partial<WorkerRef>;
          const step = key === 'step' ? `${ref.worker}/${(given[1] as SetupStep).name}` : undefined;
          judge.replied(key, ref, result, step);
          world.say(`reply: ${key} ${(given[0] as { job: Job }).job.id} ${result.kind}`);
          return result;
        };
      },
    });
  }

  return { lives, begin, ensureAlive };
}

// -------------------------------------------------------------------------------------- the record

/** The record as somebody reaches it: a full disk takes no writes. The judge hears what is written, where there is one. */
function recordOf({ store, disk }: Pick<Ground, 'store' | 'disk'>, judge?: Judge): Store {
  const writes = new Set<string | symbol>(['insert', 'commit', 'addOutcome', 'takeLease', 'dropLease', 'recordStray']);
  return new Proxy(store, {
    get(target, key) {
      const member = Reflect.get(target, key) as unknown;
      if (typeof member !== 'function') return member;
      return async (...given: unknown[]): Promise<unknown> => {
        if (disk.isFull && writes.has(key)) throw fullDisk();
        const answer: unknown = await (Reflect.apply(member, target, given) as Promise<unknown>);
        if (key === 'commit' && judge !== undefined) {
          const commit = given[0] as Parameters<Store['commit']>[0];
          judge.committed(commit, answer as Awaited<ReturnType<Store['commit']>>);
        }
        if (key === 'addOutcome') judge?.recorded((given[1] as Outcome).result);
        return answer;
      };
    },
  });
}

// -------------------------------------------------------------------------------------- the owners' side

export interface Client {
  /** Writes the job down, waiting for room on the disk. */
  insert(given: Parameters<Store['insert']>[0]): Promise<Job>;
  /** Says that word to that job if it can be said, and tells whether it changed anything. */
  speak(verb: Verb, id: string, options: Omit<AskOptions, 'by'>): Promise<boolean>;
  /** The client's tap on the shoulder, which may be lost, and its look whether a controller is there at all. */
  tap(id: string): void;
}

/** How people reach the record of a world: as the real client does, beside any controller. */
export function createClient(
  ground: Ground,
  controllers: Controllers,
  given: { readonly owner: (id: string) => string; readonly isTapLost: () => boolean },
): Client {
  const { world, judge, store, clock } = ground;
  const { timeline } = world;
  const recorded = recordOf(ground);

  async function untilWritten<T>(write: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await write();
      } catch {
        await timeline.pause(5 * second);
      }
    }
  }

  function tap(id: string): void {
    const { lives } = controllers;
    if (!given.isTapLost()) for (const life of lives) life.controller.wake(id);
    timeline.after(100, () => {
      if (lives.every((life) => life.incarnation.isDead || life.hasLeft))
        controllers.ensureAlive('the client found no controller');
    });
  }

  return {
    tap,
    async insert(job) {
      const stored = await untilWritten(() => recorded.insert(job));
      judge.spoken(
        stored.job,
        (await store.events(stored.job.id, 0)).map((one) => one.event),
      );
      world.say(`owner: job ${stored.job.id} is created`);
      return stored.job;
    },
    async speak(verb, id, options) {
      const by = given.owner(id);
      for (let tries = 0; tries < 20; tries += 1) {
        const stored = await store.load(id);
        if (stored === undefined) return false;
        if (!jobCan(stored.job, verb, by, options).ok) return false;
        const change = ask(stored.job, verb, { by, ...options }, clock.now());
        if (change.events.length === 0) return false;
        let result;
        try {
          result = await recorded.commit({
            job: change.job,
            revision: stored.revision,
            events: change.events,
            folded: [],
            wakeAt: clock.now(),
            epoch: null,
          });
        } catch {
          return false;
        }
        if (result !== 'committed') continue;
        const said = Object.entries(options).flatMap(([name, isSaid]) => (isSaid ? [` --${name}`] : []));
        world.say(`owner: ${verb}${said.join('')} ${id}`);
        judge.spoken(change.job, change.events);
        tap(id);
        return true;
      }
      return false;
    },
  };
}
