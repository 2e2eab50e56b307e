// A database on a server may refuse a connection, restart, and order texts in another way.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import pg from 'pg';
import { StoreError, type StoreErrorKind } from '../../src/app/errors.ts';
import { readInstallationId } from '../../src/store/database.ts';
import { minute } from '../../src/core/model/time.ts';
import { migrations } from '../../src/store/migrations.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { displayUrl, postgresError } from '../../src/store/postgres-errors.ts';
import { sql } from '../../src/store/sql.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';
import { requirePostgres } from '../support/postgres.ts';

const job = { owner: 'ada', spec: localSpec(), manifest: 'job:\n  name: iris\n', at: noon };

async function fails(operation: Promise<unknown>, kind: StoreErrorKind, message: RegExp): Promise<void> {
  const error = await operation.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof StoreError, `expected a StoreError, but got: ${String(error)}`);
  assert.equal(error.kind, kind, error.message);
  assert.match(error.message, message);
  assert.doesNotMatch(`${error.message} ${error.lines.join()}`, /secret/);
}

test('programs that open an empty database together create its tables once', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const url = server.urlOf(await server.createDatabase());
  const stores = [1, 2, 3, 4].map(() => openStore({ url }));
  t.after(() => Promise.all(stores.map((store) => store.close())));
  assert.deepEqual(await stores[0]?.list({ maxFinished: null }), { jobs: [], more: 0 });
  const inserted = await Promise.all(stores.map((store) => store.insert(job)));
  assert.deepEqual(inserted.map((one) => one.job.id).toSorted(), ['000001', '000002', '000003', '000004']);
  assert.equal(new Set(inserted.map((one) => one.job.installation)).size, 1);
  assert.deepEqual((await stores[0]?.load('000001'))?.job, inserted.find((one) => one.job.id === '000001')?.job);
});

test('a text is in the order of its bytes, and a number is a number', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const database = openDatabase({ url: server.urlOf(await server.createDatabase()) });
  t.after(() => database.close());
  const names = ['b', 'B', 'a', 'Ä', '_'];
  const rows = await database.write(async (db) => {
    for (const name of names) await sql`insert into meta (key, value) values (${name}, ${`${name}\0`})`.execute(db);
    return (await sql<{ key: string; value: string }>`select key, value from meta order by key`.execute(db)).rows;
  });
  const known = rows.filter(({ key }) => names.includes(key));
  assert.deepEqual(
    known.map(({ key }) => key),
    ['B', '_', 'a', 'b', 'Ä'],
  );
  // PostgreSQL stores no NUL.
  assert.equal(known[0]?.value, 'B\uFFFD');
  const sum = sql<{ value: number }>`select sum(value) as value from counter`;
  assert.deepEqual(await database.read(async (db) => (await sum.execute(db)).rows), [{ value: 0 }]);
  const large = sql`select ${9_007_199_254_740_991} + 1::bigint as value`;
  await assert.rejects(
    database.read((db) => large.execute(db)),
    /9007199254740992 in the database is too large/,
  );
  assert.equal((await database.read(readInstallationId)).length, 6);
});

test('a database that cannot be used is refused with the message of the server, and without the password', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const name = await server.createDatabase();
  const list = async (url: string) => {
    const store = openStore({ url });
    try {
      return await store.list({ maxFinished: null });
    } finally {
      await store.close();
    }
  };
  const wrongPassword = server.urlOf(name, 'locked').replace('locked:secret@', 'locked:secret2@');
  await fails(list(wrongPassword), 'broken', /locked@.* refused the connection: password authentication failed/);
  await fails(list(server.urlOf('none')), 'broken', /refused the connection: database "none" does not exist/);
  await fails(list('postgres://ada:secret@127.0.0.1:1/jobs'), 'broken', /cannot be reached: .*ECONNREFUSED/);
  for (const url of [
    'postgres://ada:se/secret@host/db',
    'mysql://a:secret@host/db',
    'secret',
    'postgres://a:1#secret@h/d',
  ])
    await fails(list(url), 'broken', /not of the form postgres:\/\/USER:PASSWORD@HOST/);
  for (const url of ['postgres://a,b/jobs', 'postgres://ada:x@a:1,b:2/jobs', 'postgres://ada@/jobs?port=1&host=/a,/b'])
    await fails(list(url), 'broken', /names several hosts, but jobman uses one/);
  const locked = openStore({ url: server.urlOf(name, 'locked') });
  t.after(() => locked.close());
  await fails(locked.insert(job), 'read_only', /permission denied for schema public/);
  await assert.rejects(locked.insert(job), {
    lines: [
      'To create the tables, the user needs all rights: create database jobman owner USER',
      'To upgrade them after an upgrade of jobman, run one command with the URL of their owner.',
    ],
  });

  await server.query('create table job (x integer)', name);
  await fails(list(server.urlOf(name)), 'unsupported', /was written by an older, unreleased jobman/);
});

