/** Answers that are broken or never end cost neither memory nor time without bounds, and end as one sentence. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, writeFileSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { LogLineTooLong } from '../../../src/app/cluster/cluster.ts';
import { JobmanError } from '../../../src/app/errors.ts';
import { createCluster } from '../../../src/backends/kubernetes/cluster.ts';
import { readKubeContext } from '../../../src/backends/kubernetes/kubeconfig.ts';
import { splitLines } from '../../../src/backends/kubernetes/watch.ts';
import { openWorld } from '../../support/world.ts';
import { failure, now, openServer, type FakeServer, type Reply, status } from './support/server.ts';
import { readEvent, readJob, readNode, readPod, readPriority } from '../../../src/backends/kubernetes/objects.ts';
import { readStatus, refusalOf } from '../../../src/backends/kubernetes/status.ts';

const text = ({ message, lines }: JobmanError): string => [message, ...lines].join('\n');

type Limited = Parameters<FakeServer['cluster']>[1];

/** The error of a list of the jobs at that server. */
const listFailure = (server: FakeServer, more: Limited = {}): Promise<JobmanError> =>
  failure(Array.fromAsync(server.cluster({}, more).jobs({})));

const followed = (server: FakeServer): Promise<readonly Uint8Array[]> =>
  Array.fromAsync(server.cluster().logs('a', 'main', { follow: true }));

function* endless(part: string): Iterable<string> {
  for (;;) yield part;
}

