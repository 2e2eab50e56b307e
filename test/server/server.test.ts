/** The HTTP API as another program sees it: statuses, problem documents, limits and streams. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { suite, test } from 'node:test';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import type { CreateRequest } from '../../src/app/client.ts';
import { exitCode, JobmanError, StoreError } from '../../src/app/errors.ts';
import { withNext, type Page } from '../../src/app/pages.ts';
import { apiRoutes } from '../../src/api/routes.ts';
import { digestsPerSearch } from '../../src/api/wire.ts';
import { digestOf, type Digest } from '../../src/catalogue/digest.ts';
import { bodyLimits } from '../../src/server/body.ts';
import { defaultLimits } from '../../src/server/limits.ts';
import { localSpec } from '../support/builders.ts';
import { eventually } from '../support/eventually.ts';
import { asAda, open, send, type Answer, type Sent } from './support/send.ts';
import type { Role } from '../../src/core/model/user.ts';
import { openServer, token } from './support/server.ts';

const problemOf = ({ text }: Answer) => JSON.parse(text) as Readonly<Record<string, unknown>>;

suite('a request', () => {
  const show = async () => ({ id: '000001' });
  const paths = apiRoutes.map(([, { method, path }]) => [method, path.replaceAll(/\{\w+\}/g, '1')] as const);

  test('without a token that counts is refused on every path, before anything is read', async (t) => {
    const limits = { ...defaultLimits, wrongTokensPerMinute: 100_000 };
    const { server } = await openServer(t, { client: {}, limits });
    for (const [method, path] of [...paths, ['GET', '/v1/none'], ['DELETE', '/v1/streams/1']] as const)
      for (const authorization of [undefined, 'Bearer wrong', 'Basic YTpi', `bearer: ${token}`, 'Bearer ']) {
        const headers = authorization === undefined ? {} : { authorization };
        const answer = await send(server.url, path, { method, headers });
        assert.deepEqual([answer.status, answer.headers['www-authenticate']], [401, 'Bearer'], `${method} ${path}`);
        assert.equal(problemOf(answer)['code'], 'unauthenticated');
      }
  });

  test('for an error gets a problem document with the parts of the error', async (t) => {
    const reasons = ['tpu_in_use'];
    const errors: readonly (readonly [JobmanError, number])[] = [
      [new JobmanError('wrong', exitCode.usage, ['line']), 400],
      [new JobmanError('absent', exitCode.notFound), 404],
      [new JobmanError('in use', exitCode.conflict, [], { errorCode: 'confirmation_required', reasons }), 409],
      [new JobmanError('not yours', exitCode.conflict, [], { errorCode: 'forbidden', refusedFor: 'bob' }), 403],
      [new JobmanError('changed', exitCode.conflict, [], { errorCode: 'changed' }), 412],
      [new JobmanError('no cloud', exitCode.unreachable), 503],
      [new JobmanError('no key', exitCode.failed), 500],
    ];
    for (const [error, status] of errors) {
      const { server, client } = await openServer(t, { client: { show: () => Promise.reject(error) } });
      const answer = await send(server.url, '/v1/jobs/1');
      assert.deepEqual([answer.status, answer.headers['content-type']], [status, 'application/problem+json']);
      const { detail, exitCode: code } = problemOf(answer);
      assert.deepEqual([detail, code], [error.message, error.code]);
      await assert.rejects(client.show('1'), (received: JobmanError) => {
        const { message, lines, errorCode, refusedFor } = received;
        assert.deepEqual(
          [message, lines, errorCode, refusedFor],
          [error.message, error.lines, error.errorCode, error.refusedFor],
        );
        assert.deepEqual(received.reasons, error.reasons);
        return true;
      });
    }
  });

  test('that meets a bug gets the number of the incident, whose stack only the log has', async (t) => {
    const { server, bugs } = await openServer(t, {
      client: { show: () => Promise.reject(new TypeError('x is secret')) },
    });
    const answer = await send(server.url, '/v1/jobs/1');
    assert.equal(answer.status, 500);
    const [, incident] = /incident ([\w-]+)/.exec(answer.text) ?? [];
    assert.ok(incident !== undefined && bugs.length === 1 && bugs[0]?.includes(incident));
    assert.match(bugs[0] ?? '', /TypeError: x is secret\n.*server\.test\.ts/s);
    assert.doesNotMatch(answer.text, /secret|\.ts/);
  });

  test('that fails by a file of the server names it without its folder, except to an admin', async (t) => {
    const lines = ['chmod 600 /srv/jobman/secrets.key', 'Try again.'];
    const error = new JobmanError(
      'The key /srv/jobman/secrets.key cannot be used: /srv/jobman2 is.',
      exitCode.failed,
      lines,
    );
    const show = () => Promise.reject(error);
    const metrics = async function* () {
      yield await show();
    };
    for (const role of ['member', 'admin'] as const) {
      const authenticate = async () => ({ user: 'ada', role, via: 'token', logins: [] }) as const;
      const folders = ['/srv/jobman'];
      const { client } = await openServer(t, { client: { show, metrics }, authenticate, folders });
      const expected =
        role === 'admin'
          ? { message: error.message, lines }
          : {
              message: 'The key secrets.key cannot be used: /srv/jobman2 is.',
              lines: ['Try again.', 'An admin of the server finds the cause: jobman doctor, on its machine'],
            };
      await assert.rejects(client.show('1'), expected);
      await assert.rejects(Array.fromAsync(client.metrics('1', {})), expected);
    }
  });

  test('that is wrong gets a sentence about its mistake', async (t) => {
    const { server } = await openServer(t, { client: { show, create: show, events: show, changeUser: show } });
    const json = (body: string | Uint8Array): Sent => ({ method: 'POST', body });
    const change = (kind: string, more: object): Sent => ({ method: 'PATCH', body: JSON.stringify({ kind, ...more }) });
    const cases: readonly (readonly [path: string, sent: Sent, status: number, sentence: RegExp])[] = [
      ['/v1/jobs', json('{"spec":'), 400, /^The body is not JSON: /],
      ['/v1/jobs', json(Buffer.from([0x22, 0xff, 0x22])), 400, /^The body is not JSON: it is not UTF-8/],
      ['/v1/jobs', json(''), 400, /^The request must have required property 'request'/],
      ['/v1/jobs', json('[]'), 400, /^request must be object/],
      ['/v1/plans', json('7'), 400, /^The body must be a JSON object/],
      ['/v1/jobs/1/events', {}, 400, /^The request must have required property 'after'/],
      ['/v1/jobs/1/events?after=x', {}, 400, /^after must be number/],
      ['/v1/jobs/1/events?after=1&after=2', {}, 400, /^The parameter after is given more than once/],
      ['/v1/jobs/1?all=true', {}, 400, /^There is no parameter "all" here/],
      ['/v1/jobs?phases=flying', {}, 400, /^query\.phases\.0 must be .*: queued, /],
      ['/v1/jobs/1/commands/fly', json('{}'), 400, /^verb must be .*: start, /],
      // Of the changes of a user, the one that `kind` names is checked.
      ['/v1/users/ada', change('limits', { limits: { coins: 1 } }), 400, /^change\.limits must NOT .*: coins/],
      [
        '/v1/users/ada',
        change('limits', { limits: { chips: 'x' } }),
        400,
        /^change\.limits\.chips must be number,null/,
      ],
      ['/v1/users/ada', change('disable', { role: 'admin' }), 400, /^change must NOT .*: role/],
      ['/v1/users/ada', change('promote', {}), 400, /^change\.kind must be .*: role, logins, .*, limits\./],
      ['/v1/users/ada', { method: 'PATCH', body: '{}' }, 400, /^change must have required property 'kind'/],
      ['/v1/users/ada', { method: 'PATCH', body: '[]' }, 400, /^change must be object/],
      ['/v2/jobs', {}, 404, /^There is no GET \/v2\/jobs/],
      ['/v1/jobs/..%2f..%2fetc', { method: 'PUT' }, 404, /^There is no PUT /],
    ];
    for (const [path, sent, status, sentence] of cases) {
      const answer = await send(server.url, path, sent);
      assert.equal(answer.status, status, `${path} ${answer.text}`);
      assert.match(String(problemOf(answer)['detail']), sentence);
    }
  });

  test('from a client of another version gets both versions in an error about what the server does not know', async (t) => {
    const { server } = await openServer(t, { client: { show, create: show } });
    const newer = { ...asAda, 'jobman-version': '9.1.0' };
    const line = 'The client is jobman 9.1.0, and the server is jobman 0: their APIs may differ.';
    for (const [path, sent] of [
      ['/v1/jobs/1?color=red', {}],
      ['/v1/jobs', { method: 'POST', body: JSON.stringify({ spec: localSpec(), manifest: '', color: 'red' }) }],
      ['/v1/jobs/1/portrait', {}],
    ] as const) {
      const answer = await send(server.url, path, { ...sent, headers: newer });
      assert.ok([400, 404].includes(answer.status), answer.text);
      assert.deepEqual([problemOf(answer)['lines'], answer.headers['jobman-version']], [[line], '0'], path);
      for (const headers of [asAda, { ...asAda, 'jobman-version': '0' }, { ...asAda, 'jobman-version': 'a b' }])
        assert.deepEqual(problemOf(await send(server.url, path, { ...sent, headers }))['lines'], []);
    }
    assert.equal((await send(server.url, '/v1/jobs/1', { headers: newer })).status, 200);
    // Without a token there is no version.
    for (const path of ['/healthz', '/none', '/v1/jobs/1', '/login/token'])
      for (const authorization of [undefined, 'Bearer wrong']) {
        const headers = { 'jobman-version': '9.1.0', ...(authorization !== undefined && { authorization }) };
        const { text, headers: given } = await send(server.url, path, { headers });
        assert.deepEqual([given['jobman-version'], text.includes('9.1.0')], [undefined, false], path);
      }
  });

  test('for a list gets at most 1,000 rows, and the client all of them or as many as it wants', async (t) => {
    const limits: unknown[] = [];
    const usage = async ({ limit = 0, cursor = '0' }: Page) => {
      limits.push(limit);
      const rows = Array.from({ length: Math.min(limit, 2_500 - Number(cursor)) }, (_, at) => at + Number(cursor));
      const next = Number(cursor) + rows.length;
      return withNext(rows, next < 2_500 ? String(next) : undefined);
    };
    const { client, server } = await openServer(t, { client: { usage } });
    assert.deepEqual([(await client.usage({})).at(-1), limits.splice(0)], [2_499, [1_000, 1_000, 1_000]]);
    const some = await client.usage({ limit: 1_500, cursor: '10' });
    assert.deepEqual([some.length, some.next, limits.splice(0)], [1_500, '1510', [1_000, 500]]);
    const { rows, next } = JSON.parse((await send(server.url, '/v1/usage?limit=99999')).text) as {
      readonly rows: readonly unknown[];
      readonly next: string;
    };
    assert.deepEqual([rows.length, next], [1_000, '1000']);
  });

  test('to a server of a newer version has an answer with fields that the client does not know', async (t) => {
    const { client } = await openServer(t, { client: { show: async () => ({ id: '000001', color: 'red' }) } });
    assert.equal((await client.show('1')).id, '000001');
  });

  test('with a body or headers above the limit is refused, and nothing is called', async (t) => {
    const { server } = await openServer(t, { client: {} });
    const large = Buffer.alloc(bodyLimits.json + 1, ' ');
    const put = Buffer.alloc(bodyLimits.bytes + 1);
    for (const [method, path, body] of [
      ['POST', '/v1/jobs', large],
      ['PUT', '/v1/secrets/wandb', put],
    ] as const) {
      const announced = await send(server.url, path, { method, body }).catch(() => null);
      assert.equal(announced?.status ?? 413, 413);
      // Without its length, as from a program that makes the body while it sends it.
      const chunked = await send(server.url, path, {
        method,
        body,
        headers: { ...asAda, 'transfer-encoding': 'chunked' },
      }).catch(() => null);
      assert.equal(chunked?.status ?? 413, 413);
    }
    const header = await send(server.url, '/v1/jobs', { headers: { ...asAda, x: 'a'.repeat(20_000) } });
    assert.equal(header.status, 431);
  });

  test('about more blobs than one request may name is refused, and the client sends several', async (t) => {
    const digests = Array.from({ length: 2 * digestsPerSearch + 1 }, (_, at) => digestOf(Buffer.from(String(at))));
    const searches: (readonly unknown[])[] = [];
    const hasBlobs = async (asked: readonly Digest[], sizes?: readonly number[]) => {
      searches.push([asked.length, sizes?.length]);
      return asked.filter((_, at) => sizes?.[at] !== 7);
    };
    const { server, client } = await openServer(t, { client: { hasBlobs } });
    const body = JSON.stringify({ digests: digests.slice(0, digestsPerSearch + 1) });
    const answer = await send(server.url, '/v1/blobs/search', { method: 'POST', body });
    assert.equal(answer.status, 400);
    assert.equal(problemOf(answer)['detail'], 'digests must NOT have more than 2000 items.');
    assert.deepEqual(searches, []);
    const sizes = digests.map((_, at) => at % 10);
    assert.deepEqual(
      await client.hasBlobs(digests, sizes),
      digests.filter((_, at) => at % 10 !== 7),
    );
    assert.deepEqual(searches.splice(0), [
      [2000, 2000],
      [2000, 2000],
      [1, 1],
    ]);
    assert.deepEqual([await client.hasBlobs([]), searches], [[], [[0, undefined]]]);
  });

  test('whose client leaves in the middle of its body is no bug', async (t) => {
    const { server, bugs } = await openServer(t, { client: {} });
    const { port } = new URL(server.url);
    for (let client = 0; client < 20; client += 1) {
      const socket = connect(Number(port), '127.0.0.1');
      const head = `POST /v1/jobs HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\ncontent-length: 100\r\n\r\n{`;
      await new Promise<unknown>((resolve) => socket.write(head, resolve));
      await sleep(5);
      socket.resetAndDestroy();
    }
    assert.equal((await send(server.url, '/healthz')).status, 200);
    assert.deepEqual(bugs, []);
  });

  test('for a new job may have its idempotency key in a header, as the draft of the IETF has it, or in the body', async (t) => {
    const keys: unknown[] = [];
    const create = async ({ idempotencyKey }: CreateRequest) => void keys.push(idempotencyKey);
    const { server } = await openServer(t, { client: { create } });
    const post = (header: string, own: object = {}) =>
      send(server.url, '/v1/jobs', {
        method: 'POST',
        headers: { ...asAda, 'idempotency-key': header },
        body: JSON.stringify({ spec: localSpec(), manifest: '', ...own }),
      });
    await post('"a-1"');
    await post('a-2', { idempotencyKey: 'a-2' });
    assert.equal((await post('a-3', { idempotencyKey: 'a-4' })).status, 400);
    assert.deepEqual(keys, ['a-1', 'a-2']);
  });

  test('for an unchanged job costs no body', async (t) => {
    let phase = 'queued';
    // The age of a log grows, also after the end of a job.
    let logAgeMs = 0;
    const show = async () => ({
      id: '000001',
      phase,
      revision: 3,
      workers: [{ worker: 0, logAgeMs: (logAgeMs += 7) }],
    });
    const { server } = await openServer(t, { client: { show } });
    const { etag = '' } = (await send(server.url, '/v1/jobs/1')).headers;
    const again = await send(server.url, '/v1/jobs/1', { headers: { ...asAda, 'if-none-match': etag } });
    assert.deepEqual([again.status, again.text, again.headers.etag], [304, '', etag]);
    phase = 'running';
    const changed = await send(server.url, '/v1/jobs/1', { headers: { ...asAda, 'if-none-match': etag } });
    assert.deepEqual([changed.status, changed.headers.etag === etag], [200, false]);
  });

  test('to give a command to an unchanged job requires its tag', async (t) => {
    const calls: unknown[] = [];
    const sendCommand = async (_ref: string, verb: string, options: { readonly ifRevision?: number }) => {
      calls.push([verb, options]);
      if (options.ifRevision === 3)
        throw new JobmanError('Job 000001 has changed.', exitCode.conflict, [], { errorCode: 'changed' });
      return { id: '000001', ok: true };
    };
    const { server } = await openServer(t, {
      client: { show: async () => ({ id: '000001', revision: 3 }), sendCommand, clean: sendCommand },
    });
    const { etag = '' } = (await send(server.url, '/v1/jobs/1')).headers;
    const command = (match: string | undefined, path = '/v1/jobs/1/commands/stop') =>
      send(server.url, path, {
        method: 'POST',
        headers: { ...asAda, ...(match !== undefined && { 'if-match': match }) },
        body: '{}',
      });
    for (const match of [etag, `W/${etag}`]) {
      const stale = await command(match);
      assert.deepEqual(
        [stale.status, stale.headers['content-type'], problemOf(stale)['detail']],
        [412, 'application/problem+json', 'Job 000001 has changed.'],
      );
    }
    for (const match of [undefined, '*', etag.replace('3', '4')]) assert.equal((await command(match)).status, 200);
    const options = [{ ifRevision: 3 }, { ifRevision: 3 }, {}, {}, { ifRevision: 4 }];
    assert.deepEqual(
      calls.splice(0),
      options.map((one) => ['stop', one]),
    );
    for (const match of ['', '3', '"3"', `${etag}, ${etag}`]) assert.equal((await command(match)).status, 400, match);
    const other = await command(etag, '/v1/jobs/1/clean');
    assert.deepEqual([other.status, problemOf(other)['detail']], [400, 'If-Match is for the commands of a job.']);
    assert.deepEqual(calls, []);
  });

  test('is refused beyond the trusted proxies, apart from one for the health of the server', async (t) => {
    const statuses = async (trustedProxies: readonly string[], headers: Readonly<Record<string, string>>) => {
      const { server } = await openServer(t, { client: { show }, trustedProxies });
      const paths = ['/v1/jobs/1', '/none', '/healthz'];
      return Promise.all(paths.map(async (path) => (await send(server.url, path, { headers })).status));
    };
    const forwarded = { ...asAda, 'x-forwarded-for': '192.0.2.9', 'x-forwarded-proto': 'https' };
    assert.deepEqual(await statuses(['192.0.2.1'], forwarded), [403, 403, 200]);
    assert.deepEqual(await statuses(['127.0.0.1'], asAda), [403, 403, 200]);
    assert.deepEqual(await statuses(['127.0.0.1'], forwarded), [200, 404, 200]);
  });

  test('for the health of the server needs no token', async (t) => {
    const { server } = await openServer(t, {});
    for (const path of ['/healthz', '/readyz']) {
      const answer = await send(server.url, path, { headers: {} });
      assert.deepEqual([answer.status, answer.text], [200, 'ok\n']);
    }
  });

  test('without a valid token does not get the name of a database that cannot be used, which the log has', async (t) => {
    const reason = 'The database postgres://role@host/name cannot be reached: connect ECONNREFUSED.';
    const fail = () => Promise.reject(new StoreError('broken', reason, ['Start it.'], { retryAfter: 2 }));
    const outages: string[] = [];
    const { server } = await openServer(t, {
      ready: fail,
      authenticate: fail,
      login: { logins: fail, url: async () => null },
      reportOutage: (line) => void outages.push(line),
    });
    assert.equal((await send(server.url, '/healthz', { headers: {} })).status, 200);
    for (const path of ['/readyz', '/v1/jobs', '/metrics', '/login/methods', '/login']) {
      const answer = await send(server.url, path);
      assert.equal(answer.status, 503, path);
      assert.match(answer.text, /The database of the server cannot be used\./, path);
      assert.doesNotMatch(answer.text, /role@host|ECONNREFUSED|Start it/, path);
      if (path !== '/login') assert.equal(answer.headers['retry-after'], '2');
    }
    assert.deepEqual(outages, [reason], 'once for many requests');
  });
});

suite('a stream', () => {
  const kibibyte = 1024;

  /** Counts what was asked for. */
  function largeStream(events: number) {
    const counts: number[] = [];
    const metrics = () => {
      const at = counts.push(0) - 1;
      return (async function* () {
        for (let event = 0; event < events; event += 1) {
          counts[at] = event + 1;
          yield { kind: 'read', attempt: 1, bytes: 0, size: null, text: 'x'.repeat(64 * kibibyte) };
          await turn();
        }
      })();
    };
    return { counts, metrics };
  }

  test('to a reader that takes nothing is not read ahead, and holds no other reader', async (t) => {
    const events = 1_000;
    const { counts, metrics } = largeStream(events);
    const { server } = await openServer(t, { client: { metrics } });
    const slow = connect(Number(new URL(server.url).port), '127.0.0.1').pause();
    slow.write(`GET /v1/jobs/1/metrics HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\n\r\n`);
    assert.ok(await eventually(() => counts[0] !== undefined && counts[0] > 0));
    const { text } = await send(server.url, '/v1/jobs/1/metrics');
    assert.equal(text.match(/^data: /gm)?.length, events + 1);
    slow.destroy();
    // The two sockets hold a part of the 64 MiB.
    assert.ok((counts[0] ?? 0) < events / 4, `${counts[0]} of ${events} events were read for a reader of none`);
  });

  test('whose reader has left is ended', async (t) => {
    let ended: (() => void) | undefined;
    const over = new Promise<void>((resolve) => (ended = resolve));
    const changesSince = () => ({
      [Symbol.asyncIterator]: () => {
        let count = 0;
        return {
          next: () =>
            count++ === 0
              ? Promise.resolve({ done: false, value: { cursor: '1', kind: 'jobs' } })
              : new Promise(() => undefined),
          return: async () => {
            ended?.();
            return { done: true, value: undefined };
          },
        };
      },
    });
    const { client } = await openServer(t, { client: { changesSince } });
    for await (const _ of client.changesSince(null)) break;
    await over;
  });

  test('that is quiet gets comments, and ends when the server stops', async (t) => {
    const changesSince = async function* () {
      yield { cursor: '1', kind: 'jobs' };
      await new Promise(() => undefined);
    };
    const { server } = await openServer(t, { client: { changesSince }, heartbeatMs: 5 });
    const incoming = await open(server.url, '/v1/changes');
    let text = '';
    for await (const part of incoming) {
      text += String(part);
      if (text.split(': \n\n').length === 4) void server.close();
    }
    assert.match(text, /^id: 1\ndata: \{"cursor":"1","kind":"jobs"\}\n\n(?:: \n\n){3,}$/);
  });

  test('ends soon after its token was revoked', async (t) => {
    let isRevoked = false;
    const changesSince = async function* () {
      yield { cursor: '1', kind: 'jobs' };
      await new Promise(() => undefined);
    };
    const { client } = await openServer(t, {
      client: { changesSince },
      heartbeatMs: 5,
      authenticate: async () => (isRevoked ? null : { user: 'ada', role: 'member', via: 'token', logins: [] }),
    });
    const read = async () => {
      for await (const _ of client.changesSince(null)) isRevoked = true;
    };
    await assert.rejects(read, { code: exitCode.conflict, message: /does not accept this token/ });
  });

  test('ends soon after the rights of its user have changed, also one of bytes', async (t) => {
    let role: Role = 'member';
    const quiet = (value: unknown) =>
      async function* () {
        yield value;
        await new Promise(() => undefined);
      };
    const { server } = await openServer(t, {
      client: { changesSince: quiet({ cursor: '1', kind: 'jobs' }), readArchivedLog: quiet(Buffer.from('line\n')) },
      heartbeatMs: 5,
      authenticate: async () => ({ user: 'ada', role, via: 'token', logins: [] }),
    });
    for (const path of ['/v1/changes', '/v1/archive/u1/log?pod=train-a&container=main']) {
      role = 'member';
      const incoming = await open(server.url, path);
      await once(incoming, 'readable');
      role = 'viewer';
      incoming.on('error', () => undefined).resume();
      await new Promise((resolve) => incoming.once('close', resolve));
    }
  });

  test('of another user cannot be ended', async (t) => {
    const runStep = async function* () {
      yield { kind: 'begun', job: '000001', workers: [0] };
      await new Promise(() => undefined);
    };
    const { server } = await openServer(t, { client: { runStep } });
    const incoming = await open(server.url, '/v1/jobs/1/steps/docker/runs', { method: 'POST', body: '{}' });
    const path = `/v1/streams/${String(incoming.headers['jobman-stream'])}`;
    const asBob = { authorization: 'Bearer token-of-bob' };
    assert.equal((await send(server.url, path, { method: 'DELETE', headers: asBob })).status, 404);
    incoming.destroy();
  });

  test('reports an error after its beginning as an event', async (t) => {
    const metrics = async function* () {
      yield { kind: 'read', attempt: 1, bytes: 5, size: 9 };
      throw new JobmanError('The log was removed.', exitCode.notFound);
    };
    const { server, client } = await openServer(t, { client: { metrics } });
    const { text } = await send(server.url, '/v1/jobs/1/metrics');
    assert.match(text, /\n\nevent: problem\ndata: \{.*"detail":"The log was removed\."/);
    const seen: unknown[] = [];
    await assert.rejects(
      async () => {
        for await (const step of client.metrics('1', {})) seen.push(step);
      },
      { message: 'The log was removed.', code: exitCode.notFound },
    );
    assert.equal(seen.length, 1);
  });
});

test('a server that stops answers the requests in progress, and accepts no others', async (t) => {
  const asked = Promise.withResolvers<void>();
  const mayAnswer = Promise.withResolvers<void>();
  const show = async () => {
    asked.resolve();
    await mayAnswer.promise;
    return { id: '000001' };
  };
  const { server } = await openServer(t, { client: { show } });
  const inProgress = send(server.url, '/v1/jobs/1');
  await asked.promise;
  const closed = server.close();
  await assert.rejects(send(server.url, '/v1/jobs/1'), { code: 'ECONNREFUSED' });
  mayAnswer.resolve();
  assert.equal((await inProgress).status, 200);
  await closed;
});
