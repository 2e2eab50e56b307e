// Faults of PostgreSQL below running servers: commands wait and say why, the log has the reason, nothing is lost or done
// twice, and no server needs a restart.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import pg from 'pg';
import { eventually } from '../support/eventually.ts';
import type { RunningCommand } from '../support/jobman.ts';
import { openJobWorld } from '../support/jobs.ts';
import { freePort } from '../support/ports.ts';
import { openPostgresProxy, remoteEnv, serverOf } from '../support/postgres-servers.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';

const hidden = /^503 The database of the server cannot be used\. The log of the server has the reason\.$/;
const notInTime = /^503 The database has not answered for 3 s\.$/;

const socketOf = (url: string): string => join(new URL(url).searchParams.get('host') ?? '', '.s.PGSQL.5432');

/** A server that runs, with commands that use it. */
async function setUp(t: TestContext, postgres: PostgresServer) {
  const database = await postgres.createDatabase();
  const url = postgres.urlOf(database);
  const world = openJobWorld(t, { env: { JOBMAN_DATABASE: url } });
  world.atEnd(() => postgres.stop());
  const proxy = await openPostgresProxy(world, 'socket', socketOf(url));
  const token = (await world.output('token', 'create')).trim();
  const port = await freePort();
  const server = serverOf(world, { name: 'the server', home: world.home, port, database, proxy });
  await server.start();
  const env = remoteEnv(server, token);
  const start = (...argv: readonly string[]) => world.start(argv, { env });
  /** The answer of the probe, and its status. */
  async function probe(): Promise<string> {
    const answer = await fetch(`${server.url}/readyz`);
    const text = await answer.text();
    if (answer.ok) return text;
    assert.equal(answer.headers.get('content-type'), 'application/problem+json');
    assert.match(answer.headers.get('retry-after') ?? '', /^[12]$/);
    return `${answer.status} ${(JSON.parse(text) as { readonly detail: string }).detail}`;
  }
  return { world, database, proxy, server, env, start, probe };
}

async function succeeds(...commands: readonly RunningCommand[]): Promise<readonly string[]> {
  const results = await Promise.all(commands.map(({ result }) => result));
  for (const { code, stderr } of results) assert.equal(code, 0, stderr);
  return results.map(({ stdout }) => stdout.trim());
}

