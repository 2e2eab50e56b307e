/** A manifest with a section `kubernetes`: what it says, and what in it means nothing in a cluster. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hour } from '../../src/core/model/time.ts';
import { assertRefused, clusterOf } from './fake-files.ts';

test('every key is what the flag of its name says', () => {
  const { cluster, warnings } = clusterOf(`job: {name: train, env: {A: 1}, max_runtime: 2h}
kubernetes:
  image: lab/train:3
  flavor: ./f.json
  gpus: 2
  namespace: vision
  context: lab
  annotations: {team: vision, n: 1}
  secrets: wandb:api-key=KEY
  volumes: [data:/data:ro]
  shm: 8G
  service_account: sa
  parallelism: 2
  completions: 4
  backoff_limit: 3
  ttl: 1h
  suspend: yes
  queue: q
command: {run: "ls \${vars.x}", env: {B: 2}, workdir: /w}
vars: {x: here}
`);
  assert.deepEqual(warnings, []);
  assert.deepEqual(cluster, {
    name: 'train',
    image: 'lab/train:3',
    flavor: '/work/f.json',
    namespace: 'vision',
    context: 'lab',
    annotations: { team: 'vision', n: '1' },
    command: ['sh', '-c', 'ls here'],
    env: { A: '1', B: '2' },
    secrets: [{ secret: 'wandb', key: 'api-key', variable: 'KEY' }],
    workdir: '/w',
    gpus: { count: 2, model: null, resource: null },
    shm: '8G',
    volumes: [{ claim: 'data', path: '/data', readOnly: true }],
    serviceAccount: 'sa',
    parallelism: 2,
    completions: 4,
    backoffLimit: 3,
    timeout: 2 * hour,
    ttl: hour,
    suspend: true,
    queue: 'q',
  });
});

test('an empty section is enough, and leaves everything to the settings', () => {
  assert.deepEqual(clusterOf('kubernetes: {}\n').cluster, {});
  assert.deepEqual(clusterOf('kubernetes: {flavor: no-gpu, args: [ls]}\n').cluster, { flavor: 'no-gpu', args: ['ls'] });
});

test('what means nothing in a cluster is a warning', () => {
  const { warnings } = clusterOf(`job: {tags: [a], checkpoint_dir: /c}
kubernetes: {}
recovery: pre
venv: {name: v}
command: {run: ls, workers: 0}
`);
  assert.deepEqual(
    warnings.map((line) => line.replace(/^cfg\.yaml:\d+:\d+ /, '')),
    ['job.tags', 'job.checkpoint_dir', 'recovery', 'venv', 'command.workers'].map(
      (key) => `${key}: has no effect: the job runs in a cluster`,
    ),
  );
});

suite('it is refused for', () => {
  for (const [what, text, message] of [
    ['another section', 'kubernetes: {}\nlocal: {}\n', /local: cannot be combined with kubernetes/],
    [
      'a name with capitals',
      'job: {name: Train_1}\nkubernetes: {}\n',
      /1:13 job\.name: .*\(did you mean "train-1"\?\)/,
    ],
    ['no GPUs', 'kubernetes: {gpus: none}\n', /1:20 kubernetes\.gpus: "none" is not a number of GPUs/],
    ['no volume', 'kubernetes: {volumes: [data]}\n', /kubernetes\.volumes\[0\]: "data" is not a volume/],
    ['an amount', 'kubernetes: {resources: {requests: {memory: 1GB}}}\n', /requests\.memory: "1GB" is not a quantity/],
    ['two sorts of resources', 'kubernetes: {flavor: a, resources: {requests: {cpu: 1}}}\n', /remove one of them/],
    [
      'two commands',
      'kubernetes: {args: [a]}\ncommand: {run: ls}\n',
      /kubernetes\.args: cannot be combined with command\.run/,
    ],
    ['a variable without a value', 'job: {secrets: {A: env}}\nkubernetes: {}\n', /job\.secrets\.A: .* A is not set/],
    [
      'two values of a variable',
      'job: {secrets: {KEY: secret:a}}\nkubernetes: {secrets: "b:c=KEY"}\n',
      /job\.secrets\.KEY: KEY is also in kubernetes\.secrets; remove one of them/,
    ],
    ['a slip', 'kubernetes: {imgae: a}\n', /Unknown key "imgae" in kubernetes \(did you mean "image"\?\)/],
  ] as const) {
    test(what, () => assertRefused(text, message));
  }
});
