// Migrations: the tables, step by step. A released step is never edited, because databases have run it. Only SQL that
// both SQLite and PostgreSQL know.

import type { JobSpec } from '../core/model/spec.ts';
import { usageOf, type UsageRow } from '../reports/usage.ts';
import { fillGuards } from './guards.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { jobOf, objectOf } from './stored-job.ts';
import { readArchivedUsage } from './usage.ts';

/** In order; the number at the front of a name is the version of the database. */
export const migrations: Readonly<Record<string, (db: Database) => Promise<void>>> = {
  async '0001_baseline'(db) {
    for (const statement of baseline) await statement.execute(db);
  },
  async '0002_usage'(db) {
    for (const statement of usageTable) await statement.execute(db);
    const { rows } = await sql<{ number: number; status: string; outline: string }>`
      select number, status, outline from job order by number`.execute(db);
    for (const { status, outline } of rows) {
      for (const [seq, row] of usageOf(jobOf(status, outline)).entries()) await insertUsage(db, row.job, seq, row);
    }
  },
  async '0003_notifications'(db) {
    for (const statement of notifications) await statement.execute(db);
  },
  async '0004_cluster_usage'(db) {
    for (const { uid, usage } of await readArchivedUsage(db)) {
      await sql`delete from usage where subject = ${uid}`.execute(db);
      for (const [seq, row] of usage.entries()) await insertUsage(db, uid, seq, row);
    }
  },
  async '0005_users'(db) {
    for (const statement of usersTables) await statement.execute(db);
    const { rows } = await sql<{ name: string; details: string }>`select name, details from lab_user`.execute(db);
    for (const { name, details } of rows) {
      const { createdAt } = JSON.parse(details) as { readonly createdAt: number };
      await sql`insert into users (name, role, created_at) values (${name}, 'member', ${createdAt})`.execute(db);
    }
    await sql`insert into login (login, owner) select login, owner from lab_login`.execute(db);
    await sql`
      insert into lab_member (name, id, session, next_window, news_seen, details)
      select name, id, session, next_window, news_seen, details from lab_user`.execute(db);
    await sql`drop table lab_login`.execute(db);
    await sql`drop table lab_user`.execute(db);
  },
  async '0006_portable'(db) {
    for (const statement of portable) await statement.execute(db);
    const { rows: jobs } = await sql<{ number: number; outline: string }>`select number, outline from job`.execute(db);
    for (const { number, outline } of jobs) {
      const { capacity } = objectOf<JobSpec>(outline);
      if (capacity.kind !== 'tpu') continue;
      const { accelerator, zone, pricing } = capacity;
      await sql`
        update job set accelerator = ${accelerator}, zone = ${zone}, pricing = ${pricing}
        where number = ${number}`.execute(db);
    }
    // Only SQLite has rows from before this step, and the numbers that users have seen are its row numbers.
    if (jobs.length > 0)
      await sql`
        update event set id = rowid, kind = case when json_valid(body) then body ->> 'kind' end`.execute(db);
    const { rows: observed } = await sql`select 1 from cluster_job_event limit 1`.execute(db);
    if (observed.length > 0) await sql`update cluster_job_event set seq = rowid`.execute(db);
    await sql`
      insert into counter (name, value) select 'event', coalesce(max(id), 0) from event`.execute(db);
  },
  async '0007_passes'(db) {
    for (const statement of passes) await statement.execute(db);
  },
  async '0008_list_rows'(db) {
    for (const statement of listRows) await statement.execute(db);
  },
  async '0009_guards'(db) {
    for (const statement of guards) await statement.execute(db);
    await fillGuards(db);
  },
  async '0010_hosts'(db) {
    await sql`update usage set source = 'hosts' where source = 'local'`.execute(db);
  },
  async '0011_sheet_outbox'(db) {
    for (const statement of sheetOutbox) await statement.execute(db);
  },
  async '0012_access'(db) {
    for (const statement of access) await statement.execute(db);
  },
  async '0013_creation_keys'(db) {
    for (const statement of creationKeys) await statement.execute(db);
  },
  async '0014_accounts'(db) {
    for (const statement of accounts) await statement.execute(db);
  },
  async '0015_secrets'(db) {
    await secrets.execute(db);
  },
  async '0016_group_roles'(db) {
    // The role that the groups of the person gave at the newest login; null if none did.
    await sql`alter table account add column group_role text`.execute(db);
  },
  async '0017_booking_changes'(db) {
    // The user who made the latest change; null if a job made it.
    await sql`alter table lab_booking add column changed_by text`.execute(db);
  },
  async '0018_uploads'(db) {
    for (const statement of uploads) await statement.execute(db);
  },
};

