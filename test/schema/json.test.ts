// JSON text is what JSON.parse takes it for, and nothing else is JSON.

import { deepEqual, equal, rejects, throws } from 'node:assert/strict';
import { test } from 'node:test';
import { readJson } from '../../src/schema/json.ts';
import { JsonTextError, toPlainValue } from '../../src/schema/tree.ts';
import { parseJson } from '../../src/schema/yaml.ts';

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
    deepEqual(toPlainValue(parseJson(text)), JSON.parse(text), text);
    deepEqual((await readJson(text, toPlainValue)).value, JSON.parse(text), text);
  }
  deepEqual(toPlainValue(parseJson('\uFEFF{}')), {});
});

test('what is no JSON is refused', async () => {
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
    '"\u0085"',
    '"\\x"',
    "'a'",
    '[1,]',
    '',
    '['.repeat(200),
  ]) {
    throws(() => parseJson(text), JsonTextError, JSON.stringify(text));
    await rejects(readJson(text, toPlainValue), JsonTextError, JSON.stringify(text));
  }
});

test('a value has its position, and a duplicate name is reported', () => {
  const whole = parseJson('{ "a": "x",\n  "b\\t": "ü", "a": null }');
  equal(whole.kind, 'map');
  if (whole.kind !== 'map') return;
  const at = (offset: number) => ({ in: 'file', offset });
  deepEqual(
    [...whole.entries].map(([name, { position, value }]) => [name, position, value.position]),
    [
      ['a', at(2), at(7)],
      ['b\t', at(14), at(21)],
    ],
  );
  deepEqual(whole.duplicates, [{ name: 'a', position: at(26), firstPosition: at(2) }]);
});

test('of two members with one name no reader keeps the last in silence', async () => {
  const repeated = async (text: string) =>
    (await readJson(text, (whole) => whole.kind === 'map' && (whole.duplicates ?? []).map(({ name }) => name))).value;
  deepEqual(await repeated('{ "a": ":", "\\u0061" : 2, "b": "a" }'), ['a']);
  deepEqual(await repeated('{ "a": "\\"b\\": 1", "b": ["a", ": "] }'), []);
});
