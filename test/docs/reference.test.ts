/** The generated parts of the reference pages are those of the program. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { generatePage, referencePages } from '../../tools/reference.ts';
import { root } from '../support/root.ts';

for (const page of referencePages) {
  test(`${page} is up to date`, () => {
    const text = readFileSync(join(root, page), 'utf8');
    assert.ok(/^<!-- (?:table: .+|commands) -->$/m.test(text), `${page} has a generated part`);
    assert.equal(text, generatePage(text), `Run \`npm run reference\` and commit ${page}.`);
  });
}

test('a changed table is noticed', () => {
  const page = '<!-- table: emulator verbs -->\n| Verb | What it does |\n|---|---|\n| `preempt` | nothing |\n\nText\n';
  const generated = generatePage(page);
  assert.notEqual(generated, page);
  assert.ok(!generated.includes('| nothing |'));
  assert.ok(generated.endsWith('\n\nText\n'));
  assert.throws(() => generatePage('<!-- table: nonsense -->\n'), /no table "nonsense"/);
});
