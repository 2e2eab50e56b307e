/** The effect of each command on a cluster job, and the object of a rerun. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { V1Job } from '@kubernetes/client-node';
import { checkClusterCommand, rerunNames, rerunObject, type ClusterVerb } from '../../../src/app/cluster/commands.ts';
import type { ClusterJob } from '../../../src/app/cluster/objects.ts';
import { aClusterJob, aCondition } from '../../support/cluster-builders.ts';

const states: Readonly<Record<string, ClusterJob>> = {
  running: aClusterJob({ active: 1, ready: 1 }),
  stopped: aClusterJob({ suspended: true }),
  inQueue: aClusterJob({ suspended: true, queueName: 'vision' }),
  succeeded: aClusterJob({ conditions: [aCondition('Complete')] }),
  failed: aClusterJob({ conditions: [aCondition('Failed')] }),
  deleting: aClusterJob({ deleting: true }),
};

suite('a command on a cluster job', () => {
  const expected: Readonly<Record<string, Readonly<Record<ClusterVerb, string>>>> = {
    running: { stop: 'allowed', start: 'refused', resume: 'refused', rerun: 'refused', cancel: 'allowed' },
    stopped: { stop: 'already_done', start: 'allowed', resume: 'allowed', rerun: 'allowed', cancel: 'allowed' },
    inQueue: { stop: 'already_done', start: 'refused', resume: 'refused', rerun: 'allowed', cancel: 'allowed' },
    succeeded: { stop: 'refused', start: 'refused', resume: 'refused', rerun: 'allowed', cancel: 'refused' },
    failed: { stop: 'refused', start: 'refused', resume: 'refused', rerun: 'allowed', cancel: 'refused' },
    deleting: { stop: 'refused', start: 'refused', resume: 'refused', rerun: 'allowed', cancel: 'already_done' },
  };
  for (const [state, verbs] of Object.entries(expected)) {
    for (const [verb, kind] of Object.entries(verbs) as [ClusterVerb, string][]) {
      test(`${verb} in the state ${state}: ${kind}`, () => {
        const can = checkClusterCommand(states[state] as ClusterJob, verb);
        assert.equal(can.kind, kind);
        if (can.kind !== 'allowed') assert.match(can.message, /^Job train .*\.$/);
      });
    }
  }
});

suite('a rerun', () => {
  const made: V1Job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: 'train',
      uid: 'u1',
      resourceVersion: '7',
      labels: { 'jobman/owner': 'ada', 'jobman/job': 'train', team: 'vision', 'controller-uid': 'u1' },
      annotations: { 'jobman/flavor': 'small', 'batch.kubernetes.io/job-tracking': '' },
    },
    spec: {
      backoffLimit: 2,
      suspend: true,
      selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': 'u1' } },
      template: {
        metadata: {
          labels: { 'batch.kubernetes.io/controller-uid': 'u1', 'job-name': 'train', 'jobman/job': 'train' },
        },
        spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'alpine', args: ['ls'] }] },
      },
    },
    status: { succeeded: 1 },
  };

  test('has the same spec, our labels, and no field that the cluster added', () => {
    const again = rerunObject(made, 'train-2', { owner: 'eve', installation: 'abc123' });
    const ours = {
      'app.kubernetes.io/managed-by': 'jobman',
      'jobman/owner': 'eve',
      'jobman/installation': 'abc123',
      'jobman/job': 'train-2',
    };
    assert.deepEqual(again, {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        name: 'train-2',
        labels: { ...ours, team: 'vision' },
        annotations: { 'jobman/flavor': 'small', 'jobman/rerun-of': 'train' },
      },
      spec: {
        backoffLimit: 2,
        template: { spec: made.spec?.template.spec, metadata: { labels: ours } },
      },
    });
  });

  test('of a rerun continues the numbers, and no name is too long', () => {
    const again = rerunObject(made, 'train-2', { owner: 'ada', installation: null });
    assert.deepEqual(rerunNames(again).slice(0, 2), ['train-2', 'train-3']);
    const long: V1Job = { metadata: { name: 'x'.repeat(63) } };
    assert.ok(rerunNames(long).every((name) => name.length === 63));
  });
});
