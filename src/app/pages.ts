// Pages: a list that grows without bound is read in pages. A page begins after the key of a row: its position in an order
// that never changes. So no row comes twice, and none is left out that exists all the time.

import { usageError } from './errors.ts';

/** Asks for a page of a list. Without a limit: all rows that follow; over HTTP 1,000 at most. */
export interface Page {
  readonly limit?: number;
  /** Continues after a page: its `next`. The filters are the same. */
  readonly cursor?: string;
}

/** `next`: the cursor of the next page; absent after the last one. A page may have fewer rows than its limit. */
export type Rows<Row, Next = string> = readonly Row[] & { readonly next?: Next };

/** As in the columns by which the list is sorted. */
export type Key = readonly (string | number)[];

/** The part of a list that a page asks for. */
export interface Span {
  readonly after?: Key;
  readonly limit?: number;
}

/** The parts of each key. */
const kinds = {
  jobs: ['count'],
  events: ['count'],
  usage: ['text', 'count'],
  tokens: ['text', 'time', 'text'],
  messages: ['count'],
  audit: ['count'],
  archive: ['time', 'text'],
  'archived-events': ['time', 'count', 'text'],
  cleanable: ['count'],
  logs: ['count', 'count', 'count'],
  'lab-jobs': ['count'],
  windows: ['count', 'text', 'time', 'count', 'count'],
  news: ['count'],
} as const;

type List = keyof typeof kinds;

/** Over HTTP. */
export const maxPage = 1000;

/** Throws JobmanError (2). */
export function spanOf(list: List, { limit, cursor }: Page): Span {
  if (limit !== undefined) requireLimit(limit);
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(cursor === undefined ? {} : { after: readCursor(list, cursor) }),
  };
}

/** Throws JobmanError (2). */
export function requireLimit(limit: number, what = 'limit'): void {
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw usageError(`\`${what}\` must be a whole number of at least 1, not ${limit}.`);
}

// A cursor is opaque, so that another order can have another cursor.

export function cursorOf(list: List, key: Key): string {
  return Buffer.from(JSON.stringify([list, ...key])).toString('base64url');
}

/** Throws JobmanError (2). */
export function readCursor(list: List, cursor: string): Key {
  try {
    const [name, ...key] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as readonly unknown[];
    const isKey =
      name === list && key.length === kinds[list].length && kinds[list].every((kind, at) => isPart(key[at], kind));
    if (isKey) return key as Key;
  } catch {
    // No cursor of any list.
  }
  throw usageError('The cursor does not belong to this list. Use `next` of the previous page.');
}

/** PostgreSQL has counts of 32 bits, and no text with NUL. */
function isPart(value: unknown, kind: 'count' | 'time' | 'text'): boolean {
  if (kind === 'text') return typeof value === 'string' && !value.includes('\0');
  return Number.isSafeInteger(value) && (kind === 'time' || Math.abs(Number(value)) < 2 ** 31);
}

/** `rows`: one more than the limit, if there are more. */
export function firstRows<Row>(
  rows: readonly Row[],
  limit: number | undefined,
  keyOf: (row: Row) => Key,
): Rows<Row, Key> {
  const last = limit === undefined || rows.length <= limit ? undefined : rows[limit - 1];
  return last === undefined ? rows.slice(0, limit) : withNext(rows.slice(0, limit), keyOf(last));
}

/** A page of a list that is in memory. Without a limit and a cursor, all rows in their order. Throws JobmanError (2). */
export function pageOf<Row>(list: List, rows: readonly Row[], page: Page, keyOf: (row: Row) => Key): Rows<Row> {
  const { after, limit } = spanOf(list, page);
  if (after === undefined && limit === undefined) return rows;
  const rest = after === undefined ? rows : rows.filter((row) => compareKeys(keyOf(row), after) > 0);
  const found = firstRows(
    rest.toSorted((one, other) => compareKeys(keyOf(one), keyOf(other))),
    limit,
    keyOf,
  );
  return withCursor(list, found, found.next);
}

function compareKeys(one: Key, other: Key): number {
  const at = one.findIndex((part, index) => part !== other[index]);
  return at === -1 ? 0 : (one[at] ?? 0) < (other[at] ?? 0) ? -1 : 1;
}

export function withNext<Row, Next>(rows: readonly Row[], next: Next | undefined): Rows<Row, Next> {
  return next === undefined ? rows : Object.assign([...rows], { next });
}

export function withCursor<Row>(list: List, rows: readonly Row[], next: Key | undefined): Rows<Row> {
  return withNext(rows, next && cursorOf(list, next));
}
