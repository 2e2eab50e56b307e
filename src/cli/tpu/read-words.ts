// Reads a line of `tpu`. Its words may stand in any order, so each is told by what it is: a `key=value`, a flag, a user, a TPU, a
// type, a number; what is none of these is one of the command's arguments. A word that could be two things, or none, is a problem:
// nothing is guessed, and nothing is left out silently. Words are told apart by their form in pieces.ts and get their meaning in
// meaning.ts.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { meaningOf } from './meaning.ts';
import { pieces } from './pieces.ts';
import type { TpuRow } from './row.ts';
import type { Known, Words } from './words.ts';

/** The row that a line is for, with its other words. Throws JobmanError (2) where none of them is a command. */
export function findCommand<Row extends TpuRow>(
  table: readonly Row[],
  typed: readonly string[],
): { readonly row: Row; readonly verb: string; readonly rest: readonly string[] } {
  const rowOf = (word: string): Row | undefined => table.find(({ names }) => names.includes(word));
  const [first = ''] = typed;
  const row = rowOf(first);
  if (row !== undefined) return { row, verb: first, rest: typed.slice(1) };
  // `tpu ada check`: free order for this word, too, where only one of them can be it.
  const end = typed.indexOf('--');
  const found = typed.slice(0, end < 0 ? undefined : end).flatMap((word, at) => {
    const other = word.startsWith('-') ? undefined : rowOf(word);
    return other === undefined || other.hidden ? [] : [{ row: other, verb: word, at }];
  });
  const [only] = found;
  if (only !== undefined && found.length === 1) return { ...only, rest: typed.toSpliced(only.at, 1) };
  if (found.length > 1) {
    const verbs = found.map(({ verb }) => `\`${verb}\``).join(' and ');
    throw new JobmanError(`Which command: ${verbs} are both one. Say it first.`, exitCode.usage);
  }
  const near = didYouMean(
    first,
    table.filter(({ hidden }) => !hidden).flatMap(({ names }) => names),
  );
  const guess = near === undefined ? '' : ` Did you mean \`${near}\`?`;
  throw new JobmanError(`There is no command \`${first}\`.${guess}`, exitCode.usage, ['`tpu help` lists them.']);
}

/** The parts of `known` that the words of this command need; the others may be empty. */
export function neededFor({ takes }: TpuRow): { readonly users: boolean; readonly tpus: boolean } {
  return { users: takes.user !== undefined, tpus: takes.tpu !== undefined };
}

/**
 * Reads the words behind `verb`. Throws JobmanError (2) with every problem of the line at once; (3) where the one problem is
 * that who or what it names behind a key is not there.
 */
export function readWords(row: TpuRow, verb: string, typed: readonly string[], known: Known): Words {
  const isRaw = row.takes.raw === true;
  const { words, problems } = meaningOf(row, isRaw ? [] : pieces(row, typed), known);
  const [first, ...others] = problems;
  if (first === undefined) return { ...words, verb, raw: isRaw ? typed : [] };
  const isMissing = problems.every(({ code }) => code === exitCode.notFound);
  throw new JobmanError(first.sentence, isMissing ? exitCode.notFound : exitCode.usage, [
    ...others.map(({ sentence }) => sentence),
    `\`tpu help ${verb}\` tells how it is used.`,
  ]);
}
