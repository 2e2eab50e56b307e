// The statements of the store run on SQLite and PostgreSQL. Only sqlite.ts knows which database is used.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';

const folder = new URL('../../src/store/', import.meta.url);

/** Functions and operators of SQLite that PostgreSQL does not know, or that mean something else there. */
const onlySqlite =
  /\b(json_each|json_extract|json_valid|rowid|sqlite_master|insert or|replace into|pragma|vacuum|ifnull|group_concat|strftime|autoincrement|collate nocase)\b|->/i;

test('no statement is for SQLite only', () => {
  const files = readdirSync(folder).filter((name) => name !== 'sqlite.ts');
  const found = files.flatMap((name) =>
    readFileSync(new URL(name, folder), 'utf8')
      .split('\n')
      .filter((line) => !/^\s*(\/\/|\/?\*)/.test(line) && onlySqlite.test(line))
      .map((line) => `${name}: ${line.trim()}`),
  );
  // Rows from before these columns exist only in SQLite.
  assert.deepEqual(found, [
    "migrations.ts: update event set id = rowid, kind = case when json_valid(body) then body ->> 'kind' end`.execute(db);",
    'migrations.ts: if (observed.length > 0) await sql`update cluster_job_event set seq = rowid`.execute(db);',
  ]);
});
