// What happens when the record cannot be used: it is said, nothing is repaired behind anybody's back, nothing is lost.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { StoreError, type StoreTrouble } from '../../src/app/errors.ts';
import type { Store } from '../../src/app/ports.ts';
import { day } from '../../src/core/time.ts';
import { backUp } from '../../src/store/backup.ts';
import { migrations } from '../../src/store/migrations.ts';
import { currentVersion, openRecordFile, type OpenRecord } from '../../src/store/record-file.ts';
import { sql } from '../../src/store/sql.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon, tpuSpec, aJob, living, ready } from '../support/builders.ts';
import { temporaryFolder } from '../support/folder.ts';
import { openWorld } from '../support/world.ts';

for (const bytes of [1, 2, 100, 511]) {
  test(`a record of ${bytes} bytes is damaged, and is not made again`, async (t) => {
    const { file, open } = recordIn(t);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, Buffer.alloc(bytes, 'S'));
    const store = open();
    const damaged = { trouble: 'corrupt', message: /is damaged/ };
    await assert.rejects(store.list({ settledMost: null }), damaged);
    await assert.rejects(store.insert(job), damaged);
    assert.equal(statSync(file).size, bytes);
  });
}

const job = { owner: 'ada', spec: localSpec(), manifest: 'job:\n  name: iris\n', at: noon };

function recordIn(t: TestContext): { readonly file: string; readonly open: (readOnly?: boolean) => Store } {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  return {
    file,
    open(readOnly = false) {
      const store = openStore({ file, readOnly });
      world.atEnd(() => store.close());
      return store;
    },
  };
}

async function fails(operation: Promise<unknown>, trouble: StoreTrouble): Promise<StoreError> {
  const error = await operation.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof StoreError, `a StoreError was expected, and this came: ${String(error)}`);
  assert.equal(error.trouble, trouble);
  assert.equal(error.code, 5);
  return error;
}

const hashOf = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex');

function edit(file: string, statement: string): void {
  const db = new DatabaseSync(file);
  db.exec(statement);
  db.close();
}

test('the version that this program knows is that of its last migration', () => {
  assert.equal(Number.parseInt(Object.keys(migrations).toSorted().at(-1) ?? '', 10), currentVersion);
});

test('a record that is not there yet reads as an empty one, and reading makes no file', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  assert.deepEqual(await store.list({ settledMost: null }), { jobs: [], more: 0 });
  assert.equal(await store.changes(), 0);
  assert.equal(await store.load('000001'), undefined);
  assert.equal(existsSync(join(file, '..')), false);
});

test('a reader that met no record sees the one that another process makes', async (t) => {
  const { open } = recordIn(t);
  const reader = open();
  assert.equal(await reader.changes(), 0);
  await open().insert(job);
  assert.equal((await reader.list({ settledMost: null })).jobs.length, 1);
});

test('the record and its folder are for their owner only', async (t) => {
  const { file, open } = recordIn(t);
  await open().insert(job);
  const rights = (path: string) => (statSync(path).mode & 0o777).toString(8);
  assert.equal(rights(join(file, '..')), '700');
  for (const name of readdirSync(join(file, '..'))) assert.equal(rights(join(file, '..', name)), '600');
});

test('reading changes no byte of the record', async (t) => {
  const { file, open } = recordIn(t);
  const writer = open();
  await writer.insert(job);
  await writer.close();
  const before = hashOf(file);
  const store = open();
  await store.list({ settledMost: null });
  await store.load('000001');
  await store.events('000001', 0);
  await store.due(noon, 10);
  await store.strays();
  await store.lease();
  await store.close();
  assert.equal(hashOf(file), before);
});

test('a store that was opened for reading refuses to write', async (t) => {
  const { file, open } = recordIn(t);
  await fails(open(true).insert(job), 'read_only');
  assert.equal(existsSync(file), false);
});

