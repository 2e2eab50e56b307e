export interface Result {
  readonly name: string;
  readonly measured: string;
  /** Upper limit; a dash when the number is only for comparison. */
  readonly budget: string;
  /** Reference value: an idle Node in the same run, another program's published time, or the share of the budget. */
  readonly comparison: string;
  /** Null without a budget. */
  readonly isWithinBudget: boolean | null;
}

const headings = ['name', 'measured', 'budget', 'comparison', 'verdict'] as const;

/** Lines of Markdown, with columns padded for a terminal. */
export function tableOf(results: readonly Result[]): readonly string[] {
  const rows = results.map((result) => [
    result.name,
    result.measured,
    result.budget,
    result.comparison,
    result.isWithinBudget === null ? '-' : result.isWithinBudget ? 'kept' : 'MISSED',
  ]);
  const widths = headings.map((head, column) => Math.max(head.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [line(headings), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)];
}
