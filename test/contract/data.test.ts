// Logs and contents that servers share in a folder, and in a bucket of the TPU emulator. Every implementation must do this.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { BlobError, StoreError } from '../../src/app/errors.ts';
import type { Blob, Blobs, Bucket, JobFiles, JobFolders, LogFiles } from '../../src/app/ports.ts';
import { createGoogleApiClient } from '../../src/backends/tpu/api.ts';
import { digestOf } from '../../src/catalogue/digest.ts';
import { day } from '../../src/core/model/time.ts';
import type { ArchivedLogs } from '../../src/app/cluster/objects.ts';
import {
  archivedLogPath,
  archiveFolder,
  createArchivedLogs,
  openArchivedLog,
  type ArchivedLogWriter,
} from '../../src/files/archived-logs.ts';
import { createBlobs } from '../../src/files/blobs.ts';
import { createBucketBlobs } from '../../src/files/bucket-blobs.ts';
import {
  createBucketLogs,
  openSharedCopy,
  shareArchivedLogs,
  shareJobFolders,
  shareLogFiles,
} from '../../src/files/bucket-logs.ts';
import { createJobFiles } from '../../src/files/job-files.ts';
import { createJobFolders } from '../../src/files/job-folders.ts';
import { createLogFiles } from '../../src/files/log-files.ts';
import { linkDataFolder } from '../../src/files/data-folder.ts';
import { createBucket } from '../../src/google/bucket.ts';
import { startTestEmulator } from '../emulator/test-emulator.ts';
import { aJob, noon } from '../support/builders.ts';
import { aClusterPod, anArchivedJob } from '../support/cluster-builders.ts';
import { temporaryFolder } from '../support/folder.ts';

const job = aJob();
const output = { attempt: 1, worker: 0, file: 'log' } as const;
const written = { kind: 'output', ...output } as const;
const workdir = { about: { from: '/work', copiedAt: noon, files: 1, bytes: 1, git: null }, changes: null };

const blobOf = (text: string): Blob => ({ digest: digestOf(Buffer.from(text)), content: Buffer.from(text) });

const archived = anArchivedJob({ pods: [aClusterPod()] });
const openCopyIn = (home: string): ArchivedLogWriter =>
  openArchivedLog(archivedLogPath(archiveFolder(home, archived.job), 'train-a', 'main'));

interface Server {
  readonly home: string;
  readonly blobs: Blobs;
  readonly logFiles: LogFiles;
  readonly files: JobFiles;
  readonly folders: JobFolders;
  readonly archive: ArchivedLogs;
  /** Opens the archived log of `archived`, as the controller does. */
  readonly openCopy: () => Promise<ArchivedLogWriter>;
  /** Sends waiting bytes, as a server does every few seconds. */
  readonly settle: () => Promise<string | null>;
}

/** Adds a server with a home of its own. */
type AddServer = () => Server;

interface Shared {
  readonly add: AddServer;
  /** Advances the time by two days. */
  readonly wait: () => void;
  /** Changes the stored bytes of the blob. */
  readonly spoil: (blob: Blob, to: string) => void;
}

function sharedFolder(t: TestContext): Shared {
  const [top, data] = [temporaryFolder(t), temporaryFolder(t)];
  let late = 0;
  let count = 0;
  return {
    add() {
      const home = join(top, String((count += 1)));
      const folders = createJobFolders(home);
      folders.makeHome();
      linkDataFolder(home, data);
      return {
        home,
        blobs: createBlobs(home),
        logFiles: createLogFiles({ home, history: async () => [] }),
        files: createJobFiles(home),
        folders,
        archive: createArchivedLogs(home),
        openCopy: async () => openCopyIn(home),
        settle: async () => null,
      };
    },
    wait: () => void (late += 2 * day),
    spoil: ({ digest }, to) => writeFileSync(join(data, 'blobs', digest.slice(7, 9), digest.slice(7)), to),
  };
}

