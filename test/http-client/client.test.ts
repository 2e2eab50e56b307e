/** The client of a server when the network, a program on the way or the server fails. The contract suite has the rest. */
import assert from 'node:assert/strict';
import { createServer as createHttpServer, type ServerResponse } from 'node:http';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import type { ClusterAccess, JobSubmission } from '../../src/app/cluster/cluster-client.ts';
import type { Change, Client, CreateRequest } from '../../src/app/client.ts';
import { exitCode } from '../../src/app/errors.ts';
import { digestOf } from '../../src/catalogue/digest.ts';
import { parseEvents } from '../../src/api/events.ts';
import { createServerClient, type HttpClientParts } from '../../src/http-client/client.ts';
import { openServer, token } from '../server/support/server.ts';
import { localSpec } from '../support/builders.ts';

/** Passes bytes on until `cut`, which closes every connection. */
async function openProxy(t: TestContext, target: string) {
  const sockets = new Set<Socket>();
  const proxy = createServer((near) => {
    const far = connect(Number(new URL(target).port), '127.0.0.1');
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => other.destroy());
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const cut = (): void => sockets.forEach((socket) => socket.destroy());
  t.after(() => {
    cut();
    proxy.close();
  });
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, cut };
}

suite('a connection that breaks', () => {
  test('continues the changes after the newest one', async (t) => {
    const asked: (string | null)[] = [];
    const changesSince = async function* (cursor: string | null): AsyncIterable<Change> {
      asked.push(cursor);
      for (let at = Number(cursor ?? 0) + 1; ; at += 1) {
        yield { cursor: String(at), kind: 'jobs' };
        if (at % 3 === 0) await new Promise(() => undefined);
      }
    };
    const { server } = await openServer(t, { client: { changesSince } });
    const { url, cut } = await openProxy(t, server.url);
    const client = createServerClient({ server: url, token, env: {} });
    const seen: string[] = [];
    for await (const { cursor } of client.changesSince(null)) {
      seen.push(cursor);
      if (seen.length === 9) break;
      if (Number(cursor) % 3 === 0) cut();
    }
    await client.close();
    assert.deepEqual(seen, ['1', '2', '3', '4', '5', '6', '7', '8', '9']);
    assert.deepEqual(asked, [null, '3', '6']);
  });

  test('continues a read of metrics from its start, and one of points or of an archived log with the next', async (t) => {
    const rounds = { metrics: 0, points: 0, log: 0 };
    const waitInRound1 = async (what: keyof typeof rounds): Promise<void> => {
      rounds[what] += 1;
      if (rounds[what] === 1) await new Promise(() => undefined);
    };
    const metrics = async function* () {
      yield { kind: 'read', attempt: 1, bytes: 1, size: 2 };
      await waitInRound1('metrics');
      yield { kind: 'result', metrics: {} };
    };
    const metricPoints = async function* () {
      yield { step: 1 };
      await waitInRound1('points');
      yield { step: 2 };
    };
    const readArchivedLog = async function* () {
      yield Buffer.from('line 1\nline');
      await waitInRound1('log');
      yield Buffer.from(' 2\nline 3\n');
    };
    const { server } = await openServer(t, { client: { metrics, metricPoints, readArchivedLog } });
    const { url, cut } = await openProxy(t, server.url);
    const client = createServerClient({ server: url, token, env: {} });
    const read = async <T>(values: AsyncIterable<T>): Promise<readonly T[]> => {
      const all: T[] = [];
      for await (const value of values) if (all.push(value) === 1) cut();
      return all;
    };
    const steps = await read(client.metrics('1', {}));
    assert.deepEqual(
      steps.map(({ kind }) => kind),
      ['read', 'read', 'result'],
    );
    assert.deepEqual(await read(client.metricPoints('1', {})), [{ step: 1 }, { step: 2 }]);
    const log = await read(client.readArchivedLog('u', { pod: 'p', container: 'c' }, {}));
    assert.equal(Buffer.concat(log).toString(), 'line 1\nline 2\nline 3\n');
    await client.close();
    assert.deepEqual(rounds, { metrics: 2, points: 2, log: 2 });
  });

  test('fails a stream that cannot continue, and no part of it counts as all of it', async (t) => {
    const runStep = async function* () {
      yield { kind: 'begun', job: '000001', workers: [0] };
      cut();
      await new Promise(() => undefined);
    };
    const readArchivedLog = async function* () {
      yield Buffer.from('line 1\n');
      throw new Error('the file was removed');
    };
    const { server } = await openServer(t, { client: { runStep, readArchivedLog } });
    const { url, cut } = await openProxy(t, server.url);
    const client = createServerClient({ server: url, token, env: {} });
    // Before or after the first byte has arrived.
    const expected = {
      message: /^The (?:connection to the server .* ended early|server .* does not answer: )/,
      code: 5,
    };
    await assert.rejects(Array.fromAsync(client.runStep('1', 'docker', {})), expected);
    const log = { pod: 'p', container: 'c' };
    await assert.rejects(Array.fromAsync(client.readArchivedLog('u', log, { tail: 9 })), expected);
    await client.close();
  });
});

