// Store: the database of all jobs, as the rest of the program sees it. open-database.ts opens it.

import type { ClusterStore } from '../app/cluster/objects.ts';
import { StoreError } from '../app/errors.ts';
import type { NotificationStore } from '../app/notifications/outbox.ts';
import type {
  AccessStore,
  Commit,
  LoadFinalRows,
  NewJob,
  Orphan,
  SecretRows,
  Store,
  StoredJob,
  UserStore,
} from '../app/ports.ts';
import type { AnswerRecord } from '../core/decide/capacity-answers.ts';
import type { Event } from '../core/model/event.ts';
import type { LabStore } from '../lab/lab-store.ts';
import { accessStore } from './access.ts';
import { auditWrites } from './audit.ts';
import { clusterStore } from './cluster-jobs.ts';
import { meetsGuard, readGuardFacts } from './guards.ts';
import { createdWith, creationKeyWrites } from './creation-keys.ts';
import * as jobs from './jobs.ts';
import { createWriteWithId, type IsIdTaken } from './job-ids.ts';
import { addLabEntry, addLabRestart, followEvents, labStore } from './lab.ts';
import * as locations from './locations.ts';
import { notificationStore } from './notifications.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { idOf, maxNumber, numberOf, objectOf } from './stored-job.ts';
import { putWrite, rowsIn, secretRows } from './secrets.ts';
import { readPasses } from './passes.ts';
import { readUsers } from './users.ts';
import { readUsage, readSpending, readCostliestJobs, readUsageSums } from './usage.ts';
import { readInstallationId } from './database.ts';
import { openDatabase, type DatabaseAddress, type OpenDatabaseOptions } from './open-database.ts';
import type { RunOperation } from './database.ts';

type OpenStoreOptions = OpenDatabaseOptions & {
  /** Default: no id is taken. */
  readonly isIdTaken?: IsIdTaken;
  /** Loaded for commits and lists. By default no rows are kept. */
  readonly finalRows?: LoadFinalRows;
};

/** The whole database. Code that decides about jobs uses only `Store`, without clusters and the lab. */
export interface JobmanStore extends Store, UserStore {
  readonly access: AccessStore;
  readonly secrets: SecretRows;
  readonly clusters: ClusterStore;
  readonly notifications: NotificationStore;
  readonly lab: LabStore;
}

/** Rolls the transaction back: a job of `ends` has changed, or the request is stored already. */
class StaleRequest extends Error {}

