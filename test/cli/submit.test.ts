/** `jobman submit` without a cluster: what is typed, and the Job that it becomes; and the same from a manifest. */
import { loadClusterSettings } from '../support/settings.ts';
import { formatProblems } from '../../src/schema/problems.ts';
import type { ErrorOutput } from '../../src/cli/outputs.ts';
import type { JobIdentity } from '../../src/app/cluster/cluster.ts';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { noLimits } from '../../src/core/policy/limits.ts';
import type { V1Job } from '@kubernetes/client-node';
import { stringify } from 'yaml';
import { type LoadedClusterSettings } from '../../src/app/cluster/settings.ts';
import { root } from '../support/root.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { openWorld } from '../support/world.ts';
import { aClusterJob } from '../support/cluster-builders.ts';
import { fakeCluster, jobman, jsonLines, noSubmissions } from './support/harness.ts';

/** With the shipped template. */
const clusterSettings = (): Promise<LoadedClusterSettings> =>
  loadClusterSettings({
    home: '/nowhere',
    template: join(root, 'src/app/cluster/settings.template.json'),
    userHome: '/home/alice',
  });

interface Around {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

function submit(args: readonly string[], { cwd = '/', env = {} }: Around = {}) {
  return jobman(['submit', ...args], { cwd, env, services: { clusterSettings } });
}

async function dryRun(args: readonly string[], around: Around = {}): Promise<V1Job> {
  const { code, out, err } = await submit(['--dry-run', '--json', ...args], around);
  assert.equal(code, 0, err);
  assert.equal(out.split('\n').length, 2, 'one object on one line');
  return JSON.parse(out) as V1Job;
}

const container = (job: V1Job) => job.spec?.template.spec?.containers[0];

suite('the lines of the older manual', () => {
  test('submit -i alpine -r no-gpu -- ls -al /', async () => {
    const job = await dryRun(['-i', 'alpine', '-r', 'no-gpu', '-j', 'listing', '--', 'ls', '-al', '/']);
    const labels = {
      'app.kubernetes.io/managed-by': 'jobman',
      'jobman/owner': 'alice',
      'jobman/installation': 'abc123',
      'jobman/job': 'listing',
    };
    const amounts = { cpu: '1000m', memory: '1G' };
    assert.deepEqual(job, {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'listing', labels, annotations: { 'jobman/flavor': 'no-gpu' } },
      spec: {
        backoffLimit: 0,
        ttlSecondsAfterFinished: 604_800,
        template: {
          metadata: { labels },
          spec: {
            restartPolicy: 'Never',
            containers: [
              {
                name: 'main',
                image: 'alpine',
                args: ['ls', '-al', '/'],
                resources: { requests: amounts, limits: amounts },
              },
            ],
          },
        },
      },
    });
  });

  test("submit -i ubuntu_python_tensorflow:3.1cuda11 -r small-gpu -- sh -c 'nvidia-smi -L'", async () => {
    for (const image of ['ubuntu_python_tensorflow:3.1cuda11']) {
      const job = await dryRun(['-i', image, '-r', 'small-gpu', '--', 'sh', '-c', 'nvidia-smi -L']);
      assert.deepEqual(container(job)?.args, ['sh', '-c', 'nvidia-smi -L']);
      assert.equal(container(job)?.image, image);
      assert.deepEqual(container(job)?.resources?.limits, { 'nvidia.com/gpu': '1' });
      assert.match(job.metadata?.name ?? '', /^jobman-[a-z2-7]{8}$/);
    }
  });

  test('submit -i … -r large-gpu -- python3 -c "…"', async () => {
    const program = 'exec("from x import y\\ny.z()")';
    const job = await dryRun(['-i', 'i:3.1', '-r', 'large-gpu', '--', 'python3', '-c', program]);
    assert.deepEqual(container(job)?.args, ['python3', '-c', program]);
  });

  test('submit -ci image, and the long flags', async () => {
    const lines = [
      ['-ci', 'alpine', '--', 'ls'],
      ['--command', '--image', 'alpine', '--', 'ls'],
      ['--image=alpine', '-c', '--', 'ls'],
    ];
    for (const line of lines) {
      const job = await dryRun(['-j', 'x', ...line]);
      assert.deepEqual([container(job)?.command, container(job)?.args], [['ls'], undefined]);
    }
  });

  test('a flavor as a file and as JSON', async (t) => {
    const { folder } = openWorld(t);
    const json = '{ "name": "f", "resources": { "requests": { "cpu": "2" } } }';
    writeFileSync(join(folder, 'f.json'), json);
    for (const flavor of ['f.json', join(folder, 'f.json'), json]) {
      const job = await dryRun(['-i', 'a', '--resources-flavor', flavor], { cwd: folder });
      assert.deepEqual(container(job)?.resources, { requests: { cpu: '2' } });
      assert.equal(job.metadata?.annotations?.['jobman/flavor'], 'f');
    }
  });

  test('resources-flavors', async () => {
    const { code, out } = await jobman(['resources-flavors'], { services: { clusterSettings } });
    assert.equal(code, 0);
    assert.match(out, /^FLAVOR +CPU +MEMORY +GPUS +DESCRIPTION\nno-gpu \(default\) +1000m +1G +- /);
    assert.match(out, /^large-gpu +1000m +1G +1 nvidia\.com\/gpu /m);
    const { out: json } = await jobman(['resources-flavors', '--json'], { services: { clusterSettings } });
    assert.deepEqual(
      json
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { gpus: number }).gpus),
      [0, 1, 1],
    );
  });
});

