// Guards: the columns and rows by which a new job, or a new start, is compared with the other jobs in its transaction.

import type { FactsNeeded, Guard, GuardedRequest, GuardFacts } from '../core/policy/guards.ts';
import { persistentTpuOf } from '../core/decide/allocate.ts';
import { usesPersistentTpu } from '../core/policy/admission.ts';
import { heldCapacity, periodStarts, type HeldCapacity } from '../core/policy/grants.ts';
import type { LimitFacts } from '../core/policy/limits.ts';
import { ownersLike, type UserName } from '../core/model/user.ts';
import type { Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import { isOneOf, sql, type Database, type Sql } from './sql.ts';
import { idOf, jobOf } from './stored-job.ts';
import { readSpending } from './usage.ts';

export interface GuardColumns {
  readonly holds: string | null;
  readonly live: number;
}

/** `live`: at most one job of each persistent TPU. */
export function guardColumns(job: Job): GuardColumns {
  return { holds: persistentTpuOf(job.spec.capacity), live: usesPersistentTpu(job) ? 1 : 0 };
}

/** Unfinished jobs on the same TPU: the one that uses it comes first. */
async function readJobsOnTpu(db: Database, tpu: string): Promise<readonly Job[]> {
  return readOutlines(db, sql`holds = ${tpu} and finished_at is null and removed = 0 order by live desc, number`);
}

export async function isTpuFree(db: Database, tpu: string): Promise<boolean> {
  return (await readJobsOnTpu(db, tpu)).length === 0;
}

/** See `Store.guardFacts`. */
export async function readGuardFacts(db: Database, needed: FactsNeeded, now: Instant): Promise<GuardFacts> {
  const { tpu, checkpointStorage: storage, held, newest, limitsOf } = needed;
  const limits = limitsOf === null ? null : await readLimits(db, limitsOf);
  const hasDailyBudget = limits !== null && limits.limits.usdPerDay !== null;
  const starts = needed.periodStarts ?? (hasDailyBudget ? periodStarts(now) : null);
  return {
    onTpu: tpu === null ? [] : await readJobsOnTpu(db, tpu),
    onCheckpoints:
      storage === null
        ? []
        : await readOutlines(
            db,
            sql`checkpoint_storage = ${storage} and finished_at is null and removed = 0 order by number`,
          ),
    held: held ? await readHeld(db) : [],
    spending: starts === null ? [] : await readSpending(db, starts, now),
    limits,
    newest: newest === null ? null : await readNewest(db, newest),
  };
}

/** The limits of the owner's user and what counts against them, with the jobs of the user's logins. */
async function readLimits(db: Database, owner: UserName): Promise<LimitFacts | null> {
  const { rows } = await sql<{ user: string; limits: string }>`
    select owner as "user", limits from user_limit
    where owner = ${owner} or (owner in (select owner from login where login = ${owner})
      and not exists (select 1 from users where name = ${owner}))`.execute(db);
  const [row] = rows;
  if (row === undefined) return null;
  // Most users have no limits, so these are loaded here.
  const [{ limitsOf }, { readUsers }] = await Promise.all([import('./user-changes.ts'), import('./users.ts')]);
  const limits = limitsOf(row.limits);
  const owners = ownersLike(row.user, await readUsers(db));
  const unfinished = await sql<{ number: number }>`
    select number from job where finished_at is null and removed = 0 and ${isOneOf(sql`owner`, owners)}`.execute(db);
  const held = limits.chips === null ? [] : await readHeld(db, owners);
  return { user: row.user, limits, unfinished: unfinished.rows.map(({ number }) => idOf(number)), held };
}

async function readNewest(db: Database, { owner, name }: NonNullable<FactsNeeded['newest']>): Promise<string | null> {
  const { rows } = await sql<{ number: number }>`
    select number from job where name = ${name} and owner = ${owner} order by number desc limit 1`.execute(db);
  return rows[0] === undefined ? null : idOf(rows[0].number);
}

/** False if the guard has a reason that is not confirmed. */
export async function meetsGuard(db: Database, request: GuardedRequest, guard: Guard, now: Instant): Promise<boolean> {
  // Loaded here, because most commands write no start request.
  const { checkGuard, factsNeeded } = await import('../core/policy/guards.ts');
  const facts = await readGuardFacts(db, factsNeeded(request, guard.grants, now), now);
  return checkGuard(request, guard, facts, now).reasons.length === 0;
}

async function readOutlines(db: Database, where: Sql): Promise<readonly Job[]> {
  const { rows } = await sql<{ status: string; outline: string }>`
    select status, outline from job where ${where}`.execute(db);
  return rows.map(({ status, outline }) => jobOf(status, outline));
}

async function readHeld(db: Database, owners?: readonly UserName[]): Promise<readonly HeldCapacity[]> {
  const ofOwners =
    owners === undefined ? sql`` : sql`where job in (select number from job where ${isOneOf(sql`owner`, owners)})`;
  const { rows } = await sql<Omit<HeldCapacity, 'job'> & { readonly job: number }>`
    select job, accelerator, zone, pricing, chips from held ${ofOwners} order by job, seq`.execute(db);
  return rows.map((row) => ({ ...row, job: idOf(row.job) }));
}

/** Writes the rows of the job if they differ. `before` is the job as stored; undefined for a new one. */
export function heldWrites(number: number, before: Job | undefined, job: Job): readonly Sql[] {
  const [old, rows] = [before === undefined ? [] : heldCapacity(before), heldCapacity(job)];
  if (JSON.stringify(old) === JSON.stringify(rows)) return [];
  return [
    sql`delete from held where job = ${number}`,
    ...rows.map(
      ({ accelerator, zone, pricing, chips }, seq) => sql`
        insert into held (job, seq, accelerator, zone, pricing, chips)
        values (${number}, ${seq}, ${accelerator}, ${zone}, ${pricing}, ${chips})`,
    ),
  ];
}

/**
 * Writes the columns and rows of all jobs again. Of two jobs that an older version let use one TPU at the same time, the
 * later one has no `holds` until it finishes.
 */
export async function fillGuards(db: Database): Promise<void> {
  await sql`update job set live = 0`.execute(db);
  await sql`delete from held`.execute(db);
  const { rows } = await sql<{ number: number; status: string; outline: string }>`
    select number, status, outline from job order by number`.execute(db);
  const used = new Set<string>();
  for (const { number, status, outline } of rows) {
    const job = jobOf(status, outline);
    const { holds, live } = guardColumns(job);
    const isSecond = live === 1 && holds !== null && used.has(holds);
    if (live === 1 && holds !== null) used.add(holds);
    const storage = job.spec.command.checkpointStorage ?? null;
    if (holds !== null || storage !== null)
      await sql`
        update job set holds = ${isSecond ? null : holds}, live = ${live}, checkpoint_storage = ${storage}
        where number = ${number}`.execute(db);
    await db.runAll(heldWrites(number, undefined, job));
  }
}
