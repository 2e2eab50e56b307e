import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationText, parseDuration } from '../../src/manifest/durations.ts';

test('durations are read as people write them', () => {
  const table: readonly (readonly [string, number | undefined])[] = [
    ['30s', 30_000],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['90', 90_000],
    ['1.5h', 5_400_000],
    ['1h30m', 5_400_000],
    ['250ms', 250],
    ['0', 0],
    [' 5m ', 300_000],
    ['', undefined],
    ['5', 5_000],
    ['-5', undefined],
    ['5 m', undefined],
    ['5M', undefined],
    ['m5', undefined],
    ['1e3', undefined],
    ['4000d', undefined],
    ['Infinity', undefined],
  ];
  for (const [text, expected] of table) assert.equal(parseDuration(text), expected, text);
});

test('the text of a duration reads back as the same duration', () => {
  assert.equal(durationText(90_000), '1m30s');
  assert.equal(durationText(0), '0s');
  for (const duration of [1, 999, 1_000, 61_000, 3_600_001, 86_400_000, 123_456_789]) {
    assert.equal(parseDuration(durationText(duration)), duration);
  }
});
