// The way to a worker, as far as it is decided here: address, port, user, key and host key, and the argv of the system's
// ssh, which the ssh program of this machine reads for us. Real connections are in test/real/tpu-emulator.test.ts.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { WorkerRef } from '../../../src/app/ports.ts';
import type { WorkerId } from '../../../src/core/model/spec.ts';
import { minute } from '../../../src/core/model/time.ts';
import { createTpuWorkers, sshKeyLines, type SshAccess, type TpuWorkers } from '../../../src/backends/tpu/workers.ts';
import type { SshHost } from '../../../src/app/worker-access.ts';
import { createSshLogins } from '../../../src/remote/ssh-logins.ts';
import { createHostKeys, ensureOwnKey } from '../../../src/remote/ssh-keys.ts';
import { createSecretStore } from '../../../src/files/secret-store.ts';
import { openStore } from '../../../src/store/store.ts';
import { createSshPool, type SshPool, type SshTarget } from '../../../src/remote/ssh.ts';
import { findProgram, requireReal } from '../../support/real.ts';
import { openWorld, type World } from '../../support/world.ts';
import { name, now, tpuRef, type RefOptions } from './support/refs.ts';
import { transportResult } from '../../../src/remote/transport.ts';
import { failure, openTpuServer, type TpuServer } from './support/server.ts';

type Scope = Parameters<typeof openWorld>[0];

const hosts = [
  { internalIp: '10.128.0.5', externalIp: '34.1.2.3' },
  { internalIp: '10.128.0.6', externalIp: null },
  { internalIp: null, externalIp: null },
];
const firstKey = 'AAAAC3NzaC1lZDI1NTE5AAAAIFirst';

function workerRef(worker: WorkerId, options: RefOptions = {}): WorkerRef {
  return { ...tpuRef({ ...options, allocation: { hosts, readyAt: now, ...options.allocation } }), worker };
}

interface Bench {
  readonly world: World;
  readonly server: TpuServer;
  readonly workers: TpuWorkers;
  sshHost(ref: WorkerRef): Promise<SshHost>;
  sshArgv(ref: WorkerRef, command: readonly string[]): Promise<readonly string[]>;
  /** The calls of the pool, and the names that it had to forget. */
  readonly targets: SshTarget[];
  readonly forgotten: (readonly [string, boolean])[];
  time: number;
  way: () => Promise<SshAccess>;
  /** The published data of each worker. */
  attributes: object[];
}

async function openBench(t: Scope): Promise<Bench> {
  const world = openWorld(t);
  const server = await openTpuServer(t);
  const sshArgs = ['-F', join(world.folder, 'ssh_config')];
  writeFileSync(join(world.folder, 'ssh_config'), '');
  const real = createSshPool({ home: world.home, user: 'alice', userHome: world.folder, agent: null, sshArgs });
  world.atEnd(() => {
    real.close();
  });
  const pool: SshPool = {
    transport(target) {
      bench.targets.push(target);
      return real.transport(target);
    },
    keyFiles: (target) => real.keyFiles(target),
    config: (target) => real.config(target),
    forget: (prefix, { pins }) => void bench.forgotten.push([prefix, pins]),
    close: () => undefined,
  };
  const logins = createSshLogins({ home: world.home, pool });
  const bench: Bench = {
    world,
    server,
    targets: [],
    forgotten: [],
    time: now,
    way: () => Promise.resolve({ port: 2222, usesUserConfig: false }),
    attributes: [],
    workers: createTpuWorkers({
      home: world.home,
      user: 'alice',
      pool,
      apiFor: () => server.api,
      sshAccessFor: () => bench.way(),
      now: () => bench.time,
    }),
    sshHost: async (ref) => logins.sshHost(await bench.workers.login(ref)),
    sshArgv: async (ref, command) => logins.sshArgv(await bench.workers.login(ref), command),
  };
  server.fault = ({ path }) =>
    path.endsWith(':getGuestAttributes') ? { status: 200, body: { guestAttributes: bench.attributes } } : undefined;
  return bench;
}

function attributesOf(...keys: readonly (readonly [string, string])[]): object {
  return { queryValue: { items: keys.map(([key, value]) => ({ namespace: 'hostkeys', key, value })) } };
}

