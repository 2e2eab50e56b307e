// The timeline of a job: one lane for each attempt, with its segments, its markers and the time in which its allocation was ready.
// Only the lanes in view are drawn. A button shows the timeline as a table. Each segment opens its events.

import { useSignal } from '@preact/signals';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import {
  attemptLanes,
  eventsOf,
  openAttemptView,
  segmentPhrases,
  type AttemptLane,
  type Segment,
  type SegmentKind,
  type TimelineMarker,
} from '../../app/attempt-timeline.ts';
import { escapeLine, formatDuration, formatTime, pluralize } from '../../app/format.ts';
import { describeEvent } from '../../app/history.ts';
import type { JobView } from '../../app/client.ts';
import type { Event } from '../../core/model/event.ts';
import { minute, second } from '../../core/model/time.ts';
import { ticksOf } from '../../reports/chart-numbers.ts';
import type { UsageRow } from '../../reports/usage.ts';
import { now } from '../clock.ts';
import { address, changeQuery, pageHref } from '../location.ts';
import { Table, type Column } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { axisPieces, positionOf, type AxisPiece } from './axis.ts';
import { shownAttempt } from './sections.ts';

interface TimelineProps {
  readonly view: JobView;
  readonly events: readonly Event[];
  readonly usage: readonly UsageRow[];
}

const laneHeight = 34;
const barHeight = 16;
const labelWidth = 34;
const axisHeight = 22;
/** Lanes drawn outside the view on each side. */
const margin = 3;
const maxPanelEvents = 100;

const markerPhrases: Readonly<Record<TimelineMarker['kind'], string>> = {
  command: 'command of a user',
  checkpoint: 'checkpoint from which a later attempt continued',
  loss: 'capacity lost, such as by a preemption',
  failure: 'failure',
  silence: 'no answer',
};

const markerGlyphs: Readonly<Record<TimelineMarker['kind'], string>> = {
  command: '▲',
  checkpoint: '◆',
  loss: '!',
  failure: '✗',
  silence: '?',
};

export function Timeline({ view, events, usage }: TimelineProps) {
  const isFolding = useSignal(true);
  const isTable = useSignal(false);
  const isOpen = openAttemptView(view.attempts) !== undefined;
  // Updates less often if a second is less than a pixel.
  const step = Math.min(minute, Math.max(second, (now.value - view.createdAt) / 1000));
  const until = isOpen ? Math.floor(now.value / step) * step : 0;
  const lanes = useMemo(
    () => attemptLanes(view, isOpen ? until : now.peek(), events, usage),
    [view, events, usage, until],
  );
  const range = rangeOf(lanes);
  return (
    <section aria-label="Timeline" class="timeline">
      <div class="bar">
        <h2>Timeline</h2>
        <span class="quiet">{formatDuration(range[1] - range[0])} in total, times in UTC</span>
        <div class="toggles">
          <button aria-pressed={isFolding.value} onClick={() => (isFolding.value = !isFolding.value)}>
            Fold long waits
          </button>
          <button aria-pressed={isTable.value} onClick={() => (isTable.value = !isTable.value)}>
            As a table
          </button>
        </div>
      </div>
      {isTable.value ? (
        <SegmentTable lanes={lanes} />
      ) : (
        <>
          <Picture lanes={lanes} isOpen={isOpen} isFolding={isFolding.value} view={view} />
          <Legend lanes={lanes} />
        </>
      )}
      <Panel view={view} lanes={lanes} events={events} />
    </section>
  );
}

/** From the first to the last time of these lanes. */
function rangeOf(lanes: readonly AttemptLane[]): readonly [number, number] {
  const segments = lanes.flatMap((lane) => lane.segments);
  const from = segments.reduce((first, one) => Math.min(first, one.from), Infinity);
  const until = segments.reduce((last, one) => Math.max(last, one.until), -Infinity);
  return segments.length === 0 ? [0, second] : [from, Math.max(until, from + second)];
}

// ------------------------------------------------------------------------------------------ the picture

interface PictureProps {
  readonly view: JobView;
  readonly lanes: readonly AttemptLane[];
  readonly isFolding: boolean;
  readonly isOpen: boolean;
}

