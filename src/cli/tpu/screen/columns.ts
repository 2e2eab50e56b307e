// Columns: what of a user's jobs is shown, by the letters of the lab: w window, tag and lineage; d directory; t TPU; s status; v the
// newest of what was printed, also where the status says enough.

import type { UserSettings } from '../../../lab/user-settings.ts';

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
