// A list of log lines that draws only the lines in view.

import { useSignal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { formatBytes } from '../../app/format.ts';
import { isErrorLine, joinLabels } from '../../app/log-text.ts';
import { Failure } from '../parts/messages.tsx';
import type { Hits } from './find.ts';
import { layOut, type Item, type Layout } from './layout.ts';
import type { LogLine } from './lines.ts';
import { labelOf, type PaneState } from './pane-state.ts';
import { rowText, type Row } from './rows.ts';
import { shownText, spansOf } from './spans.ts';
import type { Position } from './window.ts';

interface PaneOptions {
  readonly wraps: boolean;
  readonly showsTimes: boolean;
  /** Highlighted; null without a search. */
  readonly hits: Hits | null;
}

interface PaneProps extends PaneOptions {
  readonly state: PaneState;
  readonly label: string;
  readonly onShowAll: (log: number, line: LogLine) => void;
  /** The selected line, or the one at the top; null while the end is followed. */
  readonly onPosition: (position: Position | null, isSelected: boolean) => void;
}

/** In pixels. Also in logs.css. */
const rowHeight = 18;
/** The width of a character, until it is measured. */
const characterWidth = 7.5;
/** Rows drawn outside the view on each side. */
const margin = 8;
/** More is read when fewer rows than this are left between the view and an end of the lines in memory. */
const readAhead = 60;

/** The scrollable box: the part that is drawn, its position, and when more is read. */
function useBox({ state, wraps, showsTimes, onPosition }: PaneProps, toggled: number) {
  const box = useRef<HTMLDivElement>(null);
  const view = useSignal({ top: 0, height: 400, columns: 80 });
  const anchor = useRef<{ readonly row: Row; readonly below: number } | null>(null);
  const lastTop = useRef(0);
  const readRows = useRef(0);
  const version = state.version.value;
  const { columns } = view.value;
  const layout = useMemo(
    () => layOut(state.window.rows(), wraps ? columns : null, showsTimes),
    [state, version, toggled, wraps, columns, showsTimes],
  );
  const at = drawn(layout, view.value);
  state.topRow = at.topRow;
  state.lastRow = at.lastRow;

  const measure = (): void => {
    const element = box.current;
    if (element === null) return;
    const width = (element.querySelector<HTMLElement>('.log-measure')?.offsetWidth ?? 0) / 100 || characterWidth;
    const text = element.clientWidth - (element.querySelector<HTMLElement>('.log-label')?.offsetWidth ?? 0) - 24;
    const next = {
      top: element.scrollTop,
      height: element.clientHeight,
      columns: Math.max(20, Math.floor(text / width)),
    };
    const { top, height, columns: before } = view.peek();
    if (top !== next.top || height !== next.height || before !== next.columns) view.value = next;
  };

  const scroll = (): void => {
    const element = box.current;
    if (element === null) return;
    const { scrollTop, scrollHeight, clientHeight } = element;
    const isAtBottom = scrollHeight - scrollTop - clientHeight < 1.5 * rowHeight;
    if (isAtBottom && state.window.isAtEnd()) {
      // Only a person who scrolls down follows the end. A search may also end at a line of the last screen.
      if (scrollTop > lastTop.current && !state.isFollowing.peek()) state.followEnd();
    } else if (scrollTop < lastTop.current && state.isFollowing.peek()) state.leaveEnd();
    lastTop.current = scrollTop;
    keepAnchor(layout, scrollTop);
    measure();
    readMore();
  };

  function keepAnchor({ items, tops }: Layout, scrollTop: number): void {
    const index = indexAt(tops, scrollTop / rowHeight);
    const item = items[index];
    anchor.current = item === undefined ? null : { row: item.row, below: scrollTop - (tops[index] ?? 0) * rowHeight };
    if (state.isFollowing.peek()) return onPosition(null, false);
    const chosen = state.selected.peek();
    const row = chosen === null ? -1 : state.window.rowOf(chosen);
    const last = items[indexAt(tops, (scrollTop + view.peek().height) / rowHeight)]?.index ?? 0;
    if (chosen !== null && item !== undefined && row >= item.index && row <= last) return onPosition(chosen, true);
    const [entry] = item?.row.entries ?? [];
    if (entry !== undefined) onPosition({ log: entry.log, offset: entry.line.from }, false);
  }

  function readMore(): void {
    const element = box.current;
    if (element === null || state.version.peek() === 0) return;
    const rows = readAhead * rowHeight;
    if (element.scrollTop < rows) state.readUp();
    else if (element.scrollHeight - element.scrollTop - element.clientHeight < rows) state.readDown();
  }

  // The view stays at its lines, or at the end that it follows.
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const target = state.target.peek();
    const rows = state.window.rows();
    if (target !== null) {
      state.target.value = null;
      const row = state.window.rowOf(target);
      const index = layout.items.findIndex((item) => item.row === rows[row]);
      if (index >= 0) element.scrollTop = (layout.tops[index] ?? 0) * rowHeight - element.clientHeight / 3;
    } else if (state.isFollowing.peek()) element.scrollTop = element.scrollHeight;
    else if (anchor.current !== null) {
      const kept = anchor.current;
      const index = layout.items.findIndex(({ row }) => row === kept.row);
      if (index >= 0) element.scrollTop = (layout.tops[index] ?? 0) * rowHeight + kept.below;
    }
    lastTop.current = element.scrollTop;
    keepAnchor(layout, element.scrollTop);
    measure();
    readMore();
    // One read of very long lines may not fill the view. The read that caused this drawing has not ended yet.
    const isShort = element.scrollHeight <= element.clientHeight;
    if (isShort && rows.length !== readRows.current) setTimeout(readMore);
    readRows.current = rows.length;
  }, [layout]);
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      measure();
      if (state.isFollowing.peek() && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
    });
    if (box.current !== null) observer.observe(box.current);
    return () => observer.disconnect();
  }, [state]);

  return { box, scroll, layout, at };
}

