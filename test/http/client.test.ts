// One request and its reply: sent or not, retries, and proxies.

import assert from 'node:assert/strict';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, createServer as createTcpServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { createHttpClient, type HttpClientOptions, type HttpRequest } from '../../src/http/client.ts';
import { NoReply } from '../../src/http/reply.ts';
import { listen } from '../backends/tpu/support/server.ts';

function clientIn(t: TestContext, options: Partial<HttpClientOptions> = {}) {
  const client = createHttpClient({ env: {}, ...options });
  t.after(() => client.close());
  return client;
}

async function failure(t: TestContext, request: HttpRequest): Promise<NoReply> {
  const reply = await clientIn(t).request({ method: 'POST', body: '{}', ...request });
  assert.ok(reply instanceof NoReply, JSON.stringify(reply));
  return reply;
}

async function serverIn(t: TestContext, answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const { http, port, close } = await listen();
  t.after(close);
  http.on('request', answer);
  return `http://127.0.0.1:${port}`;
}

suite('a reply', () => {
  test('has its status and its whole text, also for redirects', async (t) => {
    const long = 'ä'.repeat(100_000);
    const url = await serverIn(t, (request, response) => {
      response.writeHead(request.url === '/base/away?a=%2e' ? 302 : 418, { location: 'http://127.0.0.1:1/' }).end(long);
    });
    const reply = await clientIn(t).request({ url, method: 'POST', body: '{}' });
    assert.deepEqual('bytes' in reply && [reply.status, reply.bytes.toString()], [418, long]);
    const away = await clientIn(t).request({ url: `${url}/base/`, path: '/away?a=%2e' });
    assert.equal('status' in away && away.status, 302);
  });

  test('that is opened is a stream, and an error is complete', async (t) => {
    const url = await serverIn(t, (request, response) => {
      response.writeHead(request.url === '/no' ? 403 : 200).end('text');
    });
    const open = await clientIn(t).open({ url });
    assert.ok('stream' in open);
    let text = '';
    for await (const part of open.stream) text += String(part);
    assert.equal(text, 'text');
    const refused = await clientIn(t).open({ url, path: '/no' });
    assert.equal('bytes' in refused && refused.bytes.toString(), 'text');
  });
});

suite('no reply', () => {
  test('without a listener nothing was sent', async (t) => {
    const { port, close } = await listen();
    await close();
    const error = await failure(t, { url: `http://127.0.0.1:${port}/` });
    assert.deepEqual([error.wasSent, error.reason], [false, 'ECONNREFUSED']);
    assert.match(error.message, /ECONNREFUSED/);
    assert.equal((await failure(t, { url: 'http://no-such-host.invalid/' })).wasSent, false);
    assert.equal((await failure(t, { url: 'no address' })).wasSent, false);
    assert.equal((await failure(t, { url: 'http://127.0.0.1:1', headers: { a: '\n' } })).reason, 'ERR_INVALID_CHAR');
  });

  test('without TLS nothing was sent', async (t) => {
    const { http, port, close } = await listen();
    t.after(close);
    http.on('clientError', (_error, socket) => socket.destroy());
    assert.equal((await failure(t, { url: `https://127.0.0.1:${port}/` })).wasSent, false);
  });

  test('after a lost connection, before or during the reply, the result is unknown', async (t) => {
    const url = await serverIn(t, (request, response) => {
      if (request.url === '/half') response.writeHead(200, { 'content-length': '100' }).write('half');
      setImmediate(() => request.socket.destroy());
    });
    assert.equal((await failure(t, { url })).wasSent, true);
    assert.equal((await failure(t, { url, path: '/half' })).wasSent, true);
  });

  test('a silent server causes a timeout', async (t) => {
    const silent = createTcpServer((socket) => void socket.on('error', () => undefined).resume());
    await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve));
    t.after(() => new Promise<void>((resolve) => void silent.close(() => resolve())));
    const half = await serverIn(t, (_request, response) => {
      response.writeHead(200, { 'content-length': '100' }).write('half');
    });
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const within = async (where: string, limits: HttpRequest['limits']): Promise<string> => {
      const error = await failure(t, { url: where, limits: limits ?? {} });
      assert.equal(error.wasSent, true);
      return error.message;
    };
    assert.equal(await within(url, { answer: 100 }), 'no answer within 0.1 s');
    assert.equal(await within(url, { total: 100 }), 'no answer within 0.1 s');
    assert.equal(await within(half, { total: 100 }), 'no whole answer within 0.1 s');
    const tls = await failure(t, { url: url.replace('http:', 'https:'), limits: { connect: 100 } });
    assert.deepEqual([tls.wasSent, tls.message], [false, 'no connection within 0.1 s']);
  });

  test('a signal ends a request and a pause with its reason', async (t) => {
    const url = await serverIn(t, (request, response) => {
      if (request.url === '/busy') response.writeHead(429, { 'retry-after': '60' }).end();
    });
    const retry = { maxTries: 2, maxTriesIfBroken: 1, initialDelay: 60_000, maxDelay: 60_000 };
    for (const path of ['/silent', '/busy']) {
      const leave = new AbortController();
      const asked = clientIn(t, { retry }).request({ url, path, signal: leave.signal });
      setTimeout(() => leave.abort(new Error('left')), 50);
      await assert.rejects(asked, { message: 'left' });
    }
  });
});

