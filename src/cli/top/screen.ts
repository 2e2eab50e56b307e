// The live screen of `top`: its keys, and one picture of it.

import { escapeLine, formatAge, formatLocalTimeOfDay, pluralize } from '../../app/format.ts';
import type { TopFilter, TopRows } from '../../app/top.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import type { UserName } from '../../core/model/user.ts';
import type { Cli } from '../context.ts';
import { cutEnd, fitting, width } from '../render/cell.ts';
import { jobLines, lineKey, noJobsText, rowsPerLine, topLines, zoneLines, type TopLine } from '../render/top.ts';
import type { Layout } from '../screen.ts';
import { topOrders, type TopOrder } from '../table/flags.ts';
import { formatCounts, keyHelpLines, visibleRange } from '../watch/frame.ts';
import { movesOf, type Key, type LiveScreen, type ScreenControls } from '../watch/live.ts';
import type { TopSources } from './sources.ts';

/** Ages grow this often, so that most pictures change only the lines with new figures. */
const ageInterval: Duration = 5 * second;
const clockInterval: Duration = second;

export interface TopState {
  readonly order: TopOrder;
  /** The user whose jobs are shown alone; null for all. */
  readonly onlyUser: string | null;
  /** The zone that is shown alone; null for all. */
  readonly onlyZone: string | null;
  /** The key of the selected line; null without lines. */
  readonly selected: string | null;
  /** Jobs whose workers are shown. */
  readonly expanded: ReadonlySet<string>;
  readonly showsKeys: boolean;
}

export function topScreen(
  cli: Cli,
  sources: TopSources,
  filter: TopFilter,
  { order, user: own }: Pick<TopState, 'order'> & { readonly user: UserName },
  controls: ScreenControls,
): LiveScreen {
  const { io, screen } = cli;
  let state: TopState = {
    order,
    onlyUser: filter.user ?? null,
    onlyZone: filter.zone ?? null,
    selected: null,
    expanded: new Set(filter.jobs ?? []),
    showsKeys: false,
  };
  let rows: TopRows;
  let lines: readonly TopLine[] = [];
  let agesAt: Instant = io.now();
  let drawnAt: Instant = Number.NEGATIVE_INFINITY;

  function update(): void {
    const { onlyUser: user, onlyZone: zone, order, expanded } = state;
    const { user: _user, zone: _zone, ...others } = filter;
    rows = sources.rows({ ...others, ...(user === null ? {} : { user }), ...(zone === null ? {} : { zone }) });
    lines = topLines(rows, order, (job) => expanded.has(job));
    const isThere = lines.some((line) => lineKey(line) === state.selected);
    if (!isThere) state = { ...state, selected: lines[0] === undefined ? null : lineKey(lines[0]) };
  }

  // The first picture may come before anything is new.
  update();
  return {
    async poll() {
      const isNew = await sources.poll();
      const now = io.now();
      if (isNew) update();
      if (now - agesAt >= ageInterval) agesAt = now;
      return isNew || now - drawnAt >= clockInterval;
    },
    render({ columns, rows: height }) {
      const now = io.now();
      drawnAt = now;
      const layout = { styler: screen.styleOut, unicode: screen.unicode, now: agesAt, columns };
      const hasKeys = controls.keyboard !== undefined;
      const input = { rows, lines, state, clock: now, height, hasKeys, notes: sources.notes() };
      const { picture, shown } = topFrame(input, layout);
      sources.prefer(shown.flatMap((line) => (line.kind === 'job' ? line.id : line.kind === 'worker' ? line.job : [])));
      return { title: `top: ${pluralize(rows.jobs.length, 'job')}`, lines: picture };
    },
    press(key) {
      if (key === 'interrupt') return 'interrupt';
      if (key === 'leave' || ((key === 'q' || key === 'escape') && !state.showsKeys)) return 'leave';
      const height = io.stdout.size().rows;
      state = pressKey(state, key, { lines, user: own, page: Math.max(1, height - 4) });
      agesAt = io.now();
      update();
      return null;
    },
  };
}

/** The state after that key; unknown keys change nothing. */
export function pressKey(
  state: TopState,
  key: Key,
  { lines, user, page }: { readonly lines: readonly TopLine[]; readonly user: string; readonly page: number },
): TopState {
  const at = lines.findIndex((line) => lineKey(line) === state.selected);
  const line = lines[at];
  const by = movesOf(page)[key];
  if (by !== undefined) {
    const next = lines[Math.min(lines.length - 1, Math.max(0, at + by))];
    return next === undefined ? state : { ...state, selected: lineKey(next) };
  }
  switch (key) {
    case 's':
      return { ...state, order: topOrders[(topOrders.indexOf(state.order) + 1) % topOrders.length] ?? topOrders[0] };
    case 'u':
      return { ...state, onlyUser: state.onlyUser === null ? user : null };
    case 'z': {
      const zone = line?.kind === 'worker' ? zoneOfJob(lines, line.job) : line?.zone;
      return { ...state, onlyZone: state.onlyZone === null ? (zone ?? null) : null };
    }
    case 'enter': {
      const job = line?.kind === 'job' ? line.id : line?.kind === 'worker' ? line.job : undefined;
      if (job === undefined) return state;
      const expanded = new Set(state.expanded);
      if (!expanded.delete(job)) expanded.add(job);
      // The line of a worker disappears with its job's.
      return { ...state, expanded, selected: job };
    }
    case '?':
    case 'h':
      return { ...state, showsKeys: !state.showsKeys };
    case 'q':
    case 'escape':
      return { ...state, showsKeys: false };
    default:
      return state;
  }
}

