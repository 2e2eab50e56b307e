import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addAllocation } from '../../src/core/decide/allocate.ts';
import { newJob } from '../../src/core/model/job.ts';
import { resolvedStep } from '../../src/core/decide/launch.ts';
import { assertEach, assertRefused, specOf, stepNames, stepsOf, problemText, tpu } from './fake-files.ts';

const all = `ssh: {private_key: ~/.ssh/id}
gcsfuse: {bucket_name: my-bucket, mount_path: ~/bucket}
docker: {image: "img:1"}
conda: {name: c}
venv: {name: v}
`;
const files = { '/home/ada/.ssh/id': 'x', '/home/ada/.ssh/id.pub': 'x', '/home/ada/.ssh/git': 'x' };

function steps(more: string): readonly string[] {
  return stepsOf(tpu(all + more), { files });
}

test('job.env_type selects one of the environments in the manifest', () => {
  assert.deepEqual(steps('job: {env_type: docker}\n'), ['ssh', 'gcsfuse', 'docker']);
  assert.deepEqual(steps('job: {env_type: conda}\n'), ['ssh', 'gcsfuse', 'conda']);
});

test('setup.modules chooses and orders', () => {
  assert.deepEqual(steps('setup: {modules: [gcsfuse, ssh, docker, command]}\n'), ['gcsfuse', 'ssh', 'docker']);
  assert.deepEqual(steps('setup: {modules: [venv]}\n'), ['venv']);
  assert.deepEqual(steps('setup: {modules: []}\n'), []);
  assert.deepEqual(steps('setup: {modules: [gcsfuse]}\njob: {env_type: venv}\n'), ['gcsfuse', 'venv']);
});

test('a login key counts whether or not the workers are given keys', () => {
  const { capacity } = specOf(tpu(`${all}setup: {modules: [venv]}\n`), { files }).spec;
  assert.ok(capacity.kind === 'tpu');
  assert.deepEqual(capacity.privateKey, { kind: 'job', secret: 'ssh.private_key' });
  assert.equal(capacity.publicKey, 'x');
});

test('with one environment nothing has to be chosen, with several something must be', () => {
  const one = tpu('venv: {name: v}\n');
  assert.deepEqual(stepsOf(one), ['venv']);
  assertRefused(
    tpu(all),
    /conda: the manifest has the sections docker and conda and venv; choose one with job\.env_type/,
    { files },
  );
  assert.deepEqual(stepsOf(tpu('venv: {name: v}\nconda: {name: c, enabled: false}\n')), ['venv']);
});

test('two environments are one too many, unless one is a container around the other', () => {
  assertEach((text) => problemText(tpu(text), { files }), {
    [`${all}setup: {modules: [conda, venv]}\n`]: /setup\.modules: selects conda and venv/,
    [`${all}setup: {modules: [conda]}\njob: {env_type: venv}\n`]: /job\.env_type: selects/,
    [`${all}setup: {modules: [docker, conda, venv]}\n`]: /selects /,
  });
  assert.deepEqual(steps('setup: {modules: [docker, venv]}\n'), ['docker']);
  const { spec } = specOf(tpu(`${all}setup: {modules: [docker, conda, command]}\n`), { files });
  assert.deepEqual(stepNames(spec), ['docker'], 'the environment is made inside the container');
  assert.match(spec.command.script, /docker run/);
  assert.match(spec.command.script, /conda.* run --no-capture-output -n c/);
});

test('what is chosen must be there, once', () => {
  assertRefused(
    tpu('job: {env_type: docker}\n'),
    /job\.env_type: selects docker, but the manifest has no section docker/,
  );
  assertRefused(tpu('setup: {modules: [gcsfuse]}\n'), /setup\.modules: selects gcsfuse/);
  assertRefused(tpu('setup: {modules: [files]}\n'), /lists files, but job\.files is empty/);
  assertRefused(tpu('venv: {}\nsetup: {modules: [venv, venv]}\n'), /setup\.modules\[1\]: lists venv twice/);
  assertRefused(tpu('conda: {name: c, enabled: false}\njob: {env_type: conda}\n'), /selects conda/);
});

