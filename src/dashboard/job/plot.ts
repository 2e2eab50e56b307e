// The plot of one metric with uPlot. This module and uPlot are loaded when a plot is shown.

import 'uplot/dist/uPlot.min.css';
import UPlot from 'uplot';
import { formatNumber } from '../../reports/chart-numbers.ts';
import type { Tracks } from './tracks.ts';

export interface PlotOptions {
  readonly tracks: Tracks;
  /** The label of an x. */
  readonly format: (x: number) => string;
}

export interface ShownPlot {
  readonly resize: (width: number) => void;
  readonly remove: () => void;
}

const height = 240;
/** More labels would overlap. */
const maxLabels = 30;

export function showPlot(element: HTMLElement, { tracks, format }: PlotOptions): ShownPlot {
  const colours = coloursOf(element);
  const lines = [colours.accent, colours.warn, colours.good, colours.bad];
  const axis = { stroke: colours.quiet, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line } };
  const plot = new UPlot(
    {
      width: Math.max(200, element.clientWidth),
      height,
      legend: { show: false },
      cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false } },
      axes: [
        { ...axis, values: (_plot, splits) => splits.map(format), space: 80 },
        {
          ...axis,
          size: 70,
          values: (_plot, splits) => splits.map(formatNumber),
        },
      ],
      series: [
        {},
        ...tracks.columns.map((_column, index) => ({
          stroke: lines[index % lines.length] ?? colours.accent,
          width: 1.5,
          spanGaps: false,
          points: { size: 4 },
        })),
      ],
      hooks: { draw: [(drawn) => drawBegins(drawn, tracks, colours.quiet)] },
    },
    [tracks.xs, ...tracks.columns],
    element,
  );
  return {
    resize: (width) => plot.setSize({ width: Math.max(200, width), height }),
    remove: () => plot.destroy(),
  };
}

/** A dashed line where each attempt but the first begins. */
function drawBegins(plot: UPlot, { begins }: Tracks, colour: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.fillStyle = colour;
  ctx.setLineDash([4, 4]);
  ctx.textAlign = 'left';
  for (const { attempt, x } of begins.slice(1)) {
    const at = Math.round(plot.valToPos(x, 'x', true));
    if (at < bbox.left || at > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    if (begins.length <= maxLabels) ctx.fillText(`#${attempt}`, at + 4, bbox.top + 12 * devicePixelRatio);
  }
  ctx.restore();
}

/** The colours of the page, as a canvas needs them. */
function coloursOf(element: HTMLElement) {
  const probe = document.createElement('span');
  element.append(probe);
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = {
    accent: read('accent'),
    warn: read('warn'),
    good: read('good'),
    bad: read('bad'),
    quiet: read('quiet'),
    line: read('line'),
  };
  probe.remove();
  return colours;
}
