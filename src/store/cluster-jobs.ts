// Cluster jobs: the statements about the archive of jobs in clusters, and the contexts that they were submitted to.

import type {
  ArchiveQuery,
  ArchivedJob,
  ArchivedLog,
  ArchivedObservation,
  ClusterJobEvent,
  ClusterStore,
  WatchedContext,
} from '../app/cluster/objects.ts';
import { archivedUsage } from '../app/cluster/usage.ts';
import type { RunOperation } from './database.ts';
import { noticeWrites } from './notifications.ts';
import { firstRows, withNext, type Key, type Rows, type Span } from '../app/pages.ts';
import { atMost, sql, untilWritten, wroteRow, type Database, type Sql } from './sql.ts';
import { rowReplacements } from './usage.ts';

type ObservedJob = Parameters<ClusterStore['archiveObservation']>[0];

export function clusterStore(read: RunOperation, write: RunOperation): ClusterStore {
  const run = (statement: Sql): Promise<void> => write(async (db) => void (await statement.execute(db)));
  return {
    watchContext: (context) => write((db) => writeClusterContext(db, context)),
    contexts: () => read(readClusterContexts),
    unwatchContext: ({ server, namespace, requestedAt }) =>
      run(sql`
          update cluster_context set watched = 0
          where server = ${server} and namespace = ${namespace} and requested_at = ${requestedAt}`),
    async archiveObject({ server, context, observedAt, job }, object) {
      const { clusterNotices } = await import('../app/notifications/notice.ts');
      await write(async (db) => {
        const observation: ArchivedObservation = { job, pods: [], events: [] };
        const isNew = await wroteRow(
          db,
          sql`
            insert into cluster_job
              (uid, server, context, namespace, name, created_at, observed_at, gone_at, hidden, observation, object)
            values (${job.uid}, ${server}, ${context}, ${job.namespace}, ${job.name}, ${job.createdAt}, ${observedAt},
              null, 0, ${JSON.stringify(observation)}, ${object})
            on conflict (uid) do nothing returning uid`,
        );
        if (isNew) {
          const observed = { ...observation, context, goneAt: null };
          await db.runAll(noticeWrites(job.uid, clusterNotices(undefined, observed, observedAt)));
        } else await sql`update cluster_job set object = ${object} where uid = ${job.uid}`.execute(db);
      });
    },
    async archiveObservation(observed, events) {
      const { clusterNotices } = await import('../app/notifications/notice.ts');
      await write(async (db) => {
        const before = await untilWritten(async () => {
          const [stored] = await readWhere(db, sql`uid = ${observed.job.uid}`);
          return (await writeObservation(db, stored, observed)) ? { stored } : undefined;
        }).then(({ stored }) => stored);
        const { uid } = observed.job;
        // Without events only the age of the observation is new, which is written every minute.
        const notified = events.length === 0 ? observed : before;
        const at = observed.goneAt ?? observed.observedAt;
        await db.runAll([
          ...rowReplacements(uid, before === undefined ? [] : archivedUsage(before), archivedUsage(observed)),
          ...events.map((event) => eventWrite(uid, event)),
          ...noticeWrites(uid, clusterNotices(notified, observed, at)),
        ]);
      });
    },
    archiveLog: (uid, log) =>
      run(sql`
          insert into cluster_log (uid, pod, container, state)
          select uid, ${log.pod}, ${log.container}, ${log.state} from cluster_job where uid = ${uid}
          on conflict (uid, pod, container) do update set state = excluded.state`),
    archiveEvent: (uid, { key, at, message }) =>
      run(sql`
          insert into cluster_job_event (uid, key, at, message, seq)
          select uid, ${key}, ${at}, ${message}, ${nextSeq(uid)} from cluster_job where uid = ${uid}
          on conflict (uid, key) do nothing`),
    hide: (uid) => run(sql`update cluster_job set hidden = 1 where uid = ${uid}`),
    remove: (uid) =>
      write(async (db) => {
        await sql`delete from cluster_job_event where uid = ${uid}`.execute(db);
        await sql`delete from cluster_log where uid = ${uid}`.execute(db);
        await sql`delete from cluster_job where uid = ${uid}`.execute(db);
      }),
    jobs: (query, span) => read((db) => readJobs(db, query, span)),
    job: (uid) => read(async (db) => (await readWhere(db, sql`uid = ${uid}`))[0]),
    // Events of the same second are in the order of writing, because a cluster counts in seconds.
    events: (uid, { after, limit } = {}) =>
      read(async (db) => {
        const [at = 0, seq = 0, key = ''] = after ?? [];
        const rest = after === undefined ? sql`` : sql`and (at, seq, key) > (${at}, ${seq}, ${key})`;
        const { rows } = await sql<ClusterJobEvent & { readonly seq: number }>`
          select key, at, message, seq from cluster_job_event where uid = ${uid} ${rest}
          order by at, seq, key ${atMost(limit)}`.execute(db);
        const found = firstRows(rows, limit, (row) => [row.at, row.seq, row.key]);
        return withNext(
          found.map(({ seq: _seq, ...row }) => row),
          found.next,
        );
      }),
  };
}