test('the warning that names are public appears with the first submitted job only', async () => {
  const stderrOf = async (args: readonly string[], hasSubmitted: boolean) => {
    const cluster = async () => Promise.reject(new JobmanError('There is no cluster here.', 5));
    const clusterSubmissions = async () => ({ ...noSubmissions, isUsed: hasSubmitted });
    const services = { clusterSettings, cluster, clusterSubmissions };
    return (await jobman(['submit', '-i', 'alpine', ...args], { services })).err;
  };
  const sentence = /^Every user of the cluster can see the names of the job and its flavor/;
  assert.match(await stderrOf([], false), sentence);
  assert.match(await stderrOf([], false), /Files in the pod are lost with the pod/);
  assert.doesNotMatch(await stderrOf([], true), sentence);
  assert.equal(await stderrOf(['--dry-run'], false), '');
});

test('a dry run says which label only a real one has, where there is no record yet', async () => {
  const args = ['submit', '-i', 'alpine', '--dry-run'];
  const { err, out } = await jobman(args, {
    client: { installationId: async () => null },
    services: { clusterSettings },
  });
  assert.match(err, /^A submitted Job also has the label jobman\/installation: /);
  assert.doesNotMatch(out, /jobman\/installation/);
});

test('every flag sets its field of the Job', async () => {
  const line =
    '-i lab/train:3 -j train -n vision -a {"team":"x"} --env A=1=2 --env FROM_HERE --secret s:k=V --secret all --workdir /w ' +
    '--gpus 2:NVIDIA-A100 --shm 8G --volume data:/data:ro --volume out:/out --service-account sa --parallelism 2 ' +
    '--completions 4 --backoff-limit 3 --timeout 90s --ttl 1d --suspend --queue q -- run $$ $(NAME) $5';
  const job = await dryRun(line.split(' '), { env: { FROM_HERE: 'there' } });
  const { metadata, spec } = job;
  assert.equal(metadata?.namespace, 'vision');
  // Two GPUs are not what the flavor of that name asks for.
  assert.deepEqual(metadata?.annotations, { team: 'x' });
  assert.equal(metadata?.labels?.['kueue.x-k8s.io/queue-name'], 'q');
  const { template, ...counts } = spec ?? {};
  assert.deepEqual(counts, {
    backoffLimit: 3,
    parallelism: 2,
    completions: 4,
    completionMode: 'Indexed',
    activeDeadlineSeconds: 90,
    ttlSecondsAfterFinished: 86_400,
    suspend: true,
  });
  const { containers = [], ...pod } = template?.spec ?? {};
  assert.deepEqual(pod, {
    restartPolicy: 'Never',
    serviceAccountName: 'sa',
    nodeSelector: { 'nvidia.com/gpu.product': 'NVIDIA-A100' },
    tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }],
    volumes: [
      { name: 'volume-0', persistentVolumeClaim: { claimName: 'data', readOnly: true } },
      { name: 'volume-1', persistentVolumeClaim: { claimName: 'out' } },
      { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: '8G' } },
    ],
  });
  assert.deepEqual(containers, [
    {
      name: 'main',
      image: 'lab/train:3',
      // Kubernetes makes one dollar of two.
      args: ['run', '$$$$', '$(NAME)', '$5'],
      workingDir: '/w',
      env: [
        { name: 'A', value: '1=2' },
        { name: 'FROM_HERE', value: 'there' },
        { name: 'V', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } },
      ],
      envFrom: [{ secretRef: { name: 'all' } }],
      resources: {
        requests: { cpu: '1000m', memory: '1G', 'nvidia.com/gpu': '2' },
        limits: { cpu: '1000m', memory: '1G', 'nvidia.com/gpu': '2' },
      },
      volumeMounts: [
        { name: 'volume-0', mountPath: '/data', readOnly: true },
        { name: 'volume-1', mountPath: '/out' },
        { name: 'shm', mountPath: '/dev/shm' },
      ],
    },
  ]);
});

