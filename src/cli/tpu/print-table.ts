// Tables on standard output.

import { exitCode } from '../../app/errors.ts';
import { aligned } from '../render/aligned.ts';
import { inertWord } from '../render/inert.ts';
import { columnsOf } from '../screen.ts';
import type { TpuCli } from './tpu-cli.ts';

type Cells = readonly (readonly string[])[];

/** Prints these rows, the headings first, cut where the terminal ends. A column is on the left unless `sides` says otherwise. */
export function printTable(cli: TpuCli, cells: Cells, sides: Readonly<Record<number, 'right'>> = {}): void {
  const each = (cells[0] ?? []).map((_, column) => sides[column] ?? 'left');
  for (const line of aligned(cells, each, columnsOf(cli.io.stdout))) cli.print(inertWord(line));
}

/** Prints a list: an object a line with --json, the remark `none` where it is empty, else a table. Returns the exit code. */
export function printList<Row>(
  cli: TpuCli,
  rows: readonly Row[],
  as: {
    readonly json: (row: Row) => object;
    readonly none: string;
    readonly headings: readonly string[];
    readonly cells: (row: Row) => readonly string[];
    /** Rows of the table alone. */
    readonly more?: Cells;
    readonly sides?: Readonly<Record<number, 'right'>>;
  },
): number {
  const cells = [...rows.map(as.cells), ...(as.more ?? [])];
  if (cli.json) for (const row of rows) cli.print(JSON.stringify(as.json(row)));
  else if (cells.length === 0) cli.note(as.none);
  else printTable(cli, [as.headings, ...cells], as.sides);
  return exitCode.ok;
}
