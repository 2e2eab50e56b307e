// Past jobs: imports jobs that another program has run. Only an import loads this file.

import { buildImportedJob, type ImportedJob } from '../lab/imported-job.ts';
import { nextId, writeNewJob, type IsIdTaken } from './jobs.ts';
import { addLabJob } from './lab-windows.ts';
import { readInstallationId } from './database-file.ts';
import { sql, type Database } from './sql.ts';
import { numberOf } from './stored-job.ts';

/** See `LabStore.addImportedJob`. */
export async function addPastJob(db: Database, past: ImportedJob, isIdTaken: IsIdTaken): Promise<string> {
  const id = await nextId(db, past.owner, isIdTaken);
  const { job, events } = buildImportedJob(past, { id, installation: await readInstallationId(db) });
  await writeNewJob(db, { job, events, manifest: past.manifest, wakeAt: null });
  const { lab, window } = past;
  if (lab === null) return id;
  await addLabJob(db, { ...lab, job: id, user: past.owner });
  if (window === null) return id;
  const report = window.report === null ? null : JSON.stringify(window.report);
  await sql`
    insert into lab_window (job, attempt, owner, session, number, opened_at, report, finished_at, cleared_at)
    values (${numberOf(id) ?? null}, 1, ${past.owner}, ${window.session}, ${window.window}, ${past.createdAt}, ${report},
            ${window.finishedAt}, ${window.cleared ? past.endedAt : null})`.execute(db);
  return id;
}
