/**
 * All kinds of wrong manifests: all problems at once, each with its position and a suggestion; exit code 2; nothing is
 * stored, created or started.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

interface Case {
  readonly title: string;
  /** The content of the file; undefined for a folder of that name. */
  readonly content: string | Uint8Array | undefined;
  /** All lines of the error message after the first, in order. */
  readonly messages: readonly RegExp[];
}

const cases: readonly Case[] = [
  { title: 'a directory', content: undefined, messages: [/^ {2}x\.yaml: the manifest is a folder$/] },
  { title: 'empty', content: '', messages: [/^ {2}x\.yaml:1:1: the manifest is empty$/] },
  { title: 'nothing but a comment', content: '# later\n', messages: [/^ {2}x\.yaml:1:1: the manifest is empty$/] },
  {
    title: 'of 10 MB',
    content: `command:\n  run: |\n${'    echo a long and boring manifest with many lines\n'.repeat(207_000)}`,
    messages: [/^ {2}x\.yaml: the manifest is too large \(10\.3 MiB\); the limit is 1 MiB$/],
  },
  {
    title: 'binary',
    content: Uint8Array.from({ length: 3_000 }, (_, at) => (at * 7_919) % 256),
    messages: [/^ {2}x\.yaml: the manifest is binary, not text$/],
  },
  {
    title: 'indented by a tab',
    content: 'local: {}\ncommand:\n\trun: |\n    true\n',
    messages: [/^ {2}x\.yaml:3:1: this line is indented with a tab; YAML requires spaces$/],
  },
  {
    title: 'with a key twice',
    content: 'job:\n  name: a\n  name: b\nlocal: {}\ncommand:\n  run: echo\n',
    messages: [/^ {2}x\.yaml:3:3 job\.name: appears twice in this map; remove one of them$/],
  },
  {
    title: 'with unknown keys',
    content: 'job:\n  nmae: a\nlocla: {}\nlocal: {}\ncommand:\n  run: echo\n  worker: all\n',
    messages: [
      /^ {2}x\.yaml:2:3: Unknown key "nmae" in job \(did you mean "name"\?\)$/,
      /^ {2}x\.yaml:3:1: Unknown section "locla" \(did you mean "local"\?\)$/,
      /^ {2}x\.yaml:7:3: Unknown key "worker" in command.* \(did you mean "workers"\?\)$/,
    ],
  },
  {
    title: 'with wrong types',
    content: [
      'job:',
      '  name: [a]',
      '  silence_timeout: soon',
      'tpu:',
      '  project: emulator',
      '  accelerator: v4-7',
      '  zone: us-central2-b',
      'command: 5',
    ].join('\n'),
    messages: [
      /^ {2}x\.yaml:2:9 job\.name: .*not a list$/,
      /^ {2}x\.yaml:3:20 job\.silence_timeout: "soon" is not a duration; write 30s/,
      /^ {2}x\.yaml:6:16 tpu\.accelerator: "?v4-7/,
      /^ {2}x\.yaml:8:10 command: must be a section .*, not the number 5$/,
    ],
  },
  {
    title: 'with texts that refer to each other',
    content: [
      'job:',
      '  name: ${command.workdir}',
      'local: {}',
      'command:',
      '  workdir: ${job.name}',
      '  run: cd ${job.nmae}',
    ].join('\n'),
    messages: [
      /^ {2}x\.yaml:2:9 job\.name: refers to itself: job\.name -> command\.workdir -> job\.name$/,
      /^ {2}x\.yaml:6:\d+ command\.run: .*job\.nmae.*did you mean .*job\.name/,
    ],
  },
  {
    title: 'with two environments',
    content: 'local: {}\ncommand:\n  run: echo\nconda:\n  env_name: x\nvenv:\n  path: y\n',
    messages: [/^ {2}x\.yaml:6:1 venv: the manifest has the sections conda and venv; choose one with job\.env_type/],
  },
  {
    title: 'without a project in the manifest and the settings',
    content: 'tpu:\n  accelerator: v4-8\n  zone: us-central2-b\ncommand:\n  run: echo\n',
    messages: [/^ {2}x\.yaml:1:1 tpu\.project: is required.*`project: <your.*>`.*`project: emulator`/],
  },
];

for (const { title, content, messages } of cases) {
  test(`create refuses a manifest ${title}`, async (t) => {
    const world = openWorld(t);
    const file = join(world.folder, 'x.yaml');
    if (content === undefined) mkdirSync(file);
    else writeFileSync(file, content);

    const { code, stdout, stderr } = await jobman(world, ['create', 'x.yaml'], { withinMs: 20_000 });

    assert.equal(stdout, '');
    const [first, ...rest] = stderr.trimEnd().split('\n');
    assert.match(first ?? '', new RegExp(`has ${messages.length} problems?\\.$`), stderr);
    assert.equal(rest.length, messages.length, stderr);
    for (const [at, pattern] of messages.entries()) assert.match(rest[at] ?? '', pattern);
    assert.equal(code, 2);
    // The leak check of the world would find a started controller.
    assert.ok(!existsSync(world.home), 'no folder was made');
  });
}
test('a command about a missing job creates no folder and starts nothing', async (t) => {
  const world = openWorld(t);
  for (const args of [
    ['show', '7'],
    ['stop', 'missing'],
    ['logs', '7', '-f'],
    ['wait', '7'],
    ['delete', '7', '--yes'],
  ]) {
    const { code, stdout, stderr } = await jobman(world, args);
    assert.equal(code, 3, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, /^jobman: There is no job (000007|named "missing")\. List all jobs: jobman list --all\n$/);
  }
  const { code, stdout } = await jobman(world, ['list', '--json']);
  assert.deepEqual({ code, stdout }, { code: 0, stdout: '' });
  assert.ok(!existsSync(world.home));
});

