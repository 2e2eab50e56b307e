// Passes: the recorded passes of a job. The job's row holds the newest one whole; each row of `pass` holds the way back
// from the state after its commit to the state before, so that removing the oldest rows leaves the others readable.
// Statements that write must run in a transaction.

import type { Commit, RecordedStep } from '../app/ports.ts';
import { applyDelta, deltaOf, type Delta, type Json, type JsonObject } from '../core/model/json-delta.ts';
import type { Event } from '../core/model/event.ts';
import { passFormat, type RecordedPass } from '../core/model/recorded-pass.ts';
import type { Instant } from '../core/model/time.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { jobOf, numberOf, objectOf } from './stored-job.ts';

/** The newest recorded commit of a job: `job.last_pass`. */
interface LastPass {
  readonly seq: number;
  /** The revision that it describes. With another one, a version without recorded passes has written the job. */
  readonly revision: number;
  /** Null after a commit that no pass made, such as a command. */
  readonly pass: RecordedPass | null;
  /** Later passes that decided the same and changed nothing, and the time of the last. */
  readonly repeats: number;
  readonly repeatedAt: Instant | null;
}

/** The state of a job before or after a recorded commit. */
type State = { readonly job: Json } & Pick<LastPass, 'pass' | 'repeats' | 'repeatedAt'>;

interface PassRow {
  readonly seq: number;
  readonly at: Instant;
  /** Null: no pass made the commit. */
  readonly situation: string | null;
  readonly eventsBefore: number;
  readonly eventsAfter: number;
  /** 0: the state before the commit is not the one after the row before. */
  readonly isLinked: number;
  readonly back: string;
}

/** The job's row before the commit. */
interface Before {
  readonly event_count: number;
  readonly status: string;
  readonly last_pass: string | null;
}

/** The record of a commit. Without `row`, the commit repeats the last pass, or nothing is recorded. */
export interface PassEntry {
  readonly lastPass: string | null;
  readonly row?: PassRow;
}

/** `status` is the job after the commit. */
export function passEntry(commit: Commit, before: Before, status: string): PassEntry {
  const { record, events, job } = commit;
  const last = before.last_pass === null ? null : objectOf<LastPass>(before.last_pass);
  if (record === null || (record === undefined && last === null)) return { lastPass: null };
  const isLinked = last?.revision === commit.revision;
  const revision = commit.revision + 1;
  const isSame = status === before.status && events.length === 0 && commit.foldedOutcomes.length === 0;
  if (isLinked && isSame && isRepeat(last, record?.pass)) {
    const repeated = record === undefined ? {} : { repeats: last.repeats + 1, repeatedAt: record.pass.now };
    return { lastPass: JSON.stringify({ ...last, revision, ...repeated }) };
  }
  const seq = (last?.seq ?? 0) + 1;
  const next: LastPass = { seq, revision, pass: record?.pass ?? null, repeats: 0, repeatedAt: null };
  const [after, old] = status === before.status ? ['{}', '{}'] : [status, before.status];
  const back = deltaOf(stateOf(after, next), stateOf(old, isLinked ? last : null));
  return {
    lastPass: JSON.stringify(next),
    row: {
      seq,
      at: record?.pass.now ?? events.at(-1)?.at ?? last?.pass?.now ?? 0,
      situation: record === undefined ? null : (job.situation ?? ''),
      eventsBefore: before.event_count,
      eventsAfter: before.event_count + events.length,
      isLinked: isLinked ? 1 : 0,
      back: JSON.stringify(back ?? {}),
    },
  };
}

/** True for a commit without a pass that changes nothing, and for a pass that requests the same actions as the last. */
function isRepeat(last: LastPass, pass: RecordedPass | undefined): boolean {
  if (pass === undefined) return true;
  return (
    last.pass !== null && deltaOf(last.pass.actions as unknown as Json, pass.actions as unknown as Json) === undefined
  );
}

function stateOf(status: string, last: LastPass | null): Json {
  const { pass = null, repeats = 0, repeatedAt = null } = last ?? {};
  return { job: objectOf<JsonObject>(status), pass: pass as unknown as Json, repeats, repeatedAt };
}

