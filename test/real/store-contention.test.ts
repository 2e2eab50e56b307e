// Eight processes change the same rows, two of them are killed again and again, and a ninth follows the events. No change
// is lost, repeated or seen twice. JOBMAN_STORE_SECONDS is the duration.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { usageOf } from '../../src/reports/usage.ts';
import { openDatabase, type DatabaseAddress } from '../../src/store/open-database.ts';
import { sql, type Sql } from '../../src/store/sql.ts';
import { openStore, type JobmanStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';
import { aLabJob, aUser } from '../support/lab-builders.ts';
import { requirePostgres } from '../support/postgres.ts';
import { openWorld, type World } from '../support/world.ts';

const durationMs = Number(process.env['JOBMAN_STORE_SECONDS'] ?? 20) * 1_000;
const script = join(import.meta.dirname, 'store-contender.ts');

interface Contender {
  readonly lines: readonly string[];
  readonly ended: Promise<number | null>;
  readonly kill: () => void;
  readonly endInput: () => void;
}

function start(world: World, args: readonly string[]): Contender {
  const child = spawn(process.execPath, [script, ...args], { env: world.env, cwd: world.folder });
  const lines: string[] = [];
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
  });
  child.stderr.pipe(process.stderr);
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', resolve);
  });
  return { lines, ended, kill: () => child.kill('SIGKILL'), endInput: () => child.stdin.end() };
}

/** All lines of the eight writers, and those of the follower. `disturb` is called again and again. */
async function contend(
  world: World,
  address: DatabaseAddress,
  shared: readonly string[],
  disturb: () => Promise<void>,
) {
  const until = Date.now() + durationMs;
  let started = 0;
  const open = (role: string) => {
    started += 1;
    return start(world, [role, JSON.stringify(address), `w${started}`, `${started}`, `${until}`, ...shared]);
  };
  const follower = open('follow');
  const steady = ['control', 'control', 'write', 'write', 'write', 'write'].map(open);
  const killed: Contender[] = [];
  async function killRepeatedly(after: number): Promise<void> {
    for (;;) {
      const doomed = open('write');
      killed.push(doomed);
      // Another time in each round, so that the kill hits different steps.
      await sleep(after + 137 * (killed.length % 11));
      if (Date.now() >= until) return;
      doomed.kill();
      await doomed.ended;
    }
  }
  async function disturbRepeatedly(): Promise<void> {
    for (let times = 0; Date.now() < until; times += 1) {
      await disturb();
      await sleep(1_500 + 171 * (times % 7));
    }
  }
  await Promise.all([killRepeatedly(900), killRepeatedly(1_400), disturbRepeatedly()]);
  assert.deepEqual(new Set(await Promise.all(steady.map(({ ended }) => ended))), new Set([0]));
  await Promise.all(killed.map(({ ended }) => ended));
  follower.endInput();
  assert.equal(await follower.ended, 0);
  return { lines: [...steady, ...killed].flatMap(({ lines }) => lines), followed: follower.lines };
}

/** The answer to each token of a kind; `unclear` for an operation whose process was killed. */
function answersOf(lines: readonly string[], kind: string): ReadonlyMap<string, string> {
  const answers = new Map<string, string>();
  for (const line of lines) {
    const [first = '', second = '', third = ''] = line.split(' ');
    if (first === 'try' && second === kind) answers.set(third, 'unclear');
    else if (first === kind) answers.set(second, third);
  }
  return answers;
}

/** The tokens of these answers. */
const tokensOf = (answers: ReadonlyMap<string, string>, ...wanted: readonly string[]): readonly string[] =>
  [...answers].flatMap(([token, answer]) => (wanted.includes(answer) ? [token] : []));

async function check(address: DatabaseAddress, shared: readonly string[], ran: Awaited<ReturnType<typeof contend>>) {
  const store = openStore(address);
  const database = openDatabase(address);
  const rows = <Row>(statement: Sql<Row>) => database.read(async (db) => (await statement.execute(db)).rows);
  try {
    await checkEvents(rows, ran);
    await checkJobs(store, shared, ran.lines);
    await checkTpu(rows, ran.lines);
    const commits = new Set(answersOf(ran.lines, 'commit').values());
    for (const answer of ['committed', 'stale', 'lease_lost'])
      assert.ok(commits.has(answer), `no commit was ${answer}`);
    const counters = new Map(
      (await rows(sql<{ name: string; value: number }>`select name, value from counter`)).map((row) => [
        row.name,
        row.value,
      ]),
    );
    const [last] = await rows(sql<{ job: number; event: number; outcome: number }>`
      select (select max(number) from job) as job, (select max(id) from event) as event,
        (select coalesce(max(id), 0) from outcome) as outcome`);
    assert.equal(counters.get('event'), last?.event);
    // A refused job leaves its number unused.
    for (const counter of ['job', 'outcome'] as const) {
      const value = counters.get(counter) ?? 0;
      assert.ok(value >= (last?.[counter] ?? 0), `the counter of ${counter}s is ${value}`);
    }
    const [booking] = await store.lab.bookings();
    const [user] = await store.lab.users();
    for (const [kind, value] of [
      ['booking', Number(booking?.scriptNote)],
      ['user', Object.values(user?.aliases ?? {}).filter((key) => key === 'config.contended').length],
    ] as const) {
      const answers = answersOf(ran.lines, kind);
      const done = tokensOf(answers, 'done').length;
      const most = done + tokensOf(answers, 'unclear').length;
      assert.ok(value >= done && value <= most, `${kind}: ${value} of ${done} to ${most}`);
    }
  } finally {
    await Promise.all([store.close(), database.close()]);
  }
}

