/** `jobman submit` without a cluster: what is typed, and the Job that it becomes; and the same from a manifest. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { V1Job } from '@kubernetes/client-node';
import type { Cluster } from '../../src/app/cluster/cluster.ts';
import { loadClusterSettings, type ClusterSettingsRead } from '../../src/app/cluster/settings.ts';
import { root } from '../support/root.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { openWorld } from '../support/world.ts';
import { jobman } from './support/pretend.ts';

/** With the template that ships, as everybody has it. */
const clusterSettings = (): Promise<ClusterSettingsRead> =>
  loadClusterSettings({
    home: '/nowhere',
    template: join(root, 'src/app/cluster/settings.template.json'),
    userHome: '/home/alice',
  });

interface Around {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

function submit(words: readonly string[], { cwd = '/', env = {} }: Around = {}) {
  return jobman(['submit', ...words], { cwd, env, services: { clusterSettings } });
}

async function dryRun(words: readonly string[], around: Around = {}): Promise<V1Job> {
  const { code, out, err } = await submit(['--dry-run', '--json', ...words], around);
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

  test("submit -i IMG:3.1cuda11 -r small-gpu -- sh -c 'nvidia-smi -L'", async () => {
    for (const image of ['IMG:3.1cuda11', 'ubuntu_python_tensorflow:3.1cuda11']) {
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

  test('submit -ci image, and the long words', async () => {
    const words = [
      ['-ci', 'alpine', '--', 'ls'],
      ['--command', '--image', 'alpine', '--', 'ls'],
      ['--image=alpine', '-c', '--', 'ls'],
    ];
    for (const line of words) {
      const job = await dryRun(['-j', 'x', ...line]);
      assert.deepEqual([container(job)?.command, container(job)?.args], [['ls'], undefined]);
    }
  });

  test('a flavor as a file and as JSON', async (t) => {
    const { folder } = openWorld(t);
    const json = '{ "name": "f", "resources": { "requests": { "cpu": "2" } } }';
    writeFileSync(join(folder, 'f.json'), json);
    for (const said of ['f.json', join(folder, 'f.json'), json]) {
      const job = await dryRun(['-i', 'a', '--resources-flavor', said], { cwd: folder });
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

test('that names can be seen is said with the first job that is submitted, and with no other', async () => {
  const said = async (words: readonly string[], hasSubmitted: boolean) => {
    const cluster = async () => Promise.reject(new JobmanError('There is no cluster here.', 5));
    const services = { clusterSettings, cluster, hasSubmitted: () => hasSubmitted };
    return (await jobman(['submit', '-i', 'alpine', ...words], { services })).err;
  };
  const sentence = /^Everybody in the cluster may see the names of the job and of its flavor/;
  assert.match(await said([], false), sentence);
  assert.doesNotMatch(await said([], true), sentence);
  assert.equal(await said(['--dry-run'], false), '');
});

test('a dry run says which label only a real one has, where there is no record yet', async () => {
  const words = ['submit', '-i', 'alpine', '--dry-run'];
  const { err, out } = await jobman(words, { services: { clusterSettings, installation: async () => null } });
  assert.match(err, /^Submitted, it also has the label jobman\/installation: /);
  assert.doesNotMatch(out, /jobman\/installation/);
});

test('every flag has its place in the Job', async () => {
  const words =
    '-i lab/train:3 -j train -n vision -a {"team":"x"} --env A=1=2 --env FROM_HERE --secret s:k=V --secret all --workdir /w ' +
    '--gpus 2:NVIDIA-A100 --shm 8G --volume data:/data:ro --volume out:/out --service-account sa --parallelism 2 ' +
    '--completions 4 --backoff-limit 3 --timeout 90s --ttl 1d --suspend --queue q -- run $$ $(NAME) $5';
  const job = await dryRun(words.split(' '), { env: { FROM_HERE: 'there' } });
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
  const cases: readonly (readonly [words: readonly string[], code: number, says: RegExp])[] = [
    [['-i', 'a', 'ls'], 2, /`ls` stands where only flags do\.\n.*jobman submit -i alpine -- ls/],
    [['-i', 'a', '-j', 'Train_1'], 2, /--job-name `Train_1`: it is no name in Kubernetes.*did you mean train-1\?/],
    [['-i', 'a', '-j', 'x'.repeat(64)], 2, /is 64 characters long, and Kubernetes takes 63/],
    [['-i', 'a', '-a', '{"n": 1}'], 2, /annotations:1:7: "n" should be a text, and is 1; write "1"/],
    [['-i', 'a', '-a', '{"n": "1",}'], 2, /annotations:1:10: no comma may stand/],
    [['-i', 'a', '-r', 'no-gpus'], 3, /There is no flavor no-gpus, .*Did you mean no-gpu\?/],
    [['-i', 'a', '-r', '{"resources": {"requests": {}}}'], 2, /flavor:1:1: a flavor needs a "name"/],
    [['-i', 'a', '-c'], 2, /-c replaces the entry point/],
    [['-i', 'a', '--env', 'NOT_SET'], 2, /The variable NOT_SET is not set here/],
    [['-i', 'a', '--gpus', '0'], 2, /--gpus `0`: it is no number of GPUs/],
    [['-i', 'a', '--volume', 'a:b'], 2, /should begin with a slash/],
    [['-i', 'a', '--volume', 'a:/x', '--volume', 'b:/x'], 2, /Two volumes would appear at \/x\./],
    [['-i', 'a', '--shm', '8GB'], 2, /expected an amount/],
    [['-i', 'a', '--set', 'x=1'], 2, /--set changes a manifest/],
    [['-i', 'a b', '--workdir', 'w'], 2, /2 things are wrong\.\n.*holds a blank[^]*begin with a slash/],
    [[], 2, /No image is named: say it with -i, or set job\.defaultImage/],
  ];
  for (const [words, code, says] of cases) {
    test(words.join(' ') || 'without an image', async () => {
      const found = await submit([...words.slice(0, 2), '--dry-run', ...words.slice(2)]);
      assert.equal(found.out, '');
      assert.match(found.err, says);
      assert.equal(found.code, code);
    });
  }
});

test('a digest is an image, and capitals are doubted but taken', async () => {
  const digest = `alpine@sha256:${'0'.repeat(64)}`;
  assert.equal(container(await dryRun(['-i', digest]))?.image, digest);
  assert.doesNotMatch((await submit(['-i', digest, '--dry-run'])).err, /warning/);
  assert.match(
    (await submit(['-i', 'Alpine', '--dry-run'])).err,
    /^warning: The image Alpine is no image.*did you mean alpine\?/,
  );
});

test('create and submit -f are the same, and flags stand over the file', async (t) => {
  const { folder } = openWorld(t);
  const manifest = `job: {name: train, env: {A: 1}}
kubernetes: {image: "lab/train:3", resources: {requests: {cpu: 2}}, volumes: ["data:/data:ro"]}
command: {run: "echo $$", env: {B: 2}}
`;
  writeFileSync(join(folder, 'train.yaml'), manifest);
  const around = { cwd: folder, services: { clusterSettings } };
  const created = await jobman(['create', 'train.yaml', '--dry-run'], around);
  const submitted = await jobman(['submit', '-f', 'train.yaml', '--dry-run'], around);
  assert.equal(created.code, 0, created.err);
  assert.deepEqual([created.out, created.err], [submitted.out, submitted.err]);
  const job = JSON.parse(created.out) as V1Job;
  assert.deepEqual(container(job)?.command, ['sh', '-c', 'echo $$$$']);
  assert.equal(job.metadata?.annotations, undefined);
  const over = await dryRun(['-f', 'train.yaml', '--env', 'A=3', '-r', 'no-gpu', '--', 'other'], { cwd: folder });
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
  const [code, said] = await check('kubernetes:\n  image: alpine\n  flavor: no-gpx\ncommand: {run: ls}\n');
  assert.equal(code, 2);
  assert.match(String(said), /^a\.yaml:3:11 kubernetes\.flavor: there is no flavor no-gpx, .* Did you mean no-gpu\?/);
  assert.equal((await check('kubernetes: {image: alpine, flavor: no-gpu}\n'))[0], 0);
});

test('a manifest of another kind is sent to create', async (t) => {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'a.yaml'), 'local: {}\ncommand: {run: ls}\n');
  const { code, err } = await submit(['-f', 'a.yaml', '--dry-run'], { cwd: folder });
  assert.equal(code, 2);
  assert.match(err, /a\.yaml has no section kubernetes.*\n {2}jobman create a\.yaml/);
});

test('what the cluster has replaced is told beside what was asked', async () => {
  const asked: V1Job[] = [];
  const cluster = {
    place: () => ({ context: 'lab', server: 'https://x', namespace: 'vision', user: 'alice' }),
    async create(job: V1Job) {
      asked.push(job);
      const made = structuredClone(job);
      const resources = container(made)?.resources;
      // One is only written in another way.
      if (resources !== undefined) resources.requests = { cpu: '1', memory: '2G' };
      return made;
    },
    close: async () => {},
  } as unknown as Cluster;
  const { code, out, err } = await jobman(['submit', '-i', 'alpine', '-j', 'x', '--', 'ls'], {
    services: { clusterSettings, cluster: async () => cluster },
  });
  assert.equal(code, 0);
  assert.equal(asked.length, 1);
  assert.equal(out, 'x submitted to lab/vision as alice.\n');
  assert.match(
    err,
    /The cluster has replaced what was asked for as no-gpu:\n {2}request of memory: asked 1G, granted 2G\n$/,
  );
});
