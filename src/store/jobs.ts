// Jobs: the statements about jobs, their history, the outcomes of their actions, and the lease of the controller. The
// epoch of the lease grows with each new holder, and every commit names the epoch, so a controller that has lost the
// lease cannot write. Statements that write must run in a transaction.

import type { JobRow } from '../app/client.ts';
import type { NoticeChange } from '../app/notifications/notice.ts';
import { specOutline } from '../app/json.ts';
import type {
  Commit,
  CommitResult,
  FinalRows,
  JobFilter,
  JobPage,
  LeaseState,
  NewJob,
  Pause,
  RowPage,
  Store,
  StoredJob,
  StoredOutcome,
} from '../app/ports.ts';
import { newJob } from '../core/model/job.ts';
import type { Job } from '../core/model/job.ts';
import { subjectKey, subjectOf } from '../core/model/decision.ts';
import type { Event } from '../core/model/event.ts';
import type { Outcome, OutcomeResult } from '../core/model/observation.ts';
import { answersIn } from '../core/decide/capacity-answers.ts';
import { persistentTpuOf } from '../core/decide/allocate.ts';
import { minute, type Duration, type Instant } from '../core/model/time.ts';
import { auditWrites } from './audit.ts';
import { advance, lastGiven, nextNumber, requireRow } from './counters.ts';
import { readInstallationId, schemaVersion } from './database.ts';
import { fillGuards, guardColumns, heldWrites, isTpuFree, meetsGuard, type GuardColumns } from './guards.ts';
import { capacityAnswerWrites, locationColumns, locationWrites, type LocationColumns } from './locations.ts';
import { noticeWrites } from './notifications.ts';
import { passEntry, passWrites } from './passes.ts';
import { rowsIn } from './secrets.ts';
import { isOneOf, matchesGlob, sql, type Database, type Sql } from './sql.ts';
import { idOf, numberOf, jobOf, objectOf } from './stored-job.ts';
import { completeUsage, usageWrites } from './usage.ts';

export async function insertJob(
  db: Database,
  id: string,
  { owner, by, spec, at, manifest, ends = [] }: NewJob,
): Promise<StoredJob> {
  const installation = await readInstallationId(db);
  const tpu = persistentTpuOf(spec.capacity);
  const after = ends.map((end) => end.job.id);
  const waitsForTpu = tpu !== null && (after.length > 0 || !(await isTpuFree(db, tpu)));
  const request = { id, installation, owner, spec, at, waitsForTpu, ...(after.length > 0 && { after }) };
  const { job, event } = newJob({ ...request, ...(by !== undefined && { by }) });
  // Due at once, even if the clock was set back while the job waited to be stored.
  const wakeAt = 0;
  await writeNewJob(db, { job, events: [event], manifest, wakeAt });
  return { job, revision: 1, wakeAt };
}

const noRequest = { accelerator: null, zone: null, pricing: null };

export async function writeNewJob(
  db: Database,
  { job, events, manifest, wakeAt }: Pick<Commit, 'job' | 'events' | 'wakeAt'> & { readonly manifest: string },
  finalRows?: FinalRows,
): Promise<void> {
  const { owner, spec, createdAt } = job;
  const number = Number(job.id);
  const { finished_at, removed, status, holds, live } = statusColumns(job);
  const { accelerator, zone, pricing } = spec.capacity.kind === 'tpu' ? spec.capacity : noRequest;
  const insertion = sql`
    insert into job (number, revision, event_count, owner, name, created_at, finished_at, removed, wake_at,
                     outline, status, accelerator, zone, pricing, holds, live, checkpoint_storage)
    values (${number}, 1, ${events.length}, ${owner}, ${spec.name}, ${createdAt}, ${finished_at}, ${removed}, ${wakeAt},
            ${JSON.stringify(specOutline(spec))}, ${status}, ${accelerator}, ${zone}, ${pricing},
            ${holds}, ${live}, ${spec.command.checkpointStorage ?? null})`;
  await db.runAll([
    insertion,
    sql`insert into job_text (job, spec, manifest) values (${number}, ${JSON.stringify(spec)}, ${manifest})`,
    ...[...new Set(spec.tags)].map((tag) => sql`insert into job_tag (tag, job) values (${tag}, ${number})`),
    ...finalRowWrites(job, finalRows, false),
    ...eventWrites(number, 0, events),
    ...usageWrites(undefined, job),
    ...heldWrites(number, undefined, job),
    advance('change'),
  ]);
}

