import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHostKeys, fingerprint, keyFromWire } from '../../src/remote/ssh-keys.ts';
import { openWorld } from '../support/world.ts';

test('of many that pin at once one wins, and all are told which', async (t) => {
  const { home } = openWorld(t);
  const keys = createHostKeys(home);
  const told = await Promise.all(
    Array.from({ length: 10 }, (_, index) => keys.pin('job-1-0', `ssh-ed25519 AAAA${index}`)),
  );
  const [first] = told;
  for (const key of told) assert.equal(key, first);
  assert.equal(await keys.pinned('job-1-0'), first);
  assert.deepEqual(readdirSync(join(home, 'ssh/known_hosts')), ['job-1-0']);
  assert.equal(readFileSync(keys.file('job-1-0'), 'utf8'), `job-1-0 ${first}\n`);
});

test('forgetting takes those whose name begins so and no others', async (t) => {
  const keys = createHostKeys(openWorld(t).home);
  await keys.forget('job-1-');
  for (const name of ['job-1-0', 'job-1-1', 'job-10-0']) await keys.pin(name, 'ssh-ed25519 AAAA');
  await keys.forget('job-1-');
  assert.equal(await keys.pinned('job-1-0'), undefined);
  assert.equal(await keys.pinned('job-1-1'), undefined);
  assert.equal(await keys.pinned('job-10-0'), 'ssh-ed25519 AAAA');
});

test('a name that is no file’s name is refused', async (t) => {
  const keys = createHostKeys(openWorld(t).home);
  await assert.rejects(keys.pin('../outside', 'ssh-ed25519 AAAA'), /cannot name/u);
});

test('a key on the wire and its fingerprint are written as OpenSSH writes them', () => {
  const wire = Buffer.concat([Buffer.from([0, 0, 0, 11]), Buffer.from('ssh-ed25519'), Buffer.from([0, 0, 0, 1, 9])]);
  assert.equal(keyFromWire(wire), `ssh-ed25519 ${wire.toString('base64')}`);
  assert.match(fingerprint(keyFromWire(wire)), /^ssh-ed25519 SHA256:[A-Za-z0-9+/]{43}$/u);
});
