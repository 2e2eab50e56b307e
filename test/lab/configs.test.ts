// Configs of a line: aliases, full keys, and values that nobody looks into.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { JobmanError } from '../../src/app/errors.ts';
import { configWords } from '../../src/lab/run.ts';
import { defaultAliases } from '../../src/lab/names.ts';

test('aliases and full keys become the words that scripts hand on', () => {
  const words = configWords(
    [
      ['lr', '0.01'],
      ['config.a.b', 'v'],
      ['ep', ''],
    ],
    defaultAliases,
    [],
  );
  assert.deepEqual(words, ['--config.training.learning_rate=0.01', '--config.a.b=v', '--config.training.num_epochs=']);
});

test('the later of two for one key counts, by whichever name', () => {
  const words = configWords(
    [
      ['lr', '1'],
      ['bs', '8'],
      ['config.training.learning_rate', '2'],
    ],
    defaultAliases,
    [],
  );
  assert.deepEqual(words, ['--config.training.learning_rate=2', '--config.training.batch_size=8']);
});

test('whatever stands in a value arrives unchanged', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (value) => {
      assert.deepEqual(configWords([['lr', value]], { lr: 'config.lr' }, []), [`--config.lr=${value}`]);
    }),
  );
  for (const value of ["it's", '"', '$(id)', '`id`', 'a=b=c', '; rm -rf /', 'a b', '\n', '两'])
    assert.deepEqual(configWords([['config.note', value]], {}, []), [`--config.note=${value}`]);
});

test('a key that is neither is refused with the nearest one; all of them at once', () => {
  assert.throws(
    () =>
      configWords(
        [
          ['lrr', '1'],
          ['toString', '2'],
          ['tga', 'x'],
        ],
        defaultAliases,
        ['tag'],
      ),
    (error: unknown) => {
      assert.ok(error instanceof JobmanError);
      assert.equal(error.code, 2);
      assert.match(error.message, /`lrr` is none of your aliases.* Did you mean lr=\?/);
      assert.match(error.lines.join('\n'), /`toString` is none/);
      assert.match(error.lines.join('\n'), /`tga` is none.* Did you mean tag=\?/);
      return true;
    },
  );
});
