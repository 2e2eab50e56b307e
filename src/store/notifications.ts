// Notifications: the statements about the outbox. Notices are written in the transaction of the event that causes them.

import type { MessageState, MessageView } from '../app/client.ts';
import type { Notice, NoticeChange } from '../app/notifications/notice.ts';
import {
  noticesAbout,
  type Message,
  type NotificationStore,
  type PendingMessage,
  type StoredNotice,
  type Waiting,
} from '../app/notifications/outbox.ts';
import { auditWrites } from './audit.ts';
import { advance, lastGiven, nextNumber } from './counters.ts';
import { readInstallationId, type RunOperation } from './database.ts';
import type { UserName } from '../core/model/user.ts';
import { withNext, type Key, type Rows } from '../app/pages.ts';
import { atMost, isOneOf, sql, wroteRow, type Database, type Sql } from './sql.ts';
import { objectOf } from './stored-job.ts';

/** Notices in one list of `unaddressed`, and for each recipient in `waiting`. */
const maxUnaddressed = 1_000;
const maxWaiting = 500;

/** For the transaction of the event that causes them. */
export function noticeWrites(source: string, { notices, endsWaiting }: NoticeChange): readonly Sql[] {
  return [
    ...(endsWaiting ? [sql`delete from notice where source = ${source} and event = 'waiting' and addressed = 0`] : []),
    ...notices.flatMap((notice) => [
      advance('notice'),
      sql`
        insert into notice (id, source, event, at, addressed, body)
        values (${lastGiven('notice')}, ${source}, ${notice.event}, ${notice.at}, 0, ${JSON.stringify(notice)})`,
    ]),
  ];
}

export function notificationStore(read: RunOperation, write: RunOperation): NotificationStore {
  return {
    unaddressed: (waitingBefore) =>
      read(async (db) => {
        const { rows } = await sql<NoticeRow>`
          select id, body from notice
          where addressed = 0 and (event <> 'waiting' or at <= ${waitingBefore})
          order by id limit ${maxUnaddressed}`.execute(db);
        return rows.map(noticeOf);
      }),
    address: (notices) => write((db) => addressNotices(db, notices)),
    pending: () => read(readPending),
    waiting: (since) => read((db) => readWaiting(db, since)),
    createMessage: (recipient, notices, at) => write((db) => insertMessage(db, recipient, notices, at)),
    recordFailure: (id, { error, nextAt }) =>
      write(async (db) => {
        await sql`
          update message set tries = tries + 1, error = ${error}, next_at = ${nextAt}
          where id = ${id} and state = 'pending'`.execute(db);
      }),
    recordEnd: (id, { state, at, error = null }) =>
      write(async (db) => {
        await sql`
          update message set tries = tries + 1, state = ${state}, ended_at = ${at}, error = ${error}
          where id = ${id} and state = 'pending'`.execute(db);
      }),
    drop: (recipient, end, owners) =>
      write(async (db) => {
        if (!(await isAbout(db, recipient, owners))) return 'forbidden';
        const dropped = await dropEvents(db, recipient, end.at, end.error);
        if (dropped > 0) await db.runAll(auditWrites(end.audit));
        return dropped;
      }),
    messages: (limit, owners, before) => read((db) => readMessages(db, limit, owners, before)),
    prune: (before) => write((db) => deleteEnded(db, before)),
  };
}

interface NoticeRow {
  readonly id: number;
  readonly body: string;
}

function noticeOf({ id, body }: NoticeRow): StoredNotice {
  return { ...objectOf<Notice>(body), id };
}

async function addressNotices(
  db: Database,
  notices: readonly { readonly id: number; readonly recipients: readonly string[] }[],
): Promise<void> {
  await db.runAll(
    notices.flatMap(({ id, recipients }) => {
      // The event of a `waiting` notice may have ended in between, which deleted the notice.
      const isWaiting = sql`from notice where id = ${id} and addressed = 0`;
      if (recipients.length === 0) return [sql`delete ${isWaiting}`];
      return [
        ...recipients.map(
          (recipient) =>
            sql`insert into delivery (notice, recipient, message) select id, ${recipient}, null ${isWaiting}`,
        ),
        sql`update notice set addressed = 1 where id = ${id} and addressed = 0`,
      ];
    }),
  );
}

interface MessageRow {
  readonly id: number;
  readonly recipient: string;
  readonly state: MessageState;
  readonly tries: number;
  readonly createdAt: number;
  readonly nextAt: number;
  readonly endedAt: number | null;
  readonly error: string | null;
}

const messageColumns = sql`
  id, recipient, state, tries, created_at as "createdAt", next_at as "nextAt", ended_at as "endedAt", error`;

async function readPending(db: Database): Promise<readonly PendingMessage[]> {
  const { rows } = await sql<MessageRow>`
    select ${messageColumns} from message where state = 'pending' order by id`.execute(db);
  const messages: PendingMessage[] = [];
  for (const { id, recipient, tries, createdAt, nextAt } of rows) {
    const [notices, key] = [await noticesOfMessage(db, id), await keyOf(db, id)];
    messages.push({ id, key, recipient, tries, createdAt, nextAt, notices });
  }
  return messages;
}

/** Unique among all installations, because recipients may compare the messages of several. */
async function keyOf(db: Database, message: number): Promise<string> {
  return `jobman-${await readInstallationId(db)}-${message}`;
}

