// Copied home: a home that was copied on this machine has the same installation id, job ids and runs as its original. Work in it would
// end the original's programs, so the record says where its home is.

import { realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { StoreError } from '../app/errors.ts';
import { sql, type Database } from './sql.ts';

/**
 * Throws a StoreError when the home of this record is a copy and its original is still there. A home that was moved, restored or that
 * is reached by another path is accepted, and its path is recorded.
 */
export async function refuseCopy(db: Database, file: string): Promise<void> {
  const home = realpathSync(dirname(file));
  const { rows } = await sql<{ value: string }>`select value from meta where key = 'home'`.execute(db);
  const recorded = rows[0]?.value;
  if (recorded === home) return;
  if (recorded !== undefined && isOther(join(recorded, basename(file)), file))
    throw new StoreError('copied', `${home} is a copy of ${recorded}, which is still there. Nothing was changed.`, [
      `Both have the same jobs, so each could end the programs of the other. Use the original: JOBMAN_HOME=${recorded}`,
      'To use the copy instead, end the jobs of the original and then move the original to another path.',
    ]);
  await sql`insert into meta (key, value) values ('home', ${home})
    on conflict (key) do update set value = excluded.value`.execute(db);
}

/** True when both records are there and are two files. */
function isOther(one: string, other: string): boolean {
  const [first, second] = [one, other].map((path) => statOf(path));
  return first !== undefined && second !== undefined && (first.ino !== second.ino || first.dev !== second.dev);
}

function statOf(path: string): { readonly ino: number; readonly dev: number } | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}
