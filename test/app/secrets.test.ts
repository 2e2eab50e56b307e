// Named secrets through the Client, in the files of a real home: their modes, rotation, and the jobs that need them.

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { createSecretStore } from '../../src/files/secret-store.ts';
import { openStore } from '../../src/store/store.ts';
import { aJob, aMember, localSpec, noon } from '../support/builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { createConfirmed } from '../support/create-confirmed.ts';
import { openWorld } from '../support/world.ts';

function openFixture(t: TestContext) {
  const world = openWorld(t);
  const { home } = world;
  const store = openStore({ file: join(home, 'state.db') });
  const secretStore = createSecretStore(home, { rows: store.secrets, keys: () => null });
  const client = clientFor(async () => aMember('ada'), clientParts(home, store, { now: () => noon }));
  world.atEnd(() => client.close());
  return { home, folder: join(home, 'secrets/ada'), client, secretStore };
}

const specWith = (...names: readonly string[]) => {
  const spec = localSpec();
  const secrets = Object.fromEntries(names.map((secret) => [secret, { kind: 'named', secret } as const]));
  return { ...spec, command: { ...spec.command, secrets } };
};

test('a secret is a file that only its owner can read, and a new value replaces it', async (t) => {
  const { client, folder, home } = openFixture(t);
  assert.deepEqual(await client.secrets(), []);
  assert.equal(await client.setSecret('wandb', Buffer.from('one\n')), 'added');
  assert.equal(await client.setSecret('wandb', Buffer.from([0xff, 0x01])), 'replaced');
  assert.deepEqual([...readFileSync(join(folder, 'wandb'))], [0xff, 0x01]);
  assert.deepEqual([statSync(folder).mode & 0o777, statSync(join(folder, 'wandb')).mode & 0o777], [0o700, 0o600]);
  assert.deepEqual(readdirSync(folder), ['wandb']);
  const [only] = await client.secrets();
  assert.deepEqual([only?.name, only?.size, only?.usedBy], ['wandb', 2, []]);
  for (const [name, value, message] of [
    ['../ada', 'x', /not a name of a secret/],
    ['.hidden', 'x', /not a name of a secret/],
    ['a b', 'x', /not a name of a secret/],
    ['', 'x', /not a name of a secret/],
    ['empty', '', /is empty/],
    ['long', 'x'.repeat(50_000), /longer than 48 KiB/],
    ['binary', 'a\0b', /has a NUL byte/],
  ] as const)
    await assert.rejects(client.setSecret(name, Buffer.from(value)), (error: unknown) => {
      assert.ok(error instanceof JobmanError && error.code === 2, name);
      assert.match(error.message, message);
      return true;
    });
  assert.deepEqual(readdirSync(join(home, 'secrets')), ['ada']);
});

test('a secret that others may read is not used', async (t) => {
  const { client, folder, secretStore } = openFixture(t);
  const job = aJob(localSpec(), { owner: 'ada' });
  await client.setSecret('wandb', Buffer.from('value'));
  assert.equal(Buffer.from(await secretStore.read(job, { kind: 'named', secret: 'wandb' })).toString(), 'value');
  chmodSync(join(folder, 'wandb'), 0o640);
  await assert.rejects(
    secretStore.read(job, { kind: 'named', secret: 'wandb' }),
    /other users may read the secret wandb of ada: chmod 600 .*wandb$/,
  );
  await assert.rejects(
    secretStore.read(job, { kind: 'named', secret: 'hf' }),
    /the secret hf of ada does not exist; .*jobman secret set hf/,
  );
  mkdirSync(join(folder, 'folder'));
  writeFileSync(join(folder, '.wandb.0f0f0f0f-0000-4000-8000-000000000000'), 'unfinished');
  assert.deepEqual(
    (await client.secrets()).map(({ name }) => name),
    ['wandb'],
  );
});

