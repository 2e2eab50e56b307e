// A long list in pages. The address contains the number of the page; without a number, the last page is shown.

import type { ComponentChildren } from 'preact';
import { useKeys } from '../keys.ts';
import { address, changeQuery } from '../location.ts';

interface PagerProps<Row> {
  /** The name of the rows: `events`. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly pageSize: number;
  readonly children: (rows: readonly Row[]) => ComponentChildren;
}

export function Pager<Row>({ label, rows, pageSize, children }: PagerProps<Row>) {
  const count = Math.max(1, Math.ceil(rows.length / pageSize));
  const wanted = Number(address.value.query.get('page') ?? count);
  const page = Number.isInteger(wanted) ? Math.min(count, Math.max(1, wanted)) : count;
  const open = (next: number): void => {
    const to = Math.min(count, Math.max(1, next));
    // The last page stays the last one when rows are added.
    changeQuery({ page: to === count ? null : String(to) });
  };
  useKeys(
    [
      { key: 'PageUp', summary: `Earlier ${label}`, act: () => open(page - 1) },
      { key: 'PageDown', summary: `Later ${label}`, act: () => open(page + 1) },
    ],
    [page, count],
  );
  const first = (page - 1) * pageSize;
  return (
    <>
      {count > 1 && (
        <nav class="bar pager" aria-label={`Pages of ${label}`}>
          <button aria-disabled={page === 1} onClick={() => open(1)}>
            First
          </button>
          <button aria-disabled={page === 1} onClick={() => open(page - 1)}>
            Earlier
          </button>
          <span>
            {first + 1} to {Math.min(rows.length, first + pageSize)} of {rows.length} {label}
          </span>
          <button aria-disabled={page === count} onClick={() => open(page + 1)}>
            Later
          </button>
          <button aria-disabled={page === count} onClick={() => open(count)}>
            Last
          </button>
        </nav>
      )}
      {children(rows.slice(first, first + pageSize))}
    </>
  );
}
