// Past jobs: writes down what another program has run. Loaded by an import alone.

import { pastJob, type PastJob } from '../lab/past-job.ts';
import { nextId, writeNew, type IsTaken } from './jobs.ts';
import { addLabJob } from './lab-windows.ts';
import { readInstallation } from './record-file.ts';
import { sql, type Database } from './sql.ts';
import { numberOf } from './stored-job.ts';

/** See LabRecord. */
export async function addPastJob(db: Database, past: PastJob, isTaken: IsTaken): Promise<string> {
  const id = await nextId(db, past.owner, isTaken);
  const { job, events } = pastJob(past, { id, installation: await readInstallation(db) });
  await writeNew(db, { job, events, manifest: past.manifest, wakeAt: null });
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
