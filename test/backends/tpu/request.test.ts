// Asking: what is sent, compared with what gcloud sends (facts 10), and what each reply means.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createGoogleApiClient, createTpuApi } from '../../../src/backends/tpu/api.ts';
import { createTpuCapacity, requestAllocation } from '../../../src/backends/tpu/capacity.ts';
import type { OutcomeResult } from '../../../src/core/model/observation.ts';
import { fixedClock, labels, name, nodeOf, queuedOf, tpuRef, type RefOptions } from './support/refs.ts';
import { failure, listen, openTpuServer, parent, type RecordedRequest, type TpuServer } from './support/server.ts';

const keys = 'alice:ssh-ed25519 AAAA jobman';
const queue = { mode: 'queued-resources' } as const;

function kind(result: OutcomeResult): string {
  return result.kind === 'refused' || result.kind === 'failed' ? `${result.kind} ${result.error?.kind}` : result.kind;
}

/** The one question that a request with these options comes to. */
async function sent(server: TpuServer, options: RefOptions = {}): Promise<RecordedRequest> {
  assert.deepEqual(await requestAllocation(server.api, tpuRef(options), keys), { kind: 'done' });
  const [asked] = server.requests.splice(0);
  assert.ok(asked);
  server.empty();
  return asked;
}

suite('the request', () => {
  test('for a node is what gcloud sends for `tpu-vm create --spot`, with our labels and keys', async (t) => {
    const asked = await sent(await openTpuServer(t));
    assert.equal(`${asked.method} ${asked.path}`, `POST /v2/${parent}/nodes`);
    assert.deepEqual([...asked.query], [['nodeId', name]]);
    assert.equal(asked.headers['content-type'], 'application/json');
    // gcloud leaves nothing out that it could say with a default (network, shieldedInstanceConfig, false tiers); the
    // defaults are the same without them.
    assert.deepEqual(asked.body, {
      acceleratorType: 'v4-16',
      runtimeVersion: 'tpu-ubuntu2204-base',
      networkConfig: { enableExternalIps: true },
      labels,
      metadata: { 'ssh-keys': keys },
      schedulingConfig: { spot: true },
    });
  });

  test('for a queued resource is what gcloud sends for `queued-resources create --spot`', async (t) => {
    const asked = await sent(await openTpuServer(t), { spec: queue });
    assert.equal(`${asked.method} ${asked.path}`, `POST /v2/${parent}/queuedResources`);
    assert.equal(asked.query.get('queuedResourceId'), name);
    assert.match(
      asked.query.get('requestId') ?? '',
      /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    assert.deepEqual(asked.body, {
      spot: {},
      tpu: {
        nodeSpec: [
          {
            parent,
            nodeId: name,
            node: {
              acceleratorType: 'v4-16',
              runtimeVersion: 'tpu-ubuntu2204-base',
              networkConfig: { enableExternalIps: true },
              labels,
              metadata: { 'ssh-keys': keys },
            },
          },
        ],
      },
    });
  });

  const tiers = [
    ['tpu-vm', 'spot', 'v2', { schedulingConfig: { spot: true } }],
    ['tpu-vm', 'preemptible', 'v2', { schedulingConfig: { preemptible: true } }],
    ['tpu-vm', 'ondemand', 'v2', { schedulingConfig: {} }],
    ['queued-resources', 'spot', 'v2', { spot: {} }],
    // The preemptible tier of the queue is not in v2.
    ['queued-resources', 'preemptible', 'v2alpha1', { bestEffort: {} }],
    ['queued-resources', 'ondemand', 'v2', {}],
  ] as const;
  for (const [mode, pricing, version, part] of tiers) {
    test(`of the tier ${pricing} in ${mode}`, async (t) => {
      const asked = await sent(await openTpuServer(t), { spec: { mode, pricing } });
      assert.ok(asked.path.startsWith(`/${version}/`));
      const { spot, bestEffort, schedulingConfig } = asked.body as Record<string, unknown>;
      const given = Object.entries({ spot, bestEffort, schedulingConfig }).filter(([, value]) => value !== undefined);
      assert.deepEqual(Object.fromEntries(given), part);
    });
  }

  test('takes along tags, metadata and the startup script, and adds to the keys of the manifest', async (t) => {
    const spec = {
      networkTags: ['allow-nfs'],
      startupScript: '#!/bin/sh\ntrue\n',
      metadata: { 'ssh-keys': 'bob:ssh-rsa BBBB bob\n', team: 'x', 'startup-script': 'overruled' },
    };
    const { tags, metadata } = (await sent(await openTpuServer(t), { spec })).body as Record<string, unknown>;
    assert.deepEqual(tags, ['allow-nfs']);
    assert.deepEqual(metadata, {
      'ssh-keys': `bob:ssh-rsa BBBB bob\n${keys}`,
      team: 'x',
      'startup-script': '#!/bin/sh\ntrue\n',
    });
  });

  test('for a shared TPU carries its own name, a label of ours that names no job, and its owner', async (t) => {
    const asked = await sent(await openTpuServer(t), {
      spec: { ownership: 'persistent' },
      allocation: { name: 'lab-v4' },
    });
    assert.equal(asked.query.get('nodeId'), 'lab-v4');
    const body = asked.body as { labels?: unknown; metadata?: Readonly<Record<string, string>> };
    assert.deepEqual(body.labels, { 'jobman-installation': 'ab12cd', 'jobman-shared': 'true' });
    assert.equal(body.metadata?.['owner'], 'alice');
  });

  test('has one id while it is repeated, and another after the cloud has answered it with an error', async (t) => {
    const server = await openTpuServer(t);
    const ids = [];
    for (const requestFailures of [0, 0, 1]) {
      ids.push(
        (await sent(server, { spec: queue, allocation: { errorCount: requestFailures } })).query.get('requestId'),
      );
    }
    const other = await sent(server, { spec: queue, allocation: { ordinal: 2 } });
    assert.equal(ids[0], ids[1]);
    assert.equal(new Set([...ids, other.query.get('requestId')]).size, 3);
  });

  test('labels what Google takes for labels', async (t) => {
    const { labels: made } = (await sent(await openTpuServer(t))).body as { labels: Record<string, string> };
    for (const [key, value] of Object.entries(made)) {
      assert.match(key, /^[a-z][a-z0-9_-]{0,62}$/);
      assert.match(value, /^[a-z0-9_-]{0,63}$/);
    }
  });
});

suite('the reply', () => {
  const posts = (asked: RecordedRequest) => asked.method === 'POST';

  const replies = [
    ['an operation', undefined, 'done'],
    ['cut before it was sent, as far as we know', 'drop', 'unclear'],
    ['lost', 'lose', 'unclear'],
    [
      'the service is away: gcloud repeats a create then, and finds it made',
      failure(503, 'UNAVAILABLE', 'The service is currently unavailable.'),
      'unclear',
    ],
    ['an internal error', failure(500, 'INTERNAL', 'oops'), 'unclear'],
    ['a gateway that gave up', { status: 504, body: '<html></html>' }, 'unclear'],
    [
      'no quota',
      failure(429, 'RESOURCE_EXHAUSTED', "Quota limit 'X' has been exceeded. Limit: 0 in region us-east5."),
      'failed quota',
    ],
    [
      'too many requests',
      failure(429, 'RESOURCE_EXHAUSTED', 'Maximum number of CreateNode requests per minute'),
      'failed rate_limited',
    ],
    [
      'a missing right',
      failure(403, 'PERMISSION_DENIED', "Permission 'tpu.nodes.create' denied"),
      'refused permission',
    ],
    [
      'an unknown type',
      failure(400, 'INVALID_ARGUMENT', 'the accelerator v6e-1 was not found in zone asia-east1-a'),
      'refused invalid',
    ],
    ['no such project', failure(404, 'NOT_FOUND', 'Resource was not found'), 'refused not_found'],
    [
      'an expired login',
      failure(401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials.'),
      'failed unreachable',
    ],
    [
      'an operation that has failed already',
      { status: 200, body: { name: 'o', done: true, error: { code: 8, message: 'no more capacity' } } },
      'failed stockout',
    ],
    [
      'an operation that was refused already',
      { status: 200, body: { name: 'o', done: true, error: { code: 7, message: 'no' } } },
      'refused permission',
    ],
  ] as const;
  for (const [what, fault, expected] of replies) {
    for (const mode of ['tpu-vm', 'queued-resources'] as const) {
      test(`${mode}: ${what}: ${expected}`, async (t) => {
        const server = await openTpuServer(t);
        server.fault = (asked) => (posts(asked) ? fault : undefined);
        const result = await requestAllocation(server.api, tpuRef({ spec: { mode } }), keys);
        assert.equal(kind(result), expected);
        if (result.kind !== 'done') assert.notEqual(result.evidence.message, '');
      });
    }
  }

  test('was lost, and the next request finds it made', async (t) => {
    for (const mode of ['tpu-vm', 'queued-resources'] as const) {
      const server = await openTpuServer(t);
      server.fault = () => 'lose';
      assert.equal((await requestAllocation(server.api, tpuRef({ spec: { mode } }), keys)).kind, 'unclear');
      server.fault = () => undefined;
      assert.equal((await requestAllocation(server.api, tpuRef({ spec: { mode } }), keys)).kind, 'done');
      assert.equal(server.world.nodes.values().length + server.world.queued.values().length, 1);
    }
  });

  test('says that the name is taken: by us, or by another', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf());
    assert.equal(kind(await requestAllocation(server.api, tpuRef(), keys)), 'done');
    server.addNode(nodeOf({ labels: {} }));
    assert.equal(kind(await requestAllocation(server.api, tpuRef(), keys)), 'refused invalid');
    server.addQueued(queuedOf('WAITING_FOR_RESOURCES'));
    assert.equal(kind(await requestAllocation(server.api, tpuRef({ spec: queue }), keys)), 'done');
    server.addQueued(queuedOf('WAITING_FOR_RESOURCES', { node: { labels: {} } }));
    assert.equal(kind(await requestAllocation(server.api, tpuRef({ spec: queue }), keys)), 'refused invalid');
    const persistent = tpuRef({ spec: { ownership: 'persistent' }, allocation: { name } });
    server.addNode(nodeOf({ labels: {} }));
    assert.equal(kind(await requestAllocation(server.api, persistent, keys)), 'done');
  });

  test('reports that the name is taken, and its owner is unknown', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf());
    server.fault = ({ method }) => (method === 'GET' ? failure(503, 'UNAVAILABLE', 'away') : undefined);
    assert.equal(kind(await requestAllocation(server.api, tpuRef(), keys)), 'unclear');
  });
});

