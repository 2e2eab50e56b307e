// The timeline of a job's page: one line for each allocation or pod, in colours by use.

import { html } from 'hono/html';
import { second, type Instant } from '../core/model/time.ts';
import { ticksOf } from './chart-numbers.ts';

const spanKinds = {
  useful: 'useful',
  run: 'ran',
  lost: 'lost',
  setup: 'setup',
  idle: 'idle',
  kept: 'kept',
  waiting: 'waiting',
  ended: 'ran and failed',
} as const;
export type SpanKind = keyof typeof spanKinds;

export interface Timeline {
  readonly from: Instant;
  readonly until: Instant;
  readonly lanes: readonly TimelineLane[];
  /** Attempts by the time of their creation. */
  readonly attempts: readonly { readonly at: Instant; readonly name: string }[];
}

interface TimelineLane {
  readonly label: string;
  readonly spans: readonly {
    readonly kind: SpanKind;
    readonly from: Instant;
    readonly until: Instant;
    /** For the tooltip, after the kind and the times. */
    readonly detail: string | null;
  }[];
}

const width = 1_000;
const labelWidth = 150;
const laneHeight = 26;
const top = 24;
/** More lanes make an unreadable picture; the table of attempts has all. */
const maxLanes = 60;
/** A character of the label's font, at most. */
const labelCharacters = 21;

/** The kinds that occur, in the order of `spanKinds`. */
export function timelineLegend({ lanes }: Timeline): readonly { readonly kind: SpanKind; readonly label: string }[] {
  const kinds = new Set(lanes.flatMap(({ spans }) => spans.map(({ kind }) => kind)));
  return (Object.keys(spanKinds) as SpanKind[])
    .filter((kind) => kinds.has(kind))
    .map((kind) => ({ kind, label: spanKinds[kind] }));
}

/** A picture that scales with the page. A screen reader reads the table of attempts, which has the same content. */
export function timelineSvg({ from, until, lanes, attempts }: Timeline) {
  const length = Math.max(second, until - from);
  const x = (at: Instant): number => round(labelWidth + ((at - from) / length) * (width - labelWidth - 10));
  const shown = lanes.slice(-maxLanes);
  const bottom = top + shown.length * laneHeight;
  const ticks = ticksOf(from, until);
  return html`<svg viewBox="0 0 ${width} ${bottom + 24}" role="img" aria-label="Timeline of the allocations of the job">
      ${ticks.map(
        ({ at, text }) =>
          html`<line x1="${x(at)}" y1="${top - 4}" x2="${x(at)}" y2="${bottom}"></line>
            <text x="${x(at)}" y="${bottom + 16}" text-anchor="${x(at) > width - 40 ? 'end' : 'middle'}"
              >${text}</text
            >`,
      )}
      ${shown.map(
        ({ label, spans }, index) =>
          html`<text class="label" x="0" y="${top + index * laneHeight + 16}"
              >${cut(label)}<title>${label}</title></text
            >
            ${spans.map(
              (span) =>
                html`<rect
                  class="${span.kind}"
                  x="${x(Math.max(from, span.from))}"
                  y="${top + index * laneHeight + 3}"
                  width="${Math.max(1.5, round(x(Math.min(until, span.until)) - x(Math.max(from, span.from))))}"
                  height="${laneHeight - 8}"
                  rx="2"
                  ><title>${spanTitle(span)}</title></rect
                >`,
            )}`,
      )}
      ${attempts.map(
        ({ at, name }) =>
          html`<line class="attempt" x1="${x(at)}" y1="${top - 6}" x2="${x(at)}" y2="${bottom}"></line>
            <text x="${x(at) + 3}" y="${top - 10}">${name}</text>`,
      )}</svg
    >${lanes.length > shown.length ? html`<p class="quiet">The newest ${shown.length} of ${lanes.length}.</p>` : ''}`;
}

function spanTitle({ kind, from, until, detail }: TimelineLane['spans'][number]): string {
  const times = `${formatTime(from)} to ${formatTime(until)} UTC`;
  return `${spanKinds[kind]}: ${times}${detail === null ? '' : `, ${detail}`}`;
}

/** `2026-11-20 18:02:13`, in UTC. */
export function formatTime(at: Instant): string {
  return new Date(at).toISOString().slice(0, 19).replace('T', ' ');
}

function cut(label: string): string {
  return label.length <= labelCharacters ? label : `${label.slice(0, labelCharacters - 1)}…`;
}

export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
