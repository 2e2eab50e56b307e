/** Programs and ports of workers through a server, with a real OpenSSH server as the worker. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { WebSocket } from 'ws';
import type { AppParts } from '../../src/server/app.ts';
import { defaultLimits } from '../../src/server/limits.ts';
import { JobmanError, exitCode } from '../../src/app/errors.ts';
import type {
  Program,
  Session,
  SessionEnd,
  TerminalSize,
  TicketOptions,
  WorkerTicket,
} from '../../src/app/worker-access.ts';
import { createWorkerStreams } from '../../src/http-client/worker-streams.ts';
import { entryOf } from '../../src/remote/session.ts';
import type { Sshd } from '../remote/sshd.ts';
import { eventually } from '../support/eventually.ts';
import { sshdTest, transportOn } from '../support/ssh.ts';
import { send } from './support/send.ts';
import { openServer, token } from './support/server.ts';

const ticket: WorkerTicket = { job: '000042', allocation: 3, workers: 2, container: null, logins: null };
const line = (text: string): Program => ({ kind: 'line', line: text });
const ended = (code: number): SessionEnd => ({ kind: 'ended', exitCode: code, signal: null });

/** A server whose worker is that sshd; `tickets` are the requested references, and the uses that are recorded. */
async function openStreams(t: TestContext, sshd: Sshd | null, parts: Partial<AppParts> = {}) {
  const tickets: unknown[] = [];
  const transport = sshd === null ? null : transportOn(sshd);
  /** The bytes that the server has read from each program. */
  const taken: number[] = [];
  const { server } = await openServer(t, {
    client: {
      async workerTicket(ref: string, { use }: TicketOptions = {}) {
        tickets.push(use ?? ref);
        if (ref === '000043')
          throw new JobmanError('Job 000043 is not yours.', exitCode.conflict, [], { errorCode: 'forbidden' });
        return ticket;
      },
    },
    async connectWorker() {
      assert.ok(transport);
      return {
        start(request) {
          const at = taken.push(0) - 1;
          const onBytes: typeof request.onBytes = (chunk, stream) => {
            taken[at] = (taken[at] ?? 0) + chunk.length;
            return request.onBytes(chunk, stream);
          };
          return transport.session({ ...request, onBytes }, entryOf(request, ''));
        },
        tunnel: (port) => transport.tunnel(port),
      };
    },
    ...parts,
  });
  const streams = createWorkerStreams({ server: server.url, token, env: {} });
  t.after(() => streams.close());
  const begin = (program: Program, { terminal = null, job = ticket }: Options = {}) => {
    const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    const session = streams.start(job, 1, {
      program,
      environment: 'host',
      hasInput: true,
      terminal,
      onBytes: (chunk, stream) => void kept[stream].push(chunk),
    });
    return { session, out: () => Buffer.concat(kept.stdout), err: () => Buffer.concat(kept.stderr).toString() };
  };
  return { server, streams, tickets, taken, begin };
}

interface Options {
  readonly terminal?: TerminalSize | null;
  readonly job?: WorkerTicket;
}

sshdTest(
  'a program gets its input and gives its output and exit code, with and without a terminal',
  async (sshd, t) => {
    const { begin, tickets } = await openStreams(t, sshd);
    const bytes = randomBytes(3_000_000);
    const cat = begin({ kind: 'argv', argv: ['sh', '-c', 'cat; echo err >&2; exit 7'] });
    await cat.session.write(bytes);
    cat.session.end();
    assert.deepEqual(await cat.session.ended, ended(7));
    assert.ok(cat.out().equals(bytes));
    assert.deepEqual([cat.err(), tickets], ['err\n', ['000042', { worker: 1 }]]);

    const terminal = begin(line('stty size; read a; stty size; exit 5'), { terminal: { columns: 101, rows: 33 } });
    assert.ok(await eventually(() => terminal.out().includes('33 101')));
    terminal.session.resize({ columns: 120, rows: 40 });
    await terminal.session.write(Buffer.from('\r'));
    assert.deepEqual(await terminal.session.ended, ended(5));
    assert.match(terminal.out().toString(), /33 101\r\n.*40 120\r\n/s);

    const stopped = begin(line('echo begun; exec sleep 4716'));
    assert.ok(await eventually(() => stopped.out().length > 0));
    stopped.session.stop();
    assert.deepEqual(await stopped.session.ended, { kind: 'ended', exitCode: null, signal: 'TERM' });
  },
);

