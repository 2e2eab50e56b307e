// Past jobs: imports jobs that another program has run. Only an import loads this file.

import type { FinalRows } from '../app/ports.ts';
import { buildImportedJob, type ImportedJob } from '../lab/imported-job.ts';
import { readInstallationId } from './database.ts';
import { writeNewJob } from './jobs.ts';
import type { Database } from './sql.ts';

export async function addPastJob(db: Database, id: string, past: ImportedJob, finalRows?: FinalRows): Promise<void> {
  const { job, events } = buildImportedJob(past, { id, installation: await readInstallationId(db) });
  await writeNewJob(db, { job, events, manifest: past.manifest, wakeAt: null }, finalRows);
}
