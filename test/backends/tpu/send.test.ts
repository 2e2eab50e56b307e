// One request and its reply: what was sent and what was not, which decides whether something may have happened.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { send, SendError } from '../../../src/backends/tpu/send.ts';
import { listen } from './support/server.ts';

const post = (url: string, timeoutMs = 5_000) => send({ url, method: 'POST', headers: {}, body: '{}', timeoutMs });

async function failure(sending: Promise<unknown>): Promise<SendError> {
  const error = await sending.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof SendError, String(error));
  return error;
}

test('a reply is told with its status and all of its text, redirections too', async (t) => {
  const { http, port, close } = await listen();
  t.after(close);
  const long = 'ä'.repeat(100_000);
  http.on('request', (request, response) => {
    response.writeHead(request.url === '/away' ? 302 : 418, { location: 'http://127.0.0.1:1/' }).end(long);
  });
  assert.deepEqual(await post(`http://127.0.0.1:${port}/`), { status: 418, text: long });
  assert.equal((await post(`http://127.0.0.1:${port}/away`)).status, 302);
});

test('where nobody listens nothing was sent', async () => {
  const { port, close } = await listen();
  await close();
  const error = await failure(post(`http://127.0.0.1:${port}/`));
  assert.equal(error.wasSent, false);
  assert.match(error.message, /ECONNREFUSED/);
  assert.equal((await failure(post('http://no-such-host.invalid/'))).wasSent, false);
});

test('where no TLS can be agreed upon nothing was sent', async (t) => {
  const { http, port, close } = await listen();
  t.after(close);
  http.on('clientError', (_error, socket) => socket.destroy());
  assert.equal((await failure(post(`https://127.0.0.1:${port}/`))).wasSent, false);
});

test('a line that is cut, before the reply or in the middle of it, leaves open what happened', async (t) => {
  const { http, port, close } = await listen();
  t.after(close);
  http.on('request', (request, response) => {
    if (request.url === '/half') response.writeHead(200, { 'content-length': '100' }).write('half');
    setImmediate(() => request.socket.destroy());
  });
  assert.equal((await failure(post(`http://127.0.0.1:${port}/`))).wasSent, true);
  assert.equal((await failure(post(`http://127.0.0.1:${port}/half`))).wasSent, true);
});

test('a server that says nothing is not waited for without end', async (t) => {
  const server = createServer((socket) => void socket.on('error', () => undefined).resume());
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  const { http, port, close } = await listen();
  t.after(close);
  http.on('request', (_request, response) => response.writeHead(200, { 'content-length': '100' }).write('half'));
  assert.equal((await failure(post(`http://127.0.0.1:${port}/`, 100))).message, 'no answer within 0.1 s');
  const error = await failure(post(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, 100));
  assert.equal(error.wasSent, true);
  assert.equal(error.message, 'no answer within 0.1 s');
});
