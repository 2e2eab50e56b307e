// JSON text is what JSON.parse takes it for, and nothing else is JSON: the short ways for plain texts and names change nothing.

import { deepEqual, equal, throws } from 'node:assert/strict';
import { test } from 'node:test';
import { jsonIn, JsonTextError, jsonWithoutPlaces, plainJson } from '../../src/app/json-text.ts';

const same = [
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
  '{"a": {"b": "c"}, "d é": true}',
];

for (const text of same) {
  test(`${text} is read as JSON.parse reads it`, () => deepEqual(plainJson(jsonIn(text)), JSON.parse(text)));
}

for (const text of ['{"a": {"b": "c d"}, "d é": [true, null, 12, -0.5]}', '{ "a\\n": "\\"" }', '[]', '"x"']) {
  test(`${text} is read without places as with them`, () => {
    const node = jsonWithoutPlaces(text);
    deepEqual(node && plainJson(node), JSON.parse(text));
  });
}

for (const text of [
  '{"a": 1, "a": 1}',
  '[{"a": {"b": 1, "c": 2, "b": 1}}]',
  '{"a": "\u0085"}',
  '\uFEFF{}',
  '{"a": 1,}',
  '',
]) {
  test(`${JSON.stringify(text)} is left to the way that tells places`, () => equal(jsonWithoutPlaces(text), undefined));
}

const none = [
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
];

for (const text of none) {
  test(`${JSON.stringify(text)} is no JSON`, () => {
    throws(() => jsonIn(text), JsonTextError);
  });
}

test('the place of a value behind texts of both kinds is where it stands', () => {
  const whole = jsonIn('{ "a": "x",\n  "b\\t": "ü", "c": null }');
  equal(whole.kind, 'object');
  if (whole.kind !== 'object') return;
  deepEqual(
    whole.members.map(({ at, value }) => [at.line, at.column, value.at.column]),
    [
      [1, 3, 8],
      [2, 3, 10],
      [2, 15, 20],
    ],
  );
});
