import type { Services } from '../app/services.ts';
import { withReadOnlyStore } from '../store/store.ts';
import { databaseOf, hasDatabase } from './paths.ts';

/** Null before the first write. Never creates one. */
export async function readInstallationId(services: Pick<Services, 'home' | 'io'>): Promise<string | null> {
  const database = databaseOf(services);
  return hasDatabase(database) ? withReadOnlyStore(database, (store) => store.installationId()) : null;
}
