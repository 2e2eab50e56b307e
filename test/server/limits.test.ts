/** The limits of one sender, one token, one user and all of them together, and the headers of each answer. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { problemType } from '../../src/api/problem.ts';
import { defaultLimits } from '../../src/server/limits.ts';
import { createServerClient } from '../../src/http-client/client.ts';
import { createCertificates } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';
import { temporaryFolder } from '../support/folder.ts';
import { asAda, open, send } from './support/send.ts';
import { openServer, token } from './support/server.ts';

const show = async () => ({ id: '000001' });

/** Sends the parts as they are, and returns all that the server sends until it closes the connection. */
function sendRaw(url: string, parts: readonly string[], pauseMs = 0): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    let text = '';
    socket.on('data', (part) => (text += String(part)));
    // After the answer, the server does not take the rest of the request.
    socket.on('error', (error) => text === '' && reject(error)).on('close', () => resolve(text));
    void (async () => {
      for (const part of parts) {
        if (socket.writable) socket.write(part);
        await sleep(pauseMs);
      }
    })();
  });
}

suite('an answer', () => {
  const expected: readonly (readonly [name: string, value: string])[] = [
    ['cache-control', 'no-store'],
    ['content-security-policy', "default-src 'none'; frame-ancestors 'none'"],
    ['cross-origin-resource-policy', 'same-origin'],
    ['referrer-policy', 'no-referrer'],
    ['x-content-type-options', 'nosniff'],
  ];

  test('of every status is safe from browsers, and names no program', async (t) => {
    const bug = () => Promise.reject(new TypeError('x'));
    const { server } = await openServer(t, { client: { show, why: bug, setSecret: show } });
    const { etag = '' } = (await send(server.url, '/v1/jobs/1')).headers;
    const origin = { origin: 'https://evil.example' };
    const answers = [
      await send(server.url, '/healthz', { headers: origin }),
      await send(server.url, '/v1/jobs/1', { headers: { ...asAda, ...origin } }),
      await send(server.url, '/v1/jobs/1', { headers: { ...asAda, 'if-none-match': etag } }),
      await send(server.url, '/v1/jobs/1', { headers: origin }),
      await send(server.url, '/v1/jobs', {
        method: 'OPTIONS',
        headers: { ...origin, 'access-control-request-method': 'POST' },
      }),
      await send(server.url, '/v1/jobs?phases=flying'),
      await send(server.url, '/none'),
      await send(server.url, '/v1/jobs/1/why'),
      await send(server.url, '/v1/secrets/x', { method: 'PUT', headers: { ...asAda, 'content-length': '99999999' } }),
      await send(server.url, '/v1/jobs/1', { headers: { ...asAda, x: 'a'.repeat(20_000) } }),
    ];
    const raw = await sendRaw(server.url, ['GET / HTTP/9\r\nhost: a\r\n\r\n']);
    answers.push({ status: Number(raw.slice(9, 12)), headers: headersOf(raw), text: '' });
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 304, 401, 401, 400, 404, 500, 413, 431, 400],
    );
    for (const { status, headers } of answers) {
      for (const [name, value] of expected) assert.equal(headers[name], value, `${status}: ${name}`);
      const others = Object.keys(headers).filter((name) =>
        /^(?:server|x-powered-by|set-cookie|access-control-)/.test(name),
      );
      assert.deepEqual(others, [], String(status));
      assert.equal(headers['strict-transport-security'], undefined);
      if (status >= 400) assert.equal(headers['content-type'], problemType, String(status));
    }
  });

  test('over TLS makes browsers keep to it', async (t) => {
    const { cert, key, ca } = createCertificates(join(temporaryFolder(t), 'certificates'));
    const { server } = await openServer(t, { tls: { cert, key }, client: { show } });
    const client = createServerClient({ server: server.url, token, ca: ca.toString(), env: {} });
    assert.deepEqual(await client.show('1'), { id: '000001' });
    await client.close();
    const { server: behind } = await openServer(t, { trustedProxies: ['127.0.0.1'] });
    assert.match(String((await send(behind.url, '/none')).headers['strict-transport-security']), /^max-age=/);
  });

  test('to a request with cookies and no token is a refusal', async (t) => {
    const { server } = await openServer(t, { client: {} });
    for (const cookie of [`token=${token}`, `authorization=Bearer ${token}`, 'session=1']) {
      const answer = await send(server.url, '/v1/jobs/1/commands/cancel', {
        method: 'POST',
        headers: { cookie },
        body: '{}',
      });
      assert.equal(answer.status, 401);
    }
  });
});

