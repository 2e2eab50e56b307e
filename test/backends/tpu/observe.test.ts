// Observations: few requests however many jobs, and no failed request means an absence.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { AllocationRef } from '../../../src/app/ports.ts';
import type { Operation, TpuApi, TpuNode } from '../../../src/backends/tpu/api.ts';
import { observeAllocations, requestAllocation } from '../../../src/backends/tpu/capacity.ts';
import type { AllocationStatus, Observed } from '../../../src/core/model/observation.ts';
import { hour, minute } from '../../../src/core/model/time.ts';
import { fixedClock, labels, name, nodeOf, now, queuedOf, tpuRef, type RefOptions } from './support/refs.ts';
import { failure, openTpuServer, parent, type TpuServer } from './support/server.ts';

const queue = { mode: 'queued-resources' } as const;

function observe(api: TpuApi, ...refs: readonly AllocationRef[]): Promise<readonly Observed<AllocationStatus>[]> {
  return observeAllocations(refs, { apiFor: () => api, clock: fixedClock });
}

async function observeOne(server: TpuServer, ref: AllocationRef): Promise<AllocationStatus> {
  const [fact] = await observe(server.api, ref);
  assert.equal(fact?.kind, 'known');
  return fact.value;
}

/** A create of that target, as its operation reports it. */
function create(target: string, part: Partial<Operation> & { readonly at?: string } = {}): Operation {
  const { at = '2026-05-01T11:59:30Z', ...rest } = part;
  return {
    name: `${parent}/operations/operation-${at}-${target.replaceAll('/', '-')}`,
    metadata: { verb: 'create', target: `${parent}/${target}`, createTime: at },
    ...rest,
  };
}

const stockout = { code: 8, message: 'There is no more capacity in the zone "us-central2-b" [EID: 0x1]' };

suite('many jobs', () => {
  test('of one zone are one list of nodes, and one of queued resources if a job needs it', async (t) => {
    const server = await openTpuServer(t);
    const refs = Array.from({ length: 200 }, (_, index) => {
      const id = String(index + 1).padStart(6, '0');
      const mode = index % 2 === 0 ? 'tpu-vm' : 'queued-resources';
      const ref = tpuRef({ job: { id }, spec: { mode } });
      const own = { id: ref.allocation.name, labels: { ...labels, 'jobman-job': id } };
      if (mode === 'queued-resources') server.addQueued(queuedOf('ACTIVE', { id: own.id, node: own }));
      server.addNode(nodeOf(own));
      return ref;
    });
    const facts = await observe(server.api, ...refs);
    assert.equal(facts.filter((fact) => fact.kind === 'known' && fact.value.state === 'ready').length, 200);
    assert.deepEqual(server.requestLines(), ['GET queuedResources', 'GET nodes']);
  });

  test('of several zones are asked about zone by zone, and answered in the order of the question', async (t) => {
    const server = await openTpuServer(t);
    const here = tpuRef({ job: { id: '000001' } });
    const there = tpuRef({ job: { id: '000002' }, spec: { zone: 'us-east5-b' } });
    const alsoHere = tpuRef({ job: { id: '000003' } });
    server.fault = ({ path }) => (path.includes('us-east5-b') ? failure(503, 'UNAVAILABLE', 'away') : undefined);
    const facts = await observe(server.api, here, there, alsoHere);
    assert.deepEqual(
      facts.map((fact) => (fact.kind === 'known' ? fact.value.state : fact.reason)),
      ['absent', 'UNAVAILABLE: away', 'absent'],
    );
  });

  test('that wait for their next request cost no question by name', async (t) => {
    const server = await openTpuServer(t);
    const refs = Array.from({ length: 50 }, (_, index) =>
      tpuRef({ job: { id: String(index).padStart(6, '0') }, allocation: { confirmedAt: null, errorCount: 3 } }),
    );
    await observe(server.api, ...refs);
    assert.deepEqual(server.requestLines(), ['GET nodes']);
  });
});

