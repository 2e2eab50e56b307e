// Sample objects of a cluster for tests.

import type {
  ArchivedJob,
  ClusterCondition,
  ClusterContainer,
  ClusterEvent,
  ClusterJob,
  ClusterPod,
} from '../../src/app/cluster/objects.ts';

/** The time of the tests. */
export const noon = Date.UTC(2026, 10, 22, 12, 0, 0);

/** A job that was just created. */
export function aClusterJob(changes: Partial<ClusterJob> = {}): ClusterJob {
  return {
    name: 'train',
    namespace: 'vision',
    uid: 'u1',
    createdAt: noon,
    startedAt: null,
    endedAt: null,
    suspended: false,
    parallelism: 1,
    completions: 1,
    active: 0,
    ready: 0,
    succeeded: 0,
    failed: 0,
    conditions: [],
    flavor: null,
    owner: 'ada',
    installation: 'abc123',
    requests: {},
    images: ['alpine'],
    deleting: false,
    queueName: null,
    priorityClass: null,
    ...changes,
  };
}

/** A running pod of that job. */
export function aClusterPod(changes: Partial<ClusterPod> = {}, container: Partial<ClusterContainer> = {}): ClusterPod {
  return {
    name: 'train-a',
    namespace: 'vision',
    job: 'train',
    jobUid: 'u1',
    uid: 'p1',
    phase: 'Running',
    reason: null,
    message: null,
    node: 'n1',
    index: null,
    createdAt: noon,
    startedAt: noon,
    requests: {},
    containers: [aClusterContainer(container)],
    conditions: [],
    deleting: false,
    ...changes,
  };
}

/** A running container. */
export function aClusterContainer(changes: Partial<ClusterContainer> = {}): ClusterContainer {
  return {
    name: 'main',
    image: 'alpine',
    state: 'running',
    reason: null,
    message: null,
    exitCode: null,
    signal: null,
    restarts: 0,
    startedAt: noon + 1_000,
    endedAt: null,
    init: false,
    ...changes,
  };
}

/** An event of that job. */
export function aClusterEvent(changes: Partial<ClusterEvent> = {}): ClusterEvent {
  return {
    object: { kind: 'Job', name: 'train', uid: 'u1' },
    type: 'Normal',
    reason: 'Created',
    message: '',
    count: 1,
    firstAt: noon,
    lastAt: noon,
    ...changes,
  };
}

/** A condition that is true. */
export function aCondition(type: string, changes: Partial<ClusterCondition> = {}): ClusterCondition {
  return { type, status: 'True', reason: null, message: null, at: null, ...changes };
}

/** The archived copy of a job that still exists in its cluster. */
export function anArchivedJob(changes: Partial<ArchivedJob> = {}): ArchivedJob {
  return {
    job: aClusterJob(),
    pods: [],
    events: [],
    server: 'https://lab',
    context: 'lab',
    observedAt: noon,
    goneAt: null,
    hidden: false,
    object: '{}',
    logs: [],
    ...changes,
  };
}
