// Pages of a list. A token is opaque to clients: it names where to go on, and the list that it belongs to.

import { createHash } from 'node:crypto';
import { badField } from './errors.ts';
import { compareValues } from './filter.ts';

const pageSizeDefault = 500;
const pageSizeMax = 1000;

export interface Page<T> {
  readonly items: readonly T[];
  /** Absent on the last page. */
  readonly nextPageToken?: string;
}

/** Where an item stands in its list: what it is sorted by, in order of weight. */
export type Standing = readonly { readonly value: string; readonly descends: boolean }[];

/**
 * One page of `items`, which are sorted here by what `standingOf` says. `list` says which list it is (path, filter, order):
 * a token of another one is refused. An item that appears or goes between two pages neither repeats nor hides others.
 */
export function pageOf<T>(
  items: readonly T[],
  standingOf: (item: T) => Standing,
  list: string,
  query: { readonly pageSize?: string | undefined; readonly pageToken?: string | undefined },
): Page<T> {
  const seal = createHash('sha256').update(list).digest('base64url').slice(0, 12);
  const size = Math.min(readSize(query.pageSize), pageSizeMax);
  const after = readToken(query.pageToken, seal);
  const valuesOf = (standing: Standing): string[] => standing.map(({ value }) => value);
  const sorted = items
    .map((item) => ({ item, standing: standingOf(item) }))
    .filter(({ standing }) => after === undefined || compare(standing, after) > 0)
    .toSorted((one, other) => compare(one.standing, valuesOf(other.standing)));
  const page = sorted.slice(0, size);
  const last = page.at(-1);
  const found = page.map(({ item }) => item);
  if (sorted.length <= size || last === undefined) return { items: found };
  const token = JSON.stringify([seal, ...valuesOf(last.standing)]);
  return { items: found, nextPageToken: Buffer.from(token).toString('base64url') };
}

function compare(standing: Standing, others: readonly string[]): number {
  for (const [index, { value, descends }] of standing.entries()) {
    const order = compareValues(value, others[index] ?? '');
    if (order !== 0) return descends ? -order : order;
  }
  return 0;
}

function readSize(text: string | undefined): number {
  if (text === undefined || text === '' || text === '0') return pageSizeDefault;
  if (!/^\d+$/.test(text)) {
    throw badField('page_size', `Invalid value at 'page_size' (TYPE_INT32), ${JSON.stringify(text)}`);
  }
  return Number(text);
}

function readToken(token: string | undefined, seal: string): string[] | undefined {
  if (token === undefined || token === '') return undefined;
  try {
    const [owner, ...values] = JSON.parse(Buffer.from(token, 'base64url').toString('utf8')) as unknown[];
    if (owner === seal && values.every((value) => typeof value === 'string')) return values;
  } catch {
    // Not one of ours: refused below like a token of another list.
  }
  throw badField('page_token', `The page token ${JSON.stringify(token)} is not valid for this list.`);
}