test('a server waits for a database that restarts, stalls, is read-only or has no connection left, and loses nothing', async (t) => {
  const postgres = await startPostgres(t, { settings: { max_connections: '20' } });
  if (postgres === undefined) return;
  const { world, database, proxy, server, start, probe } = await setUp(t, postgres);
  const ran = join(world.folder, 'ran');
  const done = join(world.folder, 'done');
  const lines = `i=0; while [ ! -e ${done} ]; do i=$((i+1)); echo "line $i"; sleep 0.1; done; echo "end $i"`;
  const [held = ''] = await succeeds(start('create', world.localManifest(lines, { name: 'held' }), '--quiet', '--yes'));
  const directly = { env: { JOBMAN_DATABASE: `postgres://postgres@localhost/${database}?host=${proxy.folder}` } };
  const commands = [
    ['logs', '-f', held],
    ['wait', held],
    ['list', '--watch', '--json'],
  ] as const;
  /** Through the server, and then directly on the database. */
  const followers = [...commands.map((argv) => start(...argv)), ...commands.map((argv) => world.start(argv, directly))];
  const [followed, , watching, followedDirectly, , watchingDirectly] = followers;
  const quick = world.localManifest(`echo "$JOBMAN_JOB_ID" >>${ran}`, { job: { name: 'quick' } });
  const created: string[] = [];
  for (const one of [followed, followedDirectly]) await one?.waitForOutput('line 3');

  const log = () => readFileSync(join(server.home, 'server.log'), 'utf8');
  /** Commands that start during the fault wait for its end, and then succeed. Only the log of the server has the reason. */
  async function during(fault: () => Promise<unknown>, end: () => Promise<unknown>, reason?: RegExp): Promise<void> {
    const before = log().length;
    const refusal = reason === undefined ? notInTime : hidden;
    await fault();
    const [create, list] = [start('create', quick, '--yes'), start('list')];
    assert.ok(await eventually(async () => refusal.test(await probe()), { withinMs: 10_000 }), await probe());
    // A server that is cut off may wait for its database for 30 s before it answers.
    await create.waitForOutput(/Waiting for the server: The (?:database|server) /);
    if (reason !== undefined)
      assert.ok(await eventually(() => reason.test(log().slice(before)), { withinMs: 20_000 }), log().slice(before));
    await end();
    const [text = ''] = await succeeds(create, list);
    created.push(/job (\d+)/.exec(text)?.[1] ?? assert.fail(text));
    assert.ok(await eventually(async () => (await probe()) === 'ok\n'));
  }

  for (const mode of ['fast', undefined] as const)
    await during(
      () => postgres.stop(mode),
      () => postgres.start(),
      /The database .* cannot be reached: /,
    );
  for (const one of followers.slice(3, 5))
    await one.waitForOutput('Waiting for the database: The database postgres://');

  await during(
    async () => proxy.cut(true),
    async () => {
      proxy.cut(false);
      // All connections that were tried meanwhile would open at once, and leave none for the next fault.
      proxy.drop();
    },
  );

  // The connections of the server stay open, so that only it can notice the end.
  const setReadOnly = async (value: string) => {
    const statement = `begin; set transaction read write; alter database ${database} set default_transaction_read_only = ${value}; commit`;
    // The connections that ended just before may still count.
    const isSet = async () => {
      try {
        await postgres.query(statement);
        return true;
      } catch (error) {
        if (!/too many clients/.test(String(error))) throw error;
        return false;
      }
    };
    assert.ok(await eventually(isSet));
  };
  await during(
    async () => {
      await setReadOnly('on');
      proxy.drop();
    },
    () => setReadOnly('off'),
    /The database .* cannot be written: .* read-only transaction\./,
  );

  const clients: pg.Client[] = [];
  await during(
    async () => {
      const open = async () => {
        const client = new pg.Client({ connectionString: postgres.urlOf(database) });
        client.on('error', () => undefined);
        await client.connect();
        clients.push(client);
      };
      // A server that connects between two steps keeps its connection, and works.
      const others = async (): Promise<number> => {
        const own = clients.map((client) => (client as unknown as { readonly processID: number }).processID);
        const found = await clients[0]?.query(
          `select 1 from pg_stat_activity where backend_type = 'client backend' and pid <> all($1)`,
          [own],
        );
        return found?.rows.length ?? assert.fail();
      };
      for (;;) {
        proxy.drop();
        try {
          await open();
        } catch (error) {
          if (!/too many clients/.test(String(error))) throw error;
          if ((await others()) === 0) break;
        }
      }
    },
    async () => void (await Promise.all(clients.map((client) => client.end()))),
    /The database .* has too many connections: /,
  );

  const { pid } = server.child ?? {};
  const watches = [watching, watchingDirectly];
  await succeeds(start('run', '--yes', '--', 'touch', done), ...followers.filter((one) => !watches.includes(one)));
  for (const watch of watches) {
    watch?.child.kill('SIGINT');
    assert.equal((await watch?.result)?.code, 130);
  }
  for (const follower of [followed, followedDirectly]) {
    const log = follower?.stdout.trim().split('\n') ?? [];
    const expected = log.slice(0, -1).map((_, index) => `[0] line ${index + 1}`);
    assert.deepEqual(log, [...expected, `[0] end ${expected.length}`]);
  }
  for (const id of created) await succeeds(start('wait', id));
  assert.deepEqual(readFileSync(ran, 'utf8').trim().split('\n').toSorted(), created.toSorted());
  assert.equal((await world.show(held)).attempts.length, 1);
  assert.ok(pid !== undefined && readFileSync(`/proc/${pid}/status`, 'utf8').includes('Name:'));

  // A service manager waits 30 s for the end of a server, whatever its database does.
  proxy.cut(true);
  server.child?.kill('SIGTERM');
  assert.ok(await eventually(async () => server.child?.exitCode === 0, { withinMs: 30_000 }));
  assert.doesNotMatch(log(), /incident|bug/);
});

test('a server continues with the standby that took over, and loses nothing', async (t) => {
  const primary = await startPostgres(t, {});
  if (primary === undefined) return;
  const { world, database, proxy, server, start, probe } = await setUp(t, primary);
  const standby = await startPostgres(t, { standbyOf: primary });
  assert.ok(standby !== undefined);
  world.atEnd(() => standby.stop());
  // Each commit waits for the standby.
  await primary.query(`alter system set synchronous_standby_names = '*'`);
  await primary.query('select pg_reload_conf()');
  const isSynchronous = async () =>
    (await primary.query(`select 1 from pg_stat_replication where sync_state = 'sync'`)).length === 1;
  assert.ok(await eventually(isSynchronous));
  const done = join(world.folder, 'done');
  const manifest = world.localManifest(`until [ -e ${done} ]; do echo tick; sleep 0.1; done`, {
    recovery: 'loop: failures',
  });
  const [held = ''] = await succeeds(start('create', manifest, '--quiet', '--yes'));
  const wait = start('wait', held);
  await wait.waitForOutput('running');

  proxy.lead(socketOf(standby.urlOf(database)));
  await primary.stop();
  assert.ok(await eventually(async () => hidden.test(await probe())));
  const create = start('create', world.localManifest('true'), '--yes');
  await create.waitForOutput('Waiting for the server: The database');
  const [list = ''] = await succeeds(start('list'));
  assert.match(list, new RegExp(held));
  await standby.query('select pg_promote()');
  await succeeds(create, start('run', '--yes', '--', 'touch', done), wait);
  const [next = ''] = await succeeds(start('create', world.localManifest('true'), '--quiet', '--yes'));
  // The standby might not have known the newest jobs, so their ids were skipped, once.
  assert.equal(Number(next), Number(held) + 1_003);
  assert.equal(await probe(), 'ok\n');
  const { stdout } = await world.runOk(['show', held, '--json'], {
    env: { JOBMAN_DATABASE: `postgres://postgres@localhost/${database}?host=${proxy.folder}` },
  });
  assert.equal((JSON.parse(stdout) as { readonly attempts: readonly unknown[] }).attempts.length, 1);
  assert.doesNotMatch(readFileSync(join(server.home, 'server.log'), 'utf8'), /incident|bug/);
});
