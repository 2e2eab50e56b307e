import type { Services } from '../app/services.ts';
import { findInstallationId } from '../store/database.ts';
import { openDatabase } from '../store/open-database.ts';
import { databaseOf, hasDatabase } from './paths.ts';

/** Null before the first write, also for a database on a server, which exists before. Never creates one. */
export async function readInstallationId(services: Pick<Services, 'home' | 'io'>): Promise<string | null> {
  const address = databaseOf(services);
  if (!hasDatabase(address)) return null;
  const database = openDatabase(address);
  try {
    return await database.read(async (db) => (await findInstallationId(db)) ?? null);
  } finally {
    await database.close();
  }
}
