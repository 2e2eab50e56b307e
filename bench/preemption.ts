// Preemption: how long after the cloud has taken a TPU away the controller lets go of it, which is the first step of a
// recovery, when it looks after a thousand jobs. The controller, the rules and the store are the real ones, in the
// simulator's world: the seconds are pretended and do not depend on this machine, which only says whether it keeps up.
//
// Two ways to be hard: the lines to the lost machines say nothing, so that only the look at the cloud tells; and all
// thousand are taken in the same moment.

import type { Backend, Clock } from '../src/app/ports.ts';
import { createController } from '../src/controller/controller.ts';
import { presets } from '../src/core/recover.ts';
import type { JobSpec } from '../src/core/spec.ts';
import { minute, second } from '../src/core/time.ts';
import { openStore } from '../src/store/store.ts';
import { createChance } from '../sim/chance.ts';
import { createCloud, createHere, type PortParts } from '../sim/cloud.ts';
import { createCopies } from '../sim/copies.ts';
import { createHosts } from '../sim/hosts.ts';
import { createIncarnation } from '../sim/incarnation.ts';
import { createTimeline } from '../sim/timeline.ts';
import { calm } from '../sim/weather.ts';
import { createWorld, loseMachine } from '../sim/world.ts';
import type { Result } from './result.ts';

const count = 1_000;
const mostMs = 30_000;
/** What the wall clock of the pretended machine says at its beginning. */
const epoch = Date.UTC(2026, 0, 1);

interface Case {
  readonly what: string;
  /** A line to a lost machine drops, or just falls silent. */
  readonly linesDrop: boolean;
  /** Over how long a time the thousand are taken. */
  readonly within: number;
}

const cases: readonly Case[] = [
  { what: 'one after another, lines drop', linesDrop: true, within: 20 * minute },
  { what: 'one after another, lines fall silent', linesDrop: false, within: 20 * minute },
  { what: 'all at once, lines drop', linesDrop: true, within: 0 },
  { what: 'all at once, lines fall silent', linesDrop: false, within: 0 },
];

export async function measurePreemption(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const one of cases) {
    const began = performance.now();
    const waits = (await play(one)).toSorted((a, b) => a - b);
    const at = (share: number): number => waits[Math.floor((waits.length - 1) * share)] ?? Number.NaN;
    const seconds = (ms: number): string => (ms / second).toFixed(1);
    results.push({
      what: `preemption to recovery, 1,000 jobs, 99th percentile: ${one.what}`,
      measured: `${seconds(at(0.99))} s`,
      budget: `${mostMs / second} s`,
      beside: `median ${seconds(at(0.5))} s, longest ${seconds(at(1))} s; played in ${seconds(performance.now() - began)} real s`,
      isKept: at(0.99) <= mostMs,
    });
  }
  return results;
}

/** Plays one world; the waits in pretended milliseconds. */
async function play({ linesDrop, within }: Case): Promise<readonly number[]> {
  const chance = createChance(1);
  const timeline = createTimeline();
  const world = createWorld(timeline, chance.fork('world'), () => undefined, { begins: () => undefined });
  const clock: Clock = {
    now: () => epoch + timeline.now,
    at: (at, call) => timeline.after(Math.max(0, at - (epoch + timeline.now)), call),
  };
  const store = openStore({ file: ':memory:', installation: 'pretnd' });
  /** Names of machines that were let go of, with the time of that. */
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
  const cloud: Backend = { capacity: life.through(createCloud(parts)), machines: life.through(machines) };
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
    await store.insert({ owner: 'owner', spec: specOf(index), manifest: '', at: clock.now() });
  }
  controller.start();

  const isAllRunning = (): boolean => world.runs.filter((one) => one.startedAt !== null).length >= count;
  await timeline.play(2 * 60 * minute, isAllRunning);
  if (!isAllRunning()) throw new Error('not all jobs came to run');
  await timeline.play(timeline.now + 5 * minute, () => false);
  const taken = world.machines.filter((machine) => machine.state === 'ready' && machine !== world.here);
  if (taken.length !== count) throw new Error(`${taken.length} machines are ready, not ${count}`);
  const fate = chance.fork('fate');
  const lostAt = new Map<string, number>();
  for (const machine of taken) {
    timeline.after(within === 0 ? 0 : fate.between(0, within), () => {
      lostAt.set(machine.name, timeline.now);
      loseMachine(world, machine, 'preempted');
    });
  }
  const isAllLetGo = (): boolean => taken.every((machine) => letGo.has(machine.name));
  await timeline.play(timeline.now + within + 10 * minute, isAllLetGo);
  life.die();
  await store.close();
  return taken.map(({ name }) => (letGo.get(name) ?? Infinity) - (lostAt.get(name) ?? 0));
}

function specOf(index: number): JobSpec {
  return {
    version: 1,
    name: `job-${index}`,
    tags: [],
    capacity: {
      kind: 'tpu',
      ownership: 'owned',
      mode: 'tpu-vm',
      project: 'pretend',
      zone: 'pretend-a',
      accelerator: 'v4-8',
      name: `job-${index}`,
      runtimeVersion: 'base',
      pricing: 'spot',
      startupScript: null,
      networkTags: [],
      metadata: {},
      remoteUser: null,
      privateKey: null,
      pricePerHour: 1,
    },
    steps: [],
    command: { script: 'true\n', place: 'workers', workers: 'all', env: {}, workdir: null, checkpointDir: null },
    recovery: {
      preset: 'pre',
      rules: presets.pre,
      budget: { preemptions: 100, failures: 3 },
      delay: 10 * second,
      delayMax: minute,
      unreachableGrace: 3 * minute,
    },
    limits: { maxRuntime: null, silenceTimeout: null, capacityWait: null, setupTries: 3 },
    stop: { signal: 'TERM', grace: 30 * second },
    finish: { capacity: 'release', keepFor: null },
  };
}
