// Answers of outside servers are limited in length, pages and time. Every client is tested against a
// server whose answers never end.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { JobmanError } from '../../src/app/errors.ts';
import { remoteVersion } from '../../src/files/version-source.ts';
import { createGoogleApiClient } from '../../src/backends/tpu/api.ts';
import { createHarborClient } from '../../src/harbor/client.ts';
import { createHttpClient, type HttpRequest } from '../../src/http/client.ts';
import { download } from '../../src/wiring/version-check.ts';
import { createSheetsApi } from '../../src/sheet/sheets-api.ts';
import { openHostileServer, type HostileServer, type ResponseMode } from '../support/hostile-server.ts';
import { root } from '../support/root.ts';

async function sentenceOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => assert.fail('it did not fail'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof Error);
  return [error.message, ...(error instanceof JobmanError ? error.lines : [])].join('\n');
}

suite('an HTTP client', () => {
  const messageFor = async (t: TestContext, mode: ResponseMode, request: Partial<HttpRequest>) => {
    const client = createHttpClient({ env: {} });
    t.after(() => client.close());
    const { url } = await openHostileServer(t, mode);
    const reply = await client.request({ url, ...request });
    return reply instanceof Error ? reply.message : assert.fail('there was a reply');
  };
  test('rejects an answer that is too long', async (t) => {
    assert.match(await messageFor(t, 'endless', { limits: { bytes: 1024 * 1024 } }), /longer than 1 MiB/);
  });
  test('has a deadline for a slow answer', async (t) => {
    assert.match(await messageFor(t, 'slow', { limits: { total: 200 } }), /no whole answer within 0.2 s/);
  });
});

suite('the TPU API and Cloud Storage', () => {
  const list = async (server: HostileServer) =>
    createGoogleApiClient({
      env: {},
      endpoint: async () => server.url,
      credentials: { headers: async () => ({}), invalidate: () => '' },
      timeout: 1_000,
    }).list('v2/nodes', 'nodes');

  test('a compressed answer is not unpacked, and a redirect is not followed', async (t) => {
    for (const mode of ['compressed', 'redirect'] as const) {
      const server = await openHostileServer(t, mode);
      const answer = await list(server);
      assert.equal(!answer.ok && answer.status, 'NO_ANSWER', mode);
      assert.equal(server.requests.length, 1);
    }
  });

  test('a list with a repeated page token ends, and one with endless tokens has a deadline', async (t) => {
    for (const isSame of [true, false]) {
      const server = await openHostileServer(t, (count) => ({ nextPageToken: isSame ? 'again' : `t${count}` }));
      const from = performance.now();
      const answer = await list(server);
      assert.match(answer.ok ? 'ok' : answer.error.raw, /does not end|did not answer/);
      assert.ok(performance.now() - from < 20_000);
      if (isSame) assert.equal(server.requests.length, 2);
    }
  });

  test('a list with large pages ends', async (t) => {
    const node = 'x'.repeat(20 * 1024 * 1024);
    const server = await openHostileServer(t, (count) => ({ nodes: [node], nextPageToken: `t${count}` }));
    const caller = createGoogleApiClient({
      env: {},
      endpoint: async () => server.url,
      credentials: { headers: async () => ({}), invalidate: () => '' },
    });
    const answer = await caller.list('v2/nodes', 'nodes');
    assert.match(answer.ok ? 'ok' : answer.error.raw, /does not end/);
    assert.ok(server.requests.length < 10, `${server.requests.length}`);
  });
});

suite('a registry', () => {
  const retry = { maxTries: 1, maxTriesIfBroken: 1, initialDelay: 1, maxDelay: 1 };
  const ask = (t: TestContext, { url }: HostileServer) => {
    const client = createHarborClient({
      base: url,
      caFile: null,
      login: async () => ({ login: null, problem: null }),
      env: {},
      retry,
      timeout: 1_000,
    });
    t.after(() => client.close());
    return client.list<object>({ form: {}, path: '/projects', action: 'list the projects' });
  };
  const cases: readonly (readonly [ResponseMode, RegExp])[] = [
    ['endless', /longer than 16 MiB/],
    ['slow', /took longer than 1 s/],
    ['compressed', /is not Harbor/],
    ['redirect', /redirects to/],
    [() => Array.from({ length: 100 }, () => ({ name: 'a' })), /has no end/],
    [(count) => Array.from({ length: 100 }, () => ({ name: `a${count}` })), /took longer than 1 s|has no end/],
  ];
  for (const [mode, wanted] of cases) {
    test(`rejects answers of the kind ${typeof mode === 'string' ? mode : 'endless pages'} (${wanted.source})`, async (t) => {
      const server = await openHostileServer(t, mode);
      assert.match(await sentenceOf(ask(t, server)), wanted);
      if (mode === 'redirect') assert.equal(server.requests.length, 1);
    });
  }
});

