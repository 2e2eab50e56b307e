// Users, tokens, limits and the audit log, through the use cases, on both databases.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { auditEntry, type AuditRow } from '../../src/app/audit.ts';
import { checkRequest, type GuardParts } from '../../src/app/confirmation.ts';
import { exitCode, StoreError } from '../../src/app/errors.ts';
import { createAuthenticate, createToken, isToken, listTokens, revokeToken } from '../../src/app/tokens.ts';
import { addUser, changeUser, listUsers } from '../../src/app/users.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { day, hour, minute } from '../../src/core/model/time.ts';
import type { Actor } from '../../src/core/model/user.ts';
import type { Guard } from '../../src/core/policy/guards.ts';
import { noLimits, type UserLimits } from '../../src/core/policy/limits.ts';
import { readDailyBudgets } from '../../src/store/user-changes.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { openStore, type JobmanStore } from '../../src/store/store.ts';
import { aMember, localSpec, noon, tpuSpec } from '../support/builders.ts';
import { requirePostgres } from '../support/postgres.ts';
import { suiteOnBoth, testStore } from '../support/stores.ts';

const root: Actor = aMember('root', { role: 'admin', login: 'root' });

function partsOf({ access }: JobmanStore) {
  const clock = { time: noon };
  return { access, now: () => clock.time, clock };
}

const rows = (store: JobmanStore): Promise<readonly AuditRow[]> => store.access.audit({ actors: null, limit: 1000 });

suite('users', () => {
  testStore('are added, changed and disabled, each with a row in the audit log', async (store) => {
    const parts = partsOf(store);
    const ada = await addUser(parts, root, { name: 'ada', logins: ['ada1', 'ada1'] });
    assert.deepEqual(ada, {
      name: 'ada',
      role: 'member',
      logins: ['ada1'],
      account: null,
      accountBoundAt: null,
      createdAt: noon,
      disabledAt: null,
      limits: noLimits,
    });
    for (const [name, logins] of [
      ['ada', []],
      ['ADA', []],
      ['bob', ['ada1']],
    ] as const)
      await assert.rejects(addUser(parts, root, { name, logins }), { code: exitCode.conflict });
    assert.equal((await changeUser(parts, root, 'ada', { kind: 'role', role: 'viewer' })).user.role, 'viewer');
    assert.equal((await changeUser(parts, root, 'ada', { kind: 'role', role: 'viewer' })).changed, false);
    await changeUser(parts, root, 'ada', { kind: 'limits', limits: { chips: 64 } });
    const { user } = await changeUser(parts, root, 'ada', { kind: 'limits', limits: { jobs: 3 } });
    assert.deepEqual(user.limits, { ...noLimits, chips: 64, jobs: 3 });
    await changeUser(parts, root, 'ada', { kind: 'disable' });
    assert.deepEqual(await store.users(), [{ name: 'ada', role: 'viewer', logins: ['ada1'], isDisabled: true }]);
    await changeUser(parts, root, 'ada', { kind: 'enable' });
    assert.deepEqual(await listUsers(parts, aMember('eve')), []);
    assert.deepEqual(
      (await listUsers(parts, aMember('ada'))).map(({ name, disabledAt }) => [name, disabledAt]),
      [['ada', null]],
    );
    assert.deepEqual(
      (await rows(store)).map(({ seq, actor, login, operation, object, detail }) =>
        [seq, actor, login, operation, object?.id, JSON.stringify(detail)].join(' '),
      ),
      [
        '6 root root change-user ada {"change":"enable"}',
        '5 root root change-user ada {"change":"disable"}',
        '4 root root change-user ada {"change":"limits","jobs":3}',
        '3 root root change-user ada {"change":"limits","chips":64}',
        '2 root root change-user ada {"change":"role","role":"viewer"}',
        '1 root root add-user ada {"role":"member","logins":["ada1","ada1"]}',
      ],
    );
  });

  testStore(
    'of the lab are the same rows, and what belonged to a removed one does not count for the next',
    async (store) => {
      const parts = partsOf(store);
      await addUser(parts, root, { name: 'ada', role: 'viewer', logins: ['ada1'] });
      const member = {
        session: 'ada',
        sheetName: 'Ada',
        directories: {},
        aliases: {},
        settings: {} as never,
        nextWindow: 1,
        createdAt: noon,
        newsSeen: 0,
      };
      const added = await store.lab.addUser({ ...member, name: 'ada', id: null, role: 'member', logins: ['ada2'] });
      assert.deepEqual([added.role, added.logins], ['viewer', ['ada1', 'ada2']]);
      const { token } = await createToken(parts, root, { user: 'ada' });
      await changeUser(parts, root, 'ada', { kind: 'limits', limits: { jobs: 0 } });
      await changeUser(parts, root, 'ada', { kind: 'account', account: 'ada@example.com' });
      await store.lab.removeUser('ada');
      await addUser(parts, root, { name: 'ada' });
      assert.deepEqual(await listTokens(parts, root), []);
      assert.equal(await createAuthenticate(parts)(token), null);
      assert.deepEqual(
        (await listUsers(parts, root)).map(({ limits, logins, account }) => [limits, logins, account]),
        [[noLimits, [], null]],
      );

      await store.lab.addUser({ ...member, name: 'ada', id: null, role: 'member', logins: [] });
      await changeUser(parts, root, 'ada', { kind: 'role', role: 'admin' });
      const logins = { kind: 'set', values: { logins: ['eve1'] } } as const;
      for (const call of [store.lab.removeUser('ada'), store.lab.changeUser('ada', logins)])
        await assert.rejects(call, { code: exitCode.conflict, message: /is an admin, whom only an admin may change/ });
      assert.equal((await store.lab.users()).length, 1);
    },
  );
});