suite('the way to a worker', () => {
  test('has its external address, the common port, the user that jobman runs as, and jobman’s own key', async (t) => {
    const bench = await openBench(t);
    assert.equal((await transportResult(bench.workers.transport(workerRef(0)))).kind, 'open');
    assert.deepEqual(bench.targets, [
      {
        host: '34.1.2.3',
        port: 2222,
        usesUserConfig: false,
        user: 'alice',
        keyFile: join(bench.world.home, 'ssh', 'id_ed25519'),
        pinName: 'ab12cd-000007-1-w0',
        hostKeys: [],
      },
    ]);
    assert.match(readFileSync(join(bench.world.home, 'ssh', 'id_ed25519'), 'utf8'), /^-----BEGIN OPENSSH PRIVATE KEY/);
  });

  test('is its inner address where it has no other, and as the manifest says', async (t) => {
    const bench = await openBench(t);
    await transportResult(
      bench.workers.transport(
        workerRef(1, { spec: { remoteUser: 'bob', privateKey: { kind: 'localFile', path: '/keys/lab' } } }),
      ),
    );
    const [target] = bench.targets;
    assert.equal(
      `${target?.user}@${target?.host} ${target?.keyFile} ${target?.pinName}`,
      'bob@10.128.0.6 /keys/lab ab12cd-000007-1-w1',
    );
  });

  test('is refused where the cloud names something else than a host', async (t) => {
    const bench = await openBench(t);
    for (const externalIp of [
      'a\n  ProxyCommand touch PWN\n#',
      '-oProxyCommand=touch PWN',
      'a b',
      '$(touch PWN)',
      'a;b',
    ]) {
      const ref = workerRef(0, { allocation: { hosts: [{ internalIp: null, externalIp }] } });
      const refused = { message: /is not a host name/ };
      await assert.rejects(bench.sshHost(ref), refused);
      await assert.rejects(bench.sshArgv(ref, []), refused);
      const reach = await transportResult(bench.workers.transport(ref));
      assert.match(reach.kind === 'closed' ? reach.reason : '', refused.message);
    }
    assert.deepEqual(bench.targets, []);
  });

  test('is unknown while the cloud reports no address or the port is unknown', async (t) => {
    const bench = await openBench(t);
    for (const ref of [
      workerRef(2),
      workerRef(3),
      workerRef('controller'),
      workerRef(0, { allocation: { hosts: null } }),
    ]) {
      const reach = await transportResult(bench.workers.transport(ref));
      assert.match(reach.kind === 'closed' ? reach.reason : '', /no address of worker/);
    }
    bench.way = () => Promise.reject(new Error('the TPU emulator does not run'));
    assert.deepEqual(await transportResult(bench.workers.transport(workerRef(0))), {
      kind: 'closed',
      reason: 'the TPU emulator does not run',
    });
  });
});

suite('the host key', () => {
  test('is the one that the worker has published, asked for once for all workers', async (t) => {
    const bench = await openBench(t);
    bench.attributes = [
      attributesOf(['ssh-rsa', 'AAAArsa'], ['ssh-ed25519', firstKey], ['hostname', 't1v-n-1']),
      attributesOf(['ssh-ed25519', 'AAAAsecond\n']),
    ];
    await Promise.all([
      transportResult(bench.workers.transport(workerRef(0))),
      transportResult(bench.workers.transport(workerRef(1))),
    ]);
    await transportResult(bench.workers.transport(workerRef(0)));
    const published = [[`ssh-ed25519 ${firstKey}`, 'ssh-rsa AAAArsa'], ['ssh-ed25519 AAAAsecond']];
    assert.equal(bench.targets.length, 3);
    for (const { pinName: pin, hostKeys } of bench.targets) assert.deepEqual(hostKeys, published[Number(pin.at(-1))]);
    assert.deepEqual(bench.server.requestLines(), [`POST nodes/${name}:getGuestAttributes`]);
    assert.deepEqual(bench.server.requests[0]?.body, { workerIds: [''] });
  });

  test('that is not published yet is asked for again after a while, until it is known', async (t) => {
    const bench = await openBench(t);
    const published = bench.server.fault;
    bench.server.fault = () => failure(503, 'UNAVAILABLE', 'away');
    await transportResult(bench.workers.transport(workerRef(0)));
    await transportResult(bench.workers.transport(workerRef(0)));
    bench.server.fault = published;
    bench.attributes = [attributesOf(['ssh-ed25519', firstKey])];
    await transportResult(bench.workers.transport(workerRef(0)));
    bench.time += minute;
    await transportResult(bench.workers.transport(workerRef(0)));
    bench.time += minute;
    await transportResult(bench.workers.transport(workerRef(0)));
    const known = `ssh-ed25519 ${firstKey}`;
    assert.deepEqual(
      bench.targets.map(({ hostKeys }) => hostKeys),
      [[], [], [], [known], [known]],
    );
    assert.equal(bench.server.requests.length, 2);
  });

  test('that is pinned is not requested', async (t) => {
    const bench = await openBench(t);
    await createHostKeys(bench.world.home).pin('ab12cd-000007-1-w0', `ssh-ed25519 ${firstKey}`);
    await transportResult(bench.workers.transport(workerRef(0)));
    assert.deepEqual(bench.targets[0]?.hostKeys, []);
    assert.equal(bench.server.requests.length, 0);
  });

  test('that is not valid is not passed on', async (t) => {
    const bench = await openBench(t);
    bench.attributes = [attributesOf(['ssh-ed25519', '* @cert-authority']), attributesOf(['ssh-ed25519', ''])];
    await transportResult(bench.workers.transport(workerRef(0)));
    assert.deepEqual(bench.targets[0]?.hostKeys, []);
  });

  test('is forgotten with an allocation that was released, and with no other', async (t) => {
    const bench = await openBench(t);
    bench.workers.disconnect(workerRef(0));
    bench.workers.disconnect(workerRef(0, { allocation: { releasedAt: now } }));
    assert.deepEqual(bench.forgotten, [
      ['ab12cd-000007-1-w', false],
      ['ab12cd-000007-1-w', true],
    ]);
  });
});

