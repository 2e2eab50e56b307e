/** Active cluster jobs: their groups and their order in the queue. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import type { Cluster, PriorityClass, ClusterQuery } from '../../../src/app/cluster/cluster.ts';
import type { ClusterJob } from '../../../src/app/cluster/objects.ts';
import { clusterLabels, ownerLabels } from '../../../src/app/cluster/job-object.ts';
import { observeQueue, parsePublishedQueue, publishQueue, queueData } from '../../../src/app/cluster/queue-source.ts';
import { isActive, queuedJob, queueView, type QueuedJob, type QueueViewer } from '../../../src/app/cluster/queue.ts';
import { clusterSettingsOf } from '../../../src/app/cluster/settings.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import { version } from '../../../src/version.ts';
import { aMember } from '../../support/builders.ts';
import { root } from '../../support/root.ts';
import { aClusterJob, aCondition } from '../../support/cluster-builders.ts';

const now = Date.UTC(2026, 10, 22, 1, 0, 0);

const job = (different: Partial<ClusterJob> = {}): ClusterJob =>
  aClusterJob({
    createdAt: now,
    startedAt: now,
    active: 1,
    ready: 1,
    flavor: 'small',
    owner: null,
    requests: { cpu: '1' },
    ...different,
  });

const queued = (different: Partial<QueuedJob> = {}): QueuedJob => ({
  namespace: 'vision',
  name: 'train',
  flavor: null,
  requests: {},
  owner: null,
  state: 'running',
  podCount: 1,
  createdAt: now,
  priority: 0,
  queue: null,
  ...different,
});

/** A user who may only list Jobs. */
const unseen = { unscheduled: null, priorities: null, queuePriorities: null };

const viewer: QueueViewer = { namespace: 'vision', owners: ['ada'], gpuResources: [] };

suite('a job in a cluster', () => {
  const unscheduled = new Set(['vision/train']);
  const cases: readonly (readonly [string, Partial<ClusterJob>, ReadonlySet<string> | null, string | undefined])[] = [
    ['with a pod that is ready runs', {}, unscheduled, 'running'],
    ['with a pod that has no node waits', { ready: 0 }, unscheduled, 'waiting'],
    ['whose pod has a node and pulls its image runs', { ready: 0 }, new Set(), 'running'],
    ['with no pod that is ready waits, where pods may not be seen', { ready: 0 }, null, 'waiting'],
    ['without pods waits', { active: 0, ready: 0 }, new Set(), 'waiting'],
    ['between two pods waits', { active: 0, ready: 0, failed: 1 }, new Set(), 'waiting'],
    ['that Kueue holds back waits', { suspended: true, active: 0, ready: 0, queueName: 'q' }, new Set(), 'waiting'],
    ['that its owner has suspended is not active', { suspended: true, active: 0, ready: 0 }, new Set(), undefined],
    ['that is deleted while its pod ends still takes its room', { deleting: true, ready: 0 }, new Set(), 'running'],
    ['that is deleted and has no pods is not active', { deleting: true, active: 0, ready: 0 }, new Set(), undefined],
    ['that is complete is not active', { conditions: [aCondition('Complete')], active: 0 }, new Set(), undefined],
    ['that has failed is not active', { conditions: [aCondition('Failed')], active: 0 }, new Set(), undefined],
  ];
  for (const [title, different, without, state] of cases) {
    test(title, () => {
      assert.equal(queuedJob(job(different), { ...unseen, unscheduled: without })?.state, state);
      assert.equal(isActive(job(different)), state !== undefined, 'what is dropped from a page is what is not active');
    });
  }

  test('has the priority of its class, or the default one', () => {
    const priorities: readonly PriorityClass[] = [
      { name: 'urgent', value: 1000, isDefault: false },
      { name: 'usual', value: 10, isDefault: true },
    ];
    const priorityOf = (priorityClass: string | null, classes: typeof priorities | null = priorities) =>
      queuedJob(job({ priorityClass }), { ...unseen, priorities: classes })?.priority;
    assert.deepEqual([priorityOf('urgent'), priorityOf(null), priorityOf('gone')], [1000, 10, 0]);
    assert.equal(priorityOf('urgent', null), 0);
  });

  test("has Kueue's priority while Kueue holds it back, or that of its pods", () => {
    const priorities = [{ name: 'urgent', value: 1000, isDefault: false }];
    const queuePriorities = [{ name: 'late', value: -5, isDefault: false }];
    const held = { suspended: true, active: 0, ready: 0, queueName: 'q', priorityClass: 'urgent' };
    const priorityOf = (different: Partial<ClusterJob>) =>
      queuedJob(job({ ...held, ...different }), { ...unseen, priorities, queuePriorities })?.priority;
    assert.equal(priorityOf({ queuePriority: 'late' }), -5);
    assert.equal(priorityOf({ queuePriority: 'gone' }), 1000);
    assert.equal(priorityOf({}), 1000);
    // After admission, its pods wait for a node by their own priority.
    assert.equal(priorityOf({ queuePriority: 'late', suspended: false, active: 1 }), 1000);
  });
});