/** The stored blobs that each user has sent through a server. `size` is in bytes, `sent_at` of the latest time. */
const uploads: readonly Sql[] = [
  sql`
    create table blob_upload (
      owner text not null,
      digest text not null,
      size bigint not null,
      sent_at bigint not null,
      primary key (owner, digest)
    )`,
  sql`create index blob_upload_digest on blob_upload (digest)`,
];

const accounts: readonly Sql[] = [
  // `issuer` and `subject` are null until the first login binds the account to a person.
  sql`
    create table account (
      owner text primary key references users (name),
      account text not null unique,
      issuer text,
      subject text,
      bound_at bigint
    )`,
  sql`create unique index account_person on account (issuer, subject) where subject is not null`,
  // `id` is a hash of secrets that the database does not have.
  sql`
    create table pending_login (
      id text primary key,
      kind text not null,
      expires_at bigint not null,
      body text not null
    )`,
  sql`create index pending_login_age on pending_login (kind, expires_at)`,
];

/** Encrypted secrets. `job` is 0 for a named secret of its owner; `key` the id of the key, which is not in the database. */
const secrets: Sql = sql`
  create table secret (
    owner text not null,
    job bigint not null,
    name text not null,
    key text not null,
    sealed text not null,
    size integer not null,
    changed_at bigint not null,
    primary key (owner, job, name)
  )`;

/** The jobs of requests with an idempotency key, for a day. `digest` is of the request, without the values of secrets. */
const creationKeys: readonly Sql[] = [
  sql`
    create table creation_key (
      actor text not null,
      key text not null,
      digest text not null,
      job bigint not null,
      created_at bigint not null,
      primary key (actor, key)
    )`,
  sql`create index creation_key_age on creation_key (created_at)`,
];

const access: readonly Sql[] = [
  sql`alter table users add column disabled_at bigint`,
  // Only the hash of a token is stored. `refused_at`: the newest recorded use of a token that no longer counts.
  sql`
    create table token (
      id text primary key,
      owner text not null references users (name),
      name text not null,
      role text not null,
      hash text not null unique,
      created_at bigint not null,
      created_by text not null,
      expires_at bigint not null,
      last_used_at bigint,
      revoked_at bigint,
      refused_at bigint
    )`,
  sql`create unique index token_name on token (owner, name) where revoked_at is null`,
  // `limits` is JSON, because every check reads all limits of one user.
  sql`
    create table user_limit (
      owner text primary key references users (name),
      limits text not null,
      changed_at bigint not null,
      changed_by text not null
    )`,
  // Rows are only added. Neither a user nor a token is referenced, because rows outlive both.
  sql`
    create table audit (
      seq bigint primary key,
      at bigint not null,
      actor text not null,
      role text not null,
      login text,
      token text,
      token_name text,
      operation text not null,
      object_kind text,
      object text,
      outcome text not null,
      detail text not null
    )`,
  sql`create index audit_actor on audit (actor, seq)`,
  sql`create index audit_object on audit (object_kind, object, seq) where object is not null`,
  sql`create index audit_denied on audit (seq) where outcome = 'denied'`,
  sql`insert into counter (name, value) values ('audit', 0)`,
];

/** Changes of a lab's spreadsheet. `next_at` is null for a change that the sheet has refused. */
const sheetOutbox: readonly Sql[] = [
  sql`
    create table lab_sheet_change (
      id bigint primary key,
      tpu text not null,
      command text not null,
      created_at bigint not null,
      next_at bigint,
      tries integer not null,
      error text
    )`,
  sql`insert into counter (name, value) values ('sheet_change', 0)`,
];

const listRows: readonly Sql[] = [
  // The row for lists of a job that cannot change any more, in the form that `version` names. A table of its own, because
  // a list of all jobs then reads few pages.
  sql`
    create table list_row (
      job integer primary key references job (number),
      version integer not null,
      body text not null
    )`,
  sql`
    insert into list_row (job, version, body)
    select number, list_row_version, list_row from job where list_row is not null`,
  sql`alter table job drop column list_row`,
  sql`alter table job drop column list_row_version`,
];

