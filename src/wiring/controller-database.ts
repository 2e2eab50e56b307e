// The database of the running controller of a home. JOBMAN_DATABASE may differ between two shells.

import { basename } from 'node:path';
import { readController } from '../controller/lock.ts';
import type { DatabaseAddress } from '../store/open-database.ts';
import { databaseOf } from './paths.ts';

/** For messages and `controller.json`: without the password. */
export async function databaseName(database: DatabaseAddress): Promise<string> {
  if ('file' in database) return basename(database.file);
  return (await import('../store/postgres-errors.ts')).displayUrl(database.url);
}

/** The database of the running controller if it is not the one of this command; else null. */
export async function otherDatabase(parts: Parameters<typeof databaseOf>[0]): Promise<string | null> {
  const used = readController(parts.home)?.database ?? null;
  if (used === null) return null;
  return withoutUser(used) === withoutUser(await databaseName(databaseOf(parts))) ? null : used;
}

/** Each login of a shared home may have its own user in one database. */
function withoutUser(name: string): string {
  return name.replace(/\/\/[^/@]*@/, '//');
}
