// A random world for the usage ledger, from one seed: jobs of all kinds, and faults of all kinds.

import { findAccelerator } from '../../../src/catalogue/accelerators.ts';
import { pricePerHour } from '../../../src/catalogue/prices.ts';
import { presets, type PresetName } from '../../../src/core/policy/presets.ts';
import type { JobSpec, Pricing, TpuAlternative, TpuSpec } from '../../../src/core/model/spec.ts';
import { minute, second } from '../../../src/core/model/time.ts';
import { runVerb } from '../../../src/emulator/world/verbs.ts';
import { createChance, type Chance } from '../../../sim/chance.ts';
import { localSpec, tpuCapacity } from '../../support/builders.ts';
import { createBilledWorld, type BilledWorld, type CallFault } from './billed-world.ts';

const length = 100 * minute;

/** Types with a price, in the zones that offer them. */
const offers: readonly (readonly [zone: string, ...accelerators: readonly string[]])[] = [
  ['us-central2-b', 'v4-8', 'v4-16', 'v4-32'],
  ['us-central1-a', 'v5litepod-1', 'v5litepod-8', 'v5litepod-16'],
  ['us-east5-a', 'v5p-8', 'v5p-16'],
  ['us-east1-d', 'v6e-1', 'v6e-8', 'v6e-16'],
  ['europe-west4-a', 'v3-8', 'v3-32', 'v6e-4'],
  ['us-central1-f', 'v2-8', 'v3-8'],
];

/** Runs one world to its end. Close it afterwards. */
export async function runRandomBill(seed: number, intervalMs: number | null): Promise<BilledWorld> {
  const chance = createChance(seed);
  const faults = chance.fork('faults');
  const programs = chance.fork('programs');
  // A superseded request becomes ready only if its deletion fails for long.
  const isUnreliable = chance.yes(0.2);
  const world = createBilledWorld({
    seed,
    intervalMs,
    planOf: () => ({
      durationMs: programs.between(1, 90) * minute + programs.between(0, 59_999),
      exitCode: programs.yes(0.7) ? 0 : 1,
    }),
    callFault: (): CallFault =>
      faults.yes(isUnreliable ? 0.5 : 0.06)
        ? 'fails'
        : faults.yes(0.06)
          ? 'reply_lost'
          : faults.yes(0.25)
            ? { lateMs: faults.between(second, 10 * minute) }
            : undefined,
  });
  const started = world.clock.now();
  const count = chance.between(1, 4);
  for (let number = 1; number <= count; number += 1) await addJob(world, chance.fork(`job ${number}`), number, started);
  planFaults(world, chance.fork('cloud'), started);
  await world.run(length);
  return world;
}

async function addJob(world: BilledWorld, chance: Chance, number: number, started: number): Promise<void> {
  const capacity = drawCapacity(chance, number);
  if (capacity.ownership === 'persistent') await createShared(world, capacity);
  const at = started + chance.between(0, 20 * minute);
  world.plan(at, async () => {
    const id = await world.create(drawSpec(chance, capacity, number));
    if (chance.yes(0.6)) planCommands(world, chance, id, at);
  });
}

function planCommands(world: BilledWorld, chance: Chance, id: string, at: number): void {
  const first = at + chance.between(minute, 60 * minute);
  const force = chance.yes(0.3);
  if (force) world.plan(first, () => world.command(id, 'delete', { force }));
  else if (chance.yes(0.4)) world.plan(first, () => world.command(id, 'delete'));
  else {
    world.plan(first, () => world.command(id, 'stop', { release: chance.yes(0.4) }));
    world.plan(first + chance.between(minute, 20 * minute), () => world.command(id, 'resume'));
  }
}

function drawSpec(chance: Chance, capacity: TpuSpec, number: number): JobSpec {
  const preset = pick(chance, Object.keys(presets)) as PresetName;
  const plain = localSpec();
  return {
    ...plain,
    name: `job-${number}`,
    capacity,
    recovery: { ...plain.recovery, preset, rules: presets[preset], delayMaxMs: 2 * minute },
    limits: { ...plain.limits, maxRuntimeMs: chance.yes(0.2) ? 20 * minute : null },
    stop: { ...plain.stop, graceMs: 30 * second },
    finish: {
      capacity: chance.yes(0.25) ? 'keep' : 'release',
      keepForMs: chance.yes(0.5) ? 10 * minute : null,
      ...(chance.yes(0.2) && { holdOnFailureMs: 5 * minute }),
    },
  };
}

