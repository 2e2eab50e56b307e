/**
 * The queue of a real cluster: by those who may list all jobs, by the list that the shipped CronJob's service account publishes,
 * and by those who may see nothing but their namespace.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman, type Ended } from '../support/jobman.ts';
import { administrator, inNamespace, leastRights, type Person } from '../support/kube-people.ts';
import { changedKubeconfig, openKube, type Kube } from '../support/kube.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

/** What the shipped manifest says, for a namespace of the test's own. Nothing runs by the clock. */
function shipped(kube: Kube): string {
  return readFileSync(join(root, 'deploy/kubernetes/queue.yaml'), 'utf8')
    .replaceAll('namespace: default', `namespace: ${kube.namespace}`)
    .replaceAll('jobman-queue-lister', `jobman-queue-lister-${kube.namespace}`)
    .replace('  schedule:', '  suspend: true\n  schedule:');
}

function applyShipped(world: World, kube: Kube): void {
  const file = join(world.folder, 'queue.yaml');
  writeFileSync(file, shipped(kube));
  world.atEnd(() => void kube.kubectl('delete', '-f', file, '--ignore-not-found', '--wait=false'));
  kube.kubectl('apply', '-f', file);
}

/** The CronJob's own login. */
function publisher(world: World, kube: Kube) {
  const token = kube.kubectl('create', 'token', 'jobman-queue', '--duration=1h').trim();
  const kubeconfig = changedKubeconfig(world, inNamespace(world, kube.admin, kube.namespace), ({ users }) => {
    for (const one of users) one.user = { token };
  });
  const settings = join(world.folder, 'queue-settings.json');
  writeFileSync(settings, JSON.stringify({ jobsQueue: { namespace: kube.namespace } }));
  return {
    kubeconfig,
    publish: (): Promise<Ended> =>
      jobman(world, ['-s', settings, 'queue', '--publish'], { env: { KUBECONFIG: kubeconfig }, withinMs: 120_000 }),
  };
}

interface Line {
  readonly kind: string;
  readonly from?: string;
  readonly flavor?: string | null;
  readonly jobs?: number;
  readonly yours?: number;
  readonly gpus?: number;
  readonly conflict?: boolean;
  readonly waiting?: number;
  readonly job?: string;
  readonly namespace?: string;
  readonly place?: number;
  readonly queue?: string | null;
  readonly priority?: number;
}

