/**
 * What a list may be asked for: pages, `fields` (a part of each item), and `filter` and `orderBy` of the lists that take them
 * (locations, accelerator types, versions, operations), in the notation of Google's AIP-160 and AIP-132:
 * `type = "v6e-*" AND NOT name : pod`, `done = true`, `type desc, name`.
 */

import { createHash } from 'node:crypto';
import { badField, type CloudError } from './errors.ts';
import { camelCase } from './json.ts';
import type { Data } from './messages.ts';

type Test = (item: Data) => boolean;

/** Reads a filter. An empty one lets all pass. Throws CloudError where it cannot be read. */
export function readFilter(text: string): Test {
  const words: string[] = text.match(/"(?:[^"\\]|\\.)*"|<=|>=|!=|[=<>:()]|[^\s=<>:()!"]+|\S/g) ?? [];
  if (words.length === 0) return () => true;
  let at = 0;
  const bad = (): CloudError => badField('filter', `Invalid value at 'filter', ${JSON.stringify(text)}`);

  // OR binds closer than AND there; two terms side by side are both meant.
  const all = (): Test => {
    const tests = [either()];
    while (at < words.length && words[at] !== ')') {
      if (words[at] === 'AND') at += 1;
      tests.push(either());
    }
    return (item) => tests.every((test) => test(item));
  };
  const either = (): Test => {
    const tests = [term()];
    while (words[at] === 'OR') {
      at += 1;
      tests.push(term());
    }
    return (item) => tests.some((test) => test(item));
  };
  const term = (): Test => {
    const word = words[at] ?? '';
    if (word === 'NOT' || word.startsWith('-')) {
      // A minus is written at the field itself.
      if (word === 'NOT' || word === '-') at += 1;
      else words[at] = word.slice(1);
      const test = term();
      return (item) => !test(item);
    }
    if (words[at] === '(') {
      at += 1;
      const test = all();
      if (words[at] !== ')') throw bad();
      at += 1;
      return test;
    }
    return comparison();
  };
  const comparison = (): Test => {
    const [field = '', operator = '', said = ''] = words.slice(at, at + 3);
    if (!/^[A-Za-z_][\w.]*$/.test(field) || !/^(?:[=:<>]|<=|>=|!=)$/.test(operator) || !/^["\w*]/.test(said))
      throw bad();
    at += 3;
    const value = said.startsWith('"') ? said.slice(1, -1).replace(/\\(.)/g, '$1') : said;
    return (item) => holds(valueAt(item, field), operator, value);
  };

  const test = all();
  if (at < words.length) throw bad();
  return test;
}

/** Reads `type desc, name` into what an item is sorted by. Throws CloudError where it cannot be read. */
export function readOrder(text: string): readonly { readonly field: string; readonly descends: boolean }[] {
  if (text.trim() === '') return [];
  return text.split(',').map((part) => {
    const [, field = '', direction = ''] = /^\s*([A-Za-z_][\w.]*)(?:\s+(asc|desc))?\s*$/.exec(part) ?? [];
    if (field === '') throw badField('order_by', `Invalid value at 'order_by', ${JSON.stringify(text)}`);
    return { field, descends: direction === 'desc' };
  });
}

/** The value at `a.b` of a message, as text; '' where there is none, as in proto. A list gives those of all its items. */
export function valueAt(item: Data, path: string): string | readonly string[] {
  let values: unknown[] = [item];
  for (const name of path.split('.').map(camelCase)) {
    values = values.flatMap((value) => {
      const inner = value === null || typeof value !== 'object' ? undefined : (value as Data)[name];
      return inner === undefined ? [] : inner;
    });
  }
  const found = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  const [first = ''] = found;
  return found.length > 1 ? found : first;
}

function holds(found: string | readonly string[], operator: string, value: string): boolean {
  if (typeof found !== 'string') {
    return operator === '!=' ? !found.includes(value) : found.some((each) => holds(each, operator, value));
  }
  // A field that a message leaves out is its default: `done = false` holds where there is no `done`.
  const left = found === '' && (value === 'true' || value === 'false') ? 'false' : found;
  switch (operator) {
    case '=':
      return matches(left, value);
    case '!=':
      return !matches(left, value);
    case ':':
      return value === '*' ? left !== '' : left.toLowerCase().includes(value.toLowerCase().replaceAll('*', ''));
    default: {
      const order = compareValues(left, value);
      return (operator.startsWith('<') ? order < 0 : order > 0) || (operator.endsWith('=') && order === 0);
    }
  }
}

/** `*` at either end of the value stands for any letters. */
function matches(found: string, value: string): boolean {
  const bare = value.replace(/^\*|\*$/g, '');
  if (value.startsWith('*') && value.endsWith('*')) return found.includes(bare);
  if (value.startsWith('*')) return found.endsWith(bare);
  return value.endsWith('*') ? found.startsWith(bare) : found === value;
}

/** Numbers by size, all else (and different texts of one number) by letters: no two texts stand in one place. */
function compareValues(one: string, other: string): number {
  const numbers = [Number(one), Number(other)] as const;
  if (one !== '' && other !== '' && numbers.every(Number.isFinite) && numbers[0] !== numbers[1]) {
    return numbers[0] - numbers[1];
  }
  return one < other ? -1 : one > other ? 1 : 0;
}

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

/** The wanted part of a message; null wants all that is below. */
type Wanted = Map<string, Wanted | null>;

/** Leaves of a reply only what `fields` names. Throws CloudError when it is not written as it should be. */
export function select(reply: Data, fields: string): Data {
  return keep(reply, readFields(fields)) as Data;
}

function keep(value: unknown, wanted: Wanted | null | undefined): unknown {
  if (wanted === null || wanted === undefined) return value;
  if (Array.isArray(value)) return value.map((item) => keep(item, wanted));
  if (value === null || typeof value !== 'object') return value;
  const all = wanted.get('*');
  const kept: Data = {};
  for (const [name, inner] of Object.entries(value)) {
    if (wanted.has(name)) kept[name] = keep(inner, wanted.get(name));
    else if (all !== undefined) kept[name] = keep(inner, all);
  }
  return kept;
}

function readFields(text: string): Wanted {
  const words = text.match(/[A-Za-z0-9_@*-]+|[^\sA-Za-z0-9_@*-]/g) ?? [];
  let at = 0;
  const list = (): Wanted => {
    const wanted: Wanted = new Map();
    for (;;) {
      let inside = wanted;
      for (;;) {
        const word = words[at];
        if (word === undefined || !/^[A-Za-z0-9_@*-]+$/.test(word)) throw badFields(text);
        at += 1;
        const name = camelCase(word);
        const known = inside.get(name);
        const sign = words[at];
        if (sign === '/' || sign === '.') {
          at += 1;
          const next: Wanted = known ?? new Map();
          // A part that is wanted as a whole stays so, whatever else is said of its parts.
          if (known !== null) inside.set(name, next);
          inside = next;
          continue;
        }
        if (sign === '(') {
          at += 1;
          const next = list();
          if (words[at] !== ')') throw badFields(text);
          at += 1;
          if (known !== null) inside.set(name, new Map([...(known ?? []), ...next]));
        } else {
          inside.set(name, null);
        }
        break;
      }
      if (words[at] !== ',') return wanted;
      at += 1;
    }
  };
  const wanted = list();
  if (at < words.length) throw badFields(text);
  return wanted;
}

function badFields(text: string): CloudError {
  return badField('fields', `Invalid field selection ${text}`);
}
