/**
 * Another writer comes between the read and the write of an operation, as it can in a database with several writers:
 * each write must notice it. SQLite has one writer, so the tests run the other change in the connection of the first.
 */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { JobmanError } from '../../src/app/errors.ts';
import { archivedUsage } from '../../src/app/cluster/usage.ts';
import type { LabStore } from '../../src/lab/lab-store.ts';
import type { BookingCommand } from '../../src/lab/service.ts';
import type { Event } from '../../src/core/model/event.ts';
import { minute } from '../../src/core/model/time.ts';
import { recordPass } from '../../src/core/model/recorded-pass.ts';
import { clusterStore } from '../../src/store/cluster-jobs.ts';
import { nextNumber } from '../../src/store/counters.ts';
import type { RunOperation } from '../../src/store/database.ts';
import { createWriteWithId } from '../../src/store/job-ids.ts';
import { commitJob, insertJob, loadJobs, readLease, takeLease } from '../../src/store/jobs.ts';
import { labStore } from '../../src/store/lab.ts';
import { writeOrphan } from '../../src/store/locations.ts';
import { notificationStore } from '../../src/store/notifications.ts';
import { openDatabase, type DatabaseAddress } from '../../src/store/open-database.ts';
import { readPasses } from '../../src/store/passes.ts';
import { sql, type Database, type Sql } from '../../src/store/sql.ts';
import { idOf } from '../../src/store/stored-job.ts';
import { localSpec } from '../support/builders.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { aLabJob, aTpu, aUser, noon } from '../support/lab-builders.ts';
import { suiteOnBoth } from '../support/stores.ts';

/** Runs `change` once, before the first statement that begins with `text`. */
function withOtherWriter(db: Database, text: string, change: () => Promise<unknown>): Database {
  let isDone = false;
  return {
    ...db,
    async run(statement) {
      if (!isDone && statement.pieces.join('?').trim().startsWith(text)) {
        isDone = true;
        await change();
      }
      return db.run(statement);
    },
  };
}

interface World {
  readonly db: Database;
  /** Of the other writer. */
  readonly lab: LabStore;
  readonly insert: () => Promise<string>;
}

const aNewJob = { owner: 'ada', spec: localSpec(), manifest: '', at: noon };

const noNotices = () => ({ notices: [], endsWaiting: false });

/** A new database, outside of a transaction. */
type OpenNew = () => Promise<Database>;

/** `act` uses the database in which `change` comes before the first statement that begins with `text`. */
const raceOn =
  (open: OpenNew) =>
  async <T>(
    text: string,
    prepare: (world: World) => Promise<unknown>,
    change: (world: World) => Promise<unknown>,
    act: (db: Database, lab: LabStore) => Promise<T>,
  ): Promise<World & { readonly result: T }> => {
    const db = await open();
    const labOf = (one: Database) =>
      labStore(
        (operation) => operation(one),
        (operation) => operation(one),
      );
    const insert = async () => {
      const id = idOf(await nextNumber(db, 'job'));
      await insertJob(db, id, aNewJob);
      return id;
    };
    const world = { db, lab: labOf(db), insert };
    await prepare(world);
    let changes = 0;
    const disturbed = withOtherWriter(db, text, async () => {
      changes += 1;
      await change(world);
    });
    const result = await act(disturbed, labOf(disturbed));
    assert.equal(changes, 1, `no statement began with: ${text}`);
    return { ...world, result };
  };

const rowsOf = async (db: Database, statement: Sql) =>
  (await statement.execute(db)).rows.map((row) => ({ ...(row as object) }));

const opened: ReturnType<typeof openDatabase>[] = [];
after(() => Promise.all(opened.map(({ close }) => close())));

async function open(address: DatabaseAddress): Promise<Database> {
  const database = openDatabase({ ...address, installation: 'abc123' });
  opened.push(database);
  await database.write(() => Promise.resolve());
  return database.read((db) => Promise.resolve(db));
}

