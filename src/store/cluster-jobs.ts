// Cluster jobs: what is kept of jobs that live in clusters, and where they were submitted to.

import type {
  ClusterMoment,
  ClusterRecord,
  KeptJob,
  KeptLog,
  KeptPlace,
  KeptQuery,
  KeptSight,
} from '../app/cluster/kept.ts';
import type { Run } from './record-file.ts';
import { sql, type Database, type Sql } from './sql.ts';

/** The part of the record that is about clusters, over these two ways to run an operation. */
export function clusterRecord(read: Run, write: Run): ClusterRecord {
  const run = (statement: Sql): Promise<void> => write(async (db) => void (await statement.execute(db)));
  return {
    wantPlace: (place) => write((db) => writePlace(db, place)),
    places: () => read(readPlaces),
    leavePlace: ({ server, namespace, wantedAt }) =>
      run(sql`
          update cluster_place set watched = 0
          where server = ${server} and namespace = ${namespace} and wanted_at = ${wantedAt}`),
    keepObject: ({ server, context, seenAt, job }, object) =>
      write(async (db) => {
        const sight: KeptSight = { job, pods: [], events: [] };
        await sql`
          insert into cluster_job
            (uid, server, context, namespace, name, created_at, seen_at, gone_at, hidden, sight, object)
          values (${job.uid}, ${server}, ${context}, ${job.namespace}, ${job.name}, ${job.createdAt}, ${seenAt}, null, 0,
            ${JSON.stringify(sight)}, ${object})
          on conflict (uid) do update set object = excluded.object`.execute(db);
      }),
    keepSight: (seen, moments) => write((db) => writeSight(db, seen, moments)),
    keepLog: (uid, log) =>
      run(sql`
          insert into cluster_log (uid, pod, container, state)
          select uid, ${log.pod}, ${log.container}, ${log.state} from cluster_job where uid = ${uid}
          on conflict (uid, pod, container) do update set state = excluded.state`),
    keepMoment: (uid, { key, at, sentence }) =>
      run(sql`
          insert into cluster_moment (uid, key, at, sentence)
          select uid, ${key}, ${at}, ${sentence} from cluster_job where uid = ${uid}
          on conflict (uid, key) do nothing`),
    hide: (uid) => run(sql`update cluster_job set hidden = 1 where uid = ${uid}`),
    drop: (uid) =>
      write(async (db) => {
        await sql`delete from cluster_moment where uid = ${uid}`.execute(db);
        await sql`delete from cluster_log where uid = ${uid}`.execute(db);
        await sql`delete from cluster_job where uid = ${uid}`.execute(db);
      }),
    jobs: (query) => read((db) => readJobs(db, query)),
    job: (uid) => read(async (db) => (await readWhere(db, sql`uid = ${uid}`))[0]),
    // Those of one second stand as they were told: a cluster counts in seconds.
    moments: (uid) =>
      read(async (db) => {
        const { rows } = await sql<ClusterMoment>`
          select key, at, sentence from cluster_moment where uid = ${uid} order by at, rowid`.execute(db);
        return rows.map((row) => ({ ...row }));
      }),
  };
}

async function writePlace(db: Database, place: KeptPlace): Promise<void> {
  const { server, namespace, context, wantedAt, ...way } = place;
  await sql`
    insert into cluster_place (server, namespace, context, way, wanted_at, watched)
    values (${server}, ${namespace}, ${context}, ${JSON.stringify(way)}, ${wantedAt}, 1)
    on conflict (server, namespace) do update
    set context = excluded.context, way = excluded.way, wanted_at = excluded.wanted_at, watched = 1`.execute(db);
}

async function readPlaces(db: Database): Promise<readonly KeptPlace[]> {
  const { rows } = await sql<{
    server: string;
    namespace: string;
    context: string;
    way: string;
    wanted_at: number;
  }>`
    select server, namespace, context, way, wanted_at from cluster_place
    where watched = 1 order by server, namespace`.execute(db);
  return rows.map(({ server, namespace, context, way, wanted_at }) => ({
    server,
    namespace,
    context,
    wantedAt: wanted_at,
    ...(JSON.parse(way) as Pick<KeptPlace, 'setting' | 'kubeconfig' | 'flavorKey'>),
  }));
}

/** The submitted object, and whether the job is on the list, stay as they are. */
async function writeSight(
  db: Database,
  { server, context, job, pods, events, seenAt, goneAt }: Omit<KeptJob, 'hidden' | 'object' | 'logs'>,
  moments: readonly ClusterMoment[],
): Promise<void> {
  const sight = JSON.stringify({ job, pods, events } satisfies KeptSight);
  await sql`
    insert into cluster_job
      (uid, server, context, namespace, name, created_at, seen_at, gone_at, hidden, sight, object)
    values (${job.uid}, ${server}, ${context}, ${job.namespace}, ${job.name}, ${job.createdAt}, ${seenAt}, ${goneAt}, 0,
      ${sight}, null)
    on conflict (uid) do update
    set server = excluded.server, context = excluded.context, seen_at = excluded.seen_at, gone_at = excluded.gone_at,
      sight = excluded.sight`.execute(db);
  for (const { key, at, sentence } of moments) {
    await sql`
      insert into cluster_moment (uid, key, at, sentence) values (${job.uid}, ${key}, ${at}, ${sentence})
      on conflict (uid, key) do update set sentence = excluded.sentence
      where cluster_moment.sentence <> excluded.sentence`.execute(db);
  }
}

async function readJobs(db: Database, { name, namespace, server }: KeptQuery): Promise<readonly KeptJob[]> {
  const all = sql`1 = 1`;
  return readWhere(
    db,
    sql`${name === undefined ? all : sql`name = ${name}`}
      and ${namespace === undefined ? all : sql`namespace = ${namespace}`}
      and ${server === undefined ? all : sql`server = ${server}`}`,
  );
}

interface Row {
  readonly uid: string;
  readonly server: string;
  readonly context: string;
  readonly seen_at: number;
  readonly gone_at: number | null;
  readonly hidden: number;
  readonly sight: string;
  readonly object: string | null;
}

async function readWhere(db: Database, where: Sql): Promise<readonly KeptJob[]> {
  const { rows } = await sql<Row>`
    select uid, server, context, seen_at, gone_at, hidden, sight, object from cluster_job
    where ${where} order by created_at desc, uid`.execute(db);
  const logs = new Map<string, KeptLog[]>();
  if (rows.length > 0) {
    const found = await sql<KeptLog & { readonly uid: string }>`
      select uid, pod, container, state from cluster_log
      where uid in (select uid from cluster_job where ${where}) order by uid, pod, container`.execute(db);
    for (const { uid, pod, container, state } of found.rows) {
      logs.set(uid, [...(logs.get(uid) ?? []), { pod, container, state }]);
    }
  }
  return rows.map((row) => ({
    server: row.server,
    context: row.context,
    seenAt: row.seen_at,
    goneAt: row.gone_at,
    hidden: row.hidden === 1,
    object: row.object,
    ...(JSON.parse(row.sight) as KeptSight),
    logs: logs.get(row.uid) ?? [],
  }));
}
