/** What is read of an answer without Node's HTTP client, however it comes. The sockets are plain ones: TLS changes no byte of it. */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { createShortLine, isPlain, type ShortLine } from '../../../src/backends/kubernetes/short-line.ts';

/** A server that answers each request by `answer`, and a line to it. */
async function lineTo(
  t: TestContext,
  answer: (socket: Socket, asked: string) => void,
): Promise<{ readonly line: ShortLine; readonly connections: () => number; readonly sockets: readonly Socket[] }> {
  const sockets: Socket[] = [];
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => answer(socket, bytes.toString()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  // Of a socket over TLS the line needs one event more, which says that something may have been sent.
  const line = createShortLine(() => {
    const socket = connect(port, '127.0.0.1');
    sockets.push(socket);
    return socket as Socket as TLSSocket;
  }, 'cluster:6443');
  t.after(() => {
    line.close();
    server.close();
  });
  return { line, connections: () => connections, sockets };
}

const request = {
  method: 'GET',
  path: '/jobs',
  headers: { accept: 'application/json' },
  body: undefined,
  signal: undefined,
};

async function asked(line: ShortLine, more: Partial<Parameters<ShortLine['send']>[0]> = {}, within = 5_000) {
  return line.send({ ...request, ...more }, within);
}

async function reply(line: ShortLine) {
  const found = await asked(line);
  assert.ok(!('error' in found), 'error' in found ? found.error.message : '');
  return { ...found, text: found.bytes.toString() };
}

/** Byte by byte, each in a turn of its own. */
async function drip(socket: Socket, text: string): Promise<void> {
  socket.setNoDelay(true);
  for (const byte of Buffer.from(text)) {
    socket.write(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
}

suite('an answer', () => {
  const chunked = 'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n';
  const bodies = {
    'with a length': 'HTTP/1.1 201 Created\r\nContent-Length: 8\r\nContent-Type: application/json\r\n\r\n{"a":1}\n',
    'in chunks': `${chunked}3\r\n{"a\r\n5;of=words\r\n":1}\n\r\n0\r\n\r\n`,
    'in chunks, with headers behind them': `${chunked}8\r\n{"a":1}\n\r\n0\r\nx-more: yes\r\n\r\n`,
    'after word that it comes': `HTTP/1.1 100 Continue\r\n\r\n${chunked}8\r\n{"a":1}\n\r\n0\r\n\r\n`,
  };
  for (const [name, text] of Object.entries(bodies)) {
    test(`${name} is read whole, at once and byte by byte, over one connection`, async (t) => {
      let count = 0;
      const { line, connections } = await lineTo(t, (socket) => {
        count += 1;
        if (count === 1) socket.write(text);
        else void drip(socket, text);
      });
      for (const _ of ['at once', 'byte by byte']) {
        const found = await reply(line);
        assert.deepEqual([found.status, found.text], [201, '{"a":1}\n']);
        assert.equal(found.headers['content-type'], 'application/json');
      }
      assert.equal(connections(), 1);
    });
  }

  test('that ends with its connection is read to there, and the next request makes another', async (t) => {
    const { line, connections } = await lineTo(t, (socket) => void socket.end('HTTP/1.1 200 OK\r\n\r\nall of it'));
    assert.equal((await reply(line)).text, 'all of it');
    assert.equal((await reply(line)).text, 'all of it');
    assert.equal(connections(), 2);
  });

  test('without a body has none', async (t) => {
    const { line } = await lineTo(t, (socket) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n'));
    assert.deepEqual([(await reply(line)).status, (await reply(line)).text], [204, '']);
  });

  test('that the server closes after is asked for anew', async (t) => {
    const { line, connections } = await lineTo(
      t,
      (socket) => void socket.write('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx'),
    );
    await reply(line);
    await reply(line);
    assert.equal(connections(), 2);
  });
});

const empty = 'HTTP/1.1 204 No Content\r\n\r\n';

test('many answers over one connection leave nothing on it but what waits for its end', async (t) => {
  const { line, sockets } = await lineTo(t, (socket) => void socket.write(empty));
  const listeners = (): readonly number[] =>
    ['error', 'end', 'close', 'data', 'timeout'].map((event) => sockets[0]?.listenerCount(event) ?? 0);
  await reply(line);
  const first = listeners();
  for (let number = 0; number < 20; number += 1) await reply(line);
  assert.deepEqual([sockets.length, listeners()], [1, first]);
});

suite('a connection that is begun before anything is asked', () => {
  test('is asked over, once it is made and while it is being made', async (t) => {
    const made = await lineTo(t, (socket) => void socket.write(empty));
    made.line.begin();
    await once(made.sockets[0] ?? new EventEmitter(), 'connect');
    assert.equal((await reply(made.line)).status, 204);
    assert.equal(made.connections(), 1);
    const coming = await lineTo(t, (socket) => void socket.write(empty));
    coming.line.begin();
    assert.equal((await reply(coming.line)).status, 204);
    assert.equal(coming.connections(), 1);
  });

  test('is another when the first came to nothing', async (t) => {
    const { line, sockets } = await lineTo(t, (socket) => void socket.write(empty));
    line.begin();
    const [first = assert.fail()] = sockets;
    const isClosed = new Promise((resolve) => first.on('close', resolve));
    first.destroy(new Error('the network is away'));
    await isClosed;
    assert.equal((await reply(line)).status, 204);
    assert.equal(sockets.length, 2);
  });
});

suite('no answer', () => {
  const broken = {
    'nothing at all': ['', 'ECONNRESET'],
    'half of a head': ['HTTP/1.1 200', 'ECONNRESET'],
    'half of a body': ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf', 'ECONNRESET'],
    'half of the chunks': ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n', 'ECONNRESET'],
    'a greeting': ['220 mail.example.com ready\r\n\r\n', undefined],
    'a chunk without a length': ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhalf\r\n', undefined],
  } as const;
  for (const [name, [text, code]] of Object.entries(broken)) {
    test(`is ${name}`, async (t) => {
      const { line } = await lineTo(t, (socket) => void socket.end(text));
      const found = await asked(line);
      assert.ok('error' in found);
      assert.equal(found.error.code, code);
    });
  }

  test('is a server that says nothing, and one that stops', async (t) => {
    const silent = await lineTo(t, () => undefined);
    const one = await asked(silent.line, {}, 50);
    assert.match('error' in one ? one.error.message : '', /^no answer within/);
    const stopping = await lineTo(t, (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'));
    const other = await asked(stopping.line, {}, 50);
    assert.match('error' in other ? other.error.message : '', /^nothing more for/);
  });

  test('is waited for no longer when nobody wants it', async (t) => {
    const { line } = await lineTo(t, () => undefined);
    const left = new AbortController();
    const found = asked(line, { signal: left.signal });
    left.abort();
    assert.ok('error' in (await found));
  });

  test('is a port where nobody listens, and nothing was sent', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    const line = createShortLine(() => connect(port, '127.0.0.1') as Socket as TLSSocket, 'cluster');
    for (const isBegun of [false, true]) {
      if (isBegun) line.begin();
      const found = await asked(line);
      assert.ok('error' in found);
      assert.deepEqual([found.error.code, found.wasSent], ['ECONNREFUSED', false]);
    }
  });
});

test('a request is written as it is meant', async (t) => {
  let text = '';
  const { line } = await lineTo(t, (socket, said) => {
    text += said;
    if (text.endsWith('ü"}')) socket.write('HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n');
  });
  await asked(line, { method: 'POST', body: '{"a":"ü"}' });
  assert.equal(
    text,
    'POST /jobs HTTP/1.1\r\nhost: cluster:6443\r\naccept: application/json\r\ncontent-length: 10\r\n\r\n{"a":"ü"}',
  );
});

test('what could end a line of the head is left to the other way', () => {
  assert.ok(isPlain('/jobs?limit=5', { authorization: 'Bearer secret' }));
  assert.ok(!isPlain('/jobs', { authorization: 'Bearer secret\r\nx: y' }));
  assert.ok(!isPlain('/jobs', { 'impersonate-group': ['one', 'other'] }));
  assert.ok(!isPlain('/jobs x', {}));
});
