// The whole program with a database on a server. Its password is nowhere else than in the environment.

import assert from 'node:assert/strict';
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { withoutDatabasePassword } from '../../src/app/database-url.ts';
import { findFaketime } from '../../tools/chaos/clock.ts';
import { eventually } from '../support/eventually.ts';
import { openJobWorld } from '../support/jobs.ts';
import { filesIn } from '../support/leaks.ts';
import { requirePostgres } from '../support/postgres.ts';
import { requireReal } from '../support/real.ts';

const password = 'secret';

test('jobs run with their database on a server, through a killed controller, and no file has its password', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const name = await server.createDatabase();
  await server.query(`alter database ${name} owner to locked`);
  const url = server.urlOf(name, 'locked');
  assert.ok(url.includes(`:${password}@`));
  const world = openJobWorld(t, { env: { JOBMAN_DATABASE: url } });

  const program = 'echo "database $JOBMAN_DATABASE"; while [ ! -e done ]; do sleep 0.1; done';
  const id = await world.create(world.localManifest(program, { name: 'held' }));
  await world.waitForPhase(id, 'running');
  const [controller] = world.processesMatching('controller run');
  assert.ok(controller);
  assert.doesNotMatch(readFileSync(`/proc/${controller.pid}/cmdline`, 'utf8'), new RegExp(password));
  process.kill(controller.pid, 'SIGKILL');
  // The next command starts another controller, which takes the lease at once.
  const next = await world.create(world.localManifest('true', { name: 'next' }));
  writeFileSync(join(world.folder, 'done'), '');
  await world.waitForFinish(next);
  const [lease] = await server.query('select epoch from lease', name);
  assert.equal(lease?.['epoch'], 2);
  await world.waitForFinish(id);

  // A create that ends before it can start a controller, as after a Ctrl-C, leaves this to the next reading command.
  await world.runOk(['controller', 'stop']);
  const log = join(world.home, 'controller.log');
  renameSync(log, `${log}.old`);
  mkdirSync(log);
  const [late = ''] = (await world.jobman(['create', world.localManifest('true'), '--quiet'])).stdout.split('\n');
  rmdirSync(log);
  assert.match((await world.runOk(['list'])).stderr, /Started the controller/);
  await world.waitForFinish(late);
  // A controller that its owner stopped is not restarted.
  await world.runOk(['controller', 'stop']);
  assert.doesNotMatch((await world.runOk(['list'])).stderr, /Started/);

  const rows = await world.jsonRows<{ id: string; phase: string }>('list', '--json');
  assert.deepEqual(
    rows.map((row) => `${row.id} ${row.phase}`).toSorted(),
    [id, next, late].map((one) => `${one} succeeded`),
  );
  assert.equal(
    await world.output('logs', id),
    `[0] database ${withoutDatabasePassword({ JOBMAN_DATABASE: url })['JOBMAN_DATABASE']}\n`,
  );
  const checked = await world.jobman(['doctor']);
  assert.match(checked.stdout, /^ok +database +postgres:\/\/locked@\S+ can be read/m);
  const printed = [checked, await world.jobman(['settings']), await world.jobman(['why', id])];
  // A setting is called `secrets_key`.
  for (const { stdout, stderr } of printed) assert.doesNotMatch(`${stdout}${stderr}`, new RegExp(`\\b${password}\\b`));
  assert.equal(existsSync(join(world.home, 'state.db')), false);

  // A shell without the variable: the controller works for another database, and does not hang.
  await world.runOk(['controller', 'start']);
  const without = (argv: readonly string[]) => world.jobman(argv, { env: { JOBMAN_DATABASE: '' } });
  const works = /works for the database postgres:\/\/locked@\S+, which is not the one of this command/;
  assert.match((await without(['run', '--detach', '--', 'true'])).stderr, works);
  for (const argv of [['list'], ['doctor'], ['controller', 'status'], ['controller', 'start']]) {
    const { stdout, stderr } = await without(argv);
    assert.match(`${stdout}${stderr}`, works, argv.join(' '));
    assert.doesNotMatch(stdout, /hangs|kill -KILL/);
  }
  assert.equal((await without(['controller', 'restart'])).code, 0);
  assert.match(await world.output('controller', 'status'), /It works for the database state\.db, which/);
  await world.runOk(['controller', 'stop']);
  rmSync(join(world.home, 'state.db'));
  for (const file of filesIn(world.home)) {
    const path = join(world.home, file);
    if (lstatSync(path).isFile()) assert.ok(!readFileSync(path, 'utf8').includes(`:${password}@`), path);
  }
});

test('controllers of two homes work for one database in turn, also with different clocks, and a stopped one does nothing after it continues', async (t) => {
  const server = await requirePostgres(t);
  const library = findFaketime();
  if (server === undefined || !requireReal(t, 'libfaketime', library) || library === undefined) return;
  const env = { JOBMAN_DATABASE: server.urlOf(await server.createDatabase()) };
  // Five minutes ahead, so that a lease whose expiry is compared with it is always over.
  const ahead = { ...env, LD_PRELOAD: library, FAKETIME: '+5m', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
  const [one, other] = [openJobWorld(t, { env }), openJobWorld(t, { env: ahead })];
  const ran = join(one.folder, 'ran');
  const manifest = one.localManifest(`echo "$JOBMAN_JOB_ID" >> ${ran}`);
  const logOf = ({ home }: typeof one) => readFileSync(join(home, 'controller.log'), 'utf8');
  const first = await one.create(manifest);
  await one.waitForFinish(first);
  const release = join(one.folder, 'release');
  const waits = `while [ ! -e ${release} ]; do sleep 0.1; done`;
  const held = await one.create(one.localManifest(waits, { recovery: 'loop: failures' }));
  await one.waitForPhase(held, 'running');
  // The controller of the other home does not run and need not: no command asks for it.
  for (const argv of [['list'], ['why', held], ['controller', 'status']]) {
    const { stdout, stderr } = await other.jobman(argv);
    assert.doesNotMatch(`${stdout}${stderr}`, /No controller runs|the next command that needs it starts it/);
  }
  await other.runOk(['controller', 'start']);
  const [stopped] = one.processesMatching('controller run');
  assert.ok(stopped);
  assert.ok(await eventually(() => logOf(other).includes('holds the lease; waiting'), { withinMs: 30_000 }));
  process.kill(stopped.pid, 'SIGSTOP');
  const second = await other.create(manifest);
  await other.waitForFinish(second);
  // The program of the first home is unknown here, and not lost, until a controller there works again.
  const elsewhere = `its program runs in ${one.home} on this machine, whose controller does not run the jobs now`;
  assert.ok((await other.output('why', held)).includes(`was running when last checked: ${elsewhere}`));
  const fourth = await other.create(manifest);
  writeFileSync(release, '');
  await other.waitForFinish(fourth);
  assert.equal((await other.show(held)).phase, 'running');
  process.kill(stopped.pid, 'SIGCONT');
  assert.ok(await eventually(() => /lease_lost[^]*holds the lease; waiting/.test(logOf(one)), { withinMs: 30_000 }));
  assert.equal(logOf(other).match(/holds the lease; waiting/g)?.length, 1);

  // A request to stop is for the controller of this home; the other one works again.
  await other.runOk(['controller', 'stop']);
  const third = await one.create(manifest);
  await one.waitForFinish(third);
  assert.equal(one.processesMatching('controller run')[0]?.pid, stopped.pid);
  assert.deepEqual(readFileSync(ran, 'utf8').trim().split('\n'), [first, second, fourth, third]);
  const { attempts } = await one.waitForFinish(held);
  assert.equal(attempts.length, 1);
});