export function Pane(props: PaneProps) {
  const { state, label, wraps, showsTimes, hits, onShowAll } = props;
  const toggled = useSignal(0);
  const { box, scroll, layout, at } = useBox(props, toggled.value);
  const toggle = (row: Row): void => {
    row.isOpen = !row.isOpen;
    toggled.value += 1;
  };
  const labels = state.refs.map(labelOf);
  const width = labels.length < 2 ? 0 : Math.min(14, Math.max(joinLabels(labels).length, 1) + 2);
  const selected = state.selected.value;
  return (
    <div class="log-pane">
      {state.failure.value !== null && <Failure lines={state.failure.value} retry={null} />}
      <div
        class={`log-box ${wraps ? 'log-wraps' : ''}`}
        role="log"
        aria-live="off"
        aria-label={label}
        tabIndex={0}
        ref={box}
        onScroll={scroll}
      >
        <span class="log-measure" aria-hidden="true">
          {'0'.repeat(100)}
        </span>
        <div class="log-space" style={{ height: `${layout.height * rowHeight}px` }}>
          <div class="log-rows" style={{ top: `${(layout.tops[at.first] ?? 0) * rowHeight}px` }}>
            {layout.items.slice(at.first, at.last).map((item) => (
              <Line
                key={keyOf(item)}
                row={item.row}
                log={item.entry}
                count={item.row.entries.length}
                labels={labels}
                width={width}
                isSelected={selected !== null && isAt(item.row, selected)}
                showsTimes={showsTimes}
                hits={hits}
                isOpen={item.row.isOpen}
                onToggle={toggle}
                onShowAll={onShowAll}
              />
            ))}
          </div>
        </div>
        <p class="log-end quiet">{endText(state, layout.items.length)}</p>
      </div>
      {!state.isFollowing.value && state.newLines.value !== 0 && (
        <button class="log-new" onClick={() => state.followEnd()}>
          {state.newLines.value === null ? 'New lines below' : `${state.newLines.value.toLocaleString('en')} new below`}
        </button>
      )}
    </div>
  );
}

