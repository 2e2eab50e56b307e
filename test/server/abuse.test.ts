/** Attempts of a member with a token to reach more than its own jobs: the machine of the server, and its files. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { exitCode } from '../../src/app/errors.ts';
import { digestOf, type Digest } from '../../src/catalogue/digest.ts';
import { addAllocation } from '../../src/core/decide/allocate.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import type { Actor } from '../../src/core/model/user.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { openStore } from '../../src/store/store.ts';
import { aMember, localSpec, noon, tpuSpec } from '../support/builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { createConfirmed } from '../support/create-confirmed.ts';
import { openWorld } from '../support/world.ts';
import { send } from './support/send.ts';
import { openServer } from './support/server.ts';

const holder = (role: 'member' | 'admin'): Actor =>
  aMember('ada', { role, via: 'token', token: { id: 'tok_1', name: 'laptop' } });

function blobOf(text: string) {
  const content = Buffer.from(text);
  return { digest: digestOf(content), content };
}

function openHome(t: TestContext) {
  const world = openWorld(t);
  const store = openStore({ file: join(world.home, 'state.db') });
  world.atEnd(() => store.close());
  const parts = clientParts(world.home, store, { now: () => noon });
  return { world, store, clientOf: (actor: Actor) => clientFor(async () => actor, parts) };
}

test('a job of a member is refused on the machine of the server, and one of an admin is not', async (t) => {
  const { clientOf } = openHome(t);
  const here = tpuSpec({ command: { ...tpuSpec().command, runsOn: 'controller' } });
  const ofLab = tpuSpec({
    command: { ...tpuSpec().command, secrets: { KEY: { kind: 'setting', setting: 'lab.wandbKeyFile' } } },
  });
  for (const spec of [localSpec(), here, ofLab]) {
    const create = clientOf(holder('member')).create({ spec, manifest: '' });
    await assert.rejects(create, {
      errorCode: 'forbidden',
      message: /only an admin(?:, or a user whom an admin allows the host localhost,)? may run/i,
    });
  }
  for (const spec of [localSpec(), here])
    assert.equal((await createConfirmed(clientOf(holder('admin')), { spec, manifest: '' })).kind, 'created');
});

test('a job of a member is refused on the TPU of a job of another user, which would show it the secrets of that job', async (t) => {
  const { clientOf, store } = openHome(t);
  const [ada, eve] = [holder('member'), aMember('eve', { via: 'token', token: { id: 'tok_2', name: 'laptop' } })];
  const client = { ada: clientOf(ada), eve: clientOf(eve), admin: clientOf(aMember('root', { role: 'admin' })) };
  const allocated = async (changes: Partial<JobSpec>) => {
    const answer = await createConfirmed(client.ada, { spec: tpuSpec(changes), manifest: '' });
    const { job, revision } = (await store.load(answer.kind === 'created' ? answer.id : '')) ?? assert.fail();
    const { job: next } = addAllocation(job, noon);
    assert.ok(await store.commit({ job: next, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null }));
    return next.allocations[0]?.name ?? '';
  };
  const on = (name: string, changes = {}) => ({
    spec: tpuSpec({}, { ownership: 'persistent', name, ...changes }),
    manifest: '',
  });
  const name = await allocated({});
  assert.equal(name, 'vit-000001-1');
  for (const other of [name, `${name}-0`])
    await assert.rejects(createConfirmed(client.eve, on(other)), {
      errorCode: 'forbidden',
      message: `The TPU ${other} belongs to job 000001 of ada.`,
    });
  const isCreated = async (by: keyof typeof client, ...given: Parameters<typeof on>) =>
    (await createConfirmed(client[by], on(...given))).kind === 'created';
  assert.ok(await isCreated('ada', name), 'the own TPU');
  assert.ok(await isCreated('admin', name));
  assert.ok(await isCreated('eve', name, { project: 'other' }), 'another TPU of that name');
  assert.ok(await isCreated('eve', 'lab-000001-1'), 'a TPU that no job has created');
  const { command } = tpuSpec();
  const shared = await allocated({ command: { ...command, isSetupOnly: true } });
  assert.ok(await isCreated('eve', shared), 'a job without a command shares its TPU');
  // The name of the next job's TPU is known before.
  const early = await createConfirmed(client.eve, on('vit-000009-1'));
  const id = early.kind === 'created' ? early.id : assert.fail();
  assert.ok((await client.eve.sendCommand(id, 'stop', {})).ok);
  assert.equal(await allocated({}), 'vit-000009-1');
  await assert.rejects(client.eve.sendCommand(id, 'start', {}), { errorCode: 'forbidden' });
});

test('a member uses only contents that they have sent, even with the digests of others', async (t) => {
  const { clientOf } = openHome(t);
  const [ada, eve, root] = [
    clientOf(holder('member')),
    clientOf(aMember('eve', { via: 'token' })),
    clientOf(aMember('root', { role: 'admin', via: 'token' })),
  ];
  const file = blobOf('marked-private');
  const entry = { path: 'x', mode: 0o644, size: file.content.length, changedAtSeconds: 0, digest: file.digest };
  const [tree, ofEve] = [blobOf('[]'), blobOf(JSON.stringify([entry]))];
  await ada.putBlobs([file, tree]);
  await eve.putBlobs([ofEve]);
  const all = [file, tree].map(({ digest }) => digest);
  assert.deepEqual([await ada.hasBlobs(all), await eve.hasBlobs(all), await root.hasBlobs(all)], [all, [], []]);
  const about = { from: '/a', copiedAt: noon, files: 1, bytes: 1, git: null };
  const step = { name: 'files', key: 'k', check: null, apply: '', timeoutMs: 1000 };
  const blob = { kind: 'blob', blob: file.digest, to: '~/x', mode: 0o644 } as const;
  const withFile = { spec: tpuSpec({ steps: [{ ...step, files: [blob] }] }), manifest: '' };
  const withCopy = (digest: Digest) => ({
    spec: tpuSpec({ workdir: { tree: digest } }),
    manifest: '',
    workdir: { tree: digest, changes: null, about },
  });
  for (const request of [withFile, withCopy(tree.digest), withCopy(ofEve.digest)])
    await assert.rejects(createConfirmed(eve, request), {
      code: exitCode.usage,
      message: /\(?sha256:\w{64}\)?,? was not sent by this user\.$/,
    });
  const changes = { ...withCopy(ofEve.digest).workdir, changes: file.digest };
  await eve.putBlobs([file]);
  for (const request of [withFile, withCopy(ofEve.digest), { ...withCopy(ofEve.digest), workdir: changes }])
    assert.equal((await createConfirmed(eve, request)).kind, 'created');
  const listed = await createConfirmed(ada, withFile);
  const id = listed.kind === 'created' ? listed.id : assert.fail();
  assert.ok((await ada.sendCommand(id, 'stop', {})).ok);
  const resumed = root.sendCommand(id, 'resume', { onBehalfOf: 'ada', workdir: withCopy(tree.digest).workdir });
  await assert.rejects(resumed, { code: exitCode.usage });
});

test('a list of files that is none is a mistake of its sender', async (t) => {
  const { clientOf } = openHome(t);
  const client = clientOf(holder('admin'));
  const list = blobOf('{}');
  await client.putBlobs([list]);
  const workdir = {
    tree: list.digest,
    changes: null,
    about: { from: '/a', copiedAt: noon, files: 0, bytes: 0, git: null },
  };
  const create = createConfirmed(client, {
    spec: localSpec({ workdir: { tree: list.digest } }),
    manifest: '',
    workdir,
  });
  await assert.rejects(create, { code: exitCode.usage, message: /is not a list of files: it is not an array/ });
});

test('a user stores no more files than an admin allows', async (t) => {
  const { clientOf, store } = openHome(t);
  const ada = clientOf({ ...holder('member'), filesMib: 2 });
  const [one, two] = [blobOf('1'.repeat(2 ** 20)), blobOf('2'.repeat(2 ** 20))];
  await ada.putBlobs([one]);
  await ada.putBlobs([one, two]);
  const more = blobOf('3');
  await assert.rejects(ada.putBlobs([one, more]), {
    code: exitCode.conflict,
    message: 'Nothing was stored: ada would have 3 MiB of uploaded files, and 2 MiB are allowed.',
  });
  const [refused] = await store.access.audit({ actors: ['ada'], limit: 9, denied: true });
  assert.deepEqual([refused?.operation, refused?.detail], ['put-blobs', { reasons: ['user_limit'] }]);
  assert.deepEqual(await ada.hasBlobs([one.digest, two.digest, more.digest]), [one.digest, two.digest]);
  await ada.putBlobs([two]);
  await clientOf(aMember('eve', { via: 'token', filesMib: 2 })).putBlobs([one, more]);
  await store.access.removeUploads([two.digest], noon + 1);
  const atOnce = await Promise.allSettled(
    ['4', '5', '6'].map((digit) => ada.putBlobs([blobOf(digit.repeat(2 ** 20))])),
  );
  assert.deepEqual(
    atOnce.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected'],
  );
});

test('a digest leads to no other file, and moves none', async (t) => {
  const { world, clientOf } = openHome(t);
  const client = clientOf(holder('admin'));
  const list = blobOf('[]');
  await client.putBlobs([list]);
  writeFileSync(join(world.home, 'private'), 'marked-private');
  const about = { from: '/a', copiedAt: noon, files: 0, bytes: 0, git: null };
  const digest = 'sha256:xx/../../../private' as const;
  for (const workdir of [
    { tree: digest, changes: null, about },
    { tree: list.digest, changes: digest, about },
  ]) {
    const spec = localSpec({ workdir: { tree: workdir.tree } });
    await assert.rejects(createConfirmed(client, { spec, manifest: '', workdir }), { code: exitCode.usage });
  }
  assert.equal(readFileSync(join(world.home, 'private'), 'utf8'), 'marked-private');
  const { server } = await openServer(t, { client });
  const search = { method: 'POST', body: JSON.stringify({ digests: [digest] }) };
  assert.equal((await send(server.url, '/v1/blobs/search', search)).status, 400);
});

test('a name of a secret, a log or a job leads to no other file', async (t) => {
  const { world, clientOf } = openHome(t);
  const client = clientOf(holder('admin'));
  await createConfirmed(client, { spec: localSpec({ name: 'iris' }), manifest: '' });
  writeFileSync(join(world.home, 'private'), 'marked-private');
  mkdirSync(join(world.home, 'secrets/eve'), { recursive: true });
  writeFileSync(join(world.home, 'secrets/eve/wandb'), 'marked-private', { mode: 0o600 });
  const before = readdirSync(world.home, { recursive: true, encoding: 'utf8' }).toSorted();
  const { server } = await openServer(t, { client });
  const names = [
    '../../private',
    '..%2f..%2fprivate',
    '../eve/wandb',
    '/etc/passwd',
    'logs/../../private',
    '.',
    '..',
    'a\0b',
    'é\u202e',
  ];
  for (const name of names) {
    const segment = encodeURIComponent(name);
    for (const [method, path] of [
      ['GET', `/v1/jobs/${segment}`],
      ['GET', `/v1/jobs/1/logs/${segment}?from=0&maxBytes=1000`],
      ['GET', `/v1/jobs/${segment}/logs`],
      ['PUT', `/v1/secrets/${segment}`],
      ['DELETE', `/v1/secrets/${segment}`],
    ] as const) {
      const { status, text } = await send(server.url, path, { method, ...(method === 'PUT' ? { body: 'x' } : {}) });
      assert.ok(status >= 400 && status < 500, `${method} ${path}: ${status} ${text}`);
      assert.doesNotMatch(text, /marked-private|root:x/);
    }
  }
  const after = readdirSync(world.home, { recursive: true, encoding: 'utf8' }).toSorted();
  assert.deepEqual(
    after.filter((path) => !path.startsWith('state.db')),
    before.filter((path) => !path.startsWith('state.db')),
  );
});