test('a record of a newer version is left alone, and both versions are told', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  await store.insert(job);
  await store.close();
  edit(file, "insert into migration (name, timestamp) values ('0008_later', '2027-01-01')");
  for (const operation of [open().list({ settledMost: null }), open().insert(job)]) {
    const error = await fails(operation, 'newer');
    assert.match(error.message, /version 8, this program knows version 7\. Upgrade jobman\./);
  }
});

test('a record without tables yet is brought up to date by whoever may write, and refused by who may not', async (t) => {
  const { file, open } = recordIn(t);
  mkdirSync(join(file, '..'), { recursive: true });
  edit(file, 'create table other (x)');
  await fails(open(true).list({ settledMost: null }), 'older');
  assert.deepEqual((await open().list({ settledMost: null })).jobs, []);
  assert.equal(
    (await open(true)
      .insert(job)
      .catch((error: unknown) => error)) instanceof StoreError,
    true,
  );
  assert.equal((await open().insert(job)).job.id, '000001');
});

test('a file that is no database is kept as it is, and the way back is told', async (t) => {
  const { file, open } = recordIn(t);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, 'not a database at all, but longer than the head of one '.repeat(40));
  const before = hashOf(file);
  for (const operation of [open().list({ settledMost: null }), open().insert(job)]) {
    const error = await fails(operation, 'corrupt');
    assert.match(error.message, /is damaged .* It was left as it is\./);
    assert.match(error.lines.join('\n'), /config\.yaml, job\.json/);
  }
  assert.equal(hashOf(file), before);
});

test('pages that were overwritten are noticed, and the copy of yesterday is named', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  for (let jobs = 0; jobs < 200; jobs += 1) await store.insert({ ...job, spec: tpuSpec() });
  assert.equal(await backUp(file, Date.now()), true);
  await store.close();
  const bytes = readFileSync(file);
  bytes.fill(0x5a, 8 * 4096, 60 * 4096);
  writeFileSync(file, bytes);
  const error = await fails(open().list({ settledMost: null }), 'corrupt');
  assert.match(error.lines.join('\n'), /copy of .*state\.db\.bak/);

  // A day later the damaged record does not replace the good copy.
  const copy = hashOf(`${file}.bak`);
  await fails(
    backUp(file, Date.now() + 2 * day).then(() => {}),
    'corrupt',
  );
  assert.equal(hashOf(`${file}.bak`), copy);
  assert.equal(existsSync(`${file}.bak.new`), false);
});

test('a copy is made at most once a day, and is a whole record', async (t) => {
  const { file, open } = recordIn(t);
  assert.equal(await backUp(file, Date.now()), false);
  const store = open();
  await store.insert(job);
  assert.equal(await backUp(file, Date.now()), true);
  assert.equal(await backUp(file, Date.now() + day / 2), false);
  await store.insert(job);
  assert.equal(await backUp(file, Date.now() + day + 1000), true);
  assert.equal(statSync(`${file}.bak`).mode & 0o777, 0o600);
  const copy = openStore({ file: `${file}.bak` });
  assert.equal((await copy.list({ settledMost: null })).jobs.length, 2);
  await copy.close();
});

test('a record that is taken away while it is copied leaves no copy beside the one that begins anew', async (t) => {
  const { file, open } = recordIn(t);
  await open().insert(job);
  const copying = backUp(file, Date.now());
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
  // Beside the old one, which is still open, so that it is another file by its number as well.
  await open().insert(job);
  assert.equal(await copying, false);
  assert.deepEqual(
    readdirSync(join(file, '..')).filter((name) => name.includes('.bak')),
    [],
  );
});

test('a text in a row that is no JSON counts as damage', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  await store.insert(job);
  await store.close();
  edit(file, 'update job set life = \'{"id":\'');
  await fails(open().load('000001'), 'corrupt');
});

