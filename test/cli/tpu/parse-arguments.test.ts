// Parsing of command lines: all forms of the manual in any order. Nothing is guessed or ignored.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { JobmanError } from '../../../src/app/errors.ts';
import { table } from '../../../src/cli/tpu/table.ts';
import { findCommand, parseArguments } from '../../../src/cli/tpu/parse-arguments.ts';
import type { KnownNames, ParsedArguments } from '../../../src/cli/tpu/command.ts';
import { aTpu } from './lab-world.ts';

const six = 'kmh-tpuvm-v2-32-6';
const known: KnownNames = {
  users: [
    { name: 'xibo', id: 0 },
    { name: 'lyy', id: 3 },
    { name: '小明', id: 7 },
  ],
  tpus: [aTpu('kmh-tpuvm-v2-32-1'), aTpu('kmh-tpuvm-v2-32-6')],
  tpuAliases: new Map([
    ['v2-32-1', 'kmh-tpuvm-v2-32-1'],
    ['v2-32-6', 'kmh-tpuvm-v2-32-6'],
    ['v4-8', 'kmh-tpuvm-v2-32-1'],
    // From the older manual: it has the form of a type, but no such type exists.
    ['v2-1', 'kmh-tpuvm-v2-32-1'],
    ['lost', 'kmh-gone'],
  ]),
};

/** Parses a line that is split at spaces, or a list of arguments. */
function read(line: string | readonly string[]): ParsedArguments {
  const { row, verb, rest } = findCommand(table, typeof line === 'string' ? line.split(' ') : line);
  return parseArguments(row, verb, rest, known);
}

/** The error of a line. */
function refusal(line: string | readonly string[]): { readonly code: number; readonly text: string } {
  try {
    read(line);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return { code: error.code, text: [error.message, ...error.lines].join('\n') };
  }
  return assert.fail(`no error: ${String(line)}`);
}

/** The fields that are not empty. */
function nonEmpty(args: ParsedArguments): Record<string, unknown> {
  const { tpu, flags, ...rest } = args;
  const all = { ...rest, tpu: tpu?.name ?? null, flags: [...flags].toSorted() };
  return Object.fromEntries(
    Object.entries(all).filter(([key, value]) => key !== 'verb' && value !== null && Object.keys(value).length > 0),
  );
}

suite('all forms of a window', () => {
  const forms = ['windows=101', 'window=101', 'w=101', '-w=101', '--window=101', '-w 101', '--window 101', '101'];
  for (const verb of ['kill', 'kill-job', '-k', '-kj', 'resume', 'rerun', 'kill-window', '-kw', 'log']) {
    for (const form of forms) {
      test(`tpu ${verb} ${form} xibo`, () => {
        assert.deepEqual(nonEmpty(read(`${verb} ${form} xibo`)), { user: 'xibo', windows: [101] });
        assert.deepEqual(nonEmpty(read(`${verb} xibo ${form}`)), { user: 'xibo', windows: [101] });
      });
    }
  }

  test('several windows, if the command takes several', () => {
    assert.deepEqual(read('kill 101 102 xibo').windows, [101, 102]);
    assert.deepEqual(read('kill w=101,102 103 xibo').windows, [101, 102, 103]);
    assert.match(refusal('log 101 102 xibo').text, /`102`: the window is already 101\./);
  });
});

suite('all forms of a user and a TPU', () => {
  test('an alias with the form of a type is the TPU if no such type exists', () => {
    assert.deepEqual(nonEmpty(read('run v2-1 xibo')), { user: 'xibo', tpu: 'kmh-tpuvm-v2-32-1' });
    assert.deepEqual(nonEmpty(read('run v2-32 xibo')), { user: 'xibo', types: ['v2-32'] });
  });
  for (const form of ['lyy', 'user=lyy', 'id=3', '--user=lyy']) {
    test(`tpu check ${form}`, () => assert.equal(read(`check ${form}`).user, 'lyy'));
  }
  for (const form of ['v2-32-1', 'kmh-tpuvm-v2-32-1', 'tpu=v2-32-1', 'ka=kmh-tpuvm-v2-32-1']) {
    test(`tpu run ${form} xibo`, () => {
      assert.deepEqual(nonEmpty(read(`run ${form} xibo`)), { user: 'xibo', tpu: 'kmh-tpuvm-v2-32-1' });
    });
  }
  test('composed and decomposed letters are equal', () => {
    const { row } = findCommand(table, ['check']);
    const args = parseArguments(row, 'check', ['jose\u0301'], { ...known, users: [{ name: 'josé', id: 1 }] });
    assert.equal(args.user, 'josé');
  });
  test('the command may be at the end', () => assert.equal(read('xibo check').user, 'xibo'));
});

