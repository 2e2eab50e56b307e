import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FileReader } from '../../src/manifest/files.ts';
import { loadManifest, maxManifestBytes } from '../../src/manifest/parse.ts';
import { formatProblems } from '../../src/schema/problems.ts';
import { assertEach, fakeDisk, problemsOf, specOf, tpu } from './fake-files.ts';

/** The problems of one wrong manifest, as one text. */
function problemLines(text: string, options?: Parameters<typeof problemsOf>[1]): string {
  return problemsOf(text, options).join('\n');
}

/** The problems of the manifest file of a disk. */
function loadFrom(files: FileReader): string {
  const context = { cwd: '/work', env: {}, home: '/home/ada', project: null, purpose: 'create' } as const;
  const result = loadManifest({ file: 'cfg.yaml', files, ...context });
  return 'problems' in result ? formatProblems('cfg.yaml', result.problems).join('\n') : 'fine';
}

/** The manifest file of this content, as the command line reads it. */
function load(content: string | Uint8Array | undefined): string {
  return loadFrom(fakeDisk(content === undefined ? {} : { '/work/cfg.yaml': content }));
}

test('a file that is not a manifest gives one line', () => {
  assert.equal(load(undefined), 'cfg.yaml: the manifest does not exist');
  assert.equal(load('local: {}\ncommand: {run: ls}\n'), 'fine');
  assert.equal(load(''), 'cfg.yaml:1:1: the manifest is empty');
  assert.equal(load('# only a comment\n---\n'), 'cfg.yaml:1:1: the manifest is empty');
  assert.equal(load(new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 0, 1, 2])), 'cfg.yaml: the manifest is binary, not text');
  assert.equal(load(new Uint8Array([0x61, 0x3a, 0x20, 0xff, 0xfe])), 'cfg.yaml: the manifest is not text in UTF-8');
  assert.match(load('just text'), /a manifest is a map of sections/);
  assert.match(load('- a\n- b\n'), /a manifest is a map of sections .* not a list/);
  assert.match(load('local: {}\ncommand: {run: "\u0001"}\n'), /fine|YAML/);
});

test('a folder, a large file that is never read, and a pipe of unknown length are not a manifest', () => {
  assert.equal(loadFrom(fakeDisk({ '/work/cfg.yaml/inner': 'x' })), 'cfg.yaml: the manifest is a folder');
  const large = { kind: 'file', bytes: 10 * maxManifestBytes, isExecutable: false } as const;
  const unread = loadFrom({ inspect: () => large, read: () => assert.fail('it was read') });
  assert.match(unread, /is too large \(10 MiB\); the limit is 1 MiB/);
  const endless = loadFrom({
    inspect: () => ({ kind: 'stream' }),
    read: (_path, maxBytes) => ({ bytes: new Uint8Array(maxBytes + 1).fill(97) }),
  });
  assert.match(endless, /is too large; the limit is 1 MiB/);
});

test('YAML mistakes are reported with their position', () => {
  assertEach(problemLines, {
    'local: {}\ncommand:\n\trun: ls\n': 'cfg.yaml:3:1: this line is indented with a tab; YAML requires spaces',
    'local: {}\ncommand: {run: ls}\nlocal: {}\n': 'cfg.yaml:3:1 local: appears twice in this map; remove one of them',
    'local: {}\ncommand:\n  run: ls\n  run: ls\n':
      'cfg.yaml:4:3 command.run: appears twice in this map; remove one of them',
    'local: {}\ncommand: {run: ls\n': /^cfg\.yaml:\d:\d/,
    'local: {}\ncommand\n': 'cfg.yaml:2:1: this key has no colon; write `key: value`',
    'job: {name: a}\n x: 1\n': /cfg\.yaml:2:\d: /,
    'local: {}\ncommand:\n  run: ls\n workers: 0\n': /cfg\.yaml:4:1: the indentation of this line does not match/,
    'job:\n  name: "a\n  loop: true\n': /a quote is not closed/,
    'a: b: c\n': /cfg\.yaml:1:4: this value contains a second `key:`/,
    'local: {}\n---\ncommand: {}\n': /cfg\.yaml:2:1: a second YAML document begins here/,
    'local: {}\ncommand: *missing\n': /the alias \*missing cannot be resolved/,
    'local: {}\ncommand: &me {run: *me}\n': /it contains itself/,
    'local: {}\ncommand: {run: !!python/object x}\n': /cfg\.yaml:2:\d+: YAML: Unresolved tag/,
  });
});