async function sharedBucket(t: TestContext) {
  const fixture = await startTestEmulator(t);
  await fixture.ok('POST', '/storage/v1/b', { name: 'lab' });
  const top = temporaryFolder(t);
  let late = 0;
  let count = 0;
  let url = fixture.emulator.url;
  const now = () => Date.now() + late;
  const endpoint = async () => url;
  const api = createGoogleApiClient({
    endpoint,
    env: {},
    credentials: { headers: async () => ({}), invalidate: () => '' },
    timeout: 2_000,
  });
  const bucket = createBucket(api, { bucket: 'lab', prefix: 'jobman/data' }, 10);
  const stored = join(fixture.stateDir, 'buckets/lab/jobman/data');
  const addOver = (one: Bucket, home = join(top, String((count += 1)))): Server => {
    const logs = createBucketLogs({ home, bucket: one, now });
    const folders = shareJobFolders(createJobFolders(home), logs);
    folders.makeHome();
    return {
      home,
      blobs: createBucketBlobs(one, now),
      logFiles: shareLogFiles(createLogFiles({ home, history: async () => [] }), logs),
      files: createJobFiles(home, {
        openBlobs: async () => assert.fail('no blob'),
        refresh: (one) => logs.refresh(one),
      }),
      folders,
      archive: shareArchivedLogs(createArchivedLogs(home), logs),
      openCopy: () => openSharedCopy(archived.job, () => openCopyIn(home), logs),
      async settle() {
        // Readers may wait for less than this.
        late += 60_000;
        return logs.sendWaiting();
      },
    };
  };
  return {
    fixture,
    bucket,
    stored,
    addOver,
    add: () => addOver(bucket),
    wait: () => void (late += 3 * day),
    spoil: ({ digest }: Blob, to: string) =>
      writeFileSync(join(stored, 'blobs', digest.slice(7, 9), digest.slice(7)), to),
    redirect: (to: string) => void (url = to),
  };
}

const implementations: readonly (readonly [string, (t: TestContext) => Shared | Promise<Shared>])[] = [
  ['folder', sharedFolder],
  ['bucket', sharedBucket],
];

async function read(server: Server, kind: Parameters<JobFiles['read']>[1] = written): Promise<string> {
  await server.files.refresh(job);
  return server.files.read(job, kind, 0, 10_000_000)?.bytes.toString() ?? '';
}

async function readArchive({ archive }: Server): Promise<string> {
  const [log] = await archive.list(archived);
  const pieces = log === undefined ? [] : await Array.fromAsync(archive.read(archived, log, {}));
  return Buffer.concat(pieces).toString();
}