suiteOnBoth('two admins who lower each other at the same time', (newAddress) => {
  test('leave one admin', async (t) => {
    const address = await newAddress();
    const stores = [1, 2].map(() => openStore(address));
    t.after(() => Promise.all(stores.map((store) => store.close())));
    const [one, other] = stores.map(partsOf) as [ReturnType<typeof partsOf>, ReturnType<typeof partsOf>];
    for (const name of ['ada', 'eve']) await addUser(one, root, { name, role: 'admin' });
    const answers = await Promise.allSettled([
      changeUser(one, aMember('ada', { role: 'admin' }), 'eve', { kind: 'role', role: 'member' }),
      changeUser(other, aMember('eve', { role: 'admin' }), 'ada', { kind: 'disable' }),
    ]);
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    const left = (await listUsers(one, root)).filter(({ role, disabledAt }) => role === 'admin' && disabledAt === null);
    assert.equal(left.length, 1);
  });
});

suite('accounts', () => {
  const identity = (subject: string) => ({ issuer: 'https://login.example', subject, account: 'ada@example.com' });
  const entry = (user: string) =>
    auditEntry({ user, role: 'member', via: 'session', logins: [] }, noon, 'log-in', { kind: 'user', id: user });

  testStore('belong to one user, and after the first login to one person', async (store) => {
    const parts = partsOf(store);
    await addUser(parts, root, { name: 'ada', account: 'Ada@example.com' });
    const taken = { kind: 'account', account: 'ADA@example.com' } as const;
    await assert.rejects(addUser(parts, root, { name: 'bob', account: 'ada@example.com' }), {
      code: exitCode.conflict,
    });
    await addUser(parts, root, { name: 'eve' });
    await assert.rejects(changeUser(parts, root, 'eve', taken), {
      code: exitCode.conflict,
      message: 'The account "ada@example.com" belongs to ada. Remove it from that user first.',
    });
    await assert.rejects(changeUser(parts, root, 'eve', { kind: 'account', account: 'a b' }), { code: exitCode.usage });
    const answers = await Promise.all(
      ['1', '2', '3'].map((one) => store.access.logIn(identity(one), null, noon, entry)),
    );
    assert.deepEqual(answers.map(({ kind }) => kind).toSorted(), ['allowed', 'other_person', 'other_person']);
    assert.equal((await store.access.users())[0]?.accountBoundAt, noon);
    const logins = (await rows(store)).filter(({ operation }) => operation === 'log-in');
    assert.equal(logins.length, 1, 'a refused login changes nothing');
    await changeUser(parts, root, 'ada', { kind: 'account', account: null });
    assert.equal((await store.access.logIn(identity('1'), null, noon, entry)).kind, 'unknown');
  });

  testStore('have logins that wait for one next step, and make room for newer ones', async (store) => {
    const { access } = store;
    for (const [id, validFor] of [
      ['a', 1],
      ['b', 3],
      ['c', 2],
      ['d', 4],
      ['late', -5],
    ] as const)
      await access.addPendingLogin(
        { id, kind: id === 'late' ? 'code' : 'callback', validForMs: validFor * minute, body: id },
        noon,
        2,
      );
    assert.equal(await access.takePendingLogin('d', 'code', noon), null);
    assert.equal(await access.takePendingLogin('late', 'code', noon), null);
    const ids = ['a', 'b', 'c', 'd', 'd', 'd'];
    const taken = await Promise.all(ids.map((id) => access.takePendingLogin(id, 'callback', noon)));
    assert.deepEqual(
      taken.filter((body) => body !== null),
      ['b', 'd'],
    );
  });
});