suite('nothing is submitted', () => {
  const cases: readonly (readonly [args: readonly string[], code: number, message: RegExp])[] = [
    [['-i', 'a', 'ls'], 2, /Unexpected argument "ls"\.\n.*jobman submit -i alpine -- ls/],
    [['good.yaml'], 2, /^jobman: good\.yaml does not exist\.\n/],
    [
      ['-i', 'a', '-j', 'Train_1'],
      2,
      /--job-name "Train_1": it is not a valid name in Kubernetes.*did you mean train-1\?/,
    ],
    [['-i', 'a', '-j', 'x'.repeat(64)], 2, /has 64 characters; the limit of Kubernetes is 63/],
    [['-i', 'a', '-a', '{"n": 1}'], 2, /annotations:1:7: "n" should be a text, not 1; write "1"/],
    [['-i', 'a', '-a', '{"n": "1",}'], 2, /annotations:1:11: Expected double-quoted property name/],
    [['-i', 'a', '-r', 'no-gpus'], 3, /There is no flavor no-gpus, .*Did you mean no-gpu\?/],
    [['-i', 'a', '-r', '{"resources": {"requests": {}}}'], 2, /flavor:1:1: a flavor needs a "name"/],
    [['-i', 'a', '-c'], 2, /-c replaces the entry point/],
    [['-i', 'a', '--env', 'NOT_SET'], 2, /Not set here: NOT_SET/],
    [['-i', 'a', '--gpus', '0'], 2, /--gpus "0": it is not a number of GPUs/],
    [['-i', 'a', '--volume', 'a:b'], 2, /must begin with a slash/],
    [['-i', 'a', '--volume', 'a:/x', '--volume', 'b:/x'], 2, /Two volumes have the path \/x\./],
    [['-i', 'a', '--shm', '8GB'], 2, /expected an amount/],
    [['-i', 'a', '--set', 'x=1'], 2, /--set changes a key of a manifest/],
    [['-i', 'a', '--name', 'x'], 2, /Unknown flag --name\. Did you mean --job-name\?/],
    [['-i', 'a', '--memry', '4G'], 2, /Unknown flag --memry\. Did you mean --memory\?/],
    [['-i', 'a', '--xyz', '4G'], 2, /Unknown flag --xyz\.\n/],
    [['-i', 'a', '--cpu', '0'], 2, /--cpu "0": expected an amount/],
    [['-i', 'a', '--memory', '4 gigs'], 2, /--memory "4 gigs": expected an amount/],
    [['-i', 'a', '--label', 'team'], 2, /--label "team": it is not a label: write KEY=VALUE/],
    [['-i', 'a', '--label', 'a=x', '--label', 'a=y'], 2, /--label names a twice: as x and as y\./],
    [['-i', 'a', '--label', 'jobman/owner=x'], 2, /jobman sets the label jobman\/owner itself/],
    [['-i', 'a', '--label', 'job-name=x'], 2, /Kubernetes sets the label job-name itself/],
    [['-i', 'a', '--toleration', 'a=b:Never'], 2, /has the effect "Never"; the effects are NoSchedule, /],
    [
      ['-i', 'a', '--priority-class', 'High'],
      2,
      /--priority-class "High": it is not a valid name.*did you mean high\?/,
    ],
    [['-i', 'a', '--ttl', 'never'], 2, /expected a length of time: 90s, 10m, 2h or 1d, or none/],
    [
      ['-i', 'a', '--gpus', '1:A', '--node-selector', 'nvidia.com/gpu.product=B'],
      2,
      /The node selector nvidia\.com\/gpu\.product=B and the GPU model \(A\) contradict each other/,
    ],
    [['-i', 'a b', '--workdir', 'w'], 2, /2 problems\.\n.*contains a space[^]*begin with a slash/],
    [[], 2, /No image\. Pass -i, or set job\.defaultImage/],
  ];
  for (const [args, code, message] of cases) {
    test(args.join(' ') || 'without an image', async () => {
      const found = await submit([...args.slice(0, 2), '--dry-run', ...args.slice(2)]);
      assert.equal(found.out, '');
      assert.match(found.err, message);
      assert.equal(found.code, code);
    });
  }
});

test('a digest is an image, and an invalid image name is refused', async () => {
  const digest = `alpine@sha256:${'0'.repeat(64)}`;
  assert.equal(container(await dryRun(['-i', digest]))?.image, digest);
  assert.doesNotMatch((await submit(['-i', digest, '--dry-run'])).err, /warning/);
  const refused = await submit(['-i', 'UPPER/Case', '--dry-run']);
  assert.deepEqual([refused.code, refused.out], [2, '']);
  assert.match(refused.err, /^jobman: The image UPPER\/Case is not an image.*did you mean upper\/case\?/);
});

test('--ttl is 7 days unless the flag or the settings differ; none leaves the Job in the cluster', async () => {
  const ttl = async (args: readonly string[], settings = clusterSettings) => {
    const { out, err } = await jobman(['submit', '--dry-run', '-i', 'a', ...args], {
      services: { clusterSettings: settings },
    });
    return [(JSON.parse(out) as V1Job).spec?.ttlSecondsAfterFinished, err];
  };
  const with_ = (value: string) => async () => {
    const read = await clusterSettings();
    return { ...read, settings: { ...read.settings, job: { ...read.settings.job, ttl: value } } };
  };
  assert.equal((await ttl([]))[0], 604_800);
  assert.equal((await ttl(['--ttl', 'none']))[0], undefined);
  assert.equal((await ttl(['--ttl', '90s']))[0], 90);
  assert.equal((await ttl([], with_('1h')))[0], 3_600);
  assert.equal((await ttl([], with_('none')))[0], undefined);
  assert.equal((await ttl(['--ttl', '2h'], with_('none')))[0], 7_200);
});

