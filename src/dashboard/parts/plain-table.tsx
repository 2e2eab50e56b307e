// A table whose rows have any height and scroll with the page. Of many rows only those near the view are drawn.

import './plain-table.css';
import type { ComponentChildren } from 'preact';
import { escapeLine } from '../../app/format.ts';
import { Near } from './near.tsx';

export interface PlainColumn<Row> {
  /** Empty for a column of buttons. */
  readonly title: string;
  readonly side?: 'right';
  /** Left out on a narrow screen. */
  readonly wide?: true;
  /** In CSS, for a table of many rows, whose columns do not depend on the rows. Columns without a width share the rest. */
  readonly width?: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly cellClass?: (row: Row) => string;
  /** The tooltip of the cell. */
  readonly hint?: (row: Row) => string | undefined;
}

interface PlainTableProps<Row> extends RowShape<Row> {
  /** For screen readers. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** `cards`: on a narrow screen, a row is a card with the titles of its columns. */
  readonly kind?: 'cards' | 'numbers';
  /** One of many tables of a page. */
  readonly isOneOfMany?: boolean;
}

interface RowShape<Row> {
  /** The cells of the first one name the rows. */
  readonly columns: readonly PlainColumn<Row>[];
  readonly rowClass?: (row: Row) => string;
  /** Lines below the cells of a row. */
  readonly below?: (row: Row) => readonly string[];
}

/** A table with more rows, or one of many tables, has columns of fixed widths, and draws only the rows near the view. */
const maxDrawn = 40;
/** In pixels, of one line. */
const lineHeight = 31;

export function PlainTable<Row>({ label, rows, keyOf, kind, isOneOfMany = false, ...rest }: PlainTableProps<Row>) {
  const { columns } = rest;
  const isLong = isOneOfMany || rows.length > maxDrawn;
  const classes = ['plain-table', ...(kind === undefined ? [] : [kind]), ...(isLong ? ['long'] : [])];
  return (
    // With the focus, the arrow keys scroll it.
    <div class="scroll" role="group" aria-label={`${label}, scrollable`} tabIndex={0}>
      <table class={classes.join(' ')} aria-label={label} aria-rowcount={isLong ? rows.length + 1 : undefined}>
        {isLong && (
          <colgroup>
            {columns.map(({ title, width, wide }) => (
              <col key={title} class={wide ? 'wide' : ''} style={width === undefined ? {} : { width }} />
            ))}
          </colgroup>
        )}
        <thead>
          <tr aria-rowindex={isLong ? 1 : undefined}>
            {columns.map(({ title, side, wide }) =>
              title === '' ? (
                <td key="" />
              ) : (
                <th key={title} scope="col" class={classOf(side, wide && 'wide')}>
                  {title}
                </th>
              ),
            )}
          </tr>
        </thead>
        {isLong ? (
          <Near count={rows.length} itemHeight={lineHeight} as="tbody" keyOf={(index) => keyOf(rows[index] as Row)}>
            {(index) => <PlainRow row={rows[index] as Row} index={index + 2} {...rest} />}
          </Near>
        ) : (
          <tbody>
            {rows.map((row) => (
              <PlainRow key={keyOf(row)} row={row} {...rest} />
            ))}
          </tbody>
        )}
      </table>
    </div>
  );
}

interface PlainRowProps<Row> extends RowShape<Row> {
  readonly row: Row;
  /** Of a table that does not draw all rows. */
  readonly index?: number;
}

function PlainRow<Row>({ row, index, columns, rowClass, below }: PlainRowProps<Row>) {
  const lines = below?.(row) ?? [];
  return (
    <>
      <tr aria-rowindex={index} class={classOf(rowClass?.(row), lines.length > 0 && 'has-lines')}>
        {columns.map(({ title, side, wide, cell, cellClass, hint }, at) => {
          const own = classOf(side, wide && 'wide', title === '' && 'buttons', cellClass?.(row));
          return at === 0 ? (
            <th key={title} scope="row" class={own} title={hint?.(row)}>
              {cell(row)}
            </th>
          ) : (
            <td key={title} class={own} title={hint?.(row)} data-title={title === '' ? undefined : title}>
              {cell(row)}
            </td>
          );
        })}
      </tr>
      {lines.length > 0 && (
        <tr class="row-below">
          <td colSpan={columns.length}>
            {lines.map((line) => (
              <p key={line} class="warn">
                {escapeLine(line)}
              </p>
            ))}
          </td>
        </tr>
      )}
    </>
  );
}

function classOf(...names: readonly (string | false | undefined)[]): string {
  return names.filter((name) => typeof name === 'string' && name !== '').join(' ');
}
