// A table that draws only the rows in view, so that it may have any number of them.

import { signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useKeys } from '../keys.ts';

export interface Column<Row> {
  readonly name: string;
  readonly title: string;
  /** In CSS. Columns without a width share the rest. */
  readonly width?: string;
  readonly align?: 'right';
  /** Left out on a narrow screen. */
  readonly wide?: true;
  readonly cell: (row: Row) => ComponentChildren;
}

interface TableProps<Row> {
  /** The name of the table, for screen readers. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  /** A cell of two lines, which replaces the columns on a narrow screen. */
  readonly twoLines?: (row: Row) => ComponentChildren;
  /** The cells have two lines on a wide screen too. */
  readonly isTall?: true;
  readonly keyOf: (row: Row) => string;
  /** Opens a row, after Enter or a click outside of its links. */
  readonly onOpen?: (row: Row) => void;
  readonly selection?: Selection;
  /** True while the pointer or the focus is in the table, so that the rows do not move. */
  readonly onHold?: (isHeld: boolean) => void;
}

export interface Selection {
  readonly has: (key: string) => boolean;
  readonly toggle: (key: string) => void;
  /** Selects every row, or none if all are selected. */
  readonly toggleAll: () => void;
  readonly state: 'none' | 'some' | 'all';
}

/** In pixels. Also in style.css. */
const rowHeight = 34;
const twoLineHeight = 56;
/** Rows drawn outside the view on each side. */
const margin = 5;

const narrowScreen = matchMedia('(max-width: 700px)');
const isNarrow = signal(narrowScreen.matches);
narrowScreen.addEventListener('change', ({ matches }) => (isNarrow.value = matches));

