// Record: ten thousand jobs as they look after a long time of use. The lives are not made up: each sort of life is lived
// once, by the real rules in the small pretend world of the core's tests, and then written under many ids.

import { join } from 'node:path';
import { commitJob, insertJob } from '../src/store/jobs.ts';
import { migrate } from '../src/store/record-file.ts';
import { openForWriting } from '../src/store/sqlite.ts';
import { openStore } from '../src/store/store.ts';
import type { Job } from '../src/core/job.ts';
import type { Event } from '../src/core/decision.ts';
import { World, local, spec, tpu } from '../test/core/world.ts';

/** A life at one moment: the job, and every line of its history after the first, which the store writes itself. */
interface Life {
  readonly job: Job;
  readonly events: readonly Event[];
  readonly end: number;
}

const manifest = `job:\n  name: iris\n${'# a manifest of a usual length\n'.repeat(40)}`;

/** Writes `count` jobs of which `live` run, half of each on TPUs, every tenth TPU job with two preemptions behind it. */
export async function writeRecord(home: string, count: number, live: number): Promise<void> {
  const file = join(home, 'state.db');
  const store = openStore({ file });
  const installation = await store.installation();
  await store.close();
  const lives = { ended: livesOf(true), live: livesOf(false) };
  const began = Date.now() - count * 1_000;
  const db = openForWriting(file);
  await migrate(db);
  // One transaction: how long the writing takes is measured elsewhere.
  await db.transaction(async (transaction) => {
    for (let index = 0; index < count; index += 1) {
      const sorts = index >= count - live ? lives.live : lives.ended;
      const life = sorts[index % sorts.length];
      if (life === undefined) throw new Error('there is no life to write');
      const at = began + index * 1_000;
      const shift = at - life.job.createdAt;
      const owner = `user${index % 8}`;
      const named = { ...life.job.spec, name: `run-${index % 97}`, tags: [`group-${index % 11}`] };
      const { job, revision } = await insertJob(
        transaction,
        installation,
        { owner, spec: named, manifest, at },
        () => false,
      );
      await commitJob(transaction, {
        job: { ...moved(life.job, shift), id: job.id, installation, owner, spec: named, createdAt: at },
        revision,
        events: life.events.map((event) => moved(event, shift)),
        folded: [],
        wakeAt: life.job.settled === null ? life.end + shift : null,
        epoch: null,
      });
    }
  });
  db.close();
}

/** Ten lives: five on this machine, five on TPUs, one of those with two preemptions. */
function livesOf(isEnded: boolean): readonly Life[] {
  return Array.from({ length: 10 }, (_, index) => {
    if (index % 2 === 0) return lived(new World(spec({ capacity: local, steps: [], preset: 'pass' })), 0, isEnded);
    return lived(new World(spec({ capacity: { ...tpu, accelerator: 'v4-32' } })), index === 1 ? 2 : 0, isEnded);
  });
}

function lived(world: World, preemptions: number, isEnded: boolean): Life {
  const isRunning = (): boolean => world.job.attempts.at(-1)?.runningAt !== null && world.job.attempts.length > 0;
  world.live(isRunning);
  for (let count = 0; count < preemptions; count += 1) {
    world.preempt();
    const before = world.job.attempts.length;
    world.live(() => world.job.attempts.length > before && isRunning());
  }
  if (isEnded) {
    world.exitAll(0);
    world.live(
      () =>
        world.job.settled !== null &&
        world.job.allocations.every((one) => one.ownership === 'standing' || one.goneAt !== null),
    );
  }
  if (isEnded !== (world.job.settled !== null)) throw new Error('the pretend life did not go as it was meant to');
  return { job: world.job, events: world.events.slice(1), end: world.now };
}

/** The same with every moment moved: numbers that are moments of this century are told from others by their size. */
function moved<T>(value: T, by: number): T {
  if (typeof value === 'number') return (value > 1_000_000_000_000 ? value + by : value) as T;
  if (Array.isArray(value)) return value.map((one: unknown) => moved(one, by)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, moved(one as unknown, by)])) as T;
}