async function queueOf(person: Person): Promise<readonly Line[]> {
  const { code, stdout, stderr } = await person.ask(['queue', '--json']);
  assert.equal(code, 0, stderr);
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

suite('the queue of a cluster', () => {
  test('is counted and ordered, published with the least rights, and read by those who have none', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const { namespace } = kube;
    const settings = { jobsQueue: { namespace } };
    applyShipped(world, kube);
    const admin = administrator(world, kube, { settings });
    const user = leastRights(world, kube, { settings });

    const urgent = `urgent-${namespace}`;
    kube.kubectl('create', 'priorityclass', urgent, '--value=1000');
    world.atEnd(() => void kube.kubectl('delete', 'priorityclass', urgent));
    const high = join(world.folder, 'high.json');
    writeFileSync(high, JSON.stringify({ job: { priorityClassName: urgent } }));

    // Names of flavors are this test's own: the cluster may have other jobs.
    const [small, gpus] = [`small-${namespace}`, `gpus-${namespace}`];
    const flavor = (name: string, requests: object): string => JSON.stringify({ name, resources: { requests } });
    const submit = async (name: string, asks: string, ...more: readonly string[]): Promise<void> => {
      const words = ['submit', '-q', '-i', 'alpine', '-r', asks, '-j', name, ...more, '--', 'sleep', '600'];
      const { code, stderr } = await admin.ask(words);
      assert.equal(code, 0, stderr);
    };
    const noNode = { cpu: '1m', 'nvidia.com/gpu': 1, 'amd.com/gpu': 2 };
    await submit('one', flavor(small, { cpu: '10m', memory: '20M' }));
    await submit('same', flavor(small, { memory: '20000k', cpu: 0.01 }));
    await submit('other', flavor(small, { cpu: '11m', memory: '20M' }));
    await submit('waits', flavor(gpus, noNode));
    await submit('first', flavor(gpus, noNode), '-s', high);
    await submit('held', flavor(gpus, noNode), '--suspend');
    await submit('kueue', flavor(gpus, noNode), '--suspend', '--queue', 'vision');
    kube.kubectl('create', 'job', 'once', '--from=cronjob/jobman-queue');
    await eventually(
      () =>
        ['one', 'same', 'other'].every(
          (name) => kube.kubectl('get', 'job', name, '-o', 'jsonpath={.status.ready}') === '1',
        ) &&
        kube.kubectl('get', 'pods', '--field-selector=status.phase=Pending', '-o', 'name').trim().split('\n').length >=
          2,
      { withinMs: 90_000 },
    );

    const groupsOf = (lines: readonly Line[]) =>
      lines
        .filter((line) => line.kind === 'group' && [small, gpus].includes(line.flavor ?? ''))
        .map(({ flavor: name, jobs, yours, waiting, gpus: count, conflict }) => ({
          name,
          jobs,
          yours,
          waiting,
          count,
          conflict,
        }))
        .toSorted((a, b) => (b.jobs ?? 0) - (a.jobs ?? 0));
    const expected = [
      { name: gpus, jobs: 3, yours: 3, waiting: 3, count: 3, conflict: false },
      { name: small, jobs: 2, yours: 2, waiting: 0, count: 0, conflict: true },
      { name: small, jobs: 1, yours: 1, waiting: 0, count: 0, conflict: true },
    ];
    const placesOf = (lines: readonly Line[]) =>
      lines.filter((line) => line.kind === 'waiting' && line.namespace === namespace).map(({ job }) => job);

    const whole = await queueOf(admin);
    assert.equal(whole[0]?.from, 'cluster');
    assert.deepEqual(groupsOf(whole), expected);
    assert.deepEqual(placesOf(whole), ['first', 'waits', 'kueue'], 'nothing of the job that publishes');

    // Nothing is published yet: the namespace is all there is.
    const alone = await queueOf(user);
    assert.equal(alone[0]?.from, 'namespace');
    assert.match(
      (await user.ask(['queue'])).stderr,
      /only: you may not list the jobs of the whole cluster, and the ConfigMap/,
    );

    const cron = publisher(world, kube);
    const published = await Promise.all([cron.publish(), cron.publish(), cron.publish()]);
    for (const { code, stderr } of published) assert.equal(code, 0, stderr);
    const list = JSON.parse(
      JSON.parse(kube.kubectl('get', 'configmap', 'jobman-queue-position', '-o', 'json')).data['jobman-queue-position'],
    ) as { readonly jobs: readonly { readonly namespace: string; readonly name: string }[] };
    assert.deepEqual(
      list.jobs.filter((job) => job.namespace === namespace).map(({ name }) => name),
      ['first', 'kueue', 'one', 'other', 'same', 'waits'],
    );

    const read = await queueOf(user);
    assert.equal(read[0]?.from, 'published');
    assert.deepEqual(groupsOf(read), expected);
    assert.match((await user.ask(['queue'])).stderr, /by the ConfigMap .*jobman-queue-position, \d+[sm] old/);
    // Somebody whose namespace is another one, and who may not even list that.
    const elsewhere = await user.ask(['queue', '-n', 'default', '--json']);
    assert.equal(elsewhere.code, 0, elsewhere.stderr);
    const lines = elsewhere.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
    assert.deepEqual(
      groupsOf(lines),
      expected.map((group) => ({ ...group, yours: 0 })),
    );

    const barred = await user.ask(['queue', '--publish']);
    assert.equal(barred.code, 1);
    assert.match(barred.stderr, /Missing is the right `list` on jobs\.batch/);
  });

  test('is published by somebody who may do nothing else', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    applyShipped(world, kube);
    const account = `system:serviceaccount:${kube.namespace}:jobman-queue`;
    const may = (...words: readonly string[]): boolean => {
      try {
        return kube.kubectl('auth', 'can-i', ...words, '--as', account).trim() === 'yes';
      } catch {
        // Its exit code says no as well.
        return false;
      }
    };
    const list = 'configmap/jobman-queue-position';
    for (const words of [
      ['list', 'jobs.batch', '-A'],
      ['list', 'pods', '-A'],
      ['list', 'priorityclasses'],
      ['get', list],
      ['update', list],
    ]) {
      assert.equal(may(...words), true, words.join(' '));
    }
    for (const words of [
      ['get', 'jobs.batch', '-A'],
      ['watch', 'jobs.batch', '-A'],
      ['create', 'jobs.batch'],
      ['delete', 'jobs.batch'],
      ['delete', 'pods'],
      ['get', 'pods/log'],
      ['create', 'pods/exec'],
      ['list', 'secrets'],
      ['list', 'configmaps'],
      ['create', 'configmaps'],
      ['delete', list],
      ['get', 'configmap/kube-root-ca.crt'],
      ['update', 'configmap/kube-root-ca.crt'],
      ['get', list, '-n', 'kube-system'],
    ]) {
      assert.equal(may(...words), false, words.join(' '));
    }
  });
});

