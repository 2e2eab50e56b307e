// Secrets: the statements about encrypted values. The keys are not in the database.

import type { SecretRows, StoredSecret } from '../app/ports.ts';
import type { SealedSecret } from '../app/sealing.ts';
import type { UserName } from '../core/model/user.ts';
import type { RunOperation } from './database.ts';
import { sql, wroteRow, type Database, type Sql } from './sql.ts';
import { idOf, numberOf } from './stored-job.ts';

/** Of a named secret, because a primary key cannot contain null. */
const noJob = 0;
const batch = 100;

export function secretRows(read: RunOperation, write: RunOperation): SecretRows {
  return {
    list: (owner) => read((db) => listSecrets(db, owner)),
    async find({ owner, job, name }) {
      const [found] = await read((db) => readSecrets(db, sql`${isAt(owner, job)} and name = ${name}`));
      return found ?? null;
    },
    put: (make) => write((db) => db.runAll([putWrite(make())])),
    remove: ({ owner, job, name }) =>
      write((db) => wroteRow(db, sql`delete from secret where ${isAt(owner, job)} and name = ${name} returning name`)),
    removeOfJob: ({ owner, id }) => write((db) => db.runAll([sql`delete from secret where ${isAt(owner, id)}`])),
    all: () => read((db) => readSecrets(db, sql`1 = 1`)),
    withOtherKeys: (key) => read((db) => readSecrets(db, sql`key <> ${key}`, batch)),
    replace: (row, by) =>
      write((db) =>
        wroteRow(
          db,
          sql`
            update secret set key = ${by.key}, sealed = ${by.sealed}
            where ${isAt(row.owner, row.job)} and name = ${row.name} and sealed = ${row.sealed} returning name`,
        ),
      ),
    alone: (call) => write(async () => call()),
    onceAllHave: (key, call) =>
      write(async (db) => {
        const isOver = (await readSecrets(db, sql`key <> ${key}`, 1)).length === 0;
        if (isOver) call();
        return isOver;
      }),
  };
}

/** The secrets as one transaction sees and changes them. */
export function rowsIn(db: Database): SecretRows {
  const inside: RunOperation = (operation) => operation(db);
  return secretRows(inside, inside);
}

/** Stores or replaces it. */
export function putWrite({ owner, job, name, key, sealed, size, changedAt }: SealedSecret): Sql {
  return sql`
    insert into secret (owner, job, name, key, sealed, size, changed_at)
    values (${owner}, ${numberOfJob(job)}, ${name}, ${key}, ${sealed}, ${size}, ${changedAt})
    on conflict (owner, job, name)
    do update set key = excluded.key, sealed = excluded.sealed, size = excluded.size, changed_at = excluded.changed_at`;
}

async function listSecrets(db: Database, owner: UserName): Promise<readonly StoredSecret[]> {
  const { rows } = await sql<StoredSecret>`
    select name, size, changed_at as "changedAt" from secret where ${isAt(owner, null)} order by name`.execute(db);
  return rows.map((row) => ({ ...row }));
}

/** By address. */
async function readSecrets(db: Database, where: Sql, limit: number | null = null): Promise<readonly SealedSecret[]> {
  const { rows } = await sql<Omit<SealedSecret, 'job'> & { readonly job: number }>`
    select owner, job, name, key, sealed, size, changed_at as "changedAt" from secret
    where ${where} order by owner, job, name ${limit === null ? sql`` : sql`limit ${limit}`}`.execute(db);
  return rows.map((row) => ({ ...row, job: row.job === noJob ? null : idOf(row.job) }));
}

function isAt(owner: UserName, job: string | null): Sql {
  return sql`owner = ${owner} and job = ${numberOfJob(job)}`;
}

function numberOfJob(job: string | null): number {
  return job === null ? noJob : (numberOf(job) ?? -1);
}