/** In the order of the ids, with whole specs; a missing id is skipped. */
export async function loadJobs(db: Database, ids: readonly string[]): Promise<readonly StoredJob[]> {
  const numbers = ids.map(numberOf).filter((number) => number !== undefined);
  if (numbers.length === 0) return [];
  const { rows } = await sql<{
    number: number;
    revision: number;
    wake_at: number | null;
    status: string;
    spec: string;
  }>`
    select job.number, job.revision, job.wake_at, job.status, job_text.spec
    from job join job_text on job_text.job = job.number
    where ${isOneOf(sql`job.number`, numbers)}`.execute(db);
  const found = new Map(rows.map((row) => [row.number, row]));
  return numbers.flatMap((number) => {
    const row = found.get(number);
    if (row === undefined) return [];
    return [{ job: jobOf(row.status, row.spec), revision: row.revision, wakeAt: row.wake_at }];
  });
}

interface StoredColumns {
  readonly event_count: number;
  readonly status: string;
  readonly finished_at: number | null;
  readonly last_pass: string | null;
}

/** See `Store.unlessNeeded`. */
export async function unlessNeeded(
  db: Database,
  ...[owner, isNeeded, act, audit]: Parameters<Store['unlessNeeded']>
): Promise<readonly string[]> {
  const { rows } = await sql<{ number: number }>`
    select number from job where owner = ${owner} and finished_at is null and removed = 0 order by number`.execute(db);
  const ids = rows.map(({ number }) => idOf(number));
  const needing = (await loadJobs(db, ids)).filter(({ job }) => isNeeded(job.spec)).map(({ job }) => job.id);
  if (needing.length > 0) return needing;
  await db.runAll(auditWrites(audit));
  await act(rowsIn(db));
  return [];
}

/** Loaded by the caller before the transaction, because reading commands do not need it. */
export type NoticesOf = (job: Job, events: readonly Event[]) => NoticeChange;

/** Writes the decision of a pass, or nothing when the job or the lease has changed since it was loaded. */
export async function commitJob(
  db: Database,
  commit: Commit,
  noticesOf: NoticesOf,
  finalRows?: FinalRows,
): Promise<CommitResult> {
  const { job, epoch } = commit;
  const number = numberOf(job.id);
  const { rows } = await sql<StoredColumns>`
    select event_count, status, finished_at, last_pass from job where number = ${number ?? null}`.execute(db);
  const stored = rows[0];
  const before =
    stored && (commit.guard !== undefined || commit.events.length > 0) ? jobBefore(stored, job) : undefined;
  if (commit.guard !== undefined && before !== undefined) {
    const request = { owner: job.owner, spec: job.spec, job: before };
    if (!(await meetsGuard(db, request, commit.guard, job.startRequest?.at ?? 0))) return 'unconfirmed';
  }
  const { finished_at, removed, status, location, collect_until, holds, live } = statusColumns(job);
  const entry = stored === undefined ? null : passEntry(commit, stored, status);
  const lease = sql`select 1 from lease where holder is not null and epoch = ${epoch}`;
  const isCurrent = epoch === null ? sql`1 = 1` : sql`exists (${lease})`;
  // The update itself decides: another writer may have committed, or taken the lease, since the row was read.
  const { rows: written } = await sql`
    update job
    set revision = revision + 1, event_count = event_count + ${commit.events.length},
        finished_at = ${finished_at}, removed = ${removed}, wake_at = ${commit.wakeAt},
        status = ${status}, location = ${location}, collect_until = ${collect_until}, live = ${live},
        last_pass = ${entry?.lastPass ?? null},
        holds = case when live = 1 and ${live} = 1 then holds else ${holds} end
    where number = ${number ?? null} and revision = ${commit.revision} and ${isCurrent}
      and (live = ${live} or ${live} = 0
        or not exists (select 1 from job as other where other.holds = ${holds} and other.live = 1))
    returning number`.execute(db);
  if (number === undefined || stored === undefined || entry === null || written.length === 0) {
    if (epoch !== null && (await lease.execute(db)).rows.length === 0) return 'lease_lost';
    if (stored === undefined) throw new Error(`cannot commit job ${job.id}: it is not in the database`);
    const current = sql`select 1 from job where number = ${number ?? null} and revision = ${commit.revision}`;
    return (await current.execute(db)).rows.length > 0 ? 'tpu_in_use' : 'stale';
  }
  const folded = commit.foldedOutcomes;
  await db.runAll([
    ...finalRowWrites(job, finalRows, stored.finished_at !== null),
    ...locationWrites(number, job),
    ...capacityAnswerWrites(answersIn(job, commit.events)),
    ...eventWrites(number, stored.event_count, commit.events),
    ...passWrites(number, commit, entry),
    ...(commit.events.length === 0 ? [] : [...usageWrites(before, job), ...heldWrites(number, before, job)]),
    ...noticeWrites(job.id, noticesOf(job, commit.events)),
    ...(folded.length === 0 ? [] : [sql`delete from outcome where job = ${number} and ${isOneOf(sql`id`, folded)}`]),
    ...auditWrites(commit.audit),
    // A new `wake_at` alone is not a change for clients that follow the job.
    ...(commit.events.length > 0 || status !== stored.status ? [advance('change')] : []),
  ]);
  return 'committed';
}