suiteOnBoth('another writer', (newAddress) => {
  const race = raceOn(async () => open(await newAddress()));
  const silent: Event = { kind: 'unreachable', at: noon + 1, allocation: 1, message: 'no answer' };
  const commit = async (db: Database, epoch: number | null, desired: 'stopped' | 'cancelled', revision = 1) => {
    const [stored] = await loadJobs(db, ['000001']);
    assert.ok(stored);
    const job = { ...stored.job, desired };
    const rest = { events: [silent], foldedOutcomes: [], wakeAt: null, epoch };
    return commitJob(db, { ...rest, job, revision }, noNotices);
  };
  /** It expires at once. */
  const lease = { holder: 'one', version: '0.1.0', now: noon, ttl: 0, holdsLock: false };

  test('creates a job first: the next one gets another id, after another check for files', async () => {
    const { db, result } = await race(
      'update counter',
      () => Promise.resolve(),
      ({ insert }) => insert(),
      (db_) => {
        const run: RunOperation = (operation) => operation(db_);
        const writeWithId = createWriteWithId(run, run, (id) => id === '000002');
        return writeWithId('ada', (transaction, id) => insertJob(transaction, id, aNewJob));
      },
    );
    assert.equal(result.job.id, '000003');
    assert.deepEqual(await rowsOf(db, sql`select number from job order by number`), [{ number: 1 }, { number: 3 }]);
  });

  test('commits the job first: the commit is stale and writes nothing', async () => {
    const { db, result } = await race(
      'update job',
      ({ insert }) => insert(),
      ({ db: other }) => commit(other, null, 'cancelled'),
      (db_) => commit(db_, null, 'stopped'),
    );
    assert.equal(result, 'stale');
    const [stored] = await loadJobs(db, ['000001']);
    assert.deepEqual([stored?.job.desired, stored?.revision], ['cancelled', 2]);
    assert.deepEqual(await rowsOf(db, sql`select seq from event where job = 1 order by seq`), [{ seq: 1 }, { seq: 2 }]);
  });

  for (const [what, change] of [
    ['takes', (db: Database) => takeLease(db, { ...lease, holder: 'two' })],
    ['releases', (db: Database) => sql`update lease set holder = null, expires_at = 0`.execute(db)],
  ] as const)
    test(`${what} the lease: the commit of the earlier holder writes nothing`, async () => {
      const { db, result } = await race(
        'update job',
        async ({ db: first, insert }) => [await insert(), await takeLease(first, lease)],
        ({ db: other }) => change(other),
        (db_) => commit(db_, 1, 'stopped'),
      );
      assert.equal(result, 'lease_lost');
      assert.equal((await loadJobs(db, ['000001']))[0]?.revision, 1);
    });

  test('takes or renews the lease: it is not taken a second time', async () => {
    for (const holder of ['one', 'two']) {
      const { db, result } = await race(
        'update lease',
        ({ db: first }) => takeLease(first, lease),
        ({ db: other }) => takeLease(other, { ...lease, holder, ttl: minute }),
        (db_) => takeLease(db_, { ...lease, holder: 'three' }),
      );
      assert.deepEqual([result.taken, result.lease.holder], [false, holder]);
      assert.equal((await readLease(db, noon))?.holder, holder);
    }
  });

  test('takes the lease until the same time: its holder does not renew it', async () => {
    const { db, result } = await race(
      'update lease',
      ({ db: first }) => takeLease(first, { ...lease, ttl: minute }),
      ({ db: other }) =>
        takeLease(other, { ...lease, holder: 'two', now: noon + 500, ttl: minute - 500, holdsLock: true }),
      (db_) => takeLease(db_, { ...lease, now: noon + 900 }),
    );
    assert.deepEqual([result.taken, result.lease.holder], [false, 'two']);
    assert.equal((await readLease(db, noon))?.epoch, 2);
  });

  test("changes a lab's rows: both changes are kept", async () => {
    const { lab } = await race(
      'update lab_job',
      async (world) => world.lab.addJob(aLabJob(await world.insert(), 'ada')),
      (world) => sql`update lab_job set details = '{"logStage":true}' where job = 1`.execute(world.db),
      (_, mine) => mine.tagJob('000001', 'night'),
    );
    const { tag, logStage } = (await lab.job('000001')) ?? {};
    assert.deepEqual([tag, logStage], ['night', true]);

    const users = await race(
      'update lab_member',
      (world) => world.lab.addUser(aUser('ada')),
      (world) => world.lab.changeUser('ada', { kind: 'set', values: { nextWindow: 4, logins: ['ada1'] } }),
      (_, mine) => mine.changeUser('ada', { kind: 'see_news', upTo: 7 }),
    );
    const [ada] = await users.lab.users();
    assert.deepEqual([ada?.newsSeen, ada?.nextWindow, ada?.logins], [7, 4, ['ada1']]);

    for (const stored of [null, aTpu('a', { zone: null })]) {
      const tpus = await race(
        stored === null ? 'insert into lab_tpu' : 'update lab_tpu',
        async (world) => stored && world.lab.changeTpu('a', { kind: 'add', tpu: stored }),
        (world) => world.lab.changeTpu('a', { kind: 'register', facts: { accelerator: 'v2-8', project: 'lab' } }),
        (_, mine) => mine.changeTpu('a', { kind: 'register', facts: { accelerator: 'v2-8', runtimeVersion: 'v2' } }),
      );
      const [tpu] = await tpus.lab.tpus();
      assert.deepEqual([tpu?.project, tpu?.runtimeVersion], ['lab', 'v2']);
    }
  });

  test('books the TPU first: the booking sees it', async () => {
    const cy = { status: { kind: 'reserved' }, user: 'cy', note: '', scriptNote: '' } as const;
    const commands: Readonly<Record<string, BookingCommand>> = {
      'insert into lab_booking': { kind: 'run', user: 'ada', seenUser: null },
      'update lab_booking': { kind: 'run', user: 'ada', seenUser: 'cy' },
      'delete from lab_booking': { kind: 'release', seen: cy },
    };
    for (const [text, command] of Object.entries(commands)) {
      const { lab } = await race(
        text,
        async (world) => text.startsWith('insert') || world.lab.changeBooking('a', { kind: 'book', user: 'cy' }, noon),
        (world) => world.lab.changeBooking('a', { kind: 'book', user: 'bob' }, noon),
        (_, mine) => assert.rejects(mine.changeBooking('a', command, noon), /bob/),
      );
      assert.deepEqual(
        (await lab.bookings()).map(({ user }) => user),
        ['bob'],
        text,
      );
    }
  });

  test('adds a user first: the next one gets another id, and the same name, session or login is refused', async () => {
    const add = (given: Parameters<typeof aUser>[1], text = 'insert into lab_member') =>
      race(
        text,
        () => Promise.resolve(),
        (world) => world.lab.addUser(aUser('bob', { session: 'shared', logins: ['b1'] })),
        (_, mine) =>
          mine.addUser(aUser('ada', given)).then(
            () => '',
            (error: unknown) => (error as JobmanError).message,
          ),
      );
    const { lab } = await add({});
    assert.deepEqual(
      (await lab.users()).map(({ name, id }) => [name, id]),
      [
        ['bob', 0],
        ['ada', 1],
      ],
    );
    assert.match((await add({ session: 'shared' })).result, /session "shared" belongs to bob/);
    assert.match((await add({ id: 0 })).result, /id 0 belongs to bob/);
    assert.match((await add({ name: 'bob', session: 'other' })).result, /user "bob" already exists/);
    assert.match((await add({ id: 5, logins: ['b1'] }, 'insert into login')).result, /login "b1" belongs to bob/);
  });

  test('opens a window first: each window has its number, and an attempt has one', async () => {
    const prepare = async ({ lab, insert }: World) => {
      await lab.addUser(aUser('ada'));
      for (let count = 0; count < 2; count += 1) await lab.addJob(aLabJob(await insert(), 'ada'));
    };
    for (const [job, number] of [
      ['000002', 2],
      ['000001', 1],
    ] as const) {
      const { lab, result } = await race(
        'insert into lab_window',
        prepare,
        (world) => world.lab.openWindow('000001', 1, noon),
        (_, mine) => mine.openWindow(job, 1, noon),
      );
      assert.deepEqual([result.window.job, result.window.window], [job, number]);
      assert.equal((await lab.windows({})).length, number);
      assert.equal((await lab.users())[0]?.nextWindow, number + 1);
    }
    const { lab } = await race(
      'update lab_member',
      prepare,
      (world) => world.lab.changeUser('ada', { kind: 'set', values: { nextWindow: 9 } }),
      (_, mine) => mine.openWindow('000001', 1, noon),
    );
    assert.equal((await lab.users())[0]?.nextWindow, 9);
  });

  test('clears the window or finishes it first: a late report changes nothing', async () => {
    const report = { logFolder: '/a', stageFolder: '/a', tpu: 'a', startTime: '', at: noon };
    const prepare = async ({ lab, insert }: World) => {
      await lab.addUser(aUser('ada'));
      await lab.addJob(aLabJob(await insert(), 'ada'));
      await lab.openWindow('000001', 1, noon);
    };
    const clear = (world: World) => world.lab.setWindowState([{ job: '000001', attempt: 1 }], 'cleared', noon + 1);
    const listed = async ({ lab }: World) => (await lab.windows({ cleared: 'of listed jobs' }))[0]?.window;
    const all = async ({ db }: World) => rowsOf(db, sql`select report, finished_at from lab_window`);
    const reported = await race('update lab_window', prepare, clear, (_, mine) => mine.reportWindow('ada', 1, report));
    assert.deepEqual(await all(reported), [{ report: null, finished_at: null }]);
    const ended = await race(
      'update lab_window',
      prepare,
      (world) => world.lab.finishWindow('ada', 1, noon + 1),
      (_, mine) => mine.finishWindow('ada', 1, noon + 2),
    );
    assert.equal((await listed(ended))?.finishedAt, noon + 1);
  });

  test('records the orphan first: it is reported once', async () => {
    const orphan = { backend: 'tpu', resource: 'r', installation: 'abc123', job: '000001', allocation: 1 } as const;
    const notice = { event: 'orphan', job: '000001', name: null, owner: null, at: noon, message: 'm' };
    const notices = [notice] as unknown as Parameters<typeof writeOrphan>[2];
    const { db } = await race(
      'insert into orphan',
      () => Promise.resolve(),
      (world) => writeOrphan(world.db, { ...orphan, state: 'READY' }, notices),
      (mine) => writeOrphan(mine, { ...orphan, state: 'GONE' }, notices),
    );
    assert.deepEqual(await rowsOf(db, sql`select state from orphan`), [{ state: 'GONE' }]);
    assert.equal((await rowsOf(db, sql`select id from notice`)).length, 1);
  });

  test('archives the job of a cluster first: its usage follows the later observation', async () => {
    const clusters = (db: Database) =>
      clusterStore(
        (operation) => operation(db),
        (operation) => operation(db),
      );
    const job = aClusterJob({ uid: 'u1', name: 'train' });
    const pods = [aClusterPod({ name: 'train-a', createdAt: noon, phase: 'Running' }, { startedAt: noon + 5 })];
    const observed = { server: 's', context: 'lab', goneAt: null, events: [], job };
    const event = { key: 'created', at: noon, message: 'created' };
    const archive = (db: Database, observedAt: number, running = pods) =>
      clusters(db).archiveObservation({ ...observed, pods: running, observedAt }, [event]);
    for (const text of ['insert into cluster_job', 'update cluster_job']) {
      const { db } = await race(
        text,
        async (world) => text.startsWith('update') && archive(world.db, noon, []),
        (world) => archive(world.db, noon + 1),
        (mine) => archive(mine, noon + 2, []),
      );
      const stored = await clusters(db).job('u1');
      assert.ok(stored);
      assert.equal(stored.observedAt, noon + 2);
      assert.equal((await rowsOf(db, sql`select seq from usage`)).length, archivedUsage(stored).length);
      assert.equal((await clusters(db).events('u1')).length, 1);
    }
    const first = await race(
      'insert into cluster_job',
      () => Promise.resolve(),
      (world) => archive(world.db, noon, []),
      (mine) => clusters(mine).archiveObject({ ...observed, observedAt: noon }, '{}'),
    );
    assert.equal((await rowsOf(first.db, sql`select id from notice`)).length, 1);
  });

  test('drops the events of a message first: it is not created', async () => {
    const outbox = (db: Database) =>
      notificationStore(
        (operation) => operation(db),
        (operation) => operation(db),
      );
    const { db, result } = await race(
      'update delivery',
      async ({ db: first, insert }) => {
        await insert();
        await sql`insert into notice (id, source, event, at, addressed, body) values (1, 's', 'failed', 1, 0, '{}')`.execute(
          first,
        );
        await outbox(first).address([{ id: 1, recipients: ['slack'] }]);
      },
      (world) => outbox(world.db).drop('slack', { at: noon, error: 'dropped' }, null),
      (mine) => outbox(mine).createMessage('slack', [1], noon),
    );
    assert.equal(result, null);
    assert.deepEqual(
      (await outbox(db).messages(9, null)).map(({ state }) => state),
      ['given_up'],
    );
  });
});