async function noticesOfMessage(db: Database, message: number): Promise<readonly Notice[]> {
  const { rows } = await sql<NoticeRow>`
    select notice.id, notice.body from delivery join notice on notice.id = delivery.notice
    where delivery.message = ${message} order by notice.id`.execute(db);
  return rows.map(({ body }) => objectOf<Notice>(body));
}

async function readWaiting(db: Database, since: number): Promise<readonly Waiting[]> {
  // A limit for each recipient, because the events of one whose server is down must not hide those of the others.
  const { rows } = await sql<NoticeRow & { readonly recipient: string }>`
    select ranked.recipient, notice.id, notice.body
    from (
      select recipient, notice, row_number() over (partition by recipient order by notice) as position
      from delivery where message is null
    ) as ranked join notice on notice.id = ranked.notice
    where ranked.position <= ${maxWaiting} order by notice.id, ranked.recipient`.execute(db);
  const byRecipient = Map.groupBy(rows, ({ recipient }) => recipient);
  const waiting: Waiting[] = [];
  for (const [recipient, notices] of byRecipient) {
    const { rows: sent } = await sql<{ at: number }>`
      select created_at as at from message where recipient = ${recipient} and created_at > ${since}`.execute(db);
    waiting.push({ recipient, notices: notices.map(noticeOf), sentAt: sent.map(({ at }) => at) });
  }
  return waiting;
}

/** Puts those of these notices into a message that are in none yet. Undefined if there are none. */
async function collectNotices(db: Database, recipient: string, among: Sql, at: number): Promise<number | undefined> {
  const id = await nextNumber(db, 'message');
  await sql`
    insert into message (id, recipient, state, tries, created_at, next_at)
    values (${id}, ${recipient}, 'pending', 0, ${at}, ${at})`.execute(db);
  const hasNotices = await wroteRow(
    db,
    sql`
      update delivery set message = ${id}
      where recipient = ${recipient} and message is null and ${among} returning notice`,
  );
  if (hasNotices) return id;
  await sql`delete from message where id = ${id}`.execute(db);
  return undefined;
}

async function insertMessage(
  db: Database,
  recipient: string,
  notices: readonly number[],
  at: number,
): Promise<Message | null> {
  const id = await collectNotices(db, recipient, isOneOf(sql`notice`, notices), at);
  if (id === undefined) return null;
  return { id, key: await keyOf(db, id), recipient, createdAt: at, notices: await noticesOfMessage(db, id) };
}

/** True if every event that is not delivered to the recipient yet is about a job of these owners. */
async function isAbout(db: Database, recipient: string, owners: readonly UserName[] | null): Promise<boolean> {
  const { rows } = await sql<NoticeRow>`
    select notice.id, notice.body from delivery join notice on notice.id = delivery.notice
    left join message on message.id = delivery.message
    where delivery.recipient = ${recipient} and (message.id is null or message.state = 'pending')`.execute(db);
  return noticesAbout(rows.map(noticeOf), owners).length === rows.length;
}

async function dropEvents(db: Database, recipient: string, at: number, error: string): Promise<number> {
  // An event that is in no message yet gets one, so that `jobman notify` shows it as given up.
  await collectNotices(db, recipient, sql`1 = 1`, at);
  const { rows: dropped } = await sql<{ id: number }>`
    update message set state = 'given_up', ended_at = ${at}, error = ${error}
    where recipient = ${recipient} and state = 'pending' returning id`.execute(db);
  const inDropped = isOneOf(
    sql`message`,
    dropped.map(({ id }) => id),
  );
  const { rows } = await sql<{ events: number }>`
    select count(*) as events from delivery where ${inDropped}`.execute(db);
  return rows[0]?.events ?? 0;
}

async function readMessages(
  db: Database,
  limit: number,
  owners: readonly UserName[] | null,
  before: number | undefined,
): Promise<Rows<MessageView, Key>> {
  const { rows } = await sql<MessageRow>`
    select ${messageColumns} from message where ${before === undefined ? sql`1 = 1` : sql`id < ${before}`}
    order by id desc ${owners === null ? atMost(limit) : sql``}`.execute(db);
  const views: MessageView[] = [];
  let last = 0;
  for (const { id, nextAt, state, ...row } of rows) {
    if (views.length === limit) return withNext(views, limit === 0 ? undefined : [last]);
    const shown = noticesAbout(await noticesOfMessage(db, id), owners);
    if (owners !== null && shown.length === 0) continue;
    const notices = shown.map(({ event, job, name, owner, at, message }) => ({
      event,
      job,
      name,
      owner,
      at,
      message,
    }));
    const next = state === 'pending' ? nextAt : null;
    views.push({ key: await keyOf(db, id), ...row, state, nextAt: next, notices });
    last = id;
  }
  return views;
}

async function deleteEnded(db: Database, before: number): Promise<void> {
  const old = sql`select id from message where state <> 'pending' and ended_at < ${before}`;
  await sql`delete from delivery where message in (${old})`.execute(db);
  await sql`delete from message where state <> 'pending' and ended_at < ${before}`.execute(db);
  await sql`
    delete from notice
    where addressed = 1 and not exists (select 1 from delivery where delivery.notice = notice.id)`.execute(db);
}
