/** Values that are allowed but most likely not intended cause a warning with their position; reasonable values do not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertEach, assertRefused, problemsOf, specOf, warningsOf, type ParseOptions } from './fake-files.ts';

const bucket = 'gcsfuse: {bucket_name: abc, mount_path: ~/bucket}\n';

/** A TPU job of a real project; nothing about it is doubtful until the test says so. */
function job(keys: string, more = bucket, tpu = ''): string {
  return `job: {checkpoint_dir: ~/bucket/c, ${keys}}\ntpu: {project: lab-project, accelerator: v4-16, zone: us-central2-b, ${tpu}}\n${more}command: {run: ls}\n`;
}

/** A spot job whose checkpoints go to `dir`. */
function saving(dir: string | null, more = bucket, tpu = ''): string {
  return `job: {name: a, checkpoint_dir: ${dir}}\ntpu: {project: p-1, accelerator: v4-16, zone: us-central2-b, ${tpu}}\n${more}command: {run: ls}\n`;
}

const only = (text: string, given: ParseOptions = {}): string => {
  const warnings = warningsOf(text, given);
  assert.equal(warnings.length, 1, `${text}\n${warnings.join('\n')}`);
  return warnings[0] ?? '';
};

test('a spot TPU without a folder for checkpoints causes a warning', () => {
  assert.equal(
    only(saving(null)),
    'cfg.yaml:1:32 job.checkpoint_dir: is not set, and a spot TPU can be preempted at any time; with preset pre the program then starts again from the beginning',
  );
  assert.match(
    only(saving(null, `${bucket}recovery: reapply\n`, 'pricing: preemptible')),
    /preemptible TPU.*preset reapply/,
  );
  // Capacity that cannot be preempted, or is not requested again, or starts again, needs none.
  assert.deepEqual(warningsOf(saving(null, bucket, 'pricing: ondemand')), []);
  assert.deepEqual(warningsOf(saving(null, `${bucket}recovery: pass\n`)), []);
  assert.deepEqual(warningsOf(saving(null, `${bucket}recovery: {budget: {preemptions: 0}}\n`)), []);
  assert.deepEqual(warningsOf(saving(null, `${bucket}recovery: {rules: [{reason: preempted, then: rerun}]}\n`)), []);
  // An invalid pricing has an error, and nothing is known about preemption.
  assert.deepEqual(warningsOf(saving(null, bucket, 'pricing: spott')), []);
  assert.deepEqual(warningsOf('local: {}\nrecovery: "loop: failures"\ncommand: {run: ls}\n'), []);
});

test('a file of the command that no worker has causes a warning', () => {
  const files = { '/work/train.py': '', '/work/run.sh': '', '/work/a/b.py': '' };
  const withRun = (run: string, keys = '', more = bucket, tpu = ''): string =>
    job(keys, more, tpu).replace('run: ls', `run: ${JSON.stringify(run)}`);
  assert.equal(
    only(withRun('python3 -u train.py --lr 1'), { files }),
    'cfg.yaml:4:16 command.run: names train.py, which is not on the workers; copy its folder with job.workdir: . or the file with job.files',
  );
  for (const run of ['./run.sh', 'bash run.sh | tee log', '# first\nset -e\npython3 a/b.py']) {
    assert.match(only(withRun(run), { files }), /which is not on the workers/, run);
  }
  for (const text of [
    withRun('python3 train.py', 'workdir: .'),
    withRun('python3 train.py', 'files: ["train.py:"]').replace('train.py:"', 'train.py"'),
    withRun('python3 train.py', '', `${bucket}docker: {image: i, mount_dirs: [~/bucket]}\n`),
    withRun('python3 train.py', '', bucket, 'ownership: persistent, name: a'),
    withRun('python3 ~/train.py'),
    withRun('git clone x; cd x; python3 train.py'),
    withRun('python3 other.py'),
    withRun('train.py'),
  ]) {
    assert.deepEqual(warningsOf(text, { files }), [], text);
  }
  assert.deepEqual(warningsOf('local: {}\ncommand: {run: python3 train.py}\n', { files }), []);
});