suite('the requests, the labels and the nodes of a job', () => {
  test('--cpu and --memory change the flavor, with its limits', async () => {
    const job = await dryRun(['-i', 'a', '--cpu', '4', '--memory', '16Gi']);
    const amounts = { cpu: '4', memory: '16Gi' };
    assert.deepEqual(container(job)?.resources, { requests: amounts, limits: amounts });
    assert.equal(job.metadata?.annotations, undefined);
    const gpu = await dryRun([
      '-i',
      'a',
      '--cpu',
      '4',
      '--gpus',
      '2',
      '-r',
      '{"name":"f","resources":{"requests":{}}}',
    ]);
    assert.deepEqual(container(gpu)?.resources, {
      requests: { cpu: '4', 'nvidia.com/gpu': '2' },
      limits: { 'nvidia.com/gpu': '2' },
    });
    // The same amount in another form is what the flavor asks for.
    const same = await dryRun(['-i', 'a', '-r', 'no-gpu', '--cpu', '1']);
    assert.deepEqual(same.metadata?.annotations, { 'jobman/flavor': 'no-gpu' });
    const named = await submit(['-i', 'a', '-r', 'no-gpu', '--cpu', '2', '--dry-run']);
    assert.match(named.err, /^warning: The job does not count as no-gpu, because --cpu changes its requests/);
    assert.doesNotMatch((await submit(['-i', 'a', '--cpu', '2', '--dry-run'])).err, /warning/);
  });

  test('labels, node selector, tolerations, priority class and pull secrets', async () => {
    const line =
      '-i a -j x --label team=vision --label x.io/run=7 --node-selector disk=ssd --toleration gpu ' +
      '--toleration a=b --toleration c=d:NoExecute --priority-class high --image-pull-secret one --image-pull-secret two';
    const { metadata, spec } = await dryRun(line.split(' '));
    for (const labels of [metadata?.labels, spec?.template.metadata?.labels]) {
      assert.equal(labels?.['team'], 'vision');
      assert.equal(labels?.['x.io/run'], '7');
      assert.equal(labels?.['jobman/job'], 'x');
    }
    const { nodeSelector, tolerations, priorityClassName, imagePullSecrets } = spec?.template.spec ?? {};
    assert.deepEqual(nodeSelector, { disk: 'ssd' });
    assert.deepEqual(tolerations, [
      { key: 'gpu', operator: 'Exists' },
      { key: 'a', operator: 'Equal', value: 'b' },
      { key: 'c', operator: 'Equal', value: 'd', effect: 'NoExecute' },
    ]);
    assert.deepEqual([priorityClassName, imagePullSecrets], ['high', [{ name: 'one' }, { name: 'two' }]]);
  });

  test('the manifest has the same keys, and a flag wins over its key', async (t) => {
    const { folder } = openWorld(t);
    writeFileSync(
      join(folder, 'a.yaml'),
      'kubernetes: {image: a, labels: {team: a, x: b}, node_selector: {disk: ssd}, tolerations: [gpu], priority_class: low, image_pull_secrets: [one], ttl: none}\n',
    );
    const job = await dryRun(['--file', 'a.yaml', '--label', 'team=c', '--priority-class', 'high'], { cwd: folder });
    assert.equal(job.metadata?.labels?.['team'], 'c');
    assert.equal(job.metadata?.labels?.['x'], 'b');
    const { nodeSelector, tolerations, priorityClassName, imagePullSecrets } = job.spec?.template.spec ?? {};
    assert.deepEqual(nodeSelector, { disk: 'ssd' });
    assert.deepEqual(tolerations, [{ key: 'gpu', operator: 'Exists' }]);
    assert.deepEqual([priorityClassName, imagePullSecrets], ['high', [{ name: 'one' }]]);
    assert.equal(job.spec?.ttlSecondsAfterFinished, undefined);
  });
});

