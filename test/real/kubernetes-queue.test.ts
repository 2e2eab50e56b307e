/**
 * The queue of a real cluster: for users who may list all jobs, from the list that the shipped CronJob publishes, and
 * for users who see only their namespace.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jsonLines } from '../support/jobs.ts';
import { kubeTest, ClusterUser, type Kube } from '../support/kube.ts';
import { root } from '../support/root.ts';

/** The shipped manifest for a namespace of the test. The test starts the CronJob's jobs itself. */
function shipped(kube: Kube): string {
  return readFileSync(join(root, 'deploy/kubernetes/queue.yaml'), 'utf8')
    .replaceAll('namespace: default', `namespace: ${kube.namespace}`)
    .replaceAll('jobman-queue-lister', `jobman-queue-lister-${kube.namespace}`)
    .replace('  schedule:', '  suspend: true\n  schedule:');
}

function applyShipped(kube: Kube): void {
  const file = join(kube.world.folder, 'queue.yaml');
  writeFileSync(file, shipped(kube));
  kube.world.atEnd(() => void kube.kubectl('delete', '-f', file, '--ignore-not-found', '--wait=false'));
  kube.kubectl('apply', '-f', file);
}

interface Line {
  readonly kind: string;
  readonly source?: string;
  readonly flavor?: string | null;
  readonly jobCount?: number;
  readonly yourJobCount?: number;
  readonly gpus?: number;
  readonly conflict?: boolean;
  readonly waitingCount?: number;
  readonly name?: string;
  readonly namespace?: string;
  readonly position?: number;
  readonly queue?: string | null;
  readonly priority?: number;
}

async function queueOf(person: ClusterUser): Promise<readonly Line[]> {
  return jsonLines<Line>(await person.output('queue --json'));
}