test('checkpoints outside every bucket cause a warning', () => {
  assert.equal(
    only(saving('~/out')),
    'cfg.yaml:1:32 job.checkpoint_dir: is not in a mounted bucket (mounted: ~/bucket), and a spot TPU can be preempted at any time; the checkpoints are lost with it',
  );
  assert.match(only(saving('~/bucket2')), /is not in a mounted bucket/);
  assert.match(only(saving('~/out', '')), /the manifest mounts no bucket/);
  assert.match(
    only(saving('~/bucket/c', `${bucket}setup: {modules: [command]}\n`)),
    /gcsfuse is not listed in setup\.modules/,
  );
  for (const dir of ['~/bucket', '~/bucket/a/b', 'bucket/c', '/home/ada/bucket/c', 'gs://abc/c']) {
    assert.deepEqual(warningsOf(saving(dir)), [], dir);
  }
  const second = 'gcsfuse: {bucket_name: abc, mount_path: ~/a, extra_mounts: [{mount_path: /mnt/b}]}\n';
  assert.deepEqual(warningsOf(saving('/mnt/b/c', second)), []);
  // A startup script may mount whatever it likes, and what runs here is not taken away.
  const files = { '/work/boot.sh': 'mount -t nfs server:/x /nfs' };
  assert.deepEqual(warningsOf(saving('/nfs/c', '', 'startup_script: boot.sh'), { files }), []);
  assert.deepEqual(warningsOf(saving('out', '').replace('run: ls', 'run: ls, runs_on: here')), []);
});

test('a bucket that the container does not see causes a warning', () => {
  const docker = (keys: string): string => `${bucket}docker: {image: i, ${keys}}\n`;
  assert.match(only(saving('~/bucket/c', docker('mount_dirs: [/dev]'))), /is not visible in the container/);
  for (const keys of ['mount_dirs: [~/bucket]', 'mount_dirs: ["/home/ada:/w"]', 'flags: ["-v ~/bucket:/b"]']) {
    assert.deepEqual(warningsOf(saving('~/bucket/c', docker(keys))), [], keys);
  }
});

test('a folder with the name of the TPU causes one warning', () => {
  assert.match(only(saving('"~/bucket/${tpu.name}"')), /is different for every new TPU/);
});

test('limits that contradict each other cause a warning', () => {
  assert.match(
    only(job('max_runtime: 10s, stop_grace: 20s')),
    /job\.max_runtime: is shorter than job\.stop_grace \(20s\)/,
  );
  assert.match(
    only(job('max_runtime: 1h, silence_timeout: 1h')),
    /job\.silence_timeout: has no effect: job\.max_runtime \(1h\)/,
  );
  assert.match(only(job('stop_grace: 2m')), /job\.stop_grace: applies only to a stop: .* 30s after/);
  assert.match(
    only(job('stop_signal: KILL, stop_grace: 5s')),
    /job\.stop_grace: has no effect with job\.stop_signal: KILL/,
  );
  for (const keys of [
    'max_runtime: 10s',
    'max_runtime: 2h, silence_timeout: 1h',
    'stop_grace: 30s',
    'stop_signal: KILL',
  ]) {
    assert.deepEqual(warningsOf(job(keys)), [], keys);
  }
  assert.deepEqual(warningsOf(job('stop_grace: 10m', bucket, 'pricing: ondemand')), []);
});

test('a TPU that is kept without a limit causes a warning if it costs money', () => {
  assert.match(only(job('on_finish: keep')), /job\.on_finish: keeps the TPU, at its full cost, until you release it/);
  assert.deepEqual(warningsOf(job('on_finish: keep, keep_for: 1h')), []);
  assert.deepEqual(warningsOf(job('on_finish: keep').replace('lab-project', 'emulator')), []);
  assert.match(only(job('on_finish: keep', bucket, 'ownership: persistent')), /a persistent TPU is never released/);
  assert.match(only(job('keep_for: 1h')), /job\.keep_for: has no effect without job\.on_finish: keep/);
});

