// A name must be nothing else that a line of `tpu` can say, and any letters will do.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { normalizeName, nameProblem, type NameKind, type NamesInUse } from '../../src/lab/names.ts';

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
  ['user', 'a b', /blank/],
  ['user', 'a\u3000b', /blank/],
  ['user', 'a/b', /slash/],
  ['user', '..', /folder/],
  ['user', 'ev\u202Eil', /^"ev\\u\{202e\}il" cannot.*does not show/],
  ['user', 'a\u200Bb', /does not show/],
  ['user', 'a\u200Db', /does not show/],
  ['user', 'مه\u200C', /does not show/],
  ['user', 'a\nb', /does not show/],
  ['user', 'Zoe\u0308', /NFC/],
  ['user', 'xibo', /a user is called that/],
  ['user', 'XIBO', /taken for the user xibo/],
  ['user', '\uFF58ibo', /taken for the user xibo/],
  ['user', 'short', /alias of the TPU kmh-tpuvm-v2-32-1/],
  ['user', 'kmh-tpuvm-v2-32-1', /full name/],
  ['user', 'v2', /type of TPU/],
  ['user', 'v*', /type of TPU/],
  ['user', 'v2-32', /type of TPU/],
  ['user', 'v2-32-p2', /looks like an alias/],
  ['user', 'v2-32-2', /looks like an alias/],
  ['session', 'a.b', /tmux keeps/],
  ['session', '@a', /tmux reads/],
  ['session', '7', /number/],
  ['config alias', 'dir', /key of commands/],
  ['config alias', 'config.lr', /begins with "config"/],
  ['config alias', 'xibo', /a user/],
  ['TPU alias', 'check', /command/],
  ['TPU alias', 'v4-8', /type of TPU/],
  ['TPU alias', 'zoë', /taken for the user Zoë/],
  ['user', 'config', /use that word themselves/],
  ['user', 's', /use that word themselves/],
  ['user', 'lr', /use that word themselves/],
  ['TPU alias', 'username', /use that word themselves/],
  ['TPU alias', 'config', /use that word themselves/],
  ['TPU alias', 's', /use that word themselves/],
  ['tag', 'a b', /blank/],
  ['tag', 'None', /yes or no/],
];

for (const [what, name, why] of refused) {
  test(`no ${what} is called ${JSON.stringify(name)}`, () => {
    assert.match(nameProblem(what, name, use) ?? 'it may be', why);
  });
}

test('other names are fine, in letters of any language', () => {
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