suite('a token', () => {
  testStore(
    'counts until it expires, is revoked or its user is disabled, and the database has only its hash',
    async (store) => {
      const parts = partsOf(store);
      const authenticate = createAuthenticate(parts);
      await addUser(parts, root, { name: 'ada' });
      const { token, view } = await createToken(parts, root, { user: 'ada', name: 'laptop', validForMs: day });
      assert.ok(isToken(token));
      assert.ok(!isToken(`${token.slice(0, -1)}${token.endsWith('0') ? '1' : '0'}`));
      const actor = await authenticate(token);
      assert.deepEqual(actor, {
        user: 'ada',
        role: 'member',
        via: 'token',
        logins: [],
        token: { id: view.id, name: 'laptop' },
      });
      for (const wrong of ['', 'jobman_', token.toLowerCase(), `${token} `, `jobman_${'0'.repeat(38)}`])
        assert.equal(await authenticate(wrong), null);

      await changeUser(parts, root, 'ada', { kind: 'role', role: 'viewer' });
      assert.equal((await authenticate(token))?.role, 'viewer', 'the lower role of user and token');
      await changeUser(parts, root, 'ada', { kind: 'role', role: 'admin' });
      assert.equal((await authenticate(token))?.role, 'member');

      await addUser(parts, root, { name: 'eve', role: 'admin' });
      await changeUser(parts, root, 'ada', { kind: 'disable' });
      assert.equal(await authenticate(token), null);
      await assert.rejects(createToken(parts, root, { user: 'ada' }), { code: exitCode.conflict });
      await changeUser(parts, root, 'ada', { kind: 'enable' });
      assert.notEqual(await authenticate(token), null);

      const lost = await createToken(parts, root, { user: 'ada', name: 'lost' });
      assert.notEqual(await authenticate(lost.token), null);
      await revokeToken(parts, root, lost.view.id);
      assert.equal(await authenticate(lost.token), null);

      parts.clock.time = noon + day - 1;
      assert.notEqual(await authenticate(token), null);
      parts.clock.time = noon + day;
      assert.equal(await authenticate(token), null);
      assert.equal(await authenticate(token), null);
      const refused = (await rows(store)).filter(({ operation }) => operation === 'authenticate');
      assert.deepEqual(
        refused.map(({ outcome, actor: user, token: used, detail }) => [outcome, user, used?.name, detail]),
        [
          ['denied', 'ada', 'laptop', { reason: 'expired' }],
          ['denied', 'ada', 'lost', { reason: 'revoked' }],
          ['denied', 'ada', 'laptop', { reason: 'user disabled' }],
        ],
        'a client that repeats its calls adds one row a minute',
      );
      assert.ok(!JSON.stringify([await rows(store), await listTokens(parts, root)]).includes(token));
    },
  );

  testStore('is one of as many as an admin allows a user', async (store) => {
    const parts = partsOf(store);
    await addUser(parts, root, { name: 'ada' });
    await changeUser(parts, root, 'ada', { kind: 'limits', limits: { tokens: 2 } });
    const ada = aMember('ada');
    const first = await createToken(parts, ada, { name: 'one', validForMs: hour });
    await createToken(parts, root, { user: 'ada', name: 'two' });
    for (const actor of [ada, root])
      await assert.rejects(createToken(parts, actor, { user: 'ada' }), {
        code: exitCode.conflict,
        message: 'No token was created: ada has 2 valid tokens, and 2 are allowed.',
      });
    await revokeToken(parts, ada, first.view.id);
    await createToken(parts, ada, { name: 'three', validForMs: hour });
    await assert.rejects(createToken(parts, ada, {}), { code: exitCode.conflict });
    parts.clock.time += hour;
    await createToken(parts, ada, {});
  });

  testStore('of a name exists once until it is revoked or expires, and is revoked once', async (store) => {
    const parts = partsOf(store);
    await addUser(parts, root, { name: 'ada' });
    const request = { user: 'ada', name: 'ci', validForMs: hour };
    const first = await createToken(parts, root, request);
    await assert.rejects(createToken(parts, root, request), { code: exitCode.conflict });
    assert.deepEqual((await revokeToken(parts, root, 'ci', 'ada')).view.id, first.view.id);
    assert.equal((await revokeToken(parts, root, first.view.id)).changed, false);
    assert.equal(await createAuthenticate(parts)(first.token), null);
    const second = await createToken(parts, root, request);
    parts.clock.time += 2 * hour;
    const third = await createToken(parts, root, request);
    assert.deepEqual((await revokeToken(parts, root, 'ci', 'ada')).view.id, third.view.id);
    assert.notEqual(second.view.id, third.view.id);
    const ada = aMember('ada');
    const viewer: Actor = aMember('ada', { role: 'viewer', via: 'token' });
    await assert.rejects(revokeToken(parts, viewer, 'ci'), { errorCode: 'forbidden' });
    await changeUser(parts, root, 'ada', { kind: 'role', role: 'viewer' });
    assert.equal((await revokeToken(parts, viewer, 'ci')).view.id, third.view.id, 'a role that the user has lost');
    await assert.rejects(revokeToken(parts, aMember('eve'), first.view.id), { code: exitCode.notFound });
    await assert.rejects(revokeToken(parts, ada, 'x', 'eve'), { errorCode: 'forbidden' });
    assert.equal((await listTokens(parts, ada)).length, 3);
    assert.deepEqual(await listTokens(parts, aMember('eve')), []);
  });

  testStore(
    'records its last use at most once a minute, and counts in a database that cannot be written',
    async (store) => {
      const parts = partsOf(store);
      const { token } = await createToken(parts, root, {});
      const uses: number[] = [];
      const access = { ...store.access, recordUse: async (_id: string, at: number) => void uses.push(at) };
      const watched = createAuthenticate({ access, now: parts.now });
      await watched(token);
      await store.access.recordUse((await listTokens(parts, root))[0]?.id ?? '', noon);
      for (const after of [1, minute - 1, minute]) {
        parts.clock.time = noon + after;
        await watched(token);
      }
      assert.deepEqual(uses, [noon, noon + minute]);
      const readOnly = () => Promise.reject(new StoreError('read_only', 'read-only'));
      const frozen = createAuthenticate({ access: { ...store.access, recordUse: readOnly }, now: parts.now });
      assert.notEqual(await frozen(token), null);
    },
  );
});

