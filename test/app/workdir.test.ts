/** A job's copies of its working directory, through the Client: made at create, and again at a resume. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { clientFor } from '../../src/app/store-client.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { freeze } from '../../src/remote/workdir/freeze.ts';
import { workdirStep } from '../../src/setup/files.ts';
import { openStore } from '../../src/store/store.ts';
import { createJobFolders } from '../../src/files/job-folders.ts';
import { spec, tpu } from '../core/world.ts';
import { aMember } from '../support/builders.ts';
import { openWorld } from '../support/world.ts';
import { clientParts } from '../support/client-parts.ts';
import { createConfirmed } from '../support/create-confirmed.ts';

test('a resume runs the copy of create, unless it is copied again', async (t) => {
  const world = openWorld(t);
  const project = join(world.folder, 'project');
  mkdirSync(project);
  writeFileSync(join(project, 'train.py'), 'one');
  const store = openStore({ file: join(world.home, 'state.db') });
  world.atEnd(() => store.close());
  const parts = clientParts(world.home, store, {
    now: () => Date.now(),
    jobFolders: async () =>
      createJobFolders({
        home: world.home,
        freeze: (from, to) => freeze({ from, to, excluded: world.home, env: world.env, at: Date.now() }),
      }),
  });
  const client = clientFor(async () => aMember('ada'), parts);
  const given = {
    ...spec({ capacity: tpu }),
    steps: [workdirStep()],
    workdir: { from: project },
  };
  const { id } = await createConfirmed(client, { spec: given, manifest: 'job: {workdir: project}\n' });
  const [first] = (await client.show(id)).workdirCopies;
  assert.equal(first?.files, 1);
  const fileOf = (copy: number) => join((first?.folder.path ?? '').replace(/1$/u, String(copy)), 'files/train.py');
  assert.equal(readFileSync(fileOf(1), 'utf8'), 'one');

  writeFileSync(join(project, 'train.py'), 'two');
  assert.equal((await client.sendCommand(id, 'resume', { recopyWorkdir: true })).ok, false, 'it is wanted already');
  assert.equal(existsSync(fileOf(2)), false);
  await client.sendCommand(id, 'cancel', {});
  assert.equal((await client.sendCommand(id, 'resume', {})).ok, true);
  assert.equal((await client.show(id)).workdirCopies.length, 1);
  assert.equal(readFileSync(fileOf(1), 'utf8'), 'one');

  await client.sendCommand(id, 'cancel', {});
  assert.equal((await client.sendCommand(id, 'resume', { recopyWorkdir: true })).ok, true);
  const shown = await client.show(id);
  assert.deepEqual(
    shown.workdirCopies.map(({ copy }) => copy),
    [1, 2],
    'the first copy is still described',
  );
  assert.equal(readFileSync(fileOf(2), 'utf8'), 'two');
  assert.equal(existsSync(fileOf(1)), false, 'its files are not needed any more');

  const bare = await createConfirmed(client, { spec: spec({ capacity: tpu }), manifest: '' });
  await client.sendCommand(bare.id, 'cancel', {});
  await assert.rejects(client.sendCommand(bare.id, 'resume', { recopyWorkdir: true }), (error) => {
    return error instanceof JobmanError && /no job\.workdir/u.test(error.message);
  });
});
