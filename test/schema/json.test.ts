// JSON text is what JSON.parse takes it for, and nothing else is JSON.

import { deepEqual, equal } from 'node:assert/strict';
import { test } from 'node:test';
import { readJson } from '../../src/schema/json.ts';
import { newFindings } from '../../src/schema/problems.ts';
import { toPlainValue } from '../../src/schema/tree.ts';
import { parseJson } from '../../src/schema/yaml.ts';

function plainJson(text: string): unknown {
  const tree = parseJson(text, newFindings());
  return tree === undefined ? undefined : toPlainValue(tree);
}

test('JSON is read as JSON.parse reads it, with positions and without', async () => {
  for (const text of [
    '"plain"',
    '""',
    '"with \\"quotes\\", \\\\ and \\u00e9"',
    '"with letters like ü and 漢 and 😀"',
    'true',
    'false',
    'null',
    '0',
    '-0.5',
    '12',
    '1E5',
    '1.25e-3',
    ' [ 1 , "two" , null , { "three" : [ ] } ] ',
    '{"a": {"b": "c"}, "d é": true, "__proto__": 1}',
    '{"\\": ": "\\": 1, \\": ", "<<": {"a": "*b"}}\r',
  ]) {
    deepEqual(plainJson(text), JSON.parse(text), text);
    deepEqual((await readJson(text, toPlainValue)).value, JSON.parse(text), text);
  }
  deepEqual(plainJson('\uFEFF{}'), {});
});

test('what is not JSON is refused', async () => {
  for (const text of [
    'TRUE',
    'True',
    'nullx',
    'nul',
    '01',
    '+1',
    '1.',
    '.5',
    '"open',
    '"a\nb"',
    '"\\x"',
    "'a'",
    '[1,]',
    '',
    '['.repeat(200),
  ]) {
    const { value, problems } = await readJson(text, toPlainValue);
    equal(value, undefined, JSON.stringify(text));
    equal(problems.length, 1, JSON.stringify(text));
  }
});

test('a value has its position', () => {
  const whole = parseJson('{ "a": "x",\n  "b\\t": "ü" }', newFindings());
  equal(whole?.kind, 'map');
  if (whole?.kind !== 'map') return;
  const at = (offset: number) => ({ in: 'file', offset });
  deepEqual(
    [...whole.entries].map(([name, { position, value }]) => [name, position, value.position]),
    [
      ['a', at(2), at(7)],
      ['b\t', at(14), at(21)],
    ],
  );
});

test('a repeated name is reported', async () => {
  const repeated = async (text: string) => (await readJson(text, toPlainValue)).problems.map(({ path }) => path);
  deepEqual(await repeated('{ "a": ":", "\\u0061" : 2, "b": "a" }'), ['a']);
  deepEqual(await repeated('{ "a": "\\"b\\": 1", "b": ["a", ": "] }'), []);
});
