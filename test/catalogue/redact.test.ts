// Removal of secrets: known values and text that has the form of a secret. Values here are made up.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { escapeForTerminal, escapeLine } from '../../src/app/format.ts';
import { createRedactor, isSecretName, redactPatterns, secretsIn } from '../../src/catalogue/redact.ts';

const key =
  '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\nAAAAB3NzaC1yc2EAAAADAQABAAAB\n-----END OPENSSH PRIVATE KEY-----';
const wandb = '0123456789abcdef0123456789abcdef01234567';

suite('the form of a secret', () => {
  const rows: readonly (readonly [what: string, text: string, secret: string])[] = [
    ['a variable', 'export HF_TOKEN=plain-value-1', 'plain-value-1'],
    ['a variable with a number', 'MY_API_KEY_2=plain-value-1', 'plain-value-1'],
    ['a short variable', 'WANDB_KEY=abc', 'abc'],
    ['a variable of YAML', 'env: { DEPLOY_KEY: hunter2 }', 'hunter2'],
    ['a key of YAML', 'password: hunter2', 'hunter2'],
    ['a quoted key of YAML', 'db_password: "hunter 2, and more"', 'hunter 2, and more'],
    ['a block of YAML', 'client_secret: |\n  line-one\n  line-two\nother: x', 'line-two'],
    ['a key of JSON', '{"apiKey": "abc.def"}', 'abc.def'],
    ['JSON in JSON', String.raw`{"text":"{\"access_token\":\"abc.def\"}"}`, 'abc.def'],
    ['a list of variables', '- name: DB_PASSWORD\n  value: hunter2', 'hunter2'],
    ['a list of variables as JSON', '{"name":"DB_PASSWORD","value":"hunter2"}', 'hunter2'],
    ['a flag', 'train.py --api-key hunter2 --steps 5', 'hunter2'],
    ['a flag with =', "train.py --password='hunter 2'", 'hunter 2'],
    ['a flag in a list', '["--token", "hunter2"]', 'hunter2'],
    ['a login of curl', "curl -sS --user 'bob:hunter2x' https://x", 'hunter2x'],
    ['a header', 'Authorization: Bearer abc.def', 'abc.def'],
    ['a header of Python', "{'Authorization': 'Token abc-def'}", 'abc-def'],
    ['a header of curl', 'curl -H "authorization: Basic dXNlcjpwdw==" x', 'dXNlcjpwdw=='],
    ['a cookie', 'Set-Cookie: sid=abcdef; Path=/', 'abcdef'],
    ['a scheme', 'sent Bearer abc.def-ghi to it', 'abc.def-ghi'],
    ['a password in a URL', 'postgres://ann:hunter2@db/x', 'hunter2'],
    ['a password with @ in a URL', 'https://ann:hunter2@x@host/', 'hunter2@x'],
    ['a token in a URL', 'git clone https://x0123456789abcdefghijk@github.com/a/b', 'x0123456789abcdefghijk'],
    ['a parameter of a URL', 'https://x/y?a=1&X-Goog-Signature=abcdef&b=2', 'abcdef'],
    ['a webhook', 'https://hooks.slack.com/services/T0/B0/xyz', 'T0/B0/xyz'],
    ['a login of W&B', `wandb login --relogin ${wandb}`, wandb],
    ['a line of netrc', 'machine api.wandb.ai login user password abcdef1', 'abcdef1'],
    ['a token of Google', 'got ya29.a0AbCdEf', 'ya29.a0AbCdEf'],
    ['a token of GitHub', 'ghp_0123456789abcdefghij0123', 'ghp_0123456789abcdefghij0123'],
    ['a JSON Web Token', 'x eyJhbGciOi.eyJzdWIiOi.c2ln y', 'eyJzdWIiOi'],
    ['a PEM block', `before\n${key}\nafter`, 'AAAAB3NzaC1yc2EAAAADAQABAAAB'],
    ['a PEM block in JSON', JSON.stringify({ k: key }), 'AAAAB3NzaC1yc2EAAAADAQABAAAB'],
    ['a PEM block without its beginning', key.slice(50), 'AAAAB3NzaC1yc2EAAAADAQABAAAB'],
    ['a PEM block without its end', key.slice(0, 100), 'AAAAABG5vbmUAAAAE'],
    ['a PEM block before another one', `${key.slice(0, 100)}\n${key}`, 'AAAAABG5vbmUAAAAE'],
  ];
  for (const [what, text, secret] of rows) {
    test(what, () => {
      const clean = redactPatterns(text);
      assert.ok(text.includes(secret), 'the row is wrong');
      assert.ok(!clean.includes(secret), clean);
      assert.match(clean, /\*\*\*/);
      assert.equal(redactPatterns(clean), clean, 'twice is once');
    });
  }

  test('the text around it stays', () => {
    assert.equal(
      redactPatterns('curl -H "Authorization: Bearer abc.defghi" https://x/y?token=abc&n=1 --retry 3'),
      'curl -H "Authorization: ***" https://x/y?token=*** --retry 3',
    );
    assert.equal(redactPatterns('{"password":"a","n":1}'), '{"password":"***","n":1}');
  });

  test('ordinary text is unchanged', () => {
    const text = [
      'step 10 loss 0.3 tokens/s 1234 max_tokens=2048 num_tokens: 512 tokenizer: bert-base',
      `commit ${wandb} of main`,
      'secrets:\n  WANDB_API_KEY: env\n  HF_TOKEN: env:MY_TOKEN',
      'key: value, monkey=5, sort_key=name',
      'ssh://git@github.com/lab/code.git gs://bucket/a@b',
      'use_token: false token_dim=64',
    ].join('\n');
    assert.equal(redactPatterns(text), text);
  });
});

