// Questions that a command of `tpu` asks on a terminal, and its tables.

import type { Output } from '../outputs.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { ask, canAsk, confirm } from '../prompt.ts';
import { aligned } from '../render/aligned.ts';
import { escapeLine } from '../../app/format.ts';
import { columnsOf } from '../screen.ts';
import type { TpuCli, ParsedArguments } from './command.ts';

/** Like `confirm`, with a fact before the question. Without a terminal the fact is the error message. */
export function confirmDespite(cli: Cli, fact: string, asks: string): Promise<boolean> {
  return confirm(cli, `${fact} ${asks}`, fact);
}

/** Null if the line gives none. Throws JobmanError (2) with `refused` if it has to ask and there is no terminal. */
export async function readNotes(
  cli: Pick<Cli, 'io'>,
  { keys, flags }: ParsedArguments,
  refused: string,
): Promise<string | null> {
  const given = keys['ssn'];
  if (given !== undefined || !flags.has('ssn')) return given ?? null;
  if (canAsk(cli)) return ask(cli, 'Notes for the booking sheet');
  throw new JobmanError(refused, exitCode.usage);
}

type Cells = readonly (readonly string[])[];

/** Prints rows, headings first, cut to the terminal's width. Columns are left-aligned unless `sides` says otherwise. */
export function printTable(cli: TpuCli, cells: Cells, sides: Readonly<Record<number, 'right'>> = {}): void {
  const each = (cells[0] ?? []).map((_, column) => sides[column] ?? 'left');
  for (const line of aligned(cells, each, columnsOf(cli.io.stdout))) cli.print(escapeLine(line));
}

/** Prints one object a line with --json, `emptyMessage` for an empty list, otherwise a table. Returns the exit code. */
export function printList<Row>(
  cli: TpuCli,
  rows: readonly Row[],
  as: {
    readonly json: (row: Row) => Output;
    readonly emptyMessage: string;
    readonly headings: readonly string[];
    readonly cells: (row: Row) => readonly string[];
    readonly extraRows?: Cells;
    readonly sides?: Readonly<Record<number, 'right'>>;
  },
): number {
  const cells = [...rows.map(as.cells), ...(as.extraRows ?? [])];
  if (cli.json) cli.printJsonLines(rows.map(as.json));
  else if (cells.length === 0) cli.note(as.emptyMessage);
  else printTable(cli, [as.headings, ...cells], as.sides);
  return exitCode.ok;
}