suite('a list', () => {
  test('is followed to its last page', async (t) => {
    const server = await openTpuServer(t);
    for (const id of ['a', 'b', 'c', 'd', name]) server.addNode(nodeOf({ id }));
    server.pageLength = 2;
    assert.equal((await observeOne(server, tpuRef())).state, 'ready');
    assert.deepEqual(
      server.requestLines().map((question) => question.replace(/=.*/, '')),
      ['GET nodes', 'GET nodes?pageToken', 'GET nodes?pageToken'],
    );
  });

  test('is requested without indentation, which is a third of its length', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf({ id: name }));
    await observeOne(server, tpuRef());
    assert.deepEqual(
      server.requests.map(({ query }) => query.get('prettyPrint')),
      ['false'],
    );
  });

  test('whose second page fails is not a list', async (t) => {
    const server = await openTpuServer(t);
    for (const id of ['a', 'b', name]) server.addNode(nodeOf({ id }));
    server.pageLength = 2;
    server.fault = ({ query }) => (query.has('pageToken') ? failure(500, 'INTERNAL', 'broken') : undefined);
    const [fact] = await observe(server.api, tpuRef());
    assert.deepEqual(fact, { kind: 'unknown', reason: 'INTERNAL: broken', since: now });
  });

  test('that goes round in circles is not a list', async (t) => {
    const server = await openTpuServer(t);
    server.fault = () => ({ status: 200, body: { nodes: [], nextPageToken: 'again' } });
    const [fact] = await observe(server.api, tpuRef());
    assert.equal(fact?.kind, 'unknown');
    assert.equal(server.requests.length, 2);
  });

  test('that could not ask its zone is not a list', async (t) => {
    const server = await openTpuServer(t);
    server.unreachable = ['us-central2-b'];
    const [fact] = await observe(server.api, tpuRef());
    assert.match(fact?.kind === 'unknown' ? fact.reason : '', /incomplete: Google could not reach us-central2-b/);
  });

  test('that leaves something out is not believed: it is asked for by name', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf());
    server.unlisted.add(nodeOf().name);
    assert.equal((await observeOne(server, tpuRef({ allocation: { readyAt: now - minute } }))).state, 'ready');
    assert.deepEqual(server.requestLines(), ['GET nodes', `GET nodes/${name}`]);
  });

  test('of the queue that leaves something out, too', async (t) => {
    const server = await openTpuServer(t);
    server.addQueued(queuedOf('WAITING_FOR_RESOURCES'));
    server.unlisted.add(queuedOf('').name);
    assert.equal((await observeOne(server, tpuRef({ spec: queue }))).state, 'waiting');
  });

  test('with an entry of an unexpected form counts for the others, and that resource is asked for by name', async (t) => {
    const server = await openTpuServer(t);
    const wrong = { ...nodeOf(), state: 7 };
    const other = nodeOf({ id: 'other-000008-1' });
    server.fault = ({ path }) => {
      if (path.endsWith('/nodes')) return { status: 200, body: { nodes: [wrong, other] } };
      return path.endsWith('/queuedResources')
        ? { status: 200, body: { queuedResources: [{ ...queuedOf('ACTIVE'), state: 'ACTIVE' }] } }
        : { status: 200, body: wrong };
    };
    const ofOther = tpuRef({ job: { id: '000008' }, allocation: { name: 'other-000008-1', readyAt: now - minute } });
    const wasReady = { allocation: { readyAt: now - minute } };
    const [mine, theirs, queued] = await observe(
      server.api,
      tpuRef(wasReady),
      ofOther,
      tpuRef({ ...wasReady, spec: queue }),
    );
    assert.deepEqual([mine?.kind, theirs?.kind, queued?.kind], ['unknown', 'known', 'unknown']);
  });

  test('of the queue that fails says nothing against a job that is not in the queue', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf());
    server.fault = ({ path }) => (path.endsWith('queuedResources') ? failure(503, 'UNAVAILABLE', 'away') : undefined);
    const [plain, queued] = await observe(server.api, tpuRef(), tpuRef({ job: { id: '000008' }, spec: queue }));
    assert.equal(plain?.kind === 'known' ? plain.value.state : 'unknown', 'ready');
    assert.equal(queued?.kind, 'unknown');
  });
});

