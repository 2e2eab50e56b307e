// The simulator is the main test of the core and the controller; `npm run long` runs it longer. These tests simulate a
// hundred worlds, and prove that seeds are repeatable and that invariants can fail.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { findMutant } from '../../sim/mutants.ts';
import { mutants, edited, importMutant } from '../../sim/mutants/load.ts';
import { differencesOf } from '../../src/core/decide/replay.ts';
import { run } from '../../sim/run.ts';

test('a hundred worlds break no invariant', async () => {
  for (let seed = 1; seed <= 100; seed += 1) {
    const { violation } = await run({ seed });
    assert.equal(violation, null, `npm run sim -- --seed ${seed} --trace`);
  }
});

test('equal seeds give equal worlds, and other seeds give others', async () => {
  for (const seed of [3, 11, 26]) {
    const first = await run({ seed });
    const second = await run({ seed });
    assert.equal(second.hash, first.hash);
    assert.notEqual((await run({ seed: seed + 1 })).hash, first.hash);
  }
});

test('a trace does not change the world', async () => {
  const kept = await run({ seed: 5, trace: true });
  assert.equal(kept.hash, (await run({ seed: 5 })).hash);
  assert.ok(kept.lines.length > 20);
});

// Mutants that are found within a few seeds; `sim/mutants.ts` runs all of them.
for (const [name, invariant] of [
  ['act-without-commit', 2],
  ['other-workers-not-stopped', 4],
  ['start-before-setup', 5],
  ['end-without-event', 9],
  ['mirror-repeats', 11],
  ['foreign-checkpoints-count', 14],
  ['delivery-recorded-first', 15],
  ['pass-without-outcomes', 17],
  ['guard-not-rechecked', 18],
] as const) {
  test(`invariant ${invariant} finds the mutant ${name}`, async () => {
    const found = await findMutant(name, 60);
    assert.equal(found?.invariant, invariant);
  });
}

test('a replay of recorded passes finds a rule that has changed since', async () => {
  const { passes } = await run({ seed: 25 });
  const changes = (differences: typeof differencesOf) => passes.flatMap((pass) => differences(pass));
  assert.ok(passes.length > 100);
  assert.deepEqual(changes(differencesOf), []);
  const { href } = new URL('../../src/core/decide/replay.ts', import.meta.url);
  for (const [mutant, part] of [
    ['unknown-is-absent', 'situation'],
    ['end-without-event', 'events'],
    ['release-sent-to-newest', 'actions'],
    ['no-next-check', 'wakeAt'],
    ['record-always-rewritten', 'job'],
  ] as const) {
    const changed = (await importMutant(href, mutant)) as { readonly differencesOf: typeof differencesOf };
    assert.ok(
      changes(changed.differencesOf).some((one) => one.part === part),
      mutant,
    );
  }
});

test('MUTANTS.md contains every mutant, and each patch applies', async () => {
  const page = await readFile(new URL('../../sim/MUTANTS.md', import.meta.url), 'utf8');
  for (const { name, edits } of mutants) {
    assert.match(page, new RegExp(`\\| \`${name}\` \\|`));
    for (const one of edits) {
      const text = await readFile(new URL(`../../src/${one.file}`, import.meta.url), 'utf8');
      assert.notEqual(edited(text, one), text);
    }
  }
});
