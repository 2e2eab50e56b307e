import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { StoredObject } from './objects.ts';

export interface ListQuery {
  readonly prefix: string;
  readonly delimiter: string;
  /** Inclusive. */
  readonly startOffset: string;
  /** Exclusive; empty for all. */
  readonly endOffset: string;
  /** Exclusive: the last name of the previous page. */
  readonly after: string;
  readonly includeTrailingDelimiter: boolean;
  readonly limit: number;
}

export interface Listing {
  readonly items: readonly StoredObject[];
  readonly prefixes: readonly string[];
  /** The last name of this page, if there are more. */
  readonly next: string | undefined;
}

interface WalkEntry {
  readonly name: string;
  readonly path: string;
}

/** One page of a bucket's objects. `root` is its folder; `findObject` returns undefined for any other file. */
export function listObjects(
  root: string,
  query: ListQuery,
  findObject: (name: string, path: string) => StoredObject | undefined,
): Listing {
  const { prefix, delimiter, startOffset, endOffset, after, includeTrailingDelimiter, limit } = query;
  const items: StoredObject[] = [];
  const prefixes: string[] = [];
  let last = '';
  for (const { name, path } of walk(root, '', query)) {
    if (!name.startsWith(prefix)) continue;
    if (endOffset !== '' && name >= endOffset) break;
    const end = delimiter === '' ? -1 : name.indexOf(delimiter, prefix.length);
    const folded = end < 0 ? undefined : name.slice(0, end + delimiter.length);
    const listedName = folded ?? name;
    if (listedName <= after || (name < startOffset && listedName < startOffset)) continue;
    const isItem = folded === undefined || (includeTrailingDelimiter && folded === name);
    const item = isItem ? findObject(name, path) : undefined;
    const isPrefix = folded !== undefined && prefixes.at(-1) !== folded;
    if (item === undefined && !isPrefix) continue;
    if (items.length + prefixes.length >= limit) return { items, prefixes, next: last };
    if (item !== undefined) items.push(item);
    if (isPrefix) prefixes.push(folded);
    last = listedName;
  }
  return { items, prefixes, next: undefined };
}

/** Names in the order of whole names: a folder sorts with its slash. */
function* walk(root: string, folder: string, query: ListQuery): Generator<WalkEntry> {
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
    // Skip folders before or outside the requested range without reading them.
    const isOutsidePrefix = !name.startsWith(query.prefix) && !query.prefix.startsWith(name);
    const isBefore = [query.after, query.startOffset].some((start) => name < start && !start.startsWith(name));
    if (isOutsidePrefix || isBefore) continue;
    yield { name, path: join(path, own) };
    const isFolded = query.delimiter === '/' && name.length > query.prefix.length;
    if (!isFolded) yield* walk(root, name, query);
  }
}

/** Empty when a worker has removed the folder, or when its name is too long or no UTF-8 and cannot be opened. */
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
