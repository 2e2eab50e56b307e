/**
 * The manifests of the older jobmans that its manuals show, piece by piece as they stand there (names of people, images and
 * buckets changed): each is taken, means what its manual says, and what the manual calls wrong is refused.
 * The first generation names what is set up in `setup.modules`, the second has `job.env_type`.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { presets } from '../../src/core/recover.ts';
import { problemsOf, specOf, stepNames } from './pretend.ts';

const files = Object.fromEntries(
  [
    '/u/ada/.ssh/id_rsa',
    '/u/ada/.ssh/id_rsa.pub',
    '/home/ada/.ssh/id_rsa',
    '/home/ada/.ssh/id_rsa.pub',
    '/home/ada/.ssh/id_ed25519_github',
    '/home/ada/.ssh/id_ed25519_github.pub',
    '/work/assets/fms.yaml',
    '/work/assets/requirements.txt',
  ].map((path) => [path, 'x\n']),
);
/** Where neither manual names a project, the settings do. */
const given = { files, project: 'my-project' };

/** The pieces of the first manual, by their sections. */
const first = {
  tpu: `tpu:
  allocation_mode: "queued-resources"    # tpu-vm | queued-resources
  accelerator: v6e-1
  name: ada-\${tpu.accelerator}
  zone: us-east1-d
  version: v2-alpha-tpuv6e
  pricing: spot
  # spot | ondemand | preemptible
  startup_script: null
  tags: ["jobman", "experiment"]
  metadata:
    owner: "ada"
    # a comment in a map
    purpose: "testing jobman"
`,
  ssh: `ssh:
  tpu_private_key: /u/ada/.ssh/id_rsa
  tpu_public_key: /u/ada/.ssh/id_rsa.pub
`,
  gcsfuse: `gcsfuse:
  bucket_name: llm_pruning_us_east1_d
  mount_path: /home/zephyr/gcs-bucket
`,
  docker: `setup:
  modules:
    - gcsfuse
    - ssh
    - docker
    - command
docker:
  image: example/maxtext_base_image:latest
  mount_dirs:
    - /home/zephyr
    - /dev
    - /run
    - /home/zephyr/.ssh:/root/.ssh
  workdir: /home/zephyr
  flags: ["--privileged", "--network=host"]
`,
  command: `command:
  run: |
    pip show jax
    pip show flax
  workers: [0] # int | list | "all"
`,
};

/** Those of the second. */
const second = {
  job: `job:
  name: pretrain-llama3-8b-200b-tune
  env_type: docker # docker | conda | venv
  loop: true
`,
  tpu: `tpu:
  allocation_mode: "queued-resources"    # tpu-vm | queued-resources
  accelerator: v4-128
  name: ada-\${tpu.accelerator}
  zone: us-central2-b
  version: tpu-ubuntu2204-base
  pricing: spot
  startup_script: null
  tags: ["jobman", "experiment"]
  metadata:
    owner: "ada"
    purpose: "pretrain"
`,
  gcsfuse: `gcsfuse:
  bucket_name: llm_pruning_us_central2_b
  mount_path: /home/zephyr/gcs-bucket
`,
  ssh: `ssh:
  private_key: ~/.ssh/id_rsa
  identities:
    - private_key: ~/.ssh/id_rsa
      public_key: ~/.ssh/id_rsa.pub
      config_entry: |
        Host 10.*
          IdentityFile ~/.ssh/id_rsa
          IdentitiesOnly yes
    - private_key: ~/.ssh/id_ed25519_github
      public_key: ~/.ssh/id_ed25519_github.pub
      config_entry: |
        Host github.com
          User git
          IdentityFile ~/.ssh/id_ed25519_github
          IdentitiesOnly yes
`,
  docker: `docker:
  image: example/maxtext_base_image:latest
  env_vars:
    - HOME=/home/zephyr
  mount_dirs:
    - /home/zephyr
    - /dev
    - /run
    - /home/zephyr/.config/gcloud:/root/.config/gcloud
    # - /home/zephyr/.ssh:/root/.ssh
  workdir: /home/zephyr
  flags: ["--privileged", "--network=host"]
`,
  conda: `conda:
  name: fms
  config_file: assets/fms.yaml
`,
  venv: `venv:
  name: maxtext
  requirements_file: assets/requirements.txt
  python: "python3.9"
`,
  command: `command:
  cmd: |
    pip show flax
    pip show jax
  workers: [0] # int | list | "all"
`,
};

const bare = 'tpu: {accelerator: v4-128, zone: us-central2-b}\n';