function nextSeq(uid: string): Sql {
  return sql`(select coalesce(max(seq), 0) + 1 from cluster_job_event where uid = ${uid})`;
}

async function writeClusterContext(db: Database, clusterContext: WatchedContext): Promise<void> {
  const { server, namespace, context, requestedAt, ...access } = clusterContext;
  await sql`
    insert into cluster_context (server, namespace, context, access, requested_at, watched)
    values (${server}, ${namespace}, ${context}, ${JSON.stringify(access)}, ${requestedAt}, 1)
    on conflict (server, namespace) do update
    set context = excluded.context, access = excluded.access, requested_at = excluded.requested_at, watched = 1`.execute(
    db,
  );
}

async function readClusterContexts(db: Database): Promise<readonly WatchedContext[]> {
  type Columns = Pick<WatchedContext, 'server' | 'namespace' | 'context' | 'requestedAt'> & { readonly access: string };
  const { rows } = await sql<Columns>`
    select server, namespace, context, access, requested_at as "requestedAt" from cluster_context
    where watched = 1 order by server, namespace`.execute(db);
  return rows.map(({ access, ...columns }) => ({
    ...columns,
    ...(JSON.parse(access) as Pick<WatchedContext, 'setting' | 'kubeconfig' | 'flavorAnnotation'>),
  }));
}

/**
 * Leaves the submitted object and `hidden` unchanged. `before`: the job as archived; undefined for a new one. False if
 * another observation has been written since.
 */
async function writeObservation(
  db: Database,
  before: ArchivedJob | undefined,
  { server, context, job, pods, events, flavorPrice, observedAt, goneAt }: ObservedJob,
): Promise<boolean> {
  const observation = JSON.stringify({ job, pods, events, flavorPrice } satisfies ArchivedObservation);
  return wroteRow(
    db,
    before === undefined
      ? sql`
          insert into cluster_job
            (uid, server, context, namespace, name, created_at, observed_at, gone_at, hidden, observation, object)
          values (${job.uid}, ${server}, ${context}, ${job.namespace}, ${job.name}, ${job.createdAt}, ${observedAt},
            ${goneAt}, 0, ${observation}, null)
          on conflict (uid) do nothing returning uid`
      : sql`
          update cluster_job
          set server = ${server}, context = ${context}, observed_at = ${observedAt}, gone_at = ${goneAt},
            observation = ${observation}
          where uid = ${job.uid} and observed_at = ${before.observedAt} returning uid`,
  );
}

function eventWrite(uid: string, { key, at, message }: ClusterJobEvent): Sql {
  return sql`
    insert into cluster_job_event (uid, key, at, message, seq)
    values (${uid}, ${key}, ${at}, ${message}, ${nextSeq(uid)})
    on conflict (uid, key) do update set message = excluded.message
    where cluster_job_event.message <> excluded.message`;
}

async function readJobs(
  db: Database,
  { name, namespace, server }: ArchiveQuery,
  { after, limit }: Span = {},
): Promise<Rows<ArchivedJob, Key>> {
  const [createdAt = 0, uid = ''] = after ?? [];
  const all = sql`1 = 1`;
  const rest =
    after === undefined ? all : sql`(created_at < ${createdAt} or (created_at = ${createdAt} and uid > ${uid}))`;
  const found = await readWhere(
    db,
    sql`${name === undefined ? all : sql`name = ${name}`}
      and ${namespace === undefined ? all : sql`namespace = ${namespace}`}
      and ${server === undefined ? all : sql`server = ${server}`} and ${rest}`,
    limit,
  );
  return firstRows(found, limit, ({ job }) => [job.createdAt, job.uid]);
}

interface Row extends Pick<ArchivedJob, 'server' | 'context' | 'observedAt' | 'goneAt' | 'object'> {
  readonly uid: string;
  readonly hidden: number;
  readonly observation: string;
}

async function readWhere(db: Database, where: Sql, limit?: number): Promise<readonly ArchivedJob[]> {
  const { rows } = await sql<Row>`
    select uid, server, context, observed_at as "observedAt", gone_at as "goneAt", hidden, observation, object from cluster_job
    where ${where} order by created_at desc, uid ${atMost(limit)}`.execute(db);
  const logs = new Map<string, ArchivedLog[]>();
  if (rows.length > 0) {
    const found = await sql<ArchivedLog & { readonly uid: string }>`
      select uid, pod, container, state from cluster_log
      where uid in (select uid from cluster_job where ${where} order by created_at desc, uid ${atMost(limit)})
      order by uid, pod, container`.execute(db);
    for (const { uid, pod, container, state } of found.rows) {
      logs.set(uid, [...(logs.get(uid) ?? []), { pod, container, state }]);
    }
  }
  return rows.map(({ uid, hidden, observation, ...columns }) => ({
    ...columns,
    hidden: hidden === 1,
    ...(JSON.parse(observation) as ArchivedObservation),
    logs: logs.get(uid) ?? [],
  }));
}