const passes: readonly Sql[] = [
  // The newest recorded commit as JSON; null while none is recorded.
  sql`alter table job add column last_pass text`,
  // One row for each recorded commit, numbered from 1 in each job. Its events are those from `events_before` + 1 to
  // `events_after`. `back` is JSON: what turns the state after the commit into the state before. `situation` is null for
  // a commit that no pass made. `is_linked` is 0 if the job was written between the row before and this one.
  sql`
    create table pass (
      job integer not null references job (number),
      seq integer not null,
      at bigint not null,
      situation text,
      events_before integer not null,
      events_after integer not null,
      is_linked integer not null,
      back text not null,
      primary key (job, seq)
    )`,
  sql`create index pass_at on pass (at)`,
];

const guards: readonly Sql[] = [
  // The persistent TPU on which the job runs, as a resource name; null for other capacity. `live` is 1 while the job uses
  // it, and 0 while it waits for another job there.
  sql`alter table job add column holds text`,
  sql`alter table job add column live integer not null default 0`,
  sql`create unique index job_holds on job (holds) where live = 1`,
  sql`create index job_tpu on job (holds) where holds is not null and finished_at is null`,
  sql`alter table job add column checkpoint_storage text`,
  sql`
    create index job_checkpoints on job (checkpoint_storage)
    where checkpoint_storage is not null and finished_at is null`,
  // Ephemeral TPUs that count against the chips of a grant.
  sql`
    create table held (
      job integer not null references job (number),
      seq integer not null,
      accelerator text not null,
      zone text not null,
      pricing text not null,
      chips integer,
      primary key (job, seq)
    )`,
];

const portable: readonly Sql[] = [
  // `id` numbers the events of all jobs in the order of their commits. Both columns are null in a row that an older
  // controller writes during the upgrade, until the next one takes the lease.
  sql`alter table event add column id bigint`,
  sql`alter table event add column kind text`,
  sql`create unique index event_id on event (id)`,
  // The order in which the events of one cluster job were written.
  sql`alter table cluster_job_event add column seq integer not null default 0`,
  // The TPU that the job requests first; null for other capacity.
  sql`alter table job add column accelerator text`,
  sql`alter table job add column zone text`,
  sql`alter table job add column pricing text`,
  sql`create index job_request on job (accelerator, zone, pricing, number) where accelerator is not null`,
];

const usersTables: readonly Sql[] = [
  // Registered users. Other tables name a user `owner`, because `user` is reserved in PostgreSQL.
  sql`create table users (name text primary key, role text not null, created_at bigint not null)`,
  sql`create table login (login text primary key, owner text not null references users (name))`,
  sql`create index login_owner on login (owner)`,
  // The part of a user that only the lab needs.
  sql`
    create table lab_member (
      name text primary key references users (name),
      id integer not null unique,
      session text not null unique,
      next_window integer not null,
      news_seen bigint not null,
      details text not null
    )`,
];

// The usage ledger. `subject` is the id of a job, or the uid of a cluster's job; `seq` counts its rows from 0. Prices
// are in US dollars per hour.
const usageTable: readonly Sql[] = [
  sql`
    create table usage (
      subject text not null,
      seq integer not null,
      job text not null,
      source text not null,
      allocation integer not null,
      name text not null,
      owner text,
      job_name text not null,
      project text,
      location text,
      accelerator text,
      pricing text,
      chips integer,
      ownership text not null,
      used_for text not null,
      attempt integer,
      began_at bigint not null,
      ended_at bigint,
      price double precision,
      prices_of text,
      simulated integer not null,
      primary key (subject, seq)
    )`,
  sql`create index usage_ended on usage (ended_at, began_at)`,
  sql`create index usage_job on usage (job)`,
];

/** As the table is after this step. */
async function insertUsage(db: Database, subject: string, seq: number, row: UsageRow): Promise<void> {
  await sql`
    insert into usage (subject, seq, job, source, allocation, name, owner, job_name, project, location, accelerator,
      pricing, chips, ownership, used_for, attempt, began_at, ended_at, price, prices_of, simulated)
    values (${subject}, ${seq}, ${row.job}, ${row.source}, ${row.allocation}, ${row.name}, ${row.owner}, ${row.jobName},
      ${row.project}, ${row.location}, ${row.accelerator}, ${row.pricing}, ${row.chips}, ${row.ownership}, ${row.use},
      ${row.attempt}, ${row.from}, ${row.until}, ${row.pricePerHourUsd}, ${row.pricesOf}, ${row.simulated ? 1 : 0})`.execute(
    db,
  );
}