test('create and submit -f are the same, and flags override the file', async (t) => {
  const { folder } = openWorld(t);
  const manifest = `job: {name: train, env: {A: 1}}
kubernetes: {image: "lab/train:3", resources: {requests: {cpu: 2}}, volumes: ["data:/data:ro"]}
command: {run: "echo $$", env: {B: 2}}
`;
  writeFileSync(join(folder, 'train.yaml'), manifest);
  const around = { cwd: folder, services: { clusterSettings } };
  const created = await jobman(['create', 'train.yaml', '--dry-run'], around);
  const submitted = await jobman(['submit', '--file', 'train.yaml', '--dry-run'], around);
  assert.equal(created.code, 0, created.err);
  assert.deepEqual([created.out, created.err], [submitted.out, submitted.err]);
  const job = JSON.parse(created.out) as V1Job;
  assert.deepEqual(container(job)?.command, ['sh', '-c', 'echo $$$$']);
  assert.equal(job.metadata?.annotations, undefined);
  const over = await dryRun(['--file', 'train.yaml', '--env', 'A=3', '-r', 'no-gpu', '--', 'other'], { cwd: folder });
  assert.deepEqual([container(over)?.command, container(over)?.args], [undefined, ['other']]);
  assert.deepEqual(container(over)?.env, [
    { name: 'A', value: '3' },
    { name: 'B', value: '2' },
  ]);
  assert.deepEqual(over.metadata?.annotations, { 'jobman/flavor': 'no-gpu' });
});

test('validate says what the settings do not have, and where it is asked for', async (t) => {
  const { folder } = openWorld(t);
  const around = { cwd: folder, services: { clusterSettings } };
  const check = async (text: string) => {
    writeFileSync(join(folder, 'a.yaml'), text);
    const { code, err } = await jobman(['validate', 'a.yaml'], around);
    return [code, err.split('\n')[0]];
  };
  const [code, message] = await check('kubernetes:\n  image: alpine\n  flavor: no-gpx\ncommand: {run: ls}\n');
  assert.equal(code, 2);
  assert.match(
    String(message),
    /^a\.yaml:3:11 kubernetes\.flavor: there is no flavor no-gpx, .* Did you mean no-gpu\?/,
  );
  assert.equal((await check('kubernetes: {image: alpine, flavor: no-gpu}\n'))[0], 0);
});

test('a manifest of another kind is sent to create', async (t) => {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'a.yaml'), 'local: {}\ncommand: {run: ls}\n');
  const { code, err } = await submit(['--file', 'a.yaml', '--dry-run'], { cwd: folder });
  assert.equal(code, 2);
  assert.match(err, /a\.yaml has no section kubernetes.*\n {2}jobman create a\.yaml/);
});

test('replaced resources are shown next to the requested ones', async () => {
  const asked: V1Job[] = [];
  const cluster = fakeCluster({
    async create(job: V1Job) {
      asked.push(job);
      const made = structuredClone(job);
      const resources = container(made)?.resources;
      // One is only written in another way.
      if (resources !== undefined) resources.requests = { cpu: '1', memory: '2G' };
      return made;
    },
    patch: async ({ name }: JobIdentity, change: object) => void patched.push([name, change]),
  });
  const patched: unknown[] = [];
  const { code, out, err } = await jobman(['submit', '-i', 'alpine', '-j', 'x', '--', 'ls'], {
    services: { clusterSettings, cluster: async () => cluster },
  });
  assert.equal(code, 0);
  assert.equal(asked.length, 1);
  assert.equal(out, 'x submitted to lab/vision as alice.\n');
  assert.match(
    err,
    /The cluster has replaced the requested resources as no-gpu:\n {2}request of memory: requested 1G, granted 2G\n$/,
  );
  // For `details`, later.
  const annotations = { 'jobman/replaced-resources': 'request of memory: requested 1G, granted 2G' };
  assert.deepEqual(patched, [['x', { metadata: { annotations } }]]);
});

test('with a kubeconfig from a pipe it says that no logs are kept', async () => {
  const cluster = fakeCluster({
    create: async (job: V1Job) => job,
  });
  const services = { clusterSettings, cluster: async () => cluster };
  for (const [path, isPiped] of [
    ['/dev/fd/63', true],
    ['/a:/dev/fd/63', true],
    ['/home/ada/dev/fd/63', false],
  ] as const) {
    const args = ['submit', '-i', 'alpine', '-j', 'x', '--', 'ls'];
    const { err } = await jobman(args, { services, env: { KUBECONFIG: path } });
    assert.equal(/cannot read KUBECONFIG again, because it is a pipe/.test(err), isPiped, path);
  }
});

test('a limit of the user names the clusters that may be used', async () => {
  const cluster = fakeCluster({ create: async (job: V1Job) => job });
  const services = { clusterSettings, cluster: async () => cluster };
  const submit = (clusters: readonly string[] | null) => {
    const alice = {
      name: 'alice',
      role: 'member',
      logins: [],
      account: null,
      accountBoundAt: null,
      createdAt: 0,
      disabledAt: null,
    } as const;
    const users = async () => [{ ...alice, limits: { ...noLimits, clusters } }];
    return jobman(['submit', '-i', 'alpine', '-j', 'x', '--', 'ls'], { services, client: { users } });
  };
  const { context, namespace } = cluster.context();
  const where = `${context}/${namespace}`;
  for (const allowed of [null, ['other', context], [where]]) assert.equal((await submit(allowed)).code, 0);
  const { code, err } = await submit(['other']);
  assert.equal(code, 4);
  assert.ok(err.includes(`Nothing was submitted: alice may not use the cluster ${where}: allowed is other.`), err);
});

