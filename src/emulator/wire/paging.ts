// Pages of a list. A token is opaque to clients: it names where to go on, and the list that it belongs to.

import { createHash } from 'node:crypto';
import { badField } from './errors.ts';

const pageSizeDefault = 500;
const pageSizeMax = 1000;

export interface Page<T> {
  readonly items: readonly T[];
  /** Absent on the last page. */
  readonly nextPageToken?: string;
}

/**
 * One page of `items`, which are sorted by `nameOf` here. `list` says which list it is (path and filter): a token of
 * another one is refused. A name that appears or goes between two pages neither repeats nor hides others.
 */
export function pageOf<T>(
  items: readonly T[],
  nameOf: (item: T) => string,
  list: string,
  query: { readonly pageSize?: string | undefined; readonly pageToken?: string | undefined },
): Page<T> {
  const seal = createHash('sha256').update(list).digest('base64url').slice(0, 12);
  const size = Math.min(readSize(query.pageSize), pageSizeMax);
  const after = readToken(query.pageToken, seal);
  const sorted = items
    .filter((item) => after === undefined || nameOf(item) > after)
    .toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const page = sorted.slice(0, size);
  const last = page.at(-1);
  if (sorted.length <= size || last === undefined) return { items: page };
  return { items: page, nextPageToken: Buffer.from(JSON.stringify([seal, nameOf(last)])).toString('base64url') };
}

function readSize(text: string | undefined): number {
  if (text === undefined || text === '' || text === '0') return pageSizeDefault;
  if (!/^\d+$/.test(text)) {
    throw badField('page_size', `Invalid value at 'page_size' (TYPE_INT32), ${JSON.stringify(text)}`);
  }
  return Number(text);
}

function readToken(token: string | undefined, seal: string): string | undefined {
  if (token === undefined || token === '') return undefined;
  try {
    const [owner, name] = JSON.parse(Buffer.from(token, 'base64url').toString('utf8')) as [unknown, unknown];
    if (owner === seal && typeof name === 'string') return name;
  } catch {
    // Not one of ours: refused below like a token of another list.
  }
  throw badField('page_token', `The page token ${JSON.stringify(token)} is not valid for this list.`);
}
