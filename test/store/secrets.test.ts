/** Encrypted secrets in the database: only their owner, job and name can be decrypted, and rotations lose none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSecretKey, seal, unseal, type SealedSecret, type SecretKeys } from '../../src/app/sealing.ts';

import { auditEntry } from '../../src/app/audit.ts';
import { aMember, localSpec, noon } from '../support/builders.ts';
import { testStore } from '../support/stores.ts';

const keys: SecretKeys = [newSecretKey()];
const named = { owner: 'ada', job: null, name: 'wandb' } as const;
const textOf = (row: SealedSecret, by: SecretKeys = keys) => unseal(by, row).toString();

test('a sealed value is bound to its owner, job and name, and no two are the same', () => {
  const row = seal(keys, named, Buffer.from('hunter2'), noon);
  assert.equal(textOf(row), 'hunter2');
  assert.notEqual(row.sealed, seal(keys, named, Buffer.from('hunter2'), noon).sealed);
  const bytes = Buffer.from(row.sealed, 'base64');
  assert.equal(bytes.includes('hunter2'), false);
  const flipped = (at: number): string => {
    const copy = Buffer.from(bytes);
    copy[at] = (copy[at] ?? 0) ^ 1;
    return copy.toString('base64');
  };
  const copies: readonly Partial<SealedSecret>[] = [
    { owner: 'eve' },
    { job: '000001' },
    { name: 'other' },
    ...bytes.keys().map((at) => ({ sealed: flipped(at) })),
    { sealed: '' },
    { sealed: bytes.subarray(0, 20).toString('base64') },
  ];
  for (const copy of copies)
    assert.throws(() => textOf({ ...row, ...copy }), { code: 1, message: /was changed or copied from another secret/ });
  assert.throws(() => textOf(row, [newSecretKey()]), { message: /with the key \w{12}, which the key file of this/ });
});

testStore('secrets are stored with their job, listed without values, replaced and removed', async (store) => {
  const { secrets } = store;
  const put = (address: Parameters<typeof seal>[1], text: string) =>
    secrets.put(() => seal(keys, address, Buffer.from(text), noon));
  await put(named, 'one');
  await put(named, 'three');
  await put({ ...named, owner: 'bob' }, 'of bob');
  assert.deepEqual(await secrets.list('ada'), [{ name: 'wandb', size: 5, changedAt: noon }]);
  const row = await secrets.find(named);
  assert.ok(row !== null);
  assert.equal(textOf(row), 'three');

  const sealed = (job: string) => [seal(keys, { owner: 'ada', job, name: 'KEY' }, Buffer.from('of the job'), noon)];
  let seen: readonly unknown[] = [];
  const { job } = await store.insert({
    owner: 'ada',
    spec: localSpec(),
    manifest: '',
    at: noon,
    sealed,
    // In the transaction, whose connection no other statement may use.
    check: async (rows) => void (seen = await rows.list('ada')),
  });
  assert.equal(seen.length, 1);
  const ofJob = await secrets.find({ owner: 'ada', job: job.id, name: 'KEY' });
  assert.equal(ofJob === null ? null : textOf(ofJob), 'of the job');
  const refused = { owner: 'ada', spec: localSpec(), manifest: '', at: noon, sealed };
  await assert.rejects(store.insert({ ...refused, check: () => Promise.reject(new Error('refused')) }));
  assert.equal((await secrets.all()).length, 3, 'a job that is not stored leaves no secret');

  const audit = auditEntry(aMember('ada'), noon, 'delete-secret', null);
  await store.unlessNeeded(
    'ada',
    () => false,
    async (rows) => void (await rows.remove(named)),
    audit,
  );
  assert.equal(await secrets.find(named), null);
  await secrets.removeOfJob(job);
  assert.deepEqual(
    (await secrets.all()).map(({ owner }) => owner),
    ['bob'],
  );
});

testStore(
  'a rotation changes only rows that are as they were, and gives a key up once no row needs it',
  async (store) => {
    const { secrets } = store;
    for (let count = 0; count < 130; count += 1)
      await secrets.put(() => seal(keys, { ...named, name: `key-${count}` }, Buffer.from(`value ${count}`), noon));
    const newer: SecretKeys = [newSecretKey(), ...keys];
    const [{ id }] = newer;
    let calls = 0;
    assert.equal(await secrets.onceAllHave(id, () => (calls += 1)), false);
    const [first] = await secrets.withOtherKeys(id);
    assert.ok(first !== undefined);
    // A new value of its user arrives meanwhile.
    await secrets.put(() => seal(newer, first, Buffer.from('newest'), noon));
    assert.equal(await secrets.replace(first, seal(newer, first, unseal(newer, first), noon)), false);
    for (let rows = await secrets.withOtherKeys(id); rows.length > 0; rows = await secrets.withOtherKeys(id)) {
      for (const row of rows)
        assert.equal(await secrets.replace(row, seal(newer, row, unseal(newer, row), noon)), true);
    }
    assert.equal(await secrets.onceAllHave(id, () => (calls += 1)), true);
    assert.equal(calls, 1);
    const texts = (await secrets.all()).map((row) => textOf(row, [newer[0]]));
    assert.equal(texts.length, 130);
    assert.equal(texts.filter((text) => text === 'newest').length, 1);
  },
);