suite('the booking sheet', () => {
  for (const [mode, wanted] of [
    ['endless', /over limit/],
    ['compressed', /over limit/],
    ['slow', /no answer within/],
    ['redirect', /./],
  ] as const) {
    test(`rejects answers of the kind ${mode}`, async (t) => {
      const server = await openHostileServer(t, mode);
      const sheet = createSheetsApi({ id: 'x', tab: null, credentials: '/none', endpoint: server.url }, 2_000);
      assert.match(await sentenceOf(sheet.read()), wanted);
      assert.equal(server.requests.length, 1);
    });
  }
});

suite('the Google login', () => {
  for (const mode of ['endless', 'redirect'] as const) {
    test(`rejects answers of the metadata server of the kind ${mode}`, { timeout: 60_000 }, async (t) => {
      const server = await openHostileServer(t, mode);
      const home = mkdtempSync(join(tmpdir(), 'jobman-login-'));
      t.after(() => rmSync(home, { recursive: true, force: true }));
      const script = `import { createLogin } from ${JSON.stringify(join(root, 'src/backends/tpu/credentials.ts'))};
        const login = createLogin({ run: async () => ({ ok: false, output: 'no gcloud' }), now: () => 0 });
        const message = await login.headers().then((headers) => JSON.stringify(headers), (error) => [error.message, ...error.lines].join());
        console.log(JSON.stringify({ message, memory: process.memoryUsage.rss() }));
        process.exit(0);`;
      const env = {
        PATH: process.env['PATH'],
        HOME: home,
        GCE_METADATA_HOST: server.url.slice('http://'.length),
        METADATA_SERVER_DETECTION: 'assume-present',
      };
      const printed = await new Promise<string>((resolve, reject) => {
        execFile(process.execPath, ['--input-type=module', '-e', script], { env }, (error, stdout, stderr) =>
          error === null ? resolve(stdout) : reject(new Error(stderr)),
        );
      });
      const { message, memory } = JSON.parse(printed) as { message: string; memory: number };
      assert.doesNotMatch(message, /authorization/);
      if (mode === 'endless') assert.match(message, /over limit/);
      else assert.ok(!server.requests.includes('/elsewhere'), server.requests.join(' '));
      assert.ok(memory < 400 * 1024 * 1024, `${memory}`);
    });
  }
});

suite('the newest version', () => {
  const latestVersion = (repository: string, signal: AbortSignal) =>
    remoteVersion({
      repository,
      packageJsonPath: 'package.json',
      fetch: (address, bytes) => download({ env: {} }, address, bytes, signal),
      signal,
    });
  test('rejects an archive entry with a negative size', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'jobman-archive-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const head = Buffer.alloc(512);
    head.write('package.json');
    head.write('-0000000777', 124);
    head.write('0', 156);
    const archive = join(folder, 'a.tar.gz');
    writeFileSync(archive, gzipSync(Buffer.concat([head, Buffer.alloc(10 * 1024 * 1024, 'x')])));
    assert.match(await sentenceOf(latestVersion(archive, AbortSignal.timeout(10_000))), /cannot be read/);
  });

  test('has a deadline, and a size limit if compressed', async (t) => {
    for (const mode of ['endless', 'slow', 'compressed'] as const) {
      const { url } = await openHostileServer(t, mode);
      const signal = AbortSignal.timeout(mode === 'slow' ? 500 : 10_000);
      assert.match(
        await sentenceOf(latestVersion(url, signal)),
        mode === 'slow' ? /timeout|aborted/ : /longer than 1 MiB|cannot be read/,
      );
    }
  });
});
