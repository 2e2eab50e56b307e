/** Each statement of docs/security.md names tests that exist. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/root.ts';

test('every statement about security has a test of that name', () => {
  const text = readFileSync(join(root, 'docs/security.md'), 'utf8');
  const rows = [...text.matchAll(/^\| (?!Statement|Asset|---)([^|]+) \| ([^|]+) \|$/gm)];
  const proofs = rows.filter(([, , proof = '']) => proof.includes('`test/'));
  assert.ok(proofs.length > 25);
  for (const [, statement = '', proof = ''] of proofs)
    for (const one of proof.split('; ')) {
      const [, file = '', name = ''] = /^`(test\/[\w./-]+)`: (.+)$/.exec(one) ?? assert.fail(`${statement}: ${one}`);
      assert.ok(existsSync(join(root, file)), `${statement}: there is no ${file}`);
      const source = readFileSync(join(root, file), 'utf8');
      const isNamed = source
        .split('\n')
        .some((line) => /(?:[tT]est|suite|Store)\(|^ +['`]/.test(line) && line.includes(name));
      assert.ok(isNamed, `${statement}: ${file} has no test with the name ${name}`);
    }
});