test('anchors, aliases and merge keys work', () => {
  const { spec } = specOf(
    'vars: {base: &base {A: "1", B: "2"}}\nlocal: {}\ncommand: {run: ls, env: {<<: *base, B: "3"}}\n',
  );
  assert.deepEqual(spec.command.env, { A: '1', B: '3' });
});

test('aliases that multiply are stopped before they are followed', () => {
  const rows = ['x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]'];
  for (let n = 1; n < 12; n += 1)
    rows.push(`x${n}: &x${n} [${Array.from({ length: 10 }, () => `*x${n - 1}`).join(', ')}]`);
  assert.match(problemLines(rows.join('\n')), /more than 20000 values/);
  assert.match(problemLines(`x: ${'['.repeat(500)}${']'.repeat(500)}\n`), /nested deeper than 64/);
  // These nest in one line of text, where each level is one more call of the library.
  for (const text of [`x:\n  ${'- '.repeat(20_000)}1\n`, `${'? '.repeat(50_000)}x\n`])
    assert.match(problemLines(text), /nested deeper than 64/);
});

test('every problem is said at once, in the order of the file', () => {
  assert.deepEqual(
    problemsOf(`job: {env_type: dcker, lop: true, silence_timeout: 5 minutes}
tpu:
  accelerator: v4-17
  name: Ada
  zone: us-central2
  pricing: spt
command:
  wrokers: [0]
  workers: [a, 0, 0]
nonsense: 1
`),
    [
      'cfg.yaml:1:17 job.env_type: "dcker" is not one of docker, conda, venv (did you mean "docker"?)',
      'cfg.yaml:1:24: Unknown key "lop" in job (did you mean "loop"?)',
      'cfg.yaml:1:52 job.silence_timeout: "5 minutes" is not a duration; write 30s, 5m, 2h, 1d or a number of seconds (at most 3650d) (did you mean "5m"?)',
      'cfg.yaml:2:1 tpu.project: is required, because the settings have no default project; write `project: <your Google Cloud project>`, or `project: emulator` for the free TPU emulator',
      'cfg.yaml:3:16 tpu.accelerator: "v4-17" is not a TPU type that jobman knows (did you mean "v4-16"?)',
      'cfg.yaml:4:9 tpu.name: "Ada" is not a valid TPU name (lower-case letters, digits and -, beginning with a letter, not ending with -) (did you mean "ada"?)',
      'cfg.yaml:5:9 tpu.zone: "us-central2" is not a zone; write a region and a letter, such as us-central2-b (did you mean "us-central2-b"?)',
      'cfg.yaml:6:12 tpu.pricing: "spt" is not one of spot, ondemand, preemptible (did you mean "spot"?)',
      'cfg.yaml:7:1 command.run: is required, for example run: python3 train.py',
      'cfg.yaml:8:3: Unknown key "wrokers" in command; a value of your own with this name belongs in vars (did you mean "workers"?)',
      'cfg.yaml:9:12 command.workers: names worker 0 twice',
      'cfg.yaml:9:13 command.workers[0]: must be the number of a worker, a list of numbers, or all (did you mean "all"?)',
      'cfg.yaml:10:1: Unknown section "nonsense"',
    ],
  );
});

test('the value of a misspelled name is read under the intended name, and no key is reported as missing', () => {
  assert.deepEqual(
    problemsOf('comand: {rn: ls, workers: [1]}\nlcal: {workdri: nowhere}\njob: {max_rutime: 10 sec}\n'),
    [
      'cfg.yaml:1:1: Unknown section "comand" (did you mean "command"?)',
      'cfg.yaml:1:10: Unknown key "rn" in command; a value of your own with this name belongs in vars (did you mean "run"?)',
      'cfg.yaml:1:28 command.workers[0]: there is no worker 1: this machine is one worker, number 0',
      'cfg.yaml:2:1: Unknown section "lcal" (did you mean "local"?)',
      'cfg.yaml:2:1 local.workdir: the folder /work/nowhere does not exist on this machine',
      'cfg.yaml:2:8: Unknown key "workdri" in local (did you mean "workdir"?)',
      'cfg.yaml:3:7: Unknown key "max_rutime" in job (did you mean "max_runtime"?)',
      'cfg.yaml:3:19 job.max_rutime: "10 sec" is not a duration; write 30s, 5m, 2h, 1d or a number of seconds (at most 3650d) (did you mean "10s"?)',
    ],
  );
});

