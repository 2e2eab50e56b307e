// Pretended: the real controller, rules and store in the simulator's world, with many jobs that each hold a TPU and run.
// Its seconds are pretended and do not depend on this machine, which only says whether it keeps up.

import type { Backend, CapacityPort, Clock } from '../src/app/ports.ts';
import { createController } from '../src/controller/controller.ts';
import { minute, second } from '../src/core/time.ts';
import { openStore } from '../src/store/store.ts';
import { createChance, type Chance, calm } from '../sim/chance.ts';
import { createCloud, createHere, type PortParts } from '../sim/cloud.ts';
import { createCopies } from '../sim/outputs.ts';
import { createHosts } from '../sim/hosts.ts';
import { createIncarnation } from '../sim/incarnation.ts';
import { createTimeline, type Timeline } from '../sim/timeline.ts';
import { createWorld, type World } from '../sim/world.ts';
import { simulatedSpec } from '../test/support/builders.ts';

/** What the wall clock of the pretended machine says at its beginning. */
const epoch = Date.UTC(2026, 0, 1);

/** Jobs that run, and nothing happens. */
export interface Pretended {
  readonly timeline: Timeline;
  readonly world: World;
  readonly chance: Chance;
  /** Names of machines that were let go of, with the time of that. */
  readonly letGo: ReadonlyMap<string, number>;
  /** How often the cloud was looked at since the beginning; each time is one list of the only zone. */
  readonly looks: () => number;
  readonly close: () => Promise<void>;
}

/** Brings that many jobs to run, and lets five minutes go by. A line to a lost machine drops, or just falls silent. */
export async function openPretended(count: number, { linesDrop }: { readonly linesDrop: boolean }): Promise<Pretended> {
  const chance = createChance(1);
  const timeline = createTimeline();
  const world = createWorld(timeline, chance.fork('world'), () => undefined, { begins: () => undefined });
  const clock: Clock = {
    now: () => epoch + timeline.now,
    at: (at, call) => timeline.after(Math.max(0, at - (epoch + timeline.now)), call),
  };
  const store = openStore({ file: ':memory:', installation: 'pretnd' });
  const letGo = new Map<string, number>();
  const parts: PortParts = {
    world,
    sky: { weather: calm, cloudIsDown: false, lineIsCut: false },
    chance: chance.fork('ports'),
    clock,
    watcher: {
      called(kind, { allocation }) {
        if (kind === 'release' && !letGo.has(allocation.name)) letGo.set(allocation.name, timeline.now);
      },
      strayReleased: () => undefined,
    },
    installation: 'pretnd',
    workersOf: () => 1,
  };
  const hosts = createHosts({
    ...parts,
    planFor: () => ({
      slow: 0,
      length: null,
      exitCode: 0,
      linePeriod: 10 * second,
      silentAfter: null,
      lastLine: '',
      obeysAfter: 0,
    }),
  });
  const machines: typeof hosts = linesDrop
    ? hosts
    : {
        ...hosts,
        tail: (ref, attempt, from, receiver) =>
          hosts.tail(ref, attempt, from, { ...receiver, dropped: () => undefined }),
      };
  const life = createIncarnation('controller');
  let looks = 0;
  const sky = createCloud(parts);
  const counted: CapacityPort = {
    ...sky,
    look(refs) {
      looks += 1;
      return sky.look(refs);
    },
  };
  const cloud: Backend = { capacity: life.through(counted), machines: life.through(machines) };
  const here: Backend = { capacity: life.through(createHere(clock, world)), machines: cloud.machines };
  const controller = createController({
    store: life.through(store),
    backendOf: (spec) => (spec.capacity.kind === 'local' ? here : cloud),
    clock: life.clock(clock),
    logFiles: life.through(createCopies({ isFull: false }, chance.fork('disk'))),
    log: { info: () => undefined, warn: (line) => console.error(line) },
    holder: 'controller',
    version: '0.0.0',
    certain: true,
    slots: 1,
    idleExitMs: null,
  });
  for (let index = 0; index < count; index += 1) {
    await store.insert({ owner: 'owner', spec: simulatedSpec(`job-${index}`, 'spot'), manifest: '', at: clock.now() });
  }
  controller.start();

  const isAllRunning = (): boolean => world.runs.filter((one) => one.startedAt !== null).length >= count;
  await timeline.play(2 * 60 * minute, isAllRunning);
  if (!isAllRunning()) throw new Error('not all jobs came to run');
  await timeline.play(timeline.now + 5 * minute, () => false);
  return {
    timeline,
    world,
    chance,
    letGo,
    looks: () => looks,
    async close() {
      life.die();
      await store.close();
    },
  };
}
