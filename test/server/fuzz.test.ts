/**
 * Requests that no client sends: arguments of the right types with any values, and requests without sense, for every
 * operation and role. No request makes the server fail, and no answer has a stack.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import schemas from '../../src/api/arguments.schema.json' with { type: 'json' };
import { apiRoutes, type ApiOperation, type Route } from '../../src/api/routes.ts';
import type { Client } from '../../src/app/client.ts';
import { clusterAccessFor, type ClusterAccessParts } from '../../src/app/cluster/cluster-client.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { roles, type Role } from '../../src/core/model/user.ts';
import { labClientFor } from '../../src/lab/lab-client.ts';
import type { ServerClient } from '../../src/http-client/client.ts';
import { openStore } from '../../src/store/store.ts';
import { createCliHarness, fakeCluster } from '../cli/support/harness.ts';
import { aLab } from '../cli/tpu/lab-world.ts';
import { localSpec, noon, tpuSpec } from '../support/builders.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { createConfirmed } from '../support/create-confirmed.ts';
import { requirePostgres } from '../support/postgres.ts';
import { arbitraryOf, type Definitions, type JsonSchema } from '../support/schema-arbitrary.ts';
import { openWorld } from '../support/world.ts';
import { send } from './support/send.ts';
import { openServer, token } from './support/server.ts';

const { $defs, operations } = schemas as unknown as {
  readonly $defs: Definitions;
  readonly operations: Readonly<Record<ApiOperation, JsonSchema>>;
};

/** The jobs of the store, and texts that mean something to a database, a file system or a URL. */
const texts = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('1', '2', '000001', 'iris', 'vit', 'ada', 'docker', 'job', 'lab', 'v4-8') },
  fc.constantFrom(
    '',
    '.',
    '..',
    '../..',
    '/etc/passwd',
    "' or 1 = 1 --",
    '%',
    '\u0000',
    '${job.id}',
    '-1',
    '9'.repeat(40),
  ),
  fc.string({ unit: 'binary', maxLength: 12 }),
  // Cursors that no page has given.
  fc
    .tuple(
      fc.constantFrom('jobs', 'events', 'usage', 'tokens', 'messages', 'audit', 'archive', 'archived-events'),
      fc.array(
        fc.oneof(
          fc.constantFrom(-1, 0, 1, 2 ** 31 - 1, 2 ** 53 - 1, 1e300),
          fc.constantFrom('', 'ada', '\ud800', '\0'),
        ),
        {
          maxLength: 3,
        },
      ),
    )
    .map(([list, key]) => Buffer.from(JSON.stringify([list, ...key])).toString('base64url')),
);

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: Uint8Array;
}

/** Sends what the client would send for these arguments, without a check of them. */
function typedRequests(operation: ApiOperation, route: Route): fc.Arbitrary<readonly unknown[]> {
  const { properties = {}, required = [] } = operations[operation];
  const all = route.arguments.map(([carrier, name]) => {
    if (carrier === 'bytes') return fc.uint8Array({ maxLength: 20 });
    if (carrier === 'blobs')
      return fc.array(
        fc.record({ digest: texts, content: fc.uint8Array({ maxLength: 9 }) }, { noNullPrototype: true }),
      );
    const value = arbitraryOf(properties[name] ?? {}, $defs, texts);
    return required.includes(name) ? value : fc.option(value, { nil: undefined });
  });
  return fc.tuple(...all);
}

