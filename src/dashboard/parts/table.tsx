// A table that draws only the rows in view, so that it may have any number of them.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useKeys } from '../keys.ts';

export interface Column<Row> {
  readonly name: string;
  readonly title: string;
  /** Of the column, in CSS; the rest of the width is for columns without one. */
  readonly width?: string;
  readonly align?: 'right';
  /** Left out on a narrow screen. */
  readonly wide?: true;
  readonly cell: (row: Row) => ComponentChildren;
}

interface TableProps<Row> {
  /** Of the table, for screen readers. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly keyOf: (row: Row) => string;
  /** Opens a row: Enter, or a click next to its links. */
  readonly onOpen?: (row: Row) => void;
  readonly selection?: Selection;
  /** True while a person points at the table or has its focus, so that rows should not move. */
  readonly onHold?: (isHeld: boolean) => void;
}

interface Selection {
  readonly has: (key: string) => boolean;
  readonly toggle: (key: string) => void;
}

/** In pixels. Also in style.css. */
const rowHeight = 34;
/** Rows drawn outside the view on each side. */
const margin = 5;

export function Table<Row>(props: TableProps<Row>) {
  const { label, rows, columns, keyOf, onOpen, selection, onHold } = props;
  const box = useRef<HTMLDivElement>(null);
  const view = useSignal({ top: 0, height: 600 });
  const focused = useSignal<string | null>(null);
  const measure = (): void => {
    const { scrollTop: top = 0, clientHeight: height = 0 } = box.current ?? {};
    if (view.peek().top !== top || view.peek().height !== height) view.value = { top, height };
  };
  useLayoutEffect(measure, []);
  useEffect(() => {
    window.addEventListener('resize', measure);
    return () => window.removeEventListener('resize', measure);
  }, []);

  const at = rows.findIndex((row) => keyOf(row) === focused.value);
  const move = (step: number): void => {
    const next = Math.min(Math.max(at === -1 && step > 0 ? 0 : at + step, 0), rows.length - 1);
    const row = rows[next];
    if (row === undefined) return;
    focused.value = keyOf(row);
    const element = box.current;
    if (element === null) return;
    const top = next * rowHeight;
    const visible = element.clientHeight - rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + visible) element.scrollTop = top + rowHeight - visible;
  };
  const page = Math.max(1, Math.floor(view.value.height / rowHeight) - 2);
  useKeys(
    [
      { key: 'j', summary: 'Next row', act: () => move(1) },
      { key: 'k', summary: 'Row before', act: () => move(-1) },
      { key: 'PageDown', summary: 'Next rows', act: () => move(page) },
      { key: 'PageUp', summary: 'Rows before', act: () => move(-page) },
      {
        key: 'Enter',
        summary: 'Open the row',
        act: () => {
          // A button or a link has the key for itself.
          if (document.activeElement instanceof HTMLButtonElement) return document.activeElement.click();
          if (document.activeElement instanceof HTMLAnchorElement) return document.activeElement.click();
          const row = rows[at];
          if (row !== undefined) onOpen?.(row);
        },
      },
      ...(selection === undefined
        ? []
        : [
            {
              key: 'x',
              summary: 'Select the row',
              act: () => (focused.value === null ? undefined : selection.toggle(focused.value)),
            },
          ]),
    ],
    [rows, at, page, selection],
  );

  const first = Math.max(0, Math.floor(view.value.top / rowHeight) - margin);
  const last = Math.min(rows.length, Math.ceil((view.value.top + view.value.height) / rowHeight) + margin);
  return (
    <div
      class="table-box"
      ref={box}
      onScroll={measure}
      onPointerEnter={() => onHold?.(true)}
      onPointerLeave={() => onHold?.(false)}
      onFocusIn={() => onHold?.(true)}
      onFocusOut={() => onHold?.(false)}
    >
      <table aria-label={label} aria-rowcount={rows.length + 1}>
        <colgroup>
          {selection !== undefined && <col class="select" />}
          {columns.map(({ name, width, wide }) => (
            <col key={name} class={wide === true ? 'wide' : ''} style={width === undefined ? {} : { width }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {selection !== undefined && <td />}
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="space" style={{ height: `${first * rowHeight}px` }} aria-hidden="true" />}
          {rows.slice(first, last).map((row, index) => (
            <TableRow
              key={keyOf(row)}
              row={row}
              id={keyOf(row)}
              index={first + index + 2}
              columns={columns as readonly Column<unknown>[]}
              isFocused={keyOf(row) === focused.value}
              isSelected={selection?.has(keyOf(row)) ?? null}
              onToggle={selection?.toggle}
              onOpen={onOpen as ((row: unknown) => void) | undefined}
            />
          ))}
          {last < rows.length && (
            <tr class="space" style={{ height: `${(rows.length - last) * rowHeight}px` }} aria-hidden="true" />
          )}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps {
  readonly row: unknown;
  readonly id: string;
  readonly index: number;
  readonly columns: readonly Column<unknown>[];
  readonly isFocused: boolean;
  /** Null if rows cannot be selected. */
  readonly isSelected: boolean | null;
  readonly onToggle: ((key: string) => void) | undefined;
  readonly onOpen: ((row: unknown) => void) | undefined;
}

/** Drawn again only if something of it has changed. */
const TableRow = memo(function TableRow(props: RowProps) {
  const { row, id, index, columns, isFocused, isSelected, onToggle, onOpen } = props;
  const open = (event: MouseEvent): void => {
    const isControl = event.target instanceof Element && event.target.closest('a, button, input, label') !== null;
    if (!isControl && window.getSelection()?.isCollapsed !== false) onOpen?.(row);
  };
  return (
    <tr
      aria-rowindex={index}
      aria-selected={isSelected ?? undefined}
      class={isFocused ? 'focused' : ''}
      onClick={onOpen === undefined ? undefined : open}
    >
      {isSelected !== null && (
        <td class="select">
          <input type="checkbox" aria-label={`Select ${id}`} checked={isSelected} onChange={() => onToggle?.(id)} />
        </td>
      )}
      {columns.map((column) => (
        <td key={column.name} class={classOf(column)}>
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
});

function classOf({ name, align, wide }: Column<never>): string {
  return [`column-${name}`, ...(align === undefined ? [] : [align]), ...(wide === true ? ['wide'] : [])].join(' ');
}
