// Questions that a command of `tpu` asks on a terminal, and the tables that it prints.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { confirm } from '../prompt.ts';
import { aligned } from '../render/aligned.ts';
import { inertWord } from '../../app/figures.ts';
import { columnsOf } from '../screen.ts';
import type { TpuCli, Words } from './command.ts';

export function canAsk({ io }: Pick<Cli, 'io'>): boolean {
  return io.stdin.isTerminal && io.stderr.isTerminal;
}

/** The answer without spaces at its ends; `otherwise` for an empty one. Throws JobmanError (130) at the end of the input. */
export async function question({ io }: Pick<Cli, 'io'>, text: string, otherwise = ''): Promise<string> {
  io.stderr.write(`${text}${otherwise === '' ? '' : ` [${otherwise}]`}: `);
  const answer = await io.stdin.line();
  if (answer === null) throw new JobmanError('Nothing was done.', exitCode.interrupted);
  return answer.trim() || otherwise;
}

/** As `confirm`, of a fact and the question about it: where nobody can be asked, the fact is what was refused. */
export function confirmDespite(cli: Cli, fact: string, asks: string): Promise<boolean> {
  return confirm(cli, `${fact} ${asks}`, fact);
}

export async function saysYes({ io }: Pick<Cli, 'io'>): Promise<boolean> {
  return /^(y|yes)$/i.test((await io.stdin.line())?.trim() ?? '');
}

/** The notes for the booking sheet; null where none are said. Throws JobmanError (2), with `refused`, where nobody can be asked. */
export async function notesOf(cli: Pick<Cli, 'io'>, { keys, flags }: Words, refused: string): Promise<string | null> {
  const said = keys['ssn'];
  if (said !== undefined || !flags.has('ssn')) return said ?? null;
  if (canAsk(cli)) return question(cli, 'Notes for the booking sheet');
  throw new JobmanError(refused, exitCode.usage);
}

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