function wildRequests({ method, path, arguments: given }: Route): fc.Arbitrary<Request> {
  const segments = fc.array(
    fc.oneof(
      texts.map((text) => encodeURIComponent(text.toWellFormed())),
      fc.constantFrom('%', '%zz', '%2e%2e', '*'),
    ),
    {
      minLength: 4,
      maxLength: 4,
    },
  );
  const names = fc.constantFrom(
    ...given.map(([, name]) => name),
    'x',
    'all',
    'since',
    'attempt',
    'phases',
    '__proto__',
  );
  const query = fc.array(fc.tuple(names, fc.oneof(texts, fc.json({ maxDepth: 1 }))), { maxLength: 3 });
  const body = fc.oneof(
    fc.json().map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 30 }).map((value) => Buffer.from(value)),
    fc.dictionary(names, fc.jsonValue()).map((value) => Buffer.from(JSON.stringify(value))),
  );
  return fc
    .record({ segments, query, body, other: fc.constantFrom(method, method, method, 'PUT', 'POST', 'OPTIONS') })
    .map((one) => {
      let at = 0;
      const filled = path.replaceAll(/\{\w+\}/g, () => one.segments[at++] ?? 'x');
      const parameters = new URLSearchParams(one.query.map(([name, value]) => [name, value.toWellFormed()]));
      return {
        method: one.other,
        path: `${filled}?${parameters.toString()}`,
        ...(one.other === 'GET' ? {} : { body: one.body }),
      };
    });
}

/** Without an end, a path with `..` that leads there would never be answered. */
async function* changesSince(): AsyncIterable<never> {}

const runs = 25;

type Method = (...values: readonly unknown[]) => unknown;

const outside = () => Promise.reject(new JobmanError('The outside is not there.', exitCode.unreachable));

/** A cluster with one job and its pod, of which only reads answer. */
function clusterParts(client: Client): ClusterAccessParts {
  const { services } = createCliHarness();
  const cluster = fakeCluster({
    async *jobs() {
      yield [aClusterJob({ name: 'iris' })];
    },
    async *pods() {
      yield [aClusterPod({ name: 'vit', job: 'iris' })];
    },
    async *unscheduledPods() {},
    async *watchJobs() {},
    async *logs() {},
    job: async (name: string) => (name === 'iris' ? aClusterJob({ name }) : null),
    raw: async () => null,
    ...Object.fromEntries(
      ['podUsage', 'nodes', 'priorityClasses', 'queuePriorityClasses', 'quotas', 'configMap'].map((name) => [
        name,
        async () => null,
      ]),
    ),
    ...Object.fromEntries(['create', 'patch', 'remove'].map((name) => [name, outside])),
  });
  return {
    ...services,
    client,
    cluster: async () => cluster,
    namedSecret: outside,
  };
}

/** A server with two jobs, for a user with that role. Without a URL the database is SQLite. */
async function openAs(t: TestContext, role: Role, url?: string) {
  const world = openWorld(t);
  const store = openStore(url === undefined ? { file: join(world.home, 'state.db') } : { url });
  const parts = clientParts(world.home, store, {
    now: () => noon,
    channels: outside,
    clouds: outside,
    registry: outside,
    workerRoutes: outside,
    workerMeter: outside,
    openStepRunner: outside,
  });
  world.atEnd(() => store.close());
  const ada = clientFor(async () => ({ user: 'ada', role: 'member', via: 'token', logins: [] }), parts);
  await createConfirmed(ada, { spec: localSpec({ name: 'iris' }), manifest: 'job: {name: iris}\n' });
  await createConfirmed(ada, { spec: tpuSpec(), manifest: 'job: {name: vit}\n' });
  const actor = { user: 'ada', role, via: 'token', logins: [] } as const;
  const over = clientFor(async () => actor, parts);
  const lab = aLab(store.lab, { project: async () => 'lab', sheet: outside, tpus: outside, tmuxWindows: outside });
  const labOf = () => labClientFor(over, lab, parts);
  const clustersOf = () => clusterAccessFor(actor, clusterParts(over), parts);
  return openServer(t, { client: { ...over, changesSince }, labOf, clustersOf });
}

