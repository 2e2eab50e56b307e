// Past jobs: imports jobs that another program has run. Only an import loads this file.

import { buildImportedJob, type ImportedJob } from '../lab/imported-job.ts';
import { readInstallationId } from './database.ts';
import { writeNewJob } from './jobs.ts';
import type { Database } from './sql.ts';

export async function addPastJob(db: Database, id: string, past: ImportedJob): Promise<void> {
  const { job, events } = buildImportedJob(past, { id, installation: await readInstallationId(db) });
  await writeNewJob(db, { job, events, manifest: past.manifest, wakeAt: null });
}
