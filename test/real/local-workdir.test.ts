/** job.workdir of a local job: every attempt runs the copy, whatever happens to the folder. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openJobWorld } from '../support/jobs.ts';

const manifest = `job:
  name: copied
  workdir: .
  checkpoint_dir: ../kept
local: {}
command:
  workdir: part
  run: |
    cat data
    echo "$JOBMAN_ATTEMPT" >made-by-attempt
    ls ..
`;

test('a local job runs a copy, and takes a new one on request', async (t) => {
  const world = openJobWorld(t);
  const project = join(world.folder, 'project');
  mkdirSync(join(project, 'part'), { recursive: true });
  mkdirSync(join(project, '__pycache__'));
  writeFileSync(join(project, '__pycache__', 'part.pyc'), '');
  writeFileSync(join(project, 'part', 'data'), 'as it was\n');
  writeFileSync(join(project, 'train.yaml'), manifest);

  const plan = await world.output('create', join(project, 'train.yaml'), '--dry-run');
  assert.match(plan, /a slot on this machine, in a copy of \S+\/project\n/);
  await world.output('create', join(project, 'train.yaml'));
  await world.output('wait', '1');
  assert.equal(await world.output('logs', '1', '--worker', '0'), 'as it was\npart\ntrain.yaml\n');
  assert.deepEqual(readdirSync(join(project, 'part')), ['data'], 'the program writes into the copy');

  writeFileSync(join(project, 'part', 'data'), 'edited\n');
  await world.output('resume', '1');
  await world.output('wait', '1');
  assert.match(await world.output('logs', '1', '--worker', '0'), /^as it was\n/);
  await world.output('resume', '1', '--workdir');
  await world.output('wait', '1');
  assert.match(await world.output('logs', '1', '--worker', '0'), /^edited\n/);
  assert.match(await world.output('show', '1'), /workdir +\S+\/project, 2 files, copy 2\n/);

  await world.output('clean', '1');
  assert.ok(!existsSync(join(world.home, 'runs', '000001')), 'the copy is deleted with the job’s files');
});
