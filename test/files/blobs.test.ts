/** Blobs in a folder: what is stored, how it is found damaged, and what a full disk or a kill leaves. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { BlobError, StoreError } from '../../src/app/errors.ts';
import { digestOf } from '../../src/catalogue/digest.ts';
import type { Blob } from '../../src/app/ports.ts';
import { createBlobs } from '../../src/files/blobs.ts';
import { day } from '../../src/core/model/time.ts';
import { root } from '../support/root.ts';
import { temporaryFolder } from '../support/folder.ts';

const blobOf = (text: string): Blob => {
  const content = Buffer.from(text);
  return { digest: digestOf(content), content };
};

const fileOf = (home: string, { digest }: Blob): string => join(home, 'blobs', digest.slice(7, 9), digest.slice(7));

test('equal contents are one private file, and reading returns the bytes', async (t) => {
  const home = temporaryFolder(t);
  const blobs = createBlobs(home);
  const [one, other] = [blobOf('one'), blobOf('')];
  await blobs.put([one, other, one]);
  await blobs.put([one]);
  assert.deepEqual(Buffer.from(await blobs.read(one.digest)).toString(), 'one');
  assert.deepEqual(await blobs.has([other.digest, digestOf(Buffer.from('absent')), one.digest]), [
    other.digest,
    one.digest,
  ]);
  truncateSync(fileOf(home, one), 1);
  assert.deepEqual(await blobs.has([other.digest, one.digest], [0, 3]), [other.digest], 'a damaged one is sent again');
  await blobs.put([one]);
  assert.deepEqual(await blobs.has([other.digest, one.digest], [0, 3]), [other.digest, one.digest]);
  assert.equal(statSync(fileOf(home, one)).mode & 0o777, 0o600);
  const files = readdirSync(join(home, 'blobs'), { recursive: true }).map(String);
  assert.equal(files.filter((path) => path.length > 60).length, 2);
  assert.deepEqual(
    files.filter((path) => path.startsWith('new-')),
    [],
  );
});

test('contents with another digest are refused together with the others of the call', async (t) => {
  const home = temporaryFolder(t);
  const wrong = { ...blobOf('sent'), content: Buffer.from('received') };
  await assert.rejects(createBlobs(home).put([blobOf('right'), wrong]), (error) => {
    assert.match(String(error), new RegExp(`sent as ${wrong.digest} has another digest\\. Nothing was stored`));
    return true;
  });
  assert.equal(existsSync(join(home, 'blobs')), false);
});

test('a damaged or missing blob is named with its digest and file, and can be stored again', async (t) => {
  const home = temporaryFolder(t);
  const blobs = createBlobs(home);
  const blob = blobOf('weights');
  await blobs.put([blob]);
  for (const spoil of [
    () => writeFileSync(fileOf(home, blob), 'weightz'),
    () => writeFileSync(fileOf(home, blob), ''),
    () => rmSync(fileOf(home, blob), { force: true }),
    // A reader would wait for a writer.
    () => spawnSync('mkfifo', [fileOf(home, blob)]),
  ]) {
    spoil();
    await assert.rejects(blobs.read(blob.digest), (error) => {
      assert.ok(error instanceof BlobError);
      assert.ok(error.message.includes(blob.digest) && error.message.includes(fileOf(home, blob)), error.message);
      return true;
    });
  }
  await blobs.put([blob]);
  assert.equal(Buffer.from(await blobs.read(blob.digest)).toString(), 'weights');
});

test('nothing is removed that a job needs or that a new job has found, and everything else is', async (t) => {
  const home = temporaryFolder(t);
  const blobs = createBlobs(home);
  const [needed, found, unneeded, recent] = ['needed', 'found', 'unneeded', 'recent'].map(blobOf);
  assert.ok(needed !== undefined && found !== undefined && unneeded !== undefined && recent !== undefined);
  await blobs.put([needed, found, unneeded, recent]);
  const leftover = join(home, 'blobs/new-of a killed client');
  writeFileSync(leftover, '');
  const old = new Date(Date.now() - 2 * day);
  for (const file of [...[needed, found, unneeded].map((blob) => fileOf(home, blob)), leftover])
    utimesSync(file, old, old);
  assert.deepEqual(await blobs.has([found.digest]), [found.digest]);
  const since = Date.now() - day;
  assert.deepEqual(await blobs.collect(since, async () => new Set([needed.digest])), [unneeded.digest]);
  const all = [needed, found, unneeded, recent];
  assert.deepEqual(
    all.filter((blob) => existsSync(fileOf(home, blob))),
    [needed, found, recent],
  );
  assert.equal(existsSync(leftover), false);
  assert.deepEqual(await blobs.collect(since, () => assert.fail('every blob was used since then')), []);
});

test('a blob that a client finds while it is removed stays', async (t) => {
  const home = temporaryFolder(t);
  const blobs = createBlobs(home);
  const blob = blobOf('found late');
  await blobs.put([blob]);
  const old = new Date(Date.now() - 2 * day);
  utimesSync(fileOf(home, blob), old, old);
  const removed = await blobs.collect(Date.now() - day, async () => {
    assert.deepEqual(await blobs.has([blob.digest]), [blob.digest]);
    return new Set();
  });
  assert.deepEqual(removed, []);
  assert.equal(Buffer.from(await blobs.read(blob.digest)).toString(), 'found late');
});

test('a full disk leaves nothing of an upload, and is named', async (t) => {
  const home = temporaryFolder(t);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', home]);
  if (mounted.status !== 0) return t.skip('only root mounts a small disk');
  try {
    const blobs = createBlobs(home);
    const contents = Array.from({ length: 40 }, (_, index) => blobOf(`${index}`.padEnd(16 * 1024)));
    await assert.rejects(blobs.put(contents), (error) => error instanceof StoreError && error.kind === 'full');
    const left = readdirSync(join(home, 'blobs'), { recursive: true, withFileTypes: true });
    assert.ok(left.every((entry) => entry.isDirectory()));
    await blobs.put(contents.slice(0, 2));
    assert.equal((await blobs.has(contents.map(({ digest }) => digest))).length, 2);
  } finally {
    spawnSync('umount', [home]);
  }
});

test('after a kill in an upload a file with the name of a digest has its content', async (t) => {
  const home = temporaryFolder(t);
  const program = `
    const { createBlobs } = await import('${join(root, 'src/files/blobs.ts')}');
    const { digestOf } = await import('${join(root, 'src/catalogue/digest.ts')}');
    for (let round = 0; ; round += 1) {
      const contents = Array.from({ length: 30 }, () => Buffer.from(String(Math.random()).repeat(5_000)));
      await createBlobs(${JSON.stringify(home)}).put(contents.map((content) => ({ digest: digestOf(content), content })));
      if (round === 0) console.log('ready');
    }`;
  for (let kills = 0; kills < 5; kills += 1) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    await new Promise((resolve) => setTimeout(resolve, 40 * (kills + 1)));
    child.kill('SIGKILL');
    await once(child, 'close');
  }
  const files = readdirSync(join(home, 'blobs'), { recursive: true, withFileTypes: true }).filter((one) =>
    one.isFile(),
  );
  const named = files.filter(({ name }) => /^[0-9a-f]{64}$/.test(name));
  assert.ok(named.length > 0);
  for (const { parentPath, name } of named)
    assert.equal(
      createHash('sha256')
        .update(readFileSync(join(parentPath, name)))
        .digest('hex'),
      name,
    );
});
