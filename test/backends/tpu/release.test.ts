// Releases: only resources with the labels of this allocation, whatever their name; and orphan collection.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createTpuCapacity } from '../../../src/backends/tpu/capacity.ts';
import type { CapacityPort } from '../../../src/app/ports.ts';
import type { RecoveryRule } from '../../../src/core/model/spec.ts';
import { fixedClock, labels, name, nodeOf, now, queuedOf, tpuRef } from './support/refs.ts';
import { failure, openTpuServer, parent, type Fault, type TpuServer } from './support/server.ts';

const queue = { mode: 'queued-resources' } as const;

function capacityOf(server: TpuServer): CapacityPort {
  return createTpuCapacity({ apiFor: () => server.api, clock: fixedClock, sshKeyLines: () => Promise.resolve('') });
}

const deletions = (server: TpuServer) => server.requestLines().filter((question) => question.startsWith('DELETE'));
const unanswered = failure(503, 'UNAVAILABLE', 'away');

suite('a release', () => {
  test('deletes the node, in whatever state it is: a preempted one counts against the quota', async (t) => {
    for (const state of ['READY', 'CREATING', 'PREEMPTED', 'STOPPED', 'HIDDEN']) {
      const server = await openTpuServer(t);
      server.addNode(nodeOf({ state }));
      assert.deepEqual(await capacityOf(server).release(tpuRef()), { kind: 'done' });
      assert.deepEqual(deletions(server), [`DELETE nodes/${name}`]);
    }
  });

  test('deletes the queued resource by force, and its nodes with it', async (t) => {
    for (const state of ['WAITING_FOR_RESOURCES', 'PROVISIONING', 'ACTIVE', 'SUSPENDED', 'FAILED']) {
      const server = await openTpuServer(t);
      server.addQueued(queuedOf(state));
      server.addNode(nodeOf());
      assert.deepEqual(await capacityOf(server).release(tpuRef({ spec: queue })), { kind: 'done' });
      assert.deepEqual(deletions(server), [`DELETE queuedResources/${name}?force=true`]);
    }
  });

  test('deletes the node that a queued resource has left behind', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf());
    assert.deepEqual(await capacityOf(server).release(tpuRef({ spec: queue })), { kind: 'done' });
    assert.deepEqual(deletions(server), [`DELETE nodes/${name}`]);
  });

  test('of a missing resource, or one that is being deleted, is done', async (t) => {
    const server = await openTpuServer(t);
    for (const mode of ['tpu-vm', 'queued-resources'] as const) {
      assert.deepEqual(await capacityOf(server).release(tpuRef({ spec: { mode } })), { kind: 'done' });
    }
    server.addNode(nodeOf({ state: 'DELETING' }));
    server.addQueued(queuedOf('DELETING'));
    for (const mode of ['tpu-vm', 'queued-resources'] as const) {
      assert.deepEqual(await capacityOf(server).release(tpuRef({ spec: { mode } })), { kind: 'done' });
    }
    assert.deepEqual(deletions(server), []);
  });

  const others = [
    ['no owner', {}],
    ['another installation', { ...labels, 'jobman-installation': 'zz99zz' }],
    ['another job', { ...labels, 'jobman-job': '000008' }],
    ['another allocation', { ...labels, 'jobman-allocation': '2' }],
    ['half of us', { 'jobman-installation': 'ab12cd' }],
  ] as const;
  for (const [claimant, theirs] of others) {
    test(`leaves a TPU of ${claimant} alone`, async (t) => {
      const server = await openTpuServer(t);
      server.addNode(nodeOf({ labels: theirs }));
      server.addQueued(queuedOf('ACTIVE', { node: { labels: theirs } }));
      for (const mode of ['tpu-vm', 'queued-resources'] as const) {
        assert.deepEqual(await capacityOf(server).release(tpuRef({ spec: { mode } })), { kind: 'done' });
      }
      assert.deepEqual(deletions(server), []);
    });
  }

  test('takes our queued resource and leaves a foreign node of that name alone', async (t) => {
    const server = await openTpuServer(t);
    server.addQueued(queuedOf('FAILED'));
    server.addNode(nodeOf({ labels: {} }));
    await capacityOf(server).release(tpuRef({ spec: queue }));
    assert.deepEqual(deletions(server), [`DELETE queuedResources/${name}?force=true`]);
    assert.equal(server.world.nodes.values().length, 1);
  });

  const replies: readonly (readonly [string, Fault, string])[] = [
    ['lost', 'lose', 'unclear'],
    ['an internal error', failure(500, 'INTERNAL', 'oops'), 'unclear'],
    ['it has gone in between', failure(404, 'NOT_FOUND', 'was not found'), 'done'],
    ['not in this state', failure(400, 'FAILED_PRECONDITION', 'cannot be deleted'), 'failed'],
    // Permanent for a request; a release is asked again until nothing is left.
    ['a missing right', failure(403, 'PERMISSION_DENIED', 'no'), 'failed'],
    [
      'refused at once in the operation',
      { status: 200, body: { name: 'o', done: true, error: { code: 9, message: 'no' } } },
      'failed',
    ],
  ];
  for (const [what, fault, expected] of replies) {
    test(`whose reply is ${what}: ${expected}`, async (t) => {
      for (const mode of ['tpu-vm', 'queued-resources'] as const) {
        const server = await openTpuServer(t);
        server.addNode(nodeOf());
        server.addQueued(queuedOf('ACTIVE'));
        server.fault = ({ method }) => (method === 'DELETE' ? fault : undefined);
        assert.equal((await capacityOf(server).release(tpuRef({ spec: { mode } }))).kind, expected);
      }
    });
  }

  test('that cannot read what is there deletes nothing and is asked again', async (t) => {
    for (const mode of ['tpu-vm', 'queued-resources'] as const) {
      for (const fault of [
        unanswered,
        'drop',
        failure(401, 'UNAUTHENTICATED', ''),
        { status: 404, body: '<html>' },
      ] as const) {
        const server = await openTpuServer(t);
        server.addNode(nodeOf());
        server.fault = ({ method }) => (method === 'GET' ? fault : undefined);
        assert.equal((await capacityOf(server).release(tpuRef({ spec: { mode } }))).kind, 'failed');
        assert.deepEqual(deletions(server), []);
      }
    }
  });

  test('is done in a zone that does not exist, and is retried in a zone without permission', async (t) => {
    const noZone = 'Cloud TPU received a bad request. The requested zone "us-central2-b" is not supported. [EID: 0x1]';
    for (const mode of ['tpu-vm', 'queued-resources'] as const) {
      const server = await openTpuServer(t);
      server.fault = () => failure(400, 'INVALID_ARGUMENT', noZone);
      assert.deepEqual(await capacityOf(server).release(tpuRef({ spec: { mode } })), { kind: 'done' });
      server.fault = () => failure(403, 'PERMISSION_DENIED', 'no');
      assert.equal((await capacityOf(server).release(tpuRef({ spec: { mode } }))).kind, 'failed');
    }
  });

  test('that the cloud drops two seconds later is not done at the next observation', async (t) => {
    const server = await openTpuServer(t);
    server.addQueued(queuedOf('PROVISIONING'));
    server.fault = ({ method }) => (method === 'DELETE' ? { status: 200, body: { name: 'o' } } : undefined);
    const ref = tpuRef({ spec: queue, allocation: { releasedAt: now } });
    assert.deepEqual(await capacityOf(server).release(ref), { kind: 'done' });
    const [fact] = await capacityOf(server).observe([ref]);
    assert.equal(fact?.kind === 'known' ? fact.value.state : '', 'provisioning');
    await capacityOf(server).release(ref);
    assert.equal(deletions(server).length, 2);
  });
});