suite('an answer', () => {
  test('that is too long is left', async (t) => {
    const server = await openServer(t, () => ({ parts: endless(' '.repeat(64 * 1024)) }));
    const error = await failure(server.cluster({}, { limits: { bytes: 1024 * 1024 } }).job('a'));
    assert.deepEqual([error.code, /longer than 1 MiB/.test(text(error))], [5, true]);
  });

  test('that comes in drips has a deadline', async (t) => {
    const server = await openServer(t, () => ({ parts: endless(' '), every: 10 }));
    const error = await listFailure(server, { limits: { total: 200 } });
    assert.deepEqual([error.code, /no whole answer within 0.2 s/.test(text(error))], [5, true]);
  });

  test('of a refusal that is too long is left', async (t) => {
    const server = await openServer(t, () => ({ ...status(403, 'Forbidden', 'x'.repeat(3 * 1024 * 1024)) }));
    const error = await failure(Array.fromAsync(server.cluster().logs('a', 'main', {})));
    assert.equal(error.code, 5);
  });

  test('that is slow is reported while it runs', async (t) => {
    const waits: string[] = [];
    const server = await openServer(t, () => ({ parts: [' ', ' ', '{}'], every: 800 }));
    await server.cluster({}, { onWait: (what) => void waits.push(what) }).job('a');
    assert.deepEqual(waits, ['read the job a']);
  });

  test('that is a stream is reported too while it does not begin', async (t) => {
    const waits: string[] = [];
    const server = createServer(({ url = '' }, outgoing) => {
      if (url.includes('/log')) setTimeout(() => outgoing.end('a line\n'), 2_300);
      else outgoing.end('{"status":{"phase":"Running"}}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const other = await openServer(t, () => ({ json: {} }));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const cluster = other.cluster({ cluster: { server: url } }, { onWait: (what) => void waits.push(what) });
    await Array.fromAsync(cluster.logs('a', 'main', {}));
    assert.deepEqual(waits, ['read the log of a']);
  });

  for (const [called, json] of [
    ['null', null],
    ['a text', 'abc'],
    ['a list', []],
    ['a name that is a number', { metadata: { name: 5 } }],
    ['metadata that are null', { metadata: null }],
    ['conditions that are a text', { status: { conditions: 'abc' } }],
  ] as const) {
    test(`that is ${called} is not from an API server`, async (t) => {
      const server = await openServer(t, () => ({ json: json as unknown as object }));
      for (const work of [
        () => server.cluster().job('a'),
        () => Array.fromAsync(server.cluster().jobs({})),
        () => server.cluster().configMap('a'),
      ]) {
        // An object without items is an empty list, and one with strange metadata a ConfigMap without data.
        try {
          await work();
        } catch (error) {
          assert.ok(error instanceof JobmanError, String(error));
          assert.equal(error.code, 5);
        }
      }
      assert.equal((await failure(server.cluster().job('a'))).code, 5);
    });
  }
});

suite('a list', () => {
  for (const [called, items] of [
    ['a text', 'abc'],
    ['a map', {}],
    ['a list with null', [null]],
    ['a list of texts', ['abc']],
    ['Jobs without sense', [{ metadata: 'x', spec: 5, status: { conditions: {} } }]],
  ] as const) {
    test(`whose items are ${called} is none`, async (t) => {
      const server = await openServer(t, () => ({ json: { items } }));
      assert.equal((await listFailure(server)).code, 5);
      assert.equal(
        (await failure(Array.fromAsync(server.cluster().pods({})).then(() => server.cluster().nodes()))).code,
        5,
      );
    });
  }

  test('that names the same page again is left', async (t) => {
    const server = await openServer(t, () => ({ json: { items: [], metadata: { continue: 'on' } } }));
    assert.equal((await listFailure(server)).code, 5);
    assert.ok(server.requests.length <= 4);
  });

  test('that is too old is renewed once', async (t) => {
    const server = await openServer(t, (_, number) =>
      status(410, 'Expired', 'too old', {}, { metadata: { continue: `new-${number}` } }),
    );
    assert.match(text(await listFailure(server)), /too old/);
    assert.equal(server.requests.length, 2);
  });

  test('that continues with new pages has a deadline', async (t) => {
    const server = await openServer(t, (_, number) => ({ json: { items: [], metadata: { continue: `${number}` } } }));
    const error = await listFailure(server, { listTimeout: 100 });
    assert.equal(error.code, 5);
    assert.match(text(error), /still incomplete after 0.1 s/);
  });
});

suite('a stream', () => {
  test('of events has a limit for each line', async () => {
    const body = async function* () {
      for (;;) yield Buffer.alloc(1024, 'x');
    };
    await assert.rejects(Array.fromAsync(splitLines(body(), 10 * 1024)), /is longer than/);
  });

  test(
    'of a log ends where its container never begins, because a step before it failed',
    { timeout: 20_000 },
    async (t) => {
      let checks = 0;
      const server = await openServer(t, ({ path }) => {
        const message = 'container "main" in pod "a" is waiting to start: PodInitializing';
        if (path.endsWith('/log')) return status(400, 'BadRequest', message);
        checks += 1;
        return { json: { status: { phase: checks < 2 ? 'Pending' : 'Failed' } } };
      });
      assert.deepEqual(await followed(server), []);
    },
  );

  test('of a log ends with a line that does not end, without another request', async (t) => {
    const server = await openServer(t, ({ path }) =>
      path.endsWith('/log') ? { parts: endless('x'.repeat(1024 * 1024)) } : { json: { status: { phase: 'Running' } } },
    );
    await assert.rejects(followed(server), LogLineTooLong);
    assert.equal(server.requestLines().filter((line) => line.endsWith('/log')).length, 1);
  });

  const slowly = { retry: { maxTries: 2, maxTriesIfBroken: 2, initialDelay: 20, maxDelay: 400 } };
  const timestamp = '2026-11-22T00:00:01.000000001Z';
  const running: Reply = { json: { status: { phase: 'Running' } } };

  test('of a log that ends at once is requested less and less often', async (t) => {
    const server = await openServer(t, ({ path }) => (path.endsWith('/log') ? { parts: [''] } : running));
    const signal = AbortSignal.timeout(1_000);
    assert.deepEqual(await Array.fromAsync(server.cluster({}, slowly).logs('a', 'main', { follow: true, signal })), []);
    assert.ok(server.requests.length < 20, `${server.requests.length} requests within a second`);
  });

  test('of a log that breaks off each time ends for a reader who does not follow', { timeout: 20_000 }, async (t) => {
    const server = await openServer(t, ({ path }) =>
      path.endsWith('/log') ? { parts: [`${timestamp} one\n${timestamp} tw`], cut: true } : running,
    );
    const error = await failure(Array.fromAsync(server.cluster().logs('a', 'main', {})));
    assert.equal(error.code, 5);
    assert.match(text(error), /closed the connection/);
  });

  test('of a log whose open line grows with each reply ends as one with too long a line', async (t) => {
    let seconds = 10;
    const server = await openServer(t, ({ path }) =>
      path.endsWith('/log')
        ? {
            parts: [
              `2026-11-22T00:00:${seconds++}.000000001Z ${String.fromCodePoint(55 + seconds).repeat(3 * 1024 * 1024)}`,
            ],
          }
        : running,
    );
    await assert.rejects(followed(server), LogLineTooLong);
    assert.ok(seconds < 20);
  });

  /** An empty list, and watches of these parts. */
  const watched = (t: TestContext, parts: () => readonly string[]): Promise<FakeServer> =>
    openServer(t, ({ query }) =>
      query.get('watch') === null ? { json: { items: [], metadata: { resourceVersion: '1' } } } : { parts: parts() },
    );

  for (const [called, parts] of [
    ['that end at once', ['']],
    ['that end behind one change', ['{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u"}}}\n']],
    ['that make no sense', ['\n\n\n']],
    ['with a failure', ['{"type":"ERROR","object":{"code":500}}\n']],
    ['with an expired version', ['{"type":"ERROR","object":{"code":410}}\n']],
  ] as const) {
    test(`of changes ${called} are asked for ever more seldom`, async (t) => {
      const server = await watched(t, () => parts);
      await Array.fromAsync(server.cluster({}, slowly).watchJobs({ signal: AbortSignal.timeout(1_000) }));
      assert.ok(server.requests.length < 20, `${server.requests.length} requests within a second`);
    });
  }

  test('of changes reports each sign of activity', async (t) => {
    const leave = new AbortController();
    const bookmark = JSON.stringify({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '2' } } });
    const server = await watched(t, () => [`${bookmark}\n`]);
    let heard = 0;
    const onHeard = (): void => {
      heard += 1;
      if (heard === 2) leave.abort();
    };
    for await (const change of server.cluster().watchJobs({ signal: leave.signal, onActivity: onHeard })) {
      assert.equal(change.kind, 'synced');
    }
    assert.equal(heard, 2);
  });

  test('of changes that makes no sense counts as lost, and all is listed again', async (t) => {
    let lists = 0;
    const server = await watched(t, () => {
      lists += 1;
      return ['null\n', '{"type":"ADDED","object":{"metadata":null}}\n', '5\n'];
    });
    const leave = new AbortController();
    const seen: string[] = [];
    for await (const change of server.cluster().watchJobs({ signal: leave.signal })) {
      seen.push(change.kind === 'lost' && change.why === null ? 'answered' : change.kind);
      if (lists >= 3) leave.abort();
    }
    assert.equal(lists, 3);
    assert.deepEqual(seen.slice(0, 5), ['synced', 'lost', 'synced', 'answered', 'lost']);
  });
});

suite('a kubeconfig that is broken', () => {
  const config = (ofCluster = '', user = '{token: t}'): string => `current-context: lab
contexts: [{name: lab, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"${ofCluster}}}]
users: [{name: u, user: ${user}}]
`;

  const cases: readonly (readonly [called: string, part: 'cluster' | 'user', yaml: string])[] = [
    ['a line end in the token', 'user', '{token: "abc\\n"}'],
    ['a token that is a number', 'user', '{token: 5}'],
    ['a user with a line end', 'user', '{as: "a\\nb", token: t}'],
    ['groups that are a map', 'user', '{as: ada, as-groups: {a: b}, token: t}'],
    ['a program without a command', 'user', '{exec: {args: [a]}}'],
    ['a program that is a list', 'user', '{exec: [a]}'],
    ['a program with numbers as arguments', 'user', '{exec: {command: "true", args: 5}}'],
    ['a program with a NUL in its name', 'user', '{exec: {command: "tr\\0ue"}}'],
    ['a certificate that is not a PEM', 'user', '{client-certificate-data: YWJj, client-key-data: YWJj}'],
    ['an authority that is not a PEM', 'cluster', 'certificate-authority-data: YWJj'],
    ['an authority that is a number', 'cluster', 'certificate-authority-data: 5'],
    ['an authority that is a device', 'cluster', 'certificate-authority: /dev/zero'],
    ['a token file that is a device', 'user', '{tokenFile: /dev/zero}'],
    ['a token file that is a FIFO', 'user', '{tokenFile: fifo}'],
    ['a proxy that is a number', 'cluster', 'proxy-url: 5'],
    ['a proxy that is not an address', 'cluster', 'proxy-url: "::"'],
    ['a server name that is a number', 'cluster', 'tls-server-name: 5'],
  ];
  for (const [called, part, yaml] of cases) {
    test(`by ${called} is unreachable, in one sentence`, async (t) => {
      assert.equal((await asked(t, part, yaml)).code, 5);
    });
  }

  test('a kubeconfig that is a FIFO or a device is not waited for', async (t) => {
    const { folder } = openWorld(t);
    execFileSync('mkfifo', [join(folder, 'fifo')]);
    for (const file of [join(folder, 'fifo'), '/dev/zero']) {
      const sources = { setting: { type: 'file', file } as const, env: {}, userHome: folder, cwd: folder };
      const error = await failure(readKubeContext(sources, {}));
      assert.deepEqual([error.code, /not a regular file/.test(error.message)], [5, true]);
    }
  });

  test('a kubeconfig from a pipe of the shell is read once', async (t) => {
    const { folder } = openWorld(t);
    const fifo = join(folder, 'fifo');
    execFileSync('mkfifo', [fifo]);
    const end = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    t.after(() => closeSync(end));
    const writer = openSync(fifo, constants.O_WRONLY);
    writeSync(writer, config());
    const env = { KUBECONFIG: `/dev/fd/${end}` };
    const sources = { setting: { type: 'default', file: null } as const, env, userHome: folder, cwd: '/' };
    closeSync(writer);
    assert.equal((await readKubeContext(sources, {})).name, 'lab');
    assert.equal((await readKubeContext(sources, {})).name, 'lab');
  });

  /** Reads it and asks what is at its server, which is a port of loopback that nothing listens on. */
  async function asked(t: TestContext, part: 'cluster' | 'user', yaml: string): Promise<JobmanError> {
    const { folder } = openWorld(t);
    execFileSync('mkfifo', [join(folder, 'fifo')]);
    const file = join(folder, 'config');
    writeFileSync(file, part === 'user' ? config('', yaml) : config(`, ${yaml}`));
    const error = await failure(
      (async () => {
        const sources = { setting: { type: 'file', file } as const, env: {}, userHome: folder, cwd: folder };
        const context = await readKubeContext(sources, {});
        const cluster = createCluster({ context, flavorKey: 'f', env: {}, now: () => now });
        t.after(() => cluster.close());
        await cluster.job('a');
      })(),
    );
    assert.doesNotMatch(text(error), /ECONNREFUSED/);
    return error;
  }
});

test('an invalid time is null', () => {
  for (const at of ['+275760-09-14T00:00:00Z', '2026-99-99T00:00:00Z', '']) {
    const { createdAt, startedAt } = readJob({ metadata: { creationTimestamp: at }, status: { startTime: at } }, 'f');
    assert.deepEqual([createdAt, startedAt], [0, null]);
    assert.equal(readEvent({ lastTimestamp: at }).lastAt, 0);
  }
});

test('a taint and a priority of another kind make the answer one of no API server', () => {
  const strange: unknown = { spec: { taints: [{ key: 5, effect: 'NoSchedule' }] } };
  assert.throws(() => readNode(strange as Parameters<typeof readNode>[0]), TypeError);
  const value: unknown = { value: 'much' };
  assert.throws(() => readPriority(value as Parameters<typeof readPriority>[0]), TypeError);
});

test('a count is a whole number that a machine can hold', () => {
  for (const parallelism of ['1e400', '-1e400', '1.5', '1e30', '"5"', '[]']) {
    const job = JSON.parse(`{"spec":{"parallelism":${parallelism}}}`) as Parameters<typeof readJob>[0];
    assert.throws(() => readJob(job, 'f'), TypeError, parallelism);
  }
  assert.equal(readJob({ spec: { parallelism: 5 } }, 'f').parallelism, 5);
});

test('the index of a pod is a number, or none', () => {
  const indexOf = (written: string): number | null =>
    readPod({ metadata: { annotations: { 'batch.kubernetes.io/job-completion-index': written } } }).index;
  assert.deepEqual(['7', '12abc', '', '1e400', '-1', 'NaN'].map(indexOf), [7, null, null, null, null, null]);
});

test('a refusal whose parts are of other kinds is a refusal with its text', () => {
  const context = { context: 'lab', namespace: 'vision', server: 'https://x', user: 'ada' };
  for (const strange of ['{}', '5', 'null', '[null]', '"x"', '[{"message":{}},null,5]']) {
    for (const code of [400, 401, 403, 404, 409, 422, 429, 500]) {
      const status = `{"kind":"Status","message":${strange},"reason":${strange},"metadata":${strange},"details":{"name":${strange},"kind":${strange},"causes":${strange},"retryAfterSeconds":${strange}}}`;
      const { message, lines } = refusalOf(readStatus(code, Buffer.from(status)), {
        clusterContext: context,
        purpose: 'try it',
      });
      for (const line of [message, ...lines]) assert.doesNotMatch(line, /\[object|undefined|NaN/);
    }
  }
});