test('each connection reads the password of a URL without one from the file of PostgreSQL, without a warning', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const folder = mkdtempSync(join(tmpdir(), 'jobman-pgpass-'));
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on('warning', warn);
  const file = join(folder, 'pgpass');
  process.env['PGPASSFILE'] = file;
  const url = server.urlOf(await server.createDatabase(), 'locked').replace('locked:secret@', 'locked@');
  const store = openStore({ url });
  t.after(async () => {
    await store.close();
    delete process.env['PGPASSFILE'];
    process.off('warning', warn);
    rmSync(folder, { recursive: true });
  });
  await fails(store.list({ maxFinished: null }), 'broken', /needs a password, and none was given/);
  writeFileSync(file, '*:*:other:locked:wrong\n*:*:*:locked:secret\n', { mode: 0o600 });
  assert.deepEqual(await store.list({ maxFinished: null }), { jobs: [], more: 0 });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(warnings, []);
});

test('a newer version, and tables of another program, are refused and not changed', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const [newer, foreign] = [await server.createDatabase(), await server.createDatabase()];
  const store = openStore({ url: server.urlOf(newer) });
  const other = openStore({ url: server.urlOf(foreign) });
  t.after(() => Promise.all([store.close(), other.close()]));
  await store.insert(job);
  await store.close();
  await server.query(`insert into migration values ('9000_later', '2027-01-01')`, newer);
  await fails(store.list({ maxFinished: null }), 'newer', /version 9000, and this jobman supports/);
  await server.query('create table invoices (x integer)', foreign);
  await fails(other.insert(job), 'unsupported', /contains tables of another program \(invoices\)/);
});

test('a database of an older version is refused by a reader and upgraded by the first command', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const url = server.urlOf(await server.createDatabase());
  const all = migrations as Record<string, (typeof migrations)[string]>;
  const last = Object.keys(all).toSorted().at(-1) ?? '';
  const migrate = all[last];
  assert.ok(migrate);
  delete all[last];
  const older = openStore({ url });
  try {
    await older.installationId();
  } finally {
    all[last] = migrate;
    await older.close();
  }
  const reader = openStore({ url, readOnly: true });
  t.after(() => reader.close());
  await fails(
    reader.list({ maxFinished: null }),
    'older',
    /needs an upgrade to version \d+, but it was opened for reading/,
  );
  const store = openStore({ url });
  t.after(() => store.close());
  assert.deepEqual(await store.list({ maxFinished: null }), { jobs: [], more: 0 });
  assert.equal((await store.insert(job)).job.id, '000001');
  assert.equal((await reader.list({ maxFinished: null })).jobs.length, 1);
});

test('a database that cannot be written now says why, and nothing is changed', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const name = await server.createDatabase();
  await server.query(`alter database ${name} owner to locked`);
  const url = server.urlOf(name, 'locked');
  const open = () => {
    const store = openStore({ url, busyTimeoutMs: 200 });
    t.after(() => store.close());
    return store;
  };
  const store = open();
  await store.insert(job);
  const holding = new pg.Client({ connectionString: url });
  await holding.connect();
  t.after(() => holding.end());
  await holding.query(`select pg_advisory_lock(hashtext('jobman'))`);
  await fails(store.insert(job), 'busy', /is locked by another program \(.*lock timeout\)\. Nothing was changed/);
  assert.equal((await store.list({ maxFinished: null })).jobs.length, 1);
  await holding.query('select pg_advisory_unlock_all()');
  await server.query('alter role locked connection limit 1');
  await fails(open().changeCount(), 'busy', /has too many connections: .*Try again/);
  await server.query('alter role locked connection limit -1');
  await server.query(`alter database ${name} set default_transaction_read_only = on`);
  await fails(open().insert(job), 'read_only', /cannot be written: .* read-only transaction\. Nothing was changed/);
  for (const [code, kind, message] of [
    ['53100', 'full', /The disk of the database db is full: reason/],
    ['57014', 'busy', /took too long \(reason\)/],
    ['XX001', 'corrupt', /is damaged \(reason\)/],
    ['23505', 'busy', /Another program wrote the same row/],
  ] as const)
    await fails(Promise.reject(postgresError('db', Object.assign(new Error('reason'), { code }))), kind, message);
  const mistake = Object.assign(new Error('syntax error'), { code: '42601' });
  assert.equal(postgresError('db', mistake), mistake);
});

test('a transaction that the server has undone runs again, with all of its parts', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const database = openDatabase({ url: server.urlOf(await server.createDatabase()) });
  t.after(() => database.close());
  const end = sql`select pg_terminate_backend(pg_backend_pid())`;
  let tries = 0;
  const write = (key: string, isDoomed = false) =>
    database.write(async (db) => {
      await sql`insert into meta (key, value) values (${key}, '')`.execute(db);
      if (isDoomed && (tries += 1) === 1) await end.execute(db);
      if (key === 'wrong') throw new RangeError(key);
    });
  const results = await Promise.allSettled([write('a'), write('b', true), write('wrong'), write('c')]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  );
  const { rows } = await database.read((db) =>
    sql<{ key: string }>`select key from meta where value = '' order by key`.execute(db),
  );
  assert.deepEqual([tries, ...rows.map(({ key }) => key)], [2, 'a', 'b', 'c']);
});