sshdTest('a port of a worker is connected in both directions, also after one side has sent all', async (sshd, t) => {
  const { streams, tickets } = await openStreams(t, sshd);
  const echo = createServer({ allowHalfOpen: true }, (socket: Socket) => {
    const got: Buffer[] = [Buffer.from('all: ')];
    socket.on('data', (chunk: Buffer) => got.push(chunk));
    socket.on('end', () => socket.end(Buffer.concat(got)));
  });
  await once(echo.listen(0, '127.0.0.1'), 'listening');
  const { port } = echo.address() as AddressInfo;
  t.after(() => echo.close());
  const tunnel = await streams.tunnel(ticket, 0, port);
  assert.ok(!('problem' in tunnel));
  const bytes = randomBytes(2_500_000);
  tunnel.end(bytes);
  assert.ok((await buffer(tunnel)).equals(Buffer.concat([Buffer.from('all: '), bytes])));
  assert.deepEqual(tickets, ['000042', { worker: 0, port }]);

  echo.close();
  const closed = await streams.tunnel(ticket, 0, port);
  assert.ok('problem' in closed && closed.isReached);
});

test('a stream is refused to those who may not, and for a worker or a request that does not exist', async (t) => {
  const connected: unknown[] = [];
  const opened = await openStreams(t, null, {
    connectWorker: (...where) => {
      connected.push(where);
      return Promise.reject(new JobmanError('worker 1 does not answer', exitCode.unreachable));
    },
  });
  const { server, begin } = opened;
  const reasonOf = async (session: Session): Promise<string> => {
    const end = await session.ended;
    assert.ok(end.kind === 'unreachable' && !end.mayHaveRun);
    return end.reason;
  };
  const denied = await begin(line('true'), { job: { ...ticket, job: '000043' } }).session.ended;
  assert.ok(denied.kind === 'unreachable' && denied.refusal?.message === 'Job 000043 is not yours.');
  const moved = begin(line('true'), { job: { ...ticket, allocation: 2 } });
  assert.match(await reasonOf(moved.session), /has moved to other workers/);
  const none = createWorkerStreams({ server: server.url, token: 'wrong', env: {} });
  const end = await none.start(ticket, 0, { ...program, onBytes: () => undefined }).ended;
  assert.ok(end.kind === 'unreachable' && end.refusal !== undefined && /does not accept this token/.test(end.reason));
  assert.deepEqual(connected, []);

  assert.equal(await reasonOf(begin(line('true')).session), 'worker 1 does not answer');
  assert.deepEqual(connected, [['000042', 1]]);

  const path = '/v1/jobs/42/workers/1/stream';
  assert.equal((await send(server.url, path)).status, 400);
  for (const worker of ['9', '-1', 'x'])
    assert.equal(await statusOf(server.url, `/v1/jobs/42/workers/${worker}/stream`), 400);
  for (const opening of ['', 'no JSON', '[]', '{}', '{"kind":"port","port":0}', '{"kind":"program"}'])
    assert.match(await answerTo(server.url, path, opening), /The first message /);
});

const program = { program: line('true'), environment: 'host', hasInput: false } as const;

const connectTo = (url: string, path: string): WebSocket =>
  new WebSocket(url.replace('http', 'ws') + path, { headers: { authorization: `Bearer ${token}` } });

function statusOf(url: string, path: string): Promise<number> {
  const socket = connectTo(url, path).on('error', () => undefined);
  return new Promise((resolve) =>
    socket.on('unexpected-response', (request, { statusCode = 0 }) => {
      request.destroy();
      resolve(statusCode);
    }),
  );
}

/** The first message after the opening. */
async function answerTo(url: string, path: string, opening: string): Promise<string> {
  const socket = connectTo(url, path);
  await once(socket, 'open');
  socket.send(Buffer.concat([Buffer.from([8]), Buffer.from(opening)]));
  const [message] = (await once(socket, 'message')) as [Buffer];
  socket.terminate();
  return message.toString();
}

test('a stream without a first message ends, so that it does not count for its user for ever', async (t) => {
  const limits = { ...defaultLimits, requestsPerSecond: 0, headersTimeout: 100, streamsOfUser: 1 };
  const { server, begin } = await openStreams(t, null, { limits });
  const path = '/v1/jobs/42/workers/1/stream';
  const socket = connectTo(server.url, path);
  await once(socket, 'open');
  socket.ping();
  assert.equal(await statusOf(server.url, path), 429);
  const [message] = (await once(socket, 'message')) as [Buffer];
  const reason = 'the first message has not arrived in time';
  assert.deepEqual(JSON.parse(message.subarray(1).toString()), { kind: 'unreachable', reason, mayHaveRun: true });
  await once(socket, 'close');
  assert.ok(await eventually(async () => (await begin(line('true')).session.ended).kind === 'unreachable'));
});

