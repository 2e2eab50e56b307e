// A database with ten thousand jobs, as after long use. The core's rules and test world produce each kind of history
// once; copies get other ids and times.

import { join } from 'node:path';
import { finalRows } from '../src/app/views.ts';
import { nextNumber } from '../src/store/counters.ts';
import { commitJob, insertJob } from '../src/store/jobs.ts';
import { migrate } from '../src/store/database.ts';
import { openForWriting } from '../src/store/sqlite.ts';
import { openStore } from '../src/store/store.ts';
import { idOf } from '../src/store/stored-job.ts';
import type { Job } from '../src/core/model/job.ts';
import type { Event } from '../src/core/model/event.ts';
import type { Commit } from '../src/app/ports.ts';
import { hour, minute } from '../src/core/model/time.ts';
import { World, local, spec, tpu } from '../test/core/world.ts';

/** A job and its events after the first, which the store writes itself. */
interface JobHistory {
  readonly job: Job;
  readonly events: readonly Event[];
  readonly end: number;
}

const manifest = `job:\n  name: iris\n${'# a manifest of a usual length\n'.repeat(40)}`;

/** Writes `count` jobs, of which `live` run: half of them on TPUs, and every fifth of those with two preemptions. */
export async function writeDatabase(home: string, count: number, live: number): Promise<void> {
  const file = join(home, 'state.db');
  const store = openStore({ file });
  const installation = await store.installationId();
  await store.close();
  const histories = { ended: sampleHistories(true), live: sampleHistories(false) };
  const began = Date.now() - count * 1_000;
  const db = openForWriting(file);
  await migrate(db);
  // One transaction, because another measurement covers the writing time.
  await db.transaction(async (transaction) => {
    for (let index = 0; index < count; index += 1) {
      const candidates = index >= count - live ? histories.live : histories.ended;
      const history = candidates[index % candidates.length];
      if (history === undefined) throw new Error('there is no history to write');
      const at = began + index * 1_000;
      const shift = at - history.job.createdAt;
      const owner = `user${index % 8}`;
      const named = { ...history.job.spec, name: `run-${index % 97}`, tags: [`group-${index % 11}`] };
      const id = idOf(await nextNumber(transaction, 'job'));
      const { job, revision } = await insertJob(transaction, id, { owner, spec: named, manifest, at });
      const commit: Commit = {
        job: { ...shiftTimes(history.job, shift), id: job.id, installation, owner, spec: named, createdAt: at },
        revision,
        events: history.events.map((event) => shiftTimes(event, shift)),
        foldedOutcomes: [],
        wakeAt: history.job.finish === null ? history.end + shift : null,
        epoch: null,
      };
      await commitJob(transaction, commit, () => ({ notices: [], endsWaiting: false }), finalRows);
    }
  });
  db.close();
}

/** Ten histories: five on this machine, five on TPUs, one of those with two preemptions. */
function sampleHistories(isEnded: boolean): readonly JobHistory[] {
  return Array.from({ length: 10 }, (_, index) => {
    if (index % 2 === 0)
      return simulateHistory(new World(spec({ capacity: local, steps: [], preset: 'pass' })), 0, isEnded);
    return simulateHistory(
      new World(spec({ capacity: { ...tpu, accelerator: 'v4-32' } })),
      index === 1 ? 2 : 0,
      isEnded,
    );
  });
}

/** Every pass with actions takes a minute, so that the job waits for its capacity, sets it up, uses it and releases it. */
function simulateHistory(world: World, preemptions: number, isEnded: boolean): JobHistory {
  world.onPass = (_before, _observation, { actions }) => {
    if (actions.length > 0) world.now += minute;
  };
  const isRunning = (): boolean => world.job.attempts.at(-1)?.runningAt !== null && world.job.attempts.length > 0;
  world.runUntil(isRunning);
  for (let count = 0; count < preemptions; count += 1) {
    world.now += hour;
    world.preempt();
    const before = world.job.attempts.length;
    world.runUntil(() => world.job.attempts.length > before && isRunning());
  }
  if (isEnded) {
    world.now += hour;
    world.exitAll(0);
    world.runUntil(
      () =>
        world.job.finish !== null &&
        world.job.allocations.every((one) => one.ownership === 'persistent' || one.goneAt !== null),
    );
  }
  if (isEnded !== (world.job.finish !== null)) throw new Error('the simulated history is not as expected');
  return { job: world.job, events: world.events.slice(1), end: world.now };
}

/** Shifts all timestamps. A number above 1e12 is a timestamp. */
function shiftTimes<T>(value: T, by: number): T {
  if (typeof value === 'number') return (value > 1_000_000_000_000 ? value + by : value) as T;
  if (Array.isArray(value)) return value.map((one: unknown) => shiftTimes(one, by)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shiftTimes(one as unknown, by)])) as T;
}
