// Databases on a server that cannot be used, or only in part: a clear message, the exit code 5, and nothing changed.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openStore } from '../../src/store/store.ts';
import { createCertificates } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';
import { openJobWorld } from '../support/jobs.ts';
import { filesIn } from '../support/leaks.ts';
import { freePort } from '../support/ports.ts';
import { requirePostgres, startPostgres } from '../support/postgres.ts';
import { requireReal } from '../support/real.ts';

test('the certificate of a server is verified as the URL says, and no message has the password', async (t) => {
  const world = openJobWorld(t);
  const { caFile } = createCertificates(join(world.folder, 'own'));
  const foreign = createCertificates(join(world.folder, 'foreign')).caFile;
  // The server reads them as another user, and refuses a key that others may read.
  for (const folder of [world.folder, join(world.folder, 'own')]) chmodSync(folder, 0o755);
  const [cert, key] = ['crt', 'key'].map((name) => join(world.folder, 'own', name)) as [string, string];
  chmodSync(key, 0o600);
  if (process.getuid?.() === 0) chownSync(key, Number(spawnSync('id', ['-u', 'postgres']).stdout), 0);
  const port = String(await freePort());
  const settings = { listen_addresses: '127.0.0.1', port, ssl: 'on', ssl_cert_file: cert, ssl_key_file: key };
  const server = await startPostgres(t, { settings });
  if (server === undefined) return;
  world.atEnd(() => server.stop());
  const name = await server.createDatabase();
  const url = (parameters: string, host = '127.0.0.1') =>
    `postgres://locked:secret@${host}:${port}/${name}${parameters}`;
  const list = async (given: string) => {
    const { code, stdout, stderr } = await world.jobman(['list'], { env: { JOBMAN_DATABASE: given } });
    assert.doesNotMatch(`${stdout}${stderr}`, /secret/);
    return { code, stderr };
  };
  for (const mode of [`verify-full&sslrootcert=${caFile}`, `verify-ca&sslrootcert=${caFile}`, 'require'])
    assert.deepEqual((await list(url(`?sslmode=${mode}`))).code, 0, mode);
  for (const [given, message] of [
    [url(`?sslmode=verify-full&sslrootcert=${foreign}`), /certificate of the database .* is not trusted: .*verify/],
    [url('?sslmode=verify-full'), /is not trusted: .*\n +Name the file .*sslrootcert=FILE/],
    [url(`?sslmode=verify-full&sslrootcert=${caFile}`, 'localhost'), /not trusted: .*\n +The host of the URL must be/],
    [url('?sslmode=verify-full&sslrootcert=/none.pem'), /cannot be reached: ENOENT: .*\/none\.pem/],
    [url('?sslmode=verify-ca'), /has sslmode=verify-ca without sslrootcert/],
    [url('?sslmode=sometimes'), /has sslmode=sometimes\. Nothing was changed\.\n +Use sslmode=verify-full/],
    [
      url('?sslmode=require').replace(':secret', ''),
      /needs a password, and none was given.*\n +Set PGPASSWORD, or add/,
    ],
    [url('?sslmode=require').replace(name, 'jobx'), /database "jobx" does not exist\.\n +Create it: createdb jobx\n/],
    [url(''), /refused the connection: no pg_hba.conf entry .*no encryption/],
  ] as const) {
    const { code, stderr } = await list(given);
    assert.equal(code, 5, stderr);
    assert.match(stderr, message);
  }
});

test('on a full disk of the server nothing is created, the message says so, and the next try succeeds', async (t) => {
  const world = openJobWorld(t);
  const disk = join(world.folder, 'disk');
  mkdirSync(disk);
  chmodSync(world.folder, 0o755);
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=120m,mode=755', 'jobman-test', disk]).status === 0;
  if (!requireReal(t, 'right to mount a file system', isMounted)) return;
  const server = await startPostgres(t, { data: disk });
  world.atEnd(async () => {
    await world.stopServices();
    await server?.stop();
    assert.ok(await eventually(() => spawnSync('umount', [disk]).status === 0, { withinMs: 30_000 }));
  });
  if (server === undefined) return;
  const env = { JOBMAN_DATABASE: server.urlOf(await server.createDatabase()) };
  const create = (name: string) => {
    // Too long for the free part of a page, and not compressible.
    const text = Array.from({ length: 4_000 }, (_, index) => Math.sin(index).toString(36)).join('\n');
    return world.jobman(['create', world.localManifest(`: '${text}'`, { name })], { env });
  };
  assert.equal((await create('first')).code, 0);
  await world.jobman(['controller', 'stop'], { env });
  const filler = join(disk, 'filler');
  const file = openSync(filler, 'w');
  assert.throws(() => {
    for (;;) writeSync(file, Buffer.alloc(64 * 1024));
  }, /ENOSPC/);
  closeSync(file);
  const refused = await create('second');
  assert.equal(refused.code, 5, refused.stderr);
  assert.match(refused.stderr, /The disk of the database .* is full: .*No space left.*\. Nothing was changed/s);
  const names = async () => (await world.jobman(['list', '--all'], { env })).stdout.match(/first|second/g);
  assert.deepEqual(await names(), ['first']);
  rmSync(filler);
  assert.equal((await create('second')).code, 0);
  assert.deepEqual((await names())?.toSorted(), ['first', 'second']);
});

