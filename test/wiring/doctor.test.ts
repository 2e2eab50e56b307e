/** `jobman doctor` with real files and the TPU emulator as the cloud of a project. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { CheckResult } from '../../src/app/doctor.ts';
import type { Io } from '../../src/app/services.ts';
import { openStore } from '../../src/store/store.ts';
import { createServices } from '../../src/wiring/services.ts';
import { startTestEmulator } from '../emulator/test-emulator.ts';
import { noon, tpuSpec } from '../support/builders.ts';
import { createCertificates } from '../support/certificates.ts';
import { openWorld, type World } from '../support/world.ts';

function ioOf(world: World): Io {
  const io = {
    // Without programs of this machine: the Google Cloud SDK takes seconds.
    env: { JOBMAN_HOME: world.home, PATH: world.folder },
    user: 'ada',
    userHome: world.folder,
    cwd: world.folder,
    launcher: ['/opt/jobman/dist/bundle/main.cjs'],
    version: '1.2.3',
    now: Date.now,
  };
  return io as object as Io;
}

async function diagnose(world: World): Promise<Readonly<Record<string, readonly CheckResult[]>>> {
  const results = await createServices(ioOf(world)).doctor(() => undefined);
  return Object.groupBy(results, ({ check }) => check) as Readonly<Record<string, readonly CheckResult[]>>;
}

const statesOf = (results: readonly CheckResult[] | undefined) => results?.map(({ state }) => state);

/** Modes and contents below a folder, without the files that SQLite needs to read a database. */
function contentsOf(folder: string): Readonly<Record<string, string>> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => !/-(wal|shm)$/.test(name));
  return Object.fromEntries(
    names.map((name) => {
      const path = join(folder, name);
      const stats = statSync(path);
      return [name, `${stats.mode} ${stats.isFile() ? readFileSync(path, 'base64') : ''}`];
    }),
  );
}

async function worldWithCloud(t: TestContext) {
  const world = openWorld(t);
  const cloud = await startTestEmulator(t);
  mkdirSync(world.home, { recursive: true, mode: 0o700 });
  const settings = { tpu: { project: 'lab', endpoint: cloud.emulator.url } };
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify(settings));
  return { world, cloud };
}

test('a new installation has no problem, and gets no file', async (t) => {
  const world = openWorld(t);
  const found = await diagnose(world);
  const problems = Object.values(found)
    .flat()
    .filter(({ state }) => state === 'problem');
  assert.deepEqual(problems, []);
  assert.ok(!existsSync(world.home));
});

test('a project that answers is healthy; what is denied is named', async (t) => {
  const { world, cloud } = await worldWithCloud(t);
  const healthy = await diagnose(world);
  for (const check of ['home', 'settings', 'login', 'endpoints', 'clock', 'permissions', 'tpus', 'orphans'])
    assert.deepEqual(statesOf(healthy[check]), ['ok'], JSON.stringify(healthy[check]));

  await cloud.admin('permission', 'tpu.nodes.create');
  await cloud.admin('permission', 'tpu.nodes.list');
  await cloud.admin('permission', 'cloudquotas.quotas.get');
  const denied = await diagnose(world);
  assert.deepEqual(statesOf(denied['permissions']), ['problem', 'warning']);
  assert.match(denied['permissions']?.[0]?.message ?? '', /missing tpu\.nodes\.create and tpu\.nodes\.list/);
  // The permissions have named what is missing.
  assert.deepEqual(
    denied['tpus']?.map(({ state, message }) => [state, message]),
    [['unknown', 'lab: it needs tpu.nodes.list']],
  );
  assert.deepEqual(statesOf(denied['orphans']), ['ok'], 'no database, so no orphan');
});

test('an API that is disabled is one problem, with the command that enables it', async (t) => {
  const { world, cloud } = await worldWithCloud(t);
  await cloud.admin('permission', 'api');
  const found = await diagnose(world);
  const problems = Object.values(found)
    .flat()
    .filter(({ state }) => state === 'problem');
  assert.deepEqual(
    problems.map(({ check, remedy }) => [check, remedy]),
    [['tpus', 'gcloud services enable tpu.googleapis.com --project lab']],
  );
  assert.deepEqual(statesOf(found['permissions']), ['unknown']);
});

test('the files of a server are checked: dates, names, the halves of a key, and the key of the secrets', async (t) => {
  const world = openWorld(t);
  const [own, other] = ['own', 'other'].map((name) => createCertificates(join(world.folder, name), 'DNS:a.example'));
  assert.ok(own !== undefined && other !== undefined);
  const keys = join(world.folder, 'secrets.key');
  const check = async (server: object) => {
    writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ server }), { mode: 0o600 });
    return (await diagnose(world))['server']?.map(({ state, message }) => `${state}: ${message}`).join('\n') ?? '';
  };
  mkdirSync(world.home, { mode: 0o700 });
  assert.match(await check({}), /^ok: the settings name no certificate/);
  writeFileSync(keys, `${Buffer.alloc(32).toString('base64')}\n`, { mode: 0o604 });
  const tls = { certificate: own.certFile, key: own.keyFile };
  const oidc = { issuer: 'https://login.example', client_id: 'jobman', url: 'https://b.example' };
  assert.match(
    await check({ tls, secrets_key: keys }),
    /^ok: \S+crt is for a\.example, until .*\nwarning: .* expires on/,
  );
  assert.match(
    await check({ tls, secrets_key: keys }),
    /\nproblem: .*secrets\.key, .*every user of this machine can read/,
  );
  assert.match(await check({ tls, oidc }), /^problem: \S+ is for a\.example, and not for b\.example, the host of/);
  assert.match(
    await check({ tls: { ...tls, key: other.keyFile } }),
    /^problem: .* it is the key of another certificate/,
  );
  assert.match(await check({ tls: { certificate: own.certFile } }), /^problem: server\.tls\.certificate is set, but/);
  writeFileSync(keys, 'short\n');
  chmodSync(keys, 0o600);
  assert.match(await check({ secrets_key: keys }), /^problem: .* key 1 of the file is not 32 bytes/);
});

