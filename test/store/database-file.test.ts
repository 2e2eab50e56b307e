// What happens when the record cannot be used: it is said, nothing is repaired behind anybody's back, nothing is lost.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { StoreError, type StoreErrorKind } from '../../src/app/errors.ts';
import type { Store } from '../../src/app/ports.ts';
import { day } from '../../src/core/model/time.ts';
import { backUp } from '../../src/store/backup.ts';
import { migrations } from '../../src/store/migrations.ts';
import { schemaVersion, openDatabaseFile, type OpenDatabaseOptions } from '../../src/store/database-file.ts';
import { sql } from '../../src/store/sql.ts';
import { openStore, withReadOnlyStore } from '../../src/store/store.ts';
import { localSpec, noon, tpuSpec } from '../support/builders.ts';
import { temporaryFolder } from '../support/folder.ts';
import { openWorld } from '../support/world.ts';

for (const bytes of [1, 2, 100, 511]) {
  test(`a record of ${bytes} bytes is damaged, and is not made again`, async (t) => {
    const { file, open } = recordIn(t);
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

function recordIn(t: TestContext): { readonly file: string; readonly open: (readOnly?: boolean) => Store } {
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
  assert.ok(error instanceof StoreError, `a StoreError was expected, and this came: ${String(error)}`);
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

test('the version that this program knows is that of its last migration', () => {
  assert.equal(Number.parseInt(Object.keys(migrations).toSorted().at(-1) ?? '', 10), schemaVersion);
});

test('a record that is not there yet reads as an empty one, and reading makes no file', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  assert.deepEqual(await store.list({ maxFinished: null }), { jobs: [], more: 0 });
  assert.equal(await store.changeCount(), 0);
  assert.equal(await store.load('000001'), undefined);
  assert.equal(existsSync(join(file, '..')), false);
});

test('a reader that met no record sees the one that another process makes', async (t) => {
  const { open } = recordIn(t);
  const reader = open();
  assert.equal(await reader.changeCount(), 0);
  await open().insert(job);
  assert.equal((await reader.list({ maxFinished: null })).jobs.length, 1);
});

test('the record and its folder are for their owner only', async (t) => {
  const { file, open } = recordIn(t);
  await open().insert(job);
  const rights = (path: string) => (statSync(path).mode & 0o777).toString(8);
  assert.equal(rights(join(file, '..')), '700');
  for (const name of readdirSync(join(file, '..'))) assert.equal(rights(join(file, '..', name)), '600');
});

test('reading changes no byte of the record', async (t) => {
  const { file, open } = recordIn(t);
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
  await store.lease();
  await store.close();
  assert.equal(hashOf(file), before);
});

test('a store that was opened for reading refuses to write', async (t) => {
  const { file, open } = recordIn(t);
  await fails(open(true).insert(job), 'read_only');
  assert.equal(existsSync(file), false);
});

test('a record of a newer version is left alone, and both versions are told', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  await store.insert(job);
  await store.close();
  edit(file, "insert into migration (name, applied_at) values ('0002_later', '2027-01-01')");
  for (const operation of [open().list({ maxFinished: null }), open().insert(job)]) {
    const error = await fails(operation, 'newer');
    assert.match(error.message, /version 2, this program knows version 1\. Upgrade jobman\./);
  }
});

for (const [made, statements] of [
  [
    'the first schema of the development',
    "create table migration (name text primary key, timestamp text); insert into migration values ('0001_begin', '')",
  ],
  [
    'a later schema of the development',
    `create table migration (name text primary key, timestamp text);
     insert into migration values ('0001_begin', ''), ('0002_sweep', ''), ('0007_lease_pause', '')`,
  ],
  ['tables of the old names and no migrations', 'create table job (number integer primary key, life text)'],
] as const) {
  test(`a record with ${made} is refused as it is, and the way out is told`, async (t) => {
    const { file, open } = recordIn(t);
    mkdirSync(join(file, '..'), { recursive: true });
    edit(file, statements);
    const tables = tablesOf(file);
    const read = (readOnly: boolean) => open(readOnly).list({ maxFinished: null });
    for (const operation of [read(false), read(true), open().insert(job)]) {
      const { message, lines } = await fails(operation, 'unsupported');
      assert.equal(
        message,
        `The record of jobs ${file} was written by jobman before its first release, and this jobman cannot read it: move the folder ${join(file, '..')} away, or set JOBMAN_HOME to a new folder.`,
      );
      assert.deepEqual(lines, []);
    }
    await fails(
      withReadOnlyStore(file, (store) => store.installationId()),
      'unsupported',
    );
    assert.deepEqual(tablesOf(file), tables);
  });
}

test('a record without tables yet is brought up to date by whoever may write, and refused by who may not', async (t) => {
  const { file, open } = recordIn(t);
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

test('a file that is no database is kept as it is, and the way back is told', async (t) => {
  const { file, open } = recordIn(t);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, 'not a database at all, but longer than the head of one '.repeat(40));
  const before = hashOf(file);
  for (const operation of [open().list({ maxFinished: null }), open().insert(job)]) {
    const error = await fails(operation, 'corrupt');
    assert.match(error.message, /is damaged .* It was left as it is\./);
    assert.match(error.lines.join('\n'), /config\.yaml, job\.json/);
  }
  assert.equal(hashOf(file), before);
});

test('pages that were overwritten are noticed, and the copy of yesterday is named', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  for (let jobs = 0; jobs < 200; jobs += 1) await store.insert({ ...job, spec: tpuSpec() });
  assert.equal(await backUp(file, Date.now()), true);
  await store.close();
  const bytes = readFileSync(file);
  bytes.fill(0x5a, 8 * 4096, 60 * 4096);
  writeFileSync(file, bytes);
  const error = await fails(open().list({ maxFinished: null }), 'corrupt');
  assert.match(error.lines.join('\n'), /copy of .*state\.db\.bak/);

  // A day later the damaged record does not replace the good copy.
  const copy = hashOf(`${file}.bak`);
  await fails(
    backUp(file, Date.now() + 2 * day).then(() => {}),
    'corrupt',
  );
  assert.equal(hashOf(`${file}.bak`), copy);
  assert.equal(existsSync(`${file}.bak.new`), false);
});

test('a copy is made at most once a day, and is a whole record', async (t) => {
  const { file, open } = recordIn(t);
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

test('a record that is taken away while it is copied leaves no copy beside the one that begins anew', async (t) => {
  const { file, open } = recordIn(t);
  await open().insert(job);
  const copying = backUp(file, Date.now());
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
  // Beside the old one, which is still open, so that it is another file by its number as well.
  await open().insert(job);
  assert.equal(await copying, false);
  assert.deepEqual(
    readdirSync(join(file, '..')).filter((name) => name.includes('.bak')),
    [],
  );
});

test('a text in a row that is no JSON counts as damage', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  await store.insert(job);
  await store.close();
  edit(file, 'update job set status = \'{"id":\'');
  await fails(open().load('000001'), 'corrupt');
});

test('a home that cannot be a folder is told as what it is', async (t) => {
  const world = openWorld(t);
  writeFileSync(world.home, 'a file in the way');
  const store = openStore({ file: join(world.home, 'state.db') });
  for (const operation of [store.insert(job), store.list({ maxFinished: null })]) {
    const error = await fails(operation, 'broken');
    assert.match(error.message, /home is no folder/);
    assert.match(error.lines.join('\n'), /Set JOBMAN_HOME/);
  }
  await store.close();
});

test('a home that the file system will not make is refused, and not tried for ever', async () => {
  const store = openStore({ file: '/proc/no-such-folder/home/state.db' });
  const error = await fails(store.insert(job), 'broken');
  assert.match(error.message, /\/proc\/no-such-folder cannot be used/);
  await store.close();
});

test('a record that is empty or gone while its copy is there is no new record', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  await store.insert(job);
  assert.equal(await backUp(file, Date.now()), true);
  await store.close();
  const copy = hashOf(`${file}.bak`);
  const lose: readonly (readonly [RegExp, () => void])[] = [
    [/is empty/, () => truncateSync(file)],
    [/is gone/, () => rmSync(file)],
  ];
  for (const [message, act] of lose) {
    act();
    for (const operation of [open().list({ maxFinished: null }), open().load('000001'), open().insert(job)]) {
      const error = await fails(operation, 'corrupt');
      assert.match(error.message, message);
      assert.match(error.lines.join('\n'), /To go back to the copy of .* && cp -p damaged\/state\.db\.bak state\.db/);
    }
  }
  assert.deepEqual(readdirSync(join(file, '..')), ['state.db.bak']);
  assert.equal(hashOf(`${file}.bak`), copy);
});

/** How the file of the record is opened. */

/** SQLite's own number: 2 waits for the disk with each commit, 1 does not (https://www.sqlite.org/pragma.html#pragma_synchronous). */
async function waitsOf(file: string, given: Omit<OpenDatabaseOptions, 'file'>): Promise<object> {
  const record = openDatabaseFile({ file, ...given });
  try {
    const { rows } = await record.write((db) => sql`pragma synchronous`.execute(db));
    return rows[0] as object;
  } finally {
    await record.close();
  }
}

test('waits for the disk with each commit, unless what is written stands elsewhere as well', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'state.db');
  assert.deepEqual({ ...(await waitsOf(file, {})) }, { synchronous: 2 });
  assert.deepEqual({ ...(await waitsOf(file, { skipFsync: true })) }, { synchronous: 1 });
  assert.deepEqual({ ...(await waitsOf(file, { skipFsync: false })) }, { synchronous: 2 });
});
