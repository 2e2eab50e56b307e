// The simulator is the main test of everything that decides; `npm run long` plays it for longer. Here: a hundred worlds
// hold, a seed is a story that can be told again, and the invariants can fail.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { findMutant } from '../../sim/mutants.ts';
import { mutants, edited } from '../../sim/mutants/load.ts';
import { run } from '../../sim/run.ts';

test('a hundred worlds come through their storms without breaking an invariant', async () => {
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

// One for each invariant whose mistake shows within a few seeds; `sim/mutants.ts` plays them all.
for (const [name, invariant] of [
  ['act-without-commit', 2],
  ['other-workers-not-stopped', 4],
  ['start-before-setup', 5],
  ['end-without-event', 9],
  ['mirror-repeats', 11],
  ['one-checkpoint-folder', 14],
] as const) {
  test(`invariant ${invariant} notices the mutant ${name}`, async () => {
    const found = await findMutant(name, 60);
    assert.equal(found?.invariant, invariant);
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