test('a database that cannot be used is named with its reason, and nothing in it is changed', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const world = openJobWorld(t);
  const manifest = world.localManifest('true');
  const [newer, older, foreign] = [
    await server.createDatabase(),
    await server.createDatabase(),
    await server.createDatabase(),
  ];
  const used = openStore({ url: server.urlOf(newer) });
  await used.installationId();
  await used.close();
  await server.query(`insert into migration values ('9000_later', '2027-01-01')`, newer);
  await server.query('create table job (x integer)', older);
  await server.query('create table invoices (x integer)', foreign);
  const tables = () =>
    Promise.all([newer, older, foreign].map((name) => server.query('select relname from pg_class order by 1', name)));
  const before = await tables();
  const wrongPassword = server.urlOf(newer, 'locked').replace('locked:secret@', 'locked:secret2@');
  for (const [url, message] of [
    [server.urlOf(newer), /was written by a newer jobman: it has version 9000, .* Upgrade jobman\.\n$/],
    [server.urlOf(older), /was written by an older, unreleased jobman .* create another database and use its URL\.\n$/],
    [
      server.urlOf(foreign),
      /contains tables of another program \(invoices\)\. Nothing was changed\.\n +Create a database/,
    ],
    ['postgres://ada:secret2@127.0.0.1:1/jobs', /cannot be reached: .*ECONNREFUSED/],
    [wrongPassword, /refused the connection: password authentication failed .*\n +Check the user and password/],
    [server.urlOf('none'), /refused the connection: database "none" does not exist\.\n +Create it: createdb/],
  ] as const) {
    const { code, stdout, stderr } = await world.jobman(['create', manifest], { env: { JOBMAN_DATABASE: url } });
    assert.deepEqual([code, stdout], [5, ''], stderr);
    assert.match(stderr, message);
    assert.doesNotMatch(stderr, /secret/);
  }
  // The setting is stored, because the server may be started later.
  const set = async (url: string) => (await world.runOk(['settings', 'set', 'database', url])).stderr;
  const warned = await set('postgres://ada:secret2@127.0.0.1:1/jobs');
  assert.match(warned, /^warning: The database .* cannot be reached: .*ECONNREFUSED.*\. The setting is stored\. .*\n$/);
  assert.doesNotMatch(warned, /secret|Nothing was changed/);
  assert.equal(await set(server.urlOf('postgres')), '');
  assert.deepEqual(await tables(), before);
  assert.deepEqual(world.processesMatching('controller run'), []);
  assert.deepEqual(
    filesIn(world.home).filter((file) => file.endsWith('config.yaml')),
    [],
  );
});

test('a database that can only be read for a while refuses changes, and the same controller continues', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const name = await server.createDatabase();
  const world = openJobWorld(t, { env: { JOBMAN_DATABASE: server.urlOf(name) } });
  const done = join(world.folder, 'done');
  const id = await world.create(world.localManifest(`until [ -e ${done} ]; do sleep 0.1; done`));
  await world.waitForPhase(id, 'running');
  const [controller] = world.processesMatching('controller run');
  const setReadOnly = async (value: string) => {
    await server.query(`alter database ${name} set default_transaction_read_only = ${value}`);
    await server.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
  };
  await setReadOnly('on');
  writeFileSync(done, '');
  for (const argv of [
    ['create', world.localManifest('true')],
    ['cancel', id],
  ])
    await world.runRefused(5, /cannot be written: .* read-only transaction\. Nothing was changed\.$/m, argv);
  assert.deepEqual(
    (await world.jsonRows<{ id: string; phase: string }>('list', '--json')).map((row) => [row.id, row.phase]),
    [[id, 'running']],
  );
  await setReadOnly('off');
  await world.waitForFinish(id);
  const log = () => readFileSync(join(world.home, 'controller.log'), 'utf8');
  const isLogged = (line: string) => eventually(() => log().includes(line), { withinMs: 30_000 });

  await server.query(`alter database ${name} with allow_connections false`);
  await server.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
  assert.match(
    await world.output('controller', 'status'),
    /It waits for the database: The database postgres:\S+ refused/,
  );
  assert.ok(await isLogged('cannot use the database, so no job is managed'));
  await server.query(`alter database ${name} with allow_connections true`);
  assert.ok(await isLogged('the database answers again'));
  assert.equal(world.processesMatching('controller run')[0]?.pid, controller?.pid);
});