suite('a request is sent again', () => {
  const retry = { maxTries: 4, maxTriesIfBroken: 3, initialDelay: 1, maxDelay: 5 };
  for (const [method, status, times] of [
    ['GET', 429, 4],
    ['POST', 429, 4],
    ['GET', 500, 4],
    ['GET', 502, 4],
    ['GET', 503, 4],
    ['GET', 504, 4],
    ['POST', 500, 1],
    ['PATCH', 503, 1],
    ['GET', 501, 1],
    ['GET', null, 3],
    ['POST', null, 1],
  ] as const) {
    test(`${times} times in all: a ${method} after ${status ?? 'a broken connection'}`, async (t) => {
      let count = 0;
      const url = await serverIn(t, (request, response) => {
        count += 1;
        if (status === null) request.socket.destroy();
        else response.writeHead(status, { 'retry-after': '0' }).end();
      });
      await clientIn(t, { retry }).request({ url, method });
      assert.equal(count, times);
      count = 0;
      await clientIn(t).request({ url, method });
      assert.equal(count, 1, 'without a policy nothing is sent twice');
    });
  }
});

suite('a proxy', () => {
  test('of the environment is used except for servers on this machine; an explicit one is used for all', async (t) => {
    const seen: string[] = [];
    const proxy = createServer((request, response) => {
      seen.push(request.url ?? '');
      if (!(request.url ?? '').includes('127.0.0.1')) response.end('by proxy');
      else request.pipe(httpRequest(request.url ?? '', (reply) => reply.pipe(response)));
    });
    proxy.on('connect', (request, socket) => {
      seen.push(request.url ?? '');
      const [host, port] = (request.url ?? '').split(':');
      const other = connect(Number(port), host ?? '', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        other.pipe(socket).pipe(other);
      });
      for (const one of [other, socket]) one.on('error', () => undefined);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    t.after(() => {
      proxy.closeAllConnections();
      proxy.close();
    });
    const own = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const here = await serverIn(t, (_request, response) => response.end('itself'));
    const textOf = async (options: Partial<HttpClientOptions>, url: string): Promise<string> => {
      const reply = await clientIn(t, options).request({ url });
      return reply instanceof NoReply ? reply.message : reply.bytes.toString();
    };
    for (const name of ['HTTP_PROXY', 'http_proxy']) {
      assert.equal(await textOf({ env: { [name]: own } }, 'http://far.invalid/'), 'by proxy');
      assert.equal(await textOf({ env: { [name]: own } }, here), 'itself');
      assert.match(
        await textOf({ env: { [name]: own, NO_PROXY: 'far.invalid' } }, 'http://far.invalid/'),
        /ENOTFOUND|EAI/,
      );
    }
    assert.deepEqual(seen, ['http://far.invalid/', 'http://far.invalid/']);
    await textOf({ env: {}, proxy: own }, here);
    assert.match(String(seen[2]), /127\.0\.0\.1/);
    await textOf({ env: { HTTPS_PROXY: own } }, 'https://far.invalid/');
    assert.equal(seen[3], 'far.invalid:443');
  });
});
