// How much work a manifest with many mistakes causes: counted, because a time depends on the machine.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { interpolation } from '../../src/manifest/interpolate.ts';
import { newFindings } from '../../src/schema/problems.ts';
import { parseValue } from '../../src/manifest/yaml.ts';

for (const [where, manifest] of [
  ['in one text', (names: readonly string[]) => ({ vars: { a: 1 }, command: { run: names.join(' ') } })],
  ['in a list', (names: readonly string[]) => ({ vars: { a: 1 }, command: { run: names } })],
] as const) {
  test(`unknown names ${where} are each searched once, and only the first hundred get a suggestion`, () => {
    const count = 9_000;
    const names = Array.from({ length: count }, (_, index) => `\${vars.z${index}}`);
    const tree = parseValue(JSON.stringify(manifest(names)), 'the test');
    assert.ok(tree.kind === 'map');
    const calls = { isKnown: 0, meant: 0, aliases: 0 };
    const findings = newFindings();
    const values = interpolation({
      tree,
      env: {},
      defaultName: 'job',
      isScript: () => false,
      aliases: () => {
        calls.aliases += 1;
        return [];
      },
      isKnown: () => {
        calls.isKnown += 1;
        return false;
      },
      meant: () => {
        calls.meant += 1;
        return undefined;
      },
    });
    values('command', findings);
    assert.deepEqual(calls, { isKnown: count, meant: 100, aliases: 2 * count });
  });
}