suite('a whole Job object', () => {
  const written = `apiVersion: batch/v1
kind: Job
metadata:
  name: whole
  labels: {team: vision}
spec:
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: work, image: Registry.Example/x, command: [echo, $$]}
`;

  async function from(t: TestContext, name: string, text: string, ...args: readonly string[]) {
    const { folder } = openWorld(t);
    writeFileSync(join(folder, name), text);
    return submit(['--file', name, '--dry-run', '--json', ...args], { cwd: folder });
  }

  test('is taken as it is, with our labels', async (t) => {
    const labels = {
      'app.kubernetes.io/managed-by': 'jobman',
      'jobman/owner': 'alice',
      'jobman/installation': 'abc123',
      'jobman/job': 'whole',
    };
    const json = JSON.stringify({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'whole', labels: { team: 'vision' } },
      spec: {
        completions: 2,
        template: {
          spec: {
            restartPolicy: 'Never',
            containers: [{ name: 'work', image: 'Registry.Example/x', command: ['echo', '$$'] }],
          },
        },
      },
    });
    for (const [name, text] of [
      ['job.yaml', written],
      ['job.json', json],
    ] as const) {
      const { code, out, err } = await from(t, name, text);
      assert.equal(code, 0, err);
      const { spec } = JSON.parse(json) as V1Job;
      assert.deepEqual(JSON.parse(out), {
        apiVersion: 'batch/v1',
        kind: 'Job',
        metadata: { name: 'whole', labels: { team: 'vision', ...labels } },
        spec: { ...(spec as object), template: { ...(spec?.template as object), metadata: { labels } } },
      });
    }
  });

  test('has the name, the labels, the namespace and the ttl that the flags say', async (t) => {
    const args = '-j other -n speech --label x=y --ttl 1h --suspend --queue q -a {"note":"n"}'.split(' ');
    const { out, err, code } = await from(t, 'job.yaml', written, ...args);
    assert.equal(code, 0, err);
    const { metadata, spec } = JSON.parse(out) as V1Job;
    assert.deepEqual([metadata?.name, metadata?.namespace], ['other', 'speech']);
    assert.equal(metadata?.labels?.['jobman/job'], 'other');
    assert.equal(metadata?.labels?.['x'], 'y');
    assert.equal(metadata?.labels?.['kueue.x-k8s.io/queue-name'], 'q');
    assert.equal(spec?.template.metadata?.labels?.['x'], 'y');
    assert.deepEqual(metadata?.annotations, { note: 'n' });
    assert.deepEqual([spec?.ttlSecondsAfterFinished, spec?.suspend], [3_600, true]);
  });

  test('without a name gets a new one, that of generateName in front', async (t) => {
    const { out } = await from(t, 'job.yaml', written.replace('name: whole', 'generateName: whole-'));
    assert.match((JSON.parse(out) as V1Job).metadata?.name ?? '', /^whole-[a-z2-7]{8}$/);
    const none = await from(t, 'job.yaml', written.replace('  name: whole\n', ''));
    assert.match((JSON.parse(none.out) as V1Job).metadata?.name ?? '', /^jobman-[a-z2-7]{8}$/);
  });

  test('that was read from a cluster is submitted without what the cluster has added', async (t) => {
    const { spec } = JSON.parse((await from(t, 'job.yaml', written)).out) as V1Job;
    const read = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        name: 'whole',
        uid: 'u1',
        resourceVersion: '5',
        creationTimestamp: '2026-11-20T12:00:00Z',
        labels: { 'controller-uid': 'u1', 'batch.kubernetes.io/job-name': 'whole', 'jobman/owner': 'bob' },
      },
      spec: { ...(spec as object), selector: { matchLabels: { 'controller-uid': 'u1' } } },
      status: { succeeded: 1 },
    };
    const { out } = await from(t, 'job.json', JSON.stringify(read), '-j', 'again');
    const { metadata, spec: sent, ...rest } = JSON.parse(out) as V1Job;
    assert.deepEqual(Object.keys(metadata ?? {}), ['name', 'labels']);
    assert.equal(metadata?.labels?.['jobman/owner'], 'alice');
    assert.equal(metadata?.labels?.['controller-uid'], undefined);
    assert.equal(sent?.selector, undefined);
    assert.deepEqual(rest, { apiVersion: 'batch/v1', kind: 'Job' });
  });

  const wrong: readonly (readonly [called: string, text: string, message: RegExp, args?: readonly string[]])[] = [
    ['another kind', written.replace('Job', 'Pod'), /job\.yaml:2:7 kind: must be Job; for/],
    ['another version', written.replace('batch/v1', 'batch/v2'), /job\.yaml:1:13 apiVersion: must be batch\/v1/],
    [
      'no containers',
      written.replace('containers:', 'contaners:'),
      /job\.yaml:\d+:\d+ spec\.template\.spec\.containers: must be a list/,
    ],
    ['broken YAML', `${written}  x: [1\n`, /job\.yaml:\d+:\d+/],
    ['two objects', `${written}---\n${written}`, /job\.yaml:\d+:1: a second YAML document begins here/],
    ['a number as a label', written.replace('vision', '7'), /metadata\.labels: must be an object of strings/],
    ['an image too', written, /job\.yaml is a whole Job, and --image is about a part/, ['-i', 'alpine']],
    ['arguments to run too', written, /is a whole Job, and `--` is about a part/, ['--', 'ls']],
    ['--set too', written, /is a whole Job, and --set is about a part/, ['--set', 'a=b']],
    ['our label', written, /jobman sets the label jobman\/job itself/, ['--label', 'jobman/job=x']],
    [
      'a bad name',
      written.replace('whole', 'Whole_1'),
      /The name "Whole_1" is not a valid name .*did you mean whole-1\?/,
    ],
  ];
  for (const [called, text, message, args = []] of wrong) {
    test(`with ${called} is refused`, async (t) => {
      const { code, out, err } = await from(t, 'job.yaml', text, ...args);
      assert.deepEqual([code, out], [2, ''], err);
      const { error } = JSON.parse(err) as ErrorOutput;
      const problems = formatProblems(
        'job.yaml',
        error.problems.map(({ key: path, ...problem }) => ({ path, ...problem })),
      );
      assert.match([error.message, ...error.hints, ...problems].join('\n'), message);
    });
  }
});