suite('active jobs are counted', () => {
  test('by flavor and requests, whatever their notation', () => {
    const { groups } = queueView(
      [
        queued({ flavor: 'small', requests: { cpu: '1', memory: '1G' } }),
        queued({ flavor: 'small', requests: { memory: '1000M', cpu: '1000m', 'nvidia.com/gpu': '0' } }),
        queued({ flavor: 'small', requests: { cpu: '1', memory: '1Gi' }, state: 'waiting' }),
        queued({ requests: { cpu: '1' } }),
        queued({ requests: { cpu: '2' } }),
      ],
      viewer,
    );
    assert.deepEqual(
      groups.map((one) => [one.flavor, one.requests, one.jobCount, one.waitingCount, one.conflict]),
      [
        ['small', { cpu: '1', memory: '1G' }, 2, 0, true],
        ['small', { cpu: '1', memory: '1Gi' }, 1, 1, true],
        [null, { cpu: '1' }, 1, 0, false],
        [null, { cpu: '2' }, 1, 0, false],
      ],
      'one name for two requests is a conflict; requests without a name are none',
    );
  });

  test('with the GPUs of all kinds, or of those in the settings', () => {
    const asks = {
      cpu: '1',
      'nvidia.com/gpu': '1',
      'amd.com/gpu': '2',
      'gpu.intel.com/i915': '1',
      'lab.org/fpga': '1',
    };
    const gpusFor = (gpuResources: readonly string[]) => {
      const [group] = queueView([queued({ requests: asks })], { ...viewer, gpuResources }).groups;
      return [group?.gpus, Object.keys(group?.otherRequests ?? {})];
    };
    assert.deepEqual(gpusFor([]), [5, []]);
    assert.deepEqual(gpusFor(['nvidia.com/gpu', 'amd.com/gpu']), [3, ['gpu.intel.com/i915', 'lab.org/fpga']]);
  });

  test('in total and yours: those in your namespace without another owner', () => {
    const { groups, jobs, yours } = queueView(
      [
        queued({ owner: 'ada' }),
        queued({ owner: null }),
        queued({ owner: 'bob' }),
        queued({ owner: 'ada', namespace: 'other' }),
      ],
      viewer,
    );
    assert.deepEqual([jobs, yours, groups[0]?.jobCount, groups[0]?.yourJobCount], [4, 2, 4, 2]);
  });

  test('with their pods', () => {
    const podsOf = (different: Partial<ClusterJob>) => queuedJob(job(different), unseen)?.podCount;
    assert.equal(podsOf({ parallelism: 4, completions: 16 }), 4);
    assert.equal(podsOf({ parallelism: 4, completions: 2 }), 2);
    assert.equal(podsOf({ parallelism: 0, completions: 2, active: 2 }), 2);
  });
});

