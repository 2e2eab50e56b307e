// A database that cannot be used: the error says so, nothing is repaired silently, and nothing is lost.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import type { JobRow } from '../../src/app/client.ts';
import { StoreError, type StoreErrorKind } from '../../src/app/errors.ts';
import type { Store } from '../../src/app/ports.ts';
import { day } from '../../src/core/model/time.ts';
import { backUp } from '../../src/store/backup.ts';
import { usageOf } from '../../src/reports/usage.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { migrations } from '../../src/store/migrations.ts';
import { schemaVersion } from '../../src/store/database.ts';
import { openDatabase, type ConnectionOptions } from '../../src/store/open-database.ts';
import { sql } from '../../src/store/sql.ts';
import { openForWriting } from '../../src/store/sqlite.ts';
import { openStore, withReadOnlyStore } from '../../src/store/store.ts';
import { localSpec, noon, readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../support/builders.ts';
import { aLabJob, aUser } from '../support/lab-builders.ts';
import { temporaryFolder } from '../support/folder.ts';
import { openWorld } from '../support/world.ts';

test('two parts of a program may close one store at the same time', async (t) => {
  const store = openStore({ file: join(temporaryFolder(t), 'state.db') });
  await store.installationId();
  await Promise.all([store.close(), store.close()]);
});

for (const bytes of [1, 2, 100, 511]) {
  test(`a database of ${bytes} bytes is damaged and is not created again`, async (t) => {
    const { file, open } = databaseIn(t);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, Buffer.alloc(bytes, 'S'));
    const store = open();
    const damaged = { kind: 'corrupt', message: /is damaged/ };
    await assert.rejects(store.list({ maxFinished: null }), damaged);
    await assert.rejects(store.insert(job), damaged);
    assert.equal(statSync(file).size, bytes);
  });
}

const job = { owner: 'ada', spec: localSpec(), manifest: 'job:\n  name: iris\n', at: noon };

function databaseIn(t: TestContext): { readonly file: string; readonly open: (readOnly?: boolean) => Store } {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  return {
    file,
    open(readOnly = false) {
      const store = openStore({ file, readOnly });
      world.atEnd(() => store.close());
      return store;
    },
  };
}

async function fails(operation: Promise<unknown>, trouble: StoreErrorKind): Promise<StoreError> {
  const error = await operation.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof StoreError, `expected a StoreError, but got: ${String(error)}`);
  assert.equal(error.kind, trouble);
  assert.equal(error.code, 5);
  return error;
}

const hashOf = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex');

function edit(file: string, statement: string): void {
  const db = new DatabaseSync(file);
  db.exec(statement);
  db.close();
}

function tablesOf(file: string): readonly unknown[] {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return db.prepare('select name, sql from sqlite_master order by name').all();
  } finally {
    db.close();
  }
}

test('the supported version is the number of the last migration', () => {
  assert.equal(Number.parseInt(Object.keys(migrations).toSorted().at(-1) ?? '', 10), schemaVersion);
});

test('a missing database reads as an empty one, and reading creates no file', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  assert.deepEqual(await store.list({ maxFinished: null }), { jobs: [], more: 0 });
  assert.equal(await store.changeCount(), 0);
  assert.equal(await store.load('000001'), undefined);
  assert.equal(existsSync(join(file, '..')), false);
});

test('a reader without a database sees the one that another process creates', async (t) => {
  const { open } = databaseIn(t);
  const reader = open();
  assert.equal(await reader.changeCount(), 0);
  await open().insert(job);
  assert.equal((await reader.list({ maxFinished: null })).jobs.length, 1);
});

test('only the owner can read the database and its folder', async (t) => {
  const { file, open } = databaseIn(t);
  await open().insert(job);
  const rights = (path: string) => (statSync(path).mode & 0o777).toString(8);
  assert.equal(rights(join(file, '..')), '700');
  for (const name of readdirSync(join(file, '..'))) assert.equal(rights(join(file, '..', name)), '600');
});

test('reading changes no byte of the database', async (t) => {
  const { file, open } = databaseIn(t);
  const writer = open();
  await writer.insert(job);
  await writer.close();
  const before = hashOf(file);
  const store = open();
  await store.list({ maxFinished: null });
  await store.load('000001');
  await store.events('000001', 0);
  await store.dueJobs(noon, 10);
  await store.orphans();
  await store.lease(noon);
  await store.close();
  assert.equal(hashOf(file), before);
});

test('a store that was opened for reading refuses to write', async (t) => {
  const { file, open } = databaseIn(t);
  await fails(open(true).insert(job), 'read_only');
  assert.equal(existsSync(file), false);
});