type Rows = <Row>(statement: Sql<Row>) => Promise<readonly Row[]>;

/** Each commit that was answered has its event, in the order of the epochs, and the follower has seen each event once. */
async function checkEvents(rows: Rows, { lines, followed }: Awaited<ReturnType<typeof contend>>): Promise<void> {
  const events = await rows(sql<{ id: number; job: number; seq: number; body: string }>`
    select id, job, seq, body from event where kind = 'unreachable' order by id`);
  const messages = events.map(({ body }) => (JSON.parse(body) as { readonly message: string }).message);
  assert.deepEqual(
    followed,
    events.map(({ id }, index) => `event ${id} ${messages[index]}`),
    'the follower',
  );
  assert.equal(new Set(messages).size, messages.length, 'no commit is stored twice');
  const answers = answersOf(lines, 'commit');
  const stored = new Set(messages);
  const lost = tokensOf(answers, 'committed').filter((token) => !stored.has(token));
  assert.deepEqual(lost, [], 'commits that were answered and are lost');
  const refused = tokensOf(answers, 'stale', 'lease_lost', 'nothing').filter((token) => stored.has(token));
  assert.deepEqual(refused, [], 'commits that were refused and are stored');

  const epochs = messages.flatMap((message) => /^E(\d+):/.exec(message)?.[1] ?? []).map(Number);
  assert.deepEqual(
    epochs,
    epochs.toSorted((one, other) => one - other),
    'a commit with an old epoch was accepted',
  );
  const holders = new Map<string, Set<string>>();
  for (const line of lines) {
    const [kind, holder = '', epoch = ''] = line.split(' ');
    if (kind === 'lease') holders.set(epoch, (holders.get(epoch) ?? new Set()).add(holder));
  }
  assert.ok(holders.size > 1, 'the lease had one holder');
  for (const [epoch, names] of holders) assert.equal(names.size, 1, `epoch ${epoch} was given twice`);
}

async function checkJobs(store: JobmanStore, shared: readonly string[], lines: readonly string[]): Promise<void> {
  const inserts = [...answersOf(lines, 'insert'), ...answersOf(lines, 'claim')];
  const { jobs } = await store.list({ maxFinished: null });
  const idOf = new Map(jobs.map((job) => [job.owner, job.id]));
  assert.equal(idOf.size, jobs.length - shared.length + 1, 'each insert has one job');
  for (const [token, answer] of inserts) {
    if (['nothing', 'unconfirmed'].includes(answer)) assert.equal(idOf.get(token), undefined);
    else if (answer !== 'unclear') assert.equal(idOf.get(token), answer);
  }
  for (const id of shared) {
    const loaded = await store.load(id);
    assert.ok(loaded);
    const events = await store.events(id, 0);
    assert.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, index) => index + 1),
      `gaps in the events of ${id}`,
    );
    const commits = events.filter(({ event }) => event.kind === 'unreachable').length;
    assert.equal(loaded.revision - 1, commits, `revisions of ${id}`);
    // Each commit has added 1 to what it had read.
    assert.equal(loaded.job.desiredAt - noon, commits, `lost updates of ${id}`);
    assert.deepEqual(await store.usage({ jobs: [id] }), usageOf(loaded.job), `usage of ${id}`);
  }
}

/** In the order of their commits, each job on the TPU is created after the end of the one before. */
async function checkTpu(rows: Rows, lines: readonly string[]): Promise<void> {
  const events = await rows(sql<{ job: number; kind: string }>`
    select event.job, event.kind from event join job on job.number = event.job
    where job.holds is not null and event.kind in ('created', 'finished') order by event.id`);
  for (const [index, { kind, job }] of events.entries()) {
    const before = events[index - 1];
    if (kind === 'finished') assert.equal(before?.job, job, 'two jobs used the TPU at the same time');
    else assert.notEqual(before?.kind, 'created', 'two jobs used the TPU at the same time');
  }
  assert.ok(tokensOf(answersOf(lines, 'claim'), 'unconfirmed').length > 0, 'no two processes met at the TPU');
}

async function contentionTest(
  t: TestContext,
  address: (world: World) => DatabaseAddress,
  disturb: () => Promise<void>,
) {
  const world = openWorld(t);
  const where = address(world);
  const store = openStore(where);
  await store.lab.addUser(aUser('xibo'));
  const shared: string[] = [];
  for (let count = 0; count < 20; count += 1) {
    const { job, revision } = await store.insert({ owner: 'xibo', spec: localSpec(), manifest: '', at: noon });
    await store.lab.addJob(aLabJob(job.id, 'xibo'));
    assert.deepEqual([revision, job.desiredAt], [1, noon]);
    shared.push(job.id);
  }
  await store.close();
  await check(where, shared, await contend(world, where, shared, disturb));
}

test('eight processes at once on a file, two of which are killed, lose no change', (t) =>
  contentionTest(
    t,
    ({ home }) => ({ file: join(home, 'state.db') }),
    () => Promise.resolve(),
  ));

test('eight processes at once on a server that is killed again and again, two of which are killed, lose no change', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const url = server.urlOf(await server.createDatabase());
  await contentionTest(
    t,
    () => ({ url }),
    async () => {
      await server.stop();
      await server.start();
    },
  );
});
