// The table of a report, with the same rows and columns as a CSV file.

import { capitalize, escapeLine } from '../../app/format.ts';
import { reportCsv, type ReportColumn } from '../../app/report-columns.ts';
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

export function ReportTable<Row>({ label, columns, rows, isTotal = () => false, file }: ReportTableProps<Row>) {
  return (
    <>
      {/* With the focus, the arrow keys scroll it. */}
      <div class="scroll" role="region" aria-label={`${label}, scrollable`} tabIndex={0}>
        <table class="plain-table report-table" aria-label={label}>
          <thead>
            <tr>
              {columns.map(({ title, side }) => (
                <th key={title} scope="col" class={side}>
                  {capitalize(title.toLowerCase())}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index} class={isTotal(row) ? 'total' : ''}>
                {columns.map(({ title, side, text }, column) =>
                  column === 0 ? (
                    <th key={title} scope="row" class={side}>
                      {escapeLine(text(row))}
                    </th>
                  ) : (
                    <td key={title} class={side}>
                      {escapeLine(text(row))}
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
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
