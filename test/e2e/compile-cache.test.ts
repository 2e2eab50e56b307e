// Node's cache of compiled code: damage is detected, and a full disk is not filled.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { jobman } from '../support/jobman.ts';
import { requireReal } from '../support/real.ts';
import { openWorld } from '../support/world.ts';

const args = ['resources-flavors', '--json'];

test('a damaged compile cache is replaced without any effect', { timeout: 120_000 }, async (t) => {
  const world = openWorld(t);
  const cache = join(world.folder, 'cache');
  const call = () => jobman(world, args, { env: { XDG_CACHE_HOME: cache, NODE_COMPILE_CACHE: '' } });
  const entries = (): readonly string[] =>
    readdirSync(cache, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .toSorted();
  const expected = await call();
  assert.equal(expected.code, 0, expected.stderr);
  const files = entries();
  assert.ok(files.length > 5, 'Node stores its compiled code');

  const damage: Readonly<Record<string, (bytes: Buffer, at: number) => Buffer>> = {
    // Flip a bit after the header of each entry, at a different offset and bit.
    'one bit': (bytes, at) => {
      const offset = 64 + ((at * 7_919) % (bytes.length - 64));
      bytes.writeUInt8(bytes.readUInt8(offset) ^ (1 << (at % 8)), offset);
      return bytes;
    },
    zeros: (bytes) => bytes.fill(0, bytes.length >> 1),
    'a missing end': (bytes) => bytes.subarray(0, bytes.length - 10),
    nothing: () => Buffer.alloc(0),
  };
  for (const [kind, change] of Object.entries(damage)) {
    const whole = files.map((file) => readFileSync(file));
    const broken = whole.map((bytes, at) => change(Buffer.from(bytes), at));
    for (const [at, file] of files.entries()) writeFileSync(file, broken[at] ?? '');
    const ended = await call();
    assert.deepEqual([ended.code, ended.stdout, ended.stderr], [0, expected.stdout, expected.stderr], kind);
    for (const [at, file] of files.entries()) assert.notDeepEqual(readFileSync(file), broken[at], `${kind}: ${file}`);
  }
  assert.deepEqual(entries(), files, 'no other file is left there');
});

test('nothing is stored on a nearly full disk', async (t) => {
  const world = openWorld(t);
  const cache = join(world.folder, 'cache');
  mkdirSync(cache);
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=100k', 'tmpfs', cache]).status === 0;
  if (!requireReal(t, 'leave to mount a tmpfs', isMounted)) return;
  world.atEnd(() => void spawnSync('umount', [cache]));
  const { code } = await jobman(world, args, { env: { XDG_CACHE_HOME: cache, NODE_COMPILE_CACHE: '' } });
  assert.equal(code, 0);
  assert.deepEqual(readdirSync(cache), []);
});
