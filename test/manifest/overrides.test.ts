/** The overrides of `--set` in the record of a job. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSetArgument, type SetArgument } from '../../src/manifest/overrides.ts';
import { parse, assertRefused, local, problemsOf, specOf, tpu } from './fake-files.ts';

const manifest = `# A run of mine.
job:
  name: vit          # the name

local: {}

setup:

command:
  # The rate is tuned.
  lr: 0.1  # learning rate
  cmd: python3 train.py --lr \${command.lr}
`;

function recorded(sets: readonly string[], text = manifest, env = {}) {
  const result = parse(text, { sets: sets.map(parseSetArgument), env: { HOME: '/home/ada', ...env } });
  if (!('spec' in result)) throw new Error(JSON.stringify(result));
  return { text: result.storedText, overrides: result.spec.overrides, script: result.spec.command.script };
}

test('without a --set the record has the manifest to the letter', () => {
  assert.deepEqual(recorded([]).text, manifest);
  assert.equal(recorded([]).overrides, undefined);
});

test('each value is at its key, with a comment about its --set; other comments stay', () => {
  const { text, overrides } = recorded(['command.lr=0.010', 'job.tags=[a, b]', 'setup.tries=5', 'job.name=vit-2']);
  assert.equal(
    text,
    `# A run of mine.
job:
  name: vit-2 # the name; --set job.name=vit-2
  tags: [a, b] # --set job.tags=[a, b]

local: {}

setup:
  tries: 5 # --set setup.tries=5

command:
  # The rate is tuned.
  lr: 0.010 # learning rate; --set command.lr=0.010
  cmd: python3 train.py --lr \${command.lr}
`,
  );
  assert.deepEqual(overrides, [
    { key: 'command.lr', value: '0.010' },
    { key: 'job.tags', value: '[a, b]' },
    { key: 'setup.tries', value: '5' },
    { key: 'job.name', value: 'vit-2' },
  ]);
});

test('what is recorded makes the same job again', () => {
  const cases = [
    ['command.lr=1e-4'],
    ['command.run=echo a; echo "b"'],
    ['command.note=', 'command.version=3.10', 'command.flag=no'],
    ['command.env={A: 1, B: two}', 'command.env.B=three'],
    ['job.tags[0]=x', 'job.tags[1]=y'],
    ['vars.deep.er=7'],
    ['command.x=a # b'],
    ['command.lr=null'],
    ['command.x=!!binary aGk=', 'vars.y={a: !!timestamp 2001-12-14}'],
    ['command.seed=12345678901234567890'],
  ];
  for (const sets of cases) {
    const { text, script, overrides } = recorded(sets);
    const again = recorded([], text);
    assert.equal(again.script, script, sets.join());
    assert.equal(overrides?.length, sets.length);
    assert.ok(text.includes(`# --set ${sets[0]}`) || text.includes(`; --set ${sets[0]}`), text);
  }
});

test('the other name of a key goes, as it does for the job', () => {
  const { text } = recorded(['command.run=true']);
  assert.doesNotMatch(text, /cmd:/);
  assert.match(text, /run: .?true.? # --set command\.run=true/);
});

test('a set below an alias changes only that use of the anchor', () => {
  const shared = 'vars: {base: &base {run: ls}}\nlocal: {}\ncommand: *base\n';
  const { text } = recorded(['command.lr=0.5'], shared);
  const ownCopy = 'command:\n  {\n    run: ls,\n    lr: 0.5 # --set command.lr=0.5\n  }\n';
  assert.equal(text, shared.replace('command: *base\n', ownCopy));
});

test('a set below a key that only a merge adds keeps the other keys of the merge', () => {
  const text = `vars:
  env: &env {X: x}
  base: &base {env: {<<: *env, A: '1', B: '2'}, cmd: python3 train.py, lr: 0.1}
local: {}
command:
  <<: *base
`;
  const envAfter = (set: string) => specOf(text, { sets: [parseSetArgument(set)] }).spec.command.env;
  assert.deepEqual(envAfter('command.env.A=9'), { X: 'x', A: '9', B: '2' });
  assert.deepEqual(envAfter('command.env.X=y'), { X: 'y', A: '1', B: '2' });
  const { text: stored, script } = recorded(['command.env.A=9'], text);
  assert.deepEqual(specOf(stored).spec.command.env, { X: 'x', A: '9', B: '2' });
  assert.equal(recorded([], stored).script, script);
  // The merge has the other name of command.run.
  assert.match(recorded(['command.run=ls'], text).script, /^ls$/m);
});

test('a large number keeps its digits', () => {
  assert.match(recorded(['command.lr=12345678901234567890']).text, /lr: "12345678901234567890"/);
  const text = manifest.replace('lr: 0.1 ', 'lr: 0.12345678901234567890 ');
  assert.match(recorded(['job.name=vit-2'], text).text, /lr: "0.12345678901234567890"/);
});

test('a set finds a key that is a number or a truth value in YAML', () => {
  const text = 'local: {}\nvars: {1: a, true: b, 0x10: c}\ncommand: {run: "echo ${vars.1} ${vars.true} ${vars.0x10}"}';
  assert.match(recorded(['vars.1=x', 'vars.true=y', 'vars.0x10=z'], text).script, /echo x y z/);
});

test('a value that looks like a secret is nowhere in the record', () => {
  const sets = [
    'job.env.WANDB_API_KEY=abc123',
    'command.env={HF_TOKEN: abc123}',
    'vars.password=abc123',
    'job.secrets.OTHER_KEY=env:MINE',
    'command.keyword=kept',
  ];
  const { text, overrides } = recorded(sets, manifest, { MINE: 'abc123' });
  assert.doesNotMatch(JSON.stringify([text, overrides]), /abc123/);
  assert.match(text, /WANDB_API_KEY: "?\*\*\*"? # --set job\.env\.WANDB_API_KEY=\*\*\* \(not stored/);
  assert.deepEqual(
    overrides?.map(({ value }) => value),
    ['***', '***', '***', 'env:MINE', 'kept'],
  );
});

test('a secret is found in nested keys, in lists, in camel case, in addresses and by its form', () => {
  const hidden = [
    'vars.token.value=abc123',
    'vars.password[0]=abc123',
    'vars.apiKey=abc123',
    'vars.WANDBAPIKEY=abc123',
    'vars.a.b={c: {hfToken: abc123}}',
    'vars.args=[--api-key, abc123]',
    'vars.flags=--lr 1 --token abc123',
    'vars.repository=https://me:abc123@example.com/x',
    'vars.x=hf_abc123456789',
    'vars.y=Bearer abc123',
    'job.tags=[sk-abc123456789]',
  ];
  const { text, overrides } = recorded(hidden);
  assert.doesNotMatch(JSON.stringify([text, overrides]), /abc123/);
  const kept = ['vars.keyword=abc', 'vars.max_tokens=100', 'vars.monkey=a', 'vars.tokenizer=gpt2', 'vars.url=gs://b/c'];
  assert.deepEqual(
    recorded(kept).overrides?.map(({ key, value }) => `${key}=${value}`),
    kept,
  );
});

test('an interpolation stays as it was written, so that the environment is not spilled', () => {
  const { text, script } = recorded(['command.lr=${oc.env:RATE}'], manifest, { RATE: 'from-outside' });
  assert.equal(script, 'python3 train.py --lr from-outside');
  assert.doesNotMatch(text, /from-outside/);
});

// ------------------------------------------------------------------------------------------ what they do

function sets(...texts: readonly string[]): { sets: readonly SetArgument[] } {
  return { sets: texts.map(parseSetArgument) };
}

test('a value of the command line replaces the one of the file, of any type', () => {
  const text = tpu('job: {name: a}\n', 'run: "train ${command.lr}", lr: 0.1, workers: all');
  const { spec } = specOf(
    text,
    sets('command.lr=0.01', 'command.workers=[1]', 'job.name=b', 'job.max_runtime=2h', 'tpu.pricing=ondemand'),
  );
  assert.equal(spec.command.script, 'train 0.01');
  assert.deepEqual(spec.command.workers, [1]);
  assert.equal(spec.name, 'b');
  assert.equal(spec.limits.maxRuntimeMs, 7_200_000);
  assert.equal(spec.recovery.preset, 'pass');
});

test('it is written as YAML, and what is not YAML is text', () => {
  const run = (value: string): string => specOf(local('${vars.x}'), sets(`vars.x=${value}`)).spec.command.script;
  assert.equal(run('1e-4'), '1e-4');
  assert.equal(run('3.10'), '3.10');
  assert.equal(run('a: b: c'), 'a: b: c');
  assert.equal(run('"quoted"'), 'quoted');
  assert.equal(run('*star'), '*star');
  assert.equal(run('[1, 2'), '[1, 2');
  assert.equal(run(' a '), 'a');
  assert.equal(run('# no comment'), '# no comment');
});

test('sections that are missing are made, also the empty one', () => {
  assert.equal(specOf('local:\ncommand: {run: ls}\n', sets('job.name=x')).spec.name, 'x');
  assert.equal(specOf('local:\n', sets('command.run=ls')).spec.command.script, 'ls');
  assert.equal(
    specOf('local:\ncommand: {run: ls}\n', { ...sets('local.workdir=sub'), files: { '/work/sub/x': '' } }).spec.command
      .workdir,
    '/work/sub',
  );
});

test('it replaces the key under whichever name the file has it', () => {
  const { spec } = specOf('local: {}\ncommand: {cmd: old}\n', sets('command.run=new'));
  assert.equal(spec.command.script, 'new');
  assert.equal(specOf('local: {}\ncommand: {run: old}\n', sets('command.cmd=new')).spec.command.script, 'new');
});

test('one element of a list can be set, and one more added', () => {
  assert.deepEqual(specOf(tpu('job: {tags: [a, b]}\n'), sets('job.tags[1]=c', 'job.tags[2]=d')).spec.tags, [
    'a',
    'c',
    'd',
  ]);
  assertRefused(
    tpu('job: {tags: [a]}\n'),
    /--set job\.tags\[5\] job\.tags: has 1 elements; append with \[1\]/,
    sets('job.tags[5]=c'),
  );
});

test('a section can be taken away with null', () => {
  assert.equal(specOf(tpu(), sets('tpu=null', 'local={}')).spec.capacity.kind, 'hosts');
});

test('a wrong --set is reported with its own text', () => {
  assert.deepEqual(problemsOf(local('ls'), sets('job.nmae=x')), [
    '--set job.nmae: Unknown key "nmae" in job (did you mean "name"?)',
  ]);
  assertRefused(
    local('ls'),
    /--set command\.run\.deep command\.run: is a value, so it has no key deep/,
    sets('command.run.deep=x'),
  );
  assertRefused(local('ls'), /--set job\.\.name: is not the path of a key/, sets('job..name=x'));
  assertRefused(local('ls'), /is not the path of a key/, sets('=x'));
  assert.deepEqual(problemsOf(local('ls'), sets('')), [
    '--set =: is not the path of a key; write it like command.lr=0.01',
  ]);
  assertRefused(local('ls'), /did you mean "workers"\?/, sets('command.wrokers=0'));
  assert.deepEqual(problemsOf(local('ls'), sets('lr=3')), [
    '--set lr: Unknown section "lr" (did you mean "command.lr"?)',
  ]);
});

test("a value of one's own has any name that is not too near to a known one", () => {
  for (const name of ['lr', 'seed', 'pace', 'batch_size', 'rank', 'eps']) {
    assert.equal(specOf(local(`\${command.${name}}`), sets(`command.${name}=7`)).spec.command.script, '7');
  }
  assertRefused(local('ls', '  lr: [1, 2]\n'), /command\.lr: must be a single value/);
});