suite('the system’s ssh', () => {
  /** The settings of the system's ssh for that argv. */
  function understood(argv: readonly string[], world: World): Map<string, string> {
    const [ssh = '', ...args] = argv;
    const text = execFileSync(ssh, ['-G', ...args], { env: world.env, encoding: 'utf8' });
    return new Map(
      text.split('\n').map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]),
    );
  }

  test('has all known options, and needs no question', async (t) => {
    if (!requireReal(t, 'ssh', findProgram('ssh'))) return;
    const bench = await openBench(t);
    bench.attributes = [attributesOf(['ssh-ed25519', firstKey])];
    const config = understood(await bench.sshArgv(workerRef(0), []), bench.world);
    assert.equal(config.get('hostname'), '34.1.2.3');
    assert.equal(config.get('port'), '2222');
    assert.equal(config.get('user'), 'alice');
    assert.equal(config.get('identityfile'), join(bench.world.home, 'ssh', 'id_ed25519'));
    assert.equal(config.get('identitiesonly'), 'yes');
    assert.equal(config.get('hostkeyalias'), 'ab12cd-000007-1-w0');
    assert.equal(config.get('stricthostkeychecking'), 'true');
    assert.equal(config.get('globalknownhostsfile'), '/dev/null');
    const file = join(bench.world.home, 'ssh', 'known_hosts', 'ab12cd-000007-1-w0');
    assert.equal(config.get('userknownhostsfile'), file);
    assert.equal(readFileSync(file, 'utf8'), `ab12cd-000007-1-w0 ssh-ed25519 ${firstKey}\n`);
  });

  test("ends when a host is silent, after the user's time if set, otherwise after ours", async (t) => {
    if (!requireReal(t, 'ssh', findProgram('ssh'))) return;
    const bench = await openBench(t);
    const limits = async () => {
      const config = understood(await bench.sshArgv(workerRef(0), []), bench.world);
      return `${config.get('connecttimeout')} ${config.get('serveraliveinterval')} ${config.get('serveralivecountmax')}`;
    };
    assert.equal(await limits(), '15 15 3', 'the TPU emulator, to which no configuration applies');
    bench.way = () => Promise.resolve({ port: 2222, usesUserConfig: true });
    assert.equal(await limits(), '15 15 3', 'a configuration that says nothing');
    const reported = await openBench(t);
    reported.way = bench.way;
    writeFileSync(
      join(reported.world.folder, 'ssh_config'),
      'Host 34.1.*\n  ServerAliveInterval 240\n  ConnectTimeout 90\n',
    );
    const { options } = await reported.sshHost(workerRef(0));
    const names = options.map(([option]) => option);
    assert.deepEqual([names.includes('ConnectTimeout'), names.includes('ServerAliveInterval')], [false, false]);
    assert.ok((await reported.sshHost(workerRef(1))).options.some(([option]) => option === 'ConnectTimeout'));
  });

  test('pins the first key where none is known, and follows a key file with odd characters', async (t) => {
    if (!requireReal(t, 'ssh', findProgram('ssh'))) return;
    const bench = await openBench(t);
    const privateKey = join(bench.world.folder, 'my key 100%d');
    writeFileSync(privateKey, '');
    const config = understood(
      await bench.sshArgv(workerRef(1, { spec: { privateKey: { kind: 'localFile', path: privateKey } } }), []),
      bench.world,
    );
    assert.equal(config.get('stricthostkeychecking'), 'accept-new');
    assert.match(config.get('identityfile') ?? '', /my key 100%%?d$/);
  });

  test('passes one argument as a shell script, several as one program and its arguments', async (t) => {
    const bench = await openBench(t);
    const after = async (...command: readonly string[]) => {
      const argv = await bench.sshArgv(workerRef(0), command);
      return argv.slice(argv.indexOf('34.1.2.3') + 1);
    };
    assert.deepEqual(await after(), []);
    assert.deepEqual(await after('ps aux | head'), ['ps aux | head']);
    assert.deepEqual(await after('echo', "it's", '$HOME'), [`echo 'it'\\''s' '$HOME'`]);
  });

  test('on a TPU that existed before is given the keys of its user too', async (t) => {
    if (!requireReal(t, 'ssh', findProgram('ssh'))) return;
    const bench = await openBench(t);
    bench.way = () => Promise.resolve({ port: 2222, usesUserConfig: true });
    const keys = join(bench.world.folder, '.ssh');
    mkdirSync(keys);
    for (const name of ['id_rsa', 'google_compute_engine']) writeFileSync(join(keys, name), '');
    const files = async (ownership: 'ephemeral' | 'persistent'): Promise<readonly (string | undefined)[]> => {
      const { options } = await bench.sshHost(workerRef(0, { spec: { ownership } }));
      return ['IdentityFile', 'IdentitiesOnly'].flatMap((name) =>
        options.flatMap(([option, value]) => (option === name ? [value.replaceAll('"', '')] : [])),
      );
    };
    const own = join(bench.world.home, 'ssh', 'id_ed25519');
    assert.deepEqual(await files('ephemeral'), [own, 'yes']);
    assert.deepEqual(await files('persistent'), [own, join(keys, 'id_rsa'), join(keys, 'google_compute_engine')]);
    const argv = await bench.sshArgv(workerRef(0, { spec: { ownership: 'persistent' } }), []);
    assert.match(execFileSync('ssh', ['-G', ...argv.slice(1)], { encoding: 'utf8' }), /google_compute_engine$/m);
  });

  test('says why a worker cannot be reached', async (t) => {
    const bench = await openBench(t);
    await assert.rejects(bench.sshArgv(workerRef(2), []), /no address of worker 2 of llama-000007-1/);
  });
});