/** Writes the rows of the file as an older version would have: into its tables, without the columns of later ones. */
async function downgrade(file: string, version: number, rows = ''): Promise<void> {
  const older = `${file}.older`;
  const db = openForWriting(older);
  await sql`create table migration (name text primary key, applied_at text not null)`.execute(db);
  for (const [name, run] of Object.entries(migrations).slice(0, version)) {
    await run(db);
    await sql`insert into migration (name, applied_at) values (${name}, '2026-01-01')`.execute(db);
  }
  db.close();
  const copy = new DatabaseSync(older, { enableForeignKeyConstraints: false });
  copy.prepare('attach ? as newer').run(file);
  const namesOf = (query: string): readonly string[] =>
    copy
      .prepare(query)
      .all()
      .map(({ name }) => String(name));
  const tables = namesOf(
    "select name from sqlite_master where type = 'table' intersect select name from newer.sqlite_master",
  );
  for (const table of tables.filter((name) => name !== 'migration')) {
    const newer = `select name from pragma_table_info('${table}', 'newer')`;
    const columns = namesOf(`select name from pragma_table_info('${table}', 'main') intersect ${newer}`);
    const dropped = namesOf(
      `select name from pragma_table_info('${table}', 'main') where "notnull" and dflt_value is null except ${newer}`,
    );
    const values = [...columns, ...dropped.map(() => '0')].join();
    const known = table === 'counter' ? 'where name in (select name from main.counter)' : '';
    copy.exec(
      `insert or replace into ${table} (${[...columns, ...dropped].join()}) select ${values} from newer.${table} ${known}`,
    );
  }
  copy.exec(`detach newer; ${rows}`);
  copy.close();
  for (const suffix of ['-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true });
  renameSync(older, file);
}

test('a database without the usage ledger gets the rows of its jobs', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  const stored = await store.insert(job);
  const ready = withAttempts(stored.job, [readyAllocation], [runningAttempt]);
  await store.commit({ ...stored, job: ready, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  await store.close();
  await downgrade(file, 1);
  const upgraded = open();
  await upgraded.insert(job);
  assert.deepEqual(
    (await upgraded.usage({})).map(({ use }) => use),
    ['waiting', 'setup', 'useful'],
  );
});

test('the rows of lists are moved to their own table', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  await store.insert(job);
  await store.insert(job);
  await store.close();
  await downgrade(file, 7, `update job set list_row = '{"id":"000001"}', list_row_version = 9 where number = 1`);
  const upgraded = openStore({ file, finalRows: async () => ({ version: 9, rowOf: () => null }) });
  t.after(() => upgraded.close());
  const computed = { id: '000002' } as JobRow;
  assert.deepEqual((await upgraded.listRows({ maxFinished: null }, () => computed)).rows, [computed, { id: '000001' }]);
});

test('archived jobs of clusters get rows: by the migration, and after an older controller', async (t) => {
  const { file } = databaseIn(t);
  const open = () => {
    const store = openStore({ file });
    t.after(() => store.close());
    return store;
  };
  const store = open();
  const pods = [aClusterPod({ name: 'train-a', createdAt: noon, phase: 'Running' }, { startedAt: noon + 5 })];
  const observed = { server: 'https://lab', context: 'lab', observedAt: noon, goneAt: null, pods, events: [] };
  await store.clusters.archiveObservation({ ...observed, job: aClusterJob({ uid: 'u1', name: 'train' }) }, []);
  const rows = await store.usage({});
  assert.equal(rows.length, 2);
  await store.close();
  await downgrade(file, 3, 'delete from usage');
  const upgraded = open();
  assert.deepEqual(await upgraded.usage({}), rows);
  await upgraded.close();
  edit(file, `delete from usage`);
  const next = open();
  await next.takeLease('new', '1.0.0', noon, day, false);
  assert.deepEqual(await next.usage({}), rows);
});

test('the users of a lab become users, with their logins, and a backup keeps the tables as they were', async (t) => {
  const { file } = databaseIn(t);
  const open = () => {
    const store = openStore({ file });
    t.after(() => store.close());
    return store;
  };
  const store = open();
  const ada = aUser('ada', { id: 7, session: 'lab-ada', sheetName: 'Ada L.', directories: { 2: '/srv/ada' } });
  const users = [
    await store.lab.addUser(aUser('王伟', { id: 3, nextWindow: 12, createdAt: noon + 5, newsSeen: 8 })),
    await store.lab.addUser({ ...ada, logins: ['ada1', 'ada2'], nextWindow: 4, createdAt: noon + day }),
  ];
  await store.close();
  const rows = users.map(({ name, id, session, nextWindow, newsSeen, ...user }) => {
    const { sheetName, directories, aliases, settings, createdAt } = user;
    const details = { sheetName, directories, aliases, settings, createdAt };
    const values = [name, id, session, nextWindow, newsSeen, JSON.stringify(details)];
    return `insert into lab_user values (${values.map((value) => `'${value}'`).join()})`;
  });
  const logins = ['ada1', 'ada2'].map((login) => `insert into lab_login values ('${login}', 'ada')`);
  await downgrade(file, 4, [...rows, ...logins].join(';'));

  const upgraded = open();
  assert.equal(existsSync(`${file}.bak`), false);
  assert.deepEqual(await upgraded.lab.users(), users);
  assert.deepEqual(await upgraded.users(), [
    { name: 'ada', role: 'member', logins: ['ada1', 'ada2'] },
    { name: '王伟', role: 'member', logins: [] },
  ]);
  const namesOf = (path: string) => JSON.stringify(tablesOf(path));
  assert.doesNotMatch(namesOf(file), /lab_user|lab_login/);
  assert.match(namesOf(`${file}.bak`), /lab_user.*lab_login|lab_login.*lab_user/);

  // Once: a database of this version is not copied again.
  await upgraded.close();
  rmSync(`${file}.bak`);
  const again = open();
  assert.equal(
    (await again.lab.changeUser('ada', { kind: 'set', values: { nextWindow: 5 } })).after.createdAt,
    noon + day,
  );
  assert.deepEqual(await again.lab.users(), [users[0], { ...users[1], nextWindow: 5 }]);
  await again.lab.removeUser('ada');
  assert.deepEqual(await again.users(), [{ name: '王伟', role: 'member', logins: [] }]);
  assert.equal(existsSync(`${file}.bak`), false);
});

test('events keep their numbers, and those of an older controller get theirs from the next one', async (t) => {
  const { file } = databaseIn(t);
  const open = () => {
    const store = openStore({ file });
    t.after(() => store.close());
    return store;
  };
  const store = open();
  const insert = async (into: typeof store) => {
    const stored = await into.insert({ ...job, spec: tpuSpec() });
    await into.lab.addJob(aLabJob(stored.job.id, 'ada'));
  };
  await insert(store);
  await insert(store);
  const observed = { server: 'https://lab', context: 'lab', observedAt: noon, goneAt: null, pods: [], events: [] };
  const written = ['z', 'm', 'a'].map((key) => ({ key, at: noon, message: key }));
  await store.clusters.archiveObservation({ ...observed, job: aClusterJob({ uid: 'u1', name: 'train' }) }, written);
  await store.close();
  await downgrade(file, 5, 'update event set rowid = rowid + 100');

  const upgraded = open();
  await insert(upgraded);
  const numbers = async () => (await upgraded.lab.eventsSince('ada', 0, ['created'])).map(({ number }) => number);
  assert.deepEqual(await numbers(), [101, 102, 103]);
  const request = { accelerator: 'v5litepod-16', zone: 'us-west4-a', pricing: 'spot' };
  assert.equal((await upgraded.similarJobs(request, 0, 10)).length, 3);
  await upgraded.clusters.archiveEvent('u1', { key: 'b', at: noon, message: 'b' });
  assert.deepEqual(
    (await upgraded.clusters.events('u1')).map(({ key }) => key),
    ['z', 'm', 'a', 'b'],
  );

  edit(file, 'insert into event (job, seq, at, body) select job, 2, at, body from event where id = 101');
  assert.deepEqual(await numbers(), [101, 102, 103]);
  await upgraded.takeLease('new', '1.0.0', noon, day, false);
  assert.deepEqual(await numbers(), [101, 102, 103, 104]);
});

test('a damaged database is not migrated, and its backup is kept', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  for (let jobs = 0; jobs < 200; jobs += 1) await store.insert({ ...job, spec: tpuSpec() });
  await store.close();
  await downgrade(file, 4);
  writeFileSync(`${file}.bak`, 'the last good copy');
  const bytes = readFileSync(file);
  bytes.fill(0x5a, bytes.length - 20 * 4096, bytes.length - 10 * 4096);
  writeFileSync(file, bytes);
  const before = hashOf(file);
  await fails(open().insert(job), 'corrupt');
  assert.equal(hashOf(file), before);
  assert.equal(readFileSync(`${file}.bak`, 'utf8'), 'the last good copy');
});

test('a new controller writes the usage that a controller without the ledger did not write', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  const stored = await store.insert(job);
  const ready = withAttempts(stored.job, [readyAllocation], [runningAttempt]);
  // Without events a commit writes no usage.
  await store.commit({ ...stored, job: ready, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  edit(
    file,
    `insert into usage (subject, seq, job, source, allocation, name, job_name, ownership, used_for, began_at, simulated)
     values ('${stored.job.id}', 0, '${stored.job.id}', 'tpu', 1, 'iris', 'iris', 'ephemeral', 'kept', ${noon}, 0)`,
  );
  await store.takeLease('new', '1.0.0', noon, day, false);
  assert.deepEqual(await store.usage({}), usageOf(ready));
});

test('a database of a newer version is not changed, and the error names both versions', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  await store.insert(job);
  await store.close();
  const later = schemaVersion + 1;
  edit(file, `insert into migration (name, applied_at) values ('000${later}_later', '2027-01-01')`);
  for (const operation of [open().list({ maxFinished: null }), open().insert(job)]) {
    const error = await fails(operation, 'newer');
    const versions = `version ${later}, and this jobman supports version ${schemaVersion}. Upgrade jobman.`;
    assert.ok(error.message.includes(versions), error.message);
  }
});

for (const [made, statements] of [
  [
    'the first tables of version 1',
    "create table migration (name text primary key, timestamp text); insert into migration values ('0001_begin', '')",
  ],
  [
    'later tables of version 1',
    `create table migration (name text primary key, timestamp text);
     insert into migration values ('0001_begin', ''), ('0002_sweep', ''), ('0007_lease_pause', '')`,
  ],
  ['tables of version 1 and no migrations', 'create table job (number integer primary key, life text)'],
] as const) {
  test(`a database with ${made} is refused and not changed, and the error says how to start again`, async (t) => {
    const { file, open } = databaseIn(t);
    mkdirSync(join(file, '..'), { recursive: true });
    edit(file, statements);
    const tables = tablesOf(file);
    const read = (readOnly: boolean) => open(readOnly).list({ maxFinished: null });
    for (const operation of [read(false), read(true), open().insert(job)]) {
      const { message, lines } = await fails(operation, 'unsupported');
      assert.equal(
        message,
        `The database ${file} was written by an older, unreleased jobman and cannot be read; to start again with an empty database, move ${join(file, '..')} to another path or set JOBMAN_HOME to a new folder.`,
      );
      assert.deepEqual(lines, []);
    }
    await fails(
      withReadOnlyStore({ file }, (store) => store.installationId()),
      'unsupported',
    );
    assert.deepEqual(tablesOf(file), tables);
  });
}

test('a database without tables is migrated by a writer and refused by a reader', async (t) => {
  const { file, open } = databaseIn(t);
  mkdirSync(join(file, '..'), { recursive: true });
  edit(file, 'create table other (x)');
  await fails(open(true).list({ maxFinished: null }), 'older');
  assert.deepEqual((await open().list({ maxFinished: null })).jobs, []);
  assert.equal(
    (await open(true)
      .insert(job)
      .catch((error: unknown) => error)) instanceof StoreError,
    true,
  );
  assert.equal((await open().insert(job)).job.id, '000001');
});

test('a file that is not a database is kept, and the error says how to recover', async (t) => {
  const { file, open } = databaseIn(t);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, 'not a database at all, but longer than the head of one'.repeat(40));
  const before = hashOf(file);
  for (const operation of [open().list({ maxFinished: null }), open().insert(job)]) {
    const error = await fails(operation, 'corrupt');
    assert.match(error.message, /is damaged .* Nothing was changed\./);
    assert.match(error.lines.join('\n'), /config\.yaml, job\.json/);
  }
  assert.equal(hashOf(file), before);
});