for (const [name, open] of implementations) {
  test(`${name}: the archived log of a cluster's job is continued by the other server, read and removed by all`, async (t) => {
    const { add } = await open(t);
    const [one, other] = [add(), add()];
    const line = (number: number): Buffer => Buffer.from(`2026-11-22T12:00:0${number}.5Z line ${number}\n`);
    const first = await one.openCopy();
    first.append(Buffer.concat([line(1), line(2)]));
    first.close();
    await one.settle();
    assert.equal(await readArchive(other), 'line 1\nline 2\n');
    const next = await other.openCopy();
    assert.equal(Buffer.from(next.tail).toString(), `${line(1).toString()}${line(2).toString()}`);
    next.append(line(3));
    next.close();
    await other.settle();
    await one.settle();
    for (const server of [one, other, add()]) assert.equal(await readArchive(server), 'line 1\nline 2\nline 3\n');
    await one.archive.remove(archived);
    assert.equal(await readArchive(add()), '');
  });

  test(`${name}: contents that one server stores are found and read by the other, with their digest`, async (t) => {
    const { add, spoil } = await open(t);
    const [one, other] = [add(), add()];
    const blobs = ['one', '', 'a longer text'.repeat(1_000)].map(blobOf);
    await one.blobs.put(blobs);
    await Promise.all([one.blobs.put(blobs), other.blobs.put(blobs)]);
    const digests = blobs.map(({ digest }) => digest);
    const absent = digestOf(Buffer.from('absent'));
    assert.deepEqual(await other.blobs.has([...digests, absent, 'sha256:..' as never]), digests);
    const sizes = blobs.map(({ content }) => content.byteLength);
    assert.deepEqual(await other.blobs.has(digests, sizes.with(0, 4)), digests.slice(1));
    for (const { digest, content } of blobs)
      assert.ok(Buffer.from(await other.blobs.read(digest)).equals(Buffer.from(content)));
    await assert.rejects(other.blobs.read(absent), BlobError);
    const wrong = { ...blobOf('sent'), content: Buffer.from('received') };
    await assert.rejects(one.blobs.put([blobOf('right'), wrong]), /has another digest. Nothing was stored/);
    assert.deepEqual(await add().blobs.has([blobOf('right').digest]), []);

    const [first] = blobs;
    assert.ok(first !== undefined);
    for (const damage of ['onf', 'shorter or longer']) {
      spoil(first, damage);
      await assert.rejects(other.blobs.read(first.digest), (error) => {
        assert.ok(error instanceof BlobError && error.message.includes(first.digest), String(error));
        return true;
      });
      await add().blobs.put([first]);
      assert.equal(Buffer.from(await other.blobs.read(first.digest)).toString(), 'one');
    }
  });

  test(`${name}: bytes that one server writes are read by the other, also those of a server that takes over`, async (t) => {
    const { add } = await open(t);
    const [one, other] = [add(), add()];
    await one.logFiles.append(job, output, Buffer.from('first\n'), 0);
    await one.logFiles.note(job, 'job', noon, 'created');
    await one.logFiles.appendStepLog(job, 'setup', 0, Buffer.from('installed\n'));
    await one.logFiles.store(job);
    assert.equal(await read(other), 'first\n');
    assert.equal(await read(other, { kind: 'step', step: 'setup', worker: 0 }), 'installed\n');
    assert.deepEqual(other.files.workersWith(job, { attempt: 1, file: 'log' }), [0]);
    // The first one is killed: bytes that it has copied but not sent are copied again.
    await one.logFiles.append(job, output, Buffer.from('second\n'), 6);
    const length = await other.logFiles.length(job, output);
    assert.ok(length === 6 || name === 'folder');
    await other.logFiles.append(job, output, Buffer.from('first\nsecond\nthird\n').subarray(length), length);
    await other.logFiles.note(job, 'job', noon, 'taken over');
    await other.logFiles.store(job);
    // It returns, and sends what it has.
    await one.settle();
    await other.settle();
    for (const server of [one, other, add()]) {
      assert.equal(await read(server), 'first\nsecond\nthird\n');
      assert.match(await read(server, { kind: 'note', log: 'job' }), /^\S+ created\n\S+ taken over\n$/);
    }
  });

  test(`${name}: two servers that write notes at the same time lose and repeat none`, async (t) => {
    const { add } = await open(t);
    const servers = [add(), add()];
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(
        servers.map(async ({ logFiles, settle }, at) => {
          await logFiles.note(job, 'job', noon, `round ${round} of ${at}`);
          assert.equal(await settle(), null);
        }),
      );
    }
    const texts = await Promise.all([...servers, add()].map((server) => read(server, { kind: 'note', log: 'job' })));
    assert.equal(new Set(texts).size, 1, texts.join('\n---\n'));
    const lines = texts[0]?.trim().split('\n') ?? [];
    assert.equal(lines.length, 10);
    assert.equal(new Set(lines).size, 10);
  });

  test(`${name}: the files of a removed job are gone for every server, and its description is shared before`, async (t) => {
    const { add } = await open(t);
    const [one, other] = [add(), add()];
    const draft = await one.folders.draft(job.owner, { manifest: 'name: vit', secrets: {}, workdir });
    await draft.moveTo(job);
    await one.logFiles.append(job, output, Buffer.from('x'), 0);
    await one.settle();
    assert.equal(await other.folders.has(job), true);
    assert.equal(await read(other), 'x');
    assert.deepEqual(other.files.workdirs.about(job, 1), workdir.about);
    const next = { ...workdir, about: { ...workdir.about, files: 12 } };
    await one.folders.describeWorkdir(job, 1, next);
    await one.settle();
    const fresh = add();
    await read(fresh);
    assert.deepEqual(fresh.files.workdirs.about(job, 1), next.about);

    assert.equal(await other.folders.remove(job), true);
    await one.settle();
    const finished = { ...job, finish: { phase: 'succeeded', at: Date.now(), message: null } } as unknown as typeof job;
    for (const server of [one, other, add()]) {
      await server.files.refresh(finished);
      assert.equal(server.files.read(job, written, 0, 10), undefined);
    }
    assert.equal(await add().folders.has(job), false);
    assert.equal(await add().folders.remove(job), false);
  });
}

