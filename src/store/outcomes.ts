// Outcomes: what came back from actions, kept until a pass has folded it into its job.

import { sql, type Database } from './sql.ts';
import type { StoredOutcome } from '../app/ports.ts';
import type { Outcome, OutcomeResult } from '../core/observation.ts';
import { subjectKey } from '../core/subject.ts';
import { next } from './counters.ts';
import { numberOf } from './job-numbers.ts';
import { subjectOf } from './subjects.ts';

/**
 * Keeps it in the place of an older one of the same action. It gets a number of its own, so that a pass which folded the
 * older one and commits later does not delete this one, which it never saw.
 */
export async function writeOutcome(db: Database, id: string, outcome: Outcome): Promise<void> {
  const number = numberOf(id);
  if (number === undefined) throw new Error(`"${id}" is no id of a job`);
  const key = subjectKey(outcome.subject);
  await sql`delete from outcome where job = ${number} and key = ${key}`.execute(db);
  await sql`
    insert into outcome (id, job, key, attempt, at, result)
    values (
      ${await next(db, 'outcome')}, ${number}, ${key}, ${outcome.attempt ?? null}, ${outcome.at},
      ${JSON.stringify(outcome.result)}
    )
  `.execute(db);
}

/** Those that wait for the job's next pass, oldest first. */
export async function readOutcomes(db: Database, id: string): Promise<readonly StoredOutcome[]> {
  const number = numberOf(id);
  if (number === undefined) return [];
  const { rows } = await sql<{ id: number; key: string; attempt: number | null; at: number; result: string }>`
    select id, key, attempt, at, result from outcome where job = ${number} order by id`.execute(db);
  return rows.flatMap((row) => {
    const subject = subjectOf(row.key);
    // An action of another version of jobman. It is requested again if it is still needed.
    if (subject === undefined) return [];
    const of = row.attempt !== null && { attempt: row.attempt };
    const result = JSON.parse(row.result) as OutcomeResult;
    return [{ id: row.id, outcome: { subject, ...of, at: row.at, result } }];
  });
}

/** Forgets those of that job with these numbers. */
export async function deleteOutcomes(db: Database, job: number, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return;
  await sql`delete from outcome where job = ${job} and id in (${sql.join(ids)})`.execute(db);
}