test('keys without effect on this machine cause a warning', () => {
  const here =
    'job: {on_finish: keep, keep_for: 1h, capacity_wait: 1h, remote_user: ada}\nssh: {}\nlocal: {}\ncommand: {run: ls}\n';
  const warnings = warningsOf(here).join('\n');
  for (const key of ['job.on_finish', 'job.keep_for', 'job.capacity_wait', 'job.remote_user', 'ssh']) {
    assert.match(
      warnings,
      new RegExp(`${key.replace('.', '\\.')}: has no effect: the job runs on (?:this machine|your own machines)`),
    );
  }
});

test('rules that never apply cause a warning', () => {
  const rules = (list: string, keys = ''): string => job(keys, `${bucket}recovery: {rules: [${list}]}\n`);
  const failed = '{reason: command_failed, then: resume}';
  const oom = '{reason: command_failed, evidence: out_of_memory, then: fail}';
  assert.match(only(rules(`${failed}, ${oom}`)), /recovery\.rules\[1\]: never applies: rules\[0\] matches every case/);
  assert.match(only(rules(`${oom}, ${oom}`)), /recovery\.rules\[1\]/);
  const withCode = (code: string): string => `{reason: command_failed, exit_code: ${code}, then: fail}`;
  assert.match(only(rules(`${withCode('[1, 2]')}, ${withCode('2')}`)), /recovery\.rules\[1\]/);
  assert.match(only(rules(`${failed}, ${withCode('2')}`)), /recovery\.rules\[1\]/);
  // A rule that requires more than the later one leaves the rest to it.
  for (const narrow of [
    withCode('42'),
    withCode('[42, 75]'),
    '{reason: command_failed, worker: 0, then: fail}',
    '{reason: command_failed, log: NCCL, then: fail}',
  ]) {
    assert.deepEqual(warningsOf(rules(`${narrow}, ${failed}`)), [], narrow);
    assert.deepEqual(warningsOf(rules(`${narrow}, ${oom}`)), [], narrow);
  }
  assert.deepEqual(warningsOf(rules(`${withCode('42')}, ${withCode('[42, 43]')}`)), []);
  assert.match(only(rules('{reason: hung, then: resume}')), /never applies: without job\.silence_timeout/);
  assert.deepEqual(warningsOf(rules(`${oom}, ${failed}`)), []);
  assert.deepEqual(warningsOf(rules('{reason: hung, then: resume}', 'silence_timeout: 5m')), []);
  assert.match(
    only('local: {}\nrecovery: {rules: [{reason: preempted, then: fail}]}\ncommand: {run: ls}\n'),
    /never applies: your own machines cannot be preempted/,
  );
});

test('of what could not be read nothing is supposed', () => {
  for (const text of [
    saving('~/bucket/c', 'gcsfuse: {bucket_name: A!, mount_path: ~/bucket}\n'),
    saving('~/bucket/c', 'gcsfuse: {bucket_name: abc, mount_path: [a]}\n'),
    saving('~/bucket/c', 'gcsfuse: {bucket_name: abc, mount_path: ~/a, extra_mounts: 5}\n'),
    saving('~/bucket/c', 'gcsfuse: 5\n'),
    saving('~/bucket/c').replace('checkpoint_dir', 'checkpont_dir'),
    job('silence_timout: 5m', `${bucket}recovery: {rules: [{reason: hung, then: resume}]}\n`),
  ]) {
    assert.ok(problemsOf(text).length > 0, text);
    assert.deepEqual(warningsOf(text), [], text);
  }
});

test('warnings appear with problems, and an invalid key is not reported as missing', () => {
  const text =
    'job: {checkpoint_dir: [a], keep_for: 1h}\ntpu: {project: p-1, accelerator: v4-16, zone: us-central2-b}\ncommand: {}\n';
  assert.equal(problemsOf(text).length, 2);
  assert.match(only(text), /job\.keep_for/);
  assert.doesNotMatch(
    warningsOf('job: {keep_for: 1h, on_finish: kep}\nlocal: {}\ncommand: {run: ls}\n').join(),
    /keep_for/,
  );
});

// ------------------------------------------------------------------------------------------ what a cloud has

const asks = (project: string, keys: string): string =>
  `job: {checkpoint_dir: gs://b/c}\ntpu: {project: ${project}, ${keys}}\ncommand: {run: ls}\n`;