suite('a queue', () => {
  test('is ordered by priority, then by age, and each Kueue queue is separate', () => {
    const waits = (name: string, priority: number, age: number, queue: string | null = null, namespace = 'vision') =>
      queued({ name, namespace, priority, queue, createdAt: now - age, state: 'waiting' });
    const { positions } = queueView(
      [
        waits('young', 0, 1),
        waits('urgent', 9, 0),
        waits('old', 0, 5),
        waits('second', 0, 1, 'q'),
        waits('first', 0, 2, 'q'),
        waits('elsewhere', 0, 9, 'q', 'other'),
        queued({ name: 'runs' }),
        queued({ name: 'who knows', state: 'unknown' }),
      ],
      viewer,
    );
    assert.deepEqual(
      positions.map(({ job: { name }, position, queueLength }) => `${name} ${position}/${queueLength}`),
      ['urgent 1/3', 'old 2/3', 'young 3/3', 'elsewhere 1/1', 'first 1/2', 'second 2/2'],
    );
  });

  test('gives jobs of the same second and priority the same positions', () => {
    const waits = (name: string, priority: number, age: number) =>
      queued({ name, priority, createdAt: now - age, state: 'waiting' });
    const { positions } = queueView(
      [waits('z', 0, 1_000), waits('a', 0, 1_000), waits('late', 0, 0), waits('urgent', 5, 1_000)],
      viewer,
    );
    assert.deepEqual(
      positions.map(
        ({ job: { name }, position, lastPosition, queueLength }) =>
          `${name} ${position}-${lastPosition}/${queueLength}`,
      ),
      ['urgent 1-1/4', 'a 2-3/4', 'z 2-3/4', 'late 4-4/4'],
    );
  });
});

suite('the published list', () => {
  const jobs = [
    queued({ name: 'a', flavor: 'small', requests: { cpu: '1' }, owner: 'ada', state: 'waiting', priority: 7 }),
    queued({ name: 'b', namespace: 'other', podCount: 4, queue: 'q', createdAt: now - 1_000 }),
  ];

  test('survives a round trip, without the owners', async () => {
    const data = await queueData('list', jobs, now);
    assert.ok(!JSON.stringify(data).includes('ada'), 'no name of a person is published');
    const read = await parsePublishedQueue('list', data);
    assert.deepEqual(read, { updatedAt: now, skipped: 0, jobs: jobs.map((one) => ({ ...one, owner: null })) });
  });

  test('has the older format, which is also read', async () => {
    const [first] = (
      JSON.parse((await queueData('list', jobs, now))['list'] ?? '') as { jobs: Record<string, unknown>[] }
    ).jobs;
    assert.deepEqual(
      [first?.['namespace'], first?.['name'], first?.['resources']],
      ['vision', 'a', { flavor: 'small', requests: { cpu: '1' } }],
    );
    const older = {
      updated: '2026-11-22T00:57:00Z',
      jobs: [
        { namespace: 'user-a', name: 'x', updated: 'then', resources: { flavor: '', requests: { 'amd.com/gpu': 1 } } },
        { namespace: 'user-a', name: 'y' },
        { name: 'no namespace' },
        null,
        ['x'],
      ],
    };
    const read = await parsePublishedQueue('list', { list: JSON.stringify(older) });
    assert.equal(read?.updatedAt, now - 180_000);
    assert.equal(read?.skipped, 3);
    assert.deepEqual(read?.jobs, [
      queued({ namespace: 'user-a', name: 'x', requests: { 'amd.com/gpu': '1' }, state: 'unknown', createdAt: 0 }),
      queued({ namespace: 'user-a', name: 'y', state: 'unknown', createdAt: 0 }),
    ]);
  });

  test('that is invalid is undefined', async () => {
    const lists = ['', '[]', '{', '{"jobs":{}}', 'null', '7'];
    for (const list of lists) assert.equal(await parsePublishedQueue('list', { list }), undefined, list);
    assert.equal(await parsePublishedQueue('list', { 'list.gz': 'AAAA' }), undefined);
    assert.equal(await parsePublishedQueue('list', {}), undefined);
  });

  test('of many jobs fits into a ConfigMap', async () => {
    const many = Array.from({ length: 10_000 }, (_, index) =>
      queued({ name: `jobman-${(index * 2_654_435_761).toString(36)}`, flavor: 'small', requests: { cpu: '1' } }),
    );
    const data = await queueData('list', many, now);
    assert.ok(Object.entries(data).reduce((sum, [key, text]) => sum + key.length + text.length, 0) < 1024 * 1024);
    assert.deepEqual((await parsePublishedQueue('list', data))?.jobs, many);
  });
});

