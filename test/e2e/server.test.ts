// `jobman server` as a process, and commands that use it. test/server/ has the API, test/contract/ the operations.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import { jobmanProgram } from '../../src/cli/table.ts';
import { createCertificates, type Certificates } from '../support/certificates.ts';
import { jobman, startJobman, type JobmanOptions } from '../support/jobman.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

function manifestIn({ folder }: World): string {
  const path = join(folder, 'iris.yaml');
  writeFileSync(path, 'job: {name: iris}\nlocal: {}\ncommand: {cmd: "echo hello"}\n');
  return path;
}

/** The dashboard and the alert rules name only metrics of this text, which has the job that succeeded. */
function checkMonitoring(text: string): void {
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]));
  const exists = (name: string): boolean =>
    name === 'up' ||
    (types.has(name) && types.get(name) !== 'histogram') ||
    types.get(name.replace(/_(bucket|sum|count)$/, '')) === 'histogram';
  const expressions = ['deploy/grafana/jobman.json', 'deploy/prometheus/alerts.yaml'].flatMap((path) => {
    const found: string[] = [];
    JSON.stringify(parse(readFileSync(join(root, path), 'utf8')), (key, value: unknown) => {
      if (key === 'expr') found.push(String(value));
      return value;
    });
    assert.ok(found.length > 5, path);
    return found;
  });
  const names = expressions.flatMap(
    (one) => one.replaceAll(/"[^"]*"/g, '""').match(/\b(?:jobman|process|nodejs)_\w+|\bup\b/g) ?? [],
  );
  assert.deepEqual(
    [...new Set(names)].filter((name) => !exists(name)),
    [],
  );
  assert.deepEqual(
    [...types.keys()].filter((name) => !names.some((one) => one.startsWith(name))),
    [],
    'shown nowhere',
  );
  assert.match(text, /^jobman_jobs_finished_total\{verdict="succeeded"\} 1$/m);
  assert.match(text, /^jobman_http_requests_total\{method="GET",route="\/v1\/jobs\/\{ref\}",status="404"\} 1$/m);
}

