/**
 * All problems at once, and no others: every mistake in one manifest is reported, whatever else is wrong, and none
 * of them causes another. A newcomer corrects a file once.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSetArgument } from '../../src/manifest/overrides.ts';
import { problemsOf, specOf } from './fake-files.ts';

type Value = unknown;

/** A manifest without a mistake that has every section; its values are written as JSON, which is YAML. */
const right: Readonly<Record<string, Readonly<Record<string, Value>>>> = {
  vars: { size: 8 },
  job: { name: 'a', checkpoint_dir: '~/b/c' },
  tpu: { project: 'emulator', accelerator: 'v4-16', zone: 'us-central2-b', pricing: 'spot' },
  setup: { modules: ['ssh', 'gcsfuse', 'docker', 'conda', 'command'] },
  ssh: { private_key: 'key' },
  gcsfuse: { bucket_name: 'abc', mount_path: '~/b' },
  docker: { image: 'i', mount_dirs: ['~/b'] },
  conda: { name: 'c' },
  venv: { name: 'v' },
  command: { run: 'ls', workers: 'all' },
  recovery: { preset: 'pre', delay: '1m' },
};
const files = { '/work/key': 'k', '/work/key.pub': 'k' };

/** A mistake: a value at a key, a separate line, or a `--set`; and the expected message. */
interface Mistake {
  readonly at?: string;
  readonly value?: Value;
  readonly line?: string;
  readonly set?: string;
  readonly pattern: RegExp;
}

