/** A job's copies of its working directory, through the Client: made at create, and again at a resume. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { clientFor } from '../../src/app/store-client.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { freeze } from '../../src/remote/workdir/freeze.ts';
import { workdirStep } from '../../src/setup/files.ts';
import { openStore } from '../../src/store/store.ts';
import { createBlobs } from '../../src/files/blobs.ts';
import { createJobFiles } from '../../src/files/job-files.ts';
import { encodeTree, readTree, type TreeFile } from '../../src/app/tree.ts';
import { upload } from '../../src/app/upload.ts';
import { readByPath } from '../../src/app/workdir.ts';
import { overJson } from '../contract/over-json.ts';
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
  const client = overJson(
    clientFor(async () => aMember('ada'), clientParts(world.home, store, { now: () => Date.now() })),
  );
  const files = createJobFiles(world.home);
  const take = () =>
    freeze({
      from: project,
      client,
      indexes: null,
      maxBytes: 1_000_000,
      excluded: world.home,
      env: world.env,
      at: Date.now(),
    });
  const given = { ...spec({ capacity: tpu }), steps: [workdirStep()], workdir: { tree: null } };
  const manifest = 'job: {workdir: project}\n';
  await assert.rejects(client.create({ spec: given, manifest }), /the files of job\.workdir were not sent/);
  const { id } = await createConfirmed(client, { spec: given, manifest, workdir: await take() });
  const contentOf = async (copy: number): Promise<string | null> => {
    const job = (await store.load(id))?.job ?? assert.fail(id);
    const opened = await files.workdirs.open(job, copy);
    const read = opened === null ? undefined : await readByPath(opened, 'train.py');
    return read === undefined ? null : Buffer.from(read).toString();
  };
  const shown = await client.show(id);
  assert.equal(shown.workdirCopies[0]?.files, 1);
  assert.ok(!JSON.stringify(shown.spec).includes(project));
  assert.equal(await contentOf(1), 'one');

  writeFileSync(join(project, 'train.py'), 'two');
  const second = await take();
  assert.equal((await client.sendCommand(id, 'resume', { workdir: second })).ok, false, 'it is wanted already');
  assert.equal(await contentOf(2), null);
  await client.sendCommand(id, 'cancel', {});
  assert.equal((await client.sendCommand(id, 'resume', {})).ok, true);
  assert.equal((await client.show(id)).workdirCopies.length, 1);
  assert.equal(await contentOf(1), 'one');

  await client.sendCommand(id, 'cancel', {});
  const absent = `sha256:${'0'.repeat(64)}` as const;
  const [entry] = await readTree(createBlobs(world.home), second.tree);
  const [incomplete = absent] = await upload(client, [encodeTree([{ ...entry, digest: absent } as TreeFile])]);
  for (const [tree, message] of [
    [absent, / was not sent by this user\.$/],
    [incomplete, /The content of train\.py in the working directory \(sha256:0+\) was not sent/],
  ] as const)
    await assert.rejects(client.sendCommand(id, 'resume', { workdir: { ...second, tree } }), message);
  assert.equal((await client.sendCommand(id, 'resume', { workdir: second })).ok, true);
  assert.deepEqual(
    (await client.show(id)).workdirCopies.map(({ copy }) => copy),
    [1, 2],
    'the first copy is still described',
  );
  assert.deepEqual([await contentOf(1), await contentOf(2)], [null, 'two']);

  const bare = await createConfirmed(client, { spec: spec({ capacity: tpu }), manifest: '' });
  await client.sendCommand(bare.id, 'cancel', {});
  await assert.rejects(client.sendCommand(bare.id, 'resume', { workdir: second }), (error) => {
    return error instanceof JobmanError && /no job\.workdir/u.test(error.message);
  });
});
