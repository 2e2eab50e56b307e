// The login to Google Cloud. Google's library is not used here: without a network it would search for a metadata server;
// test/real/tpu-login.test.ts asks it. What is ours: when a token is fetched, how long it serves, what is sent where.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createGoogleApiClient, type Credentials } from '../../../src/backends/tpu/api.ts';
import { createCredentials, createLogin, parseToken, type RunProgram } from '../../../src/backends/tpu/credentials.ts';
import { isLoopback } from '../../../src/http/client.ts';
import { JobmanError } from '../../../src/app/errors.ts';
import { failure, openTpuServer } from './support/server.ts';

const unusable = createLogin({ run: () => Promise.reject(new Error('no program should run')), now: () => 0 });
const to = (address: string, login: Credentials = unusable): Credentials =>
  createCredentials({ endpoint: () => Promise.resolve(address), login });

suite('no login is shown', () => {
  for (const endpoint of ['http://127.0.0.1:4000', 'http://127.3.2.1:4000/', 'http://localhost:1', 'http://[::1]:5']) {
    test(`to ${endpoint}, which is this machine`, async () => {
      assert.deepEqual(await to(endpoint).headers(), {});
    });
  }

  for (const endpoint of ['http://tpu.example.com', 'http://127.0.0.1.example.com', 'not an address']) {
    test(`to ${endpoint}, without encryption, is refused`, async () => {
      await assert.rejects(
        to(endpoint).headers(),
        (error) => error instanceof JobmanError && /not an https URL/.test(error.message),
      );
    });
  }
});

test('a machine is this one only by its whole name', () => {
  assert.equal(isLoopback('https://127.evil.example.com'), false);
  assert.equal(isLoopback('https://localhost.example.com'), false);
  assert.equal(isLoopback('https://tpu.googleapis.com'), false);
});

test('a refused login names the command that makes a new one', () => {
  assert.match(to('').invalidate({}), /gcloud auth application-default login$/);
});

/** A token command that prints these in turn, and then the last for ever. */
function printing(...printed: readonly string[]) {
  const clock = { now: 0 };
  const asked: string[] = [];
  const run: RunProgram = (argv) => {
    const output = printed[Math.min(asked.length, printed.length - 1)] ?? '';
    asked.push(argv.join(' '));
    return Promise.resolve(output.startsWith('!') ? { ok: false, output: output.slice(1) } : { ok: true, output });
  };
  return { clock, asked, login: createLogin({ run, now: () => clock.now, tokenCommand: 'print it' }) };
}

const google = 'https://tpu.googleapis.com';
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

suite('a token command', () => {
  test('runs once for all concurrent calls, and again shortly before its token expires', async () => {
    const { asked, clock, login } = printing(
      '{"access_token": "one", "expires_in": 3600, "token_type": "Bearer"}',
      'two\n',
    );
    const [one, other] = [to(google, login), to(google, login)];
    const all = await Promise.all([one.headers(), other.headers(), one.headers()]);
    assert.deepEqual(all, [bearer('one'), bearer('one'), bearer('one')]);
    clock.now += 58 * 60_000;
    assert.deepEqual(await other.headers(), bearer('one'));
    assert.deepEqual(asked, ['/bin/sh -c print it']);
    clock.now += 61_000;
    assert.deepEqual(await one.headers(), bearer('two'));
    assert.equal(asked.length, 2);
  });

  test('that fails, or prints no token, is reported with the name of its setting, without its output', async () => {
    const { clock, login } = printing('!the vault is sealed', 'password: hunter2');
    await assert.rejects(login.headers(), (error) => {
      assert.ok(error instanceof JobmanError);
      assert.match(error.message, /tpu\.tokenCommand/);
      assert.equal(error.code, 5);
      assert.deepEqual(error.lines, ['the vault is sealed']);
      return true;
    });
    clock.now += 5_000;
    await assert.rejects(login.headers(), (error) => {
      assert.ok(error instanceof JobmanError);
      assert.doesNotMatch(error.message + error.lines.join(), /hunter2/);
      return true;
    });
  });
});

