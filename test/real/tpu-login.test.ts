// Logins to Google Cloud with Google's library, against a token server on loopback, and without it, with a fake gcloud.
// In a separate process, because the library reads the environment of the process.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { NoLoginError } from '../../src/backends/tpu/api.ts';
import { createCredentials, createLogin } from '../../src/backends/tpu/credentials.ts';
import type { RunProgram } from '../../src/backends/tpu/credentials.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { runProcess } from '../../src/remote/process.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld, type Scope } from '../support/world.ts';

const endpoint = () => Promise.resolve('https://tpu.googleapis.com');
const neverRun: RunProgram = () => Promise.reject(new Error('gcloud should not be called'));

/** The environment of the library until the end of the test, without a metadata server. */
function withEnvironment(t: Scope, variables: Readonly<Record<string, string | undefined>>): void {
  const names = [
    'GOOGLE_APPLICATION_CREDENTIALS',
    'CLOUDSDK_CONFIG',
    'GOOGLE_CLOUD_PROJECT',
    'METADATA_SERVER_DETECTION',
    'GCE_METADATA_HOST',
  ];
  const before = names.map((name) => [name, process.env[name]] as const);
  const set = (name: string, value: string | undefined): void => {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  };
  for (const name of names) set(name, { METADATA_SERVER_DETECTION: 'none', ...variables }[name]);
  t.after(() => {
    for (const [name, value] of before) set(name, value);
    return Promise.resolve();
  });
}

/** A server on loopback that answers every request with JSON; its address, and the requested paths. */
async function openTokens(t: Scope, answer: (path: string) => { readonly code?: number; readonly body: object }) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    asked.push(path);
    const { code = 200, body } = answer(path);
    response.writeHead(code, { 'metadata-flavor': 'Google', 'content-type': 'application/json' });
    request.resume().on('end', () => response.end(JSON.stringify(body)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.closeAllConnections();
    server.close();
  });
  return { asked, address: `127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Writes a login by a token of another identity for the library. */
function useLogin(t: Scope, folder: string, token_url: string, subject: string): void {
  const file = join(folder, 'login.json');
  const login = {
    type: 'external_account',
    audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url,
    credential_source: { file: join(folder, subject) },
    quota_project_id: 'who-pays',
  };
  writeFileSync(file, JSON.stringify(login));
  withEnvironment(t, { GOOGLE_APPLICATION_CREDENTIALS: file, GOOGLE_CLOUD_PROJECT: 'p' });
}

suite('application default credentials', () => {
  test('provide the token and the quota project, with one login for many calls', async (t) => {
    const world = openWorld(t);
    const issued_token_type = 'urn:ietf:params:oauth:token-type:access_token';
    const token = { access_token: 'secret', expires_in: 3600, token_type: 'Bearer', issued_token_type };
    const { asked, address } = await openTokens(t, () => ({ body: token }));
    writeFileSync(join(world.folder, 'subject'), 'who I am elsewhere');
    useLogin(t, world.folder, `http://${address}/token`, 'subject');
    const credentials = createCredentials({ endpoint, login: createLogin({ run: neverRun, now: () => 0 }) });
    const many = await Promise.all([credentials.headers(), credentials.headers(), credentials.headers()]);
    for (const headers of [...many, await credentials.headers()]) {
      assert.deepEqual(headers, { authorization: 'Bearer secret', 'x-goog-user-project': 'who-pays' });
    }
    assert.equal(asked.length, 1);
    // After a refusal of the API, the next call logs in again. The server returns the same token, which is still
    // refused.
    credentials.invalidate(await credentials.headers());
    await assert.rejects(credentials.headers(), /no login that Google Cloud accepts/);
    assert.equal(asked.length, 2);
  });

  test('that are no longer accepted are reported in one sentence, with the library’s message below', async (t) => {
    useLogin(t, openWorld(t).folder, 'http://127.0.0.1:1/token', 'no such subject');
    const credentials = createCredentials({ endpoint, login: createLogin({ run: neverRun, now: () => 0 }) });
    await assert.rejects(credentials.headers(), (error) => {
      assert.ok(error instanceof JobmanError);
      assert.match(error.message, /^the machine \S+ has no login .* gcloud auth application-default login$/);
      assert.equal(error.lines.length, 1);
      return true;
    });
  });
});

test('a file that cannot be used is not replaced by the login of gcloud, and its text is not shown', async (t) => {
  const { folder } = openWorld(t);
  const file = join(folder, 'login.json');
  withEnvironment(t, { GOOGLE_APPLICATION_CREDENTIALS: file, GOOGLE_CLOUD_PROJECT: 'p' });
  const reasonOf = async () =>
    createLogin({ run: neverRun, now: () => 0 })
      .headers()
      .then(
        () => '',
        (error: unknown) => (error instanceof NoLoginError ? error.lines.join() : String(error)),
      );
  assert.match(await reasonOf(), /login\.json does not exist, or it is not a file$/);
  writeFileSync(file, 'refresh_token: hunter2');
  assert.equal(await reasonOf(), 'the file of the login is not JSON');
});