test('overwritten pages are detected, and the error names the backup', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  for (let jobs = 0; jobs < 200; jobs += 1) await store.insert({ ...job, spec: tpuSpec() });
  assert.equal(await backUp(file, Date.now()), true);
  await store.close();
  const bytes = readFileSync(file);
  bytes.fill(0x5a, 8 * 4096, 60 * 4096);
  writeFileSync(file, bytes);
  const error = await fails(open().list({ maxFinished: null }), 'corrupt');
  assert.match(error.lines.join('\n'), /backup of .*state\.db\.bak/);

  // A day later the damaged database does not replace the good backup.
  const copy = hashOf(`${file}.bak`);
  await fails(
    backUp(file, Date.now() + 2 * day).then(() => {}),
    'corrupt',
  );
  assert.equal(hashOf(`${file}.bak`), copy);
  assert.equal(existsSync(`${file}.bak.new`), false);
});

test('a backup is made at most once a day and is a complete database', async (t) => {
  const { file, open } = databaseIn(t);
  assert.equal(await backUp(file, Date.now()), false);
  const store = open();
  await store.insert(job);
  assert.equal(await backUp(file, Date.now()), true);
  assert.equal(await backUp(file, Date.now() + day / 2), false);
  await store.insert(job);
  assert.equal(await backUp(file, Date.now() + day + 1000), true);
  assert.equal(statSync(`${file}.bak`).mode & 0o777, 0o600);
  const copy = openStore({ file: `${file}.bak` });
  assert.equal((await copy.list({ maxFinished: null })).jobs.length, 2);
  await copy.close();
});