test('a log of any form takes time in proportion to its length', () => {
  const long = 300_000;
  const lines = [
    'A',
    'a.',
    'token',
    'token_',
    '-----BEGIN X-----',
    'AAAA ',
    'Bearer ',
    '://',
    'a://b:',
    '"password="',
    'eyJ',
    '-',
    ' name: key',
  ];
  for (const part of lines) {
    const text = part.repeat(long / part.length);
    assert.ok(redactPatterns(text).length > 0, part);
  }
});

test('known values are removed in every form', () => {
  const secret = 'p@ss "x y" / 1';
  const redact = createRedactor([secret, 'short', '', 'longer-secret-value', `${key}\n`]);
  const forms = [
    secret,
    encodeURIComponent(secret),
    JSON.stringify({ x: secret }),
    Buffer.from(secret).toString('base64'),
    'AAAAB3NzaC1yc2EAAAADAQABAAAB',
  ];
  for (const form of forms) assert.match(redact(`it is ${form}.`), /\*\*\*/, form);
  assert.equal(redact('a short line'), 'a short line');
});

test('known values with control characters are removed raw, escaped and without them', () => {
  const secret = 'hidden\u001b[1m\u0007bell\n-\u202evalue\u009b';
  const redact = createRedactor([secret]);
  const forms = [
    secret,
    JSON.stringify({ x: secret }),
    JSON.stringify(JSON.stringify({ x: secret })),
    escapeForTerminal(secret),
    escapeForTerminal(secret, false),
    escapeLine(secret.replaceAll(/\s+/g, ' ')),
    String.raw`hidden\e[1m\abell\n-\u202Evalue\x9b`,
    String.raw`hidden\033[1m\007bell\012-value`,
    'hiddenbell-value',
  ];
  for (const form of forms) assert.doesNotMatch(redact(`it is ${form}.`), /hidden|bell|value/, JSON.stringify(form));
  assert.equal(redact('a hidden value'), 'a hidden value');
});

test('a colour between a name and its value does not keep the value', () => {
  const text = '\u001b[1mpassword\u001b[0m=\u001b[31mhunter22\u001b[K, and \u001b[32mgreen\u001b[0m';
  const redact = createRedactor(['hunter33']);
  assert.equal(redact(text), 'password=***, and green');
  assert.equal(redact(JSON.stringify(text)), '"password=***, and green"');
  assert.equal(redact('hunt\u001b[1mer33'), '***');
});

test('the secrets of files', () => {
  assert.deepEqual(secretsIn('machine api.wandb.ai\n  login user\n  password abcdef1\n').slice(0, 1), ['abcdef1']);
  assert.ok(secretsIn(JSON.stringify({ private_key: key, client_email: 'a@b' })).some((one) => one.includes('AAAAB3')));
  const docker = Buffer.from('ann:hunter2').toString('base64');
  assert.ok(secretsIn(JSON.stringify({ auths: { x: { auth: docker } } })).includes('hunter2'));
  assert.ok(secretsIn('https://ann:hunter2%21@github.com').includes('hunter2!'));
  assert.ok(secretsIn(JSON.stringify({ password: 'hunter"\\\u00072' })).includes('hunter"\\\u00072'));
  assert.deepEqual(secretsIn('nothing to see here'), []);
});

test('names', () => {
  for (const name of ['WANDB_API_KEY', 'HF_TOKEN', 'DB_PASS', 'AUTH', 'KEY', 'smtp.password'])
    assert.ok(isSecretName(name), name);
  for (const name of ['PATH', 'MAX_TOKENS', 'TOKENIZER', 'KEYBOARD', 'COMPASS']) assert.ok(!isSecretName(name), name);
});