/** The URL through a proxy that counts how often the server was asked after it had answered everything so far. */
async function countRoundTrips(t: TestContext, url: string) {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-proxy-'));
  const counted = { roundTrips: 0, url: '' };
  const target = new URL(url).searchParams.get('host') ?? '';
  const proxy = createServer((client) => {
    const server = connect(join(target, '.s.PGSQL.5432'));
    let hasAnswered = true;
    client.on('data', (bytes) => {
      if (hasAnswered) counted.roundTrips += 1;
      hasAnswered = false;
      server.write(bytes);
    });
    // An answer is delayed, so that what the client sends in several parts without waiting counts once.
    server.on('data', (bytes) =>
      setTimeout(() => {
        hasAnswered = true;
        client.write(bytes);
      }, 5),
    );
    client.on('close', () => server.destroy());
    server.on('close', () => setTimeout(() => client.destroy(), 5));
  });
  proxy.listen(join(folder, '.s.PGSQL.5432'));
  await once(proxy, 'listening');
  t.after(() => {
    proxy.close();
    rmSync(folder, { recursive: true });
  });
  counted.url = url.replace(target, folder);
  return counted;
}

test('a commit asks the server a few times, however much it writes, and many at once ask no more often', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const counted = await countRoundTrips(t, await server.emptyDatabase());
  const store = openStore({ url: counted.url });
  t.after(() => store.close());
  const inserted = await store.insert(job);
  const events = ['one', 'two'].map((message) => ({ kind: 'unreachable', at: noon, allocation: 1, message }) as const);
  const before = counted.roundTrips;
  const commit = { job: inserted.job, revision: 1, events, foldedOutcomes: [1, 2], wakeAt: noon, epoch: null };
  assert.equal(await store.commit(commit), 'committed');
  // The lock with the job's row, the update that decides, everything else, and the end of the transaction.
  assert.equal(counted.roundTrips - before, 4);

  const more = await Promise.all(Array.from({ length: 30 }, () => store.insert(job)));
  const ids = more.map((one) => one.job.id);
  const { lease } = await store.takeLease('one', '1', noon, 1_000, false);
  const started = counted.roundTrips;
  const all = await Promise.all(ids.map((id) => store.load(id)));
  await Promise.all(ids.map((id) => store.outcomes(id)));
  assert.equal(counted.roundTrips - started, 2);
  const answers = await Promise.all(
    all.map((one, index) =>
      store.commit({ ...commit, job: one?.job ?? commit.job, epoch: lease.epoch, events: events.slice(index % 2) }),
    ),
  );
  assert.deepEqual(new Set(answers), new Set(['committed']));
  // Four, and some for answers that arrive in parts; one after the other they were 120.
  assert.ok(counted.roundTrips - started < 30, `${counted.roundTrips - started}`);
});

test('the clock of the server decides when a lease expires', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const store = openStore({ url: await server.emptyDatabase() });
  t.after(() => store.close());
  const takeAt = async (holder: string, difference: number, ttl: number) =>
    (await store.takeLease(holder, '1', Date.now() + difference, ttl, false)).taken;
  const off = 5 * minute;
  assert.deepEqual([await takeAt('one', 0, minute), await takeAt('ahead', off, minute)], [true, false]);
  assert.deepEqual([await takeAt('one', 0, 0), await takeAt('behind', -off, minute)], [true, true]);
  assert.equal(await takeAt('one', 0, minute), false);
  const now = Date.now() - off;
  const { expiresAt = 0 } = (await store.lease(now)) ?? {};
  assert.ok(expiresAt > now && expiresAt <= now + minute, 'the expiry by the clock of the caller');
});

test('a store continues after a restart of the server', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const store = openStore({ url: server.urlOf(await server.createDatabase()) });
  t.after(() => store.close());
  await store.insert(job);
  await server.stop();
  await fails(store.insert(job), 'broken', /cannot be reached: .* Nothing was changed/);
  await server.start();
  assert.equal((await store.insert(job)).job.id, '000002');
  assert.equal((await store.list({ maxFinished: null })).jobs.length, 2);
});

test('the name of a database has no password', () => {
  assert.equal(displayUrl('postgres://ada:secret@db.lab:5433/jobs?sslmode=require'), 'postgres://ada@db.lab:5433/jobs');
  assert.equal(displayUrl('postgresql://ada@/jobs?host=/run/postgresql'), 'postgres://ada@/run/postgresql/jobs');
});