test('of Google a type or zone that no table has may be asked for, with a warning', () => {
  assert.match(
    only(asks('lab-project', 'accelerator: v4-16, zone: us-centrl2-b')),
    /tpu\.zone: "us-centrl2-b" is not a zone with TPUs that jobman knows; .* \(did you mean "us-central2-b"\?\)$/,
  );
  assert.match(
    only(asks('lab-project', 'accelerator: v4-16, zone: us-east1-d')),
    /tpu\.zone: us-east1-d has no v4-16, as far as jobman knows: only us-central2-b offers it$/,
  );
  const newer = asks('lab-project', 'accelerator: v9e-16, zone: us-central2-b, version: v2-alpha-tpuv9e');
  assert.match(only(newer), /tpu\.accelerator: "v9e-16" is not a TPU type that jobman knows; jobman requests it/);
  const { capacity } = specOf(newer).spec;
  assert.ok(capacity.kind === 'tpu' && capacity.accelerator === 'v9e-16');
  assert.equal(capacity.runtimeVersion, 'v2-alpha-tpuv9e');
  assertRefused(
    asks('lab-project', 'accelerator: v9e-16, zone: us-central2-b'),
    /tpu\.version: is required: jobman does not know the runtime version of v9e-16/,
  );
  // A new size of a generation has the image of its generation.
  const { capacity: larger } = specOf(asks('lab-project', 'accelerator: v6e-512, zone: us-east5-b')).spec;
  assert.ok(larger.kind === 'tpu' && larger.runtimeVersion === 'v2-alpha-tpuv6e');
  // Google does not use this name of the generation.
  for (const type of ['v5e-16', 'V4-8', 'v4_8', 'banana']) {
    assertRefused(asks('lab-project', `accelerator: ${type}, zone: us-central2-b`), /is not a TPU type/);
  }
});

test('a job on the TPU emulator may request only what the emulator has', () => {
  const refused = (keys: string): string => problemsOf(asks('emulator', keys)).join('\n');
  assertEach(refused, {
    'accelerator: v5litepod-17, zone: us-west4-a':
      /tpu\.accelerator: "v5litepod-17" is not a TPU type .*\(did you mean "v5litepod-16"\?\)/,
    'accelerator: v9e-16, zone: us-west4-a': /is not a TPU type/,
    'accelerator: v4-16, zone: mars-north1-a': /"mars-north1-a" is not a zone with TPUs of the TPU emulator/,
    'accelerator: v4-16, zone: us-east1-d': /us-east1-d has no v4-16: only us-central2-b offers it$/m,
    'accelerator: tpu7x-8, zone: us-east1-d': /us-east1-d has no tpu7x-8: no zone offers it/,
    'accelerator: v4-16, zone: us-central2-b, version: tpu-ubuntu2204-bas':
      /tpu\.version: .* \(did you mean "tpu-ubuntu2204-base"\?\)/,
  });
});

test('a runtime version of another generation causes a warning, and a new one does not', () => {
  const version = (text: string): readonly string[] =>
    warningsOf(asks('lab-project', `accelerator: v6e-8, zone: us-east5-b, version: ${text}`));
  assert.match(version('v2-alpha-tpuv5-lite').join(), /is for v5e, but the TPU is a v6e/);
  assert.match(version('tpu-ubuntu2204-bse').join(), /did you mean "tpu-ubuntu2204-base/);
  for (const text of ['v2-alpha-tpuv6e', 'tpu-ubuntu2204-base', 'tpu-vm-tf-2.19.1-pjrt', 'nightly']) {
    assert.deepEqual(version(text), [], text);
  }
});

test('a project whose name is similar to the TPU emulator causes a warning', () => {
  const named = (project: string): string =>
    warningsOf(asks(project, 'accelerator: v4-16, zone: us-central2-b')).join();
  assert.match(named('emulatr'), /tpu\.project: "emulatr" is a Google Cloud project.*\(did you mean "emulator"\?\)/);
  for (const project of ['lab-project', 'emulator', 'my-emulator', 'emulator-2'])
    assert.equal(named(project), '', project);
});

test('a TPU that exists needs no setting for its key: the keys of its user are tried', () => {
  assert.deepEqual(warningsOf(job('', bucket, 'name: lab, adopt: true, pricing: ondemand')), []);
});