suite('lines of the manual', () => {
  const lines: readonly (readonly [string, Record<string, unknown>])[] = [
    ['set-cur 1 xibo', { user: 'xibo', numbers: { dir: 1 } }],
    ['swap-dir 1 2 xibo', { user: 'xibo', numbers: { dir: 1, with: 2 } }],
    ['run v2-32-6 xibo dir=2', { user: 'xibo', tpu: six, numbers: { dir: 2 } }],
    ['run v2-32-6 xibo lr=0.01', { user: 'xibo', tpu: six, configs: [['lr', '0.01']] }],
    [
      'run v2-32-6 xibo config.training.learning_rate=0.01 --config.a=b=c',
      {
        user: 'xibo',
        tpu: six,
        configs: [
          ['config.training.learning_rate', '0.01'],
          ['config.a', 'b=c'],
        ],
      },
    ],
    [
      'run v2-32-6 xibo rule=resume tag=T -apply -q -ssn --log-stage',
      {
        user: 'xibo',
        tpu: six,
        keys: { rule: 'resume', tag: 'T' },
        flags: ['apply', 'log-stage', 'q', 'ssn'],
      },
    ],
    ['run v2-32-6 --set-spreadsheet-notes', { tpu: six, flags: ['ssn'] }],
    ['run v2-32-6 ssn=a_b', { tpu: six, keys: { ssn: 'a b' } }],
    ['run v2-32 xibo', { user: 'xibo', types: ['v2-32'] }],
    ['run -auto v5e-8 v4-16', { types: ['v5e-8', 'v4-16'], flags: ['auto'] }],
    ['monitor xibo -dsv', { user: 'xibo', letters: 'dsv' }],
    ['check -w -ts xibo', { user: 'xibo', letters: 'wts' }],
    ['find v34 -n', { types: ['v34'], flags: ['n'] }],
    ['find v2 v3+ v* v2-32 -p', { types: ['v2', 'v3+', 'v*', 'v2-32'], flags: ['p'] }],
    ['add-tag 101 baseline xibo', { user: 'xibo', windows: [101], texts: { tag: 'baseline' } }],
    ['add-tag xibo baseline w=101', { user: 'xibo', windows: [101], texts: { tag: 'baseline' } }],
    [
      '-a lr config.training.learning_rate xibo',
      { user: 'xibo', texts: { alias: 'lr', key: 'config.training.learning_rate' } },
    ],
    [
      '-a config.training.learning_rate xibo lr',
      { user: 'xibo', texts: { alias: 'lr', key: 'config.training.learning_rate' } },
    ],
    ['-ta alias kmh-x', { texts: { alias: 'alias', full: 'kmh-x' } }],
    ['resume windows=7 tpu=v2-32-6 xibo', { user: 'xibo', tpu: six, windows: [7] }],
    [
      'set-settings monitor_after_run False xibo',
      { user: 'xibo', texts: { key: 'monitor_after_run', value: 'False' } },
    ],
    [
      'set-settings False xibo monitor_after_run',
      { user: 'xibo', texts: { key: 'monitor_after_run', value: 'False' } },
    ],
    ['set-settings show_length 100 xibo', { user: 'xibo', texts: { key: 'show_length', value: '100' } }],
    ['reset-settings xibo', { user: 'xibo' }],
    ['reset-window-num 5 xibo', { user: 'xibo', numbers: { n: 5 } }],
    ['set-dir /srv/a=b 2 xibo', { user: 'xibo', numbers: { dir: 2 }, texts: { path: '/srv/a=b' } }],
    ['release v2-32-6 xibo', { user: 'xibo', tpu: six }],
    ['kill v2-32-6 xibo', { user: 'xibo', tpu: six }],
    ['log 7 --tail 50', { windows: [7], keys: { tail: '50' } }],
    ['log 7 tail=50', { windows: [7], keys: { tail: '50' } }],
  ];
  for (const [line, expected] of lines) test(line, () => assert.deepEqual(nonEmpty(read(line)), expected));

  test('values are unchanged', () => {
    for (const value of ['a b', '$(reboot)', '"', "it's", 'x=y=z', '', '\n', '-q', '🎉', '`', '\\', '*']) {
      assert.deepEqual(read(['run', 'v2-32-6', `config.note=${value}`]).configs, [['config.note', value]]);
    }
    assert.equal(read(['run', 'v2-32-6', 'ssn=until monday 🎉']).keys['ssn'], 'until monday 🎉');
  });
  test('after `--` nothing is a flag', () => {
    assert.deepEqual(read('add-tag 7 xibo -- -q').texts, { tag: '-q' });
  });
  test('all forms of booleans', () => {
    for (const yes of ['True', 'true', '1', 'yes']) assert.equal(read(`run monitor=${yes}`).keys['monitor'], 'true');
    for (const no of ['False', 'false', '0']) assert.equal(read(`run monitor=${no}`).keys['monitor'], 'false');
  });
});