test('a database that is removed while it is copied leaves no backup next to its successor', async (t) => {
  const { file, open } = databaseIn(t);
  await open().insert(job);
  const copying = backUp(file, Date.now());
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
  // The old one is still open, so the new file has another inode.
  await open().insert(job);
  assert.equal(await copying, false);
  assert.deepEqual(
    readdirSync(join(file, '..')).filter((name) => name.includes('.bak')),
    [],
  );
});

test('a text in a row that is not JSON counts as damage', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  await store.insert(job);
  await store.close();
  edit(file, 'update job set status = \'{"id":\'');
  await fails(open().load('000001'), 'corrupt');
});

test('a home that is not a folder is reported as such', async (t) => {
  const world = openWorld(t);
  writeFileSync(world.home, 'a file');
  const store = openStore({ file: join(world.home, 'state.db') });
  for (const operation of [store.insert(job), store.list({ maxFinished: null })]) {
    const error = await fails(operation, 'broken');
    assert.match(error.message, /home is not a folder\. Set JOBMAN_HOME/);
  }
  await store.close();
});

test('a home that the file system cannot create is refused without endless retries', async () => {
  const store = openStore({ file: '/proc/no-such-folder/home/state.db' });
  const error = await fails(store.insert(job), 'broken');
  assert.match(error.message, /\/proc\/no-such-folder cannot be used/);
  await store.close();
});