function headersOf(raw: string): Readonly<Record<string, string>> {
  const [head = ''] = raw.split('\r\n\r\n');
  return Object.fromEntries(
    head
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(': ') as [string, string]),
  );
}

suite('a slow client', () => {
  const limits = { ...defaultLimits, headersTimeout: 100, requestTimeout: 200 };

  test('that never ends its headers or its body is disconnected, and nothing is called', async (t) => {
    const { server } = await openServer(t, { client: {}, limits });
    const drops = (text: string) => text.split('');
    const slowHeaders = drops(`GET /v1/jobs/1 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\n`);
    assert.match(await sendRaw(server.url, slowHeaders, 15), /^HTTP\/1\.1 408 .*not complete in time/s);
    const head = `POST /v1/jobs HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\ncontent-length: 1000\r\n\r\n`;
    assert.match(await sendRaw(server.url, [head, ...drops('{"spec":'.repeat(50))], 15), /^HTTP\/1\.1 408 /);
    assert.equal(await sendRaw(server.url, [], 0).then((text) => /^(?:HTTP\/1\.1 408|$)/.test(text)), true);
    assert.equal((await send(server.url, '/healthz')).status, 200);
  });
});

test('a WebSocket before the answer to the request before it ends the connection, and not the process', async (t) => {
  const { server } = await openServer(t, { client: {} });
  const upgrade = 'connection: upgrade\r\nupgrade: websocket\r\n';
  const requests = ['', upgrade].map((lines) => `GET /v1/jobs/1 HTTP/1.1\r\nhost: a\r\n${lines}\r\n`);
  await sendRaw(server.url, [requests.join('')], 0);
  assert.equal((await send(server.url, '/healthz')).status, 200);
});

suite('a request too many', () => {
  test('of one token or address is refused until later, and other tokens continue', async (t) => {
    let now = 0;
    const limits = { ...defaultLimits, requestsPerSecond: 2 };
    const { server, client } = await openServer(t, { client: { show }, limits, monotonicNow: () => now });
    const statusOf = async (user: string) =>
      (await send(server.url, '/v1/jobs/1', { headers: { authorization: `Bearer token-of-${user}` } })).status;
    const statuses = [];
    for (let count = 0; count < 21; count += 1) statuses.push(await statusOf('ada'));
    assert.deepEqual(statuses, [...Array.from({ length: 20 }, () => 200), 429]);
    const { headers, text } = await send(server.url, '/v1/jobs/1');
    assert.equal(headers['retry-after'], '1');
    assert.match(text, /"detail":"This token has sent too many requests\. Try again in 1 s\."/);
    assert.equal(await statusOf('bob'), 200);
    now += 500;
    assert.deepEqual([await statusOf('ada'), await statusOf('ada')], [200, 429]);

    // The client waits as long as the server says.
    const answer = client.show('1');
    now += 1_000;
    assert.deepEqual(await answer, { id: '000001' });

    const all = [];
    for (let count = 0; count < 200; count += 1) all.push(await statusOf(`user-${count}`));
    assert.deepEqual([all[0], all.at(-1), await statusOf('ada')], [200, 429, 429]);
    assert.equal((await send(server.url, '/healthz')).status, 200);
  });

  test('with a wrong token is refused by its address, so that none can be guessed, and tokens in use continue', async (t) => {
    let now = 0;
    const limits = { ...defaultLimits, wrongTokensPerMinute: 6 };
    const { server } = await openServer(t, { client: { show }, limits, monotonicNow: () => now });
    const statusOf = async (text: string) =>
      (await send(server.url, '/v1/jobs/1', { headers: { authorization: `Bearer ${text}` } })).status;
    assert.equal(await statusOf('token-of-ada'), 200);
    // All at once, so that none is counted too late.
    const guesses = await Promise.all(Array.from({ length: 50 }, (_, at) => statusOf(`guess-${at}`)));
    assert.equal(guesses.filter((status) => status === 401).length, 6);
    assert.equal(guesses.filter((status) => status === 429).length, 44);
    assert.deepEqual([await statusOf('token-of-ada'), await statusOf('token-of-bob')], [200, 429]);
    now += 10_000;
    // A token that counts costs none of the tries.
    assert.deepEqual([await statusOf('token-of-bob'), await statusOf('token-of-max')], [200, 200]);
    assert.deepEqual([await statusOf('guess'), await statusOf('guess')], [401, 429]);
  });

  test('to log in is refused by its address, because it asks the identity provider', async (t) => {
    const limits = { ...defaultLimits, loginStepsPerMinute: 2 };
    const { server } = await openServer(t, { limits, monotonicNow: () => 0 });
    const statusOf = async (method: string, path: string) =>
      (await send(server.url, path, { method, headers: {}, body: method === 'GET' ? '' : '{}' })).status;
    assert.deepEqual(
      [await statusOf('POST', '/login/device'), await statusOf('GET', '/login/start'), await statusOf('GET', '/login')],
      [404, 400, 404],
    );
    for (const [method, path] of [
      ['POST', '/login/device'],
      ['POST', '/login/device/token'],
      ['GET', '/login/start'],
    ] as const)
      assert.equal(await statusOf(method, path), 429, path);
  });

  test('for memory is refused until another one has its answer', async (t) => {
    const limits = { ...defaultLimits, bodyBytes: 1_000 };
    const mayAnswer = Promise.withResolvers<void>();
    let asked = 0;
    const setSecret = async () => {
      asked += 1;
      await mayAnswer.promise;
      return 'added';
    };
    const { server } = await openServer(t, { client: { setSecret }, limits });
    const put = () => send(server.url, '/v1/secrets/x', { method: 'PUT', body: 'a'.repeat(600) });
    const first = put();
    assert.ok(await eventually(() => asked === 1));
    const second = await put();
    assert.deepEqual([second.status, second.headers['retry-after']], [503, '1']);
    mayAnswer.resolve();
    assert.equal((await first).status, 200);
    assert.ok(await eventually(async () => (await put()).status === 200));
  });
});

