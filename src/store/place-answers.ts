// Place answers: of each place the newest answer of each sort, from any job.

import { sql, type Database } from './sql.ts';
import type { PlaceAnswered } from '../core/place-answers.ts';

/** Keeps them. An answer of the same sort replaces an older one, and none that is newer. */
export async function writeAnswers(db: Database, answers: readonly PlaceAnswered[]): Promise<void> {
  for (const { project, zone, accelerator, pricing, answer, at, waited, job } of answers) {
    await sql`
      insert into place_answer (project, zone, accelerator, pricing, answer, at, waited, job)
      values (${project}, ${zone}, ${accelerator}, ${pricing}, ${answer}, ${at}, ${waited}, ${job})
      on conflict (project, zone, accelerator, pricing, answer)
      do update set at = excluded.at, waited = excluded.waited, job = excluded.job
      where excluded.at >= place_answer.at`.execute(db);
  }
}

/** All of one project, or of all; by place, the newest first. */
export async function readAnswers(db: Database, project: string | null): Promise<readonly PlaceAnswered[]> {
  const { rows } = await sql<PlaceAnswered>`
    select project, zone, accelerator, pricing, answer, at, waited, job from place_answer
    where ${project === null ? sql`1 = 1` : sql`project = ${project}`}
    order by project, zone, accelerator, pricing, at desc`.execute(db);
  return rows.map((row) => ({ ...row }));
}