suite('a zone that refuses to be listed', () => {
  const neverAsked = { requestedAt: null, confirmedAt: null };
  const noZone = 'Cloud TPU received a bad request. The requested zone "us-central2-b" is not supported. [EID: 0x1]';
  const rows = [
    // A permanent refusal is part of the unknown; the core decides whether to request anyway.
    ['for want of a right', failure(403, 'PERMISSION_DENIED', 'no'), neverAsked, 'unknown permission'],
    ['because there is no such project', failure(404, 'NOT_FOUND', 'no such project'), neverAsked, 'unknown not_found'],
    ['because there is no such zone', failure(400, 'INVALID_ARGUMENT', noZone), neverAsked, 'unknown invalid'],
    ['for now', failure(503, 'UNAVAILABLE', 'away'), neverAsked, 'unknown'],
    ['with an expired login', failure(401, 'UNAUTHENTICATED', 'no'), neverAsked, 'unknown'],
    ['with too many requests', failure(429, 'RESOURCE_EXHAUSTED', 'requests per minute'), neverAsked, 'unknown'],
    ['for want of a right', failure(403, 'PERMISSION_DENIED', 'no'), {}, 'unknown permission'],
    ['because there is no such project', failure(404, 'NOT_FOUND', 'no such project'), {}, 'unknown not_found'],
    ['with an unknown message', failure(400, 'INVALID_ARGUMENT', 'no'), {}, 'unknown invalid'],
    ['because there is no such zone', failure(400, 'INVALID_ARGUMENT', noZone), {}, 'unknown invalid'],
  ] as const;
  for (const [why, fault, allocation, expected] of rows) {
    const when = 'requestedAt' in allocation ? 'before anything was asked for' : 'after';
    test(`${why}, ${when}: ${expected}`, async (t) => {
      for (const mode of ['tpu-vm', 'queued-resources'] as const) {
        const server = await openTpuServer(t);
        server.fault = () => fault;
        const persistent = { ownership: 'persistent' } as const;
        const facts = await observe(
          server.api,
          tpuRef({ spec: { mode }, allocation }),
          tpuRef({ spec: { mode, ...persistent }, allocation: { ...persistent, ...allocation } }),
        );
        for (const fact of facts) {
          const refused = fact.kind === 'unknown' && fact.refused !== undefined ? ` ${fact.refused}` : '';
          assert.equal(`${fact.kind}${refused}`, expected);
        }
      }
    });
  }
});

suite('an answer that is not from the cloud is not used:', () => {
  const answers: readonly (readonly [string, ReturnType<TpuServer['fault']>])[] = [
    ['a login page with a 200', { status: 200, body: '<html>Welcome to Free WiFi</html>' }],
    ['an empty reply', { status: 200, body: '' }],
    ['a text in JSON', { status: 200, body: '"ok"' }],
    ['a list that is none', { status: 200, body: { nodes: 'none' } }],
    ["a proxy's 404", { status: 404, body: '<html>404 Not Found</html>' }],
    ["a proxy's 502", { status: 502, body: 'Bad Gateway' }],
    ['an error that is a text', { status: 404, body: { error: 'not_found' } }],
    ['an error with a status of another type', { status: 400, body: { error: { status: {}, message: 'no' } } }],
    ['an error with a message of another type', { status: 404, body: { error: { status: 'NOT_FOUND', message: 5 } } }],
    ['a line that is cut', 'drop'],
  ];
  for (const [what, reply] of answers) {
    test(what, async (t) => {
      const server = await openTpuServer(t);
      server.fault = () => reply;
      const [fact] = await observe(server.api, tpuRef());
      assert.equal(fact?.kind, 'unknown');
      assert.equal(fact?.kind === 'unknown' && typeof fact.reason, 'string');
    });
    test(`${what}, when asked by name`, async (t) => {
      const server = await openTpuServer(t);
      server.fault = ({ path }) => (path.endsWith(name) ? reply : undefined);
      const [fact] = await observe(server.api, tpuRef({ allocation: { readyAt: now - minute } }));
      assert.equal(fact?.kind, 'unknown');
    });
  }

  test('a redirect to another machine', async (t) => {
    const server = await openTpuServer(t);
    const other = await openTpuServer(t);
    server.redirect = `${other.url}/login`;
    const [fact] = await observe(server.api, tpuRef());
    assert.equal(fact?.kind, 'unknown');
    assert.equal(other.requests.length, 0);
  });

  test('a node of another name', async (t) => {
    const server = await openTpuServer(t);
    server.fault = ({ path }) => (path.endsWith(name) ? { status: 200, body: {} } : undefined);
    const [fact] = await observe(server.api, tpuRef({ allocation: { readyAt: now - minute } }));
    assert.equal(fact?.kind, 'unknown');
  });
});

