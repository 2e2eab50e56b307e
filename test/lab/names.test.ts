// A name must not be ambiguous on a command line. Letters of any language are allowed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { normalizeName } from '../../src/app/user-names.ts';
import { nameProblem, type NameKind, type NamesInUse } from '../../src/lab/names.ts';

const use: NamesInUse = {
  verbs: new Set(['run', 'check', '-a']),
  keys: new Set(['tag', 'dir']),
  users: ['xibo', 'Zoë'],
  tpuAliases: new Map([['short', 'kmh-tpuvm-v2-32-1']]),
  tpus: ['kmh-tpuvm-v2-32-1'],
};

const refused: readonly (readonly [NameKind, string, RegExp])[] = [
  ['user', '', /it is empty/],
  ['user', 'a'.repeat(65), /more than 64/],
  ['user', 'run', /command, `tpu run`/],
  ['user', 'tag', /key of commands, tag=/],
  ['user', 'False', /yes or no/],
  ['user', '12', /number of a window/],
  ['user', 'a=b', /key=value/],
  ['user', '-x', /flag/],
  ['user', 'a b', /a space/],
  ['user', 'a\u3000b', /a space/],
  ['user', 'a/b', /slash/],
  ['user', '..', /folder/],
  ['user', 'ev\u202Eil', /^"ev\\u\{202e\}il" is not allowed.*invisible/],
  ['user', 'a\u200Bb', /invisible/],
  ['user', 'a\u200Db', /invisible/],
  ['user', 'مه\u200C', /invisible/],
  ['user', 'a\nb', /invisible/],
  ['user', 'Zoe\u0308', /NFC/],
  ['user', 'xibo', /a user has this name/],
  ['user', 'XIBO', /too similar to the user xibo/],
  ['user', '\uFF58ibo', /too similar to the user xibo/],
  ['user', 'short', /alias of the TPU kmh-tpuvm-v2-32-1/],
  ['user', 'kmh-tpuvm-v2-32-1', /full name/],
  ['user', 'v2', /TPU type/],
  ['user', 'v*', /TPU type/],
  ['user', 'v2-32', /TPU type/],
  ['user', 'v2-32-p2', /form of a TPU alias/],
  ['user', 'v2-32-2', /form of a TPU alias/],
  ['session', 'a.b', /tmux reserves/],
  ['session', '@a', /tmux reserves/],
  ['session', '7', /number/],
  ['config alias', 'dir', /key of commands/],
  ['config alias', 'config.lr', /begin with "config"/],
  ['config alias', 'xibo', /a user/],
  ['TPU alias', 'check', /command/],
  ['TPU alias', 'v4-8', /TPU type/],
  ['TPU alias', 'zoë', /too similar to the user Zoë/],
  ['user', 'config', /reserved name/],
  ['user', 's', /reserved name/],
  ['user', 'lr', /reserved name/],
  ['TPU alias', 'username', /reserved name/],
  ['TPU alias', 'config', /reserved name/],
  ['TPU alias', 's', /reserved name/],
  ['tag', 'a b', /a space/],
  ['tag', 'None', /yes or no/],
];

for (const [what, name, why] of refused) {
  test(`${JSON.stringify(name)} is not allowed as a ${what}`, () => {
    assert.match(nameProblem(what, name, use) ?? 'allowed', why);
  });
}

test('allowed names, with letters of any language', () => {
  const fine: readonly (readonly [NameKind, string])[] = [
    ['user', 'lyy'],
    ['user', '王伟'],
    ['user', 'Zoé'],
    ['user', 'Дмитрий'],
    ['user', 'عمر'],
    ['user', '🙂'],
    ['user', '👩\u200D🔬'],
    ['user', 'مه\u200Cسا'],
    ['user', 'sqa.2'],
    ['session', 'xibo'],
    ['session', 'run'],
    ['config alias', 'lr'],
    ['config alias', 'v2'],
    ['tag', '42'],
    ['tag', 'v4'],
    ['tag', 'v2-32-p2'],
    ['tag', 'xibo'],
    ['TPU alias', 'v2-1'],
    ['TPU alias', 'short'],
    ['TPU alias', 'v2-32-p2'],
    ['TPU alias', 'v4-32-py2'],
    ['tag', 'run'],
    ['tag', 'best-of-3'],
  ];
  for (const [what, name] of fine) assert.equal(nameProblem(what, name, use), null, `${what} ${name}`);
  assert.equal(normalizeName('Zoe\u0308'), 'Zoë');
});
