// `jobman server` as a process, and commands that use it. test/server/ has the API, test/contract/ the operations.

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { jobmanProgram } from '../../src/cli/table.ts';
import { jobman, startJobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

suite('a server', { timeout: 180_000 }, () => {
  test('runs the jobs of commands that have only its address and a token, and nothing on their own home', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const served = { JOBMAN_HOME: join(world.folder, 'served') };
    const created = await jobman(world, ['token', 'create', '--name', 'laptop'], { env: served });
    assert.equal(created.code, 0, created.stderr);
    const server = startJobman(world, ['server', '--listen', '127.0.0.1:0'], { env: served });
    await server.waitForOutput(/The server runs at \S+\./);
    const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
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
    ]) {
      const { code, stderr } = await remote(...args);
      assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
    }
    assert.equal((await remote('show', '7')).code, 3);
    assert.match((await remote('--json', 'list')).stdout, /"id":"000001".*"phase":"succeeded"/);

    const local = jobmanProgram.commands.filter(({ usesHome }) => usesHome === true);
    const refused = await remote('controller', 'status');
    assert.deepEqual([refused.code, local.length > 20], [2, true]);
    assert.match(refused.stderr, /`jobman controller status` does not work through a server yet/);
    assert.equal((await remote('list', '-n', 'vision')).code, 2);
    assert.equal(existsSync(world.home), false, 'the home of this machine was not even made');

    await remote('token', 'revoke', 'laptop');
    const revoked = await remote('list');
    assert.equal(revoked.code, 4);
    assert.match(revoked.stderr, /does not accept this token: it is unknown, has expired or was revoked/);
    server.child.kill('SIGTERM');
    assert.equal((await server.result).code, 0);
  });

  test('is refused beyond this machine, and at an address that is in use', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    for (const address of ['0.0.0.0:7420', 'example.com:7420', '[::]:7420']) {
      const { code, stderr } = await jobman(world, ['server', '--listen', address]);
      assert.equal(code, 2);
      assert.match(stderr, /has no TLS yet, so it listens on this machine only/);
    }
    assert.equal((await jobman(world, ['server', '--listen', '127.0.0.1:x'])).code, 2);
    for (const [env, sentence] of [
      [{ JOBMAN_SERVER: 'http://example.com', JOBMAN_TOKEN: 'a' }, /would send the token in clear text/],
      [{ JOBMAN_SERVER: 'example.com', JOBMAN_TOKEN: 'a' }, /must be the address of a server/],
      [{ JOBMAN_SERVER: 'http://127.0.0.1:1' }, /JOBMAN_TOKEN has no token/],
      [{ JOBMAN_SERVER: 'http://127.0.0.1:1', JOBMAN_TOKEN: 'a', TPU_USER: 'ada' }, /the token decides who you are/],
    ] as const) {
      const { code, stderr } = await jobman(world, ['list'], { env });
      assert.equal(code, 2, stderr);
      assert.match(stderr, sentence);
    }
    assert.equal(existsSync(world.home), false);
  });
});
