/** Lines of comma-separated values (RFC 4180); null is an empty field. */
export function csvLines(rows: readonly (readonly (string | number | boolean | null)[])[]): readonly string[] {
  return rows.map((row) => row.map((value) => quoteField(value === null ? '' : String(value))).join(','));
}

function quoteField(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
