/** The exit code that a shell in the container reports at the end of stderr. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createServer, type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createReportReader, withExitReport } from '../../../src/backends/kubernetes/exec.ts';
import { readExecStatus } from '../../../src/backends/kubernetes/status.ts';
import { openServer } from './support/server.ts';

const text = 'JOBMAN_EXEC=0123456789abcdef: ';

function read(bytes: Buffer, size: number): { readonly own: string; readonly code: number | undefined } {
  const reader = createReportReader(text);
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) parts.push(reader.take(bytes.subarray(at, at + size)));
  return { own: Buffer.concat([...parts, reader.rest()]).toString(), code: reader.code() };
}

test('is taken out of what the program has printed, however it comes', () => {
  for (const size of [1, 2, 7, 31, 1_000]) {
    assert.deepEqual(read(Buffer.from(`one\nJOBMAN_${text}7\n`), size), { own: 'one\nJOBMAN_', code: 7 });
    assert.deepEqual(read(Buffer.from(`${text}0\n`), size), { own: '', code: 0 });
    assert.deepEqual(read(Buffer.from('one JOBMAN_EXEC=01'), size), { own: 'one JOBMAN_EXEC=01', code: undefined });
  }
});

test('is what a shell writes, and its own exit code', () => {
  const ran = (...argv: readonly string[]) => {
    const [program = '', ...args] = withExitReport(argv, text);
    const { status, stdout, stderr } = spawnSync(program, args, { input: 'in' });
    return { status, out: String(stdout), ...read(stderr, 5) };
  };
  const both = ran('sh', '-c', 'cat; printf err >&2; exit 7');
  assert.deepEqual(both, { status: 7, out: 'in', own: 'err', code: 7 });
  assert.deepEqual(ran('printf', '%s|', 'a b', '$HOME', ''), { status: 0, out: 'a b|$HOME||', own: '', code: 0 });
  const absent = ran('no-such-program');
  assert.deepEqual([absent.status, absent.code], [127, 127]);
  assert.match(absent.own, /no-such-program/);
  assert.equal(ran('sh', '-c', 'kill -KILL $$').code, 137);
});

test('input that the program leaves is read after the report', () => {
  const [program = '', ...args] = withExitReport(['sh', '-c', 'exit 7'], text);
  const { status, error } = spawnSync(program, args, { input: Buffer.alloc(4_000_000, 'y\n') });
  assert.deepEqual([status, error], [7, undefined]);
});

test('an exit report has at most three digits; other text after the marker is output of the program', () => {
  for (const size of [1, 3, 1_000]) {
    for (const own of [`${text}NaN\n`, `${text}\n`, `${text}1e3\n`, `${text}-1\n`, `${text}4000\n`])
      assert.deepEqual(read(Buffer.from(`${own}${text}3\n`), size), { own, code: 3 });
  }
  const reader = createReportReader(text);
  reader.take(Buffer.from(text));
  // None of a line without end is held back.
  assert.equal(reader.take(Buffer.alloc(1_000_000, 'x')).length, 1_000_000 + text.length);
});

test('a status of an unexpected shape becomes the message', () => {
  for (const line of ['null', '5', '[1', '{"message":{}}', '{"details":null}', '{"details":{"causes":{}}}'])
    assert.deepEqual(readExecStatus(Buffer.from(line)), { message: line });
  for (const line of ['{"details":{"causes":[null]}}', '{"details":{"causes":[{"message":5}]}}'])
    assert.deepEqual(readExecStatus(Buffer.from(line)), { message: line });
  assert.deepEqual(readExecStatus(Buffer.from('{"status":"Success"}')), { status: 'Success' });
});

test('an end that comes together with the line is heard', async (t) => {
  const status = Buffer.from('\u0003{"status":"Success"}');
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (asked) => {
      const key = /^sec-websocket-key: (.*)\r$/im.exec(String(asked))?.[1] ?? '';
      const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
      const head = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n`;
      const closing = Buffer.from([0x88, 2, 3, 0xe8]);
      socket.end(Buffer.concat([Buffer.from(head), Buffer.from([0x82, status.length]), status, closing]));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const dropping = await openServer(t, () => ({ drop: true }));
  const cluster = dropping.cluster({ cluster: { server: url } });
  const session = cluster.exec(
    { pod: 'train-0', container: 'main' },
    { program: { kind: 'line', line: 'true' }, hasInput: true, terminal: null, onBytes: () => undefined },
  );
  assert.deepEqual(await session.ended, { kind: 'ended', exitCode: 0, signal: null });
});
