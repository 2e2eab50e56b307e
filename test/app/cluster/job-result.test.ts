/** The phase of a cluster job, and its message. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ClusterNode } from '../../../src/app/cluster/cluster.ts';
import type { ClusterContainer, ClusterEvent, ClusterJob, ClusterPod } from '../../../src/app/cluster/objects.ts';
import { flagOfField } from '../../../src/backends/kubernetes/status.ts';
import { findMissingResources, formatMissingResources } from '../../../src/app/cluster/missing-resources.ts';
import {
  clusterSummary,
  clusterPhase,
  clusterReason,
  clusterResult,
  type ClusterObservation,
} from '../../../src/app/cluster/job-result.ts';
import {
  aClusterContainer,
  aClusterEvent,
  aClusterJob,
  aClusterPod,
  aCondition,
} from '../../support/cluster-builders.ts';

const now = Date.UTC(2026, 10, 22, 1, 0, 0);
const ago = (seconds: number): number => now - seconds * 1_000;

const job = (different: Partial<ClusterJob> = {}): ClusterJob =>
  aClusterJob({
    createdAt: ago(90),
    startedAt: ago(80),
    active: 1,
    ...different,
  });

const container = (different: Partial<ClusterContainer> = {}): ClusterContainer =>
  aClusterContainer({ state: 'waiting', startedAt: null, ...different });

const pod = (one: Partial<ClusterContainer>, different: Partial<ClusterPod> = {}): ClusterPod =>
  aClusterPod({
    name: 'train-x',
    uid: 'p',
    phase: 'Pending',
    createdAt: ago(80),
    startedAt: null,
    requests: { cpu: '4', memory: '1G' },
    containers: [container(one)],
    ...different,
  });

const node = (
  name: string,
  allocatable: Readonly<Record<string, string>>,
  different: Partial<ClusterNode> = {},
): ClusterNode => ({
  name,
  ready: true,
  unschedulable: false,
  taints: [],
  labels: {},
  allocatable,
  ...different,
});

const event = (different: Partial<ClusterEvent>): ClusterEvent =>
  aClusterEvent({ type: 'Warning', firstAt: ago(10), lastAt: ago(5), ...different });

const observationOf = (seen: Partial<ClusterObservation>): ClusterObservation => ({
  job: job(),
  pods: [],
  events: [],
  nodes: null,
  allPods: null,
  ...seen,
});

const condition = (type: string, reason: string | null = null, message: string | null = null) =>
  aCondition(type, { reason, message, at: ago(10) });
const ended = {
  conditions: [condition('Failed', 'BackoffLimitExceeded', 'Job has reached it')],
  endedAt: ago(10),
  active: 0,
  failed: 1,
};
const homeless = (message: string, reason = 'Unschedulable') => ({
  node: null,
  conditions: [aCondition('PodScheduled', { status: 'False', reason, message, at: ago(10) })],
});

interface Case {
  readonly seen: Partial<ClusterObservation>;
  readonly phase: string;
  readonly message: RegExp;
  readonly because?: RegExp;
}

const cases: Readonly<Record<string, Case>> = {
  'that succeeded': {
    seen: { job: job({ conditions: [condition('Complete')], endedAt: ago(10), active: 0, succeeded: 1 }) },
    phase: 'succeeded',
    message: /^Job train succeeded 10s ago after 1m10s\.$/,
  },
  'whose program failed': {
    seen: { job: job(ended), pods: [pod({ state: 'terminated', exitCode: 3 }, { phase: 'Failed' })] },
    phase: 'failed',
    message: /^Job train failed 10s ago: its program ended with exit code 3\.$/,
    because: /^BackoffLimitExceeded: Job has reached it/,
  },
  'that ran out of memory': {
    seen: {
      job: job(ended),
      pods: [pod({ state: 'terminated', exitCode: 137, reason: 'OOMKilled' }, { phase: 'Failed' })],
    },
    phase: 'failed',
    message: /ran out of memory and was killed \(OOMKilled, request 1G\)\.$/,
  },
  'that was evicted': {
    seen: { job: job(ended), pods: [pod({}, { phase: 'Failed', reason: 'Evicted', message: 'disk pressure' })] },
    phase: 'failed',
    message: /its pod was evicted from node n1\.$/,
    because: /^disk pressure$/,
  },
  'that ran too long': {
    seen: {
      job: job({
        ...ended,
        deadline: 60_000,
        conditions: [condition('Failed', 'DeadlineExceeded', 'Job was active too long')],
      }),
    },
    phase: 'failed',
    message: /it exceeded its time limit of 1m \(--timeout\)\.$/,
  },
  'whose pod is gone': {
    seen: { job: job(ended) },
    phase: 'failed',
    message: /its pod is gone\.$/,
  },
  'that is suspended': {
    seen: { job: job({ suspended: true, active: 0 }) },
    phase: 'stopped',
    message: /^Job train is suspended/,
  },
  'in a queue': {
    seen: { job: job({ suspended: true, active: 0, queueName: 'vision' }) },
    phase: 'queued',
    message: /^Job train waits in the queue vision, which has not admitted it\.$/,
  },
  'that is being deleted': { seen: { job: job({ deleting: true }) }, phase: 'stopping', message: /is being deleted/ },
  'that runs': {
    seen: { job: job({ ready: 1 }), pods: [pod({ state: 'running', startedAt: ago(70) }, { phase: 'Running' })] },
    phase: 'running',
    message: /^Job train has been running for 1m10s on node n1\.$/,
  },
  'that runs in part': {
    seen: {
      job: job({ ready: 1, active: 2, parallelism: 2 }),
      pods: [
        pod({ state: 'running', startedAt: ago(70) }, { phase: 'Running' }),
        pod({ reason: 'ImagePullBackOff', image: 'lab/x' }, { uid: 'q' }),
      ],
    },
    phase: 'running',
    message:
      /^Job train has been running for 1m10s with 1 of 2 pods on node n1; another cannot pull its image lab\/x\.$/,
  },
  'whose image cannot be pulled': {
    seen: {
      pods: [pod({ reason: 'ErrImagePull', image: 'lab/x' })],
      events: [
        event({
          object: { kind: 'Pod', name: 'train-x', uid: 'p' },
          reason: 'Failed',
          message: 'Failed to pull image: 401',
          count: 2,
        }),
      ],
    },
    phase: 'setup',
    message: /^Job train cannot pull its image lab\/x\.$/,
    because: /^Failed: Failed to pull image: 401 \(22 Nov 00:59:55 UTC\), 2 times$/,
  },
  'whose Secret is missing': {
    seen: { pods: [pod({ reason: 'CreateContainerConfigError', message: 'secret "wandb" not found' })] },
    phase: 'setup',
    message: /^Job train cannot start its container main: secret "wandb" not found\.$/,
  },
  'in setup': {
    seen: { pods: [pod({ reason: 'ContainerCreating' })] },
    phase: 'setup',
    message: /is being set up on node n1\.$/,
  },
  'without room, from the scheduler': {
    seen: {
      pods: [pod({}, homeless('0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. preemption: 0/3'))],
    },
    phase: 'queued',
    message: /it requests memory 1G, cpu 4, and there is too little memory on 1 of 3 nodes, cpu on 2 of 3 nodes\.$/,
  },
  'without room, computed': {
    seen: {
      pods: [pod({}, homeless('0/2 nodes are available: 2 Insufficient cpu.'))],
      nodes: [node('n1', { cpu: '2', memory: '8G' }), node('n2', { cpu: '4', memory: '8G' })],
      allPods: [pod({}, { node: 'n2', requests: { cpu: '1500m' } })],
    },
    phase: 'queued',
    message: /^Job train waits for room: the best node, n2, has 2500m cpu free, 4 requested \(1500m missing\)\.$/,
    because: /^Unschedulable: 0\/2 nodes/,
  },
  'that no node fits': {
    seen: {
      pods: [pod({}, homeless("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."))],
    },
    phase: 'queued',
    message: /finds no node with the requested labels\.$/,
  },
  'over its quota': {
    seen: {
      job: job({ active: 0 }),
      events: [
        event({ reason: 'FailedCreate', message: 'pods "x" is forbidden: exceeded quota: small, requested: cpu=4' }),
      ],
    },
    phase: 'queued',
    message: /^Job train gets no pod: the quota small of the namespace vision is used up \(requested: cpu=4\)\.$/,
  },
  'whose pod failed, before the next': {
    seen: {
      job: job({ failed: 1 }),
      pods: [
        pod({ state: 'terminated', exitCode: 2 }, { phase: 'Failed', uid: 'o' }),
        pod({ reason: 'ContainerCreating' }, { createdAt: ago(5) }),
      ],
    },
    phase: 'recovering',
    message:
      /^Job train is retrying after a failure \(its program ended with exit code 2\): the next pod is being set up on node n1\.$/,
  },
  'whose programs have ended, and the cluster has not counted them': {
    seen: {
      pods: [
        pod(
          {},
          {
            phase: 'Running',
            containers: [
              container({ name: 'first', init: true, state: 'terminated', exitCode: 0 }),
              container({ state: 'terminated', exitCode: 0 }),
              container({ name: 'other', state: 'terminated', exitCode: 3 }),
            ],
          },
        ),
      ],
    },
    phase: 'stopping',
    message: /^Job train is ending: its pods have ended\.$/,
  },
  'whose volume is not there, on a full node': {
    seen: {
      pods: [pod({}, homeless('0/1 nodes are available: persistentvolumeclaim "data" not found. not found'))],
      nodes: [node('n1', { cpu: '2' })],
      allPods: [],
    },
    phase: 'queued',
    message: /^Job train waits for its volume: persistentvolumeclaim "data" not found\.$/,
  },
  'whose program keeps failing in one pod': {
    seen: { pods: [pod({ state: 'terminated', exitCode: 1, restarts: 2 }, { phase: 'Running' })] },
    phase: 'recovering',
    message:
      /^Job train keeps failing \(restarted 2 times\): its program ended with exit code 1; it restarts after a pause\.$/,
  },
  'whose program waits for its restart': {
    seen: {
      pods: [
        pod(
          { reason: 'CrashLoopBackOff', restarts: 1, lastEnd: { reason: 'OOMKilled', exitCode: 137, signal: null } },
          { phase: 'Running', limits: { main: '30M' }, requests: { memory: '30M' } },
        ),
      ],
    },
    phase: 'recovering',
    message:
      /^Job train keeps failing \(restarted once\): its program ran out of memory .* \(OOMKilled, limit 30M\); it restarts/,
  },
  'that runs after its program was restarted': {
    seen: {
      job: job({ ready: 1 }),
      pods: [
        pod(
          {
            state: 'running',
            startedAt: ago(70),
            restarts: 3,
            lastEnd: { reason: 'Error', exitCode: 3, signal: null },
          },
          { phase: 'Running' },
        ),
      ],
    },
    phase: 'running',
    message:
      /^Job train has been running for 1m10s on node n1; its program was restarted 3 times, last because it ended with exit code 3\.$/,
  },
  'without a pod for long, for a user who may not list events': {
    seen: { job: job({ active: 0 }), mayListEvents: false, quotas: null },
    phase: 'queued',
    message: /^Job train has no pod 1m20s after its start; only its events give the reason\.$/,
    because: /^The permission `list` on events in vision is missing; the administrator of the cluster can grant it\.$/,
  },
  'without a pod for long, without an event': {
    seen: { job: job({ active: 0 }), mayListEvents: true, quotas: [] },
    phase: 'queued',
    message: /^Job train has no pod 1m20s after its start, and no event gives the reason\.$/,
  },
  'over a quota, without permission to list events': {
    seen: {
      job: job({ active: 0, requests: { cpu: '1500m', memory: '1G' } }),
      mayListEvents: false,
      quotas: [
        { name: 'roomy', hard: { 'requests.cpu': '8', pods: '9' }, used: { 'requests.cpu': '1', pods: '8' } },
        { name: 'small', hard: { memory: '2G', 'requests.cpu': '4' }, used: { memory: '1G', 'requests.cpu': '3' } },
      ],
    },
    phase: 'queued',
    message:
      /^Job train gets no pod: it exceeds the quota small of the namespace vision \(requests\.cpu: 3 of 4 used, 1500m requested\)\.$/,
  },
  'that was just created': {
    seen: { job: job({ active: 0, createdAt: ago(2), startedAt: null }) },
    phase: 'queued',
    message: /^Job train has no pod yet/,
  },
};

suite('a job', () => {
  for (const [what, { seen, phase, message, because }] of Object.entries(cases)) {
    test(what, () => {
      const observation = observationOf(seen);
      const verdict = clusterResult(observation, { now });
      assert.equal(verdict.phase, phase);
      assert.match(verdict.message, message);
      if (because !== undefined) assert.match(verdict.evidence ?? '', because);
      assert.ok(clusterReason(observation.job, now) !== '');
      // A list with the pods has the same phase.
      const summary = clusterSummary(observation.job, observation.pods, now);
      assert.equal(summary?.phase ?? verdict.phase, verdict.phase);
    });
  }

  test('that failed has a phrase without its pods', () => {
    const phrase = (reason: string | null, failed: number): string =>
      clusterReason(job({ ...ended, conditions: [condition('Failed', reason)], failed }), now);
    assert.equal(phrase('BackoffLimitExceeded', 1), 'its pod failed');
    assert.equal(phrase('BackoffLimitExceeded', 3), '3 pods failed');
    assert.equal(phrase('BackoffLimitExceeded', 0), 'its pod is gone');
    assert.equal(phrase('DeadlineExceeded', 0), 'exceeded its time limit (--timeout)');
    assert.equal(phrase('PodFailurePolicy', 1), 'PodFailurePolicy');
    assert.equal(phrase(null, 1), 'failed');
  });

  test('has a phrase from its pods', () => {
    const phrase = (one: ClusterJob, ...pods: readonly ClusterPod[]): string | undefined =>
      clusterSummary(one, pods, now)?.reasonText;
    const missing = pod({ reason: 'ImagePullBackOff', image: 'lab/x' }, { uid: 'q' });
    const runs = pod({ state: 'running', startedAt: ago(70) }, { phase: 'Running' });
    assert.equal(phrase(job(), missing), 'cannot pull its image lab/x');
    assert.equal(phrase(job({ failed: 2 }), missing), '2 pods failed; the next cannot pull its image lab/x');
    assert.equal(
      phrase(job({ active: 2, ready: 1, parallelism: 2 }), runs, missing),
      '1 of 2 pods for 1m20s; another cannot pull its image lab/x',
    );
    const lastEnd = { reason: 'OOMKilled', exitCode: 137, signal: null };
    const again = pod({ state: 'running', startedAt: ago(9), restarts: 2, lastEnd }, { phase: 'Running' });
    const pausing = pod({ reason: 'CrashLoopBackOff', restarts: 2, lastEnd }, { phase: 'Running' });
    assert.equal(phrase(job(), pausing), 'keeps failing (OOMKilled, restarted 2 times)');
    assert.equal(phrase(job(), again), 'running for 9s; restarted 2 times (OOMKilled)');
    assert.equal(phrase(job(), runs), 'running for 1m10s', 'the time of its program, not of the Job');
    assert.equal(phrase(job()), undefined);
    assert.equal(phrase(job({ suspended: true }), missing), undefined);
  });
});

suite('a list has the cause of an end', () => {
  const phrase = (one: ClusterJob, ...pods: readonly ClusterPod[]) => clusterSummary(one, pods, now)?.reasonText;
  const failed = job({ ...ended, conditions: [condition('Failed', 'BackoffLimitExceeded')], failed: 1 });
  const over = (container: object, changes: object = {}): ClusterPod =>
    pod({ state: 'terminated', ...container }, { phase: 'Failed', ...changes });
  test('as kubectl get pods does', () => {
    assert.equal(phrase(failed, over({ reason: 'OOMKilled', exitCode: 137 })), 'OOMKilled');
    assert.equal(phrase(failed, over({ reason: 'StartError', exitCode: 128 })), 'StartError');
    assert.equal(phrase(failed, over({ reason: 'Error', exitCode: 3 })), 'exit code 3');
    assert.equal(phrase(failed, over({ reason: 'Error', exitCode: 143, signal: 15 })), 'signal 15');
    assert.equal(phrase(failed, over({ reason: 'Error', exitCode: 3 }, { reason: 'Evicted' })), 'Evicted');
    assert.equal(phrase({ ...failed, failed: 3 }, over({ exitCode: 1 })), 'exit code 1, 3 pods failed');
    assert.equal(phrase(failed), undefined);
    const late = job({ ...ended, conditions: [condition('Failed', 'DeadlineExceeded')], failed: 1 });
    assert.equal(phrase(late, over({ exitCode: 137 })), undefined);
  });

  test('and the runtime of the program, without the wait before it', () => {
    const done = job({ ...ended, startedAt: ago(100), conditions: [condition('Complete', null)], succeeded: 1 });
    const short = pod(
      { state: 'terminated', exitCode: 0, startedAt: ago(12), endedAt: ago(10) },
      { phase: 'Succeeded' },
    );
    assert.equal(phrase(done, short), 'ran for 2s');
    const lastEnd = { reason: 'Error', exitCode: 3, signal: null };
    const [first = container()] = short.containers;
    const again = { ...short, containers: [{ ...first, restarts: 1, lastEnd }] };
    assert.equal(phrase(done, again), 'ran for 2s; restarted once (exit code 3)');
    const { message: sentence } = clusterResult(observationOf({ job: done, pods: [again] }), { now });
    assert.match(sentence, /its program ran for 2s; it was restarted once because it ended with exit code 3\.$/);
    assert.equal(phrase(done), undefined);
  });

  test('with the memory limit', () => {
    const killed = over(
      { reason: 'OOMKilled', exitCode: 137 },
      { limits: { main: '30M' }, requests: { memory: '5M' } },
    );
    const observation = observationOf({ job: failed, pods: [killed] });
    assert.match(clusterResult(observation, { now }).message, /killed \(OOMKilled, limit 30M, request 5M\)\.$/);
  });

  test('with the year if it is not the present one', () => {
    const refused = event({ reason: 'FailedCreate', message: 'exceeded quota: small, requested: pods=1' });
    const observation = observationOf({ events: [refused] });
    const year = 365 * 24 * 3_600_000;
    assert.match(clusterResult(observation, { now }).evidence ?? '', /\(22 Nov \d\d:\d\d:\d\d UTC\)/);
    assert.match(clusterResult(observation, { now: now + year }).evidence ?? '', /\(22 Nov 2026 \d\d:\d\d:\d\d UTC\)/);
  });

  test('a stopped job is stopping until its pods are gone', () => {
    const stopped = job({ suspended: true, terminating: 1 });
    assert.equal(clusterPhase(stopped), 'stopping');
    assert.match(
      clusterResult(observationOf({ job: stopped }), { now }).message,
      /^Job train is being stopped: 1 pod is terminating\.$/,
    );
    assert.equal(clusterPhase({ ...stopped, terminating: 0 }), 'stopped');
  });
});

suite('the best node', () => {
  test('does not matter for a resource that no node has', () => {
    const missing = findMissingResources(
      pod({}, { node: null, requests: { 'nvidia.com/gpu': '1' } }),
      [node('n', { cpu: '4' })],
      [],
    );
    assert.ok(missing !== undefined);
    assert.equal(formatMissingResources(missing), 'no node has nvidia.com/gpu');
  });

  test('counts processors in tens and memory in powers of two', () => {
    const missing = findMissingResources(
      pod({}, { node: null, requests: { cpu: '4k', memory: '123456789' } }),
      [node('n', { cpu: '1990m', memory: '100Mi' })],
      [],
    );
    assert.ok(missing !== undefined);
    const cpu = '1990m cpu free, 4k requested (3998 missing)';
    assert.equal(
      formatMissingResources(missing),
      `the best node, n, has ${cpu}; 100Mi memory free, 118Mi requested (17.7Mi missing)`,
    );
  });

  const asking = pod({}, { node: null, requests: { cpu: '4', 'nvidia.com/gpu': '1' } });
  test('is usable for the pod: ready, schedulable, and without a taint that the pod does not tolerate', () => {
    const big = { cpu: '64', 'nvidia.com/gpu': '8' };
    const closed = [
      node('a', big, { ready: false }),
      node('b', big, { unschedulable: true }),
      node('c', big, { taints: ['dedicated'] }),
    ];
    assert.equal(findMissingResources(asking, closed, []), undefined);
    const bears = node('d', { cpu: '2', 'nvidia.com/gpu': '8' }, { taints: ['nvidia.com/gpu'] });
    assert.deepEqual(
      findMissingResources(asking, [...closed, bears], [])?.shortages.map(({ resource }) => resource),
      ['cpu'],
    );
  });

  test('does not count ended pods', () => {
    const there = [pod({}, { node: 'n', phase: 'Succeeded', requests: { cpu: '4' } })];
    assert.equal(findMissingResources(asking, [node('n', { cpu: '4', 'nvidia.com/gpu': '1' })], there), undefined);
  });
});

test('fields map to flags, and other fields to none', () => {
  assert.equal(flagOfField('spec.template.spec.containers[0].image'), '-i');
  assert.equal(flagOfField('spec.template.spec.containers[0].volumeMounts[0].mountPath'), '--volume');
  assert.equal(flagOfField('spec.selector'), undefined);
});