suite('the queue of a cluster', () => {
  kubeTest(
    'is counted and ordered, published with the least permissions, and read by users without any',
    async (kube) => {
      const { namespace } = kube;
      const settings = { jobsQueue: { namespace } };
      applyShipped(kube);
      const admin = kube.adminUser({ settings });
      const user = kube.leastPrivilegeUser({ settings });

      const urgent = `urgent-${namespace}`;
      kube.kubectl('create', 'priorityclass', urgent, '--value=1000');
      kube.world.atEnd(() => void kube.kubectl('delete', 'priorityclass', urgent));
      const high = join(kube.world.folder, 'high.json');
      writeFileSync(high, JSON.stringify({ job: { priorityClassName: urgent } }));

      // The test has its own flavors, because the cluster may have other jobs.
      const [small, gpus] = [`small-${namespace}`, `gpus-${namespace}`];
      const flavor = (name: string, requests: object): string => JSON.stringify({ name, resources: { requests } });
      const noNode = flavor(gpus, { cpu: '1m', 'nvidia.com/gpu': 1, 'amd.com/gpu': 2 });
      for (const [name, asks, ...more] of [
        ['one', flavor(small, { cpu: '10m', memory: '20M' })],
        ['same', flavor(small, { memory: '20000k', cpu: 0.01 })],
        ['other', flavor(small, { cpu: '11m', memory: '20M' })],
        ['waits', noNode],
        ['first', noNode, '-s', high],
        ['held', noNode, '--suspend'],
        ['kueue', noNode, '--suspend', '--queue', 'vision'],
      ] as const) {
        await admin.output(['submit', '-q', '-i', 'alpine', '-r', asks, '-j', name, ...more, '--', 'sleep', '600']);
      }
      kube.kubectl('create', 'job', 'once', '--from=cronjob/jobman-queue');
      const pending = () => kube.field('.items[*].metadata.name', 'pods', '--field-selector=status.phase=Pending');
      const run = () => ['one', 'same', 'other'].every((name) => kube.field('.status.ready', 'job', name) === '1');
      await eventually(() => run() && pending().split(' ').length >= 2, { withinMs: 90_000 });

      const groupsOf = (lines: readonly Line[]) =>
        lines
          .filter((line) => line.kind === 'group' && [small, gpus].includes(line.flavor ?? ''))
          .map(({ flavor: name, jobCount, yourJobCount, waitingCount, gpus: count, conflict }) => [
            name,
            jobCount,
            yourJobCount,
            waitingCount,
            count,
            conflict,
          ])
          .toSorted((one, other) => Number(other[1]) - Number(one[1]));
      const expected = (yours: number) => [
        [gpus, 3, yours * 3, 3, 3, false],
        [small, 2, yours * 2, 0, 0, true],
        [small, 1, yours, 0, 0, true],
      ];

      const whole = await queueOf(admin);
      assert.equal(whole[0]?.source, 'cluster');
      assert.deepEqual(groupsOf(whole), expected(1));
      const waiting = whole.filter((line) => line.kind === 'waiting' && line.namespace === namespace);
      const named = waiting.map(({ name }) => name);
      assert.deepEqual(named, ['first', 'waits', 'kueue'], 'the publishing job is not listed');

      // Nothing is published yet, so only the namespace is shown.
      assert.equal((await queueOf(user))[0]?.source, 'namespace');
      const only = / only: .*ConfigMap/;
      assert.match((await user.run('queue')).stderr, only);

      // With the CronJob's own service account.
      const cron = new ClusterUser(kube.world, 'cron', { kubeconfig: kube.kubeconfigFor('jobman-queue'), settings });
      await Promise.all([1, 2, 3].map(() => cron.output('queue --publish')));
      const { data } = kube.get<{ data: Record<string, string> }>('configmap', 'jobman-queue-position');
      const list = JSON.parse(data['jobman-queue-position'] ?? '') as { jobs: { namespace: string; name: string }[] };
      assert.deepEqual(
        list.jobs.filter((job) => job.namespace === namespace).map(({ name }) => name),
        ['first', 'kueue', 'one', 'other', 'same', 'waits'],
      );

      const read = await queueOf(user);
      assert.equal(read[0]?.source, 'published');
      assert.deepEqual(groupsOf(read), expected(1));
      assert.match((await user.run('queue')).stderr, /from the ConfigMap .*jobman-queue-position, \d+[sm] old/);
      // A user of another namespace, who may not even list that one.
      assert.deepEqual(groupsOf(jsonLines<Line>(await user.output('queue -n default --json'))), expected(0));
      await user.runRefused(1, /The permission `list` on jobs\.batch is missing/, 'queue --publish');
    },
  );

  kubeTest('is published by an account without any other permission', async (kube) => {
    applyShipped(kube);
    const account = `system:serviceaccount:${kube.namespace}:jobman-queue`;
    const may = (line: string): boolean => {
      try {
        return kube.kubectl('auth', 'can-i', ...line.split(' '), '--as', account).trim() === 'yes';
      } catch {
        // The exit code says so as well.
        return false;
      }
    };
    const list = 'configmap/jobman-queue-position';
    const allowed = ['list jobs.batch -A', 'list pods -A', 'list priorityclasses', `get ${list}`, `update ${list}`];
    for (const line of allowed) assert.equal(may(line), true, line);
    for (const line of [
      'get jobs.batch -A',
      'watch jobs.batch -A',
      'create jobs.batch',
      'delete jobs.batch',
      'delete pods',
      'get pods/log',
      'create pods/exec',
      'list secrets',
      'list configmaps',
      'create configmaps',
      `delete ${list}`,
      'get configmap/kube-root-ca.crt',
      'update configmap/kube-root-ca.crt',
      `get ${list} -n kube-system`,
    ]) {
      assert.equal(may(line), false, line);
    }
  });

  kubeTest('has a line for each queue of Kueue, ordered by priority class', async (kube) => {
    const kind = 'workloadpriorityclasses.kueue.x-k8s.io';
    const urgent = `urgent-${kube.namespace}`;
    // Kueue is not installed here; the test creates the one kind of its objects that jobman reads.
    if (kube.kubectl('get', 'crd', kind, '--ignore-not-found', '-o', 'name') === '') {
      const schema = { openAPIV3Schema: { type: 'object', properties: { value: { type: 'integer' } } } };
      const approved = { 'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/kueue' };
      const names = { kind: 'WorkloadPriorityClass', plural: 'workloadpriorityclasses' };
      const versions = [{ name: 'v1beta1', served: true, storage: true, schema }];
      kube.world.atEnd(() => void kube.kubectl('delete', 'crd', kind));
      kube.apply('kueue', {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: kind, annotations: approved },
        spec: { group: 'kueue.x-k8s.io', scope: 'Cluster', names, versions },
      });
      kube.kubectl('wait', '--for=condition=Established', `crd/${kind}`, '--timeout=60s');
    } else kube.world.atEnd(() => void kube.kubectl('delete', kind, urgent));
    const object = { apiVersion: 'kueue.x-k8s.io/v1beta1', kind: 'WorkloadPriorityClass', metadata: { name: urgent } };
    const isMade = (): boolean => {
      try {
        kube.apply('urgent', { ...object, value: 7 });
        return true;
      } catch {
        return false;
      }
    };
    assert.ok(await eventually(isMade, { withinMs: 30_000 }), 'the kind is served');

    const admin = kube.adminUser();
    for (const name of ['older', 'newer']) {
      await admin.output(`submit -q -i alpine -j ${name} --queue vision --suspend`);
    }
    kube.kubectl('label', 'job', 'newer', `kueue.x-k8s.io/priority-class=${urgent}`);
    const lines = await queueOf(admin);
    assert.deepEqual(
      lines
        .filter((line) => line.kind === 'waiting' && line.namespace === kube.namespace)
        .map(({ name, position, queue, priority }) => [name, position, queue, priority]),
      [
        ['newer', 1, 'vision', 7],
        ['older', 2, 'vision', 0],
      ],
    );
    assert.match(await admin.output('list --name older'), /queued .* waiting in the queue vision$/m);
    assert.match(
      await admin.output('why older'),
      /^Job older waits in the queue vision, which has not admitted it\.$/m,
    );
    await admin.runRefused(4, /older waits in the queue vision until the queue admits it\./, 'start older');
  });
});