suite('the lines of ssh-keys', () => {
  test('contain jobman’s own key and the public key of the manifest, for the user of the manifest', async (t) => {
    const { folder, home } = openWorld(t);
    const privateKey = join(folder, 'lab');
    writeFileSync(`${privateKey}.pub`, 'ssh-rsa BBBB carol@lab\n');
    const { capacity } = tpuRef({ spec: { remoteUser: 'bob', privateKey: { kind: 'localFile', path: privateKey } } })
      .job.spec;
    assert.equal(capacity.kind, 'tpu');
    const lines = (await sshKeyLines(capacity, { id: '000007', owner: 'ada' }, { home, user: 'alice' })).split('\n');
    assert.equal(lines.length, 2);
    assert.match(lines[0] ?? '', /^bob:ssh-ed25519 [A-Za-z0-9+/]+=* jobman$/);
    assert.equal(lines[1], 'bob:ssh-rsa BBBB carol@lab');
  });

  test('contain the public half of a secret, which has no file of its own', async (t) => {
    const { folder, home } = openWorld(t);
    const own = await ensureOwnKey(folder);
    const store = openStore({ file: ':memory:' });
    const secrets = createSecretStore(home, { rows: store.secrets, keys: () => null });
    await secrets.put('ada', 'login', readFileSync(own.file));
    const { capacity } = tpuRef({ spec: { privateKey: { kind: 'named', secret: 'login' } } }).job.spec;
    assert.equal(capacity.kind, 'tpu');
    const lines = await sshKeyLines(capacity, { id: '000007', owner: 'ada' }, { home, user: 'alice' });
    assert.equal(lines.split('\n')[1], `alice:${own.publicKey}`);
    const missing = sshKeyLines(capacity, { id: '000008', owner: 'bob' }, { home, user: 'alice' });
    await assert.rejects(missing, /login/, 'a TPU without a login would only cost money');
    await store.close();
  });

  test('do without a public half that is not there, or is none', async (t) => {
    const { folder, home } = openWorld(t);
    const privateKey = join(folder, 'lab');
    const { capacity } = tpuRef({ spec: { privateKey: { kind: 'localFile', path: privateKey } } }).job.spec;
    assert.equal(capacity.kind, 'tpu');
    writeFileSync(privateKey, 'not a key');
    const first = await sshKeyLines(capacity, { id: '000007', owner: 'ada' }, { home, user: 'alice' });
    assert.match(first, /^alice:ssh-ed25519 \S+ jobman$/);
    writeFileSync(`${privateKey}.pub`, 'ssh-rsa BBBB x\nroot:ssh-rsa CCCC y\n');
    assert.equal(await sshKeyLines(capacity, { id: '000007', owner: 'ada' }, { home, user: 'alice' }), first);
  });
});