const baseline: readonly Sql[] = [
  // Single values: the installation id and the path of the home.
  sql`create table meta (key text primary key, value text not null)`,

  // Growing numbers: ids of jobs and outcomes, and the count of changes. A row instead of the database's own sequence,
  // because a number must never be given twice, and `change` must be cheap to read.
  sql`create table counter (name text primary key, value bigint not null)`,
  sql`insert into counter (name, value) values ('job', 0), ('outcome', 0), ('change', 0)`,

  // One row per job. Fields for filters and sorting have a column; the rest is JSON. `status` is the job without its
  // spec; each commit rewrites it. `outline` is the spec without its long texts, for lists. `list_row` is the row for
  // lists of a job that cannot change any more, in the form that `list_row_version` names, else null. `event_count` is
  // the number of its rows in `event`. `location` is the project and zone of the spec's own capacity as a prefix of
  // resource names, and orphans of the job are collected there until `collect_until`; both are null when the job never
  // requested any.
  sql`
    create table job (
      number integer primary key,
      revision integer not null,
      event_count integer not null,
      owner text not null,
      name text not null,
      created_at bigint not null,
      finished_at bigint,
      removed integer not null,
      wake_at bigint,
      outline text not null,
      status text not null,
      list_row_version integer not null,
      list_row text,
      location text,
      collect_until bigint
    )`,
  sql`create index job_unfinished on job (number) where finished_at is null`,
  // Covers the columns of list filters, so that finished jobs can be counted without reading their rows.
  sql`create index job_finished on job (finished_at, number, removed, owner, name) where finished_at is not null`,
  sql`create index job_name on job (name)`,
  sql`create index job_wake on job (wake_at) where wake_at is not null`,
  sql`create index job_collect on job (collect_until, location, number) where collect_until is not null`,

  // Written once, read with a single job: scripts, inline files, the manifest.
  sql`
    create table job_text (
      job integer primary key references job (number),
      spec text not null,
      manifest text not null
    )`,

  sql`
    create table job_tag (
      tag text not null,
      job integer not null references job (number),
      primary key (tag, job)
    )`,

  // Further locations where a job has requested capacity; the spec's own is in `job`.
  sql`
    create table job_location (
      job integer not null references job (number),
      location text not null,
      collect_until bigint not null,
      primary key (job, location)
    )`,
  sql`create index job_location_collect on job_location (collect_until, location, job)`,

  sql`
    create table event (
      job integer not null references job (number),
      seq integer not null,
      at bigint not null,
      body text not null,
      primary key (job, seq)
    )`,

  // Results of actions that the next pass of a job reads; at most one for each subject. `attempt` is the attempt of a
  // setup step.
  sql`
    create table outcome (
      id bigint primary key,
      job integer not null references job (number),
      subject text not null,
      attempt integer,
      at bigint not null,
      result text not null,
      unique (job, subject)
    )`,

  // One row. `holder` is null when no controller holds the lease; the epoch stays, so that it never repeats.
  // `paused_from` and `paused_until` are the newest period without a renewal.
  sql`
    create table lease (
      id integer primary key check (id = 1),
      holder text,
      epoch integer not null,
      version text not null,
      expires_at bigint not null,
      renewed_at bigint,
      paused_from bigint,
      paused_until bigint
    )`,
  sql`insert into lease (id, holder, epoch, version, expires_at) values (1, null, 0, '', 0)`,

  sql`
    create table orphan (
      backend text not null,
      resource text not null,
      installation text not null,
      job text not null,
      allocation integer not null,
      state text not null,
      primary key (backend, resource)
    )`,

  // The newest answer of each kind to a capacity request, from any job; `waited` is the time until the answer.
  sql`
    create table capacity_answer (
      project text not null,
      zone text not null,
      accelerator text not null,
      pricing text not null,
      answer text not null,
      at bigint not null,
      waited bigint not null,
      job text not null,
      primary key (project, zone, accelerator, pricing, answer)
    )`,

  // The archive of cluster jobs. `access` is JSON with the controller's access to the cluster. `observation` is the
  // last observation of the job, its pods and its events; `object` is the Job as it was submitted. The key of an event
  // is derived from its content, so that repeated observations write it once.
  sql`
    create table cluster_context (
      server text not null,
      namespace text not null,
      context text not null,
      access text not null,
      requested_at bigint not null,
      watched integer not null,
      primary key (server, namespace)
    )`,
  sql`
    create table cluster_job (
      uid text primary key,
      server text not null,
      context text not null,
      namespace text not null,
      name text not null,
      created_at bigint not null,
      observed_at bigint not null,
      gone_at bigint,
      hidden integer not null,
      observation text not null,
      object text
    )`,
  sql`create index cluster_job_name on cluster_job (name, created_at)`,
  sql`
    create table cluster_log (
      uid text not null references cluster_job (uid),
      pod text not null,
      container text not null,
      state text not null,
      primary key (uid, pod, container)
    )`,
  sql`
    create table cluster_job_event (
      uid text not null references cluster_job (uid),
      key text not null,
      at bigint not null,
      message text not null,
      primary key (uid, key)
    )`,

  // The lab: users, TPUs, windows and bookings (src/lab/). `details` is JSON with the fields that no query filters by.
  // `owner` is a user's name, because `user` is reserved in PostgreSQL.
  sql`
    create table lab_user (
      name text primary key,
      id integer not null unique,
      session text not null unique,
      next_window integer not null,
      news_seen bigint not null,
      details text not null
    )`,
  sql`
    create table lab_login (
      login text primary key,
      owner text not null references lab_user (name)
    )`,
  sql`
    create table lab_tpu (
      name text primary key,
      project text,
      zone text,
      accelerator text not null,
      pricing text not null,
      runtime_version text
    )`,
  // No reference: an alias may exist before its TPU is registered and after it is removed.
  sql`create table lab_tpu_alias (alias text primary key, tpu text not null)`,
  sql`
    create table lab_job (
      job integer primary key references job (number),
      owner text not null,
      parent integer references job (number),
      details text not null
    )`,
  sql`create index lab_job_owner on lab_job (owner, job)`,
  sql`create index lab_job_parent on lab_job (parent) where parent is not null`,
  // A window keeps the session that it was opened in, because its script continues in that session even after its user
  // is removed.
  sql`
    create table lab_window (
      job integer not null references lab_job (job),
      attempt integer not null,
      owner text not null,
      session text not null,
      number integer not null,
      opened_at bigint not null,
      report text,
      finished_at bigint,
      closed_at bigint,
      cleared_at bigint,
      primary key (job, attempt)
    )`,
  // A listed number must be unique for its user and in its session.
  sql`create unique index lab_window_listed on lab_window (owner, number) where cleared_at is null`,
  sql`create unique index lab_window_session on lab_window (session, number) where cleared_at is null`,
  sql`create index lab_window_owner on lab_window (owner, number)`,
  sql`
    create table lab_booking (
      tpu text primary key,
      status text not null,
      owner text not null,
      note text not null,
      script_note text not null,
      at bigint not null
    )`,
];

