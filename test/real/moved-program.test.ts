/** Jobs outlive the folder of the program that created them, as after an upgrade that installs into another folder. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { copySources } from '../support/copy.ts';
import { openJobWorld } from '../support/jobs.ts';
import { root } from '../support/root.ts';

test('after a move of the program its jobs continue and resume', async (t) => {
  const world = openJobWorld(t);
  const [first, second] = [join(world.folder, 'first'), join(world.folder, 'second')];
  copySources(first);
  symlinkSync(join(root, 'node_modules'), join(first, 'node_modules'));
  const project = join(world.folder, 'project');
  mkdirSync(project);
  writeFileSync(join(project, 'data'), 'of the copy\n');
  const finish = join(world.folder, 'finish');
  world.atEnd(() => writeFileSync(finish, ''));
  const run = `echo "attempt $JOBMAN_ATTEMPT $TOKEN"; cat data; jobman mark step=1; until [ -e ${finish} ]; do sleep 0.1; done`;
  const job = { workdir: 'project', checkpoint_dir: 'kept', secrets: { TOKEN: 'env:MY_TOKEN' } };
  const manifest = world.localManifest(run, { job });
  const runFrom = (folder: string, ...argv: readonly string[]): string =>
    execFileSync(join(folder, 'bin/jobman'), argv, {
      cwd: world.folder,
      env: { ...world.env, MY_TOKEN: 'token' },
      encoding: 'utf8',
    });

  const create = async (id: string): Promise<void> => {
    runFrom(first, 'create', manifest, '--quiet');
    await world.waitForPhase(id, 'running');
  };
  await create('1');
  runFrom(first, 'stop', '1');
  await world.waitForPhase('1', 'stopped');
  await create('2');
  runFrom(first, 'controller', 'stop');
  renameSync(first, second);
  writeFileSync(join(project, 'data'), 'changed\n');

  runFrom(second, 'resume', '1');
  writeFileSync(finish, '');
  for (const id of ['1', '2']) runFrom(second, 'wait', id);
  assert.equal(runFrom(second, 'logs', '1', '--worker', '0'), 'attempt 2 token\nof the copy\n');
  assert.equal(runFrom(second, 'logs', '2', '--worker', '0'), 'attempt 1 token\nof the copy\n');
  const program = readFileSync(join(world.home, 'program'), 'utf8');
  assert.ok(program.includes(`${second}/`) && !program.includes(`${first}/`), program);
});
