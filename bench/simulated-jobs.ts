// The real controller, rules and store in the simulator, with many running jobs that each hold a TPU. Time is
// simulated, so the results are equal on every machine.

import type { Backend, CapacityPort, Clock, Commit, Store } from '../src/app/ports.ts';
import { createController } from '../src/controller/controller.ts';
import { fileLease } from '../src/controller/lease.ts';
import { ownHost, type JobSpec } from '../src/core/model/spec.ts';
import { minute, second } from '../src/core/model/time.ts';
import { openStore } from '../src/store/store.ts';
import { createChance, type Chance, noFaults } from '../sim/chance.ts';
import { createCloudPort, createLocalPort, type PortOptions } from '../sim/cloud.ts';
import { createLogCopies } from '../sim/outputs.ts';
import { createMachinePort } from '../sim/hosts.ts';
import { createProcess } from '../sim/process.ts';
import { createTimeline, type Timeline } from '../sim/timeline.ts';
import { createWorld, type World } from '../sim/world.ts';
import { simulatedSpec } from '../test/support/builders.ts';

const epoch = Date.UTC(2026, 0, 1);

export interface SimulatedJobs {
  readonly timeline: Timeline;
  readonly world: World;
  readonly chance: Chance;
  /** Times of release by machine name. */
  readonly releasedAt: ReadonlyMap<string, number>;
  /** Number of list requests to the cloud; each lists the only zone. */
  readonly listCount: () => number;
  readonly store: Store;
  /** The commits of the controller, in their order. */
  readonly commits: readonly Commit[];
  readonly close: () => Promise<void>;
}

/**
 * Simulates five minutes. With `linesDrop` connections to a lost machine close; otherwise they become silent. Each TPU has
 * that many workers, and sets up that many steps on each.
 */
export async function openSimulatedJobs(
  count: number,
  {
    linesDrop,
    workers = 1,
    steps = 0,
  }: { readonly linesDrop: boolean; readonly workers?: number; readonly steps?: number },
): Promise<SimulatedJobs> {
  const chance = createChance(1);
  const timeline = createTimeline();
  const world = createWorld(timeline, chance.fork('world'), () => undefined, { runBegins: () => undefined });
  const clock: Clock = {
    now: () => epoch + timeline.now,
    at: (at, call) => timeline.after(Math.max(0, at - (epoch + timeline.now)), call),
  };
  const store = openStore({ file: ':memory:', installation: 'pretnd' });
  const commits: Commit[] = [];
  const recording: typeof store = {
    ...store,
    async commit(commit) {
      const result = await store.commit(commit);
      if (result === 'committed') commits.push(commit);
      return result;
    },
  };
  const releasedAt = new Map<string, number>();
  const parts: PortOptions = {
    world,
    cloudModel: { faultRates: noFaults, isCloudDown: false, isNetworkCut: false },
    chance: chance.fork('ports'),
    clock,
    watcher: {
      called(kind, { allocation }) {
        if (kind === 'release' && !releasedAt.has(allocation.name)) releasedAt.set(allocation.name, timeline.now);
      },
      orphanReleased: () => undefined,
    },
    installation: 'pretnd',
    workersOf: () => workers,
  };
  const hosts = createMachinePort({
    ...parts,
    planFor: () => ({
      startDelay: 0,
      duration: null,
      exitCode: 0,
      linePeriod: 10 * second,
      silentAfter: null,
      lastLine: '',
      stopDelay: 0,
    }),
  });
  const machines: typeof hosts = linesDrop
    ? hosts
    : {
        ...hosts,
        tail: (ref, request, receiver) => hosts.tail(ref, request, { ...receiver, dropped: () => undefined }),
      };
  const controllerProcess = createProcess('controller');
  let listCount = 0;
  const cloudPort = createCloudPort(parts);
  const countingPort: CapacityPort = {
    ...cloudPort,
    observe(refs) {
      listCount += 1;
      return cloudPort.observe(refs);
    },
  };
  const cloud: Backend = { capacity: controllerProcess.wrap(countingPort), machines: controllerProcess.wrap(machines) };
  const localBackend: Backend = {
    capacity: controllerProcess.wrap(createLocalPort(clock, world)),
    machines: cloud.machines,
  };
  const controller = createController({
    store: controllerProcess.wrap(recording),
    backendOf: (spec) => (spec.capacity.kind === 'hosts' ? localBackend : cloud),
    clock: controllerProcess.clock(clock),
    logFiles: controllerProcess.wrap(createLogCopies({ isFull: false }, chance.fork('disk'))),
    log: { info: () => undefined, warn: (line) => console.error(line) },
    holder: 'controller',
    version: '0.0.0',
    holdsLock: true,
    leaseTimes: fileLease,
    pools: [{ name: ownHost, slots: 1, gpus: null }],
    keptPasses: { days: 7, count: 2_000 },
    grants: [],
    idleExitMs: null,
  });
  for (let index = 0; index < count; index += 1) {
    await store.insert({ owner: 'owner', spec: specOf(index, steps), manifest: '', at: clock.now() });
  }
  controller.start();

  const isAllRunning = (): boolean => world.runs.filter((one) => one.startedAt !== null).length >= count * workers;
  await timeline.run(2 * 60 * minute, isAllRunning);
  if (!isAllRunning()) throw new Error('not all jobs are running');
  await timeline.run(timeline.now + 5 * minute, () => false);
  return {
    timeline,
    world,
    chance,
    releasedAt,
    listCount: () => listCount,
    store,
    commits,
    async close() {
      controllerProcess.crash();
      await store.close();
    },
  };
}

function specOf(index: number, count: number): JobSpec {
  const step = { check: null, apply: 'true', files: [], timeoutMs: minute };
  const steps = Array.from({ length: count }, (_, number) => ({
    ...step,
    name: `step-${number}`,
    key: `step-${number}`,
  }));
  return { ...simulatedSpec(`job-${index}`, 'spot'), steps };
}