test('exactly one section says where the job runs', () => {
  assert.match(
    problemLines('command: {run: ls}\n'),
    /the manifest has no section for where the job runs; add tpu, hosts: \[gpu1\] /,
  );
  assert.match(problemLines(tpu('local: {}\n')), /local: cannot be combined with tpu/);
  assert.match(problemLines('local: {}\ncommand:\n'), /command: is empty/);
  assert.match(problemLines(tpu('hosts: gpu1\n')), /hosts: cannot be combined with tpu/);
  assert.match(problemLines('hosts: [gpu1]\nlocal: {}\ncommand: {run: ls}\n'), /hosts: cannot be combined with local/);
});

test('hosts are names of the settings, each once', () => {
  const hosts = ['localhost', 'gpu1', 'gpu2'];
  const text = (list: string) =>
    `hosts: ${list}\ncommand: {run: ls, workdir: run, workers: [1]}\njob: {checkpoint_dir: ck}\n`;
  assert.match(problemLines(text('[GPU_1]'), { hosts }), /"GPU_1" is not a name for a host; use lower-case letters/);
  assert.deepEqual(problemLines(text('[gpu11, gpu2, gpu2]'), { hosts }).split('\n'), [
    'cfg.yaml:1:9 hosts[0]: there is no host "gpu11"; add it: jobman hosts add gpu11 --ssh ADDRESS (did you mean "gpu1"?)',
    'cfg.yaml:1:22 hosts[2]: names gpu2 twice; a job has one slot on each host',
  ]);
  assert.match(problemLines(text('[]'), { hosts }), /hosts: is empty; write the name of a host/);
  assert.match(problemLines(text('gpu1'), { hosts }), /there is no worker 1: gpu1 is one worker, number 0/);
  const { spec } = specOf(text('[gpu2, localhost]'), { hosts });
  assert.deepEqual(spec.capacity, { kind: 'hosts', ownership: 'persistent', hosts: ['gpu2', 'localhost'] });
  // Folders of other machines, as on the workers of a TPU.
  assert.equal(spec.command.workdir, '~/run');
  assert.match(spec.command.checkpointStorage ?? '', /^gpu2,localhost:/);
  assert.equal(specOf('hosts: localhost\ncommand: {run: ls}\n', { hosts }).spec.command.workdir, '/work');
});

test('no project anywhere shows both one-line answers', () => {
  const text = 'tpu: {accelerator: v4-8, zone: us-central2-b}\ncommand: {run: ls}\n';
  assert.match(problemLines(text), /`project: <your Google Cloud project>`, or `project: emulator`/);
  const { spec } = specOf(text, { project: 'from-settings' });
  assert.ok(spec.capacity.kind === 'tpu');
  assert.equal(spec.capacity.project, 'from-settings');
});

test('a worker that the accelerator does not have is out of range', () => {
  assert.match(
    problemLines(tpu('', 'run: ls, workers: [0, 2]')),
    /command\.workers\[1\]: there is no worker 2: v4-16 has 2 workers, numbered 0 to 1/,
  );
  assert.match(problemLines(tpu('', 'run: ls, workers: 9')), /command\.workers: there is no worker 9/);
  assert.match(
    problemLines('local: {}\ncommand: {run: ls, workers: [1]}\n'),
    /there is no worker 1: this machine is one worker/,
  );
  assert.match(problemLines(tpu('', 'run: ls, workers: []')), /is empty/);
  assert.match(problemLines(tpu('', 'run: ls, workers: -1')), /must be the number of a worker/);
  assert.match(problemLines(tpu('', 'run: ls, workers: al')), /did you mean "all"\?/);
});