/** Opens nothing yet: the first use of a method does, and throws StoreError when it cannot. */
export function openStore({ isIdTaken, finalRows, ...given }: OpenStoreOptions): JobmanStore {
  const { read, readTogether, readBeforeWriting, write, writeTogether, requireUsable, notify, listen, close } =
    openDatabase(given);
  const writeWithId = createWriteWithId(readBeforeWriting, write, isIdTaken);
  const outcomesOf = readTogether(jobs.readOutcomes);
  const select = <Row extends object>(statement: Sql<Row>): Promise<readonly Row[]> =>
    read(async (db) => (await statement.execute(db)).rows.map((row) => ({ ...row })));
  const readNumber = async (statement: Sql): Promise<number | null> =>
    (await select(statement as Sql<{ value: number | null }>))[0]?.value ?? null;
  async function insert(db: Database, id: string, job: NewJob): Promise<StoredJob> {
    await job.check?.(rowsIn(db));
    const stored = await jobs.insertJob(db, id, job);
    if (job.sealed !== undefined) await db.runAll(job.sealed(id).map(putWrite));
    if (job.lab !== undefined) await addLabEntry(db, stored.job, job.lab);
    if (job.key !== undefined) await db.runAll(creationKeyWrites(job.key, id, job.at));
    if (job.audit !== undefined) await db.runAll(auditWrites({ ...job.audit, object: { kind: 'job', id } }));
    return stored;
  }
  /** Before the job that takes their TPU is written, so that nothing is stored if one of them has changed. */
  async function commitEnds(db: Database, ends: readonly Commit[] = []): Promise<void> {
    if (ends.length === 0) return;
    const [{ noticesOf }, rows] = await Promise.all([import('../app/notifications/notice.ts'), finalRows?.()]);
    for (const end of ends)
      if ((await jobs.commitJob(db, end, noticesOf, rows)) !== 'committed') throw new StaleRequest();
  }
  return {
    // For callers that are about to write: a new database must get its installation id first.
    installationId: () => readBeforeWriting(readInstallationId),
    insert: (job) => writeWithId(job.owner, (db, id) => insert(db, id, job)),
    insertGuarded: (job, guard) =>
      writeWithId(job.owner, async (db, id) => {
        const { owner, spec, at } = job;
        if (job.key !== undefined && (await createdWith(db, job.key, at)) !== null) throw new StaleRequest();
        if (!(await meetsGuard(db, { owner, spec, job: null }, guard, at))) return 'unconfirmed';
        await commitEnds(db, job.ends);
        return insert(db, id, job);
      }).catch((error: unknown) => {
        if (error instanceof StaleRequest) return 'unconfirmed';
        throw error;
      }),
    createdWith: (key, now) => read((db) => createdWith(db, key, now)),
    guardFacts: (needed, now) => read((db) => readGuardFacts(db, needed, now)),
    unlessNeeded: (...given) => write((db) => jobs.unlessNeeded(db, ...given)),
    load: readTogether(
      async (db, ids) => new Map((await jobs.loadJobs(db, ids)).map((stored) => [stored.job.id, stored])),
    ),
    loadMany: (ids) => read((db) => jobs.loadJobs(db, ids)),
    async commit(commit) {
      const [{ noticesOf }, rows] = await Promise.all([import('../app/notifications/notice.ts'), finalRows?.()]);
      // A guard and an end compare the job with others.
      const isAlone = commit.epoch === null || commit.guard !== undefined || commit.ends !== undefined;
      return (isAlone ? write : writeTogether)(async (db) => {
        await commit.check?.(rowsIn(db));
        const result = await jobs.commitJob(db, commit, noticesOf, rows);
        if (result !== 'committed') return result;
        await commitEnds(db, commit.ends);
        if (commit.lab !== undefined) await addLabRestart(db, commit.job, commit.lab);
        await followEvents(db, commit.job, commit.events);
        return result;
      }).catch((error: unknown) => {
        if (error instanceof StaleRequest) return 'stale';
        throw error;
      });
    },
    manifest: async (id) =>
      (await select(sql<{ manifest: string }>`select manifest from job_text where job = ${numberOf(id) ?? null}`))[0]
        ?.manifest ?? null,
    list: (filter) => read((db) => jobs.listJobs(db, filter)),
    async listRows(filter, rowOf) {
      const version = (await finalRows?.())?.version ?? null;
      return read((db) => jobs.listRows(db, filter, rowOf, version));
    },
    ...eventStatements(read),
    passes: (id) => read((db) => readPasses(db, id)),
    addOutcome: (id, outcome) => writeTogether((db) => jobs.writeOutcome(db, id, outcome)),
    outcomes: async (id) => (await outcomesOf(id)) ?? [],
    dueJobs: (now, limit) =>
      read(async (db) => {
        const { rows } = await sql<{ number: number }>`
          select number from (
            select number, wake_at as since from job where wake_at <= ${now}
            union all
            select job as number, min(at) as since from outcome group by job
          ) as wanted
          group by number order by min(since), number limit ${limit}`.execute(db);
        return rows.map((row) => idOf(row.number));
      }),
    nextWake: () => readNumber(sql`select min(wake_at) as value from job where wake_at is not null`),
    wakeAt: (id) => readNumber(sql`select wake_at as value from job where number = ${numberOf(id) ?? null}`),
    similarJobs: (requested, since, limit) => read((db) => jobs.readSimilarJobs(db, requested, since, limit)),
    usage: (filter, span) => read((db) => readUsage(db, filter, span)),
    usageSums: (filter, by, now) => read((db) => readUsageSums(db, filter, by, now)),
    costliestJobs: (filter, limit, now) => read((db) => readCostliestJobs(db, filter, limit, now)),
    spending: (starts, now) => read((db) => readSpending(db, starts, now)),
    changeCount: async () => (await readNumber(sql`select value from counter where name = 'change'`)) ?? 0,
    takeLease: (holder, version, now, ttl, holdsLock) =>
      write((db) => jobs.takeLease(db, { holder, version, now, ttl, holdsLock })),
    releaseLease: (holder) => write((db) => jobs.releaseLease(db, holder)),
    lease: (now) => read((db) => jobs.readLease(db, now)),
    clock: () => read(jobs.readClock),
    capacityAnswers: (project) =>
      select(sql<AnswerRecord>`
        select project, zone, accelerator, pricing, answer, at, waited, job from capacity_answer
        where ${project === null ? sql`1 = 1` : sql`project = ${project}`}
        order by project, zone, accelerator, pricing, at desc, answer`),
    locationsToCollect: (now) => read((db) => locations.readLocationsToCollect(db, now)),
    ...orphanStatements(read, write),
    requireUsable,
    notify,
    listen,
    users: () => read(readUsers),
    access: accessStore(read, write),
    secrets: secretRows(read, write),
    clusters: clusterStore(read, write),
    notifications: notificationStore(read, write),
    lab: labStore(read, write, { isIdTaken, finalRows }),
    close,
  };
}