test('without keys to log in with nothing is asked for', async (t) => {
  const server = await openTpuServer(t);
  const capacity = createTpuCapacity({
    apiFor: () => server.api,
    clock: fixedClock,
    sshKeyLines: () => Promise.reject(new Error('ENOSPC: no space left on device')),
  });
  const result = await capacity.request(tpuRef());
  assert.equal(result.kind, 'failed');
  assert.match(result.kind === 'failed' ? result.evidence.message : '', /keys .* no space left/);
  assert.equal(server.requests.length, 0);
});

test('to a closed port sends nothing, and the message has the address', async () => {
  // Opened and closed again, so that no program listens on it.
  const { port, close } = await listen();
  await close();
  const api = createTpuApi(
    createGoogleApiClient({
      env: {},
      endpoint: () => Promise.resolve(`http://127.0.0.1:${port}`),
      credentials: { headers: () => Promise.resolve({}), invalidate: () => '' },
    }),
  );
  const result = await requestAllocation(api, tpuRef(), keys);
  assert.equal(kind(result), 'failed unreachable');
  assert.match(result.kind === 'failed' ? result.evidence.message : '', new RegExp(`127.0.0.1:${port} did not answer`));
});

test('without an endpoint or a login sends nothing', async (t) => {
  const server = await openTpuServer(t);
  const sentence = 'Google Cloud does not accept the login of this machine';
  for (const options of [
    {
      endpoint: () => Promise.reject(new Error(sentence)),
      credentials: { headers: () => Promise.resolve({}), invalidate: () => '' },
    },
    {
      endpoint: () => Promise.resolve(server.url),
      credentials: { headers: () => Promise.reject(new Error(sentence)), invalidate: () => '' },
    },
  ]) {
    const result = await requestAllocation(
      createTpuApi(createGoogleApiClient({ env: {}, ...options })),
      tpuRef(),
      keys,
    );
    assert.equal(kind(result), 'failed unreachable');
    assert.equal(result.kind === 'failed' && result.evidence.message, sentence);
  }
  assert.equal(server.requests.length, 0);
});