/** A valid manifest with a warning. */
const doubtful = [
  'job:',
  '  keep_for: 1h',
  'tpu:',
  '  project: emulator',
  '  accelerator: v4-8',
  '  zone: us-central2-b',
  'command:',
  '  run: echo',
  '',
].join('\n');
const warnings = [
  /^warning: x\.yaml:1:1 job\.checkpoint_dir: is not set, and a spot TPU can be preempted at any time/,
  /^warning: x\.yaml:2:13 job\.keep_for: has no effect without job\.on_finish: keep$/,
];

test('validate and a dry run print the same warnings and succeed', async (t) => {
  const world = openWorld(t);
  writeFileSync(join(world.folder, 'x.yaml'), doubtful);
  for (const args of [['validate'], ['create', '--dry-run']]) {
    const { code, stdout, stderr } = await jobman(world, [...args, 'x.yaml']);
    const lines = stderr.trimEnd().split('\n').toSorted();
    assert.equal(lines.length, warnings.length, stderr);
    for (const [at, pattern] of warnings.entries()) assert.match(lines[at] ?? '', pattern);
    assert.match(
      stdout,
      args[0] === 'validate' ? /^x\.yaml is valid, with 2 warnings: job x\.$/m : /nothing was created/,
    );
    assert.equal(code, 0);
  }
  const colourful = await jobman(world, ['validate', 'x.yaml', '--color=always']);
  // oxlint-disable-next-line no-control-regex -- The test is about these codes.
  assert.match(colourful.stderr, /^\u001b\[1m\u001b\[35mwarning:\u001b\[39m\u001b\[22m x\.yaml/m);
});

test('programs get problems and warnings as objects, from validate and from a dry run', async (t) => {
  const world = openWorld(t);
  writeFileSync(join(world.folder, 'x.yaml'), doubtful);
  const wrong = await jobman(world, [
    'validate',
    'x.yaml',
    '--json',
    '--set',
    'tpu.zone=us-central2',
    '--set',
    'job.x',
  ]);
  const found = wrong.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    found.map(({ severity, key, line, set, suggestion }) => [severity, key, line, set, suggestion]),
    [
      ['problem', '', null, 'job.x', null],
      ['problem', 'tpu.zone', null, 'tpu.zone', 'us-central2-b'],
      ['warning', 'job.keep_for', 2, null, null],
    ],
  );
  assert.deepEqual({ code: wrong.code, stderr: wrong.stderr }, { code: 2, stderr: '' });
  const plan = await jobman(world, ['create', 'x.yaml', '--dry-run', '--json']);
  const { warnings: printed } = JSON.parse(plan.stdout) as { warnings: { key: string }[] };
  assert.deepEqual(printed.map(({ key }) => key).toSorted(), ['job.checkpoint_dir', 'job.keep_for']);
  assert.equal(plan.code, 0);
});

test('validate accepts --set like create', async (t) => {
  const world = openWorld(t);
  writeFileSync(join(world.folder, 'x.yaml'), 'local: {}\ncommand:\n  run: echo ${command.lr}\n');
  const without = await jobman(world, ['validate', 'x.yaml']);
  assert.match(without.stderr, /x\.yaml:3:8 command\.run: \$\{command\.lr\} is not a key of this manifest/);
  assert.equal(without.code, 2);
  const given = await jobman(world, ['validate', 'x.yaml', '--set', 'command.lr=0.1', '--set=job.name=b']);
  assert.deepEqual(given, { code: 0, signal: null, stdout: 'x.yaml is valid: job b.\n', stderr: '' });
  assert.ok(!existsSync(world.home));
});

test('validate and a dry run refuse the manifests that create refuses, with the same message and exit code 2', async (t) => {
  const world = openWorld(t);
  for (const folder of ['large', 'none']) mkdirSync(join(world.folder, folder));
  writeFileSync(join(world.folder, 'large/data'), '');
  truncateSync(join(world.folder, 'large/data'), 600 * 1024 * 1024);
  for (const [name, keys, message] of [
    ['key', 'ssh: {private_key: ./missing}\n', /ssh\.private_key: the key file \S+missing does not exist/],
    [
      'secret',
      'job: {secrets: {TOKEN: env:NO_SUCH_VARIABLE}}\n',
      /the environment variable NO_SUCH_VARIABLE is not set/,
    ],
    ['folder', 'job: {workdir: missing}\n', /job\.workdir: \S+missing does not exist/],
    ['size', 'job: {workdir: large}\n', /job\.workdir: \S+large has 600 MiB in 1 file; .*The limit is 512 MiB/],
    ['nothing', 'job: {workdir: none}\n', /job\.workdir: \S+none cannot be copied: it is empty/],
    ['empty', '', /command\.cmd: is empty, so there is nothing to run/],
  ] as const) {
    const command = name === 'empty' ? 'cmd: ""' : 'run: ls';
    const manifest = `tpu: {project: emulator, accelerator: v4-8, zone: us-central2-b}\ncommand: {${command}}\n${keys}`;
    writeFileSync(join(world.folder, `${name}.yaml`), manifest);
    for (const args of [['validate'], ['create', '--dry-run'], ['create']]) {
      const { code, stdout, stderr } = await jobman(world, [...args, `${name}.yaml`]);
      assert.deepEqual({ code, stdout }, { code: 2, stdout: '' }, `${args.join(' ')} ${name}: ${stderr}`);
      assert.match(stderr, message);
    }
  }
});