suite('the limits of a user', () => {
  const guard: Guard = { grants: [{}], request: '', confirmed: [] };
  async function limitedStore(store: JobmanStore, limits: Partial<UserLimits>) {
    const parts = partsOf(store);
    await addUser(parts, root, { name: 'ada', logins: ['ada1'] });
    await changeUser(parts, root, 'ada', { kind: 'limits', limits });
    const guardParts: GuardParts = {
      store,
      now: parts.now,
      grants: async () => guard.grants,
      pricePerHour: () => null,
    };
    const insert = async (spec: JobSpec, owner = 'ada') => {
      const stored = await store.insertGuarded({ owner, spec, manifest: '', at: noon }, guard);
      if (stored !== 'unconfirmed') return stored.job.id;
      const given = { text: '', confirmed: [] };
      const { confirmation } = await checkRequest(guardParts, { owner, spec, job: null }, given);
      const reasons = confirmation?.reasons ?? [];
      for (const { kind, token, mayProceed } of reasons)
        assert.deepEqual([kind, token, mayProceed], ['user_limit', null, false]);
      return reasons.map(({ message }) => message).join('; ');
    };
    return insert;
  }

  testStore('are checked in the transaction that stores a job, with the jobs of their logins', async (store) => {
    const insert = await limitedStore(store, { jobs: 2 });
    assert.equal(await insert(localSpec(), 'ada1'), '000001');
    const answers = await Promise.all([1, 2, 3].map(() => insert(localSpec())));
    assert.equal(answers.filter((answer) => /^\d{6}$/.test(answer)).length, 1);
    assert.ok(answers.includes('ada has 2 unfinished jobs, and 2 are allowed'));
    assert.match(await insert(localSpec(), 'eve'), /^\d{6}$/);
  });

  testStore('are checked when a job starts again', async (store) => {
    const insert = await limitedStore(store, { jobs: 1 });
    const stored = await store.load(await insert(localSpec()));
    assert.ok(stored !== undefined);
    const { job } = stored;
    const commit = { foldedOutcomes: [], wakeAt: null, epoch: null };
    const finish = { at: noon, verdict: 'stopped', reason: 'stopped' } as const;
    const stopped = { ...job, desired: 'stopped', startRequest: null, finish } as const;
    assert.equal(await store.commit({ ...commit, job: stopped, revision: 1, events: [] }), 'committed');
    const restart = { ...commit, job, revision: 2, events: [], guard };
    const other = await insert(localSpec());
    assert.match(other, /^\d{6}$/);
    assert.equal(await store.commit(restart), 'unconfirmed');
    const replacing = { ...guard, replaces: [other] };
    assert.equal(await store.commit({ ...restart, guard: replacing }), 'committed', 'a job that ends does not count');
  });

  testStore('of chips and projects count for ephemeral TPUs of the cloud', async (store) => {
    const insert = await limitedStore(store, { chips: 8, projects: ['lab'] });
    const tpu = (capacity: object) =>
      tpuSpec({}, { ownership: 'ephemeral', accelerator: 'v4-8', project: 'lab', ...capacity });
    assert.match(await insert(tpu({})), /^\d{6}$/);
    assert.match(await insert(tpu({})), /^\d{6}$/);
    assert.equal(
      await insert(tpu({ project: 'other' })),
      'ada may not use the project other: allowed is lab; it has 4 chips, and 8 are allowed for ada (8 used by 000001 and 000002)',
    );
    assert.match(await insert(tpu({ project: 'emulator' })), /^\d{6}$/);
    assert.match(await insert(localSpec()), /^\d{6}$/);
  });

  testStore('of hosts count for jobs there, and for commands on the machine of the controller', async (store) => {
    const insert = await limitedStore(store, { hosts: ['gpu1'] });
    const message = 'ada may not use the host localhost: allowed is gpu1';
    assert.equal(await insert(localSpec()), message);
    assert.equal(await insert(tpuSpec({ command: { ...tpuSpec().command, runsOn: 'controller' } })), message);
    assert.match(await insert(tpuSpec()), /^\d{6}$/);
  });

  suiteOnBoth('of dollars', (newAddress) => {
    test('per day are a budget of all names of the user', async (t) => {
      const address = await newAddress();
      const store = openStore(address);
      const database = openDatabase(address);
      t.after(() => Promise.all([store.close(), database.close()]));
      const insert = await limitedStore(store, { usdPerDay: 0 });
      assert.deepEqual(await database.read(readDailyBudgets), [{ owners: ['ada', 'ada1'], usdPerDay: 0 }]);
      const spec = tpuSpec({}, { ownership: 'ephemeral', project: 'lab', pricePerHourUsd: 4 });
      assert.match(await insert(spec), /^the dollars of ada for today are used up: \$0\.00 of \$0\.00/);
      assert.match(await insert(tpuSpec({}, { ownership: 'persistent' })), /^\d{6}$/);
    });
  });
});

