/** The pure parts of the page of a job: the folded axis of its timeline, and the columns of its plots. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AttemptLane, Segment } from '../../src/app/attempt-timeline.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { axisPieces, positionOf } from '../../src/dashboard/job/axis.ts';
import { tracksOf } from '../../src/dashboard/job/tracks.ts';

function lane(...segments: readonly (readonly [Segment['kind'], number, number])[]): AttemptLane {
  return {
    attempt: 1,
    allocation: 1,
    held: null,
    markers: [],
    segments: segments.map(([kind, from, until]) => ({ kind, from, until, isOpen: false })),
  };
}

test('a long wait is folded, and a short one and work during a wait are not', () => {
  const lanes = [
    lane(['waiting', 0, 2 * hour], ['running', 2 * hour, 3 * hour]),
    lane(['waiting', 3 * hour, 3 * hour + 10 * minute], ['running', 3 * hour + 10 * minute, 4 * hour]),
  ];
  const pieces = axisPieces(lanes, [0, 4 * hour], true);
  assert.deepEqual(
    pieces.map(({ from, until, isFolded }) => [from / minute, until / minute, isFolded]),
    [
      [0, 120, true],
      [120, 240, false],
    ],
  );
  assert.equal(positionOf(pieces, 0), 0);
  assert.equal(positionOf(pieces, 4 * hour), 1);
  assert.equal(positionOf(pieces, 5 * hour), 1);
  assert.ok(positionOf(pieces, 2 * hour) < 0.05);
  assert.deepEqual(
    axisPieces(lanes, [0, 4 * hour], false).map(({ isFolded }) => isFolded),
    [false],
  );
});

test('a job that only waits has an axis, also without any attempt', () => {
  const pieces = axisPieces([lane(['waiting', 0, 2 * hour])], [0, 2 * hour], true);
  assert.deepEqual(
    pieces.map(({ start, end, isFolded }) => [start, end, isFolded]),
    [[0, 1, true]],
  );
  assert.equal(positionOf(axisPieces([], [0, 0], true), 0), 0);
});

test('lines that overlap have columns of their own, and others share one', () => {
  const line = (attempt: number, ...xs: readonly number[]) => ({
    attempt,
    points: xs.map((x) => [x, attempt] as const),
  });
  const { xs, columns, begins, leftOut } = tracksOf([line(1, 0, 10, 20), line(2, 15, 30), line(3, 40, 50)]);
  assert.deepEqual(xs, [0, 10, 15, 20, 30, 40, 50]);
  assert.deepEqual(columns, [
    [1, 1, undefined, 1, null, 3, 3],
    [undefined, undefined, 2, undefined, 2, null, undefined],
  ]);
  assert.deepEqual(begins, [
    { attempt: 1, x: 0 },
    { attempt: 2, x: 15 },
    { attempt: 3, x: 40 },
  ]);
  assert.equal(leftOut, 0);
});

test('of 500 attempts that repeat the same steps, the newest have columns', () => {
  const lines = Array.from({ length: 500 }, (_, index) => ({
    attempt: index + 1,
    points: [
      [0, 1],
      [10, 2],
    ] as const,
  }));
  const { columns, begins, leftOut } = tracksOf(lines);
  assert.equal(columns.length, 24);
  assert.equal(leftOut, 476);
  assert.equal(begins[0]?.attempt, 477);
});
