/** How the file of the record is opened. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { openRecordFile, type OpenRecord } from '../../src/store/record-file.ts';
import { sql } from '../../src/store/sql.ts';
import { temporaryFolder } from '../support/folder.ts';

/** SQLite's own number: 2 waits for the disk with each commit, 1 does not (https://www.sqlite.org/pragma.html#pragma_synchronous). */
async function waitsOf(file: string, given: Omit<OpenRecord, 'file'>): Promise<object> {
  const record = openRecordFile({ file, ...given });
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
  assert.deepEqual({ ...(await waitsOf(file, { isCopy: true })) }, { synchronous: 1 });
  assert.deepEqual({ ...(await waitsOf(file, { isCopy: false })) }, { synchronous: 2 });
});