suite('of 500 streams', () => {
  const metrics = async function* () {
    yield { kind: 'read', attempt: 1, bytes: 1, size: 1 };
    await new Promise(() => undefined);
  };

  test('of one user some are refused with a sentence, the server stays usable, and their end frees them', async (t) => {
    const limits = { ...defaultLimits, streamsOfUser: 300, streams: 310 };
    const { server, client } = await openServer(t, { client: { metrics, show }, limits });
    const streams = await Promise.all(Array.from({ length: 500 }, () => open(server.url, '/v1/jobs/1/metrics')));
    const accepted = streams.filter(({ statusCode }) => statusCode === 200);
    assert.deepEqual([accepted.length, streams.filter(({ statusCode }) => statusCode === 429).length], [300, 200]);
    const asBob = { authorization: 'Bearer token-of-bob' };
    const ofBob = await Promise.all(
      Array.from({ length: 20 }, () => open(server.url, '/v1/jobs/1/metrics', { headers: asBob })),
    );
    assert.equal(ofBob.filter(({ statusCode }) => statusCode === 503).length, 10);
    assert.deepEqual(await client.show('1'), { id: '000001' });
    const { text } = await send(server.url, '/v1/jobs/1/metrics');
    assert.match(text, /ada has 300 open streams on this server, which is the limit for a user/);
    for (const stream of [...streams, ...ofBob]) stream.destroy();
    const again = async () => {
      const stream = await open(server.url, '/v1/jobs/1/metrics');
      stream.destroy();
      return stream.statusCode === 200;
    };
    assert.ok(await eventually(again));
  });
});

test('of the connections of one address only so many are open', async (t) => {
  const { server } = await openServer(t, { client: { show }, limits: { ...defaultLimits, connectionsOfAddress: 3 } });
  const { port } = new URL(server.url);
  const sockets = Array.from({ length: 6 }, () => connect(Number(port), '127.0.0.1').on('error', () => undefined));
  assert.ok(await eventually(() => sockets.filter(({ closed }) => closed).length === 3));
  for (const socket of sockets) socket.destroy();
  assert.ok(await eventually(async () => (await send(server.url, '/healthz').catch(() => null))?.status === 200));
});