test('a login server that does not answer says nothing about the login', async (t) => {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'subject'), 'who I am elsewhere');
  useLogin(t, folder, 'http://127.0.0.1:1/token', 'subject');
  await assert.rejects(createLogin({ run: neverRun, now: () => 0 }).headers(), (error) => {
    assert.ok(error instanceof JobmanError && !(error instanceof NoLoginError));
    assert.match(error.message, /^Google Cloud's login did not answer: /);
    return true;
  });
});

test("on a Google VM the metadata server provides the service account's token, once for many calls", async (t) => {
  const world = openWorld(t);
  const token = { access_token: 'of-the-machine', expires_in: 3599, token_type: 'Bearer' };
  const { asked, address } = await openTokens(t, (path) => {
    const isToken = path.startsWith('/computeMetadata/v1/instance/service-accounts/default/token');
    return isToken ? { body: token } : { code: 404, body: {} };
  });
  withEnvironment(t, {
    CLOUDSDK_CONFIG: world.folder,
    GOOGLE_CLOUD_PROJECT: 'p',
    METADATA_SERVER_DETECTION: 'assume-present',
    GCE_METADATA_HOST: address,
  });
  const login = createLogin({ run: neverRun, now: () => 0 });
  const all = await Promise.all([login.headers(), login.headers(), login.headers()]);
  for (const headers of [...all, await login.headers()]) {
    assert.deepEqual(headers, { authorization: 'Bearer of-the-machine' });
  }
  assert.equal(asked.filter((url) => url.includes('/token')).length, 1);
});

suite('without them, gcloud', () => {
  /** A world without application default credentials, and a fake gcloud that prints these outputs in order. */
  function gcloud(t: Scope, ...printed: readonly (string | Error)[]) {
    withEnvironment(t, { CLOUDSDK_CONFIG: openWorld(t).folder });
    const asked: (readonly string[])[] = [];
    const clock = { now: 0 };
    const run: RunProgram = (argv) => {
      const output = printed[Math.min(asked.length, printed.length - 1)] ?? '';
      asked.push(argv);
      return Promise.resolve(
        output instanceof Error ? { ok: false, output: output.message } : { ok: true, output: `${output}\n` },
      );
    };
    return {
      asked,
      clock,
      credentials: createCredentials({ endpoint, login: createLogin({ run, now: () => clock.now }) }),
    };
  }

  test('provides a token that is kept for half an hour', async (t) => {
    const { asked, clock, credentials } = gcloud(t, 'first', 'second');
    assert.deepEqual(await credentials.headers(), { authorization: 'Bearer first' });
    clock.now += 29 * 60_000;
    assert.deepEqual(await credentials.headers(), { authorization: 'Bearer first' });
    assert.deepEqual(asked, [['gcloud', 'auth', 'print-access-token', '--quiet']]);
    clock.now += 60_000;
    assert.deepEqual(await credentials.headers(), { authorization: 'Bearer second' });
  });

  test('without a login is not called for every request', async (t) => {
    const { asked, clock, credentials } = gcloud(
      t,
      new Error('You do not currently have an active account selected.'),
      'later',
    );
    await assert.rejects(credentials.headers(), /no login that Google Cloud accepts/);
    await assert.rejects(credentials.headers(), /no login that Google Cloud accepts/);
    assert.equal(asked.length, 1);
    clock.now += 5_000;
    assert.deepEqual(await credentials.headers(), { authorization: 'Bearer later' });
  });

  test('with another output provides no token', async (t) => {
    const { credentials } = gcloud(t, 'WARNING: please update\nya29.token');
    await assert.rejects(credentials.headers(), JobmanError);
  });
});

suite('the real gcloud', () => {
  /** Runs gcloud with a separate configuration. */
  function realGcloud(folder: string, variables: Readonly<Record<string, string>>): RunProgram {
    return async (argv) => {
      const env = { PATH: process.env['PATH'], HOME: folder, CLOUDSDK_CONFIG: join(folder, 'config'), ...variables };
      const result = await runProcess({ argv, env, timeoutMs: 60_000, maxOutputBytes: 64_000 });
      const output = Buffer.from(result.exitCode === 0 ? result.stdout : result.stderr).toString('utf8');
      return { ok: result.exitCode === 0, output };
    };
  }

  test('provides the token of a configured file', async (t) => {
    if (!requireReal(t, 'gcloud', findProgram('gcloud'))) return;
    const { folder } = openWorld(t);
    withEnvironment(t, { CLOUDSDK_CONFIG: folder });
    writeFileSync(join(folder, 'token'), 'ya29.from-a-file\n');
    const run = realGcloud(folder, { CLOUDSDK_AUTH_ACCESS_TOKEN_FILE: join(folder, 'token') });
    assert.deepEqual(await createLogin({ run, now: () => 0 }).headers(), { authorization: 'Bearer ya29.from-a-file' });
  });

  test('without a login is reported in our sentence, with its own message below', async (t) => {
    if (!requireReal(t, 'gcloud', findProgram('gcloud'))) return;
    const { folder } = openWorld(t);
    withEnvironment(t, { CLOUDSDK_CONFIG: folder });
    await assert.rejects(createLogin({ run: realGcloud(folder, {}), now: () => 0 }).headers(), (error) => {
      assert.ok(error instanceof JobmanError);
      assert.match(error.message, /log in there with: gcloud auth application-default login$/);
      assert.match(error.lines.join(), /do(es)? not (currently )?have an active account/);
      return true;
    });
  });
});