suite('every piece is taken by itself', () => {
  for (const [generation, pieces] of [
    ['first', first],
    ['second', second],
  ] as const) {
    for (const [name, piece] of Object.entries(pieces)) {
      test(`${name} of the ${generation} manual`, () => {
        const needs = [
          ...(name === 'tpu' ? [] : [bare]),
          ...(name === 'command' ? [] : ['command: {run: ls}\n']),
          // What a piece chooses stands elsewhere in its manual.
          ...(name === 'job' ? [second.docker] : []),
          ...(name === 'docker' && generation === 'first' ? [first.gcsfuse, first.ssh] : []),
        ];
        assert.doesNotThrow(() => specOf(needs.join('') + piece, given));
      });
    }
  }
});

test('the first manual as one manifest', () => {
  const { spec } = specOf(Object.values(first).join(''), given);
  assert.ok(spec.capacity.kind === 'tpu');
  const { capacity } = spec;
  assert.deepEqual(
    [capacity.mode, capacity.accelerator, capacity.name, capacity.zone, capacity.runtimeVersion, capacity.pricing],
    ['queued-resources', 'v6e-1', 'ada-v6e-1', 'us-east1-d', 'v2-alpha-tpuv6e', 'spot'],
  );
  assert.equal(capacity.startupScript, null);
  assert.deepEqual(capacity.networkTags, ['jobman', 'experiment']);
  assert.deepEqual(capacity.metadata, { owner: 'ada', purpose: 'testing jobman' });
  assert.equal(capacity.privateKey, '/u/ada/.ssh/id_rsa');
  assert.deepEqual(stepNames(spec), ['gcsfuse', 'ssh', 'docker'], 'the order of setup.modules');
  assert.deepEqual(spec.command.workers, [0]);
  assert.equal(spec.command.written, 'pip show jax\npip show flax\n');
});

test('the second manual as one manifest, where conda and venv wait beside docker', () => {
  const { spec } = specOf(Object.values(second).join(''), given);
  assert.equal(spec.name, 'pretrain-llama3-8b-200b-tune');
  assert.deepEqual(stepNames(spec), ['ssh', 'gcsfuse', 'docker']);
  assert.deepEqual(spec.recovery.rules, presets['loop: true'], 'starts again after every exit');
  assert.match(spec.command.script, /export HOME=\/home\/zephyr\n/);
  assert.match(spec.command.script, /--workdir \/home\/zephyr/);
  assert.match(spec.command.script, /--privileged[^]*--network=host/);
  assert.match(spec.command.script, /\/home\/zephyr\/\.config\/gcloud:\/root\/\.config\/gcloud/);
});

test('the keys of both generations are two names of one thing', () => {
  const pairs: readonly (readonly [text: string, older: string, newer: string])[] = [
    [`${bare}command: {KEY: "ls -l"}\n`, 'cmd', 'run'],
    [`${bare}command: {run: ls}\nssh: {KEY: /u/ada/.ssh/id_rsa}\n`, 'tpu_private_key', 'private_key'],
    [`${bare}command: {run: ls}\nconda: {KEY: fms}\n`, 'env_name', 'name'],
    [`${bare}command: {run: ls}\nconda: {name: fms, KEY: assets/fms.yaml}\n`, 'yaml_file', 'config_file'],
    [`${bare}command: {run: ls}\ndocker: {image: i, KEY: /w}\n`, 'work_dir', 'workdir'],
    [`${bare}command: {run: ls}\njob: {KEY: {A: b}}\n`, 'environment', 'env'],
  ];
  for (const [text, older, newer] of pairs) {
    const [one, other] = [older, newer].map((key) => specOf(text.replace('KEY', key), given).spec);
    assert.deepEqual(one, other, `${older} and ${newer}`);
  }
});

test('what the older jobman wrote into its copy of a manifest is told what it is', () => {
  const lines = problemsOf(
    `job: {name: a, id: "000001", user: ada, dir: /jobs/ada/000001}\ntpu: {accelerator: v4-8, zone: us-central2-b, num_workers: 1, ips: [{worker: 0}], flags: [--async]}\nbrevo_email: {sender: a}\ncommand: {run: ls}\n`,
    given,
  );
  assert.equal(lines.length, 7, lines.join('\n'));
  for (const key of ['job.id', 'job.user', 'job.dir', 'tpu.ips']) {
    assert.ok(
      lines.some((line) => line.includes(`${key}: is written by jobman itself`)),
      key,
    );
  }
  assert.match(lines.join('\n'), /tpu\.num_workers: follows from tpu\.accelerator; remove it/);
  assert.match(lines.join('\n'), /tpu\.flags: was handed to gcloud/);
  assert.match(lines.join('\n'), /brevo_email: was for the mails/);
});
