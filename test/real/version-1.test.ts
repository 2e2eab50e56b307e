/** Jobs of version 1 of the spec continue under this version: a running, two waiting and a stopped one. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jsonLines, openJobWorld, type JobWorld } from '../support/jobs.ts';
import { root } from '../support/root.ts';

/**
 * The home of the last program with version 1 of the spec (7e5140d9) after its controller was stopped, without keys,
 * and with names for the folder, the user and the boot of that machine. Job 1 was resumed with a second copy of its
 * working directory and stopped; job 2 runs; job 3 waits for its slot; job 4 found no TPU.
 */
const fixture = join(root, 'test/fixtures/version-1.jsonl');

type FixtureLine =
  | { readonly statement: string }
  | { readonly table: string; readonly row: Readonly<Record<string, string | number | null>> }
  | { readonly file: string; readonly text: string };

function restore({ folder, home }: JobWorld): void {
  const text = readFileSync(fixture, 'utf8')
    .replaceAll('@FOLDER@', folder)
    .replaceAll('@USER@', userInfo().username)
    .replaceAll('@BOOT@', readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
  mkdirSync(home, { mode: 0o700 });
  const db = new DatabaseSync(join(home, 'state.db'));
  db.exec('pragma journal_mode = wal');
  for (const line of jsonLines<FixtureLine>(text)) {
    if ('statement' in line) db.exec(line.statement);
    else if ('row' in line) {
      const names = Object.keys(line.row);
      const insert = `insert into ${line.table} (${names.join()}) values (${names.map(() => '?').join()})`;
      db.prepare(insert).run(...Object.values(line.row));
    } else {
      const path = join(folder, line.file);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      writeFileSync(path, line.text, { mode: 0o600 });
    }
  }
  db.close();
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'deploy-key')]);
}

/** The program of job 2, from the files that version 1 wrote for it. */
function startProgramOfJob2({ home, env }: JobWorld): void {
  const cwd = join(home, 'runs/000002/0');
  const launch = join(cwd, 'start_attempt_1.first/launch');
  const marked = { ...env, JOBMAN_RUN: 'pjz61u/000002/1/0' };
  spawn('sh', [launch, 'attempt_1'], { cwd, env: marked, detached: true, stdio: 'ignore' }).unref();
}

test('a running, two waiting and a stopped job of version 1 continue', async (t) => {
  const world = openJobWorld(t);
  restore(world);
  world.atEnd(() => writeFileSync(join(world.folder, 'finish'), ''));
  startProgramOfJob2(world);
  await world.output('controller', 'start');

  const log = async (id: string): Promise<string> => world.output('logs', id, '--worker', '0');
  await world.waitForFinish('4');
  const secrets = 'token-of-the-shell key-in-a-file\n';
  assert.equal(await log('4'), `print('the working directory')\nlr: 0.2\n${secrets}ssh-ed25519\n`);
  assert.equal((await world.waitForPhase('2', 'running')).attempts.length, 1);
  assert.equal((await world.show('3')).phase, 'queued');
  assert.match(await world.output('why', '3'), /1 of 1 slot on this machine in use/);
  assert.match(await world.output('show', '1'), new RegExp(`workdir +${world.folder}/project, 2 files, copy 2\n`));
  for (const command of ['history 1', 'replay 1', 'replay 2 --decide', 'diff 1 2', 'report 1 -o -', 'list --json'])
    await world.output(...command.split(' '));

  writeFileSync(join(world.folder, 'project/settings.yaml'), 'lr: 0.3\n');
  await world.output('resume', '1');
  writeFileSync(join(world.folder, 'finish'), '');
  for (const id of ['1', '2', '3']) assert.equal((await world.waitForFinish(id)).phase, 'succeeded');
  assert.equal(await log('1'), `attempt 3\nlr: 0.2\n${secrets}saved by 2\n`);
  assert.equal(await log('2'), `attempt 1\nlr: 0.2\n${secrets}`);
  assert.equal(await log('3'), `attempt 1\nlr: 0.2\n${secrets}`);

  await world.output('resume', '1', '--workdir');
  await world.waitForFinish('1');
  assert.equal(await log('1'), `attempt 4\nlr: 0.3\n${secrets}saved by 3\n`);
  await world.output('rerun', '3');
  await world.waitForFinish('3');
  assert.equal(await log('3'), `attempt 2\nlr: 0.2\n${secrets}`);
  // The TPU is released after the end of its job.
  assert.ok(await eventually(async () => (await world.show('4')).allocations.every(({ state }) => state === 'gone')));
  await world.output('clean', '1', '2', '3', '4');
  assert.deepEqual(readdirSync(join(world.home, 'jobs', userInfo().username)), []);
});
