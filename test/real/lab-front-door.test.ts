/** Commands of `tpu` by many people in the same second, each a program of its own: every one is answered, and all of it is there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openStore } from '../../src/store/store.ts';
import { join } from 'node:path';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

const each = 6;

test('two dozen commands at once lose nothing', async (t) => {
  const world = openWorld(t, { patienceMs: 10_000 });
  const tpu = (line: string) => jobman(world, ['tpu', ...line.split(' ')], { withinMs: 120_000 });
  assert.equal((await tpu('add-user ada')).code, 0);

  const numbers = Array.from({ length: each }, (_, index) => index + 1);
  const ended = await Promise.all(
    numbers.flatMap((number) => [
      tpu(`set-dir ${world.folder} ${number} ada`),
      tpu(`-a mom${number} config.momentum${number} ada`),
      tpu(`add-user user-${number}`),
      tpu(`-ta v2-8-${number} lab-tpu-v2-8-${number} zone=us-central1-b`),
    ]),
  );
  for (const { code, stderr } of ended) assert.equal(code, 0, stderr);

  const store = openStore({ file: join(world.home, 'state.db'), readOnly: true });
  world.atEnd(() => store.close());
  const users = await store.lab.users();
  const ada = users.find(({ name }) => name === 'ada');
  assert.equal(Object.keys(ada?.directories ?? {}).length, each);
  assert.equal(Object.keys(ada?.aliases ?? {}).filter((alias) => alias.startsWith('mom')).length, each);
  assert.deepEqual(
    users.map(({ id }) => id).toSorted((one, other) => one - other),
    [0, ...numbers],
  );
  assert.equal((await store.lab.tpuAliases()).size, each);
  assert.equal((await store.lab.tpus()).length, each);
});
