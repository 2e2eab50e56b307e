/** The overrides of `--set` in the record of a job. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSet } from '../../src/manifest/overrides.ts';
import { parse } from './pretend.ts';

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
  const result = parse(text, { sets: sets.map(parseSet), env: { HOME: '/home/ada', ...env } });
  if (!('spec' in result)) throw new Error(JSON.stringify(result));
  return { text: result.recorded, overrides: result.spec.overrides, script: result.spec.command.script };
}

test('without a --set the record has the manifest to the letter', () => {
  assert.deepEqual(recorded([]).text, manifest);
  assert.equal(recorded([]).overrides, undefined);
});

test('the values are in their place, each with the --set that it came from; comments stay', () => {
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

test('where YAML has no place for it the overrides are on top, and nothing else changes', () => {
  const shared = 'vars: {base: &base {run: ls}}\nlocal: {}\ncommand: *base\n';
  const { text } = recorded(['command.lr=0.5'], shared);
  assert.equal(text, `# --set command.lr=0.5\n${shared}`);
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
  assert.match(text, /WANDB_API_KEY: "?\*\*\*"? # --set job\.env\.WANDB_API_KEY=\*\*\* \(not kept/);
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
