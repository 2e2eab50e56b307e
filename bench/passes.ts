// Recorded passes: their size after many preemptions, the time that they add to a commit, and the commits of a thousand
// jobs at rest. Controller, rules and store are real and run in the simulator.

import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Commit, Store } from '../src/app/ports.ts';
import { pluralize } from '../src/app/format.ts';
import { minute } from '../src/core/model/time.ts';
import { openStore } from '../src/store/store.ts';
import { loseMachine } from '../sim/world.ts';
import { simulatedSpec } from '../test/support/builders.ts';
import { withCleanUp } from './home.ts';
import type { Result } from './result.ts';
import { openSimulatedJobs } from './simulated-jobs.ts';

const preemptions = 10;
const steps = 8;
const rounds = 5;
const restingJobs = 1_000;
const restMinutes = 10;

export async function measurePasses(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const workers of [1, 4, 64]) results.push(...(await measureJob(workers)));
  return [...results, await measureRest()];
}

async function measureJob(workers: number): Promise<readonly Result[]> {
  const { timeline, world, store, commits, close } = await openSimulatedJobs(1, { linesDrop: true, workers, steps });
  const started = (): number => world.runs.filter(({ startedAt }) => startedAt !== null).length;
  for (let lost = 1; lost <= preemptions; lost += 1) {
    const machine = world.machines.findLast(({ state }) => state === 'ready');
    if (machine === undefined) throw new Error('no machine is ready');
    loseMachine(world, machine, 'preempted');
    await timeline.run(timeline.now + 60 * minute, () => started() >= workers * (lost + 1));
    await timeline.run(timeline.now + minute, () => false);
  }
  const recorded = commits.slice();
  const passes = (await store.passes('000001')).length;
  await close();
  const name = `a job with ${pluralize(workers, 'worker')}, ${steps} setup steps and ${preemptions} preemptions`;
  const [plain, whole] = await timeCommits(recorded);
  const bytes = whole.bytes - plain.bytes;
  return [
    {
      name: `recorded passes of ${name}`,
      measured: `${(bytes / 1_000).toFixed(0)} kB in the database`,
      budget: '-',
      comparison: `${passes} passes, ${(bytes / passes).toFixed(0)} B each; ${recorded.length} commits`,
      isWithinBudget: null,
    },
    {
      name: `processor time of a commit, ${name}`,
      measured: `${whole.ms.toFixed(2)} ms`,
      budget: '-',
      comparison: `${plain.ms.toFixed(2)} ms without passes; medians of ${rounds} rounds`,
      isWithinBudget: null,
    },
  ];
}

function withoutPass(commit: Commit): Commit {
  const { record: _, ...rest } = commit;
  return rest;
}

interface Timed {
  readonly ms: number;
  readonly bytes: number;
}

/** Writes the commits into new databases, without and with their passes in turn. */
async function timeCommits(commits: readonly Commit[]): Promise<readonly [Timed, Timed]> {
  const plain: Timed[] = [];
  const whole: Timed[] = [];
  for (let round = 0; round < rounds; round += 1) {
    plain.push(await timeRound(commits.map(withoutPass)));
    whole.push(await timeRound(commits));
  }
  return [median(plain), median(whole)];
}

async function timeRound(commits: readonly Commit[]): Promise<Timed> {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-bench-passes-'));
  return withCleanUp(
    () => rmSync(folder, { recursive: true }),
    async () => {
      const file = join(folder, 'state.db');
      const store = openStore({ file, skipFsync: true });
      await store.insert({ owner: 'owner', spec: simulatedSpec('job-0'), manifest: '', at: 0 });
      const first = commits[0]?.revision ?? 0;
      const began = process.cpuUsage();
      for (const commit of commits) {
        const result = await store.commit({ ...commit, revision: commit.revision - first + 1, epoch: null });
        if (result !== 'committed') throw new Error(`the commit is ${result}`);
      }
      const { user, system } = process.cpuUsage(began);
      const ms = (user + system) / 1_000 / commits.length;
      await store.close();
      return { ms, bytes: statSync(file).size };
    },
  );
}

function median(all: readonly Timed[]): Timed {
  const sorted = all.toSorted((one, other) => one.ms - other.ms);
  return sorted[Math.floor(sorted.length / 2)] ?? { ms: Number.NaN, bytes: Number.NaN };
}

async function measureRest(): Promise<Result> {
  const { timeline, store, commits, close } = await openSimulatedJobs(restingJobs, { linesDrop: true });
  const before = { commits: commits.length, passes: await countPasses(store) };
  await timeline.run(timeline.now + restMinutes * minute, () => false);
  const added = (await countPasses(store)) - before.passes;
  const written = commits.length - before.commits;
  await close();
  return {
    name: `passes that ${restingJobs} running jobs record in ${restMinutes} minutes`,
    measured: `${added}`,
    budget: '0',
    comparison: `${written} commits; ${(before.passes / restingJobs).toFixed(1)} passes for each job until it runs`,
    isWithinBudget: added === 0,
  };
}

async function countPasses(store: Store): Promise<number> {
  const { jobs } = await store.list({ maxFinished: null });
  const counts = await Promise.all(jobs.map(async ({ id }) => (await store.passes(id)).length));
  return counts.reduce((sum, count) => sum + count, 0);
}