suite('a create that came to nothing', () => {
  test('is reported with its error, without a further request', async (t) => {
    const server = await openTpuServer(t);
    server.addOperation(create(`nodes/${name}`, { done: true, error: stockout }));
    const seen = await observeOne(server, tpuRef());
    assert.equal(seen.state, 'absent');
    assert.equal(seen.error?.kind, 'stockout');
    assert.match(seen.error?.raw ?? '', /no more capacity .* \(operation-/);
    assert.deepEqual(server.requestLines(), ['GET nodes', 'GET operations']);
  });

  test('is reported once: after the error is stored it is not new', async (t) => {
    const server = await openTpuServer(t);
    server.addOperation(create(`nodes/${name}`, { done: true, error: stockout }));
    const { error } = await observeOne(server, tpuRef());
    assert.ok(error);
    // Accepted again, and the list of operations does not contain the new one yet.
    const again = tpuRef({ allocation: { lastError: { at: now, error }, errorCount: 1 } });
    assert.deepEqual(await observeOne(server, again), { state: 'absent', detail: 'does not exist' });
  });

  test('is reported again when the next create fails with the same message, whatever our clock shows', async (t) => {
    const server = await openTpuServer(t);
    server.addOperation(create(`nodes/${name}`, { done: true, error: stockout }));
    const { error } = await observeOne(server, tpuRef());
    assert.ok(error);
    server.addOperation(create(`nodes/${name}`, { at: '2026-05-01T11:59:45Z', done: true, error: stockout }));
    // The record's clock is an hour ahead of the cloud's.
    const again = tpuRef({ allocation: { lastError: { at: now + hour, error }, confirmedAt: now + hour + 1 } });
    assert.equal((await observeOne(server, again)).error?.kind, 'stockout');
  });

  test('is asked about in one list for all who miss theirs', async (t) => {
    const server = await openTpuServer(t);
    const refs = ['000001', '000002', '000003'].map((id) => tpuRef({ job: { id } }));
    for (const { allocation } of refs) {
      server.addOperation(create(`nodes/${allocation.name}`, { done: true, error: stockout }));
    }
    const facts = await observe(server.api, ...refs);
    assert.ok(facts.every((fact) => fact.kind === 'known' && fact.value.error?.kind === 'stockout'));
    assert.deepEqual(server.requestLines(), ['GET nodes', 'GET operations']);
  });

  test('belongs to this allocation: not a delete, an update, or a name with the same ending', async (t) => {
    const server = await openTpuServer(t);
    const failed = { done: true, error: stockout };
    server.addOperation(create(`nodes/my-${name}`, failed));
    server.addOperation(create(`queuedResources/${name}`, failed));
    server.addOperation({
      ...create(`nodes/${name}`, failed),
      metadata: { verb: 'delete', target: `${parent}/nodes/${name}` },
    });
    assert.deepEqual(await observeOne(server, tpuRef()), { state: 'absent', detail: 'does not exist' });
  });

  test('of the queue is reported too', async (t) => {
    const server = await openTpuServer(t);
    server.addOperation(create(`queuedResources/${name}`, { done: true, error: { code: 7, message: 'no' } }));
    assert.equal((await observeOne(server, tpuRef({ spec: queue }))).error?.kind, 'permission');
  });

  test('is not requested once the allocation was ready or released', async (t) => {
    const server = await openTpuServer(t);
    server.addOperation(create(`nodes/${name}`, { done: true, error: stockout }));
    for (const part of [{ readyAt: now - minute }, { releasedAt: now - minute }]) {
      assert.deepEqual(await observeOne(server, tpuRef({ allocation: part })), {
        state: 'absent',
        detail: 'does not exist',
      });
    }
    assert.ok(!server.requestLines().includes('GET operations'));
  });

  test('and left its node being made is found out, in time', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf({ state: 'CREATING' }));
    server.addOperation(create(`nodes/${name}`, { done: true, error: stockout }));
    assert.equal((await observeOne(server, tpuRef())).state, 'provisioning');
    assert.equal((await observeOne(server, tpuRef({ allocation: { confirmedAt: now - hour } }))).state, 'lost');
  });
});

test('a create that is under way and does not show yet is not an absence', async (t) => {
  const server = await openTpuServer(t);
  server.addOperation(create(`nodes/${name}`));
  assert.equal((await observeOne(server, tpuRef())).state, 'provisioning');
});

test('a late TPU of another alternative in the zone is not that of the job', async (t) => {
  const other = { zone: 'us-central2-b', accelerator: 'v4-8', runtimeVersion: 'v2', pricePerHourUsd: null } as const;
  const spec = { accelerator: 'v4-16', pricing: 'spot', alternatives: [{ ...other, pricing: 'spot' }] } as const;
  const ref = tpuRef({ spec });
  const stateWith = async (shown: Partial<TpuNode>, allocation: RefOptions['allocation'] = {}) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf({ schedulingConfig: { spot: true }, ...shown }));
    const { state, slices } = await observeOne(server, tpuRef({ spec, allocation }));
    const outcome = await requestAllocation(server.api, ref, 'key');
    return [state, slices?.[0], outcome.kind];
  };
  assert.deepEqual(await stateWith({ acceleratorType: 'v4-8' }), ['absent', undefined, 'failed']);
  assert.deepEqual(await stateWith({ acceleratorType: 'v4-8' }, { releasedAt: now }), [
    'provisioning',
    'other',
    'failed',
  ]);
  // Nothing says that a TPU of a third type comes from another alternative, and a ready one is in use.
  assert.deepEqual(await stateWith({ acceleratorType: 'v4-32' }), ['ready', undefined, 'done']);
  assert.deepEqual((await stateWith({ acceleratorType: 'v4-8' }, { readyAt: now }))[0], 'ready');
  assert.deepEqual(await stateWith({ acceleratorType: 'v4-16' }), ['ready', undefined, 'done']);
});

