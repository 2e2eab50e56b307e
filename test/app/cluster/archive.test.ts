/** A job that its cluster has deleted: its phase, its reason, and its events, each once. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ArchivedJob, ClusterEvent } from '../../../src/app/cluster/objects.ts';
import {
  goneEvent,
  mayBeActive,
  archivedPhase,
  archivedResult,
  mergeObservations,
  clusterJobEvents,
} from '../../../src/app/cluster/archive.ts';
import {
  aClusterEvent,
  aClusterJob,
  aClusterPod,
  aCondition,
  anArchivedJob,
  noon,
} from '../../support/cluster-builders.ts';

const at = (seconds: number): number => noon + seconds * 1_000;
const complete = aCondition('Complete', { at: at(30) });
const failed = aCondition('Failed', { reason: 'BackoffLimitExceeded', message: 'too often', at: at(30) });
const kept = (changes: Partial<ArchivedJob> = {}): ArchivedJob =>
  anArchivedJob({ observedAt: at(40), goneAt: at(50), ...changes });
const warning = (message: string, count = 1): ClusterEvent =>
  aClusterEvent({
    object: { kind: 'Pod', name: 'train-a', uid: 'p1' },
    type: 'Warning',
    reason: 'BackOff',
    message,
    count,
    firstAt: at(5),
    lastAt: at(9),
  });

suite('a deleted job', () => {
  test('keeps its verdict, and is cancelled without one', () => {
    const phases = [
      [aClusterJob({ conditions: [complete] }), 'succeeded'],
      [aClusterJob({ conditions: [failed] }), 'failed'],
      [aClusterJob({ ready: 1, startedAt: at(1) }), 'cancelled'],
      [aClusterJob({ suspended: true }), 'cancelled'],
    ] as const;
    for (const [job, phase] of phases) {
      assert.equal(archivedPhase({ job, goneAt: at(50) }), phase);
      assert.equal(mayBeActive({ job, goneAt: at(50) }), false);
    }
    assert.equal(archivedPhase({ job: aClusterJob({ ready: 1 }), goneAt: null }), 'running');
    assert.equal(mayBeActive({ job: aClusterJob({ suspended: true }), goneAt: null }), true);
  });

  test('has the same reason as in the cluster', () => {
    const pod = aClusterPod({ phase: 'Failed' }, { state: 'terminated', exitCode: 3, endedAt: at(29) });
    const job = aClusterJob({ conditions: [failed], endedAt: at(30) });
    assert.equal(
      archivedResult(kept({ job, pods: [pod] }), { now: at(90) }).message,
      'Job train failed 1m ago: its program ended with exit code 3.',
    );
    const running = kept({ job: aClusterJob({ ready: 1, startedAt: at(10) }) });
    assert.equal(
      archivedResult(running, { now: at(60) }).message,
      'Job train was deleted 10s ago, after running for 40s.',
    );
    const waited = aClusterPod({ phase: 'Pending' }, { state: 'waiting', startedAt: null });
    assert.equal(
      archivedResult(kept({ job: aClusterJob({ startedAt: at(10) }), pods: [waited] }), { now: at(60) }).message,
      'Job train was deleted 10s ago, before it started.',
    );
  });
});

suite('an observation', () => {
  test('stays after the deletion: pods and events as last observed', () => {
    const [one, other] = [aClusterPod(), aClusterPod({ uid: 'p2', name: 'train-b', createdAt: at(3) })];
    const ended = aClusterPod({ phase: 'Failed' });
    const before = { job: aClusterJob(), pods: [one, other], events: [warning('a')] };
    const now = { job: aClusterJob({ failed: 1 }), pods: [ended], events: [warning('a', 4), warning('b')] };
    const { job, pods, events } = mergeObservations(before, now);
    assert.deepEqual([job.failed, pods], [1, [ended, other]]);
    assert.deepEqual(
      events.map(({ message, count }) => `${message} ${count}`),
      ['a 4', 'b 1'],
    );
  });

  test('gives the events in order, each once', () => {
    const pod = aClusterPod(
      {},
      { state: 'terminated', exitCode: 137, reason: 'OOMKilled', startedAt: at(4), endedAt: at(20) },
    );
    const job = aClusterJob({ startedAt: at(1), endedAt: at(30), conditions: [failed] });
    // The end of the Job appears once, although an event has the same message.
    const end = { ...warning('too often'), reason: 'BackoffLimitExceeded' };
    const observed = { job, pods: [pod], events: [warning('pull back-off', 3), end] };
    const events = [...clusterJobEvents(observed), goneEvent(at(50))];
    assert.deepEqual(
      events.map(({ message: sentence }) => sentence),
      [
        'created by ada: alpine',
        'started by the cluster',
        'train-a runs on n1',
        'train-a: BackOff: pull back-off (3 times, last at 22 Nov 12:00:09 UTC)',
        'train-a ended with exit code 137 (OOMKilled)',
        'failed: BackoffLimitExceeded: too often',
        'deleted from the cluster; the archive keeps it',
      ],
    );
    assert.equal(new Set(events.map(({ key }) => key)).size, events.length);
    // The same message with another count is the same event.
    const again = clusterJobEvents({ ...observed, events: [warning('pull back-off', 9)] });
    assert.deepEqual(
      again.map(({ key }) => key),
      events.slice(0, -1).map(({ key }) => key),
    );
  });

  test('of a stopped and resumed job has both, and each start', () => {
    const suspended = { type: 'Suspended', status: 'True', reason: 'JobSuspended', message: null, at: at(10) };
    const resumed = { ...suspended, status: 'False', at: at(20) };
    const keys = [
      ...clusterJobEvents({ job: aClusterJob({ startedAt: at(1) }), pods: [], events: [] }),
      ...clusterJobEvents({ job: aClusterJob({ conditions: [suspended] }), pods: [], events: [] }),
      ...clusterJobEvents({ job: aClusterJob({ startedAt: at(20), conditions: [resumed] }), pods: [], events: [] }),
    ];
    const sentences = [...new Map(keys.map(({ key, message: sentence }) => [key, sentence])).values()];
    assert.deepEqual(sentences, [
      'created by ada: alpine',
      'started by the cluster',
      'suspended',
      'started by the cluster',
      'resumed',
    ]);
  });
});
