import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, existsSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { removeFolder } from '../../src/files/job-folders.ts';
import { makeFolder, makeHome } from '../../src/files/files.ts';

/** Creates a folder in each round, below the same missing parents as the others, at the same time. */
const maker = `
  const { join } = require('node:path');
  const { parentPort, workerData: { turns, makers, me, base, module } } = require('node:worker_threads');
  import(module).then(({ makeFolder }) => {
    const turn = new Int32Array(turns);
    for (let round = 0; round < 300; round += 1) {
      Atomics.add(turn, 0, 1);
      while (Atomics.load(turn, 0) < (round + 1) * makers) {}
      makeFolder(join(base, String(round), 'jobs', 'ada', String(me)));
    }
    parentPort.postMessage('made');
  });
`;

test('two processes can create the same folders at the same time', async () => {
  const base = mkdtempSync(join(tmpdir(), 'jobman-make-folder-'));
  const turns = new SharedArrayBuffer(4);
  const module = new URL('../../src/files/files.ts', import.meta.url).href;
  try {
    const results = await Promise.all(
      [0, 1].map(
        (me) =>
          new Promise((resolve, reject) => {
            const worker = new Worker(maker, { eval: true, workerData: { turns, makers: 2, me, base, module } });
            worker.on('message', resolve);
            worker.on('error', reject);
          }),
      ),
    );
    assert.deepEqual(results, ['made', 'made']);
  } finally {
    rmSync(base, { recursive: true });
  }
});

test('a link to a missing folder is named', () => {
  const base = mkdtempSync(join(tmpdir(), 'jobman-make-folder-'));
  try {
    symlinkSync('/nonexistent/home', join(base, 'home'));
    assert.throws(
      () => makeFolder(join(base, 'home')),
      /home is a symbolic link to \/nonexistent\/home, which does not/,
    );
  } finally {
    rmSync(base, { recursive: true });
  }
});

test('a home that cannot be created is reported with its path, not as a bug', () => {
  assert.throws(() => makeHome('/dev/null/home'), {
    kind: 'broken',
    message: /^\/dev\/null\/home cannot be used: ENOTDIR/,
  });
});

test('a folder with paths beyond the path limit can be removed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-remove-'));
  const chain = Array<string>(30).fill('d'.repeat(100));
  const [one, other] = ['one', 'other'].map((name) => join(folder, name, ...chain)) as [string, string];
  for (const path of [one, other]) mkdirSync(path, { recursive: true });
  renameSync(join(folder, 'other'), join(one, 'other'));
  await removeFolder(folder);
  assert.equal(existsSync(folder), false);
  await removeFolder(folder);
});
