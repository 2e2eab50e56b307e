// Webhooks against HTTP servers on loopback that answer, fail, hang and redirect.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { lookup } from 'node:dns/promises';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { NotifyChannel } from '../../src/app/notifications/settings.ts';
import { isPrivateAddress, publicLookup } from '../../src/http/public-address.ts';
import { readSecret } from '../../src/notify/secret.ts';
import { postWebhook } from '../../src/notify/webhook.ts';
import { openWorld } from '../support/world.ts';
import { aMessage, aNotice, noon } from './messages.ts';

const never = new AbortController().signal;
const quick = { connect: 300, answer: 300, total: 1_000 };

interface Received {
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** A server that answers each request with the next function; the last one answers all further requests. */
async function startServer(t: TestContext, ...answers: readonly ((response: ServerResponse) => void)[]) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (part: string) => (body += part));
    request.on('end', () => {
      received.push({ headers: request.headers, body });
      answers[Math.min(received.length, answers.length) - 1]?.(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    received,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/services/T000/XsecretX?key=alsosecret`,
  };
}

function channelIn(t: TestContext, url: string, more: Partial<Extract<NotifyChannel, { type: 'webhook' }>> = {}) {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'url'), `${url}\n`);
  writeFileSync(join(folder, 'secret'), 'whsec_dGhlIGtleSBvZiB0aGUgdGVzdA==\n');
  const context = { home: folder, userHome: folder, env: {}, now: () => noon };
  const channel = { type: 'webhook', url: './url', secret: '~/secret', ...more } as const;
  return (message = aMessage()) => postWebhook(channel, message, context, never, quick);
}

const ok = (response: ServerResponse): void => void response.end('ok');
const status =
  (code: number, headers: Readonly<Record<string, string>> = {}, text = '') =>
  (response: ServerResponse): void =>
    void response.writeHead(code, headers).end(text);

test('a secret is not read from a pipe or a device, and not from a large file', async (t) => {
  const { folder } = openWorld(t);
  const context = { home: folder, userHome: folder, env: {} };
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  writeFileSync(join(folder, 'large'), 'x'.repeat(100_000));
  await assert.rejects(readSecret('./pipe', context), /cannot read .*pipe.* is not a regular file/);
  await assert.rejects(readSecret('/dev/zero', context), /\/dev\/zero is not a regular file/);
  await assert.rejects(readSecret('./large', context), /large is larger than/);
});

test('the request is signed over id, time and body, and carries the idempotency key', async (t) => {
  const { url, received } = await startServer(t, ok);
  const result = await channelIn(t, url)();
  assert.deepEqual(result, { kind: 'sent', detail: 'HTTP 200' });
  const [{ headers, body }] = received as [Received];
  assert.equal(headers['idempotency-key'], 'jobman-abc123-7');
  assert.equal(headers['webhook-id'], 'jobman-abc123-7');
  assert.equal(headers['webhook-timestamp'], String(noon / 1_000));
  const signature = createHmac('sha256', 'the key of the test')
    .update(`jobman-abc123-7.${noon / 1_000}.${body}`)
    .digest('base64');
  assert.equal(headers['webhook-signature'], `v1,${signature}`);
  assert.deepEqual(JSON.parse(body), {
    version: 1,
    id: 'jobman-abc123-7',
    createdAt: '2026-11-22T12:00:00.000Z',
    subject: '[jobman] 000042 llama was preempted',
    events: [{ ...aNotice(), at: '2026-11-22T12:00:00.000Z' }],
  });
});

test('a Slack message has no markup of its own', async (t) => {
  const { url, received } = await startServer(t, ok);
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'url'), url);
  const hostile = '<!channel> & <http://evil|good> @here [a](http://evil)';
  const channel = { type: 'slack', url: './url' } as const;
  const context = { home: folder, userHome: folder, env: {}, now: () => noon };
  await postWebhook(channel, aMessage([aNotice({ message: hostile })]), context, never, quick);
  assert.deepEqual(JSON.parse(received[0]?.body ?? ''), {
    text: '*000042 llama was preempted*: &lt;!channel&gt; &amp; &lt;http://evil|good&gt; @\u200bhere [a]\u200b(http://evil)',
  });
  assert.equal(received[0]?.headers['webhook-signature'], undefined);
});

suite('a server that', () => {
  for (const [what, answer, expected] of [
    ['fails', status(500, {}, 'internal'), { error: 'HTTP 500: internal' }],
    ['limits the rate', status(429, { 'retry-after': '40' }), { error: 'HTTP 429', retryAfter: 40_000 }],
    [
      'limits the rate until a time',
      status(429, { date: 'Sun, 22 Nov 2026 12:00:00 GMT', 'retry-after': 'Sun, 22 Nov 2026 12:02:00 GMT' }),
      { error: 'HTTP 429', retryAfter: 120_000 },
    ],
    ['waited too long for the request', status(408), { error: 'HTTP 408' }],
    ['does not know the address', status(404, {}, 'no_service'), { error: 'HTTP 404: no_service', isFinal: true }],
    [
      'finds the message wrong',
      status(400, {}, 'invalid_payload'),
      { error: 'HTTP 400: invalid_payload', isFinal: true },
    ],
    [
      'redirects to a private address',
      status(302, { location: 'http://169.254.169.254/token?key=x' }),
      {
        error: 'HTTP 302: it redirects to http://169.254.169.254, and jobman follows no redirect',
        isFinal: true,
      },
    ],
    [
      'redirects to a path',
      status(308, { location: '/other' }),
      {
        error: 'HTTP 308: it redirects to another path of the same server, and jobman follows no redirect',
        isFinal: true,
      },
    ],
    [
      'redirects to another server without its protocol and with a password',
      status(301, { location: '//me:hunter2@evil.example/services/T000/XsecretX?key=alsosecret' }),
      { error: 'HTTP 301: it redirects to http://evil.example, and jobman follows no redirect', isFinal: true },
    ],
    [
      'redirects to no server',
      status(302, { location: 'javascript:alert(1)' }),
      { error: 'HTTP 302: it redirects to an address of javascript:, and jobman follows no redirect', isFinal: true },
    ],
    [
      'redirects without an address',
      status(302),
      { error: 'HTTP 302: it redirects to an unreadable address, and jobman follows no redirect', isFinal: true },
    ],
    [
      'repeats the secret path',
      status(500, {}, 'no handler for /services/T000/XsecretX?key=alsosecret'),
      { error: 'HTTP 500: no handler for ***' },
    ],
    ['answers with control characters', status(500, {}, 'a\u001b[31mb\r\nc'), { error: 'HTTP 500: a [31mb c' }],
  ] as const) {
    test(what, async (t) => {
      const { url } = await startServer(t, answer);
      assert.deepEqual(await channelIn(t, url)(), { kind: 'failed', ...expected });
    });
  }

  for (const [what, answer, expected] of [
    ['hangs', () => undefined, /no answer within 0\.3 s/],
    [
      'breaks the connection',
      (response: ServerResponse) => void response.socket?.destroy(),
      /socket hang up|ECONNRESET/,
    ],
  ] as const) {
    test(`${what} ends the try`, async (t) => {
      const { url } = await startServer(t, answer);
      const result = await channelIn(t, url)();
      assert.ok(result.kind === 'failed');
      assert.match(result.error, expected);
      assert.doesNotMatch(result.error, /secret/);
    });
  }

  test('accepts the message has it, however long its answer is and even if that breaks off', async (t) => {
    const { url } = await startServer(
      t,
      (response) => void response.end('x'.repeat(10_000_000)),
      (response) => {
        response.writeHead(202, { 'content-length': '100' }).write('x');
        setImmediate(() => response.socket?.destroy());
      },
    );
    const send = channelIn(t, url);
    assert.deepEqual(await send(), { kind: 'sent', detail: 'HTTP 200' });
    assert.deepEqual(await send(), { kind: 'sent', detail: 'HTTP 202' });
  });

  test('recovers gets the same id again', async (t) => {
    const { url, received } = await startServer(t, status(500), (response) => void response.socket?.destroy(), ok);
    const send = channelIn(t, url);
    const kinds = [await send(), await send(), await send()].map(({ kind }) => kind);
    assert.deepEqual(kinds, ['failed', 'failed', 'sent']);
    assert.deepEqual(new Set(received.map(({ headers }) => headers['idempotency-key'])), new Set(['jobman-abc123-7']));
    assert.equal(new Set(received.map(({ body }) => body)).size, 1);
  });
});

suite('an address', () => {
  test('that is not an http address is refused and not shown', async (t) => {
    for (const url of ['hooks.example.com/secret', 'file:///etc/passwd']) {
      const result = await channelIn(t, url)();
      assert.deepEqual(result, { kind: 'failed', error: 'its address is not an http or https URL' });
    }
  });

  test('whose name resolves to a private address is refused unless the settings allow it', async (t) => {
    const { url, received } = await startServer(t, ok);
    // On most machines the file /etc/hosts has the machine's own name with a private address.
    const addresses = await lookup(hostname(), { all: true }).catch(() => []);
    if (!addresses.some(({ address }) => isPrivateAddress(address))) return t.skip('this machine has a public name');
    const named = url.replace('127.0.0.1', hostname());
    const refused = await channelIn(t, named)();
    assert.ok(refused.kind === 'failed');
    assert.match(refused.error, new RegExp(`^${hostname()} resolves to the private address [\\d.:a-f]+$`));
    assert.equal(received.length, 0);
    const allowed = await channelIn(t, named, { allowPrivate: true })();
    assert.ok(allowed.kind === 'sent' || allowed.error.includes('ECONNREFUSED'), JSON.stringify(allowed));
  });

  test('is private in the networks of RFC 6890', () => {
    const isPrivate = [
      '10.1.2.3',
      '172.31.0.1',
      '192.168.1.1',
      '127.0.0.2',
      '169.254.169.254',
      '100.64.0.1',
      '0.0.0.0',
      '::1',
      '::',
      'fd00::1',
      'fe80::1',
      '::ffff:10.0.0.1',
      '64:ff9b::a9fe:a9fe',
      '192.0.0.192',
    ];
    const isPublic = [
      '8.8.8.8',
      '172.32.0.1',
      '192.169.0.1',
      '2001:4860:4860::8888',
      '::ffff:8.8.8.8',
      '64:ff9b::808:808',
    ];
    assert.deepEqual(
      isPrivate.filter((address) => !isPrivateAddress(address)),
      [],
    );
    assert.deepEqual(
      isPublic.filter((address) => isPrivateAddress(address)),
      [],
    );
  });

  test('is refused if any of the addresses of its name is private', async () => {
    const records: Readonly<Record<string, readonly { address: string; family: number }[]>> = {
      'mixed.example': [
        { address: '8.8.8.8', family: 4 },
        { address: '10.0.0.1', family: 4 },
      ],
      'proxy.internal': [{ address: '10.0.0.2', family: 4 }],
    };
    const resolve = ((name: string, _options: unknown, call: (error: null, found: unknown) => void) =>
      call(null, records[name])) as never;
    const resolved = (name: string) =>
      new Promise<string>((done) => {
        publicLookup('mixed.example', resolve)(name, {}, (error, address) =>
          done(error?.message ?? (typeof address === 'string' ? address : '')),
        );
      });
    assert.equal(await resolved('mixed.example'), 'mixed.example resolves to the private address 10.0.0.1');
    // A proxy has another name than the server, and is the user's own choice.
    assert.equal(await resolved('proxy.internal'), '10.0.0.2');
  });
});
