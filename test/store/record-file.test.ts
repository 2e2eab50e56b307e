/** How the file of the record is opened. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, it } from 'node:test';
import { openRecordFile, type OpenRecord } from '../../src/store/record-file.ts';
import { sql } from '../../src/store/sql.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'jobman-store-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** SQLite's own number: 2 waits for the disk with each commit, 1 does not (https://www.sqlite.org/pragma.html#pragma_synchronous). */
async function waitsOf(given: Omit<OpenRecord, 'file'>): Promise<object> {
  const record = openRecordFile({ file: join(folder, 'state.db'), ...given });
  try {
    const { rows } = await record.write((db) => sql`pragma synchronous`.execute(db));
    return rows[0] as object;
  } finally {
    await record.close();
  }
}

it('waits for the disk with each commit, unless what is written stands elsewhere as well', async () => {
  assert.deepEqual({ ...(await waitsOf({})) }, { synchronous: 2 });
  assert.deepEqual({ ...(await waitsOf({ isCopy: true })) }, { synchronous: 1 });
  assert.deepEqual({ ...(await waitsOf({ isCopy: false })) }, { synchronous: 2 });
});
