// Whole logins of a person: `jobman login` as a process, `jobman server` with a real identity provider, and a browser.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { Browser } from '../oidc/support/browser.ts';
import { clientSecret, startProvider } from '../oidc/support/provider.ts';
import { eventually } from '../support/eventually.ts';
import { jobman, startJobman } from '../support/jobman.ts';
import { hasTerminal, runInTerminal } from '../support/run-in-terminal.ts';
import { openWorld } from '../support/world.ts';

/** A server with the identity provider, and a user ada. */
async function openLab(t: TestContext, settings: object = {}) {
  const provider = await startProvider(t);
  provider.people.set('ada', { email: 'ada@lab.example', email_verified: true });
  const world = openWorld(t, { patienceMs: 20_000 });
  const home = join(world.folder, 'served');
  const served = { JOBMAN_HOME: home };
  mkdirSync(home);
  writeFileSync(join(home, 'oidc-secret'), `${clientSecret}\n`, { mode: 0o600 });
  const oidc = { issuer: provider.issuer, client_id: 'jobman', client_secret_file: 'oidc-secret', ...settings };
  writeFileSync(join(home, 'settings.json'), JSON.stringify({ server: { oidc } }));
  const onServer = async (...argv: readonly string[]) => {
    const { code, stdout, stderr } = await jobman(world, argv, { env: served });
    assert.equal(code, 0, `${argv.join(' ')}: ${stderr}`);
    return stdout + stderr;
  };
  await onServer('token', 'create', '--name', 'first');
  await onServer('user', 'add', 'ada', '--account', 'ada@lab.example');
  const server = startJobman(world, ['server', '--listen', '127.0.0.1:0'], { env: served });
  await server.waitForOutput(/The server runs at \S+\./);
  const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
  const browser = join(world.folder, 'browser');
  writeFileSync(browser, `#!/bin/sh\nprintf %s "$1" >'${browser}.page'\n`, { mode: 0o755 });
  const start = (...argv: readonly string[]) => startJobman(world, argv, { env: { BROWSER: browser } });
  const stop = async () => {
    server.child.kill('SIGTERM');
    assert.equal((await server.result).code, 0, server.stderr);
  };
  const opened = () => readFileSync(`${browser}.page`, 'utf8');
  return { provider, stop, world, url, onServer, start, opened };
}

test(
  'a server with a wrong secret of its client does not start, and names each file',
  { timeout: 60_000 },
  async (t) => {
    const world = openWorld(t);
    mkdirSync(world.home);
    writeFileSync(join(world.home, 'device'), 'secret\n', { mode: 0o644 });
    const oidc = {
      issuer: 'https://login.example',
      client_id: 'jobman',
      client_secret_file: 'absent',
      device: { client_id: 'jobman-device', client_secret_file: 'device' },
    };
    writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ server: { oidc } }));
    const { code, stderr } = await jobman(world, ['server', '--listen', '127.0.0.1:0']);
    assert.equal(code, 2, stderr);
    assert.match(
      stderr,
      /server\.oidc cannot be used\.\n.*ENOENT.*absent.*\n.*every user of this machine can read .*device/,
    );
  },
);

suite('a person', { timeout: 180_000 }, () => {
  test('logs in with the browser of this machine, uses the server, and logs out', async (t) => {
    const { stop, world, url, onServer, start, opened } = await openLab(t);
    const command = start('login', url, '--name', 'lab', '--browser');
    await command.waitForOutput(/If no page opens: \S+/);
    const [, page = ''] = /If no page opens: (\S+)/.exec(command.stderr) ?? [];
    assert.ok(await eventually(() => existsSync(`${world.folder}/browser.page`) && opened() === page));
    const [code = 'no code'] = /[\dA-F]{4}-[\dA-F]{4}/.exec(command.stderr) ?? [];
    const browser = new Browser();
    const first = await browser.open(page);
    assert.match(first.text, new RegExp(`shows this code: ${code} Continue`));
    const last = await browser.logIn(await browser.click(first, 'Continue'), 'ada');
    assert.match(last.text, /You are logged in You may close this window/);
    const { code: exit, stdout, stderr } = await command.result;
    assert.equal(exit, 0, stderr);
    assert.match(
      stdout,
      /^Logged in to lab \(http.* as ada, with the role member, with the token \S+, which expires on/,
    );
    assert.match((await jobman(world, ['whoami'])).stdout, /^user +ada\nrole +member\n/);
    assert.match(await onServer('audit'), /ada .*log-in/);
    assert.doesNotMatch(readFileSync(join(world.folder, 'served/state.db'), 'latin1'), new RegExp(clientSecret));
    await onServer('user', 'role', 'ada', 'viewer');
    assert.equal((await jobman(world, ['logout', '--revoke'])).code, 0);
    assert.match(await onServer('audit'), /ada .* allowed +revoke-token/, 'of a role that the user has lost');
    await stop();
  });

  test('over SSH sees a code without asking for it, and Ctrl-C stores nothing', async (t) => {
    if (!hasTerminal(t)) return;
    const { stop, world, url } = await openLab(t);
    const remote = { ...world, env: { ...world.env, DISPLAY: ':0', SSH_CONNECTION: '192.0.2.1 1 192.0.2.2 22' } };
    const { code, screen } = await runInTerminal(remote, 100, ['login', url], [[/enter the code/, '\u0003']]);
    assert.equal(code, 130, screen);
    assert.match(screen, /Open http\S+ in a browser on any machine[^]*jobman:\S* Interrupted\.\s+Nothing was stored\./);
    for (const [argv, sentence] of [
      [['--browser', '--device'], /Choose one of --browser and --device/],
      [['--device', '--token-file', 'a'], /cannot be combined with --browser or --device/],
      [['--device', '--json'], /--json cannot show a page or a code/],
    ] as const) {
      const refused = await jobman(world, ['login', url, ...argv]);
      assert.deepEqual([refused.code, sentence.test(refused.stderr)], [2, true], refused.stderr);
    }
    await stop();
  });

  test('logs in with a code in a browser on another machine, until an admin disables the user', async (t) => {
    const { provider, stop, world, url, onServer, start } = await openLab(t);
    let failures = 1;
    provider.tamper = (path, _body, outgoing) => {
      if (path !== '/token' || failures-- <= 0) return undefined;
      outgoing.statusCode = 502;
      return '<html>';
    };
    const command = start('login', url, '--name', 'lab', '--device');
    await command.waitForOutput(/enter the code \S+\./);
    const [, address = '', code = ''] = /Open (\S+) in a browser.* the code (\S+)\./.exec(command.stderr) ?? [];
    assert.ok(await eventually(() => failures <= 0));
    const browser = new Browser();
    const confirmed = await browser.submit(await browser.open(address), { user_code: code });
    const done = await browser.logIn(await browser.submit(confirmed), 'ada');
    assert.match(done.text, /successful/);
    const { code: exit, stdout, stderr } = await command.result;
    assert.equal(exit, 0, stderr);
    assert.match(stdout, /^Logged in to lab \(http.* as ada/);
    await onServer('user', 'disable', 'ada');
    const refused = await jobman(world, ['list']);
    assert.deepEqual([refused.code, /does not accept this token/.test(refused.stderr)], [4, true]);
    await stop();
  });
});