function jobBefore({ status }: StoredColumns, { spec }: Job): Job {
  return { ...jobOf(status, '{}'), spec };
}

/** Unfinished jobs first, newest first; then finished jobs, last finished first. Specs are outlines. */
export async function listJobs(db: Database, filter: JobFilter): Promise<JobPage> {
  const columns = sql`status, outline`;
  const { rows, more } = await readPage<{ status: string; outline: string }>(db, columns, filter);
  return { jobs: rows.map((row) => jobOf(row.status, row.outline)), more };
}

/** Reads little of a job with a stored row, because its other columns are long. */
export async function listRows(
  db: Database,
  filter: JobFilter,
  rowOf: (job: Job) => JobRow,
  version: number | null,
): Promise<RowPage> {
  const columns = sql`
    list_row.body as body,
    case when list_row.body is null then status end as status,
    case when list_row.body is null then outline end as outline`;
  const join = sql`left join list_row on list_row.job = number and list_row.version = ${version}`;
  type Columns = { body: string } | { body: null; status: string; outline: string };
  const { rows, more } = await readPage<Columns>(db, columns, filter, join);
  return {
    rows: rows.map((row) => (row.body === null ? rowOf(jobOf(row.status, row.outline)) : objectOf<JobRow>(row.body))),
    more,
  };
}

async function readPage<Columns>(
  db: Database,
  columns: Sql,
  filter: JobFilter,
  join: Sql = sql``,
): Promise<{ readonly rows: readonly Columns[]; readonly more: number }> {
  const { maxFinished, isFinished, page } = filter;
  const select = async (where: Sql, order: Sql) =>
    (
      await sql<Columns>`select ${columns} from job ${join} where ${where} and ${matches(filter)} order by ${order}`.execute(
        db,
      )
    ).rows;
  if (page !== undefined) {
    const isBefore = page.before === null ? sql`1 = 1` : sql`number < ${page.before}`;
    const rows = await select(isBefore, sql`number desc limit ${page.limit}`);
    return { rows, more: rows.length === page.limit ? 1 : 0 };
  }
  const unfinished = isFinished === true ? [] : await select(sql`finished_at is null`, sql`number desc`);
  if (isFinished === false) return { rows: unfinished, more: 0 };
  const limit = maxFinished === null ? sql`` : sql`limit ${maxFinished}`;
  const finished = await select(sql`finished_at is not null`, sql`finished_at desc, number desc ${limit}`);
  const rows = [...unfinished, ...finished];
  if (finished.length !== maxFinished) return { rows, more: 0 };
  const { rows: counts } = await sql<{ jobs: number }>`
    select count(*) as jobs from job where finished_at is not null and ${matches(filter)}`.execute(db);
  return { rows, more: Number(counts[0]?.jobs ?? 0) - finished.length };
}

function matches(filter: JobFilter): Sql {
  const parts: Sql[] = [];
  if (filter.includeRemoved !== true) parts.push(sql`removed = 0`);
  if (filter.ids !== undefined) parts.push(isOneOf(sql`number`, filter.ids));
  if (filter.name !== undefined) parts.push(sql`name = ${filter.name}`);
  if (filter.nameGlob !== undefined) parts.push(matchesGlob(sql`name`, filter.nameGlob));
  if (filter.owners !== undefined) parts.push(isOneOf(sql`owner`, filter.owners));
  if (filter.createdSince !== undefined) parts.push(sql`created_at >= ${filter.createdSince}`);
  if (filter.isFinished !== undefined)
    parts.push(filter.isFinished ? sql`finished_at is not null` : sql`finished_at is null`);
  if (filter.tag !== undefined) parts.push(sql`number in (select job from job_tag where tag = ${filter.tag})`);
  return parts.length === 0 ? sql`1 = 1` : sql.join(parts, sql` and `);
}

interface StatusColumns extends LocationColumns, GuardColumns {
  readonly finished_at: number | null;
  readonly removed: number;
  readonly status: string;
}

