// The lines of a metric as the columns that uPlot draws: one ascending x axis for all, and lines that do not overlap in one
// column.

import type { ChartLine } from '../../app/metric-charts.ts';

export interface Tracks {
  /** Ascending, each once. */
  readonly xs: readonly number[];
  /** By track: null between two lines, undefined where the track has no point. */
  readonly columns: readonly (readonly (number | null | undefined)[])[];
  /** The first x of each attempt, in the order of the attempts. */
  readonly begins: readonly { readonly attempt: number; readonly x: number }[];
  /** The number of attempts that are left out, which are the oldest. */
  readonly leftOut: number;
}

/** More columns are slow to draw and cannot be distinguished. */
const maxTracks = 24;

export function tracksOf(lines: readonly ChartLine[]): Tracks {
  const tracks: { end: number; lines: ChartLine[] }[] = [];
  for (const line of lines) {
    const begin = line.points[0]?.[0] ?? 0;
    const end = line.points.at(-1)?.[0] ?? begin;
    const free = tracks.find((one) => one.end < begin);
    if (free === undefined) tracks.push({ end, lines: [line] });
    else {
      free.end = end;
      free.lines.push(line);
    }
  }
  const shown = tracks.slice(-maxTracks);
  const leftOut = new Set(tracks.slice(0, -maxTracks).flatMap((one) => one.lines.map(({ attempt }) => attempt)));
  const kept = shown.flatMap((one) => one.lines);
  const xs = [...new Set(kept.flatMap(({ points }) => points.map(([x]) => x)))].toSorted((one, other) => one - other);
  const indexes = new Map(xs.map((x, index) => [x, index]));
  const columns = shown.map((track) => {
    const column: (number | null | undefined)[] = Array.from({ length: xs.length });
    for (const { points } of track.lines) {
      for (const [x, y] of points) column[indexes.get(x) ?? 0] = y;
      // Separates the line from the next line of this track.
      const after = (indexes.get(points.at(-1)?.[0] ?? 0) ?? 0) + 1;
      if (after < xs.length && column[after] === undefined) column[after] = null;
    }
    return column;
  });
  const begins = new Map<number, number>();
  for (const { attempt, points } of kept) {
    const [x] = points[0] ?? [];
    if (x !== undefined && !begins.has(attempt)) begins.set(attempt, x);
  }
  const firsts = [...begins]
    .map(([attempt, x]) => ({ attempt, x }))
    .toSorted((one, other) => one.attempt - other.attempt);
  return { xs, columns, begins: firsts, leftOut: leftOut.size };
}
