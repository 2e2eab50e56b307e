import { escapeLine } from './format.ts';

/**
 * Lines of comma-separated values (RFC 4180); null is an empty field. Text without control characters, and with a `'` in
 * front if a spreadsheet would run it as a formula.
 */
export function csvLines(rows: readonly (readonly (string | number | boolean | null)[])[]): readonly string[] {
  return rows.map((row) =>
    row.map((value) => (typeof value === 'string' ? textField(value) : `${value ?? ''}`)).join(','),
  );
}

function textField(text: string): string {
  const shown = escapeLine(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
  return /[",]/.test(shown) ? `"${shown.replaceAll('"', '""')}"` : shown;
}

/** Six decimals, as in Google's own bills: a millisecond is a fraction of an hour of that size. */
export function csvNumber(value: number | null): number | null {
  return value === null ? null : Number(value.toFixed(6));
}
