// Rows: the table of `tpu check` and `tpu monitor`, made to fit. What stands in it is decided in lab/check.ts.

import { moment, inert, inertWord } from '../../../app/figures.ts';
import type { Instant } from '../../../core/time.ts';
import type { CheckRow, CheckStatus, Trouble } from '../../../lab/check.ts';
import { nameOf } from '../../../lab/lineage.ts';
import type { UserSettings } from '../../../lab/user-settings.ts';
import { cutEnd, cutMiddle, padEnd, padStart, width } from '../../render/cell.ts';
import type { Ink } from '../../screen.ts';

export interface RowLayout {
  readonly letters: readonly ColumnLetter[];
  /** Columns of the terminal; null where there is none: then nothing is cut. */
  readonly columns: number | null;
  readonly ink: Ink;
  readonly clock: (at: Instant) => string;
  /** Rows of these attempts are bold throughout: they changed a moment ago. By `nameOf`. */
  readonly bold?: ReadonlySet<string>;
}

type CellName = 'window' | 'tag' | 'dir' | 'tpu' | 'status' | 'from';

interface Cell {
  readonly title: string;
  readonly text: (row: CheckRow, layout: RowLayout) => string;
  /** Its width where there is too little room: at first, and where that is not enough. */
  readonly least: readonly [first: number, then: number];
}

const cells: Readonly<Record<CellName, Cell>> = {
  window: { title: 'WINDOW', text: ({ window }) => (window === null ? '-' : String(window)), least: [6, 6] },
  tag: { title: 'TAG', text: ({ tag }) => inertWord(tag ?? '-'), least: [12, 6] },
  dir: { title: 'DIR', text: ({ folder }) => inertWord(folder), least: [10, 6] },
  tpu: { title: 'TPU', text: ({ tpuShort }) => inertWord(tpuShort), least: [16, 10] },
  status: { title: 'STATUS', text: (row, { clock }) => statusText(row, clock), least: [28, 20] },
  from: { title: 'FROM', text: lineageText, least: [18, 8] },
};

/** In this order cells give way; a status stays whole for longest. */
const givesWay: readonly CellName[] = ['dir', 'tag', 'tpu', 'from', 'status'];

/** Below this width an attempt takes two lines. */
const narrowTerminal = 60;

/** The lines of each row, under a heading that is none where rows take two lines. Never wider than the terminal. */
export function rowLines(
  rows: readonly CheckRow[],
  layout: RowLayout,
): { readonly heading: readonly string[]; readonly rows: readonly (readonly string[])[] } {
  const names = cellsFor(layout.letters, rows);
  if (rows.length === 0 || names.length === 0)
    return {
      heading: [],
      rows: rows.map((row) => [
        inertWord(`${row.window === null ? `job ${row.job}` : `window ${row.window}`}, ${row.folder}:`),
        ...messageLines(row, layout),
      ]),
    };
  const isNarrow = layout.columns !== null && layout.columns < narrowTerminal;
  const texts = rows.map((row) => names.map((name) => cells[name].text(row, layout)));
  if (isNarrow) {
    return {
      heading: [],
      rows: rows.map((row, at) => [...twoLines(row, names, texts[at] ?? [], layout), ...messageLines(row, layout)]),
    };
  }
  const titles = names.map((name) => cells[name].title);
  const sizes = fit(names, [titles, ...texts], layout.columns);
  const lineOf = (parts: readonly string[], row: CheckRow | null): string =>
    names
      .map((name, at) => {
        const size = sizes[at] ?? 0;
        const cell = (name === 'tpu' || name === 'tag' ? cutMiddle : cutEnd)(parts[at] ?? '', size);
        const padded = name === 'window' ? padStart(cell, size) : at === names.length - 1 ? cell : padEnd(cell, size);
        return row === null ? padded : inStyle(row, name, padded, layout);
      })
      .join('  ')
      .trimEnd();
  return {
    heading: [lineOf(titles, null)],
    rows: rows.map((row, at) => [lineOf(texts[at] ?? [], row), ...messageLines(row, layout)]),
  };
}

/** The cells of a row. `w` is three of them; the lineage is last, and only where there is one. */
function cellsFor(letters: readonly ColumnLetter[], rows: readonly CheckRow[]): readonly CellName[] {
  const names = letters.flatMap((letter): readonly CellName[] => {
    if (letter === 'w') return rows.some(({ tag }) => tag !== null) ? ['window', 'tag'] : ['window'];
    return letter === 'd' ? ['dir'] : letter === 't' ? ['tpu'] : letter === 's' ? ['status'] : [];
  });
  const hasFrom = letters.includes('w') && rows.some((row) => lineageText(row) !== '');
  return hasFrom ? [...names, 'from'] : names;
}

function fit(
  names: readonly CellName[],
  lines: readonly (readonly string[])[],
  columns: number | null,
): readonly number[] {
  const sizes = names.map((_, at) => Math.max(...lines.map((line) => width(line[at] ?? ''))));
  if (columns === null) return sizes;
  const over = (): number => sizes.reduce((sum, size) => sum + size + 2, -2) - columns;
  for (const round of [0, 1] as const) {
    for (const name of givesWay) {
      const at = names.indexOf(name);
      if (at < 0 || over() <= 0) continue;
      const size = sizes[at] ?? 0;
      sizes[at] = Math.max(Math.min(size, cells[name].least[round]), size - over());
    }
  }
  return sizes;
}