/** `status` is the job without its spec, which never changes. */
function statusColumns(job: Job): StatusColumns {
  const { spec: _, ...status } = job;
  return {
    finished_at: job.finish?.at ?? null,
    removed: job.removed ? 1 : 0,
    status: JSON.stringify(status),
    ...locationColumns(job),
    ...guardColumns(job),
  };
}

/** `hadRow`: the row of an earlier state may be stored. */
function finalRowWrites(job: Job, finalRows: FinalRows | undefined, hadRow: boolean): readonly Sql[] {
  const number = Number(job.id);
  const row = finalRows?.rowOf(job) ?? null;
  if (finalRows !== undefined && row !== null)
    return [
      sql`
        insert into list_row (job, version, body) values (${number}, ${finalRows.version}, ${JSON.stringify(row)})
        on conflict (job) do update set version = excluded.version, body = excluded.body`,
    ];
  return hadRow ? [sql`delete from list_row where job = ${number}`] : [];
}

/** See `Store.similarJobs`. */
export async function readSimilarJobs(
  db: Database,
  { accelerator, zone, pricing }: { readonly accelerator: string; readonly zone: string; readonly pricing: string },
  since: number,
  limit: number,
): Promise<readonly Job[]> {
  const { rows } = await sql<{ status: string; outline: string }>`
    select status, outline from job
    where accelerator = ${accelerator} and zone = ${zone} and pricing = ${pricing} and created_at >= ${since}
    order by number desc limit ${limit}`.execute(db);
  return rows.map((row) => jobOf(row.status, row.outline));
}

function eventWrites(number: number, last: number, events: readonly Event[]): readonly Sql[] {
  if (events.length === 0) return [];
  const values = events.map((event, index) => {
    const id = sql`${lastGiven('event')} - ${events.length - 1 - index}`;
    return sql`(${number}, ${last + index + 1}, ${id}, ${event.kind}, ${event.at}, ${JSON.stringify(event)})`;
  });
  return [
    advance('event', events.length),
    sql`insert into event (job, seq, id, kind, at, body) values ${sql.join(values)}`,
  ];
}

/** Numbers the events that an older controller has written during the upgrade. */
async function numberEvents(db: Database): Promise<void> {
  const { rows } = await sql<{ job: number; seq: number; body: string }>`
    select job, seq, body from event where id is null order by at, job, seq`.execute(db);
  for (const { job, seq, body } of rows) {
    const { kind } = objectOf<Event>(body);
    await sql`
      update event set id = ${await nextNumber(db, 'event')}, kind = ${kind}
      where job = ${job} and seq = ${seq}`.execute(db);
  }
}

/** Under a new id, because a pass that folded an older outcome of the same action must not delete this one. */
export async function writeOutcome(db: Database, id: string, outcome: Outcome): Promise<void> {
  const number = numberOf(id);
  if (number === undefined) throw new Error(`"${id}" is not a job id`);
  const subject = subjectKey(outcome.subject);
  await db.runAll([
    sql`delete from outcome where job = ${number} and subject = ${subject}`,
    advance('outcome'),
    sql`
      insert into outcome (id, job, subject, attempt, at, result)
      values (${lastGiven('outcome')}, ${number}, ${subject}, ${outcome.attempt ?? null}, ${outcome.at},
              ${JSON.stringify(outcome.result)})`,
  ]);
}

interface OutcomeRow {
  readonly id: number;
  readonly job: number;
  readonly subject: string;
  readonly attempt: number | null;
  readonly at: number;
  readonly result: string;
}

