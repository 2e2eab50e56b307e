// Columns of a report, which a table on a terminal, a table on a page and a CSV file share.

import { csvLines } from './csv.ts';

export interface ReportColumn<Row> {
  /** In capitals, as on a terminal. */
  readonly title: string;
  /** Default: left. */
  readonly side?: 'right';
  /** The cell; the table escapes it. */
  readonly text: (row: Row) => string;
  /** The cell in a CSV file, with the unit in `csvTitle`. Default: the text. */
  readonly csv?: (row: Row) => string | number | null;
  readonly csvTitle?: string;
}

/** The zone, with its project if the rows are of several projects. */
export function zoneColumn<Row extends { readonly project: string; readonly zone: string }>(
  rows: readonly Row[],
): ReportColumn<Row> {
  const isOneProject = new Set(rows.map(({ project }) => project)).size === 1;
  return { title: 'ZONE', text: ({ project, zone }) => (isOneProject ? zone : `${project}/${zone}`) };
}

/** The rows as a CSV file (RFC 4180), in the order of the table. The text `-`, for no value, is an empty field. */
export function reportCsv<Row>(columns: readonly ReportColumn<Row>[], rows: readonly Row[]): string {
  const lines = csvLines([
    columns.map(({ title, csvTitle = title.toLowerCase() }) => csvTitle),
    ...rows.map((row) => columns.map(({ text, csv = text }) => csv(row)).map((cell) => (cell === '-' ? null : cell))),
  ]);
  return `${lines.join('\r\n')}\r\n`;
}