/** A cluster with these jobs, and a user with these permissions (`list jobs.batch *`). */
function clusterWith(all: readonly ClusterJob[], rights: readonly string[], list?: Readonly<Record<string, string>>) {
  const written: unknown[] = [];
  const has = (what: string, { allNamespaces }: ClusterQuery): boolean =>
    rights.includes(`list ${what} *`) || (allNamespaces !== true && rights.includes(`list ${what} vision`));
  const check = (what: string, query: ClusterQuery): void => {
    if (!has(what, query)) throw new JobmanError(`you may not list ${what}`, exitCode.failed);
  };
  const cluster: Partial<Cluster> = {
    context: () => ({ context: 'lab', server: 'https://lab', namespace: 'vision', user: 'ada' }),
    async *jobs(query) {
      check('jobs.batch', query);
      assert.equal(query.labels, 'jobman/uncounted!=true');
      for (const one of all) if (query.allNamespaces === true || one.namespace === 'vision') yield [one];
    },
    async *unscheduledPods(query) {
      check('pods', query);
      yield [
        { namespace: 'vision', job: 'stuck' },
        { namespace: 'vision', job: null },
      ];
    },
    priorityClasses: async () => null,
    queuePriorityClasses: async () => (assert.fail('no job needs them'), null),
    configMap: async (name, namespace) => (`${namespace}/${name}` === 'default/list' ? (list ?? null) : null),
    writeConfigMap: async (...args) => void written.push(args),
  };
  return { cluster: cluster as Cluster, written };
}

suite('the queue is observed', async () => {
  const settings = { namespace: 'default', configmap: 'list' };
  const mine = job({ name: 'stuck', ready: 0, owner: 'ada' });
  const other = job({ name: 'other', namespace: 'other', ready: 0 });
  const ended = job({ name: 'ended', active: 0, ready: 0, conditions: [aCondition('Complete')] });
  const all = [mine, other, ended];
  const list = await queueData('list', [queued({ name: 'then' }), queued({ name: 'far', namespace: 'far' })], now);
  const namesOf = (jobs: readonly QueuedJob[]) => jobs.map(({ name, state }) => `${name} ${state}`);

  test('in the whole cluster, if all jobs may be listed', async () => {
    const { source, jobs } = await observeQueue(
      clusterWith(all, ['list jobs.batch *', 'list pods *'], list).cluster,
      settings,
    );
    assert.deepEqual([source.kind, namesOf(jobs)], ['cluster', ['stuck waiting', 'other running']]);
    const blind = await observeQueue(clusterWith(all, ['list jobs.batch *']).cluster, settings);
    assert.deepEqual(namesOf(blind.jobs), ['stuck waiting', 'other waiting'], 'without pods a Job is all there is');
  });

  test('from the published list otherwise, with the current jobs of our namespace', async () => {
    const { source, jobs } = await observeQueue(
      clusterWith(all, ['list jobs.batch vision', 'list pods vision'], list).cluster,
      settings,
    );
    assert.deepEqual(source, { kind: 'published', updatedAt: now, isOwnFresh: true, skipped: 0 });
    assert.deepEqual(namesOf(jobs), ['far running', 'stuck waiting']);
    const none = await observeQueue(clusterWith(all, [], list).cluster, settings);
    assert.deepEqual(namesOf(none.jobs), ['then running', 'far running']);
  });

  test('in the namespace without a published list, or fails if it may not be listed', async () => {
    for (const without of [undefined, { list: 'nonsense' }]) {
      const seen = await observeQueue(clusterWith(all, ['list jobs.batch vision'], without).cluster, settings);
      assert.deepEqual([seen.source.kind, namesOf(seen.jobs)], ['namespace', ['stuck waiting']]);
    }
    await assert.rejects(observeQueue(clusterWith(all, []).cluster, settings), /you may not list jobs\.batch/);
  });

  test('and published completely or not at all', async () => {
    const { cluster, written } = clusterWith(all, ['list jobs.batch *', 'list pods *']);
    assert.equal(await publishQueue(cluster, settings, now), 2);
    const [[name, namespace, data]] = written as [[string, string, Record<string, string>]];
    assert.deepEqual([name, namespace], ['list', 'default']);
    assert.deepEqual(
      (await parsePublishedQueue('list', data))?.jobs.map((one) => one.name),
      ['stuck', 'other'],
    );
    const barred = clusterWith(all, ['list jobs.batch vision']);
    await assert.rejects(publishQueue(barred.cluster, settings, now), /you may not list/);
    assert.deepEqual(barred.written, []);
  });
});

