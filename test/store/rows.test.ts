// Rows that are copied: every value reaches the other database unchanged, and a backup of another version or with other
// bytes is restored or refused as a whole.

import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import type { JobmanError } from '../../src/app/errors.ts';
import { migrate, schemaVersion } from '../../src/store/database.ts';
import { openDatabase, type DatabaseAddress } from '../../src/store/open-database.ts';
import { loadRows, openClosed, readClosed, saveRows, withSavedRows } from '../../src/store/rows.ts';
import { sql } from '../../src/store/sql.ts';
import { openForWriting } from '../../src/store/sqlite.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';
import { temporaryFolder } from '../support/folder.ts';
import { requirePostgres } from '../support/postgres.ts';

const job = { owner: 'ada', spec: localSpec(), manifest: 'job:\n  name: größe 東京 😀\n', at: noon };

const restore = (file: string, address: DatabaseAddress) =>
  withSavedRows(file, `${file}.scratch`, (rows, saved) => loadRows(rows, saved, address, 'was restored'));

/** Values that one of the databases could change: large and fractional numbers, dates, JSON, empty and odd texts. */
async function fill(address: DatabaseAddress): Promise<void> {
  const store = openStore(address);
  for (let count = 0; count < 450; count += 1) await store.insert({ ...job, at: noon + count });
  await store.close();
  const database = openDatabase(address);
  await database.write(async (db) => {
    const text = JSON.stringify({ text: '\u{1F600} \\ \' " \u2028 \t', at: '2026-11-29T20:00:00.123Z', number: 1e21 });
    await sql`
      insert into usage (subject, seq, job, source, allocation, name, job_name, ownership, used_for, began_at, ended_at,
        price, simulated)
      values (${text}, 0, '', 'tpu', 1, ${' \n '}, 'ä', 'ephemeral', 'job', ${Number.MAX_SAFE_INTEGER}, null, ${0.1 + 0.2}, 0),
        ('whole', 0, 'b', 'tpu', 1, 'B', '_', 'ephemeral', 'job', ${-5}, 0, 3, 1)`.execute(db);
  });
  await database.close();
}

const read = async (address: DatabaseAddress) => {
  const database = openDatabase(address);
  try {
    return await database.read(async (db) => (await sql`select * from usage order by subject`.execute(db)).rows);
  } finally {
    await database.close();
  }
};

test('rows reach the other database and come back unchanged, and a closed database can only be read', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const folder = temporaryFolder(t);
  const [first, second] = [{ file: join(folder, 'a', 'state.db') }, { file: join(folder, 'b', 'state.db') }];
  const url = server.urlOf(await server.createDatabase());
  await fill(first);
  await saveRows(first, join(folder, 'one'));
  await restore(join(folder, 'one'), { url });
  assert.equal(await readClosed({ url }), 'was restored');
  const store = openStore({ url });
  await assert.rejects(store.insert(job), {
    kind: 'closed',
    message: /was restored, so it can only be read\. Nothing/,
  });
  assert.equal((await store.list({ maxFinished: null })).jobs.length, 450);
  await saveRows({ url }, join(folder, 'two'));
  await restore(join(folder, 'two'), second);
  const [before] = await Promise.all([read(first), read(second)].map(async (rows) => JSON.stringify(await rows)));
  assert.equal(JSON.stringify(await read(second)), before);
  assert.equal(JSON.stringify(await read({ url })), before);
  await assert.rejects(restore(join(folder, 'two'), first), /is not empty: it has rows in job, event, job_text, usage/);
  // The original may have used the next ids.
  assert.deepEqual(await openClosed({ url }), { lastId: '001450' });
  assert.equal(await openClosed({ url }), null);
  assert.equal((await store.insert(job)).job.id, '001451');

  // A program that has the database open already writes nothing more either.
  const database = openDatabase({ url, mayBeClosed: true });
  await database.write((db) => sql`insert into meta (key, value) values ('closed', 'was moved')`.execute(db));
  await database.close();
  await assert.rejects(store.insert(job), { kind: 'closed' });
  await store.close();
});

test('a backup of an older version is brought up to date, and that of a newer one or with other bytes is refused', async (t) => {
  const folder = temporaryFolder(t);
  const backup = join(folder, 'one');
  const source = { file: join(folder, 'a', 'state.db') };
  await fill(source);
  await saveRows(source, backup);
  const changed = (name: string, change: (db: DatabaseSync) => void): string => {
    const file = join(folder, name);
    copyFileSync(backup, file);
    const db = new DatabaseSync(file);
    change(db);
    db.close();
    return file;
  };
  let targets = 0;
  const target = () => ({ file: join(folder, `target-${(targets += 1)}`, 'state.db') });

  const older = join(folder, 'older');
  const old = openForWriting(older);
  await migrate(old, { upTo: 9 });
  await sql`create table backup_table (name text, rows integer, digest text)`.execute(old);
  await sql`insert into usage (subject, seq, job, source, allocation, name, job_name, ownership, used_for, began_at, simulated)
    values ('a', 0, 'a', 'local', 1, 'a', 'a', 'ephemeral', 'job', 1, 0)`.execute(old);
  old.close();
  const restored = target();
  await restore(older, restored);
  // Version 10 has renamed it.
  assert.deepEqual(
    (await read(restored)).map((row) => (row as { readonly source: string }).source),
    ['hosts'],
  );

  const newer = changed('newer', (db) => db.exec(`insert into migration values ('9999_later', '2030')`));
  await assert.rejects(restore(newer, target()), new RegExp(`has version 9999, .* supports version ${schemaVersion}`));
  const damaged = changed('damaged', (db) => db.exec(`update job set name = 'other' where number = 7`));
  await assert.rejects(restore(damaged, target()), /is damaged: these tables have other rows: job \(450 rows\)/);
  await assert.rejects(restore(source.file, target()), /is no backup of jobman/);
  const bytes = readFileSync(backup);
  bytes.fill(255, 4096, 3 * 4096);
  const torn = join(folder, 'torn');
  writeFileSync(torn, bytes);
  await assert.rejects(restore(torn, target()), ({ message, lines }: JobmanError) => {
    assert.match(message, /^\S+torn is damaged \(.+\)\. Nothing was changed\.$/);
    assert.deepEqual(lines, ['Use another backup.'], 'not the steps for the database of a home');
    return true;
  });
});
