/** `jobman queue` as it is typed and read; what it counts is decided in app/cluster/queue.ts. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Cluster, ClusterOptions } from '../../src/app/cluster/cluster.ts';
import type { ClusterJob } from '../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { queueData } from '../../src/app/cluster/queue-source.ts';
import { jsonLines, jobman, now } from './support/harness.ts';
import { aClusterJob } from '../support/cluster-builders.ts';

const job = (different: Partial<ClusterJob>): ClusterJob =>
  aClusterJob({
    createdAt: now - 120_000,
    active: 1,
    ready: 1,
    flavor: 'large-gpu',
    owner: 'alice',
    requests: { cpu: '1', memory: '1G', 'nvidia.com/gpu': '1' },
    images: [],
    ...different,
  });

interface Rights {
  readonly everywhere: boolean;
  /** The namespace does not exist. */
  readonly isMissing?: boolean;
  readonly list?: Readonly<Record<string, string>>;
}

/** The queue of a cluster with these jobs. */
async function queue(args: readonly string[], jobs: readonly ClusterJob[], { everywhere, list, isMissing }: Rights) {
  const opened: ClusterOptions[] = [];
  const written: unknown[] = [];
  const fake: Partial<Cluster> = {
    context: () => ({ context: 'lab', server: 'https://lab', namespace: 'vision', user: 'alice' }),
    async *jobs(query) {
      if (query.allNamespaces === true && !everywhere) throw new JobmanError('you may not list jobs', exitCode.failed);
      yield query.allNamespaces === true ? jobs : jobs.filter(({ namespace }) => namespace === 'vision');
      if (query.allNamespaces !== true && isMissing === true)
        throw new JobmanError('There is no namespace vision in lab.', exitCode.notFound);
    },
    async *unscheduledPods() {
      yield [];
      throw new JobmanError('you may not list pods', exitCode.failed);
    },
    priorityClasses: async () => null,
    configMap: async () => list ?? null,
    writeConfigMap: async (...what) => void written.push(what),
    close: async () => undefined,
  };
  const cluster = async (options: ClusterOptions): Promise<Cluster> => {
    opened.push(options);
    return fake as Cluster;
  };
  return {
    ...(await jobman(['queue', ...args], { services: { cluster, isClusterConfigured: async () => true } })),
    opened,
    written,
  };
}

const jobs = [
  job({}),
  job({ name: 'next', ready: 0 }),
  job({ name: 'theirs', namespace: 'speech', owner: 'bob', ready: 0, createdAt: now - 180_000 }),
  job({ name: 'odd', flavor: 'large-gpu', requests: { cpu: '2', memory: '1G', 'nvidia.com/gpu': '1' } }),
  job({ name: 'plain', owner: null, flavor: null, requests: {} }),
  job({ name: 'evil', namespace: 'other', flavor: '\u001b[2Jx', requests: { cpu: '3', 'hugepages-2Mi': '4Mi' } }),
];

