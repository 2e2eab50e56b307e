// Databases: the store under a controller with a thousand jobs, in a file and on a server in turn, so that both have the
// same load. Without JOBMAN_BENCH_SERVER only the file is measured.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StoredJob } from '../src/app/ports.ts';
import type { DatabaseAddress } from '../src/store/open-database.ts';
import { openStore } from '../src/store/store.ts';
import { localSpec, noon } from '../test/support/builders.ts';
import { serverUrl, withCleanUp, withDatabase } from './home.ts';
import type { Result } from './result.ts';

const count = 1_000;
const rounds = 3;

type Times = ReadonlyMap<string, number>;

export async function measureDatabases(): Promise<readonly Result[]> {
  const files: Times[] = [];
  const servers: Times[] = [];
  for (let round = 0; round < rounds; round += 1) {
    files.push(await withFile((file) => measureStore({ file })));
    if (serverUrl !== '') servers.push(await withDatabase((url) => measureStore({ url })));
  }
  return [...(files[0]?.keys() ?? [])].map((name) => ({
    name,
    measured: servers.length === 0 ? '-' : `${medianOf(servers, name).toFixed(0)} ms on a server`,
    budget: '-',
    comparison: `${medianOf(files, name).toFixed(0)} ms in a file; medians of ${rounds}`,
    isWithinBudget: null,
  }));
}

function medianOf(runs: readonly Times[], name: string): number {
  const times = runs.map((run) => run.get(name) ?? Number.NaN).toSorted((a, b) => a - b);
  return times[Math.floor(times.length / 2)] ?? Number.NaN;
}

function withFile<T>(measure: (file: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-bench-'));
  return withCleanUp(
    () => rmSync(folder, { recursive: true, force: true }),
    () => measure(join(folder, 'home', 'state.db')),
  );
}

async function measureStore(address: DatabaseAddress): Promise<Times> {
  const store = openStore(address);
  const times = new Map<string, number>();
  async function time<T>(name: string, work: () => Promise<T>): Promise<T> {
    const began = performance.now();
    const result = await work();
    times.set(name, performance.now() - began);
    return result;
  }
  const event = { kind: 'unreachable', at: noon, allocation: 1, message: 'no answer' } as const;
  const commit = async ({ job, revision }: StoredJob, epoch: number): Promise<void> => {
    const answer = await store.commit({ job, revision, events: [event], foldedOutcomes: [], wakeAt: noon, epoch });
    if (answer !== 'committed') throw new Error(`a commit was ${answer}`);
  };
  try {
    const job = { owner: 'ada', spec: localSpec(), manifest: 'job:\n', at: noon };
    const { lease } = await store.takeLease('bench', '1', Date.now(), 3_600_000, false);
    const ids: string[] = [];
    await time('1,000 inserts in turn', async () => {
      while (ids.length < count) ids.push((await store.insert(job)).job.id);
    });
    const jobs = await time('1,000 jobs loaded at once, with their outcomes', async () => {
      const loaded = await Promise.all(ids.map((id) => store.load(id)));
      await Promise.all(ids.map((id) => store.outcomes(id)));
      return loaded.filter((one) => one !== undefined);
    });
    await time('1,000 commits at once', () => Promise.all(jobs.map((one) => commit(one, lease.epoch))));
    await time('1,000 outcomes at once', () =>
      Promise.all(
        ids.map((id) =>
          store.addOutcome(id, { subject: { kind: 'request', allocation: 1 }, at: noon, result: { kind: 'done' } }),
        ),
      ),
    );
    await time('100 commits in turn', async () => {
      for (const one of jobs.slice(0, 100)) await commit({ ...one, revision: one.revision + 1 }, lease.epoch);
    });
    return times;
  } finally {
    await store.close();
  }
}