suite('a persistent TPU', () => {
  const reapply: RecoveryRule = { reason: 'preempted', answer: { then: 'resume', on: 'new' } };
  const fail: RecoveryRule = { reason: 'preempted', answer: { then: 'fail', on: 'same' } };
  const id = 'lab-v4';
  const persistent = (
    rules: readonly RecoveryRule[],
    releasedAt: number | null = now,
    mode: 'tpu-vm' | 'queued-resources' = 'tpu-vm',
    had: { readonly creationTime?: string } = {},
  ) =>
    tpuRef({
      spec: { ownership: 'persistent', mode },
      allocation: { name: id, ownership: 'persistent', releasedAt, ...had },
      rules,
    });
  const old = { id, labels: {}, createTime: '2026-04-01T00:00:00.123456789Z' };

  test('is released if a rule allows a new one', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf({ ...old, state: 'PREEMPTED' }));
    assert.deepEqual(await capacityOf(server).release(persistent([reapply])), { kind: 'done' });
    assert.deepEqual(deletions(server), [`DELETE nodes/${id}`]);
  });

  test('goes with the queued resource that made it, whatever that is called', async (t) => {
    const server = await openTpuServer(t);
    const request = queuedOf('SUSPENDED', { id: 'lab-request', node: {} });
    server.addQueued(request);
    server.addNode(nodeOf({ ...old, queuedResource: request.name }));
    await capacityOf(server).release(persistent([reapply]));
    assert.deepEqual(deletions(server), ['DELETE queuedResources/lab-request?force=true']);
  });

  const left: readonly (readonly [string, ReturnType<typeof persistent>, object, string])[] = [
    ['no rule says so', persistent([fail]), {}, 'refused'],
    ['there are no rules', persistent([]), {}, 'refused'],
    ['the record has not committed to it', persistent([reapply], null), {}, 'refused'],
    ['a jobman has made it for one job', persistent([reapply]), { labels }, 'refused'],
    ['it is new already', persistent([reapply]), { createTime: '2026-05-01T12:00:01Z' }, 'done'],
    [
      'it is another than the job had',
      persistent([reapply], now, 'tpu-vm', { creationTime: '2026-03-31T00:00:00Z' }),
      {},
      'done',
    ],
    ['it is on its way out', persistent([reapply]), { state: 'DELETING' }, 'done'],
    ['others would go with it', persistent([reapply]), { queuedResource: `${parent}/queuedResources/many` }, 'refused'],
    [
      'its queued resource cannot be read',
      persistent([reapply]),
      { queuedResource: `${parent}/queuedResources/broken` },
      'failed',
    ],
  ];
  for (const [why, ref, part, expected] of left) {
    test(`is left alone when ${why}`, async (t) => {
      const server = await openTpuServer(t);
      server.addNode(nodeOf({ ...old, ...part }));
      const spec = { nodeId: id, node: {} };
      server.addQueued({ ...queuedOf('ACTIVE', { id: 'many' }), tpu: { nodeSpec: [spec, spec] } });
      server.fault = ({ path }) => (path.endsWith('/broken') ? unanswered : undefined);
      assert.equal((await capacityOf(server).release(ref)).kind, expected);
      assert.deepEqual(deletions(server), []);
    });
  }

  test('that does not exist counts as released', async (t) => {
    const server = await openTpuServer(t);
    assert.deepEqual(await capacityOf(server).release(persistent([reapply])), { kind: 'done' });
  });
});