suite('jobman queue', () => {
  test('of a namespace that does not exist is no empty one', async () => {
    const missing = { everywhere: true, isMissing: true };
    for (const args of [[], ['--json']]) {
      const { code, out, err } = await queue(args, [jobs[2] as ClusterJob], missing);
      assert.deepEqual([code, out], [3, ''], err);
      assert.match(err, /There is no namespace vision in lab\./);
    }
    // A visible job exists.
    assert.equal((await queue([], jobs, missing)).code, 0);
  });

  test('shows the same positions for jobs that were created in the same second', async () => {
    const equal = [job({ name: 'z', ready: 0 }), job({ name: 'a', ready: 0 })];
    const { out } = await queue([], equal, { everywhere: true });
    assert.deepEqual(out.match(/\d-\d of \d/g), ['1-2 of 2', '1-2 of 2']);
    const { out: json } = await queue(['--json'], equal, { everywhere: true });
    assert.match(json, /"name":"a",.*"position":1,"lastPosition":2,"queueLength":2/);
  });

  test('shows groups, conflicts, and the positions of waiting jobs', async () => {
    const { code, out, err } = await queue([], jobs, { everywhere: true });
    assert.equal(code, 0, err);
    assert.deepEqual(out.split('\n'), [
      'FLAVOR                JOBS  YOURS  WAITING  PODS  CPU  MEMORY  GPUS  OTHER',
      'large-gpu (conflict)     3      2        2     3    1      1G     1  -',
      'large-gpu (conflict)     1      1        0     1    2      1G     1  -',
      '<no name>                1      1        0     1    -       -     -  -',
      String.raw`\x1b[2Jx                 1      0        0     1    3       -     -  hugepages-2Mi 4Mi`,
      '',
      'POSITION  OWNER  NAMESPACE  JOB     QUEUE  PRIORITY  AGE  REQUESTS',
      '  1 of 2         speech     theirs  -             0   3m  large-gpu',
      '  2 of 2  yours  vision     next    -             0   2m  large-gpu',
      '',
    ]);
    assert.deepEqual(err.split('\n'), [
      '6 active jobs (4 yours) in the whole cluster of lab. Yours are the jobs of vision.',
      'note: the flavor large-gpu means different requests, which are counted separately',
      '',
    ]);
  });

  test('prints one object a line, the first of which says where it is from', async () => {
    const { out } = await queue(['--json'], jobs, { everywhere: true });
    const lines = jsonLines<Record<string, unknown>>(out);
    assert.deepEqual(lines[0], {
      kind: 'source',
      source: 'cluster',
      updatedAt: '2026-11-21T08:20:14.000Z',
      context: 'lab',
      namespace: 'vision',
      jobCount: 6,
      yourJobCount: 4,
    });
    assert.deepEqual(lines[1], {
      kind: 'group',
      flavor: 'large-gpu',
      requests: { cpu: '1', memory: '1G', 'nvidia.com/gpu': '1' },
      gpus: 1,
      jobCount: 3,
      yourJobCount: 2,
      waitingCount: 2,
      podCount: 3,
      conflict: true,
    });
    assert.deepEqual(
      lines.slice(-2).map(({ kind, name, position, queueLength, yours }) => [kind, name, position, queueLength, yours]),
      [
        ['waiting', 'theirs', 1, 2, false],
        ['waiting', 'next', 2, 2, true],
      ],
    );
  });

  test('says which part it is of, and how old', async () => {
    const list = await queueData('jobman-queue-position', [], now - 200_000);
    const published = await queue([], [], { everywhere: false, list });
    assert.equal(
      published.err,
      'No job is active in the cluster of lab, from the ConfigMap default/jobman-queue-position, 3m old, ' +
        'with the current jobs of lab/vision: you may not list the jobs of the whole cluster.\n',
    );
    assert.equal(published.out, '');
    const alone = await queue(['-n', 'vision', '--context', 'lab'], jobs.slice(0, 1), { everywhere: false });
    assert.match(alone.err, /^1 active job \(1 yours\) in lab\/vision only: you may not list/);
    assert.deepEqual(alone.opened, [{ namespace: 'vision', context: 'lab' }]);
  });

  test('of a long line shows yours and the first of it', async () => {
    const many = Array.from({ length: 80 }, (_, index) =>
      job({ name: `j${index}`, ready: 0, createdAt: now - 80 + index, owner: index === 70 ? 'alice' : 'bob' }),
    );
    const { out, err } = await queue([], many, { everywhere: true });
    const rows = out.trim().split('\n').slice(4);
    assert.deepEqual(
      [rows.length, rows[0]?.trim().slice(0, 7), rows.at(-1)?.trim().slice(0, 15)],
      [50, '1 of 80', '71 of 80  yours'],
    );
    assert.match(err, /^and 30 more \(--json lists all\)$/m);
  });

  test('truncates an endless name', async () => {
    const { out } = await queue([], [job({ flavor: 'x'.repeat(200_000), ready: 0 })], { everywhere: true });
    const cut = `${'x'.repeat(20)}~${'x'.repeat(19)}`;
    const rows = out.trim().split('\n');
    assert.equal(rows[1]?.split(' ')[0], cut);
    assert.equal(rows.at(-1)?.split(' ').at(-1), cut);
  });

  test('--publish writes the list', async () => {
    const { code, out, written } = await queue(['--publish'], jobs, { everywhere: true });
    assert.deepEqual(
      [code, out],
      [0, 'Published 6 active jobs of lab in the ConfigMap default/jobman-queue-position.\n'],
    );
    assert.equal(written.length, 1);
    const { out: json } = await queue(['--publish', '--json'], jobs, { everywhere: true });
    assert.equal((JSON.parse(json) as { jobCount: number }).jobCount, 6);
  });
});