test('mistakes in unused sections are reported too', () => {
  assertRefused(
    tpu('job: {env_type: venv}\nvenv: {}\nconda: {nmae: x}\n'),
    /Unknown key "nmae" in conda \(did you mean "name"\?\)/,
  );
});

test('the older form of the ssh section makes the workers reach each other', () => {
  const { spec } = specOf(tpu('ssh: {tpu_private_key: ~/.ssh/id, tpu_public_key: ~/.ssh/id.pub}\n'), { files });
  const [ssh] = spec.steps;
  assert.deepEqual(ssh?.files.slice(0, 2), [
    { kind: 'secret', secret: { kind: 'job', secret: 'ssh.private_key' }, to: '~/.ssh/id', mode: 0o600 },
    { kind: 'inline', base64: Buffer.from('x').toString('base64'), to: '~/.ssh/id.pub', mode: 0o644 },
  ]);
  const config = ssh?.files[2];
  assert.ok(config?.kind === 'inline');
  assert.match(Buffer.from(config.base64, 'base64').toString(), /^Host 10\.\*\n {2}IdentityFile ~\/\.ssh\/id\n/);
  assert.match(ssh?.apply ?? '', /authorized_keys/);
  assert.equal(JSON.stringify(spec.steps).includes('PRIVATE'), false, 'no key is frozen into the job');
});

test('identities are copied with their lines for ssh_config', () => {
  const { spec } = specOf(
    tpu(
      'ssh:\n  private_key: ~/.ssh/id\n  identities:\n    - private_key: ~/.ssh/git\n      config_entry: |\n        Host github.com\n          User git\n',
    ),
    { files },
  );
  assert.deepEqual(
    spec.steps[0]?.files.map(({ to }) => to),
    ['~/.ssh/git', '~/.ssh/jobman_config'],
  );
  assert.equal((spec.steps[0]?.apply ?? '').includes('authorized_keys'), false);
});

test('a key is a named secret, or a file that the client sends', () => {
  const text = tpu(
    'ssh:\n  private_key: secret:login\n  identities: [{private_key: ~/.ssh/git}, {private_key: secret:login}]\n',
  );
  const { spec } = specOf(text, { files });
  assert.ok(spec.capacity.kind === 'tpu');
  assert.deepEqual(spec.capacity.privateKey, { kind: 'named', secret: 'login' });
  assert.deepEqual(
    spec.steps[0]?.files.map((file) => [file.to, file.kind === 'secret' && file.secret]),
    [
      ['~/.ssh/git', { kind: 'job', secret: 'ssh.identities.0' }],
      ['~/.ssh/login', { kind: 'named', secret: 'login' }],
    ],
  );
  assert.doesNotMatch(JSON.stringify(spec), /home\/ada/);
  const imported = specOf(text, { files, purpose: 'check' }).spec.steps[0]?.files[0];
  assert.deepEqual(imported?.kind === 'secret' && imported.secret, { kind: 'localFile', path: '/home/ada/.ssh/git' });
});

test('a key that is missing here is a problem for create and a warning for a check', () => {
  const text = tpu('ssh: {private_key: ~/.ssh/missing}\n');
  assertRefused(text, /ssh\.private_key: the key file \/home\/ada\/\.ssh\/missing does not exist/);
  assert.match(specOf(text, { purpose: 'check' }).warnings.join(), /missing does not exist/);
  assertRefused(tpu('ssh: {identities: [{private_key: /a/id}, {private_key: /b/id}]}\n'), /two keys have the name id/, {
    files: { '/a/id': '', '/b/id': '' },
  });
});

