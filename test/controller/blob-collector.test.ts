/** The blobs that the controller keeps: those of every job that may be started again. */
import assert from 'node:assert/strict';
import { existsSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { digestOf, type Digest } from '../../src/catalogue/digest.ts';
import { createBlobCollector } from '../../src/controller/blob-collector.ts';
import { day, hour } from '../../src/core/model/time.ts';
import { encodeTree } from '../../src/app/tree.ts';
import { createBlobs } from '../../src/files/blobs.ts';
import { localSpec } from '../support/builders.ts';
import { testStore } from '../support/stores.ts';
import { temporaryFolder } from '../support/folder.ts';

testStore('the blobs of deleted jobs are removed, after the first work for jobs', async (store) => {
  const undo: (() => void)[] = [];
  const home = temporaryFolder({ after: (fn) => undo.push(fn) });
  const blobs = createBlobs(home);
  const { access } = store;
  const fileOf = (digest: Digest): string => join(home, 'blobs', digest.slice(7, 9), digest.slice(7));
  const create = async (text: string) => {
    const content = Buffer.from(text);
    const digest = digestOf(content);
    const code = Buffer.from(`code of ${text}`);
    const entry = { path: 'x', mode: 0o644, size: 1, changedAtSeconds: 0, digest: digestOf(code) };
    const tree = encodeTree([entry, { path: 'link', target: 'x' }]);
    const all = [content, code, tree].map((one) => ({ digest: digestOf(one), content: one }));
    await blobs.put(all);
    const uploads = all.map(({ digest: sent, content: bytes }) => ({ digest: sent, size: bytes.byteLength }));
    await access.addUploads('ada', uploads, Date.now() - 2 * day);
    const file = { kind: 'blob', blob: digest, to: '~/x', mode: 0o644 } as const;
    const step = { name: 'files', key: 'k', check: null, apply: '', files: [file], timeoutMs: hour };
    const stored = await store.insert({
      owner: 'ada',
      spec: localSpec({ steps: [step], workdir: { tree: digestOf(tree) } }),
      manifest: '',
      at: 1,
    });
    const old = new Date(Date.now() - 2 * day);
    for (const one of all) utimesSync(fileOf(one.digest), old, old);
    const recorded = async () =>
      (
        await access.uploads(
          'ada',
          all.map((one) => one.digest),
        )
      ).size;
    return { ...stored, recorded, isKept: all.map((one) => () => existsSync(fileOf(one.digest))) };
  };
  const [kept, deleted] = [await create('kept'), await create('deleted')];
  const job = { ...deleted.job, startRequest: null, removed: true };
  const commit = { job, revision: deleted.revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null };
  assert.equal(await store.commit(commit), 'committed');
  let now = Date.now();
  const lines: string[] = [];
  const log = { info: (line: string) => lines.push(line), warn: (line: string) => lines.push(line) };
  const collect = createBlobCollector({ store, access, blobs, clock: { now: () => now }, log });
  await collect();
  assert.ok(deleted.isKept[0]?.(), 'jobs that wait for the controller come first');
  now += hour;
  await collect();
  assert.deepEqual(
    [...kept.isKept, ...deleted.isKept].map((isKept) => isKept()),
    [true, true, true, false, false, false],
    'the file, the code and the list of the code',
  );
  assert.deepEqual([await kept.recorded(), await deleted.recorded()], [3, 0]);
  assert.deepEqual(lines, ['removed 3 stored files that no job needs']);
  for (const one of undo) one();
});