const megabyte = 1_000_000;

sshdTest('a reader that takes nothing for a while slows down only itself, and costs no memory', async (sshd, t) => {
  const size = 200 * megabyte;
  const { server, begin, taken } = await openStreams(t, sshd);
  const socket = connectTo(server.url, '/v1/jobs/42/workers/1/stream');
  await once(socket, 'open');
  let received = 0;
  let end = '';
  socket.on('message', (message: Buffer) => {
    if (message[0] === 5) received += message.length - 1;
    else end = message.subarray(1).toString();
  });
  const opening = { kind: 'program', ...program, program: line(`head -c ${size} /dev/zero`) };
  socket.send(Buffer.concat([Buffer.from([8]), Buffer.from(JSON.stringify(opening))]));
  assert.ok(await eventually(() => received > megabyte));
  socket.pause();
  // Another program runs to its end meanwhile, with more output than the buffers on the way hold.
  const other = begin(line(`head -c ${40 * megabyte} /dev/zero`));
  assert.deepEqual(await other.session.ended, ended(0));
  assert.equal(other.out().length, 40 * megabyte);
  // The rest is in the buffers of the two sockets, which the system limits.
  assert.ok(taken[0] !== undefined && taken[0] < 32 * megabyte, `the server has read ${taken[0]} bytes ahead`);
  socket.resume();
  assert.ok(await eventually(() => end !== '', { withinMs: 120_000 }));
  assert.deepEqual([received, JSON.parse(end)], [size, ended(0)]);
});

sshdTest('a writer that does not wait for its answers is disconnected', async (sshd, t) => {
  const { server } = await openStreams(t, sshd);
  const socket = connectTo(server.url, '/v1/jobs/42/workers/1/stream');
  await once(socket, 'open');
  const opening = { kind: 'program', ...program, hasInput: true, program: line('sleep 60') };
  socket.send(Buffer.concat([Buffer.from([8]), Buffer.from(JSON.stringify(opening))]));
  for (let sent = 0; sent < 4; sent += 1) socket.send(Buffer.concat([Buffer.from([1]), Buffer.alloc(megabyte)]));
  await once(socket, 'close');
  // Messages without bytes have answers too.
  const other = connectTo(server.url, '/v1/jobs/42/workers/1/stream');
  await once(other, 'open');
  other.send(Buffer.concat([Buffer.from([8]), Buffer.from(JSON.stringify(opening))]));
  for (let sent = 0; sent < 20_000; sent += 1) other.send(Buffer.from([1]));
  await once(other, 'close');
});

sshdTest('a program that no shell can get ends its stream, and not the process', async (sshd, t) => {
  const { server, begin } = await openStreams(t, sshd);
  const { session } = begin(line('a\0b'));
  await session.write(Buffer.from('input'));
  const reason = 'a shell argument cannot contain a NUL character';
  assert.deepEqual(await session.ended, { kind: 'unreachable', reason, mayHaveRun: false });
  assert.equal((await send(server.url, '/healthz')).status, 200);
});

sshdTest('a stream ends with its token, and with the server, and its program ends with it', async (sshd, t) => {
  let isRevoked = false;
  const { server, begin } = await openStreams(t, sshd, {
    heartbeatMs: 50,
    authenticate: async () => (isRevoked ? null : { user: 'ada', role: 'member', via: 'token', logins: [] }),
  });
  const first = begin(line('echo $$; exec sleep 4717'));
  const other = begin(line('echo $$; exec sleep 4717'));
  assert.ok(await eventually(() => first.out().length > 0 && other.out().length > 0));
  isRevoked = true;
  const reason = 'the server no longer accepts the token';
  for (const { session } of [first, other])
    assert.deepEqual(await session.ended, { kind: 'unreachable', reason, mayHaveRun: true });
  isRevoked = false;
  const last = begin(line('echo $$; exec sleep 4717'));
  assert.ok(await eventually(() => last.out().length > 0));
  const closed = server.close();
  assert.deepEqual(await last.session.ended, { kind: 'unreachable', reason: 'the server stops', mayHaveRun: true });
  await closed;
  const isGone = ({ out }: typeof last): boolean => !existsSync(`/proc/${out().toString().trim()}`);
  assert.ok(await eventually(() => [first, other, last].every(isGone)));
});