suite('jobs that a queue of Kueue holds back', () => {
  test('stand in a line of their own, by its classes of priority, and say that they wait there', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const kind = 'workloadpriorityclasses.kueue.x-k8s.io';
    const urgent = `urgent-${kube.namespace}`;
    // Kueue itself is not here; the one kind of its objects that jobman reads is.
    if (kube.kubectl('get', 'crd', kind, '--ignore-not-found', '-o', 'name') === '') {
      const schema = { openAPIV3Schema: { type: 'object', properties: { value: { type: 'integer' } } } };
      const metadata = {
        name: kind,
        annotations: { 'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/kueue' },
      };
      const names = { kind: 'WorkloadPriorityClass', plural: 'workloadpriorityclasses' };
      const versions = [{ name: 'v1beta1', served: true, storage: true, schema }];
      const spec = { group: 'kueue.x-k8s.io', scope: 'Cluster', names, versions };
      const file = join(world.folder, 'kueue.json');
      writeFileSync(
        file,
        JSON.stringify({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata, spec }),
      );
      world.atEnd(() => void kube.kubectl('delete', 'crd', kind));
      kube.kubectl('create', '-f', file);
      kube.kubectl('wait', '--for=condition=Established', `crd/${kind}`, '--timeout=60s');
    } else world.atEnd(() => void kube.kubectl('delete', kind, urgent));
    const file = join(world.folder, 'urgent.json');
    const metadata = { name: urgent };
    writeFileSync(
      file,
      JSON.stringify({ apiVersion: 'kueue.x-k8s.io/v1beta1', kind: 'WorkloadPriorityClass', metadata, value: 7 }),
    );
    const isMade = await eventually(
      () => {
        try {
          return kube.kubectl('apply', '-f', file) !== '';
        } catch {
          return false;
        }
      },
      { withinMs: 30_000 },
    );
    assert.ok(isMade, 'the kind is served');

    const admin = administrator(world, kube);
    for (const name of ['older', 'newer']) {
      const made = await admin.ask(['submit', '-q', '-i', 'alpine', '-j', name, '--queue', 'vision', '--suspend']);
      assert.equal(made.code, 0, made.stderr);
    }
    kube.kubectl('label', 'job', 'newer', `kueue.x-k8s.io/priority-class=${urgent}`);
    const lines = (await queueOf(admin)).filter(
      ({ kind: what, namespace }) => what === 'waiting' && namespace === kube.namespace,
    );
    assert.deepEqual(
      lines.map(({ job, place, queue, priority }) => [job, place, queue, priority]),
      [
        ['newer', 1, 'vision', 7],
        ['older', 2, 'vision', 0],
      ],
    );
    assert.match((await admin.ask(['list', '--name', 'older'])).stdout, /queued .* waits in the queue vision$/m);
    assert.match(
      (await admin.ask(['why', 'older'])).stdout,
      /^older waits in the queue vision, which has not admitted it\.$/m,
    );
    const start = await admin.ask(['start', 'older']);
    assert.equal(start.code, 4);
    assert.match(start.stderr, /older waits in the queue vision, which admits it in its turn\./);
  });
});