test('passes from before a change by an earlier version keep their events, but not their inputs', async () => {
  const db = await open({ file: ':memory:' });
  const { job } = await insertJob(db, '000001', aNewJob);
  const event: Event = { kind: 'unreachable', at: noon, allocation: 1, message: 'no answer' };
  const observation = { admitted: true, allocations: [], workers: [], outcomes: [] };
  const decision = { job, events: [event], actions: [], wakeAt: undefined };
  const record = { pass: recordPass(observation, decision, { now: noon, version: '1' }), maxCount: 9, since: 0 };
  const rest = { events: [event], foldedOutcomes: [], wakeAt: null, epoch: null, record };
  const passes = async () =>
    (await readPasses(db, job.id)).map(({ seq, events, inputs }) => [seq, events.length, inputs !== null]);
  await commitJob(db, { job, revision: 1, ...rest }, noNotices);
  await commitJob(db, { job, revision: 2, ...rest }, noNotices);
  await sql`update job set revision = revision + 1`.execute(db);
  assert.deepEqual(await passes(), [
    [1, 1, false],
    [2, 1, false],
  ]);
  await commitJob(db, { job, revision: 4, ...rest }, noNotices);
  assert.deepEqual(await passes(), [
    [1, 1, false],
    [2, 1, false],
    [3, 1, true],
  ]);
  await sql`update pass set back = '{"job": {"id": {"no": ["field"]}}}' where seq = 3`.execute(db);
  assert.deepEqual((await passes()).at(-1), [3, 1, false]);
});