suite('the row of a change', () => {
  testStore('is written with the change, and not with one that is dropped', async (store) => {
    const audit = auditEntry(root, noon, 'create', null);
    const { job, revision } = await store.insert({ owner: 'ada', spec: localSpec(), manifest: '', at: noon, audit });
    const check = () => Promise.reject(new Error('refused in the transaction'));
    await assert.rejects(store.insert({ owner: 'ada', spec: localSpec(), manifest: '', at: noon, audit, check }));
    const cancel = auditEntry(root, noon, 'cancel', { kind: 'job', id: job.id });
    const commit = { job, events: [], foldedOutcomes: [], wakeAt: null, epoch: null, audit: cancel };
    assert.equal(await store.commit({ ...commit, revision: revision + 1 }), 'stale');
    assert.equal(await store.commit({ ...commit, revision }), 'committed');
    const stored = await rows(store);
    assert.deepEqual(
      stored.map(({ seq, operation, object }) => [seq, operation, object?.id]),
      [
        [2, 'cancel', job.id],
        [1, 'create', job.id],
      ],
    );
    const page = await store.access.audit({ actors: ['root'], limit: 1, before: 2 });
    assert.deepEqual(page, stored.slice(1));
    assert.deepEqual(await store.access.audit({ actors: null, limit: 9, since: noon + 1 }), []);
    assert.deepEqual(await store.access.audit({ actors: null, limit: 9, job: '000009' }), []);
    assert.deepEqual(await store.access.audit({ actors: null, limit: 9, denied: true }), []);
  });
});