test('bucket: bytes that another server replaces while they are read are read again', async (t) => {
  const { add, addOver, bucket } = await sharedBucket(t);
  const one = add();
  let meanwhile: (() => Promise<void>) | undefined;
  const other = addOver({
    ...bucket,
    async read(...part) {
      const act = meanwhile;
      meanwhile = undefined;
      await act?.();
      return bucket.read(...part);
    },
  });
  const note = async ({ logFiles, settle }: Server, text: string): Promise<void> => {
    await logFiles.note(job, 'job', noon, text);
    assert.equal(await settle(), null);
  };
  await note(one, 'first');
  meanwhile = () => note(one, 'second');
  await note(other, 'third');
  for (const server of [one, other, add()])
    assert.match(await read(server, { kind: 'note', log: 'job' }), /^\S+ first\n\S+ second\n\S+ third\n$/);
});

test('bucket: contents that no job needs are removed, unless a client has found them meanwhile', async (t) => {
  const { add, wait } = await sharedBucket(t);
  const [one, other] = [add(), add()];
  const [needed, found, unneeded] = ['needed', 'found', 'unneeded'].map(blobOf);
  assert.ok(needed !== undefined && found !== undefined && unneeded !== undefined);
  await one.blobs.put([needed, found, unneeded]);
  wait();
  const since = Date.now() + 2 * day;
  const removed = await other.blobs.collect(since, async () => {
    assert.deepEqual(await one.blobs.has([found.digest]), [found.digest]);
    return new Set([needed.digest]);
  });
  assert.deepEqual(removed, [unneeded.digest]);
  assert.deepEqual(await add().blobs.has([needed, found, unneeded].map(({ digest }) => digest)), [
    needed.digest,
    found.digest,
  ]);
  assert.deepEqual(await other.blobs.collect(since, () => assert.fail('every blob was used since then')), []);
});

test('bucket: a log has few objects, and its bytes are its own', async (t) => {
  const { add, stored } = await sharedBucket(t);
  const [one, other] = [add(), add()];
  let text = '';
  for (let line = 0; line < 50; line += 1) {
    const piece = `${line} ${'x'.repeat(20_000)}\n`;
    await one.logFiles.append(job, output, Buffer.from(piece), text.length);
    text += piece;
    if (line % 2 === 0) await one.settle();
    if (line % 7 === 0) await read(other);
  }
  await one.settle();
  assert.ok((await read(other)) === text);
  const files = readdirSync(stored, { recursive: true }).map(String);
  const chunks = files.filter((path) => /command_worker_0\.log\/\d{15}$/.test(path));
  assert.ok(chunks.length > 1 && chunks.length <= 5, chunks.join(' '));
  const joined = chunks.toSorted().map((path) => readFileSync(join(stored, path), 'utf8'));
  assert.ok(joined.join('') === text);
});