test('a persistent TPU from a queued resource with another name is found with it', async (t) => {
  const server = await openTpuServer(t);
  const persistent = { spec: { ...queue, ownership: 'persistent' }, allocation: { name: 'lab-v4' } } as const;
  server.addQueued(queuedOf('SUSPENDED', { id: 'lab-request', node: {} }));
  server.addNode(nodeOf({ id: 'lab-v4', labels: {}, queuedResource: queuedOf('', { id: 'lab-request' }).name }));
  const seen = await observeOne(
    server,
    tpuRef({ ...persistent, allocation: { name: 'lab-v4', readyAt: now - minute } }),
  );
  assert.equal(`${seen.state} ${seen.detail}`, 'lost SUSPENDED');
});

test('whatever subset of the questions fails, what is there is never called absent', async (t) => {
  const server = await openTpuServer(t);
  const modes = ['tpu-vm', 'queued-resources'] as const;
  const records = [{}, { readyAt: now - minute }, { releasedAt: now - minute }, { confirmedAt: now - hour }] as const;
  const outcomes = ['fine', 'drop', 'refuse', 'away', 'page'] as const;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...modes),
      fc.constantFrom(...records),
      fc.boolean(),
      fc.constantFrom('CREATING', 'READY', 'PREEMPTED'),
      fc.array(fc.constantFrom(...outcomes), { minLength: 1, maxLength: 6 }),
      async (mode, record, isListed, state, ways) => {
        server.empty();
        server.unlisted.clear();
        const node = nodeOf({ state });
        const queued = queuedOf('ACTIVE');
        server.addNode(node);
        if (mode === 'queued-resources') server.addQueued(queued);
        if (!isListed) for (const thing of [node, queued]) server.unlisted.add(thing.name);
        let asked = 0;
        server.fault = (): ReturnType<TpuServer['fault']> => {
          const way = ways[asked % ways.length];
          asked += 1;
          if (way === 'drop') return 'drop';
          if (way === 'refuse') return failure(403, 'PERMISSION_DENIED', 'no');
          if (way === 'away') return failure(503, 'UNAVAILABLE', 'away');
          return way === 'page' ? { status: 404, body: '<html></html>' } : undefined;
        };
        const [fact] = await observe(server.api, tpuRef({ spec: { mode }, allocation: record }));
        assert.notEqual(fact?.kind === 'known' ? fact.value.state : 'unknown', 'absent');
        if (ways.every((way) => way !== 'fine')) assert.equal(fact?.kind, 'unknown');
      },
    ),
    { numRuns: 300 },
  );
});

test('whatever question fails on the way to an absence, the answer is unknown', async (t) => {
  const server = await openTpuServer(t);
  for (const mode of ['tpu-vm', 'queued-resources'] as const) {
    for (const record of [{}, { readyAt: now - minute }, { releasedAt: now - minute }]) {
      const ref = tpuRef({ spec: { mode }, allocation: record });
      server.fault = () => undefined;
      server.requests.length = 0;
      assert.equal((await observeOne(server, ref)).state, 'absent');
      const questions = server.requests.length;
      assert.ok(questions > 1);
      for (let failing = 0; failing < questions; failing += 1) {
        let asked = -1;
        server.fault = () => {
          asked += 1;
          return asked === failing ? 'drop' : undefined;
        };
        const [fact] = await observe(server.api, ref);
        assert.equal(fact?.kind, 'unknown', `${mode}, question ${failing} of ${questions}`);
      }
    }
  }
});

test('an expired login is one sentence, harms nothing, and says what to do', async (t) => {
  const server = await openTpuServer(t);
  server.fault = () =>
    failure(401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials. Expected OAuth 2');
  const [fact] = await observe(server.api, tpuRef());
  assert.deepEqual(fact, { kind: 'unknown', reason: 'log in again', since: now, noLogin: true });
});
