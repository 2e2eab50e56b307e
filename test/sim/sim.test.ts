// The simulator is the main test of everything that decides; `npm run long` plays it for longer. Here: a hundred worlds
// hold, a seed is a story that can be told again, and the laws can fail.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { find } from '../../sim/mutants.ts';
import { mutants, edited } from '../../sim/mutants/load.ts';
import { run } from '../../sim/run.ts';

test('a hundred worlds come through their storms without breaking a law', async () => {
  for (let seed = 1; seed <= 100; seed += 1) {
    const { violation } = await run({ seed });
    assert.equal(violation, null, `npm run sim -- --seed ${seed} --trace`);
  }
});

test('the same seed tells the same story, and another seed another', async () => {
  for (const seed of [3, 11, 26]) {
    const first = await run({ seed });
    const second = await run({ seed });
    assert.equal(second.hash, first.hash);
    assert.notEqual((await run({ seed: seed + 1 })).hash, first.hash);
  }
});

test('a story that is kept is the story that was played', async () => {
  const kept = await run({ seed: 5, trace: true });
  assert.equal(kept.hash, (await run({ seed: 5 })).hash);
  assert.ok(kept.lines.length > 20);
});

// One for each law whose mistake shows within a few seeds; `sim/mutants.ts` plays them all.
for (const [name, law] of [
  ['act-without-commit', 2],
  ['no-gang', 4],
  ['start-before-setup', 5],
  ['silent-end', 9],
  ['mirror-repeats', 11],
  ['one-checkpoint-folder', 14],
] as const) {
  test(`law ${law} notices the mutant ${name}`, async () => {
    const found = await find(name, 60);
    assert.equal(found?.law, law);
  });
}

test('MUTANTS.md names every mutant, and each fits the text that it is a patch of', async () => {
  const page = await readFile(new URL('../../sim/MUTANTS.md', import.meta.url), 'utf8');
  for (const { name, edits } of mutants) {
    assert.match(page, new RegExp(`\\| \`${name}\` \\|`));
    for (const one of edits) {
      const text = await readFile(new URL(`../../src/${one.file}`, import.meta.url), 'utf8');
      assert.notEqual(edited(text, one), text);
    }
  }
});