testStore('a refused request about an object with a name without end has a short row', async (store) => {
  const id = 'A'.repeat(1_000_000);
  await store.access.record(auditEntry(root, noon, 'add-user', { kind: 'user', id }, { outcome: 'denied' }));
  assert.deepEqual((await rows(store))[0]?.object, { kind: 'user', id: id.slice(0, 500) });
});

test('the role of an application on PostgreSQL adds rows to the audit log and changes none', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const name = await server.createDatabase();
  const owner = openStore({ url: server.urlOf(name) });
  await owner.insert({ owner: 'ada', spec: localSpec(), manifest: '', at: noon });
  await owner.close();
  // As in docs/postgresql.md.
  for (const statement of [
    'grant usage on schema public to locked',
    'grant select, insert, update, delete on all tables in schema public to locked',
    'revoke update, delete, truncate on audit from locked',
  ])
    await server.query(statement, name);
  const url = server.urlOf(name, 'locked');
  const store = openStore({ url });
  const database = openDatabase({ url });
  t.after(() => Promise.all([store.close(), database.close()]));
  const parts = partsOf(store);
  await addUser(parts, root, { name: 'ada' });
  const { token } = await createToken(parts, root, { user: 'ada' });
  assert.notEqual(await createAuthenticate(parts)(token), null);
  const audit = auditEntry(root, noon, 'create', null);
  await store.insert({ owner: 'ada', spec: localSpec(), manifest: '', at: noon, audit });
  assert.deepEqual(
    (await rows(store)).map(({ object }) => object?.kind),
    ['job', 'token', 'user'],
  );
  for (const statement of ["update audit set actor = 'eve'", 'delete from audit', 'truncate audit'])
    await assert.rejects(
      database.write((db) => db.run({ pieces: [statement], values: [] })),
      /permission denied for table audit/,
    );
  assert.equal((await rows(store)).length, 3);
});

testStore('a page begins after any key that a cursor may have', async (store) => {
  const count = 2 ** 31 - 1;
  for (const time of [-Number.MAX_SAFE_INTEGER, noon, Number.MAX_SAFE_INTEGER])
    assert.deepEqual(
      [
        await store.access.tokens(null, { after: ['é\ud800', time, "' or 1 = 1"], limit: 1 }),
        await store.usage({}, { after: ["' or 1 = 1", count], limit: 1 }),
        await store.clusters.jobs({}, { after: [time, 'u1'], limit: 1 }),
        await store.clusters.events('u1', { after: [time, -count, 'a'], limit: 1 }),
        await store.notifications.messages(1, null, count),
        await store.access.audit({ actors: null, limit: 1, before: count }),
        await store.events('000001', count, 1),
      ],
      [[], [], [], [], [], [], []],
    );
});