test('a job is created once although the answer to its creation was lost, also in a cluster', async (t) => {
  const keys: (string | undefined)[] = [];
  const answerSecond = <T>({ idempotencyKey }: { readonly idempotencyKey?: string }, answer: T): T => {
    keys.push(idempotencyKey);
    if (keys.length % 2 === 1) cut();
    return answer;
  };
  const created = { kind: 'created', id: '000001', row: {}, warnings: [] };
  const create = async (request: CreateRequest) => answerSecond(request, created);
  const submit = async (_context: string, _namespace: string, submission: JobSubmission) =>
    answerSecond(submission, submission.job);
  const { server } = await openServer(t, {
    client: { create },
    clustersOf: () => ({ client: { submit } }) as object as ClusterAccess,
  });
  const { url, cut } = await openProxy(t, server.url);
  const client = createServerClient({ server: url, token, env: {} });
  const request: CreateRequest = { spec: localSpec(), manifest: '' };
  assert.equal((await client.create(request)).kind, 'created');
  assert.deepEqual(await client.cluster.submit('lab', 'vision', { job: { a: 1 } }), { a: 1 });
  await client.close();
  const [first, second, third, fourth, ...more] = keys;
  assert.ok(first !== undefined && third !== undefined && first !== third, String(keys));
  assert.deepEqual([second, fourth, more], [first, third, []]);
});

test('a command that waits for a server which hangs says so once', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const waits: string[] = [];
  const answer = Promise.withResolvers<readonly unknown[]>();
  const asked = Promise.withResolvers<void>();
  const secrets = () => {
    asked.resolve();
    return answer.promise;
  };
  const { server } = await openServer(t, { client: { secrets } });
  const client = createServerClient({ server: server.url, token, env: {}, onWait: (text) => void waits.push(text) });
  t.after(() => client.close());
  const listed = client.secrets();
  await asked.promise;
  for (let passed = 0; passed < 20; passed += 5) t.mock.timers.tick(5_000);
  answer.resolve([]);
  assert.deepEqual(await listed, []);
  assert.deepEqual(waits, [`Waiting for the server: The server ${server.url} has not answered for 5 s.`]);
});

test('a read and an upload wait for a server that has answered before and restarts', async (t) => {
  let secrets = async (): Promise<readonly unknown[]> => [];
  const putBlobs = () => Promise.resolve();
  const { server } = await openServer(t, { client: { secrets: () => secrets(), putBlobs } });
  let refused = 0;
  const near = createServer((socket) => {
    if (refused > 0 && refused < 6) {
      refused += 1;
      socket.destroy();
      return;
    }
    const far = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.on('error', () => far.destroy()).on('close', () => far.destroy());
    far.on('error', () => socket.destroy()).on('close', () => socket.destroy());
    socket.pipe(far).pipe(socket);
  });
  await new Promise<void>((resolve) => near.listen(0, '127.0.0.1', resolve));
  t.after(() => near.close());
  const url = `http://127.0.0.1:${(near.address() as AddressInfo).port}`;
  const content = Buffer.from('x');
  const upload = (client: Client) => client.putBlobs([{ digest: digestOf(content), content }]);
  const read = async (
    times: number,
    parts: Partial<HttpClientParts> = {},
    ask: (client: Client) => Promise<unknown> = (client) => client.secrets(),
  ) => {
    const client = createServerClient({ server: url, token, env: {}, ...parts });
    try {
      for (let time = 0; time < times; time += 1) {
        await ask(client);
        await client.close();
        refused = 1;
      }
    } finally {
      await client.close();
    }
  };
  await read(2);
  refused = 0;
  await read(2, {}, upload);
  await assert.rejects(read(1), { code: exitCode.unreachable });
  refused = 0;
  const onSignal = (call: () => void) => {
    call();
    return () => undefined;
  };
  await assert.rejects(read(2, { onSignal }), { code: exitCode.interrupted });
  refused = 0;
  secrets = () => new Promise(() => undefined);
  const unanswered = { code: exitCode.interrupted, message: `Interrupted before the server ${url} had answered.` };
  await assert.rejects(read(1, { onSignal }), unanswered, 'a server that hangs');
  let [listeners, most, leave] = [0, 0, (): void => undefined];
  const countListeners = (call: () => void) => {
    most = Math.max(most, (listeners += 1));
    leave = call;
    return () => void (listeners -= 1);
  };
  const many = (client: Client) => {
    const asked = Promise.allSettled(Array.from({ length: 20 }, () => client.secrets()));
    leave();
    return asked;
  };
  await read(1, { onSignal: countListeners }, async (client) => {
    for (const { status } of await many(client)) assert.equal(status, 'rejected', 'a signal ends every request');
  });
  assert.deepEqual([listeners, most], [0, 1], 'one listener for all requests in progress');
});

