// Rivals: clients that request one persistent TPU, or the chips of one grant, at about the same time. They confirm
// nothing, so that each request depends on the guards alone.

import { second } from '../src/core/model/time.ts';
import { persistentTpuOf } from '../src/core/decide/allocate.ts';
import { heldCapacity, type Grant } from '../src/core/policy/grants.ts';
import { checkGuard, factsNeeded } from '../src/core/policy/guards.ts';
import type { Job } from '../src/core/model/job.ts';
import type { Chance } from './chance.ts';
import type { OwnerClient, SimulationContext } from './controllers.ts';
import { drawJob, type PlannedJob } from './jobs.ts';

/** Of the machines of two rivals, which have four chips each. */
const rivalChips = 8;
const grants: readonly Grant[] = [{ accelerator: 'v4', chips: rivalChips }];

export interface Rival extends PlannedJob {
  /** Time between the check of the client and its write. */
  readonly hesitation: number;
}

/** In some worlds, two to five. */
export function drawRivals(chance: Chance): readonly Rival[] {
  if (!chance.yes(0.15)) return [];
  const isForTpu = chance.yes(0.5);
  const at = chance.between(0, 300) * second;
  return Array.from({ length: chance.between(2, 5) }, (_, index) => {
    const { spec, profile } = drawJob(chance.fork(`rival ${index}`), 10 + index, 'persistent');
    const {
      alternatives: _others,
      operation: _operation,
      ...capacity
    } = spec.capacity.kind === 'tpu' ? spec.capacity : requireTpu();
    const own = { ...capacity, ownership: 'ephemeral', name: `rival-${index}` } as const;
    const { checkpoints: _shared, checkpointStorage: _storage, ...command } = spec.command;
    return {
      spec: {
        ...spec,
        name: `rival-${index}`,
        capacity: isForTpu ? capacity : own,
        command: { ...command, checkpointDir: null },
      },
      profile,
      at: at + chance.between(0, 2_000),
      hesitation: chance.between(0, 3_000),
    };
  });
}

function requireTpu(): never {
  throw new Error('a rival requests a TPU');
}

/** Null: a guard has refused the job of a rival. */
export function insertWanted(
  context: Pick<SimulationContext, 'world' | 'store' | 'clock' | 'checker'>,
  client: OwnerClient,
  wanted: PlannedJob | Rival,
): Promise<Job | null> {
  if ('hesitation' in wanted) return createRival(context, client, wanted);
  return client.insert({ owner: 'owner', spec: wanted.spec, manifest: '', at: context.clock.now() });
}

/** As a client creates a job: it checks the guards, and the transaction of the write checks them again. */
async function createRival(
  { world, store, clock, checker }: Pick<SimulationContext, 'world' | 'store' | 'clock' | 'checker'>,
  client: OwnerClient,
  { spec, hesitation }: Rival,
): Promise<Job | null> {
  const guard = { grants, request: '', confirmed: [] };
  const request = { owner: 'rival', spec, job: null };
  const now = clock.now();
  const facts = await store.guardFacts(factsNeeded(request, grants, now), now);
  const { reasons } = checkGuard(request, guard, facts, now);
  if (reasons.length > 0) {
    world.log(`rival: ${spec.name} is refused: ${reasons.map(({ kind }) => kind).join(', ')}`);
    return null;
  }
  await world.timeline.pause(hesitation);
  const job = await client.insertGuarded({ owner: 'rival', spec, manifest: '', at: clock.now() }, guard);
  const broken = job === null ? null : brokenGuard(job, checker.jobs());
  if (broken !== null) checker.fail(18, `job ${job?.id}: ${broken}`);
  return job;
}

/** The limit that a new job of a rival exceeds; null: none. */
function brokenGuard(job: Job, jobs: readonly Job[]): string | null {
  const earlier = jobs.filter(({ id }) => id < job.id);
  const tpu = persistentTpuOf(job.spec.capacity);
  if (tpu !== null) {
    const user = earlier.find(
      ({ spec, finish, removed }) => persistentTpuOf(spec.capacity) === tpu && finish === null && !removed,
    );
    return user === undefined ? null : `job ${user.id} is on its TPU, and the request had no confirmation`;
  }
  const held = [...earlier.filter(({ owner }) => owner === job.owner), job].flatMap(heldCapacity);
  const chips = held.reduce((sum, one) => sum + (one.chips ?? 0), 0);
  return chips > rivalChips ? `${chips} chips of a grant of ${rivalChips} are in use` : null;
}
