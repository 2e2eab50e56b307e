// Past jobs: imports jobs that another program has run. Only an import loads this file.

import { buildImportedJob, type ImportedJob } from '../lab/imported-job.ts';
import { readInstallationId } from './database.ts';
import { nextId, writeNewJob, type IsIdTaken } from './jobs.ts';
import type { Database } from './sql.ts';

export async function addPastJob(db: Database, past: ImportedJob, isIdTaken: IsIdTaken): Promise<string> {
  const id = await nextId(db, past.owner, isIdTaken);
  const { job, events } = buildImportedJob(past, { id, installation: await readInstallationId(db) });
  await writeNewJob(db, { job, events, manifest: past.manifest, wakeAt: null });
  return id;
}