test('create --wait of a manifest with a section kubernetes waits for the job', async (t) => {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'a.yaml'), 'kubernetes: {image: alpine}\njob: {name: train}\n');
  const done = aClusterJob({
    failed: 1,
    conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded', message: '', at: 0 }],
  });
  const cluster = fakeCluster({
    create: async (job: V1Job) => job,
    configMap: async () => null,
    job: async () => done,
    pods: async () => [],
    async *watchJobs() {
      yield { kind: 'changed', object: done };
    },
  });
  const services = { clusterSettings, cluster: async () => cluster, isClusterConfigured: async () => true };
  const { code, out } = await jobman(['create', 'a.yaml', '--wait', '--json'], { cwd: folder, services });
  assert.equal(code, 1);
  assert.deepEqual(
    jsonLines<{ kind?: string; phase?: string }>(out).map(({ kind, phase }) => kind ?? phase),
    ['Job', 'failed'],
  );
});

suite('--queue', () => {
  /** Submits to a cluster that stores the Job as this function changes it. */
  async function queued(stored: (job: V1Job) => V1Job, ...args: readonly string[]) {
    const cluster = fakeCluster({
      create: async (job: V1Job) => stored(job),
      configMap: async () => null,
    });
    const all = ['submit', '-i', 'alpine', '-j', 'train', ...args, '--', 'ls'];
    return jobman(all, { services: { clusterSettings, cluster: async () => cluster } });
  }
  function suspended(job: V1Job): V1Job {
    const stored = structuredClone(job);
    if (stored.spec !== undefined) stored.spec.suspend = true;
    return stored;
  }

  test('says that the job does not wait where nothing suspends it', async () => {
    const { code, err } = await queued((job) => job, '--queue', 'q');
    assert.equal(code, 0, err);
    assert.match(err, /Kueue did not suspend the job: it runs at once, without waiting in its queue\./);
  });

  test('says nothing of it where Kueue suspends the Job, or nothing is asked of it', async () => {
    for (const { err } of [
      await queued(suspended, '--queue', 'q'),
      await queued((job) => job),
      await queued((job) => job, '--queue', 'q', '--suspend'),
    ]) {
      assert.doesNotMatch(err, /Kueue/);
    }
  });
});

suite('a pipe', () => {
  /** The output of the shell line is read through a named pipe. */
  async function piped(t: TestContext, text: string, ...args: readonly string[]) {
    const { folder } = openWorld(t);
    writeFileSync(join(folder, 'text'), text);
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    const writer = spawn('sh', ['-c', 'cat text >pipe'], { cwd: folder });
    const ended = new Promise((resolve) => writer.on('exit', resolve));
    const result = await submit(['--file', 'pipe', '--dry-run', '--json', ...args], { cwd: folder });
    await ended;
    return result;
  }

  test('has a whole Job', async (t) => {
    const job = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'whole' },
      spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'work', image: 'x' }] } } },
    };
    for (const text of [JSON.stringify(job), stringify(job)]) {
      const { code, out, err } = await piped(t, text, '-j', 'other');
      assert.equal(code, 0, err);
      assert.equal((JSON.parse(out) as V1Job).metadata?.name, 'other');
    }
  });

  test('has a manifest', async (t) => {
    const { code, out, err } = await piped(t, 'kubernetes: {image: alpine}\njob: {name: train}\n');
    assert.equal(code, 0, err);
    assert.equal((JSON.parse(out) as V1Job).metadata?.name, 'train');
  });
});

