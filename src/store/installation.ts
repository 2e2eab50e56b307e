// Installation: the identity of a record, made once.

import { sql, type Database } from './sql.ts';

/** Six characters [a-z0-9]. A record that was opened for writing has them. */
export async function readInstallation(db: Database): Promise<string> {
  const { rows } = await sql<{ value: string }>`select value from meta where key = 'installation'`.execute(db);
  const found = rows[0]?.value;
  if (found === undefined) throw new Error('the record has no identity, which its first opening for writing gives it');
  return found;
}