function zoneOfJob(lines: readonly TopLine[], job: string): string | null {
  const line = lines.find((one) => one.kind === 'job' && one.id === job);
  return line?.kind === 'job' ? line.zone : null;
}

export interface TopFrameInput {
  readonly rows: TopRows;
  readonly lines: readonly TopLine[];
  readonly state: TopState;
  /** The time in the first line; that of the ages is in the layout. */
  readonly clock: Instant;
  /** Rows of the terminal. */
  readonly height: number;
  readonly hasKeys: boolean;
  readonly notes: readonly string[];
}

/** Never wider than the terminal, and one row shorter. `shown` are the lines of jobs and workers in it. */
export function topFrame(
  { rows, lines, state, clock, height, hasKeys, notes }: TopFrameInput,
  layout: Layout & { readonly columns: number },
): { readonly picture: readonly string[]; readonly shown: readonly TopLine[] } {
  const { columns } = layout;
  const room = Math.max(1, height - 1);
  if (state.showsKeys) return { picture: keyHelpLines(keyHelp, columns).slice(0, room), shown: [] };
  const inner = { ...layout, columns: columns - indent.length };
  // The zones get at most a third, and nothing on a small screen.
  const listed = limitLines(zoneLines(rows.zones, inner), Math.floor(room / 3), 4).map((line) => `${indent}${line}`);
  const zones = listed.length > 0 && room >= roomForGap ? [...listed, ''] : listed;
  const perLine = rowsPerLine(inner.columns);
  const heading = perLine === 1 ? 1 : 0;
  const selected = Math.max(
    0,
    lines.findIndex((line) => lineKey(line) === state.selected),
  );
  // One more row for the first line.
  const { from, to, more } = visibleRange(height - 1 - zones.length, perLine, lines.length, selected);
  const shown = lines.slice(from, to);
  const table =
    lines.length === 0
      ? [cutEnd(noJobsText({ user: state.onlyUser, zone: state.onlyZone }), inner.columns)]
      : jobLines(shown, lines, inner);
  const isSelected = (index: number): boolean =>
    hasKeys && lines.length > 0 && index === heading + (selected - from) * perLine;
  const marked = table.map((line, index) => `${isSelected(index) ? '> ' : indent}${line}`.trimEnd());
  const picture = [
    headerLine(rows, shown, { state, clock }, columns),
    ...zones,
    ...marked,
    ...(more === null ? [] : [cutEnd(`${indent}${more}`, columns)]),
    footerLine(notes, hasKeys, layout),
  ];
  // A screen of a few rows loses its last lines.
  return { picture: picture.slice(0, room), shown };
}

/** From this many rows on, an empty line separates the two tables. */
const roomForGap = 16;
/** Room for the marker of the selected line. */
const indent = '  ';

function limitLines(lines: readonly string[], most: number, least: number): readonly string[] {
  if (lines.length <= most) return lines;
  if (most < least) return [];
  return [...lines.slice(0, most - 1), `${lines.length - most + 1} more zones`];
}

/** `08:20:14  3 running, 1 queued   by cpu   checked 6s ago`, without the age if that does not fit. */
function headerLine(
  { jobs }: TopRows,
  shown: readonly TopLine[],
  { state, clock }: Pick<TopFrameInput, 'state' | 'clock'>,
  columns: number,
): string {
  const measured = shown.flatMap((line) => (line.kind === 'tpu' || line.measuredAt === null ? [] : line.measuredAt));
  const parts = [
    formatCounts({ rows: jobs }),
    ...(state.onlyUser === null ? [] : [`of ${escapeLine(state.onlyUser)}`]),
    ...(state.onlyZone === null ? [] : [`in ${escapeLine(state.onlyZone)}`]),
    ...(state.order === topOrders[0] ? [] : [`by ${state.order}`]),
  ];
  const age = measured.length === 0 ? [] : [`checked ${formatAge(clock - Math.min(...measured))} ago`];
  const [whole = '', short = ''] = [[...parts, ...age], parts].map(
    (some) => `${formatLocalTimeOfDay(clock)}  ${some.join('   ')}`,
  );
  return width(whole) <= columns ? whole : cutEnd(short, columns);
}

const keyHints = ['s sort · u mine · z zone · enter workers · ? help · q quit', '? help · q quit'];
const asciiHints = ['s sort, u mine, z zone, Enter workers, ? help, q quit', '? help, q quit'];

/** Missing information is more important than the keys. */
function footerLine(
  notes: readonly string[],
  hasKeys: boolean,
  { columns, unicode }: Layout & { readonly columns: number },
): string {
  const note = escapeLine(notes.join('; '));
  const hints = hasKeys ? (unicode ? keyHints : asciiHints) : ['Ctrl-C quits'];
  return fitting([...hints.map((hint) => (note === '' ? hint : `${note}   ${hint}`)), note], columns);
}

const keyHelp: readonly (readonly [keys: string, meaning: string])[] = [
  ['j k, arrows', 'select the next or previous line'],
  ['g G, Space', 'first, last; a page down'],
  ['Enter', 'show or hide the workers of the job'],
  ['s', 'sort by activity, age, cpu, memory, duty, log age, idle time'],
  ['u', 'only your jobs, or all'],
  ['z', 'only the zone of the selected line, or all'],
  ['q, Esc, Ctrl-C', 'quit; the jobs keep running'],
];