test('a secret that an unfinished job needs is kept, and no job is created or started without its secrets', async (t) => {
  const { client } = openFixture(t);
  await assert.rejects(createConfirmed(client, { spec: specWith('wandb'), manifest: '' }), (error: unknown) => {
    assert.ok(error instanceof JobmanError && error.code === 2);
    assert.match([error.message, ...error.lines].join('\n'), /no secret wandb.*\njobman secret set wandb/);
    return true;
  });
  await client.setSecret('wandb', Buffer.from('one'));
  await assert.rejects(createConfirmed(client, { spec: specWith('wnadb'), manifest: '' }), /Did you mean wandb\?/);
  const { id } = await createConfirmed(client, { spec: specWith('wandb'), manifest: '' });
  assert.deepEqual((await client.secrets())[0]?.usedBy, [id]);
  await assert.rejects(client.deleteSecret('wandb'), (error: unknown) => {
    assert.ok(error instanceof JobmanError && error.code === 4);
    assert.match(error.message, /needed by job 000001\. It was not deleted/);
    return true;
  });
  assert.equal((await client.sendCommand(id, 'cancel', {})).ok, true);
  await assert.rejects(client.deleteSecret('wandb'), /needed by job/, 'until it has finished');
});

test('of a deletion and a job that needs the secret, at the same time, one is refused', async (t) => {
  const { client, home, secretStore } = openFixture(t);
  const store = openStore({ file: join(home, 'state.db') });
  /** A client in which that happens after the first check of secrets. */
  const clientDuring = (act: () => Promise<unknown>) => {
    let next: (() => Promise<unknown>) | undefined = act;
    const meanwhile = async (): Promise<void> => {
      const now = next;
      next = undefined;
      await now?.();
    };
    const secrets = async () => ({
      ...secretStore,
      async list(owner: string) {
        const known = await secretStore.list(owner);
        await meanwhile();
        return known;
      },
    });
    const blocked = clientFor(async () => aMember('ada'), clientParts(home, store, { now: () => noon, secrets }));
    t.after(() => blocked.close());
    return blocked;
  };
  const request = { spec: specWith('wandb'), manifest: '' };
  await client.setSecret('wandb', Buffer.from('one'));
  const creating = clientDuring(() => client.deleteSecret('wandb'));
  await assert.rejects(createConfirmed(creating, request), /no secret wandb/);
  assert.deepEqual((await store.list({ maxFinished: null })).jobs, []);
  assert.deepEqual(readdirSync(join(home, 'jobs/ada')), []);

  await client.setSecret('wandb', Buffer.from('one'));
  const deleting = clientDuring(() => createConfirmed(client, request));
  await assert.rejects(deleting.deleteSecret('wandb'), /needed by job \d{6}/);
  assert.equal((await client.secrets()).length, 1);
});

test("a job's own secret is stored with it, replaced by its owner, and needed at a start", async (t) => {
  const { client, home } = openFixture(t);
  const { command } = localSpec();
  const spec = localSpec({ command: { ...command, secrets: { TOKEN: { kind: 'job', secret: 'TOKEN' } } } });
  await assert.rejects(createConfirmed(client, { spec, manifest: '' }), /the value of the secret TOKEN was not sent/);
  const secrets = { TOKEN: Buffer.from('one').toString('base64'), OTHER: 'b3RoZXI=' };
  const { id } = await createConfirmed(client, { spec, manifest: '', secrets });
  const file = join(home, 'jobs/ada', id, 'secrets/TOKEN');
  assert.deepEqual(readdirSync(dirname(file)), ['TOKEN'], 'only what the job needs');
  assert.deepEqual([readFileSync(file, 'utf8'), statSync(file).mode & 0o777], ['one', 0o600]);
  await client.replaceJobSecret(id, 'TOKEN', Buffer.from('two'));
  assert.equal(readFileSync(file, 'utf8'), 'two');
  await assert.rejects(
    client.replaceJobSecret(id, 'TOKKEN', Buffer.from('x')),
    /no secret TOKKEN.* Did you mean TOKEN\?/,
  );
  assert.deepEqual(await client.secrets(), [], 'it is not a named secret');
  rmSync(file);
  await client.sendCommand(id, 'cancel', {});
  await assert.rejects(
    client.sendCommand(id, 'rerun', {}),
    /000001 was not started: the secret TOKEN of job 000001 does not exist; .*jobman secret set TOKEN --job 1$/,
  );
});