/** The outbox of notifications. */
const notifications: readonly Sql[] = [
  sql`insert into counter (name, value) values ('notice', 0), ('message', 0)`,

  // Events to report, written in the transaction of the event. `source` is the job's id, the uid of a cluster's job, or
  // the resource name of an orphan. `body` is the notice as JSON. `addressed` is 0 until its recipients are chosen.
  sql`
    create table notice (
      id bigint primary key,
      source text not null,
      event text not null,
      at bigint not null,
      addressed integer not null,
      body text not null
    )`,
  sql`create index notice_unaddressed on notice (id) where addressed = 0`,
  sql`create index notice_source on notice (source, event)`,

  // One message to one recipient. `state` is pending, sent or given_up.
  sql`
    create table message (
      id bigint primary key,
      recipient text not null,
      state text not null,
      tries integer not null,
      created_at bigint not null,
      next_at bigint not null,
      ended_at bigint,
      error text
    )`,
  sql`create index message_pending on message (id) where state = 'pending'`,
  sql`create index message_recipient on message (recipient, created_at)`,

  // The recipients of a notice. `message` is null until the notice is part of a message.
  sql`
    create table delivery (
      notice bigint not null references notice (id),
      recipient text not null,
      message bigint references message (id),
      primary key (notice, recipient)
    )`,
  sql`create index delivery_waiting on delivery (recipient, notice) where message is null`,
  sql`create index delivery_message on delivery (message) where message is not null`,
];
