/** A database that is damaged, of another version, or used by two processes, seen from the command line. */
import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

/** Overwrites the first pages with noise, like a faulty disk. */
function damage(world: JobWorld): Buffer {
  const file = join(world.home, 'state.db');
  const handle = openSync(file, 'r+');
  writeSync(handle, Buffer.alloc(8_192, 'noise '), 0, 8_192, 0);
  closeSync(handle);
  return readFileSync(file);
}

/** Runs the command that a line of the error message contains. */
function runHint(world: JobWorld, complaint: string, heading: RegExp): void {
  const line = complaint.split('\n').find((one) => heading.test(one));
  assert.ok(line, complaint);
  const result = spawnSync('/bin/sh', ['-c', line.replace(heading, '')], { env: world.env, encoding: 'utf8' });
  assert.equal(result.status, 0, result.stderr);
}

test('a damaged database is reported and left unchanged, and the printed command restores its copy', async (t) => {
  const world = openJobWorld(t);
  const first = await world.create(world.localManifest('echo first life'));
  await world.waitForFinish(first);
  assert.ok(await eventually(() => existsSync(join(world.home, 'state.db.bak'))), 'the controller keeps a copy');
  await world.runOk(['controller', 'stop']);
  const damaged = damage(world);

  for (const args of [['list'], ['show', first], ['create', world.localManifest('true')], ['controller', 'start']]) {
    const { code, stdout, stderr } = await world.jobman(args);
    assert.equal(code, 5, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, /^jobman: The database \S+state\.db is damaged \(.+\)\. Nothing was changed\.\n/);
    assert.match(stderr, /\n {2}First: jobman controller stop\n/);
    assert.match(stderr, /\n {2}The files of each job are in \S+jobs/);
    assert.doesNotMatch(stderr, /\bgc\b/, 'the message names existing commands only');
    assert.deepEqual(readFileSync(join(world.home, 'state.db')), damaged);
  }
  assert.deepEqual(world.processesMatching('controller run'), [], 'no controller works on a damaged database');

  const { stderr } = await world.jobman(['list']);
  runHint(world, stderr, /^ {2}To restore the backup of \S+: /);
  assert.deepEqual(readFileSync(join(world.home, 'damaged', 'state.db')), damaged);

  // The copy is as old as the new job, so the job is back, and its earlier actions are not repeated.
  assert.match(await world.output('list', '--all'), /000001/);
  const second = await world.create(world.localManifest('echo second life'));
  await world.waitForFinish(second);
  assert.equal(world.readLog(second).toString(), 'second life\n');
  assert.equal(world.readLog(first).toString(), 'first life\n');
});

test('a new database next to the files of the old one reuses no job number', async (t) => {
  const world = openJobWorld(t);
  const first = await world.create(world.localManifest('echo first life'));
  await world.waitForFinish(first);
  await world.runOk(['controller', 'stop']);
  damage(world);

  rmSync(join(world.home, 'state.db.bak'), { force: true });
  runHint(world, (await world.jobman(['list'])).stderr, /^ {2}To start with an empty database: /);
  assert.match((await world.runOk(['list'])).stderr, /No jobs yet/);

  const second = await world.create(world.localManifest('echo second life'));
  assert.notEqual(second, first);
  await world.waitForFinish(second);
  assert.equal(world.readLog(second).toString(), 'second life\n');
  assert.equal(readFileSync(world.jobFolder(first, 'logs', 'command_worker_0.log'), 'utf8'), 'first life\n');
});

test('a database of a newer version is refused and not changed', async (t) => {
  const world = openJobWorld(t);
  await world.waitForFinish(await world.create(world.localManifest('true')));
  await world.runOk(['controller', 'stop']);
  const database = new DatabaseSync(join(world.home, 'state.db'));
  database.exec(`insert into migration (name, applied_at) values ('0099_from_the_future', '2030-01-01')`);
  database.close();
  const before = readFileSync(join(world.home, 'state.db'));

  for (const args of [
    ['list'],
    ['why', '1'],
    ['create', world.localManifest('true'), '--follow'],
    ['stop', '1'],
    ['controller', 'start'],
    ['controller', 'run'],
  ]) {
    await world.runRefused(
      5,
      /^jobman: The database \S+ was written by a newer jobman: .* version 99, .* Upgrade jobman\.$/m,
      args,
    );
  }
  assert.deepEqual(world.processesMatching('controller run'), []);
  assert.deepEqual(readFileSync(join(world.home, 'state.db')), before);
  // Commands that do not need the database still work.
  await world.runOk(['validate', world.localManifest('true')]);
  await world.runOk(['create', world.localManifest('true'), '--dry-run']);
});

test('two jobs may have one name: reading commands take the newest, and rerun refuses the name', async (t) => {
  const world = openJobWorld(t);
  const manifest = world.localManifest('echo $JOBMAN_JOB_ID', { name: 'twin' });
  const ids = await Promise.all([world.create(manifest), world.create(manifest)]);
  assert.deepEqual(ids.toSorted(), ['000001', '000002']);
  // Both processes may start a controller; the second finds the lock taken and exits.
  const isOne = () => world.processesMatching('controller run').length === 1;
  assert.ok(await eventually(isOne, { withinMs: 30_000 }), 'one controller for both');
  for (const id of ids) {
    await world.waitForFinish(id);
    assert.equal(world.readLog(id).toString(), `${id}\n`);
  }
  for (const verb of ['show', 'why']) assert.match(await world.output(verb, 'twin'), /\b000002\b/);
  const { code, stdout, stderr } = await world.jobman(['rerun', 'twin']);
  assert.equal(code, 4);
  assert.equal(stdout, '');
  assert.match(stderr, /\n {2}000002 {2}.*\n/);
});