function Picture({ view, lanes, isFolding, isOpen }: PictureProps) {
  const box = useRef<HTMLDivElement>(null);
  const seen = useSignal({ top: 0, height: 300, width: 800 });
  const measure = (): void => {
    const { scrollTop: top = 0, clientHeight: height = 0, clientWidth: width = 0 } = box.current ?? {};
    const { top: oldTop, height: oldHeight, width: oldWidth } = seen.peek();
    if (top !== oldTop || height !== oldHeight || width !== oldWidth) seen.value = { top, height, width };
  };
  const chosen = shownAttempt();
  useLayoutEffect(() => {
    if (box.current === null) return undefined;
    const index = chosen === null ? lanes.length : lanes.findIndex(({ attempt }) => attempt === chosen);
    const top = index * laneHeight;
    const { scrollTop, clientHeight } = box.current;
    if (top < scrollTop || top > scrollTop + clientHeight - laneHeight) box.current.scrollTop = top - clientHeight / 2;
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [chosen, lanes.length]);
  const { top, height, width } = seen.value;
  const room = Math.max(50, width - labelWidth - 10);
  const first = Math.max(0, Math.floor(top / laneHeight) - margin);
  const last = Math.min(lanes.length, Math.ceil((top + height) / laneHeight) + margin);
  const shown = lanes.slice(first, last);
  // The axis fits the lanes in view, because a job may have many attempts.
  const range = rangeOf(shown);
  const pieces = axisPieces(shown, range, isFolding);
  const x = (at: number): number => Math.round((labelWidth + positionOf(pieces, at) * room) * 10) / 10;
  const bottom = lanes.length * laneHeight;
  return (
    <div class="timeline-box">
      <Axis pieces={pieces} range={range} x={x} width={width} />
      <div class="timeline-lanes" ref={box} onScroll={measure}>
        <svg width={width} height={Math.max(laneHeight, bottom)} role="group" aria-label="Attempts of the job">
          {pieces
            .filter((piece) => piece.isFolded)
            .map((piece) => (
              <rect
                key={piece.from}
                class="fold"
                x={x(piece.from)}
                y={0}
                height={bottom}
                width={x(piece.until) - x(piece.from)}
              />
            ))}
          {shown.map((lane, index) => (
            <Lane key={lane.attempt} lane={lane} lanes={lanes} y={(first + index) * laneHeight} x={x} view={view} />
          ))}
          {isOpen && last === lanes.length && (
            <line class="now" x1={x(now.value)} x2={x(now.value)} y1={0} y2={bottom} />
          )}
        </svg>
      </div>
    </div>
  );
}

function Axis({
  pieces,
  range,
  x,
  width,
}: {
  readonly pieces: readonly AxisPiece[];
  readonly range: readonly [number, number];
  readonly x: (at: number) => number;
  readonly width: number;
}) {
  const open = pieces.filter((piece) => !piece.isFolded);
  // Folded stretches have no times of their own, so each open one gets ticks by its width.
  const ticks = open.length === 1 ? ticksOf(...range) : open.flatMap(({ from, until }) => ticksOf(from, until));
  let end = labelWidth - 30;
  const shown = ticks.filter(({ at }) => {
    if (x(at) - end < 64 || x(at) > width - 24) return false;
    end = x(at);
    return true;
  });
  return (
    <svg width={width} height={axisHeight} aria-hidden="true">
      {shown.map(({ at, text }) => (
        <g key={at}>
          <text x={x(at)} y={14} text-anchor="middle">
            {text}
          </text>
          <line x1={x(at)} x2={x(at)} y1={17} y2={axisHeight} />
        </g>
      ))}
      {pieces
        .filter((piece) => piece.isFolded)
        .map((piece) => (
          <text key={piece.from} x={(x(piece.from) + x(piece.until)) / 2} y={14} text-anchor="middle">
            ⋯<title>{formatDuration(piece.until - piece.from)} of waiting, folded</title>
          </text>
        ))}
    </svg>
  );
}

interface LaneProps {
  readonly lane: AttemptLane;
  readonly lanes: readonly AttemptLane[];
  readonly y: number;
  readonly x: (at: number) => number;
  readonly view: JobView;
}

function Lane({ lane, lanes, y, x, view }: LaneProps) {
  const { attempt, segments, markers, held, allocation } = lane;
  const isChosen = shownAttempt() === attempt;
  const part = isChosen ? partIndex(segments, address.value.query.get('part')) : -1;
  // The Tab key reaches one segment, and the arrow keys move from it.
  const isEntry = shownAttempt() === null ? lane === lanes.at(-1) : isChosen;
  return (
    <g>
      {isChosen && <rect class="chosen" x={0} y={y} width="100%" height={laneHeight} />}
      <text class="label" x={2} y={y + 16}>
        #{attempt}
      </text>
      {segments.map((segment, index) => {
        const from = x(segment.from);
        const width = Math.max(2, x(segment.until) - from);
        const text = `${segmentPhrases[segment.kind]} ${formatDuration(segment.until - segment.from)}`;
        return (
          <g
            key={index}
            id={`segment-${attempt}-${partName(segments, index)}`}
            class={`segment segment-${segment.kind}`}
            role="button"
            tabindex={isEntry && index === Math.max(0, part) ? 0 : -1}
            aria-label={`Attempt ${attempt}: ${text}`}
            aria-pressed={index === part}
            onClick={() => choosePart(lane, index)}
            onKeyDown={(event) => onSegmentKey(event, lanes, lane, index)}
          >
            <rect x={from} y={y + 3} width={width} height={barHeight} rx={2} />
            {width > text.length * 6.6 && (
              <text x={from + 5} y={y + 15}>
                {text}
              </text>
            )}
            <title>{text}</title>
          </g>
        );
      })}
      {held !== null && (
        <rect class="held" x={x(held.from)} y={y + 21} width={Math.max(2, x(held.until) - x(held.from))} height={3}>
          <title>
            allocation {allocation} ready for {formatDuration(held.until - held.from)}
          </title>
        </rect>
      )}
      {apart(markers, x).map((marker) => (
        <text key={`${marker.kind}${marker.at}`} class={`marker marker-${marker.kind}`} x={x(marker.at)} y={y + 33}>
          {markerGlyphs[marker.kind]}
          <title>{escapeLine(`${formatTime(marker.at, now.peek())}: ${describeEvent(marker.event, view)}`)}</title>
        </text>
      ))}
    </g>
  );
}

/** Markers of one kind that would cover each other are one. */
function apart(markers: readonly TimelineMarker[], x: (at: number) => number): readonly TimelineMarker[] {
  const drawn = new Set<string>();
  return markers.filter(({ kind, at }) => {
    const key = `${kind} ${Math.round(x(at) / 8)}`;
    if (drawn.has(key)) return false;
    drawn.add(key);
    return true;
  });
}

/** `setup`, or `running-2` for the second of its kind. So a segment that becomes known later does not rename the others. */
function partName(segments: readonly Segment[], index: number): string {
  const kind = segments[index]?.kind ?? '';
  const count = segments.slice(0, index + 1).filter((one) => one.kind === kind).length;
  return count === 1 ? kind : `${kind}-${count}`;
}

/** -1 without it. */
function partIndex(segments: readonly Segment[], name: string | null): number {
  return segments.findIndex((_segment, index) => partName(segments, index) === name);
}

function choosePart({ attempt, segments }: Pick<AttemptLane, 'attempt' | 'segments'>, index: number): void {
  const { query } = address.peek();
  const name = partName(segments, index);
  const isSame = query.get('attempt') === String(attempt) && query.get('part') === name;
  changeQuery({ attempt: String(attempt), part: isSame ? null : name });
}

function onSegmentKey(event: KeyboardEvent, lanes: readonly AttemptLane[], lane: AttemptLane, index: number): void {
  const at = lanes.indexOf(lane);
  const focus = (target: AttemptLane | undefined, part: number): void => {
    if (target === undefined) return;
    const to = Math.min(Math.max(0, part), target.segments.length - 1);
    const name = partName(target.segments, to);
    changeQuery({ attempt: String(target.attempt), part: name });
    // It is drawn with the next state.
    requestAnimationFrame(() => document.getElementById(`segment-${target.attempt}-${name}`)?.focus());
  };
  const acts: Readonly<Record<string, () => void>> = {
    Enter: () => choosePart(lane, index),
    ' ': () => choosePart(lane, index),
    ArrowRight: () => (index + 1 < lane.segments.length ? focus(lane, index + 1) : focus(lanes[at + 1], 0)),
    ArrowLeft: () => (index > 0 ? focus(lane, index - 1) : focus(lanes[at - 1], Infinity)),
    ArrowDown: () => focus(lanes[at + 1], index),
    ArrowUp: () => focus(lanes[at - 1], index),
  };
  const act = acts[event.key];
  if (act === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

function Legend({ lanes }: { readonly lanes: readonly AttemptLane[] }) {
  const kinds = new Set(lanes.flatMap(({ segments }) => segments.map(({ kind }) => kind)));
  const markers = new Set(lanes.flatMap((lane) => lane.markers.map(({ kind }) => kind)));
  return (
    <ul class="legend">
      {(Object.keys(segmentPhrases) as SegmentKind[])
        .filter((kind) => kinds.has(kind))
        .map((kind) => (
          <li key={kind}>
            <svg class={`segment-${kind}`} width={14} height={12} aria-hidden="true">
              <rect x={1} y={1} width={12} height={10} rx={2} />
            </svg>
            {segmentPhrases[kind]}
          </li>
        ))}
      {lanes.some(({ held }) => held !== null) && (
        <li>
          <svg width={14} height={12} aria-hidden="true">
            <rect class="held" x={0} y={5} width={14} height={3} />
          </svg>
          allocation ready
        </li>
      )}
      {(Object.keys(markerPhrases) as TimelineMarker['kind'][])
        .filter((kind) => markers.has(kind))
        .map((kind) => (
          <li key={kind}>
            <span class={`marker-${kind}`} aria-hidden="true">
              {markerGlyphs[kind]}
            </span>
            {markerPhrases[kind]}
          </li>
        ))}
    </ul>
  );
}

// ------------------------------------------------------------------------------------------ the table and the events

interface SegmentRow {
  readonly key: string;
  readonly lane: AttemptLane;
  readonly index: number;
  readonly segment: Segment;
}

const segmentColumns: readonly Column<SegmentRow>[] = [
  { name: 'attempt', title: 'Attempt', width: '6rem', align: 'right', cell: ({ lane }) => lane.attempt },
  {
    name: 'what',
    title: 'Segment',
    cell: ({ lane, index, segment }) => (
      <button class="plain" onClick={() => choosePart(lane, index)}>
        {segmentPhrases[segment.kind]}
      </button>
    ),
  },
  { name: 'from', title: 'From', width: '13rem', cell: ({ segment }) => <Time at={segment.from} /> },
  {
    name: 'until',
    title: 'Until',
    width: '13rem',
    wide: true,
    cell: ({ segment }) => (segment.isOpen ? 'now' : <Time at={segment.until} />),
  },
  {
    name: 'length',
    title: 'Length',
    width: '6rem',
    align: 'right',
    cell: ({ segment }) => formatDuration(segment.until - segment.from),
  },
];

function SegmentTable({ lanes }: { readonly lanes: readonly AttemptLane[] }) {
  const rows = lanes.flatMap((lane) =>
    lane.segments.map((segment, index) => ({ key: `${lane.attempt} ${index}`, lane, index, segment })),
  );
  return (
    <Table
      label="Timeline"
      rows={rows}
      columns={segmentColumns}
      keyOf={({ key }) => key}
      onOpen={({ lane, index }) => choosePart(lane, index)}
    />
  );
}

/** The events of the chosen segment. */
function Panel({
  view,
  lanes,
  events,
}: Pick<TimelineProps, 'view' | 'events'> & { readonly lanes: readonly AttemptLane[] }) {
  const { query } = address.value;
  const lane = lanes.find(({ attempt }) => attempt === shownAttempt());
  const segment = lane?.segments[partIndex(lane.segments, query.get('part'))];
  if (lane === undefined || segment === undefined) return null;
  const own = eventsOf(events, segment);
  const attempt = String(lane.attempt);
  return (
    <section aria-label="Events of the segment" class="segment-events">
      <div class="bar">
        <h3>
          Attempt {attempt}: {segmentPhrases[segment.kind]} for {formatDuration(segment.until - segment.from)}
        </h3>
        <span class="quiet">
          <Time at={segment.from} /> to {segment.isOpen ? 'now' : <Time at={segment.until} />}
        </span>
        <a href={pageHref(['jobs', view.id, 'logs'], { attempt })}>Logs of attempt {attempt}</a>
        <button class="plain" aria-label="Close the events" onClick={() => changeQuery({ part: null })}>
          ×
        </button>
      </div>
      {own.length === 0 && <p class="quiet">No event: nothing changed in this time.</p>}
      <ol class="events">
        {own.slice(0, maxPanelEvents).map((event, index) => (
          <li key={index}>
            <Time at={event.at} /> <span>{escapeLine(describeEvent(event, view))}</span>
          </li>
        ))}
      </ol>
      {own.length > maxPanelEvents && (
        <p>
          <a href={pageHref(['jobs', view.id], { section: 'history', attempt })}>
            All {pluralize(own.length, 'event')}
          </a>
        </p>
      )}
    </section>
  );
}
