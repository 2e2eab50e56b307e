// When the bytes of a log copy arrived.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createArrivalRecorder,
  createTimeReader,
  formatArrivals,
  parseArrivals,
  type Arrival,
} from '../../src/core/model/arrival-times.ts';
import { hour, second } from '../../src/core/model/time.ts';

const begin = 1_000_000_000_000;

/** The times by which the reader knows these lengths, from chunks of (length, seconds since the begin). */
function timesAfter(chunks: readonly (readonly [length: number, at: number])[], offsets: readonly number[]) {
  const recorder = createArrivalRecorder();
  const stored: Arrival[] = [];
  let before = 0;
  for (const [length, at] of chunks) {
    stored.push(...recorder.add(before, length, begin + at * second));
    before = length;
  }
  stored.push(...recorder.end());
  const timeAt = createTimeReader([{ length: 0, at: begin }, ...parseArrivals(formatArrivals(stored))]);
  return { stored, times: offsets.map((offset) => ((timeAt(offset) ?? NaN) - begin) / second) };
}

test('a line that arrives alone has the time of its arrival', () => {
  const { times } = timesAfter(
    [
      [10, 1],
      [20, 11],
      [30, 21],
    ],
    [10, 20, 25, 30],
  );
  assert.deepEqual(times, [1, 11, 21, 21]);
});

test('output that arrives steadily needs one pair in five seconds, and times between are exact to that', () => {
  const chunks = Array.from({ length: 600 }, (_, index) => [(index + 1) * 100, index / 10] as const);
  const { stored, times } = timesAfter(chunks, [100, 30_050, 60_000]);
  assert.ok(stored.length <= 14, `${stored.length} pairs`);
  for (const [index, expected] of [0, 30, 59.9].entries()) assert.ok(Math.abs((times[index] ?? NaN) - expected) <= 5);
});

test('output of a silent hour did not arrive in that hour', () => {
  const { times } = timesAfter(
    [
      [10, 1],
      [20, 3],
      [30, 3_603],
    ],
    [15, 20, 21, 30],
  );
  assert.deepEqual(times, [2, 3, 3_603, 3_603]);
});

test('output that waited for a connection is spread over that time', () => {
  const first = createArrivalRecorder();
  const stored = [...first.add(0, 100, begin + second), ...first.end()];
  // Another controller, an hour later.
  const second1 = createArrivalRecorder();
  stored.push(...second1.add(100, 3_700, begin + second + hour), ...second1.end());
  const timeAt = createTimeReader(stored);
  assert.equal(timeAt(1_900), begin + second + hour / 2);
});

test('a clock that was set back makes no pair out of order unreadable', () => {
  const { stored, times } = timesAfter(
    [
      [10, 100],
      [20, 40],
      [30, 41],
      [40, 200],
    ],
    [10, 40],
  );
  assert.ok(stored.every(({ length }, index) => length >= (stored[index - 1]?.length ?? 0)));
  assert.deepEqual(times, [100, 200]);
});

test('half a line of a crash and foreign text are ignored', () => {
  assert.deepEqual(parseArrivals('+10 1000\n+2+30 3000\n+20 20\nhello\n+5 1\n+40 4000'), [
    { length: 10, at: 1000 },
    { length: 20, at: 20 },
    { length: 40, at: 4000 },
  ]);
  const timeAt = createTimeReader([{ length: 10, at: 1000 }]);
  assert.deepEqual([timeAt(5), timeAt(10), timeAt(11)], [null, 1000, null]);
  assert.equal(createTimeReader([])(0), null);
});