suite('a server', { timeout: 180_000 }, () => {
  test('runs the jobs of commands that have only its address and a token, and nothing on their own home', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const served = { JOBMAN_HOME: join(world.folder, 'served') };
    const created = await jobman(world, ['token', 'create', '--name', 'laptop'], { env: served });
    assert.equal(created.code, 0, created.stderr);
    assert.equal((await jobman(world, ['controller', 'start'], { env: served })).code, 0);
    const server = startJobman(world, ['server', '--listen', '127.0.0.1:0'], { env: served });
    await server.waitForOutput(/The server runs at \S+\./);
    const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
    const status = await jobman(world, ['controller', 'status'], { env: served });
    assert.match(status.stdout, /^The server, which is also the controller, /, 'it replaced the controller');
    assert.match(status.stdout, / Its log is on its standard error\.\n$/, 'and not in the file of that controller');
    const logs = await jobman(world, ['controller', 'logs'], { env: served });
    assert.deepEqual([logs.code, logs.stdout], [3, '']);
    assert.match(logs.stderr, /^jobman: The server writes its log to its standard error, and not to a file\.$/m);
    const restart = await jobman(world, ['controller', 'restart'], { env: served });
    assert.equal(restart.code, 4);
    assert.match(
      restart.stderr,
      /^jobman: The controller is part of a server \(process \d+\), which was not stopped\.$/m,
    );
    const second = await jobman(world, ['server', '--listen', '127.0.0.1:0'], { env: served });
    assert.deepEqual([second.code, second.stdout], [4, ''], 'no address that ends at once');
    assert.match(second.stderr, /^jobman: A server of \S+ is already running: process \d+, /);
    const env = { JOBMAN_SERVER: url, JOBMAN_TOKEN: created.stdout.trim() };
    const remote = (...args: readonly string[]) => jobman(world, args, { env });

    writeFileSync(join(world.folder, 'notes.txt'), 'lr: 3e-4\n');
    const manifest = `job: {name: iris, workdir: ${world.folder}}\nlocal: {}\ncommand: {cmd: "cat notes.txt"}\n`;
    writeFileSync(join(world.folder, 'iris.yaml'), manifest);
    const followed = await remote('create', 'iris.yaml', '--follow');
    assert.deepEqual([followed.code, /lr: 3e-4/.test(followed.stdout)], [0, true], followed.stderr);
    for (const args of [
      ['list'],
      ['show', '1'],
      ['why', '1'],
      ['history', '1'],
      ['logs', '1'],
      ['wait', '1'],
      ['cost'],
      ['report', '1'],
    ]) {
      const { code, stderr } = await remote(...args);
      assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
      assert.doesNotMatch(stderr, /Warning/, 'of Node');
    }
    assert.equal((await remote('show', '7')).code, 3);

    const added = await jobman(world, ['hosts', 'add', 'gpu1', '--ssh', 'ada@127.0.0.1:1'], { env: served });
    assert.equal(added.code, 0, added.stderr);
    writeFileSync(join(world.folder, 'host.yaml'), 'job: {name: iris}\nhosts: [gpu1]\ncommand: {cmd: "true"}\n');
    const onHost = await remote('validate', 'host.yaml');
    assert.equal(onHost.code, 0, 'a host is one of the server');
    const channel = '{"type": "command", "command": "true"}';
    await jobman(world, ['settings', 'set', 'notify.channels.team', channel], { env: served });
    const reported = (to: string) =>
      writeFileSync(join(world.folder, 'reported.yaml'), `local: {}\nnotify: {to: [${to}]}\ncommand: {cmd: "true"}\n`);
    reported('team');
    assert.equal((await remote('validate', 'reported.yaml')).code, 0, 'a channel is one of the server');
    reported('mail:ada@example.com');
    assert.match((await remote('create', 'reported.yaml')).stderr, /spec notify\.to\[0\]: needs a mail server/);
    assert.match((await remote('--json', 'list')).stdout, /"id":"000001".*"phase":"succeeded"/);

    const local = jobmanProgram.commands.filter(({ usesHome }) => usesHome !== undefined);
    const refused = await remote('controller', 'status');
    assert.deepEqual([refused.code, local.length > 20], [2, true]);
    assert.match(refused.stderr, /`jobman controller status` works only on this machine, and not through a server\. /);
    assert.match((await remote('emulator', 'preempt', '1')).stderr, /`jobman emulator` works only on this machine/);
    assert.match((await remote('hosts')).stdout, /^localhost +the server's machine .*\ngpu1 +ada@127\.0\.0\.1:1 /m);
    const settings = await remote('settings');
    assert.match(settings.stdout, /^notify\.channels +\{"team".* settings\.json$/m);
    assert.match(settings.stderr, /These are the settings of the server http:\S+\. Their file is on its machine\.\n/);
    assert.match(
      (await remote('settings', 'set', 'local.slots', '3')).stderr,
      /`jobman settings set` works only on this machine/,
    );
    assert.match(
      (await remote('report', '1', '--bundle')).stderr,
      /`jobman report --bundle` works only on this machine/,
    );
    assert.equal((await remote('list', '-n', 'vision')).code, 5, 'the server has no kubeconfig');
    assert.equal(existsSync(world.home), false, 'the home of this machine was not even made');

    const viewer = await jobman(world, ['token', 'create', '--name', 'prometheus', '--role', 'viewer'], {
      env: served,
    });
    const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${viewer.stdout.trim()}` } });
    checkMonitoring(await answer.text());

    await remote('token', 'revoke', 'laptop');
    const revoked = await remote('list');
    assert.equal(revoked.code, 4);
    assert.match(revoked.stderr, /does not accept this token: it is unknown, has expired or was revoked/);
    server.child.kill('SIGTERM');
    assert.equal((await server.result).code, 0);
  });

  test('is used after a login, until another context, the environment or a flag says otherwise', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const served = { JOBMAN_HOME: join(world.folder, 'served') };
    const { stdout: token } = await jobman(world, ['token', 'create', '--name', 'laptop'], { env: served });
    const server = startJobman(world, ['server', '--listen', '127.0.0.1:0'], { env: served });
    await server.waitForOutput(/The server runs at \S+\./);
    const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
    const file = join(world.home, 'servers.json');
    const run = async (code: number, args: readonly string[], options: JobmanOptions = {}) => {
      const result = await jobman(world, args, options);
      assert.equal(result.code, code, `${args.join(' ')}: ${result.stdout}${result.stderr}`);
      return result.stdout + result.stderr;
    };

    assert.match(await run(2, ['login', 'lab'], { input: token }), /neither the address of a server nor a context/);
    assert.match(
      await run(4, ['login', url], { input: 'jobman_wrong' }),
      /does not accept this token.*\n.*Nothing was st/,
    );
    assert.match(
      await run(4, ['login', url, '--device']),
      /has no identity provider\.\n +Nothing was stored\.\n +With a token/,
    );
    assert.equal(existsSync(file), false);
    const login = ['login', url, '--name', 'lab'];
    assert.match(
      await run(0, login, { input: token }),
      /Logged in to lab \(.*admin, with the token laptop, which expires on/,
    );
    assert.deepEqual([statSync(file).mode & 0o777, readdirSync(world.home)], [0o600, ['servers.json']]);
    await run(0, ['create', manifestIn(world)]);
    assert.match(await run(0, ['whoami']), /token +laptop, expires.*\nserver +lab \(\S+\), by the current context/);
    assert.match(await run(0, ['whoami', '--server', 'local']), /server +this machine \(/);
    assert.match(await run(2, ['context', 'delete', 'local']), /^jobman: local is this machine/m);
    const local = { JOBMAN_SERVER: 'local' };
    assert.doesNotMatch(await run(0, ['list'], { env: local }), /iris/);
    assert.match(await run(0, ['list', '--server', 'lab'], { env: local }), /iris/);
    assert.match(await run(0, ['list', '--server', `${url}/`], { env: local }), /iris/);
    assert.match(await run(0, ['context', 'use', 'lab'], { env: local }), /JOBMAN_SERVER is local and comes first/);
    assert.match(await run(0, ['context'], { env: local }), /\* +local .*\n +lab /);
    assert.equal(await run(0, ['__complete', 'context', 'use', '']), `local\tthis machine\nlab\t${url}\n`);
    assert.match(await run(0, ['__complete', '--server', 'lab', 'show', '']), /^000001\t/);
    assert.equal(await run(0, ['__complete', '--server', 'l']), `local\tthis machine\nlab\t${url}\n`);
    for (const args of [['doctor'], ['login'], ['tpu', 'attach'], ['queue', '--publish']])
      assert.match(await run(2, args), /The server in use is lab \([^]*--server local[^]*jobman context use local/);
    assert.match(await run(3, ['tpu', 'check']), /There are no users yet\.\n +An admin adds (\S+): tpu add-user \1$/m);
    assert.match(await run(0, ['tpu', 'add-user', 'ada']), /Added user ada/);
    assert.match(await run(0, ['tpu', '--server', 'lab', 'list-users']), /^ 0 +ada /m);
    assert.match(await run(0, ['tpu', 'list-users'], { env: local }), /There are no users yet/);
    assert.match(
      await run(2, ['tpu', 'list'], { env: { TPU_USER: 'ada' } }),
      /the token decides which user you are: unset/,
    );
    // A service that was installed before the login.
    await run(0, ['controller', 'run', '--idle-exit', '1ms']);

    chmodSync(file, 0o644);
    assert.match(await run(2, ['list']), /Other users can read .*\n +chmod 600/);
    chmodSync(file, 0o600);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('"contexts"', '"context"'));
    for (const args of [['list'], ['context', 'use', 'local']])
      assert.match(await run(2, args), /servers\.json:3:3: .*"context".*\(did you mean "contexts"\?\)/);
    writeFileSync(file, text);

    assert.match(await run(0, ['logout']), /Logged out of lab .*\n.*jobman token revoke laptop --user/);
    assert.match(await run(2, ['list']), /not logged in to lab .*\n +To log in: jobman login http/);
    await run(0, ['login', 'lab'], { input: token });
    await run(0, ['logout', '--revoke']);
    writeFileSync(file, text);
    assert.match(await run(4, ['list']), /expired or was revoked\.\n +To log in again: jobman login http/);
    assert.match(await run(0, ['context', 'delete', 'lab']), /was the current one: commands now use this machine/);
    assert.doesNotMatch(await run(0, ['list']), /iris/);
    server.child.kill('SIGTERM');
    assert.equal((await server.result).code, 0);
  });

  test('beyond this machine has TLS, with a certificate that may change while it runs', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const served = { JOBMAN_HOME: join(world.folder, 'served') };
    const own = createCertificates(join(world.folder, 'own'));
    const other = createCertificates(join(world.folder, 'other'), 'DNS:jobman.example');
    const { stdout: token } = await jobman(world, ['token', 'create', '--name', 'laptop'], { env: served });
    const install = ({ cert, key }: Certificates) => {
      writeFileSync(join(served.JOBMAN_HOME, 'server.pem'), cert);
      writeFileSync(join(served.JOBMAN_HOME, 'server.key'), key, { mode: 0o600 });
    };
    install(own);
    for (const [name, value] of [
      ['listen', '0.0.0.0:0'],
      ['tls.certificate', 'server.pem'],
      ['tls.key', 'server.key'],
    ] as const)
      await jobman(world, ['settings', 'set', `server.${name}`, value], { env: served });
    const server = startJobman(world, ['server'], { env: served });
    await server.waitForOutput(/The server runs at https:\S+\./);
    const url = `https://127.0.0.1:${/0\.0\.0\.0:(\d+)\. /.exec(server.stdout)?.[1]}`;
    const run = async (code: number, args: readonly string[], input = '') => {
      const result = await jobman(world, args, { input });
      assert.equal(result.code, code, `${args.join(' ')}: ${result.stdout}${result.stderr}`);
      return result.stdout + result.stderr;
    };

    assert.match(
      await run(5, ['login', url], token),
      /is from an unknown authority\..*\n.*--ca FILE.*\n.*Nothing was st/,
    );
    assert.match(
      await run(5, ['login', url, '--ca', other.caFile], token),
      /is from an unknown authority\..*\n.*The CA of --ca did not sign it\./,
    );
    assert.match(
      await run(5, ['login', url.replace('s:', ':')], token),
      /has TLS, its address begins with https: https/,
    );
    assert.match(await run(2, ['login', url, '--ca', own.keyFile], token), /key: it contains no PEM certificate/);
    await run(0, ['login', url, '--name', 'lab', '--ca', own.caFile], token);
    rmSync(own.caFile);
    assert.match(await run(0, ['whoami']), /server +lab \(https/);
    assert.match(
      await run(0, ['list']),
      /No jobs yet\. Write a manifest/,
      'only some users may run a program on a server',
    );

    writeFileSync(join(served.JOBMAN_HOME, 'server.key'), other.key);
    await run(0, ['whoami']);
    await server.waitForOutput(/keeps the previous one: \S+server\.key: it is the key of another certificate/);
    install(other);
    assert.match(await run(5, ['whoami', '--server', 'lab']), /The certificate .* is from an unknown authority/);
    assert.match(await run(5, ['login', 'lab', '--ca', other.caFile], token), /is for another address\.[^]*altnames/);
    install(own);
    await run(0, ['whoami']);
    server.child.kill('SIGTERM');
    assert.equal((await server.result).code, 0);
  });

  test('is refused beyond this machine, and at an address that is in use', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    for (const address of ['0.0.0.0:7420', 'example.com:7420', '[::]:7420']) {
      const { code, stderr } = await jobman(world, ['server', '--listen', address]);
      assert.equal(code, 2);
      assert.match(stderr, /To listen at \S+, a server needs TLS, .*\n.*--tls-certificate FILE[^]*--trusted-proxy/);
    }
    for (const [flags, sentence] of [
      [['--tls-key', 'none'], /only the key is given/],
      [['--tls-key', 'none', '--tls-certificate', 'none'], /none: it does not exist\n.*none: it does not exist/],
      [['--trusted-proxy', '0.0.0.0/0'], /takes an address or a network .*, and not 0\.0\.0\.0\/0/],
    ] as const) {
      const { code, stderr } = await jobman(world, ['server', '--listen', '0.0.0.0:0', ...flags]);
      assert.equal(code, 2);
      assert.match(stderr, sentence);
    }
    assert.equal((await jobman(world, ['server', '--listen', '127.0.0.1:x'])).code, 2);
    for (const [env, sentence] of [
      [{ JOBMAN_SERVER: 'http://example.com', JOBMAN_TOKEN: 'a' }, /would send the token in clear text/],
      [{ JOBMAN_SERVER: 'example.com', JOBMAN_TOKEN: 'a' }, /neither an address such as https:\S+ nor a context/],
      [{ JOBMAN_SERVER: 'http://127.0.0.1:1' }, /not logged in to http:\S+\n +To log in: jobman login/],
      [
        { JOBMAN_SERVER: 'http://127.0.0.1:1', JOBMAN_TOKEN: 'a', TPU_USER: 'ada' },
        /the token decides which user you are/,
      ],
    ] as const) {
      const { code, stderr } = await jobman(world, ['list'], { env });
      assert.equal(code, 2, stderr);
      assert.match(stderr, sentence);
    }
    assert.equal(existsSync(world.home), false);
  });
});
