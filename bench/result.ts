// Result: one line of the table that a measurement gives, and how the table is printed.

/** One thing measured. Texts carry their units. */
export interface Result {
  /** What was measured, in the words of the budget. */
  readonly what: string;
  readonly measured: string;
  /** The most that it may be; a dash where the issue sets no limit and the number is for comparison only. */
  readonly budget: string;
  /** What it is seen against: bare Node in the same run, a peer's published time, the share of the budget. */
  readonly beside: string;
  /** Whether the budget is kept; null where there is none. */
  readonly isKept: boolean | null;
}

const heads = ['what', 'measured', 'budget', 'beside', 'verdict'] as const;

/** The table as lines of Markdown, columns padded so that it reads well in a terminal too. */
export function tableOf(results: readonly Result[]): readonly string[] {
  const rows = results.map((result) => [
    result.what,
    result.measured,
    result.budget,
    result.beside,
    result.isKept === null ? '-' : result.isKept ? 'kept' : 'MISSED',
  ]);
  const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [line(heads), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)];
}