suite('a sweep', () => {
  const other = { 'jobman-installation': 'zz99zz', 'jobman-job': '000001', 'jobman-allocation': '1' };

  test('finds what carries our labels, once each, and nothing else', async (t) => {
    const server = await openTpuServer(t);
    server.pageLength = 2;
    const request = queuedOf('ACTIVE', { id: 'ours-queued' });
    server.addQueued(request);
    server.addQueued(queuedOf('ACTIVE', { id: 'theirs-queued', node: { labels: other } }));
    server.addNode(nodeOf({ id: 'ours', state: 'PREEMPTED' }));
    server.addNode(nodeOf({ id: 'ours-queued', queuedResource: request.name }));
    server.addNode(nodeOf({ id: 'orphan', queuedResource: `${parent}/queuedResources/gone` }));
    server.addNode(nodeOf({ id: 'theirs', labels: other }));
    server.addNode(nodeOf({ id: 'unowned', labels: {} }));
    const found = await capacityOf(server).listLabelled([tpuRef(), tpuRef({ job: { id: '000009' } })]);
    assert.deepEqual(
      found.kind === 'known' &&
        found.value.map(({ resource, state }) => `${resource.replace(`${parent}/`, '')} ${state}`),
      ['queuedResources/ours-queued ACTIVE', 'nodes/orphan READY', 'nodes/ours PREEMPTED'],
    );
    assert.deepEqual(found.kind === 'known' && found.value[2], {
      backend: 'tpu',
      resource: `${parent}/nodes/ours`,
      installation: 'ab12cd',
      job: '000007',
      allocation: 1,
      state: 'PREEMPTED',
      slices: ['preempted'],
      accelerator: null,
      pricing: 'ondemand',
    });
    assert.equal(server.requestLines().filter((question) => question === 'GET nodes').length, 1);
  });

  test('that could not check everything is unknown', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf({ id: 'ours' }));
    const refs = [tpuRef(), tpuRef({ spec: { zone: 'us-east5-b' } })];
    for (const part of ['us-east5-b/nodes', 'us-east5-b/queuedResources', 'us-central2-b/nodes']) {
      server.fault = ({ path }) => (path.endsWith(part) ? unanswered : undefined);
      assert.equal((await capacityOf(server).listLabelled(refs)).kind, 'unknown');
    }
    server.fault = () => undefined;
    server.unreachable = ['us-central2-b'];
    assert.equal((await capacityOf(server).listLabelled(refs)).kind, 'unknown');
    server.unreachable = [];
    server.fault = ({ path }) =>
      path.endsWith('us-central2-b/nodes')
        ? { status: 200, body: { nodes: [nodeOf({ id: 'ours' }), { name: `${parent}/nodes/wrong`, state: 7 }] } }
        : undefined;
    assert.equal((await capacityOf(server).listLabelled(refs)).kind, 'unknown');
  });

  test('and its result can be released, if it has not changed', async (t) => {
    const server = await openTpuServer(t);
    server.addNode(nodeOf({ id: 'ours' }));
    server.addQueued(queuedOf('WAITING_FOR_RESOURCES', { id: 'waiting' }));
    const found = await capacityOf(server).listLabelled([tpuRef()]);
    const orphans = found.kind === 'known' ? found.value : [];
    assert.equal(orphans.length, 2);
    for (const orphan of orphans) assert.deepEqual(await capacityOf(server).releaseOrphan(orphan), { kind: 'done' });
    assert.deepEqual(deletions(server), ['DELETE queuedResources/waiting?force=true', 'DELETE nodes/ours']);
    // A user has created a resource of that name since.
    server.addNode(nodeOf({ id: 'ours', labels: other }));
    for (const orphan of orphans) assert.deepEqual(await capacityOf(server).releaseOrphan(orphan), { kind: 'done' });
    assert.equal(deletions(server).length, 2);
  });

  test('of a name that is none refuses', async (t) => {
    const server = await openTpuServer(t);
    for (const resource of ['', 'nodes/ours', `${parent}/reservations/r`, `${parent}/nodes/a/b`]) {
      const orphan = {
        backend: 'tpu',
        resource,
        installation: 'ab12cd',
        job: '000007',
        allocation: 1,
        state: '',
      } as const;
      assert.equal((await capacityOf(server).releaseOrphan(orphan)).kind, 'refused');
    }
    assert.equal(server.requests.length, 0);
  });
});
