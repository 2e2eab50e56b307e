/** A secret and a token, sent to a server in every way: nothing that the server writes or answers has one of them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { jobman, startJobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

const secret = 'marked-secret-value-31337';
const wrongToken = `jobman_${'MARKEDwrong'.padEnd(38, 'x')}`;

test(
  'no secret and no token is in a log, an answer, a metric, an event, the audit log or a report',
  { timeout: 180_000 },
  async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const home = join(world.folder, 'served');
    const served = { JOBMAN_HOME: home };
    const texts: (readonly [what: string, text: string])[] = [];
    const add = (what: string, text: string) => void texts.push([what, text]);
    const local = async (...args: readonly string[]) => {
      const result = await jobman(world, args, { env: served });
      add(args.join(' '), result.stdout + result.stderr);
      return result;
    };
    // Only these commands print a token.
    const tokenOf = async (...args: readonly string[]) =>
      (await jobman(world, ['token', 'create', ...args], { env: served })).stdout.trim();
    const admin = await tokenOf('--name', 'laptop');
    const viewer = await tokenOf('--name', 'phone', '--role', 'viewer');
    await local('secret', 'encrypt');
    const server = startJobman(world, ['server', '--listen', '127.0.0.1:0'], { env: served });
    await server.waitForOutput(/The server runs at \S+\./);
    const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
    const remote = async (token: string, args: readonly string[], input = '') => {
      const result = await jobman(world, args, { env: { JOBMAN_SERVER: url, JOBMAN_TOKEN: token }, input });
      add(args.join(' '), result.stdout + result.stderr);
      return result.code;
    };
    const send = async (
      token: string,
      method: string,
      path: string,
      body?: string,
      headers: Record<string, string> = {},
    ) => {
      const all = { authorization: `Bearer ${token}`, ...headers };
      const answer = await fetch(url + path, { method, headers: all, ...(body === undefined ? {} : { body }) });
      add(`${method} ${path}`, [...answer.headers].join('\n') + (await answer.text()));
      return answer.status;
    };

    writeFileSync(join(world.folder, 'key.txt'), secret);
    const manifest = (command: string) =>
      `job: {name: leak, secrets: {KEY: secret:wandb, FILE: key.txt}}\nlocal: {}\ncommand: {cmd: '${command}'}\n`;
    writeFileSync(join(world.folder, 'fails.yaml'), manifest('test -n "$KEY$FILE" && exit 3'));
    assert.equal(await remote(admin, ['secret', 'set', 'wandb'], secret), 0);
    assert.equal(await remote(admin, ['create', 'fails.yaml', '--follow']), 1, 'a job that fails');
    assert.equal(await remote(admin, ['secret', 'set', 'FILE', '--job', '1'], `${secret}-2`), 0);
    for (const args of [
      ['show', '1'],
      ['history', '1'],
      ['why', '1'],
      ['--json', 'show', '1'],
      ['secret'],
      ['token'],
      ['audit'],
    ])
      assert.equal(await remote(admin, args), 0, args.join(' '));

    assert.equal(await remote(viewer, ['create', 'fails.yaml']), 4, 'a refused job');
    assert.equal(await send(viewer, 'PUT', '/v1/secrets/wandb', secret), 403);
    assert.equal(await send(admin, 'PUT', `/v1/secrets/${encodeURIComponent('../x')}`, secret), 400);
    assert.equal(await send(admin, 'PUT', '/v1/secrets/large', secret.repeat(4_000)), 400);
    assert.equal(await send(admin, 'POST', '/v1/jobs', `{"secrets": {"KEY": "${secret}"`), 400, 'wrong JSON');
    assert.equal(
      await send(admin, 'POST', '/v1/jobs', JSON.stringify({ secrets: { KEY: secret }, token: viewer })),
      400,
    );
    assert.equal(await send(admin, 'POST', `/v1/jobs/1/commands/${viewer}`, '{}'), 400, 'a token as a verb');
    for (const token of [wrongToken, `${admin}x`, admin.slice(0, -1)])
      assert.equal(await send(token, 'GET', '/v1/jobs'), 401);
    await send(admin, 'GET', '/metrics');

    // A bug: the log gets its stack.
    const database = new DatabaseSync(join(home, 'state.db'));
    database.exec('alter table secret rename to secret_moved');
    assert.equal(await send(admin, 'PUT', '/v1/secrets/wandb', secret), 500);
    assert.equal(await remote(admin, ['create', 'fails.yaml']), 1);
    database.exec('alter table secret_moved rename to secret');
    database.close();
    assert.match(server.stderr, /incident [\w-]+: .*no such table/);

    await local('audit', '--json');
    await local('report', '1', '--bundle', '--output', 'bundle.tar.gz');
    const unpacked = join(world.folder, 'unpacked');
    mkdirSync(unpacked);
    execFileSync('tar', ['-xzf', join(world.folder, 'bundle.tar.gz'), '-C', unpacked]);
    server.child.kill('SIGTERM');
    assert.equal((await server.result).code, 0);
    add('the output of the server', server.stdout + server.stderr);
    for (const folder of [home, unpacked])
      for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
        if (statSync(join(folder, path)).isFile()) add(path, readFileSync(join(folder, path), 'latin1'));

    const isFound = (value: string, text: string) =>
      text.includes(value) || text.includes(Buffer.from(value).toString('base64').slice(0, 24));
    assert.ok(texts.filter(([, text]) => isFound('leak', text)).length > 10, 'the texts are about the job');
    const found = [secret, admin, viewer, wrongToken].flatMap((value) =>
      texts.filter(([, text]) => isFound(value, text)).map(([what]) => `${value.slice(0, 12)} in ${what}`),
    );
    assert.deepEqual(found, []);
  },
);