suite('a whole Job as a manifest', () => {
  test('leads to submit -f', async (t) => {
    const { folder } = openWorld(t);
    writeFileSync(join(folder, 'job.yaml'), 'apiVersion: batch/v1\nkind: Job\nspec: {}\n');
    for (const args of [
      ['create', 'job.yaml'],
      ['validate', 'job.yaml'],
    ]) {
      const { code, out, err } = await jobman(args, { cwd: folder, services: { clusterSettings } });
      assert.equal(code, 2);
      assert.match(out + err, /job\.yaml:1:1: This is a Kubernetes object, .* jobman submit FILE/);
      assert.doesNotMatch(out + err, /is no section/);
    }
  });
});

suite('an interactive session', () => {
  test('has a terminal whose input ends with its line', async () => {
    for (const args of [['-it'], ['-ti'], ['-t'], ['--tty'], ['-it', '--rm']]) {
      const { code, out, err } = await submit([...args, '-i', 'alpine', '--dry-run', '--', 'sh']);
      assert.equal(code, 0, err);
      const { stdin, stdinOnce, tty, image } = container(JSON.parse(out) as V1Job) ?? {};
      assert.deepEqual([stdin, stdinOnce, tty, image], [true, true, true, 'alpine']);
    }
  });

  test('with --rm is deleted by the cluster ten minutes after its end, if the command was killed', async () => {
    const ttl = async (...args: readonly string[]) => {
      const { out } = await submit([...args, '-i', 'alpine', '--dry-run', '--', 'sh']);
      return (JSON.parse(out) as V1Job).spec?.ttlSecondsAfterFinished;
    };
    assert.deepEqual([await ttl('-it', '--rm'), await ttl('-it', '--rm', '--ttl', '1h')], [600, 3_600]);
    assert.equal(await ttl('-it'), await ttl());
  });

  test('of a pipe has an input that ends with it, and no terminal', async () => {
    const { code, out, err } = await submit(['--stdin', '--rm', '-i', 'alpine', '--dry-run', '--', 'sort']);
    assert.equal(code, 0, err);
    const job = JSON.parse(out) as V1Job;
    const { stdin, stdinOnce, tty } = container(job) ?? {};
    assert.deepEqual([stdin, stdinOnce, tty, job.spec?.ttlSecondsAfterFinished], [true, true, false, 600]);
  });

  test('of a whole Job opens its main container, and its own time to live counts', async (t) => {
    const { folder } = openWorld(t);
    const write = (spec: string): void => {
      const pod = '{containers: [{name: side, image: b}, {name: main, image: a}]}';
      writeFileSync(
        join(folder, 'job.yaml'),
        `apiVersion: batch/v1\nkind: Job\nspec: {${spec}template: {spec: ${pod}}}\n`,
      );
    };
    const ask = (...args: readonly string[]) =>
      submit(['--file', 'job.yaml', '--rm', '--dry-run', ...args], { cwd: folder });
    write('');
    for (const [flag, tty] of [
      ['-it', true],
      ['--stdin', false],
    ] as const) {
      const { code, out, err } = await ask(flag);
      assert.equal(code, 0, err);
      const job = JSON.parse(out) as V1Job;
      const [side, main] = job.spec?.template.spec?.containers ?? [];
      assert.deepEqual([side?.stdin, main?.stdin, main?.stdinOnce, main?.tty], [undefined, true, true, tty]);
      assert.equal(job.spec?.ttlSecondsAfterFinished, 600);
    }
    write('ttlSecondsAfterFinished: 7, ');
    assert.equal((JSON.parse((await ask('-it')).out) as V1Job).spec?.ttlSecondsAfterFinished, 7);
    for (const spec of ['parallelism: 2, ', 'completions: 3, ', 'suspend: true, ']) {
      write(spec);
      const { code, err } = await ask('-it');
      assert.equal(code, 2);
      assert.match(err, /-it is for one pod and this terminal/);
    }
  });

  const wrong: readonly (readonly [line: string, message: RegExp])[] = [
    ['-it', /-it needs a terminal for input and output\. For a pipe or a file: --stdin; without input: --follow\./],
    ['--rm', /--rm deletes an interactive job at its end, so it needs -it or --stdin\./],
    [
      '--stdin --suspend',
      /--stdin is for one pod and this input: it does not go with --suspend, --json or several pods\./,
    ],
    ['--stdin -f -', /The manifest and the program cannot both read standard input/],
    ['-it --follow', /-it is for one pod and this terminal/],
    ['-it --parallelism 2', /-it is for one pod and this terminal/],
    ['-it --suspend', /-it is for one pod and this terminal/],
  ];
  for (const [line, message] of wrong) {
    test(`${line} without what it needs is refused`, async () => {
      const { code, out, err } = await submit(['-i', 'alpine', ...line.split(' '), '--', 'sh']);
      assert.deepEqual([code, out], [2, '']);
      assert.match(err, message);
    });
  }
});
