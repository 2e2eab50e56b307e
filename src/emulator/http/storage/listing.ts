// Lists of objects: names in the order of whole names, folded at a delimiter, a page at a time.

import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { StoredObject } from './objects.ts';

export interface ListQuery {
  readonly prefix: string;
  readonly delimiter: string;
  /** Names not before this one. */
  readonly startOffset: string;
  /** Names before this one; empty for all. */
  readonly endOffset: string;
  /** Names after this one. */
  readonly after: string;
  readonly includeTrailingDelimiter: boolean;
  readonly most: number;
}

export interface Listing {
  readonly items: readonly StoredObject[];
  readonly prefixes: readonly string[];
  /** The last name, where there are more. */
  readonly next: string | undefined;
}

interface Named {
  readonly name: string;
  readonly path: string;
}

/** One page of a bucket's objects. `root` is its folder; `look` finds the object of a name, undefined where it is none. */
export function listObjects(
  root: string,
  query: ListQuery,
  look: (name: string, path: string) => StoredObject | undefined,
): Listing {
  const { prefix, delimiter, startOffset, endOffset, after, includeTrailingDelimiter, most } = query;
  const items: StoredObject[] = [];
  const prefixes: string[] = [];
  let last = '';
  for (const { name, path } of walk(root, '', query)) {
    if (!name.startsWith(prefix)) continue;
    if (endOffset !== '' && name >= endOffset) break;
    const end = delimiter === '' ? -1 : name.indexOf(delimiter, prefix.length);
    const folded = end < 0 ? undefined : name.slice(0, end + delimiter.length);
    const told = folded ?? name;
    if (told <= after || (name < startOffset && told < startOffset)) continue;
    const isItem = folded === undefined || (includeTrailingDelimiter && folded === name);
    const item = isItem ? look(name, path) : undefined;
    const isPrefix = folded !== undefined && prefixes.at(-1) !== folded;
    if (item === undefined && !isPrefix) continue;
    if (items.length + prefixes.length >= most) return { items, prefixes, next: last };
    if (item !== undefined) items.push(item);
    if (isPrefix) prefixes.push(folded);
    last = told;
  }
  return { items, prefixes, next: undefined };
}

/** Names of a folder in the order of whole names: a folder stands where its slash puts it. */
function* walk(root: string, folder: string, query: ListQuery): Generator<Named> {
  const path = join(root, folder);
  const names = entriesOf(path)
    .flatMap((entry) => (entry.isDirectory() ? [`${entry.name}/`] : entry.isFile() ? [entry.name] : []))
    .toSorted(compareTexts);
  for (const own of names) {
    const name = folder + own;
    if (!own.endsWith('/')) {
      yield { name, path: join(path, own) };
      continue;
    }
    // Whole folders that lie before what is asked for, or beside it, are not read.
    const isAside = !name.startsWith(query.prefix) && !query.prefix.startsWith(name);
    const isBefore = [query.after, query.startOffset].some((start) => name < start && !start.startsWith(name));
    if (isAside || isBefore) continue;
    yield { name, path: join(path, own) };
    const isFolded = query.delimiter === '/' && name.length > query.prefix.length;
    if (!isFolded) yield* walk(root, name, query);
  }
}

/** None of a folder that a worker has removed meanwhile, or that cannot be found by its name, which is no UTF-8 or too long. */
function entriesOf(path: string): Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? ''))
      return [];
    throw error;
  }
}

const compareTexts = (one: string, other: string): number => (one < other ? -1 : 1);