test('a home or a database that cannot be used is the only problem', async (t) => {
  const file = openWorld(t);
  writeFileSync(file.home, '');
  const { world: damaged } = await worldWithCloud(t);
  writeFileSync(join(damaged.home, 'state.db'), 'x'.repeat(4096));
  for (const [world, check] of [
    [file, 'home'],
    [damaged, 'database'],
  ] as const) {
    const found = Object.values(await diagnose(world)).flat();
    assert.deepEqual(
      found.filter(({ state }) => state === 'problem').map((one) => one.check),
      [check],
    );
    assert.ok(found.some((one) => one.check === 'tpus' && one.state === 'unknown'));
  }
});

test('the project that runs the queries of billing needs another permission', async (t) => {
  const { world, cloud } = await worldWithCloud(t);
  const settings = {
    tpu: { project: 'lab', endpoint: cloud.emulator.url },
    billing: { exportTable: 'lab-billing.costs.gcp_billing_export_v1_0A' },
  };
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify(settings));
  await cloud.admin('permission', 'tpu.nodes.get');
  const { permissions } = await diagnose(world);
  assert.deepEqual(
    permissions?.map(({ state, message }) => [state, message.split(':')[0]]),
    [
      ['problem', 'lab'],
      ['ok', 'lab-billing'],
    ],
  );
});

test('an orphan and a stopped controller are found, and nothing is changed', async (t) => {
  const { world, cloud } = await worldWithCloud(t);
  const store = openStore({ file: join(world.home, 'state.db') });
  const spec = tpuSpec({}, { project: 'lab', zone: 'us-central2-b' });
  const { job } = await store.insert({ spec, manifest: '', owner: 'ada', at: noon });
  const installation = await store.installationId();
  await store.close();
  const parent = '/v2/projects/lab/locations/us-central2-b';
  await cloud.ok('POST', `${parent}/nodes?nodeId=left`, {
    acceleratorType: 'v4-8',
    runtimeVersion: 'tpu-ubuntu2204-base',
    labels: { 'jobman-installation': installation, 'jobman-job': '000099', 'jobman-allocation': '1' },
  });
  const keys = join(world.home, 'ssh');
  mkdirSync(keys, { mode: 0o700 });
  writeFileSync(join(keys, 'id_ed25519'), 'secret');
  chmodSync(join(keys, 'id_ed25519'), 0o644);
  const before = contentsOf(world.home);

  const found = await diagnose(world);
  assert.deepEqual(statesOf(found['database']), ['ok']);
  assert.match(found['controller']?.[0]?.message ?? '', /nothing recovers 1 unfinished job/);
  assert.equal(found['controller']?.[0]?.remedy, 'jobman controller start');
  assert.match(found['orphans']?.[0]?.message ?? '', /^1 orphan /);
  assert.equal(found['orphans']?.[0]?.remedy, 'jobman gc');
  assert.ok(found['ssh']?.some(({ remedy }) => remedy?.startsWith('chmod 600 ') === true));
  assert.ok(!JSON.stringify(found).includes('secret'));
  assert.deepEqual(contentsOf(world.home), before);
  assert.equal(job.id, '000001');
});

test('a mistake in the settings is one problem; checks that need them are unknown', async (t) => {
  const world = openWorld(t);
  mkdirSync(world.home, { recursive: true });
  writeFileSync(join(world.home, 'settings.json'), '{ "tpu": { "projcet": "lab" } }');
  const found = await diagnose(world);
  assert.deepEqual(statesOf(found['settings']), ['problem']);
  assert.match(found['settings']?.[0]?.message ?? '', /:1:12: Unknown setting "tpu\.projcet"/);
  for (const check of ['login', 'endpoints', 'clock', 'permissions', 'tpus', 'orphans'])
    assert.deepEqual(statesOf(found[check]), ['unknown'], check);
  assert.deepEqual(statesOf(found['disk']), ['ok']);
});

test('a full disk of the data of a server is a problem', async (t) => {
  const world = openWorld(t);
  mkdirSync(world.home, { recursive: true, mode: 0o700 });
  // A file system without free space.
  writeFileSync(join(world.home, 'settings.json'), '{ "server": { "data": "/proc" } }');
  const found = await diagnose(world);
  assert.deepEqual(statesOf(found['data']), ['problem'], JSON.stringify(found['data']));
  assert.deepEqual(statesOf(found['disk']), ['ok']);
});

test('a cloud that does not answer is a problem, and its permissions are unknown', async (t) => {
  const world = openWorld(t);
  mkdirSync(world.home, { recursive: true });
  const settings = { tpu: { project: 'lab', endpoint: 'http://127.0.0.1:1' } };
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify(settings));
  const found = await diagnose(world);
  assert.deepEqual(statesOf(found['endpoints']), ['problem']);
  assert.deepEqual(statesOf(found['permissions']), ['unknown']);
  assert.deepEqual(statesOf(found['tpus']), ['unknown']);
});