suite('an ambiguous argument is an error that shows both meanings', () => {
  const lines: readonly (readonly [string, RegExp])[] = [
    ['add-tag 42 100 xibo', /`42` and `100` may be the window or the tag\. Write window=42 or tag=42\./],
    ['add-tag 42 lyy xibo', /`lyy` and `xibo` may be the user or the tag\. Write user=lyy or tag=lyy\./],
    ['run v4-8 xibo', /`v4-8` may be the TPU or a type of TPU\. Write tpu=v4-8 or type=v4-8\./],
    ['check xibo lyy', /`lyy`: the user is already xibo\./],
    ['run v2-32-1 v2-32-6', /`v2-32-6`: the TPU is already kmh-tpuvm-v2-32-1\./],
    ['run tag=a tag=b', /`tag=b`: tag is already a\./],
    ['run lr=1 lr=2', /`lr=2`: lr is already 1\./],
    ['xibo check monitor', /`check` and `monitor` are both commands\. Put the command first\./],
    ['set-dir 2 3 xibo', /may be the number \(1 to 100\) of a working directory or the path/],
  ];
  for (const [line, expected] of lines) {
    test(line, () => {
      const { code, text } = refusal(line);
      assert.match(text, expected);
      assert.equal(code, 2);
    });
  }
  test('a key makes it unambiguous', () => {
    assert.deepEqual(nonEmpty(read('add-tag window=42 100 xibo')), {
      user: 'xibo',
      windows: [42],
      texts: { tag: '100' },
    });
    assert.deepEqual(nonEmpty(read('add-tag 42 lyy user=xibo')), {
      user: 'xibo',
      windows: [42],
      texts: { tag: 'lyy' },
    });
    assert.deepEqual(nonEmpty(read('add-tag 42 tag=lyy xibo')), { user: 'xibo', windows: [42], texts: { tag: 'lyy' } });
    assert.deepEqual(read('run type=v4-8').types, ['v4-8']);
    assert.equal(read('run tpu=v4-8').tpu?.name, 'kmh-tpuvm-v2-32-1');
  });
  test('the same value twice is allowed', () => {
    assert.equal(read('check xibo user=xibo id=0').user, 'xibo');
    assert.equal(read('run v2-32-6 tpu=kmh-tpuvm-v2-32-6').tpu?.name, 'kmh-tpuvm-v2-32-6');
  });
});

suite('an unknown argument is an error', () => {
  const lines: readonly (readonly [string, RegExp, number])[] = [
    ['chekc xibo', /Unknown command "chekc"\. Did you mean "check"\?/, 2],
    ['check xbo', /Unknown user `xbo`\. Did you mean xibo\?/, 3],
    ['describe nothing', /Unknown TPU `nothing`\./, 3],
    ['check user=xbo', /There is no user xbo\. Did you mean xibo\?/, 3],
    ['check id=9', /There is no user with the id 9/, 3],
    ['run v2-32-7 xibo', /Unknown user, TPU, type or number `v2-32-7`\. Did you mean v2-32-1\?.*`tpu register`/, 3],
    ['run tpu=v9-99-9', /There is no TPU v9-99-9/, 3],
    ['describe lost', /The TPU kmh-gone of the alias lost is not registered/, 3],
    ['run v2-32-6 -aply', /Unknown flag -aply\. Did you mean -apply\?/, 2],
    ['check xibo -dx', /Unknown flag -dx\./, 2],
    ['run rule=resum', /`rule=resum`: expected one of pre, pass, reapply, rerun, resume\. Did you mean resume\?/, 2],
    ['run monitor=maybe', /expected True or False/, 2],
    ['run dir=two', /expected a whole number/, 2],
    ['run tag=', /`tag=` has no value/, 2],
    ['kill w=abc xibo', /`abc` is not a window number/, 2],
    ['kill 7 -w', /`-w` needs a value/, 2],
    ['check lr=1', /Unknown key in `lr=1`/, 2],
    ['add-tag 7 xibo one two', /Unexpected argument `two`/, 2],
    ['check xibo 7', /Unknown user `7`/, 3],
    ['swap-dir 1 2 3 xibo', /Unexpected number `3`/, 2],
    ['get-dir xibo', /^The number \(1 to 100\) of a working directory is missing\. You can give it as dir=\.\.\./, 2],
    ['resume xibo', /Which window\?/, 2],
    ['describe', /Which TPU\?/, 2],
    [
      'set-settings monitor_dir xibo',
      /The value is missing\. `xibo` was read as the user\. You can give it as value=/,
      2,
    ],
    ['check-rules now', /Unexpected argument `now`/, 2],
  ];
  for (const [line, expected, code] of lines) {
    test(line, () => {
      const found = refusal(line);
      assert.match(found.text, expected);
      assert.equal(found.code, code);
    });
  }
  test('all problems of a line are reported together', () => {
    const { text } = refusal('run xbo rule=no dir=x');
    for (const part of ['xbo', 'rule', 'dir=x']) assert.match(text, new RegExp(part));
  });
  test('an empty argument', () => assert.match(refusal(['check', '']).text, /An argument is empty/));
});