/** `12  v2-32-p2  stage 1, 12 < 9` above `  Running(ep 3.2)`. */
function twoLines(
  row: CheckRow,
  names: readonly CellName[],
  texts: readonly string[],
  layout: RowLayout,
): readonly string[] {
  const most = layout.columns ?? Number.POSITIVE_INFINITY;
  const parts = names.flatMap((name, at) => (name === 'status' ? [] : [texts[at] ?? '']));
  const first = inStyle(row, 'window', cutEnd(parts.join('  '), most), layout);
  if (!names.includes('status')) return [first];
  const status = cutEnd(cells.status.text(row, layout), most - 2);
  return [first, `  ${inStyle(row, 'status', status, layout)}`];
}

function inStyle(row: CheckRow, name: CellName, text: string, { ink, bold }: RowLayout): string {
  const { kind } = row.status;
  const isStatus = name === 'status';
  const coloured = isStatus && kind === 'error' ? ink('red', text) : text;
  const isBold = bold?.has(nameOf(row)) === true || (isStatus && (kind === 'error' || kind === 'running'));
  return isBold ? ink('bold', coloured) : coloured;
}

/** A row as `--json` prints it: everything that is known, whatever columns are shown. */
export function rowJson(row: CheckRow): object {
  const { status, since, ...rest } = row;
  const { kind, ...more } = status;
  const hangs = 'hangsAt' in more && { hangsAt: more.hangsAt === null ? null : moment(more.hangsAt) };
  return { ...rest, status: kind, ...more, ...hangs, since: moment(since) };
}

/** `stage 2, 12 < 11 < 9`; empty for what came of nothing. */
function lineageText({ stage, lineage }: Pick<CheckRow, 'stage' | 'lineage'>): string {
  const parts = [...(stage > 0 ? [`stage ${stage}`] : []), ...(lineage.length > 1 ? [lineage.join(' < ')] : [])];
  return parts.join(', ');
}

/** An attempt's status in the words of the lab: `Running(ep 3.2)`, `error: OOM 08:11:40`, `resumed in 14, after grpc`. */
function statusText(row: Pick<CheckRow, 'status' | 'since' | 'closed'>, clock: (at: Instant) => string): string {
  const isUnderWay = row.status.kind === 'starting' || row.status.kind === 'running';
  const closed = row.closed && isUnderWay ? ', window closed: no rule brings it back' : '';
  return inertWord(`${statusWords(row.status, clock(row.since), clock)}${closed}`);
}

function statusWords(status: CheckStatus, when: string, clock: (at: Instant) => string): string {
  switch (status.kind) {
    case 'starting':
      return `${status.waits === null ? 'starting' : `starting, ${status.waits}`}${troubleText(status, clock)}`;
    case 'running': {
      const phase = status.phase === 'Unknown' ? 'running, Unknown' : status.phase;
      return `${phase}${status.waits === null ? '' : `, ${status.waits}`}${troubleText(status, clock)}`;
    }
    case 'finished':
    case 'killed':
    case 'stopped':
      return `${status.kind} ${when}`;
    case 'error':
      return `error: ${status.error} ${when}${status.next === null ? '' : `; ${status.next}s ${status.waits === null ? 'soon' : `soon: ${status.waits}`}`}`;
    case 'resumed':
    case 'rerunned':
      return `${status.kind} in ${status.child}${status.error === null ? '' : `, after ${status.error}`}`;
  }
}

function troubleText({ trouble, hangsAt }: Trouble, clock: (at: Instant) => string): string {
  if (trouble === null) return '';
  const until = hangsAt === null ? '' : `, ends ${clock(hangsAt)} if silent until then`;
  return `; its log says ${trouble}${until}`;
}

const messageMost = 4;

function messageLines(row: CheckRow, { letters, columns }: RowLayout): readonly string[] {
  const { status, message } = row;
  const saysLittle =
    (status.kind === 'running' && status.phase === 'Unknown') ||
    (status.kind === 'error' && /^(exit|unknown)/.test(status.error));
  if (!letters.includes('v') && !(letters.includes('s') && saysLittle)) return [];
  const lines = message
    .split('\n')
    // A progress bar writes over itself: what counts is what stands there now.
    .map((line) => line.trimEnd().split('\r').at(-1)?.trimEnd() ?? '')
    .filter((line) => line.trim() !== '');
  return lines.slice(-messageMost).map((line) => {
    const text = `    | ${inert(line, false).replaceAll('\t', ' ')}`;
    return columns === null ? text : cutEnd(text, columns);
  });
}

const columnLetters = ['w', 'd', 't', 's', 'v'] as const;

export type ColumnLetter = (typeof columnLetters)[number];

/** The columns in their order: as the line says, else as the user has chosen, else what is usual with their other settings. */
export function columnsFor(letters: string, settings: UserSettings): readonly ColumnLetter[] {
  const said = letters === '' ? settings.monitor_columns : letters;
  if (said !== '') return Array.from(said).filter(isColumn);
  return [
    'w',
    ...(settings.monitor_dir ? (['d'] as const) : []),
    ...(settings.monitor_tpu ? (['t'] as const) : []),
    's',
    ...(settings.monitor_verbose ? (['v'] as const) : []),
  ];
}

/** With that column shown where it was not, and the other way round; one that comes back takes its usual place. */
export function toggled(columns: readonly ColumnLetter[], letter: ColumnLetter): readonly ColumnLetter[] {
  if (columns.includes(letter)) return columns.filter((one) => one !== letter);
  const usual = columnLetters.indexOf(letter);
  const at = columns.findIndex((one) => columnLetters.indexOf(one) > usual);
  return at < 0 ? [...columns, letter] : [...columns.slice(0, at), letter, ...columns.slice(at)];
}

export function isColumn(letter: string): letter is ColumnLetter {
  return columnLetters.some((one) => one === letter);
}