test('a home that cannot be a folder is told as what it is', async (t) => {
  const world = openWorld(t);
  writeFileSync(world.home, 'a file in the way');
  const store = openStore({ file: join(world.home, 'state.db') });
  for (const operation of [store.insert(job), store.list({ settledMost: null })]) {
    const error = await fails(operation, 'broken');
    assert.match(error.message, /home is no folder/);
    assert.match(error.lines.join('\n'), /Set JOBMAN_HOME/);
  }
  await store.close();
});

test('a home that the file system will not make is refused, and not tried for ever', async () => {
  const store = openStore({ file: '/proc/no-such-folder/home/state.db' });
  const error = await fails(store.insert(job), 'broken');
  assert.match(error.message, /\/proc\/no-such-folder cannot be used/);
  await store.close();
});

test('a record that is empty or gone while its copy is there is no new record', async (t) => {
  const { file, open } = recordIn(t);
  const store = open();
  await store.insert(job);
  assert.equal(await backUp(file, Date.now()), true);
  await store.close();
  const copy = hashOf(`${file}.bak`);
  const lose: readonly (readonly [RegExp, () => void])[] = [
    [/is empty/, () => truncateSync(file)],
    [/is gone/, () => rmSync(file)],
  ];
  for (const [said, act] of lose) {
    act();
    for (const operation of [open().list({ settledMost: null }), open().load('000001'), open().insert(job)]) {
      const error = await fails(operation, 'corrupt');
      assert.match(error.message, said);
      assert.match(error.lines.join('\n'), /To go back to the copy of .* && cp -p damaged\/state\.db\.bak state\.db/);
    }
  }
  assert.deepEqual(readdirSync(join(file, '..')), ['state.db.bak']);
  assert.equal(hashOf(`${file}.bak`), copy);
});

/** How the file of the record is opened. */

/** SQLite's own number: 2 waits for the disk with each commit, 1 does not (https://www.sqlite.org/pragma.html#pragma_synchronous). */
async function waitsOf(file: string, given: Omit<OpenRecord, 'file'>): Promise<object> {
  const record = openRecordFile({ file, ...given });
  try {
    const { rows } = await record.write((db) => sql`pragma synchronous`.execute(db));
    return rows[0] as object;
  } finally {
    await record.close();
  }
}

test('waits for the disk with each commit, unless what is written stands elsewhere as well', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'state.db');
  assert.deepEqual({ ...(await waitsOf(file, {})) }, { synchronous: 2 });
  assert.deepEqual({ ...(await waitsOf(file, { isCopy: true })) }, { synchronous: 1 });
  assert.deepEqual({ ...(await waitsOf(file, { isCopy: false })) }, { synchronous: 2 });
});

// A record that an earlier version wrote is brought up to date by whoever opens it.

test('the second version knows of the places of all jobs that the first one wrote down', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'state.db');
  const spec = tpuSpec();
  const first = openStore({ file });
  const { job, revision } = await first.insert({ owner: 'ada', spec, manifest: '', at: noon });
  const lived = living({ ...aJob(spec), id: job.id, installation: job.installation }, [ready], []);
  await first.commit({ job: lived, revision, events: [], folded: [], wakeAt: null, epoch: null });
  await first.insert({ owner: 'ada', spec, manifest: '', at: noon });
  await first.close();

  const db = new DatabaseSync(file);
  db.exec(`drop index job_sweep; alter table job drop column place; alter table job drop column sweep_until; alter table outcome drop column attempt;
           alter table lease drop column renewed_at; alter table lease drop column paused_from; alter table lease drop column paused_until;
           drop table job_place; drop table place_answer;
           drop table lab_window; drop table lab_job; drop table lab_login; drop table lab_user; drop table lab_tpu;
           drop table lab_tpu_alias; drop table lab_booking; drop table cluster_log; drop table cluster_moment; drop table cluster_job; drop table cluster_place;
           delete from migration where name >= '0002_sweep'`);
  db.close();

  const again = openStore({ file });
  t.after(() => again.close());
  const { refs, goneAt } = await again.sweepable(noon);
  assert.deepEqual([refs.map(({ job }) => job.id), goneAt], [[job.id], null]);
});
