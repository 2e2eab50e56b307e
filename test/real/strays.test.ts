/** What a forced delete leaves in a cloud is listed by gc, let go of, and forgotten once a look has seen it gone. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

const manifest = `job:
  name: left
tpu:
  project: emulator
  accelerator: v4-8
  zone: us-central2-b
command:
  run: sleep 1000
`;

test('gc shows the TPU of a job that was deleted by force, and lets go of it', async (t) => {
  const world = openWorld(t, { patienceMs: 20_000 });
  world.atEnd(() => jobman(world, ['emulator', 'stop']).then(() => undefined));
  world.atEnd(() => jobman(world, ['controller', 'stop']).then(() => undefined));
  const say = async (...words: readonly string[]) => {
    const { code, stdout, stderr } = await jobman(world, words);
    assert.equal(code, 0, stdout + stderr);
    return stdout;
  };
  writeFileSync(join(world.folder, 'left.yaml'), manifest);
  await say('create', 'left.yaml');
  const isHeld = async () => (await say('emulator', 'status')).includes('READY');
  assert.ok(await eventually(isHeld, { withinMs: 30_000 }), 'there is no TPU');

  assert.match(await say('delete', 'left', '--force', '--yes'), /left-000001-1\); to let it go: jobman gc$/m);
  assert.match(await say('gc'), /^000001 +(READY|ACTIVE) +left-000001-1 +projects\/emulator\//m);
  assert.ok(await isHeld(), 'looking lets nothing go');
  assert.match(await say('gc', '--yes'), /left-000001-1 is gone\.$/m);
  assert.equal(await isHeld(), false);
  assert.equal(await say('gc'), '');
});
