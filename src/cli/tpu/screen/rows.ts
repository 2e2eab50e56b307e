// The table of `tpu check` and `tpu monitor`, fitted to the terminal. lab/check-rows.ts decides its contents.

import type { CheckOutput } from '../../outputs.ts';
import { escapeForTerminal, escapeLine } from '../../../app/format.ts';
import type { Instant } from '../../../core/model/time.ts';
import type { CheckRow } from '../../../lab/check-rows.ts';
import { explainingLines, formatCheckStatus, formatLineage, newestLines } from '../../../lab/check-text.ts';
import { attemptKey } from '../../../lab/lineage.ts';
import type { UserSettings } from '../../../lab/user-settings.ts';
import { aligned } from '../../render/aligned.ts';
import { cutEnd, width } from '../../render/cell.ts';
import type { Styler } from '../../screen.ts';

export interface RowLayout {
  readonly letters: readonly ColumnLetter[];
  /** Width of the terminal; null without one, and then nothing is cut. */
  readonly columns: number | null;
  readonly style: Styler;
  readonly clock: (at: Instant) => string;
  /** Attempts by `attemptKey` that changed recently. Their rows are bold. */
  readonly bold?: ReadonlySet<string>;
}

type CellName = 'window' | 'tag' | 'dir' | 'tpu' | 'status' | 'from';

interface Cell {
  readonly title: string;
  readonly text: (row: CheckRow, layout: RowLayout) => string;
}

const cells: Readonly<Record<CellName, Cell>> = {
  window: { title: 'WINDOW', text: ({ window }) => (window === null ? '-' : String(window)) },
  tag: { title: 'TAG', text: ({ tag }) => escapeLine(tag ?? '-') },
  dir: { title: 'DIR', text: ({ folder }) => escapeLine(folder) },
  tpu: { title: 'TPU', text: ({ tpuShort }) => escapeLine(tpuShort) },
  status: { title: 'STATUS', text: (row, { clock }) => escapeLine(formatCheckStatus(row, clock)) },
  from: { title: 'FROM', text: formatLineage },
};

/** The lines of each row and a heading. In a terminal that is too narrow for the table, rows have two lines. */
export function rowLines(
  rows: readonly CheckRow[],
  layout: RowLayout,
): { readonly heading: readonly string[]; readonly rows: readonly (readonly string[])[] } {
  const names = cellsFor(layout.letters, rows);
  if (rows.length === 0 || names.length === 0)
    return {
      heading: [],
      rows: rows.map((row) => [
        escapeLine(`${row.window === null ? `job ${row.job}` : `window ${row.window}`}, ${row.folder}:`),
        ...messageLines(row, layout),
      ]),
    };
  const titles = names.map((name) => cells[name].title);
  const texts = rows.map((row) => names.map((name) => styleCell(row, name, cells[name].text(row, layout), layout)));
  const sides = names.map((name) => (name === 'window' ? 'right' : 'left'));
  const [heading = '', ...lines] = aligned([titles, ...texts], sides, null);
  const { columns } = layout;
  if (columns !== null && [heading, ...lines].some((line) => width(line) > columns))
    return { heading: [], rows: rows.map((row) => [...twoLines(row, names, layout), ...messageLines(row, layout)]) };
  return { heading: [heading], rows: rows.map((row, at) => [lines[at] ?? '', ...messageLines(row, layout)]) };
}

/** `w` covers three cells. The lineage is last, and only if a row has one. */
function cellsFor(letters: readonly ColumnLetter[], rows: readonly CheckRow[]): readonly CellName[] {
  const names = letters.flatMap((letter): readonly CellName[] => {
    if (letter === 'w') return rows.some(({ tag }) => tag !== null) ? ['window', 'tag'] : ['window'];
    return letter === 'd' ? ['dir'] : letter === 't' ? ['tpu'] : letter === 's' ? ['status'] : [];
  });
  const hasFrom = letters.includes('w') && rows.some((row) => formatLineage(row) !== '');
  return hasFrom ? [...names, 'from'] : names;
}

/** `12  v2-32-p2  stage 1, 12 < 9` above `  Running(ep 3.2)`. */
function twoLines(row: CheckRow, names: readonly CellName[], layout: RowLayout): readonly string[] {
  const most = layout.columns ?? Number.POSITIVE_INFINITY;
  const parts = names.flatMap((name) => (name === 'status' ? [] : [cells[name].text(row, layout)]));
  const first = styleCell(row, 'window', cutEnd(parts.join('  '), most), layout);
  if (!names.includes('status')) return [first];
  const status = cutEnd(cells.status.text(row, layout), most - 2);
  return [first, `  ${styleCell(row, 'status', status, layout)}`];
}

function styleCell(row: CheckRow, name: CellName, text: string, { style, bold }: RowLayout): string {
  const { kind } = row.status;
  const isStatus = name === 'status';
  const coloured = isStatus && kind === 'error' ? style('red', text) : text;
  const isBold = bold?.has(attemptKey(row)) === true || (isStatus && (kind === 'error' || kind === 'running'));
  return isBold ? style('bold', coloured) : coloured;
}

/** A row as `--json` prints it: all fields, regardless of the visible columns. */
export function rowJson({ status, since, ...row }: CheckRow): CheckOutput {
  return {
    ...row,
    status: status.kind,
    statusAt: since,
    progress: status.kind === 'running' ? status.phase : null,
    waitReason: 'waitReason' in status ? status.waitReason : null,
    trouble: 'trouble' in status ? status.trouble : null,
    hangsAt: 'hangsAt' in status ? status.hangsAt : null,
    error: 'error' in status ? status.error : null,
    errorMessage: status.kind === 'error' ? status.detail : null,
    next: status.kind === 'error' ? status.next : null,
    child: 'child' in status ? status.child : null,
  };
}

function messageLines(row: CheckRow, { letters, columns }: RowLayout): readonly string[] {
  const shown = letters.includes('v') ? newestLines(row) : letters.includes('s') ? explainingLines(row) : [];
  return shown.map((line) => {
    const text = `    | ${escapeForTerminal(line, false).replaceAll('\t', ' ')}`;
    return columns === null ? text : cutEnd(text, columns);
  });
}

const columnLetters = ['w', 'd', 't', 's', 'v'] as const;

export type ColumnLetter = (typeof columnLetters)[number];

/** The columns in order: from the line, else the user's `monitor_columns`, else from the user's other settings. */
export function columnsFor(letters: string, settings: UserSettings): readonly ColumnLetter[] {
  const chosen = letters === '' ? settings.monitor_columns : letters;
  if (chosen !== '') return Array.from(chosen).filter(isColumn);
  return [
    'w',
    ...(settings.monitor_dir ? (['d'] as const) : []),
    ...(settings.monitor_tpu ? (['t'] as const) : []),
    's',
    ...(settings.monitor_verbose ? (['v'] as const) : []),
  ];
}

/** Shows or hides the column. A column that returns gets its default position. */
export function toggleColumn(columns: readonly ColumnLetter[], letter: ColumnLetter): readonly ColumnLetter[] {
  if (columns.includes(letter)) return columns.filter((one) => one !== letter);
  const usual = columnLetters.indexOf(letter);
  const at = columns.findIndex((one) => columnLetters.indexOf(one) > usual);
  return at < 0 ? [...columns, letter] : [...columns.slice(0, at), letter, ...columns.slice(at)];
}

export function isColumn(letter: string): letter is ColumnLetter {
  return columnLetters.some((one) => one === letter);
}
