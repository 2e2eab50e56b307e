// Changes: what many readers of one database share, and what a slow one reads by itself.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { changesSince } from '../../src/app/changes.ts';
import type { Change } from '../../src/app/client.ts';
import { createJobFiles } from '../../src/files/job-files.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';
import { eventually } from '../support/eventually.ts';
import { temporaryFolder } from '../support/folder.ts';

function openChanges(t: TestContext) {
  const home = temporaryFolder(t);
  const store = openStore({ file: ':memory:' });
  const over = new AbortController();
  const reads = { eventsAfter: 0, list: 0 };
  let failure: Error | undefined;
  t.after(async () => {
    over.abort();
    await store.close();
  });
  const sources = {
    store: {
      ...store,
      async changeCount() {
        if (failure !== undefined) throw failure;
        return store.changeCount();
      },
      eventsAfter(...range: Parameters<typeof store.eventsAfter>) {
        reads.eventsAfter += 1;
        return store.eventsAfter(...range);
      },
      list(...filter: Parameters<typeof store.list>) {
        reads.list += 1;
        return store.list(...filter);
      },
    },
    files: createJobFiles(home),
    now: () => noon,
  };
  return {
    reads,
    fail: (error?: Error) => (failure = error),
    insert: async (owner = 'ada') => (await store.insert({ owner, spec: localSpec(), manifest: '', at: noon })).job.id,
    read: (owner?: string) =>
      changesSince(
        sources,
        { cursor: null, ids: null, isReadable: (job) => owner === undefined || job.owner === owner },
        over.signal,
      ),
  };
}

/** The jobs of its events, as they come. */
function collect(changes: AsyncIterable<Change>): { readonly jobs: readonly string[]; readonly ended: Promise<void> } {
  const jobs: string[] = [];
  const ended = (async () => {
    for await (const change of changes) if (change.kind === 'event') jobs.push(change.job);
  })();
  return { jobs, ended };
}

test('many readers cost one read, and each gets only what it may read', async (t) => {
  const { insert, read, reads } = openChanges(t);
  const all = Array.from({ length: 50 }, () => read());
  const own = read('ada');
  // Each is connected once it has the first change.
  for (const one of [...all, own]) assert.equal((await one.next()).value?.kind, 'jobs');
  const readers = [...all, own].map(collect);
  const before = { ...reads };
  const jobs = [await insert(), await insert('bob'), await insert()];
  assert.ok(await eventually(() => readers.every(({ jobs: seen }, at) => seen.length === (at < 50 ? 3 : 2))));
  for (const { jobs: seen } of readers.slice(0, 50)) assert.deepEqual(seen, jobs);
  assert.deepEqual(readers[50]?.jobs, [jobs[0], jobs[2]]);
  assert.ok(reads.eventsAfter - before.eventsAfter <= 3, `${reads.eventsAfter} reads of events`);
  assert.ok(reads.list - before.list <= 3, `${reads.list} reads of jobs`);
});

test('a reader that takes nothing for long gets each event once', async (t) => {
  const { insert, read } = openChanges(t);
  const [slow, quick] = [read(), read()];
  await slow.next();
  await quick.next();
  const { jobs: seen } = collect(quick);
  const jobs: string[] = [];
  // More steps than are kept for a reader that is behind.
  for (let step = 1; step <= 11; step += 1) {
    jobs.push(await insert());
    assert.ok(await eventually(() => seen.length === step));
  }
  const late = collect(slow);
  jobs.push(await insert());
  assert.ok(await eventually(() => late.jobs.length >= jobs.length));
  assert.deepEqual(late.jobs, jobs);
});

test('a database that fails ends the changes of all readers, and the next one begins again', async (t) => {
  const { insert, read, fail } = openChanges(t);
  const readers = [read(), read()];
  for (const one of readers) await one.next();
  fail(new Error('no answer'));
  for (const { ended } of readers.map(collect)) await assert.rejects(ended, /no answer/);
  fail();
  const again = read();
  assert.equal((await again.next()).value?.kind, 'jobs');
  const { jobs } = collect(again);
  const id = await insert();
  assert.ok(await eventually(() => jobs[0] === id));
});