/** The text of the last row: it explains the end of the lines. */
function endText({ window, version }: PaneState, count: number): string {
  if (version.peek() === 0) return 'Reading…';
  if (!window.isAtEnd()) return '…';
  if (window.isComplete()) return count === 0 ? 'Nothing was printed.' : 'End of the output.';
  return count === 0 ? 'Nothing was printed yet.' : '';
}

interface LineProps {
  readonly row: Row;
  /** One line of an open row; null for the row itself. */
  readonly log: Item['entry'];
  /** The number of lines: a row changes when the line of another worker joins it. */
  readonly count: number;
  readonly labels: readonly (string | number)[];
  /** The width of the labels, in characters; 0 without labels. */
  readonly width: number;
  readonly isSelected: boolean;
  readonly isOpen: boolean;
  readonly showsTimes: boolean;
  readonly hits: Hits | null;
  readonly onToggle: (row: Row) => void;
  readonly onShowAll: (log: number, line: LogLine) => void;
}

/** Drawn again only if its contents have changed. */
const Line = memo(function Line(props: LineProps) {
  const { row, log, labels, width, isSelected, isOpen, showsTimes, hits, onToggle, onShowAll } = props;
  const entry = log ?? row.entries[0];
  if (entry === undefined) return null;
  const text = log === null ? rowText(row) : entry.line.text;
  const shown = (log === null ? row.entries : [entry]).flatMap((one) => labels[one.log] ?? []);
  const name = `[${joinLabels(shown)}]`;
  const classes = [
    'log-line',
    ...(isErrorLine(text) ? ['log-error'] : []),
    ...(isSelected ? ['log-selected'] : []),
    ...(log === null && row.entries.length < labels.length ? ['log-some'] : []),
    ...(log === null ? [] : ['log-part']),
  ];
  const { omittedBytes, isBinary } = entry.line;
  return (
    <div class={classes.join(' ')}>
      {width > 0 && log === null && row.entries.length > 1 ? (
        <button
          class="log-label"
          style={{ width: `${width}ch` }}
          aria-expanded={isOpen}
          title={`${isOpen ? 'Close' : 'Open'} the lines of ${row.entries.length} workers`}
          onClick={() => onToggle(row)}
        >
          {name}
        </button>
      ) : (
        width > 0 && (
          <span class="log-label" style={{ width: `${width}ch` }}>
            {name}
          </span>
        )
      )}
      <span class="log-text">
        {omittedBytes > 0 && (
          <button class="plain" onClick={() => onShowAll(entry.log, entry.line)}>
            show all, {formatBytes(omittedBytes)} more
          </button>
        )}
        {isBinary && <span class="chip">binary</span>}
        {spansOf(shownText(isBinary ? text.slice(0, 200) : text, showsTimes), hits).map(
          ({ text: part, style, isHit }, index) =>
            isHit ? (
              <mark key={index} class={style}>
                {part}
              </mark>
            ) : style === '' ? (
              part
            ) : (
              <span key={index} class={style}>
                {part}
              </span>
            ),
        )}
      </span>
    </div>
  );
});

function keyOf({ row, entry }: Item): string {
  const one = entry ?? row.entries[0];
  return `${entry === null ? 'row' : 'line'} ${one?.log} ${one?.line.from}`;
}

function isAt({ entries }: Row, { log, offset }: Position): boolean {
  return entries.some((entry) => entry.log === log && entry.line.from <= offset && offset < entry.line.to);
}

/** The items to draw, and the rows in view. */
function drawn({ items, tops }: Layout, { top, height }: { readonly top: number; readonly height: number }) {
  const begin = indexAt(tops, top / rowHeight);
  const end = indexAt(tops, (top + height) / rowHeight);
  return {
    first: Math.max(0, begin - margin),
    last: Math.min(items.length, end + 1 + margin),
    topRow: items[begin]?.index ?? 0,
    lastRow: items[Math.min(end, items.length - 1)]?.index ?? 0,
  };
}

/** The last item that begins at or above this height. */
function indexAt(tops: Float64Array, height: number): number {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((tops[middle] ?? 0) <= height) low = middle;
    else high = middle - 1;
  }
  return low;
}