/** Of each of these jobs, oldest first. */
export async function readOutcomes(
  db: Database,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly StoredOutcome[]>> {
  const numbers = ids.map(numberOf).filter((number) => number !== undefined);
  const { rows } = await sql<OutcomeRow>`
    select id, job, subject, attempt, at, result from outcome
    where ${isOneOf(sql`job`, numbers)} order by id`.execute(db);
  const ofJobs = Map.groupBy(rows, ({ job }) => idOf(job));
  return new Map([...ofJobs].map(([id, outcomes]) => [id, outcomes.flatMap(outcomeOf)]));
}

/** None for an action of another version of jobman. A pass requests it again if it is still needed. */
function outcomeOf({ id, subject: key, attempt, at, result }: OutcomeRow): readonly StoredOutcome[] {
  const subject = subjectOf(key);
  if (subject === undefined) return [];
  const of = attempt !== null && { attempt };
  return [{ id, outcome: { subject, ...of, at, result: JSON.parse(result) as OutcomeResult } }];
}

// ------------------------------------------------------------------------------------------ the lease

/** A longer gap between two renewals is a pause: a running controller renews much more often. */
const minPause: Duration = minute;
/** Two pauses with less time between them count as one: work that failed before the first may not be done yet. */
const minPauseGap: Duration = 10 * minute;

interface LeaseRow {
  readonly holder: string | null;
  readonly epoch: number;
  readonly version: string;
  readonly expiresAt: number;
  readonly renewedAt: number | null;
  readonly from: number | null;
  readonly until: number | null;
  /** The current time by the clock of `expiresAt`. */
  readonly clock: number;
}

async function readLeaseRow(db: Database, now: Instant): Promise<LeaseRow> {
  const { rows } = await sql<LeaseRow>`
    select holder, epoch, version, expires_at as "expiresAt", renewed_at as "renewedAt", paused_from as "from",
      paused_until as "until", ${db.clock ?? sql`${now}`} as clock
    from lease where id = 1`.execute(db);
  return requireRow(rows[0]);
}

/** Null for a file. */
export async function readClock(db: Database): Promise<Instant | null> {
  if (db.clock === null) return null;
  const { rows } = await sql<{ clock: Instant }>`select ${db.clock} as clock`.execute(db);
  return requireRow(rows[0]).clock;
}

function stateOf({ holder, epoch, version, expiresAt, clock }: LeaseRow, now: Instant): LeaseState | undefined {
  return holder === null ? undefined : { holder, epoch, version, expiresAt: expiresAt + now - clock };
}

/** Undefined if no controller holds it. An expired lease is held until another controller takes it. */
export async function readLease(db: Database, now: Instant): Promise<LeaseState | undefined> {
  return stateOf(await readLeaseRow(db, now), now);
}

/** Takes a lease that is free, expired or ours, or whose holder is certainly dead. Else returns the holder's lease. */
export async function takeLease(
  db: Database,
  wanted: {
    readonly holder: string;
    readonly version: string;
    readonly now: Instant;
    readonly ttl: Duration;
    readonly holdsLock: boolean;
  },
): Promise<{ readonly taken: boolean; readonly lease: LeaseState }> {
  const row = await readLeaseRow(db, wanted.now);
  const held = stateOf(row, wanted.now);
  const ours = held?.holder === wanted.holder;
  const isDead = wanted.holdsLock && held !== undefined && lockOf(held.holder) === lockOf(wanted.holder);
  if (held !== undefined && !ours && held.expiresAt > wanted.now && !isDead) return { taken: false, lease: held };
  const pause = pauseAt(row, wanted.now);
  // Each renewal, release and new holder changes the epoch or the time.
  const { rows } = await sql<{ epoch: number }>`
    update lease
    set holder = ${wanted.holder}, epoch = epoch + ${ours ? 0 : 1}, version = ${wanted.version},
        expires_at = ${row.clock + wanted.ttl}, renewed_at = ${wanted.now},
        paused_from = ${pause?.from ?? null}, paused_until = ${pause?.until ?? null}
    where id = 1 and epoch = ${row.epoch} and expires_at = ${row.expiresAt} returning epoch`.execute(db);
  if (rows.length === 0) return takeLease(db, wanted);
  const { epoch } = requireRow(rows[0]);
  if (!ours) {
    if (await completeUsage(db, schemaVersion)) await fillGuards(db);
    await numberEvents(db);
  }
  const { holder, version, now, ttl } = wanted;
  return {
    taken: true,
    lease: { holder, epoch, version, expiresAt: now + ttl, ...(pause !== undefined && { pause }) },
  };
}

export async function releaseLease(db: Database, holder: string): Promise<void> {
  await sql`update lease set holder = null, expires_at = 0 where id = 1 and holder = ${holder}`.execute(db);
}

/** Names the lock of the holder's home among the homes that share a database: `PID-RANDOM@LOCK`. Empty for a file. */
function lockOf(holder: string): string {
  return holder.replace(/^[^@]*@?/, '');
}

/** The newest pause at the time of a renewal. Times from a clock that was ahead are limited to `now`. */
function pauseAt({ renewedAt, from, until }: LeaseRow, now: Instant): Pause | undefined {
  const last = from === null || until === null ? undefined : { from: Math.min(from, now), until: Math.min(until, now) };
  if (renewedAt === null || now - renewedAt <= minPause) return last;
  const isSame = last !== undefined && renewedAt - last.until < minPauseGap;
  return { from: isSame ? last.from : renewedAt, until: now };
}
