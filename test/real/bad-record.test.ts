/** The record of jobs is damaged, or of another version, or wanted by two at once: said through the command line. */
import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman } from '../support/jobman.ts';
import type { World } from '../support/world.ts';
import { create, jobFolder, localManifest, logOf, openJobWorld, runningIn, settled, well } from '../support/jobs.ts';

/** Writes noise over the first pages, as a disk that lies would. */
function damage(world: World): Buffer {
  const file = join(world.home, 'state.db');
  const handle = openSync(file, 'r+');
  writeSync(handle, Buffer.alloc(8_192, 'noise '), 0, 8_192, 0);
  closeSync(handle);
  return readFileSync(file);
}

/** Does what a line of the complaint says, word for word, as a tired user would. */
function doAsTold(world: World, complaint: string, heading: RegExp): void {
  const line = complaint.split('\n').find((one) => heading.test(one));
  assert.ok(line, complaint);
  const told = spawnSync('/bin/sh', ['-c', line.replace(heading, '')], { env: world.env, encoding: 'utf8' });
  assert.equal(told.status, 0, told.stderr);
}

test('a damaged record is said to be, kept as it is, and the named way back to its copy works', async (t) => {
  const world = openJobWorld(t);
  const first = await create(world, localManifest(world, 'echo first life'));
  await settled(world, first);
  assert.ok(await eventually(() => existsSync(join(world.home, 'state.db.bak'))), 'the controller keeps a copy');
  await well(world, ['controller', 'stop']);
  const damaged = damage(world);

  for (const words of [['list'], ['show', first], ['create', localManifest(world, 'true')], ['controller', 'start']]) {
    const { code, stdout, stderr } = await jobman(world, words);
    assert.equal(code, 5, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, /^jobman: The record of jobs \S+state\.db is damaged \(.+\)\. It was left as it is\.\n/);
    assert.match(stderr, /\n {2}First: jobman controller stop\n/);
    assert.match(stderr, /\n {2}Each job's manifest, its life so far and its logs are in \S+jobs/);
    assert.doesNotMatch(stderr, /\bgc\b/, 'only commands are named that there are');
    assert.deepEqual(readFileSync(join(world.home, 'state.db')), damaged);
  }
  assert.deepEqual(runningIn(world, 'controller run'), [], 'nobody is left to work on a damaged record');

  const { stderr } = await jobman(world, ['list']);
  doAsTold(world, stderr, /^ {2}To go back to the copy of \S+: /);
  assert.deepEqual(readFileSync(join(world.home, 'damaged', 'state.db')), damaged);

  // The copy was made when the job was new: it is there again, and what it did before is not done a second time.
  assert.match((await well(world, ['list', '--all'])).stdout, /000001/);
  const second = await create(world, localManifest(world, 'echo second life'));
  await settled(world, second);
  assert.equal(logOf(world, second).toString(), 'second life\n');
  assert.equal(logOf(world, first).toString(), 'first life\n');
});

test('a new record beside the files of the old one gives no job the number of one that had it', async (t) => {
  const world = openJobWorld(t);
  const first = await create(world, localManifest(world, 'echo first life'));
  await settled(world, first);
  await well(world, ['controller', 'stop']);
  damage(world);

  rmSync(join(world.home, 'state.db.bak'), { force: true });
  doAsTold(world, (await jobman(world, ['list'])).stderr, /^ {2}To begin a new record: /);
  assert.match((await well(world, ['list'])).stderr, /No jobs yet/);

  const second = await create(world, localManifest(world, 'echo second life'));
  assert.notEqual(second, first);
  await settled(world, second);
  assert.equal(logOf(world, second).toString(), 'second life\n');
  assert.equal(readFileSync(jobFolder(world, first, 'logs', 'command_worker_0.log'), 'utf8'), 'first life\n');
});

test('a record of a newer version is refused in a sentence, and not touched', async (t) => {
  const world = openJobWorld(t);
  await settled(world, await create(world, localManifest(world, 'true')));
  await well(world, ['controller', 'stop']);
  const database = new DatabaseSync(join(world.home, 'state.db'));
  database.exec(`insert into migration (name, timestamp) values ('0099_from_the_future', '2030-01-01')`);
  database.close();
  const before = readFileSync(join(world.home, 'state.db'));

  for (const words of [
    ['list'],
    ['why', '1'],
    ['create', localManifest(world, 'true'), '--follow'],
    ['stop', '1'],
    ['controller', 'start'],
    ['controller', 'run'],
  ]) {
    const { code, stdout, stderr } = await jobman(world, words);
    assert.equal(code, 5, stderr);
    assert.equal(stdout, '');
    assert.match(
      stderr,
      /^jobman: The record of jobs \S+ was written by a newer jobman: .* version 99, .* Upgrade jobman\.$/m,
    );
  }
  assert.deepEqual(runningIn(world, 'controller run'), []);
  assert.deepEqual(readFileSync(join(world.home, 'state.db')), before);
  // What asks nothing of the record goes on.
  await well(world, ['validate', localManifest(world, 'true')]);
  await well(world, ['create', localManifest(world, 'true'), '--dry-run']);
});

test('two of one name made at once are two jobs, and the name alone is then asked about', async (t) => {
  const world = openJobWorld(t);
  const manifest = localManifest(world, 'echo $JOBMAN_JOB_ID', { name: 'twin' });
  const ids = await Promise.all([create(world, manifest), create(world, manifest)]);
  assert.deepEqual(ids.toSorted(), ['000001', '000002']);
  // Each may have started one; the second finds the lock taken and leaves.
  const isOne = () => runningIn(world, 'controller run').length === 1;
  assert.ok(await eventually(isOne, { withinMs: 30_000 }), 'one controller for both');
  for (const id of ids) {
    await settled(world, id);
    assert.equal(logOf(world, id).toString(), `${id}\n`);
  }
  for (const word of ['show', 'logs', 'rerun', 'why']) {
    const { code, stdout, stderr } = await jobman(world, [word, 'twin']);
    assert.equal(code, 4);
    assert.equal(stdout, '');
    assert.match(stderr, /^jobman: The name "twin" stands for 2 jobs: 000002, 000001\. Say which one by its id\.\n/);
    assert.match(stderr, /\n {2}000002 {2}\S+, created \d+s ago\n/);
  }
});