function drawCapacity(chance: Chance, number: number): TpuSpec {
  const own = drawAlternative(chance);
  const isPersistent = chance.yes(0.2);
  const mode = chance.yes(0.5) ? 'queued-resources' : 'tpu-vm';
  const nodeCount = mode === 'queued-resources' && !isPersistent && chance.yes(0.25) ? chance.between(2, 3) : 1;
  const priced = <T extends TpuAlternative>(one: T): T => ({
    ...one,
    pricePerHourUsd: pricePerHour({ ...one, nodeCount }),
  });
  const others = [drawAlternative(chance), drawAlternative(chance)];
  const alternatives = isPersistent || chance.yes(0.5) ? [] : others.map((one) => priced(one));
  return tpuCapacity({
    ...priced(own),
    project: 'emulator',
    mode: isPersistent ? 'tpu-vm' : mode,
    ownership: isPersistent ? 'persistent' : 'ephemeral',
    name: isPersistent ? `shared-${number}` : `job-${number}`,
    ...(nodeCount > 1 && { nodeCount }),
    ...(alternatives.length > 0 && { alternatives, ...(chance.yes(0.7) && { alternativesWaitMs: minute }) }),
  });
}

function drawAlternative(chance: Chance): TpuAlternative {
  const [zone, ...accelerators] = pick(chance, offers);
  const accelerator = pick(chance, accelerators);
  const pricing: Pricing = pick(chance, ['spot', 'ondemand', 'preemptible']);
  const runtimeVersion = findAccelerator(accelerator)?.generation.runtimeVersion ?? '';
  return { zone, accelerator, pricing, runtimeVersion, pricePerHourUsd: null };
}

async function createShared(
  world: BilledWorld,
  { zone, name, accelerator, runtimeVersion, pricing }: TpuSpec,
): Promise<void> {
  const schedulingConfig = pricing === 'ondemand' ? {} : { [pricing]: true };
  const body = {
    acceleratorType: accelerator,
    runtimeVersion,
    schedulingConfig,
    networkConfig: { enableExternalIps: true },
  };
  for (let tries = 0; tries < 20; tries += 1) {
    const answer = await world.api.createNode({ project: 'emulator', zone }, name, body);
    if (answer.ok) return;
  }
}

function planFaults(world: BilledWorld, chance: Chance, started: number): void {
  const verb = (name: string, given: Record<string, string>): void => {
    try {
      runVerbIn(world, name, given);
    } catch {
      // The node is not in a state for this fault any more.
    }
  };
  world.onReady(({ name }) => {
    const now = world.clock.now();
    const nodeId = name.slice(name.lastIndexOf('/') + 1);
    // Many within the first minute, which is free, and around its end.
    if (chance.yes(0.3)) {
      const after = chance.yes(0.6) ? chance.between(1, 75 * second) : chance.between(minute, 40 * minute);
      world.plan(now + after, () => verb('preempt', { target: nodeId }));
    }
    if (chance.yes(0.15))
      world.plan(now + chance.between(1, 20 * minute), () => verb('maintenance', { target: nodeId }));
    if (chance.yes(0.05)) {
      const [, , , zone = ''] = name.split('/');
      // A user deletes it with another tool.
      world.plan(now + chance.between(1, 20 * minute), async () => {
        await world.api.deleteNode({ project: 'emulator', zone }, nodeId);
      });
    }
  });
  for (let count = chance.between(0, 4); count > 0; count -= 1) {
    const at = started + chance.between(0, length - 10 * minute);
    const kind = pick(chance, ['stockout', 'fail', 'hold', 'hold', 'quota']);
    const zone = pick(chance, offers)[0];
    const target = chance.yes(0.5) ? zone : '*';
    const more = kind === 'fail' ? {} : { for: `${chance.between(1, 8)}m` };
    world.plan(at, () => verb(kind, { target, ...more, ...(kind === 'quota' && { limit: '0' }) }));
  }
}

function runVerbIn({ world }: BilledWorld, name: string, given: Record<string, string>): void {
  world.change(() => runVerb(world, name, given));
}

function pick<T>(chance: Chance, from: readonly T[]): T {
  const found = from[chance.between(0, from.length - 1)];
  if (found === undefined) throw new Error('there is nothing to choose from');
  return found;
}
