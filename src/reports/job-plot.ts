// A plot of a metric over the steps or the time of a job's attempts.

import { html } from 'hono/html';
import { formatNumber, withRoom } from './chart-numbers.ts';
import { round } from './job-timeline.ts';

export interface Plot {
  /** `loss`. */
  readonly title: string;
  /** `step` or `hours since the creation of the job`. */
  readonly xLabel: string;
  /** One line for each attempt. A value that is not finite is a gap. */
  readonly series: readonly {
    readonly attempt: number;
    readonly points: readonly (readonly [x: number, y: number])[];
  }[];
  /** `last 0.31, least 0.29, greatest 6.9`. */
  readonly summary: string;
}

const width = 1_000;
const height = 240;
const left = 70;
const right = 990;
const top = 34;
const bottom = 200;

/** A picture that scales with the page. */
export function plotSvg({ title, xLabel, series, summary }: Plot) {
  const points = series.flatMap((one) => one.points).filter(isFinitePoint);
  const [minX, maxX] = rangeOf(points.map(([x]) => x));
  const [minY, maxY] = rangeOf(points.map(([, y]) => y));
  const x = (value: number): number => round(left + ((value - minX) / (maxX - minX)) * (right - left));
  const y = (value: number): number => round(bottom - ((value - minY) / (maxY - minY)) * (bottom - top));
  // Two colours, because a resumed attempt repeats steps.
  const lines = series.flatMap(({ attempt, points: all }) =>
    stretches(all).map((line) => ({ line, kind: attempt % 2 === 0 ? 'even' : 'odd' })),
  );
  const starts = series.flatMap(({ attempt, points: [first] }) =>
    first === undefined || !(first[0] >= minX && first[0] <= maxX) ? [] : [{ attempt, at: x(first[0]) }],
  );
  return html`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}: ${summary}">
    <text class="label" x="0" y="14">${title}</text>
    <text x="${right}" y="14" text-anchor="end">${summary}</text>
    <path class="frame" d="M${left} ${top}V${bottom}H${right}" fill="none"></path>
    ${[minY, (minY + maxY) / 2, maxY].map(
      (value) =>
        html`<line x1="${left}" y1="${y(value)}" x2="${right}" y2="${y(value)}"></line>
          <text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${formatNumber(value)}</text>`,
    )}
    <text x="${left}" y="${bottom + 16}">${formatNumber(minX)}</text>
    <text x="${(left + right) / 2}" y="${bottom + 30}" text-anchor="middle">${xLabel}</text>
    <text x="${right}" y="${bottom + 16}" text-anchor="end">${formatNumber(maxX)}</text>
    ${starts
      .slice(1)
      .map(
        ({ attempt, at }) =>
          html`<line class="attempt" x1="${at}" y1="${top}" x2="${at}" y2="${bottom}"
            ><title>attempt ${attempt}</title></line
          >`,
      )}
    ${lines.map(({ line, kind }) => {
      const [first] = line;
      return line.length === 1 && first !== undefined
        ? html`<circle class="${kind}" cx="${x(first[0])}" cy="${y(first[1])}" r="2.5"></circle>`
        : html`<polyline
            class="${kind}"
            points="${line.map(([at, value]) => `${x(at)},${y(value)}`).join(' ')}"
          ></polyline>`;
    })}
  </svg>`;
}

type Point = readonly [x: number, y: number];

function isFinitePoint([x, y]: Point): boolean {
  // The difference of two values that are nearly too large is not finite.
  return Math.abs(x) < 1e300 && Math.abs(y) < 1e300;
}

/** The parts of a line between values that are not finite. */
function stretches(points: readonly Point[]): readonly (readonly Point[])[] {
  const all: Point[][] = [[]];
  for (const point of points) {
    if (isFinitePoint(point)) all.at(-1)?.push(point);
    else all.push([]);
  }
  return all.filter((line) => line.length > 0);
}

/** Never empty. */
function rangeOf(values: readonly number[]): readonly [least: number, greatest: number] {
  let [least, greatest] = [Infinity, -Infinity];
  for (const value of values) {
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
  }
  return least > greatest ? [0, 1] : withRoom([least, greatest]);
}