suite('any order', () => {
  const runArgs = [
    ...'v2-32-6 xibo dir=3 tag=a rule=pass monitor=False ssn=a_b -apply -q -f --log-stage lr=0.01'.split(' '),
    'config.a.b=c=d e',
  ];
  test('arguments of `run`', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(runArgs), fc.shuffledSubarray(runArgs), (some, order) => {
        const one = order.filter((arg) => some.includes(arg));
        const other = some.filter((arg) => order.includes(arg));
        assert.deepEqual(sorted(read(['run', ...one])), sorted(read(['run', ...other])));
      }),
      { numRuns: 300 },
    );
  });

  /** `-w 101` stays together. */
  const killArgs = [['xibo'], ['-w', '101'], ['w=102'], ['103'], ['tpu=v2-32-6']];
  test('arguments of `kill`', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(killArgs, { minLength: killArgs.length }), (order) => {
        assert.deepEqual(sorted(read(['kill', ...order.flat()])), {
          user: 'xibo',
          tpu: 'kmh-tpuvm-v2-32-6',
          windows: [101, 102, 103],
        });
      }),
      { numRuns: 120 },
    );
  });

  function sorted(args: ParsedArguments): Record<string, unknown> {
    const all = nonEmpty(args);
    const { configs, windows } = args;
    return {
      ...all,
      ...(configs.length === 0 ? {} : { configs: configs.map(String).toSorted() }),
      ...(windows.length === 0 ? {} : { windows: windows.toSorted((a, b) => a - b) }),
    };
  }
});

test('no argument is ignored: it is in the result, or the line is an error', () => {
  const argument = fc.oneof(
    fc.constantFrom(...'xibo lyy v2-32-1 v2-32 v* 7 0 baseline config.a show_length -q -re'.split(' ')),
    fc.constantFrom('tag=x', 'w=3', 'dir=1', 'user=xibo', 'lr=2', 'a=b=c', '-dsv', '-w', '--', '-n', 'run', 'check'),
    fc.string({ maxLength: 4 }),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...table.map((row) => row.names[0])),
      fc.array(argument, { maxLength: 6 }),
      (verb, typed) => {
        const { row } = findCommand(table, [verb]);
        if (row.takes.raw === true) return;
        let args: ParsedArguments;
        try {
          args = parseArguments(row, verb, typed, known);
        } catch (error) {
          assert.ok(error instanceof JobmanError, String(error));
          return;
        }
        const end = typed.indexOf('--');
        for (const [index, one] of typed.entries()) {
          if (index !== end) assert.ok(isIn(args, one), `\`${one}\` of ${JSON.stringify(typed)} for ${verb}`);
        }
      },
    ),
    { numRuns: 5_000 },
  );

  /** True if any field of the result has the argument. */
  function isIn(args: ParsedArguments, typed: string): boolean {
    const value = typed.includes('=') ? typed.slice(typed.indexOf('=') + 1) : typed;
    const { tpu, user, types, windows, numbers, texts, keys, configs, flags, letters } = args;
    const bare = typed.replace(/^--?/, '');
    const all: readonly string[] = [
      ...(tpu === null ? [] : [tpu.name, ...[...known.tpuAliases].filter(([, name]) => name === tpu.name).flat()]),
      ...known.users.filter(({ name }) => name === user).flatMap(({ name, id }) => [name, String(id)]),
      ...types,
      ...windows.map(String),
      ...Object.values(numbers).map(String),
      ...Object.values(texts),
      ...Object.values(keys),
      ...configs.map(([, one]) => one),
    ];
    return (
      all.includes(value) ||
      all.includes(typed) ||
      all.includes(String(Number(value))) ||
      flags.has(bare) ||
      table.some((row) =>
        Object.entries(row.flags).some(([name, { also }]) => flags.has(name) && also?.includes(bare)),
      ) ||
      (bare.length > 0 && bare.split('').every((letter) => letters.includes(letter))) ||
      // A flag whose value is the next argument.
      ['-w', '-n'].includes(typed)
    );
  }
});