test('bucket: without an answer bytes wait in the home, a reader gets what is there, and all is sent later', async (t) => {
  const { add, fixture } = await sharedBucket(t);
  const [one, other] = [add(), add()];
  await one.logFiles.append(job, output, Buffer.from('before\n'), 0);
  await one.settle();
  assert.equal(await read(other), 'before\n');
  await fixture.admin('flaky', 'storage', { p: '1' });
  await one.logFiles.append(job, output, Buffer.from('after\n'), 7);
  assert.match((await one.settle()) ?? '', /^gs:\/\/lab\/jobman\/data cannot be used: .*503|UNAVAILABLE/);
  // The bytes wait also while another part of the server tries to send them.
  const [, waiting] = await Promise.all([assert.rejects(one.logFiles.store(job), StoreError), one.settle()]);
  assert.match(waiting ?? '', /cannot be used/);
  assert.equal(await read(other), 'before\n');
  await assert.rejects(read(add()), /cannot be used/);
  await assert.rejects(one.blobs.put([blobOf('x')]), StoreError);
  await assert.rejects(one.blobs.read(blobOf('x').digest), (error) => !(error instanceof BlobError));
  await fixture.admin('flaky', 'storage', { clear: 'true' });
  assert.equal(await one.settle(), null);
  assert.equal(await read(other), 'before\nafter\n');

  await fixture.admin('permission', 'storage.objects.create');
  await one.logFiles.append(job, output, Buffer.from('last\n'), 13);
  assert.match((await one.settle()) ?? '', /storage\.objects\.create/);
  await fixture.admin('permission', 'storage.objects.create', { clear: 'true' });
  // Another process of that home sends what the first has left.
  assert.equal(await add().settle(), null);
  assert.equal(await one.settle(), null);
  assert.equal(await read(other), 'before\nafter\nlast\n');
});

test('bucket: an answer that is lost, and a server that is killed after any request, lose and repeat no byte', async (t) => {
  const { add, addOver, bucket, fixture, redirect } = await sharedBucket(t);
  const { url } = fixture.emulator;
  let lost = 0;
  // Every third change is made, and its answer is lost.
  const proxy = createServer((from, to) => {
    const onward = send(`${url}${from.url}`, { method: from.method, headers: from.headers }, (answer) => {
      lost += from.method === 'POST' ? 1 : 0;
      if (from.method === 'POST' && lost % 3 === 0) {
        to.destroy();
        return;
      }
      to.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(to);
    });
    from.pipe(onward);
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  t.after(() => proxy.close());
  redirect(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  const home = add().home;
  const reader = add();
  let allowed = 0;
  const killed: Bucket = {
    ...bucket,
    async write(...change) {
      const done = await bucket.write(...change);
      // The process ends before it knows the result.
      if ((allowed -= 1) < 0) throw new Error('killed');
      return done;
    },
  };
  let text = '';
  const notes: string[] = [];
  for (let kill = 0; kill < 6; kill += 1) {
    const server = addOver(killed, home);
    allowed = kill % 3;
    const piece = `${kill} ${'y'.repeat(90_000)}\n`;
    await server.logFiles.append(job, output, Buffer.from(piece), text.length);
    await server.logFiles.note(job, 'job', noon, `note ${kill}`);
    await server.logFiles.note(job, 'tpu', noon, `answer ${kill}`);
    text += piece;
    notes.push(`note ${kill}`);
    await server.settle();
    await reader.logFiles.note(job, 'job', noon, `other ${kill}`);
    await reader.settle();
    notes.push(`other ${kill}`);
  }
  allowed = 1_000;
  assert.equal(await addOver(killed, home).settle(), null);
  assert.equal(await reader.settle(), null);
  for (const server of [reader, add()]) {
    assert.ok((await read(server)) === text);
    const lines = (await read(server, { kind: 'note', log: 'job' })).trim().split('\n');
    assert.deepEqual(lines.map((line) => line.slice(21)).toSorted(), notes.toSorted());
  }
  assert.ok(lost > 6);
});

test('folder: files that a home has already are not hidden by the folder of the setting', (t) => {
  const [home, data, elsewhere] = [temporaryFolder(t), temporaryFolder(t), temporaryFolder(t)];
  linkDataFolder(home, data);
  linkDataFolder(home, data);
  rmSync(join(home, 'blobs'));
  symlinkSync(elsewhere, join(home, 'blobs'));
  assert.throws(() => linkDataFolder(home, data), /blobs leads to .* Nothing was changed/);
  rmSync(join(home, 'blobs'));
  createJobFolders(home).makeHome();
  rmSync(join(home, 'jobs'));
  const files = createJobFolders(home);
  return files
    .draft('ada', { manifest: 'x', secrets: {}, workdir: null })
    .then(() => assert.throws(() => linkDataFolder(home, data), /jobs has files\. Nothing was changed/));
});