/** Every so many commits of a job remove expired rows, and no more than that, so that none takes long after a holiday. */
const expiryInterval = 20;
const maxExpired = 200;

/** Also removes the passes beyond the limits of the record. */
export function passWrites(job: number, { record }: Commit, { row }: PassEntry): readonly Sql[] {
  if (record === null) return [sql`delete from pass where job = ${job}`];
  if (row === undefined) return [];
  const { seq, at, situation, eventsBefore, eventsAfter, isLinked, back } = row;
  const writes = [
    sql`
      insert into pass (job, seq, at, situation, events_before, events_after, is_linked, back)
      values (${job}, ${seq}, ${at}, ${situation}, ${eventsBefore}, ${eventsAfter}, ${isLinked}, ${back})`,
  ];
  if (record === undefined) return writes;
  const newestRemoved = seq - record.maxCount;
  if (newestRemoved > 0) writes.push(sql`delete from pass where job = ${job} and seq <= ${newestRemoved}`);
  if (seq % expiryInterval === 1)
    writes.push(sql`
      delete from pass where (job, seq) in (
        select job, seq from pass where at < ${record.since} order by at limit ${maxExpired}
      )`);
  return writes;
}

/** Oldest first. */
export async function readPasses(db: Database, id: string): Promise<readonly RecordedStep[]> {
  const number = numberOf(id) ?? null;
  const { rows: jobs } = await sql<{ revision: number; status: string; last_pass: string | null; spec: string }>`
    select job.revision, job.status, job.last_pass, job_text.spec
    from job join job_text on job_text.job = job.number where job.number = ${number}`.execute(db);
  const { rows } = await sql<PassRow>`
    select seq, at, situation, events_before as "eventsBefore", events_after as "eventsAfter", is_linked as "isLinked",
      back
    from pass where job = ${number} order by seq desc`.execute(db);
  const [job] = jobs;
  const newest = rows[0];
  if (job === undefined || newest === undefined) return [];
  const first = rows.at(-1)?.eventsBefore ?? 0;
  const { rows: bodies } = await sql<{ seq: number; body: string }>`
    select seq, body from event where job = ${number} and seq > ${first} order by seq`.execute(db);
  const events = new Map(bodies.map(({ seq, body }) => [seq, objectOf<Event>(body)]));
  const last = job.last_pass === null ? null : objectOf<LastPass>(job.last_pass);
  const isWhole = last?.revision === job.revision && last.seq === newest.seq;
  let state = isWhole ? (stateOf(job.status, last) as unknown as State) : undefined;
  const steps: RecordedStep[] = [];
  for (const [index, row] of rows.entries()) {
    const { seq, at, situation, eventsBefore, eventsAfter } = row;
    const before = state && stateBefore(state, row.back);
    steps.push({
      seq,
      at,
      situation,
      events: eventsIn(events, eventsBefore, eventsAfter),
      inputs:
        state === undefined || before === undefined || state.pass?.format !== passFormat
          ? null
          : {
              pass: state.pass,
              before: jobOf(JSON.stringify(before.job), job.spec),
              after: jobOf(JSON.stringify(state.job), job.spec),
            },
      repeats: state?.repeats ?? 0,
      repeatedAt: state?.repeatedAt ?? null,
    });
    state = row.isLinked === 1 && rows[index + 1]?.seq === seq - 1 ? before : undefined;
  }
  return steps.toReversed();
}

/** Undefined for a damaged row. */
function stateBefore(state: State, back: string): State | undefined {
  try {
    return applyDelta(state as unknown as Json, objectOf<Delta>(back)) as unknown as State;
  } catch {
    return undefined;
  }
}

function eventsIn(events: ReadonlyMap<number, Event>, before: number, after: number): readonly Event[] {
  const found: Event[] = [];
  for (let seq = before + 1; seq <= after; seq += 1) {
    const event = events.get(seq);
    if (event !== undefined) found.push(event);
  }
  return found;
}
