// A hundred commands of a lab at the same moment: each is there afterwards, and no number was given twice.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { openStore } from '../../src/store/store.ts';
import { aLabJob, aUser } from '../lab/sample.ts';
import { localSpec, noon } from '../support/builders.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

test('a hundred processes at once lose nothing of the lab', async (t) => {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  const store = openStore({ file });
  world.atEnd(() => store.close());
  await store.lab.addUser(aUser('xibo'));
  const jobs: string[] = [];
  for (let count = 0; count < 100; count += 1) {
    const { job } = await store.insert({ owner: 'xibo', spec: localSpec(), manifest: '', at: noon });
    await store.lab.addJob(aLabJob(job.id, 'xibo'));
    jobs.push(job.id);
  }
  const script = join(root, 'test/real/lab-writer.ts');
  const codes = await Promise.all(
    jobs.map((job, index) => {
      const child = spawn(process.execPath, [script, file, `${index + 1}`, job], {
        env: world.env,
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      return new Promise<number | null>((resolve) => {
        child.on('close', resolve);
      });
    }),
  );
  assert.deepEqual(new Set(codes), new Set([0]));

  const [user] = await store.lab.users();
  assert.equal(Object.keys(user?.directories ?? {}).length, 100);
  assert.equal(user?.nextWindow, 101);
  const windows = await store.lab.windows({ user: 'xibo' });
  assert.deepEqual(
    windows.map(({ window }) => window.window),
    Array.from({ length: 100 }, (_, index) => index + 1),
  );
  assert.equal(new Set(windows.map(({ job }) => job.job)).size, 100);
  for (const { window } of windows) {
    assert.equal(window.report?.logFolder, `/srv/logs/${jobs.indexOf(window.job) + 1}`);
    assert.notEqual(window.finishedAt, null);
  }
  assert.equal((await store.lab.tpuAliases()).size, 100);
});