test('a token is a bare string, or JSON as OAuth and gcloud print it', () => {
  const at = Date.parse('2026-11-21T08:00:00Z');
  assert.deepEqual(parseToken(' ya29.a0-b_c/d+e==\n', at), { value: 'ya29.a0-b_c/d+e==', expiresAt: null });
  assert.deepEqual(parseToken('{"access_token":"t","expires_in":60}', at), { value: 't', expiresAt: at + 60_000 });
  const gcloud = '{"credential":{"access_token":"t","token_expiry":"2026-11-21T09:00:00Z"}}';
  assert.deepEqual(parseToken(gcloud, at), { value: 't', expiresAt: at + 3_600_000 });
  assert.deepEqual(parseToken('{"credential":{"access_token":"t","token_expiry":null}}', at), {
    value: 't',
    expiresAt: null,
  });
  for (const text of ['', 'two words', '{"access_token":"two words"}', '{"access_token":', '{}', 'a\r\nb: c']) {
    assert.equal(parseToken(text, at), undefined, JSON.stringify(text));
  }
});

suite('a login that the cloud refuses in the middle', () => {
  /** A cloud that takes one token only, and calls to it which show what the login has. */
  async function cloud(t: Parameters<typeof openTpuServer>[0], good: string, login: Credentials) {
    const server = await openTpuServer(t);
    server.fault = ({ headers }) =>
      headers['authorization'] === `Bearer ${good}`
        ? undefined
        : failure(401, 'UNAUTHENTICATED', 'invalid credentials');
    const credentials: Credentials = { headers: () => login.headers(), invalidate: (shown) => login.invalidate(shown) };
    return {
      server,
      caller: createGoogleApiClient({ env: {}, endpoint: () => Promise.resolve(server.url), credentials }),
    };
  }
  const list = 'v2/projects/p/locations/us-central2-b/nodes';

  test('is fetched once for all concurrent calls, which are then repeated', async (t) => {
    const { asked, login } = printing('stale', 'fresh');
    const { server, caller } = await cloud(t, 'fresh', login);
    const answers = await Promise.all([1, 2, 3].map(() => caller.list(list, 'nodes')));
    assert.deepEqual(
      answers.map(({ ok }) => ok),
      [true, true, true],
    );
    assert.equal(asked.length, 2);
    assert.equal(server.requests.length, 6);
  });

  test('is not tried a third time, and the answer says how to log in and shows no token', async (t) => {
    const { asked, login } = printing('stale', 'stale too');
    const again = printing('stale', 'staler');
    for (const one of [login, again.login]) {
      const { server, caller } = await cloud(t, 'fresh', one);
      const answer = await caller.list(list, 'nodes');
      assert.ok(!answer.ok);
      assert.equal(answer.error.kind, 'unreachable');
      assert.match(answer.error.message, /tpu\.tokenCommand/);
      assert.doesNotMatch(JSON.stringify(answer), /stale/);
      assert.ok(server.requests.length <= 2);
    }
    assert.ok(asked.length <= 2);
  });

  test('and is given out again unchanged, is not a reason to ask the cloud again', async (t) => {
    const { asked, login } = printing('stale');
    const { server, caller } = await cloud(t, 'fresh', login);
    const answer = await caller.list(list, 'nodes');
    assert.ok(!answer.ok);
    assert.equal(answer.error.noLogin, true);
    assert.equal(server.requests.length, 1);
    const again = await caller.list(list, 'nodes');
    assert.equal(!again.ok && again.error.noLogin, true);
    assert.equal(server.requests.length, 1, 'a failed login is not retried for a few seconds');
    assert.equal(asked.length, 2);
  });

  test('is harmless on this machine, where none is shown', async (t) => {
    const server = await openTpuServer(t);
    server.fault = () => failure(401, 'UNAUTHENTICATED', 'your login has expired');
    const caller = createGoogleApiClient({
      env: {},
      endpoint: () => Promise.resolve(server.url),
      credentials: to(server.url),
    });
    const answer = await caller.list(list, 'nodes');
    assert.ok(!answer.ok);
    assert.equal(answer.status, 'UNAUTHENTICATED');
    assert.equal(server.requests.length, 1);
  });
});
