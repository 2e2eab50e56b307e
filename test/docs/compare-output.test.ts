/** Differences between a document and a run that are allowed, and others. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { asDocumented, firstMismatch, normalizeLine } from './compare-output.ts';

suite('two lines have one shape', () => {
  const same: readonly (readonly [string, string])[] = [
    ['2026-11-21T17:53:44Z  created by ada', '2027-01-02T03:04:05Z  created by ada'],
    ['000002  iris  ✓ succeeded  1m  ran 11s', '000002  iris    ✓ succeeded  27s  ran 2m30s'],
    ['cloud at http://127.0.0.1:40373; its', 'cloud at http://127.0.0.1:5; its'],
    ['seen 21 Nov 17:53:58 UTC', 'seen 2 Dec 07:00:00 UTC'],
    ['resuming at step 120 from ~/b/step_000120.json', 'resuming at step 60 from /x/y/step_000060.json'],
    ['      ..>>>>>>>>>!.+>>>>>>', '   .+>>>>!!..+>>'],
  ];
  for (const [one, other] of same) test(one, () => assert.equal(normalizeLine(one), normalizeLine(other)));
});

suite('two lines differ', () => {
  const different: readonly (readonly [string, string])[] = [
    ['000002  iris  ✓ succeeded  1m', '000002  iris  ✗ failed  1m'],
    ['final loss 0.0643610742', 'final loss 0.0643610743'],
    ['attempt 2 on allocation 2', 'attempt 2 on allocation 1'],
    ['v4-16 spot', 'v4-8 spot'],
    ['(1 of 1000 used)', '(2 of 1000 used)'],
    ['costs about $7.37/h', 'costs about $3.69/h'],
  ];
  for (const [one, other] of different) test(one, () => assert.notEqual(normalizeLine(one), normalizeLine(other)));
});

suite('the output', () => {
  const expected = ['000001 iris created', '...', '[0-1] step 10 loss 0.24', '...', '000001 iris succeeded after 26s'];

  test('fits when each line is there in its order, folded or not', () => {
    const folded = ['000001 iris created', '[0-1] step 10 loss 0.24', '000001 iris succeeded after 4s'];
    const loose = [
      '000001 iris created',
      '[1] step 10 loss 0.24',
      '[1] step 20 loss 0.11',
      '[0] step 10 loss 0.24',
      '[0] step 20 loss 0.11',
      '000001 iris succeeded after 1m19s',
    ];
    assert.equal(firstMismatch(expected, folded), undefined);
    assert.equal(firstMismatch(expected, loose), undefined);
  });

  test('does not fit when a line is missing, different or too many', () => {
    assert.equal(firstMismatch(expected, ['000001 iris created', '000001 iris succeeded after 4s']), expected[2]);
    assert.equal(firstMismatch(['a'], ['b']), 'a');
    assert.equal(firstMismatch(['a'], ['a', 'b']), 'the end');
    assert.equal(
      firstMismatch(expected, ['000001 iris created', '[0] step 10 loss 0.24', '000001 iris succeeded after 4s']),
      expected[2],
    );
  });

  test('does not depend on the machine', () => {
    const machine = { user: 'root', home: '/tmp/x/home' };
    assert.deepEqual(asDocumented('by root\r\n\r\n/tmp/x/home/state.db\n', machine), ['by ada', '~/.jobman/state.db']);
  });
});