const mistakes: readonly Mistake[] = [
  { at: 'job.name', value: 'a b', pattern: /job\.name: "a b" is not a valid job name .*did you mean "a-b/ },
  { at: 'job.nmae', value: 'a', pattern: /Unknown key "nmae" in job/ },
  { at: 'job.env', value: { '1A': 'x' }, pattern: /job\.env\.1A: is not a valid name of an environment variable/ },
  { at: 'job.loop', value: 'maybe', pattern: /job\.loop: must be true or false/ },
  { at: 'job.max_runtime', value: '10 sec', pattern: /job\.max_runtime: .*did you mean "10s/ },
  { at: 'job.stop_signal', value: 'SIGINT', pattern: /job\.stop_signal: .*did you mean "INT/ },
  {
    at: 'job.files',
    value: ['nothing.py'],
    pattern: /job\.files: nothing\.py does not exist|job\.files\[0\]: nothing\.py/,
  },
  { at: 'job.checkpoint_dir', value: '../x', pattern: /job\.checkpoint_dir: \.\.\/x is outside the login folder/ },
  { at: 'job.tags', value: ['${oc.env:NOPE}'], pattern: /job\.tags\[0\]: the environment variable NOPE is not set/ },
  { at: 'job.env_type', value: 'dcker', pattern: /job\.env_type: "dcker" is not one of/ },
  { at: 'tpu.project', value: 'My_Project', pattern: /tpu\.project: .*did you mean "my-project/ },
  { at: 'tpu.accelerator', value: 'v4-17', pattern: /tpu\.accelerator: "v4-17" is not a TPU type/ },
  { at: 'tpu.zone', value: 'us-central2', pattern: /tpu\.zone: "us-central2" is not a zone/ },
  { at: 'tpu.pricing', value: 'spott', pattern: /tpu\.pricing: .*did you mean "spot/ },
  { at: 'tpu.name', value: '${tpu.nmae}', pattern: /tpu\.name: \$\{tpu\.nmae\} is not a key of this manifest/ },
  { at: 'tpu.version', value: 'tpu-ubuntu2204-bse', pattern: /tpu\.version: .*did you mean "tpu-ubuntu2204-base/ },
  { at: 'tpu.startup_script', value: 'no.sh', pattern: /tpu\.startup_script: the file \/work\/no\.sh does not exist/ },
  { at: 'setup.tries', value: 0, pattern: /setup\.tries: must be at least 1, not 0/ },
  { at: 'ssh.private_key', value: 'none', pattern: /ssh\.private_key: the key file \/work\/none does not exist/ },
  {
    at: 'ssh.identities',
    value: [{ public_key: 'no.pub', private_key: 'key' }],
    pattern: /public_key: the key file \/work\/no\.pub/,
  },
  { at: 'gcsfuse.bucket_name', value: 'a!', pattern: /gcsfuse\.bucket_name: "a!" is not a bucket name/ },
  {
    at: 'gcsfuse.extra_mounts',
    value: [{ mount_path: '~/b' }],
    pattern: /extra_mounts.*mount_path: ~\/b is mounted twice/,
  },
  { at: 'docker.image', value: null, pattern: /docker\.image: is required/ },
  { at: 'docker.flags', value: ["-e 'x"], pattern: /docker\.flags\[0\]: has a quote that is not closed/ },
  { at: 'docker.env_vars', value: ['1=2'], pattern: /docker\.env_vars\[0\]: "1=2" must be NAME=value/ },
  { at: 'conda.name', value: '-x', pattern: /conda\.name: "-x" is not a valid name of a conda environment/ },
  {
    at: 'conda.config_file',
    value: 'no.yaml',
    pattern: /conda\.config_file: the file \/work\/no\.yaml does not exist/,
  },
  { at: 'venv.python', value: 'three', pattern: /venv\.python: "three" is not a Python version/ },
  { at: 'command.run', value: 'echo ${job.nope}', pattern: /command\.run: \$\{job\.nope\} is not a key/ },
  { at: 'command.workers', value: ['a', 1], pattern: /command\.workers\[0\]: must be the number of a worker/ },
  { at: 'command.wrokers', value: 1, pattern: /Unknown key "wrokers" in command/ },
  { at: 'recovery.loop', value: 'failures', pattern: /is not a key; write recovery: "loop: failures"/ },
  { at: 'command.env', value: { JOBMAN_X: '1' }, pattern: /command\.env\.JOBMAN_X: .*reserved/ },
  { at: 'command.workdir', value: '~bob/x', pattern: /command\.workdir: ~bob\/x is outside the login folder/ },
  { at: 'recovery.preset', value: 'prre', pattern: /recovery\.preset: "prre" is not a preset/ },
  {
    at: 'recovery.rules',
    value: [{ reason: 'hnug', then: 'fail', evidence: 'grpc' }],
    pattern: /rules\[0\]\.reason: "hnug" is not one/,
  },
  { at: 'recovery.delay_max', value: '1s', pattern: /recovery\.delay_max: is shorter than recovery\.delay/ },
  { at: 'recovery.budget', value: { failures: 'many' }, pattern: /recovery\.budget\.failures: must be a whole number/ },
  { line: 'nonsense: 1', pattern: /Unknown section "nonsense"/ },
  { line: 'setup: {tries: 2}', pattern: /setup: appears twice in this map/ },
  { line: 'local: {workdir: nowhere}', pattern: /local\.workdir: the folder \/work\/nowhere does not exist/ },
  { line: 'local: {}', pattern: /local: cannot be combined with tpu/ },
  { line: 'x-base: *missing', pattern: /x-base: the alias \*missing cannot be resolved/ },
  { set: 'command.x', pattern: /--set command\.x: has no value/ },
  { set: 'job..x=1', pattern: /--set job\.\.x: is not the path of a key/ },
];

/** The messages for a manifest with these mistakes. */
function reportedLines(wrong: readonly Mistake[]): readonly string[] {
  const sections = structuredClone(right) as Record<string, Record<string, Value>>;
  for (const { at, value } of wrong) {
    const [section = '', key = ''] = at?.split('.') ?? [];
    if (at !== undefined) sections[section] = { ...sections[section], [key]: value };
  }
  const lines = [
    ...Object.entries(sections).map(([name, keys]) => `${name}: ${JSON.stringify(keys)}`),
    ...wrong.flatMap(({ line }) => line ?? []),
  ];
  return problemsOf(`${lines.join('\n')}\n`, {
    files,
    sets: wrong.flatMap(({ set }) => (set === undefined ? [] : parseSetArgument(set))),
  });
}

/** With a section local, what is said of a TPU's worker and of steps is said no more: it would be of another machine. */
function isOfThisMachine({ line }: Mistake): boolean {
  return line?.startsWith('local') === true;
}

/** Lines that only follow from a mistake and say what it means for another key; they are not a second round. */
const alsoReported = /Unknown section "x-base"|local: cannot be combined with tpu/;

function check(wrong: readonly Mistake[]): void {
  const lines = reportedLines(wrong);
  for (const mistake of wrong) {
    assert.ok(
      lines.some((one) => mistake.pattern.test(one)),
      `${String(mistake.pattern)} is not reported for ${wrong.map(({ at, line, set }) => at ?? line ?? set).join(' and ')}:\n${lines.join('\n')}`,
    );
  }
  const unexpected = lines.filter(
    (one) => !alsoReported.test(one) && !wrong.some((mistake) => mistake.pattern.test(one)),
  );
  assert.deepEqual(
    unexpected,
    [],
    `other problems are reported for ${wrong.map(({ at, line, set }) => at ?? line ?? set).join(' and ')}`,
  );
}

test('the manifest is right before a mistake is made in it', () => {
  const text = Object.entries(right).map(([name, keys]) => `${name}: ${JSON.stringify(keys)}\n`);
  assert.deepEqual(specOf(text.join(''), { files }).warnings, []);
});

test('each mistake is reported, and nothing that does not follow from it', () => {
  for (const mistake of mistakes) check([mistake]);
});

test('any two mistakes are reported together', () => {
  let pairs = 0;
  for (const [index, one] of mistakes.entries()) {
    for (const other of mistakes.slice(index + 1)) {
      if (isOfThisMachine(one) || isOfThisMachine(other)) continue;
      check([one, other]);
      pairs += 1;
    }
  }
  assert.ok(pairs > 700);
});

test('all mistakes are reported together', () => {
  const all = mistakes.filter((mistake) => !isOfThisMachine(mistake));
  check(all);
  assert.ok(reportedLines(all).length >= all.length);
});