test('an empty or missing database with a backup is not replaced by a new one', async (t) => {
  const { file, open } = databaseIn(t);
  const store = open();
  await store.insert(job);
  assert.equal(await backUp(file, Date.now()), true);
  await store.close();
  const copy = hashOf(`${file}.bak`);
  const lose: readonly (readonly [RegExp, () => void])[] = [
    [/is empty/, () => truncateSync(file)],
    [/is missing/, () => rmSync(file)],
  ];
  for (const [message, act] of lose) {
    act();
    for (const operation of [
      () => open().list({ maxFinished: null }),
      () => open().load('000001'),
      () => open().insert(job),
    ]) {
      const error = await fails(operation(), 'corrupt');
      assert.match(error.message, message);
      assert.match(error.lines.join('\n'), /To restore the backup of .* && cp -p damaged\/state\.db\.bak state\.db/);
    }
  }
  assert.deepEqual(readdirSync(join(file, '..')), ['state.db.bak']);
  assert.equal(hashOf(`${file}.bak`), copy);
});

/** SQLite's own number: 2 waits for the disk, 1 does not (https://www.sqlite.org/pragma.html#pragma_synchronous). */
async function waitsOf(file: string, given: ConnectionOptions): Promise<object> {
  const database = openDatabase({ file, ...given });
  try {
    const { rows } = await database.write((db) => sql`pragma synchronous`.execute(db));
    return rows[0] as object;
  } finally {
    await database.close();
  }
}

test('a store keeps its lock, without which the sqlite3 program removes the log under it', async (t) => {
  if (!existsSync('/proc/locks')) return;
  const { file, open } = databaseIn(t);
  const creator = open();
  await creator.insert(job);
  await creator.close();
  // As in the controller, the connection that reads is open when the one that writes opens.
  const store = open();
  await store.list({ maxFinished: null });
  await store.insert(job);
  const lock = new RegExp(` READ +${process.pid} [\\da-f]+:[\\da-f]+:${statSync(file).ino} `);
  assert.match(readFileSync('/proc/locks', 'utf8'), lock);
});

test('a commit waits for the disk, unless the contents exist elsewhere too', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'state.db');
  assert.deepEqual({ ...(await waitsOf(file, {})) }, { synchronous: 2 });
  assert.deepEqual({ ...(await waitsOf(file, { skipFsync: true })) }, { synchronous: 1 });
  assert.deepEqual({ ...(await waitsOf(file, { skipFsync: false })) }, { synchronous: 2 });
});