test('buckets are mounted with their caches, several of them', () => {
  const { spec } = specOf(
    tpu(`gcsfuse:
  bucket_name: llm_pruning_us_central2_b
  mount_path: /home/zephyr/gcs-bucket
  cache: {dir: ~/cache dir, metadata_ttl_secs: -1, stat_cache_max_size_mb: 32, type_cache_max_size_mb: 4, file_cache_max_size_mb: 100, cache_file_for_range_read: true, enable_parallel_downloads: false, prefix: "echo \${HOME}"}
  extra_mounts:
    - {mount_path: ~/again}
    - {bucket_name: "gs://other-bucket/", mount_path: /mnt/other/}
`),
  );
  const apply = spec.steps[0]?.apply ?? '';
  assert.match(apply, /bucket=llm_pruning_us_central2_b\npath=\/home\/zephyr\/gcs-bucket\n/);
  assert.match(apply, /bucket=llm_pruning_us_central2_b\npath="\$HOME"\/again\n/);
  assert.match(apply, /bucket=other-bucket\npath=\/mnt\/other\n/);
  assert.match(
    apply,
    /--cache-dir="\$HOME"\/'cache dir' --metadata-cache-ttl-secs=-1 --stat-cache-max-size-mb=32 --type-cache-max-size-mb=4 --file-cache-max-size-mb=100 --file-cache-cache-file-for-range-read=true --file-cache-enable-parallel-downloads=false/,
  );
  assert.match(apply, /echo \$\{HOME\}\n/);
  assertEach((text) => problemText(tpu(text)), {
    'gcsfuse: {bucket_name: a-b, mount_path: ~/x, extra_mounts: [{mount_path: ~/x/}]}\n': /is mounted twice/,
    'gcsfuse: {bucket_name: "My Bucket", mount_path: ~/x}\n': /is not a bucket name/,
    'gcsfuse: {bucket_name: ab, mount_path: ~/x}\n': /is not a bucket name \(at least 3/,
    'gcsfuse: {bucket_name: a-b, mount_path: ~bob/x}\n': /is outside the login folder/,
  });
});

test('docker flags are split as a shell splits them', () => {
  const { spec } = specOf(
    tpu(
      'docker: {image: i, flags: ["--device /dev/d", "--detach=false", "-it", "--shm-size 10g", "--label=\'a b\'"], workdir: /w, mount_dirs: ["~/data:/data:ro", "/dev"], env_vars: ["A=it\'s"]}\n',
    ),
  );
  assert.match(spec.command.script, /--volume "\$HOME"\/data:\/data:ro/);
  assert.match(spec.command.script, /--volume \/dev:\/dev/);
  assert.match(spec.command.script, /--workdir \/w/);
  assert.match(spec.command.script, / {2}--shm-size \\\n {2}10g \\\n {2}'--label=a b' \\\n/);
  assertRefused(
    tpu('docker: {image: i, flags: ["--label=\'a"]}\n'),
    /docker\.flags\[0\]: has a quote that is not closed/,
  );
});

test('a flag that detaches the container is refused, because jobman could not see how its command ends', () => {
  for (const flag of ['-d', '-itd', '--detach', '--detach=true'])
    assertRefused(
      tpu(`docker: {image: i, flags: [--init, "--dns 10.0.0.1 ${flag}"]}\n`),
      new RegExp(`docker\\.flags\\[1\\]: ${flag} detaches the container`),
    );
});

test('the folder of the command is inside the container when there is one', () => {
  const { spec } = specOf(tpu('docker: {image: i, workdir: /a}\n', 'run: ls, workdir: /b'));
  assert.equal(spec.command.workdir, null);
  assert.match(spec.command.script, /--workdir \/b/);
});

test('a bucket may be given by region, and every alternative of the job must have one', () => {
  const manifest = (buckets: string, more = ''): string => `job: {checkpoint_dir: ~/b/c}
tpu:
  project: lab-project
  accelerator: v5litepod-16
  zone: us-east5-b
  alternatives: [{zone: us-west4-a}, {zone: us-east5-a}]
gcsfuse: {bucket_name: ${buckets}, mount_path: ~/b${more}}
command: {run: ls}
`;
  const { spec } = specOf(manifest('{us-east5: my-us-east, us-west4: gs://my-us-west/}'));
  const { job } = newJob({ id: '000001', installation: 'abc123', owner: 'ada', spec, at: 0 });
  const [gcsfuse] = spec.steps;
  assert.ok(gcsfuse !== undefined);
  const at = (alternative: number): string => {
    const added = addAllocation(job, 0, alternative).job.allocations[0];
    assert.ok(added !== undefined);
    return `${resolvedStep(gcsfuse, added, job).apply} ${resolvedStep(gcsfuse, added, job).check}`;
  };
  assert.match(at(0), /bucket='?my-us-east'?\n/);
  assert.match(at(1), /bucket='?my-us-west'?\n/);
  assert.match(at(2), /bucket='?my-us-east'?\n/);
  assert.doesNotMatch(at(1), /[\uE000\uE001]|us-east/);
  assertRefused(manifest('{us-east5: my-us-east}'), /has no bucket for us-west4, but the job may run/);
  assertRefused(manifest('{us-east5: A!, us-west4: bbb}'), /bucket_name.us-east5: "A!" is not a bucket name/);
  assertRefused(manifest('{us-east5-b: aaa}'), /is not a region; write a zone without its letter/);
});

test('a container starts in command.workdir or docker.workdir, below the copy of job.workdir', () => {
  const start = (more: string, job = '{}'): string | undefined => {
    const text = `docker: {image: i${more}}\njob: ${job}\n`;
    const { spec } = specOf(tpu(text), { files: { '/work/sub/a.py': '' } });
    return /--workdir (.*?) \\$/m.exec(spec.command.script)?.[1];
  };
  assert.equal(start(''), undefined);
  assert.equal(start(', workdir: /a b'), "'/a b'");
  assert.equal(start(', workdir: ~/a'), '"$HOME"/a');
  const copied = '{workdir: sub}';
  assert.equal(start('', copied), '/jobman/workdir');
  assert.equal(start(', workdir: a', copied), '/jobman/workdir/a');
  assert.equal(start(', workdir: /a', copied), '/a');
  assert.equal(start(', workdir: ~/a', copied), '"$HOME"/a');
  assert.equal(start(', workdir: a/../b', copied), '/jobman/workdir/b');
  for (const out of ['..', 'a/../../b', '../workdirs'])
    assertRefused(
      tpu(`docker: {image: i, workdir: ${out}}\njob: ${copied}\n`),
      /docker\.workdir: \S+ is outside the copy of job\.workdir; for another folder .* begins with \//,
      {
        files: { '/work/sub/a.py': '' },
      },
    );
  const relative = tpu('docker: {image: i, workdir: a}\n');
  assertRefused(
    relative,
    /docker\.workdir: a is a relative path, which needs job\.workdir; write a path that begins with \//,
  );
  const both = tpu('docker: {image: i, workdir: /a}\n', 'run: ls, workdir: b');
  assertRefused(both, /command\.workdir: b is a relative path/);
});

test('a list of modules without command, or no section command, makes a job that only sets up', () => {
  const listed = specOf(tpu(`${all}setup: {modules: [ssh]}\n`, 'run: echo the command'), { files });
  assert.equal(listed.spec.command.isSetupOnly, true);
  assert.equal(listed.spec.command.script, '');
  assert.equal(listed.spec.finish.capacity, 'keep');
  assert.match(listed.warnings.join('\n'), /setup\.modules: does not list command, so the job only runs setup/);
  assert.equal(specOf(tpu(`${all}setup: {modules: [ssh, command]}\n`), { files }).spec.command.isSetupOnly, undefined);
  const none = specOf('tpu: {project: lab-project, accelerator: v4-16, zone: us-central2-b}\n');
  assert.equal(none.spec.command.isSetupOnly, true);
  assert.match(
    none.warnings.join('\n'),
    /the job runs no command: it sets up its TPU and keeps it, at its full cost, until/,
  );
  assert.doesNotMatch(none.warnings.join('\n'), /checkpoint_dir/);
  const released = specOf(
    'tpu: {project: lab-project, accelerator: v4-16, zone: us-central2-b}\njob: {on_finish: release, loop: true}\n',
  );
  assert.equal(released.spec.finish.capacity, 'release');
  assert.match(released.warnings.join('\n'), /job\.loop: has no effect: the job runs no command/);
  const kept = specOf('tpu: {project: lab-project, accelerator: v4-16, zone: us-central2-b}\njob: {keep_for: 1h}\n');
  assert.deepEqual(kept.warnings, []);
  assertRefused(
    'tpu: {project: p-1, accelerator: v4-16, zone: us-central2-b}\nsetup: {modules: [command]}\n',
    /setup\.modules: lists command, but the manifest has no section command/,
  );
});