function orphanStatements(
  read: RunOperation,
  write: RunOperation,
): Pick<JobmanStore, 'recordOrphan' | 'orphans' | 'forgetOrphan'> {
  return {
    async recordOrphan(orphan, foundAt) {
      const { orphanNotice } = await import('../app/notifications/notice.ts');
      const notices = foundAt === undefined ? [] : [orphanNotice(orphan, foundAt)];
      return write((db) => locations.writeOrphan(db, orphan, notices));
    },
    orphans: () =>
      read(async (db) => {
        const { rows } = await sql<Orphan>`
          select backend, resource, installation, job, allocation, state from orphan
          order by backend, resource`.execute(db);
        return rows.map((row) => ({ ...row }));
      }),
    forgetOrphan: ({ backend, resource }) =>
      write(async (db) => {
        await sql`delete from orphan where backend = ${backend} and resource = ${resource}`.execute(db);
      }),
  };
}

function eventStatements(read: RunOperation): Pick<JobmanStore, 'events' | 'eventsAfter' | 'lastEvent'> {
  return {
    events: (id, after, limit) =>
      read(async (db) => {
        const { rows } = await sql<{ seq: number; body: string }>`
          select seq, body from event where job = ${numberOf(id) ?? null} and seq > ${Math.min(after, maxNumber)}
          order by seq ${limit === undefined ? sql`` : sql`limit ${limit}`}`.execute(db);
        return rows.map(({ seq, body }) => ({ seq, event: objectOf<Event>(body) }));
      }),
    eventsAfter: (after, limit) =>
      read(async (db) => {
        const { rows } = await sql<{ id: number; job: number; seq: number; body: string }>`
          select id, job, seq, body from event where id > ${after} order by id limit ${limit}`.execute(db);
        return rows.map(({ id: number, job, seq, body }) => ({
          number,
          job: idOf(job),
          seq,
          event: objectOf<Event>(body),
        }));
      }),
    lastEvent: () =>
      read(async (db) => {
        const { rows } = await sql<{ value: number }>`select value from counter where name = 'event'`.execute(db);
        return rows[0]?.value ?? 0;
      }),
  };
}

/** Migrates a database of an earlier version, as the next command would do. Rejects with StoreError. */
export async function withReadOnlyStore<T>(
  address: DatabaseAddress,
  read: (store: JobmanStore) => Promise<T>,
): Promise<T> {
  try {
    return await withStore(openStore({ ...address, readOnly: true }), read);
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== 'older') throw error;
    return withStore(openStore(address), read);
  }
}

/** Closes the store afterwards. */
export async function withStore<T>(store: JobmanStore, read: (store: JobmanStore) => Promise<T>): Promise<T> {
  try {
    return await read(store);
  } finally {
    await store.close();
  }
}