test('a request that changes something is announced, and a read is not', async (t) => {
  let announced = 0;
  const answer = { secrets: async () => [], plan: async () => null, setSecret: async () => 'added' };
  const { server } = await openServer(t, { client: answer });
  const client = createServerClient({ server: server.url, token, env: {}, beforeChange: () => (announced += 1) });
  await client.secrets();
  assert.equal(announced, 0);
  await client.setSecret('wandb', Buffer.from('1'));
  await client.close();
  assert.equal(announced, 1);
});

suite('an answer', () => {
  async function clientOf(t: TestContext, answer: (to: ServerResponse) => void) {
    const server = createHttpServer((_, to) => answer(to));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = createServerClient({ server: url, token, env: {} });
    t.after(async () => {
      await client.close();
      server.close();
    });
    return { client, url };
  }

  test('is asked once for a change, even if it asks to try again: it may have passed the request on', async (t) => {
    let requests = 0;
    const { client } = await clientOf(t, (to) => {
      requests += 1;
      to.writeHead(503, { 'content-type': 'text/html', 'retry-after': '1' }).end('<title>busy</title>');
    });
    await assert.rejects(client.sendCommand('1', 'rerun', {}), { code: exitCode.unreachable });
    assert.equal(requests, 1);
  });

  for (const [what, status, type, body, summary] of [
    ['a proxy', 502, 'text/html', '<html><title>502 Bad Gateway</title></html>', 'status 502, 502 Bad Gateway'],
    ['a login page', 200, 'text/html', '<!doctype html><html><h1>Sign in</h1></html>', 'status 200, Sign in'],
    [
      'another program',
      404,
      'application/problem+json',
      '{"message":"no route"}',
      'status 404, {"message":"no route"}',
    ],
    ['a redirect', 302, 'text/plain', '', 'status 302'],
  ] as const)
    test(`of ${what} is one clear message`, async (t) => {
      const { client, url } = await clientOf(t, (to) => void to.writeHead(status, { 'content-type': type }).end(body));
      const message = `${url} does not answer like a jobman server: ${summary}.`;
      await assert.rejects(client.show('1'), { message, code: exitCode.unreachable });
      await assert.rejects(Array.fromAsync(client.metrics('1', {})), { message, code: exitCode.unreachable });
    });

  test('that never comes names the server', async () => {
    const client = createServerClient({ server: 'http://127.0.0.1:1', token, env: {} });
    await assert.rejects(client.list({}), {
      message: 'The server http://127.0.0.1:1 does not answer: connect ECONNREFUSED 127.0.0.1:1.',
      code: exitCode.unreachable,
    });
  });

  test('about a token that does not count has a code of its own, and the command that gets another one', async (t) => {
    const { server } = await openServer(t, { client: {} });
    const tokenRemedy = 'To log in again: jobman login';
    const client = createServerClient({ server: server.url, token: 'wrong', env: {}, tokenRemedy });
    await assert.rejects(client.list({}), {
      errorCode: 'unauthenticated',
      code: exitCode.conflict,
      lines: [tokenRemedy],
    });
    await client.close();
  });

  test('of a server below a path is asked for there', async (t) => {
    let path: string | undefined;
    const { client, url } = await clientOf(t, (to) => {
      path = to.req.url;
      to.writeHead(200, { 'content-type': 'application/json' }).end('[]');
    });
    const below = createServerClient({ server: `${url}/jobman/`, token, env: {} });
    await below.secrets();
    await Promise.all([below.close(), client.close()]);
    assert.equal(path, '/jobman/v1/secrets');
  });
});

test('events are parsed as the standard says', async () => {
  const text = ': comment\n\nid: 7\nevent: end\ndata: a\ndata:b\n\ndata\n\ndata: é\n\ndata: no end';
  const bytes = Buffer.from(text);
  // In pieces of each size, which divide lines and characters anywhere.
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
    const events = await Array.fromAsync(
      parseEvents(
        (async function* () {
          yield* pieces;
        })(),
      ),
    );
    assert.deepEqual(events, [
      { kind: 'end', data: 'a\nb', id: '7' },
      { kind: 'message', data: '', id: '7' },
      { kind: 'message', data: 'é', id: '7' },
    ]);
  }
});
