// Migrations: the tables, step by step. A released step is never edited, because records have run it. Only SQL that SQLite and PostgreSQL
// both know.

import { sweepColumns } from './places.ts';
import { sql, type Database } from './sql.ts';
import { jobOf } from './stored-job.ts';

/** In order; the number at the front of a name is the version of the record. */
export const migrations: Readonly<Record<string, (db: Database) => Promise<void>>> = {
  async '0001_begin'(db) {
    await sql`create table meta (key text primary key, value text not null)`.execute(db);

    // Numbers that grow: ids of jobs and outcomes, and the count of changes. A row and not the database's own
    // sequence, because a number that was given must never be given again, and `change` must be cheap to read.
    await sql`create table counter (name text primary key, value bigint not null)`.execute(db);
    await sql`insert into counter (name, value) values ('job', 0), ('outcome', 0), ('change', 0)`.execute(db);

    // One row a job. What is filtered and sorted by has a column; the rest is in two texts: `life` is all that has
    // happened and is rewritten by each commit; `outline` is the spec without its long texts, for lists. `shown` is the
    // row on screen of a job that nothing more will happen to, in the form that `shown_version` names, else null.
    await sql`
      create table job (
        number integer primary key,
        revision integer not null,
        events integer not null,
        owner text not null,
        name text not null,
        created_at bigint not null,
        settled_at bigint,
        removed integer not null,
        wake_at bigint,
        outline text not null,
        life text not null,
        shown_version integer not null,
        shown text
      )`.execute(db);
    await sql`create index job_live on job (number) where settled_at is null`.execute(db);
    // With the columns that narrow a list, so that the settled jobs which are only counted are not read.
    await sql`
      create index job_settled on job (settled_at, number, removed, owner, name)
      where settled_at is not null`.execute(db);
    await sql`create index job_name on job (name)`.execute(db);
    await sql`create index job_wake on job (wake_at) where wake_at is not null`.execute(db);

    // Written once, read when one job is looked at closely: scripts, frozen files, the manifest.
    await sql`
      create table job_text (
        job integer primary key references job (number),
        spec text not null,
        manifest text not null
      )`.execute(db);

    await sql`
      create table job_tag (
        tag text not null,
        job integer not null references job (number),
        primary key (tag, job)
      )`.execute(db);

    await sql`
      create table event (
        job integer not null references job (number),
        seq integer not null,
        at bigint not null,
        body text not null,
        primary key (job, seq)
      )`.execute(db);

    // Facts for the next pass of a job. At most one for each action.
    await sql`
      create table outcome (
        id bigint primary key,
        job integer not null references job (number),
        key text not null,
        at bigint not null,
        result text not null,
        unique (job, key)
      )`.execute(db);

    // One row. `holder` is null when nobody holds it; the epoch stays, so that it never repeats.
    await sql`
      create table lease (
        only integer primary key check (only = 1),
        holder text,
        epoch integer not null,
        version text not null,
        until bigint not null
      )`.execute(db);
    await sql`insert into lease (only, holder, epoch, version, until) values (1, null, 0, '', 0)`.execute(db);

    await sql`
      create table stray (
        backend text not null,
        resource text not null,
        installation text not null,
        job text not null,
        allocation integer not null,
        state text not null,
        primary key (backend, resource)
      )`.execute(db);
  },

  /** The sweep's columns: it must not depend on how many jobs have settled since. */
  async '0002_sweep'(db) {
    await sql`alter table job add column place text`.execute(db);
    await sql`alter table job add column sweep_until bigint`.execute(db);
    await sql`create index job_sweep on job (sweep_until, place, number) where sweep_until is not null`.execute(db);
    const { rows } = await sql<{ number: number; life: string; outline: string }>`
      select number, life, outline from job`.execute(db);
    for (const { number, life, outline } of rows) {
      const { place, sweep_until } = sweepColumns(jobOf(life, outline));
      if (place === null) continue;
      await sql`update job set place = ${place}, sweep_until = ${sweep_until} where number = ${number}`.execute(db);
    }
  },

  /**
   * A job may ask in several places now, and each has to be swept. What each place has answered is kept apart from jobs, and
   * for all of them: `waited` is how long whatever came of it took.
   */
  async '0003_places'(db) {
    await sql`
      create table job_place (
        job integer not null references job (number),
        place text not null,
        sweep_until bigint not null,
        primary key (job, place)
      )`.execute(db);
    await sql`create index job_place_sweep on job_place (sweep_until, place, job)`.execute(db);
    await sql`
      create table place_answer (
        project text not null,
        zone text not null,
        accelerator text not null,
        pricing text not null,
        answer text not null,
        at bigint not null,
        waited bigint not null,
        job text not null,
        primary key (project, zone, accelerator, pricing, answer)
      )`.execute(db);
  },

  /**
   * The archive of jobs of clusters. `sight` is the job, its pods and its events as they were last seen, `object` the Job as
   * it was submitted. A moment has its key from what it tells of, so that it is written down once however often it is seen.
   */
  async '0004_clusters'(db) {
    await sql`
      create table cluster_place (
        server text not null,
        namespace text not null,
        context text not null,
        way text not null,
        wanted_at bigint not null,
        watched integer not null,
        primary key (server, namespace)
      )`.execute(db);
    await sql`
      create table cluster_job (
        uid text primary key,
        server text not null,
        context text not null,
        namespace text not null,
        name text not null,
        created_at bigint not null,
        seen_at bigint not null,
        gone_at bigint,
        hidden integer not null,
        sight text not null,
        object text
      )`.execute(db);
    await sql`create index cluster_job_name on cluster_job (name, created_at)`.execute(db);
    await sql`
      create table cluster_log (
        uid text not null references cluster_job (uid),
        pod text not null,
        container text not null,
        state text not null,
        primary key (uid, pod, container)
      )`.execute(db);
    await sql`
      create table cluster_moment (
        uid text not null references cluster_job (uid),
        key text not null,
        at bigint not null,
        sentence text not null,
        primary key (uid, key)
      )`.execute(db);
  },

  /**
   * The lab: people, TPUs, windows and bookings (src/lab/). `about` is what is never searched by, as JSON. A window keeps the
   * session that it was opened in: its script goes on in that one, whatever becomes of its user.
   */
  async '0005_lab'(db) {
    await sql`
      create table lab_user (
        name text primary key,
        id integer not null unique,
        session text not null unique,
        next_window integer not null,
        news_seen bigint not null,
        about text not null
      )`.execute(db);
    await sql`
      create table lab_login (
        login text primary key,
        owner text not null references lab_user (name)
      )`.execute(db);
    await sql`
      create table lab_tpu (
        name text primary key,
        project text,
        zone text,
        accelerator text not null,
        pricing text not null,
        runtime_version text
      )`.execute(db);
    // No reference: an alias may be there before its TPU is registered, and after it was taken off.
    await sql`create table lab_tpu_alias (alias text primary key, tpu text not null)`.execute(db);
    await sql`
      create table lab_job (
        job integer primary key references job (number),
        owner text not null,
        father integer references job (number),
        about text not null
      )`.execute(db);
    await sql`create index lab_job_owner on lab_job (owner, job)`.execute(db);
    await sql`create index lab_job_father on lab_job (father) where father is not null`.execute(db);
    await sql`
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
      )`.execute(db);
    // On the list a number means one window, both to its user and in its session.
    await sql`
      create unique index lab_window_shown on lab_window (owner, number) where cleared_at is null`.execute(db);
    await sql`
      create unique index lab_window_session on lab_window (session, number) where cleared_at is null`.execute(db);
    await sql`create index lab_window_owner on lab_window (owner, number)`.execute(db);
    await sql`
      create table lab_booking (
        tpu text primary key,
        status text not null,
        owner text not null,
        note text not null,
        script_note text not null,
        at bigint not null
      )`.execute(db);
  },

  /** The result of a setup step counts in the attempt that it was for. */
  async '0006_outcome_attempt'(db) {
    await sql`alter table outcome add column attempt integer`.execute(db);
  },

  /** Since when the lease was renewed without a break, and the break before it. */
  async '0007_lease_pause'(db) {
    await sql`alter table lease add column renewed_at bigint`.execute(db);
    await sql`alter table lease add column paused_from bigint`.execute(db);
    await sql`alter table lease add column paused_until bigint`.execute(db);
  },
};