test('types are checked for every value', () => {
  const lines: readonly (readonly [string, RegExp])[] = [
    ['job: {name: [a]}', /job\.name: must be a single value, not a list/],
    ['job: {name: "12"}', /job\.name: "12" is not a valid job name/],
    ['job: {name: --help}', /job\.name: "--help" is not a valid job name \(.*not beginning with -/],
    [`job: {name: ${'x'.repeat(101)}}`, /is not a valid job name \(at most 100 characters/],
    ['job: {name: ""}', /job\.name: .*(is empty|not a valid)/],
    ['job: {tags: {a: b}}', /job\.tags: must be a list of text, not a map/],
    ['job: {env: {JOBMAN_X: x}}', /names that begin with JOBMAN_ are reserved/],
    ['job: {env: [A]}', /job\.env: must be a map/],
    ['job: {max_runtime: -5}', /job\.max_runtime: "-5" is not a duration/],
    ['job: {max_runtime: 0}', /job\.max_runtime: "0" is too short/],
    ['job: {max_runtime: 5 m}', /did you mean "5m"\?/],
    ['job: {max_runtime: 99999d}', /is not a duration/],
    ['job: {stop_signal: SIGTERM}', /is not one of TERM/],
    ['job: hello', /job: must be a section .*, not the text "hello"/],
    ['setup: {tries: 1.5}', /setup\.tries: must be a whole number, not the number 1\.5/],
    ['setup: {modules: [ssh, shh]}', /setup\.modules\[1\]: "shh" is not one of/],
    ['recovery: {rules: [{reason: hung}]}', /recovery\.rules\[0\]\.then: is required/],
    ['recovery: {rules: [{reason: hung, then: fail, limit: 3}]}', /rules\[0\]\.limit: has no effect with then: fail/],
    ['recovery: {rules: [{reason: hung, then: resume, log: "*"}]}', /rules\[0\]\.log: matches every line/],
    ['recovery: {rules: [{reason: hung, then: resume, exit_code: 300}]}', /rules\[0\]\.exit_code/],
    [
      'recovery: {rules: [{reason: preempted, then: resume, avoid_zone: true}]}',
      /rules\[0\]\.avoid_zone: requires tpu\.alternatives/,
    ],
    ['recovery: {rules: [{reason: hung, then: resume, avoid_zone: true}]}', /avoid_zone: requires on: new/],
    ['recovery: {rules: [{reason: command_failed, then: fail, evidence: grcp}]}', /did you mean "grpc"\?/],
    ['ssh: {identities: [{public_key: a}]}', /ssh\.identities\[0\]\.private_key: is required/],
  ];
  for (const [line, expected] of lines) assert.match(problemLines(tpu(`${line}\n`)), expected, line);
});

test('two names of one key may agree and must not disagree', () => {
  assert.equal(specOf('local: {}\ncommand: {run: ls, cmd: ls}\n').spec.command.script, 'ls');
  assert.match(
    problemLines('local: {}\ncommand:\n  run: ls\n  cmd: pwd\n'),
    /cfg\.yaml:4:3 command\.cmd: cmd and run are two names of the same key/,
  );
  assert.match(problemLines(tpu('conda: {name: a, env_name: b}\n')), /env_name and name are two names/);
  assert.equal(specOf('local: {}\ncommand: {run: null, cmd: ls}\n').spec.command.script, 'ls');
});

test('recovery and job.loop must not contradict each other', () => {
  assert.match(
    problemLines(tpu('job: {loop: true}\nrecovery: pass\n')),
    /recovery: is pass, but job\.loop means loop: true/,
  );
  assert.equal(specOf(tpu('job: {loop: true}\nrecovery: "loop: true"\n')).spec.recovery.preset, 'loop: true');
});

test('a name of a file cannot move the cursor of the terminal', () => {
  assert.deepEqual(
    formatProblems('a\u001b[31mb', [{ path: '', message: 'x', line: null, column: null, suggestion: null, set: null }]),
    ['a\\x1b[31mb: x'],
  );
});

test('no manifest, however broken, makes the parser throw', () => {
  const whole = tpu(
    'job: {name: x, files: [a:b], env: {A: "${oc.env:B,${vars.c}}"}, env_type: docker}\nvars: {c: [1, {d: e}]}\ndocker: {image: i, mount_dirs: [/a:/b], flags: ["-e X=\'y\'"]}\nssh: {identities: [{private_key: k}]}\nrecovery: {preset: pre, rules: [{reason: hung, then: fail}]}\n',
  );
  // Every third character taken away, doubled, or replaced by one that matters.
  for (let at = 0; at < whole.length; at += 3) {
    for (const put of ['', '{', '"', ': ', '\n', '${', '*a', '- ', '\u0000']) {
      const text = whole.slice(0, at) + put + whole.slice(at + 1);
      try {
        problemsOf(text);
      } catch (error) {
        if (!(error instanceof Error && error.message === 'the manifest was accepted'))
          throw new Error(`${put} at ${at}\n${text}`, { cause: error });
      }
    }
  }
});