export function Table<Row>(props: TableProps<Row>) {
  const { label, rows, keyOf, onOpen, selection, twoLines } = props;
  const box = useRef<HTMLDivElement>(null);
  const view = useSignal({ top: 0, height: 600 });
  const hasTwoLines = isNarrow.value && twoLines !== undefined;
  const isTall = hasTwoLines || props.isTall === true;
  const height = isTall ? twoLineHeight : rowHeight;
  const columns = hasTwoLines
    ? [{ name: 'lines', title: label, cell: twoLines }]
    : props.columns.filter(({ wide }) => wide !== true || !isNarrow.value);
  const measure = (): void => {
    const { scrollTop: top = 0, clientHeight = 0 } = box.current ?? {};
    if (view.peek().top !== top || view.peek().height !== clientHeight) view.value = { top, height: clientHeight };
  };
  useLayoutEffect(measure);
  useEffect(() => {
    window.addEventListener('resize', measure);
    return () => window.removeEventListener('resize', measure);
  }, []);
  const focused = useFocusedRow(props, box, height, view.value.height);
  const hold = useHold(focused.key !== null, props.onHold);

  const first = Math.max(0, Math.floor(view.value.top / height) - margin);
  const last = Math.min(rows.length, Math.ceil((view.value.top + view.value.height) / height) + margin);
  return (
    <div class={isTall ? 'table-box two-lines' : 'table-box'} ref={box} onScroll={measure} {...hold}>
      <table aria-label={label} aria-rowcount={rows.length + 1}>
        <colgroup>
          {selection !== undefined && <col class="select" />}
          {columns.map(({ name, width }) => (
            <col key={name} style={width === undefined ? {} : { width }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {selection !== undefined && (
              <td class="select">
                <input
                  type="checkbox"
                  aria-label="Select all rows"
                  checked={selection.state === 'all'}
                  ref={(input) => {
                    if (input !== null) input.indeterminate = selection.state === 'some';
                  }}
                  onChange={selection.toggleAll}
                />
              </td>
            )}
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="space" style={{ height: `${first * height}px` }} aria-hidden="true" />}
          {rows.slice(first, last).map((row, index) => (
            <TableRow
              key={keyOf(row)}
              row={row}
              id={keyOf(row)}
              index={first + index + 2}
              columns={columns as readonly Column<unknown>[]}
              layout={columns.map(({ name }) => name).join()}
              isFocused={keyOf(row) === focused.key}
              isSelected={selection?.has(keyOf(row)) ?? null}
              onToggle={selection?.toggle}
              onOpen={onOpen as ((row: unknown) => void) | undefined}
            />
          ))}
          {last < rows.length && (
            <tr class="space" style={{ height: `${(rows.length - last) * height}px` }} aria-hidden="true" />
          )}
        </tbody>
      </table>
    </div>
  );
}

/** The row that the keys choose. It has the focus of the browser, so that screen readers read it. */
function useFocusedRow<Row>(
  { rows, keyOf, onOpen, selection }: TableProps<Row>,
  box: { readonly current: HTMLDivElement | null },
  height: number,
  viewHeight: number,
): { readonly key: string | null } {
  const focused = useSignal<string | null>(null);
  const at = focused.value === null ? -1 : rows.findIndex((row) => keyOf(row) === focused.value);
  const move = (step: number): void => {
    const next = Math.min(Math.max(at === -1 && step > 0 ? 0 : at + step, 0), rows.length - 1);
    const row = rows[next];
    const element = box.current;
    if (row === undefined || element === null) return;
    focused.value = keyOf(row);
    const top = next * height;
    const visible = element.clientHeight - rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + visible) element.scrollTop = top + height - visible;
  };
  useEffect(() => {
    if (focused.value !== null) box.current?.querySelector<HTMLElement>('tr.focused')?.focus({ preventScroll: true });
  }, [focused.value]);
  const page = Math.max(1, Math.floor(viewHeight / height) - 2);
  useKeys(
    [
      { key: 'j', summary: 'Next row', act: () => move(1) },
      { key: 'k', summary: 'Previous row', act: () => move(-1) },
      { key: 'PageDown', summary: 'Next page of rows', act: () => move(page) },
      { key: 'PageUp', summary: 'Previous page of rows', act: () => move(-page) },
      {
        key: 'Enter',
        summary: 'Open the row',
        act: () => {
          // Enter belongs to a control that has the focus.
          const active = document.activeElement;
          if (active instanceof HTMLElement && active.matches('button, a, summary, input')) return active.click();
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
      ...(focused.value === null ? [] : [{ key: 'Escape', summary: 'Leave the row', act: () => leave() }]),
    ],
    [rows, at, page, selection, height],
  );
  const leave = (): void => {
    focused.value = null;
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  };
  return { key: focused.value };
}

/** Handlers that report when a person begins to use the table, and when the person stops. */
function useHold(hasFocusedRow: boolean, onHold: ((isHeld: boolean) => void) | undefined) {
  const inside = useRef({ pointer: false, focus: false });
  const note = (change: Partial<typeof inside.current>): void => {
    inside.current = { ...inside.current, ...change };
    onHold?.(inside.current.pointer || inside.current.focus || hasFocusedRow);
  };
  useEffect(() => note({}), [hasFocusedRow]);
  return {
    // A finger points only while it touches.
    onPointerEnter: ({ pointerType }: PointerEvent) => note({ pointer: pointerType !== 'touch' }),
    onPointerLeave: () => note({ pointer: false }),
    onFocusIn: () => note({ focus: true }),
    onFocusOut: () => note({ focus: false }),
  };
}

interface RowProps {
  readonly row: unknown;
  readonly id: string;
  readonly index: number;
  readonly columns: readonly Column<unknown>[];
  /** Changes with the columns. */
  readonly layout: string;
  readonly isFocused: boolean;
  /** Null if rows cannot be selected. */
  readonly isSelected: boolean | null;
  readonly onToggle: ((key: string) => void) | undefined;
  readonly onOpen: ((row: unknown) => void) | undefined;
}

/** Drawn again only if its contents have changed. */
const TableRow = memo(
  function TableRow(props: RowProps) {
    const { row, id, index, columns, isFocused, isSelected, onToggle, onOpen } = props;
    const open = (event: MouseEvent): void => {
      const isControl = event.target instanceof Element && event.target.closest('a, button, input, label') !== null;
      if (!isControl && window.getSelection()?.isCollapsed !== false) onOpen?.(row);
    };
    return (
      <tr
        aria-rowindex={index}
        aria-selected={isSelected ?? undefined}
        tabIndex={isFocused ? 0 : undefined}
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
  },
  (one, other) =>
    one.row === other.row &&
    one.index === other.index &&
    one.layout === other.layout &&
    one.isFocused === other.isFocused &&
    one.isSelected === other.isSelected,
);

function classOf({ name, align }: Column<never>): string {
  return [`column-${name}`, ...(align === undefined ? [] : [align])].join(' ');
}
