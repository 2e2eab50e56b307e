// The table of a report, with the same rows and columns as a CSV file.

import { capitalize, escapeLine } from '../../app/format.ts';
import { reportCsv, type ReportColumn } from '../../app/report-columns.ts';
import { PlainTable } from '../parts/plain-table.tsx';
import { save } from '../parts/save.ts';

interface ReportTableProps<Row> {
  /** For screen readers. */
  readonly label: string;
  readonly columns: readonly ReportColumn<Row>[];
  readonly rows: readonly Row[];
  readonly isTotal?: (row: Row) => boolean;
  /** The name of the CSV file, without its ending. */
  readonly file: string;
}

interface NumberedRow<Row> {
  readonly row: Row;
  readonly index: number;
}

export function ReportTable<Row>({ label, columns, rows, isTotal = () => false, file }: ReportTableProps<Row>) {
  return (
    <>
      <PlainTable<NumberedRow<Row>>
        label={label}
        rows={rows.map((row, index) => ({ row, index }))}
        columns={columns.map(({ title, side, text }) => ({
          title: capitalize(title.toLowerCase()),
          ...(side === undefined ? {} : { side }),
          width: `${Math.max(title.length, ...rows.map((row) => text(row).length))}ch`,
          cell: ({ row }) => escapeLine(text(row)),
        }))}
        keyOf={({ index }) => String(index)}
        rowClass={({ row }) => (isTotal(row) ? 'total' : '')}
      />
      <button
        class="csv"
        onClick={() => save(new Blob([reportCsv(columns, rows)], { type: 'text/csv' }), `${file}.csv`)}
      >
        Save this table as CSV
      </button>
    </>
  );
}

export function Notes({ notes }: { readonly notes: readonly string[] }) {
  return (
    <>
      {notes.map((note) => (
        <p key={note} class="quiet note">
          {escapeLine(note)}
        </p>
      ))}
    </>
  );
}