suite('no request makes the server fail,', { timeout: 300_000 }, () => {
  const cases = [
    ...roles.map((role) => ({ role, database: 'SQLite' })),
    { role: 'admin', database: 'PostgreSQL' },
  ] as const;
  for (const { role, database } of cases)
    test(`as ${role} on ${database}`, async (t) => {
      const postgres = database === 'SQLite' ? undefined : await requirePostgres(t);
      if (database === 'PostgreSQL' && postgres === undefined) return;
      const { server, client, bugs } = await openAs(t, role, await postgres?.emptyDatabase());
      const check = ({ status, text }: { readonly status: number; readonly text: string }, what: unknown): void => {
        const isOutside = status === 503 && text.includes('The outside is not there.');
        assert.ok(
          (status < 500 || isOutside) && !/\n\s+at |\.ts:\d/.test(text),
          `${JSON.stringify(what)} ${status} ${text}`,
        );
      };
      for (const [operation, route] of apiRoutes) {
        const [name = '', family] = operation.split('.').toReversed();
        const called = (family === undefined ? client : (client as ServerClient)[family as 'lab']) as object as Record<
          string,
          Method
        >;
        const method: Method = (...values) => called[name]?.(...values);
        await fc.assert(
          fc.asyncProperty(typedRequests(operation, route), async (values) => {
            try {
              const answer = method(...values);
              await (answer instanceof Promise ? answer : Array.fromAsync(answer as AsyncIterable<unknown>));
            } catch (error) {
              assert.ok(error instanceof JobmanError, String(error));
              const isBug = error.code === exitCode.failed && /bug in jobman/.test(error.message);
              assert.ok(!isBug, `${operation}: ${bugs.at(-1)}`);
            }
          }),
          { numRuns: route.arguments.length === 0 ? 1 : runs },
        );
        await fc.assert(
          fc.asyncProperty(wildRequests(route), async (request) =>
            check(await send(server.url, request.path, request), request),
          ),
          { numRuns: runs },
        );
      }
      assert.deepEqual(bugs, []);
    });

  test('as any bytes on the connection', async (t) => {
    const { server, bugs } = await openAs(t, 'member');
    const { port } = new URL(server.url);
    const values = fc.oneof(
      texts,
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
      fc.constantFrom('a'.repeat(20_000), 'Bearer ', 'http://[', '0', '-1', '1e9', 'chunked', 'gzip', '\t', '\r\n\r\n'),
    );
    const knownNames =
      'authorization content-length transfer-encoding host cookie if-none-match last-event-id idempotency-key expect ' +
      'upgrade connection x-forwarded-for content-encoding range origin';
    const names = fc.constantFrom(...knownNames.split(' '));
    const requests = fc.record({
      method: fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'CONNECT', 'TRACE', 'x', ''),
      path: fc.oneof(
        values.map((text) => `/v1/jobs/${text}`),
        values,
        fc.constantFrom('*', '//', '/v1/../../etc/passwd', '/v1/jobs/%00', 'http://other.example/v1/jobs', '/metrics'),
      ),
      headers: fc.array(fc.tuple(fc.oneof(names, values), values), { maxLength: 5 }),
      isKnown: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(requests, async ({ method, path, headers, isKnown }) => {
        const own = isKnown ? [`authorization: Bearer ${token}`] : [];
        const lines = [...own, ...headers.map(([name, value]) => `${name}: ${value}`), 'connection: close'];
        const text = await exchange(
          Number(port),
          `${method} ${path} HTTP/1.1\r\nhost: a\r\n${lines.join('\r\n')}\r\n\r\n`,
        );
        assert.doesNotMatch(text, /^HTTP\/1\.1 5|\n\s+at |\.ts:\d/, JSON.stringify({ method, path, headers }));
      }),
      { numRuns: 1_500 },
    );
    assert.deepEqual(bugs, []);
    assert.equal((await send(server.url, '/healthz', { headers: {} })).status, 200);
  });
});

/** The answer until the server closes the connection. The request has no further bytes. */
function exchange(port: number, request: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(port, '127.0.0.1');
    socket.on('data', (part) => (text += String(part))).on('error', () => undefined);
    socket.on('close', () => resolve(text));
    socket.end(request, 'latin1');
  });
}