/** The tested fields of an object of the manifest. */
interface Shipped {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly { readonly resourceNames?: readonly string[] }[];
  readonly spec?: {
    readonly jobTemplate: {
      readonly metadata: { readonly labels: object };
      readonly spec: {
        readonly template: { readonly spec: { readonly containers: readonly { readonly image: string }[] } };
      };
    };
  };
}

suite('the shipped CronJob', () => {
  const manual = (name: string): string => readFileSync(join(root, 'deploy/kubernetes', name), 'utf8');
  const objects = parseAllDocuments(manual('queue.yaml')).map((one) => one.toJS() as Shipped);
  const all = (kind: string) => objects.filter((one) => one.kind === kind);

  test('writes the ConfigMap of the settings, with the label that excludes it from the count', () => {
    const { namespace, configmap } = clusterSettingsOf().jobsQueue;
    const [map] = all('ConfigMap');
    assert.deepEqual(map?.metadata, { name: configmap, namespace });
    const rules = all('Role').flatMap(({ rules: own = [] }) => own);
    assert.ok(rules.length > 0);
    for (const { resourceNames } of rules) assert.deepEqual(resourceNames, [configmap]);
    for (const { metadata } of objects) assert.ok(metadata.namespace === undefined || metadata.namespace === namespace);
    const [cron] = all('CronJob');
    assert.deepEqual(cron?.spec?.jobTemplate.metadata.labels, { [clusterLabels.uncounted]: 'true' });
  });

  test('has this version', () => {
    const image = `registry.example.com/jobman:${version}`;
    for (const name of ['queue.yaml', 'README.md', 'server.yaml']) assert.ok(manual(name).includes(image), name);
    assert.match(manual('../helm/jobman/Chart.yaml'), new RegExp(`^version: ${version}$`, 'm'));
    assert.equal(all('CronJob')[0]?.spec?.jobTemplate.spec.template.spec.containers[0]?.image, image);
  });
});

test('with all namespaces, yours are the jobs with one of your names', () => {
  const jobs = [
    queued({ namespace: 'vision', owner: 'ada' }),
    queued({ namespace: 'speech', owner: 'ada1' }),
    queued({ namespace: 'vision', owner: null }),
    queued({ namespace: 'speech', owner: 'another-user' }),
  ];
  const owners = ownerLabels(aMember('ada', { logins: ['ada1'] }));
  assert.equal(queueView(jobs, { ...viewer, owners, namespace: null }).yours, 2);
  // A label allows no other letters. The new jobs of this user then have the name of the login.
  assert.deepEqual(ownerLabels(aMember('艾达', { logins: ['ada1'] })), ['ada1']);
});
