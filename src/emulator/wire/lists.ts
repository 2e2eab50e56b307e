/**
 * Pages, `fields`, `filter` and `orderBy` of lists, as in Google's AIP-160 and AIP-132: `type = "v6e-*" AND NOT name :
 * pod`, `done = true`, `type desc, name`.
 */

import { createHash } from 'node:crypto';
import { invalidField, type CloudError } from './errors.ts';
import { camelCase } from './json.ts';
import type { Data } from './messages.ts';

type Predicate = (item: Data) => boolean;

/** An empty filter matches everything. Throws CloudError. */
export function parseFilter(text: string): Predicate {
  const tokens: string[] = text.match(/"(?:[^"\\]|\\.)*"|<=|>=|!=|[=<>:()]|[^\s=<>:()!"]+|\S/g) ?? [];
  if (tokens.length === 0) return () => true;
  let at = 0;
  const bad = (): CloudError => invalidField('filter', `Invalid value at 'filter', ${JSON.stringify(text)}`);

  // In AIP-160, OR binds closer than AND, and adjacent terms are joined by AND.
  const all = (): Predicate => {
    const tests = [either()];
    while (at < tokens.length && tokens[at] !== ')') {
      if (tokens[at] === 'AND') at += 1;
      tests.push(either());
    }
    return (item) => tests.every((test) => test(item));
  };
  const either = (): Predicate => {
    const tests = [term()];
    while (tokens[at] === 'OR') {
      at += 1;
      tests.push(term());
    }
    return (item) => tests.some((test) => test(item));
  };
  const term = (): Predicate => {
    const token = tokens[at] ?? '';
    if (token === 'NOT' || token.startsWith('-')) {
      // A minus is part of the field's token.
      if (token === 'NOT' || token === '-') at += 1;
      else tokens[at] = token.slice(1);
      const test = term();
      return (item) => !test(item);
    }
    if (tokens[at] === '(') {
      at += 1;
      const test = all();
      if (tokens[at] !== ')') throw bad();
      at += 1;
      return test;
    }
    return comparison();
  };
  const comparison = (): Predicate => {
    const [field = '', operator = '', literal = ''] = tokens.slice(at, at + 3);
    if (!/^[A-Za-z_][\w.]*$/.test(field) || !/^(?:[=:<>]|<=|>=|!=)$/.test(operator) || !/^["\w*]/.test(literal))
      throw bad();
    at += 3;
    const value = literal.startsWith('"') ? literal.slice(1, -1).replace(/\\(.)/g, '$1') : literal;
    return (item) => holds(valueAt(item, field), operator, value);
  };

  const test = all();
  if (at < tokens.length) throw bad();
  return test;
}

/** Throws CloudError. */
export function parseOrderBy(text: string): readonly { readonly field: string; readonly descends: boolean }[] {
  if (text.trim() === '') return [];
  return text.split(',').map((part) => {
    const [, field = '', direction = ''] = /^\s*([A-Za-z_][\w.]*)(?:\s+(asc|desc))?\s*$/.exec(part) ?? [];
    if (field === '') throw invalidField('order_by', `Invalid value at 'order_by', ${JSON.stringify(text)}`);
    return { field, descends: direction === 'desc' };
  });
}

/** The value at `a.b` of a message, as text; '' when absent, as in proto. For a list, the values of all its items. */
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
  // An absent field has its default value: `done = false` matches a message without `done`.
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

/** `*` at either end of the value matches any text. */
function matches(found: string, value: string): boolean {
  const bare = value.replace(/^\*|\*$/g, '');
  if (value.startsWith('*') && value.endsWith('*')) return found.includes(bare);
  if (value.startsWith('*')) return found.endsWith(bare);
  return value.endsWith('*') ? found.startsWith(bare) : found === value;
}

/** Compares numbers by value, and other text, or two forms of one number, as text. Only equal texts are equal. */
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
  readonly nextPageToken?: string;
}

/** The position of an item in its list, most significant key first. */
export type SortKeys = readonly { readonly value: string; readonly descends: boolean }[];

/** A token of another list (path, filter, order) is refused. Changes between two pages cause no duplicates or gaps. */
export function paginate<T>(
  items: readonly T[],
  sortKeysOf: (item: T) => SortKeys,
  list: string,
  query: { readonly pageSize?: string | undefined; readonly pageToken?: string | undefined },
): Page<T> {
  const listHash = createHash('sha256').update(list).digest('base64url').slice(0, 12);
  const size = Math.min(readSize(query.pageSize), pageSizeMax);
  const after = readToken(query.pageToken, listHash);
  const valuesOf = (keys: SortKeys): string[] => keys.map(({ value }) => value);
  const sorted = items
    .map((item) => ({ item, keys: sortKeysOf(item) }))
    .filter(({ keys }) => after === undefined || compare(keys, after) > 0)
    .toSorted((one, other) => compare(one.keys, valuesOf(other.keys)));
  const page = sorted.slice(0, size);
  const last = page.at(-1);
  const found = page.map(({ item }) => item);
  if (sorted.length <= size || last === undefined) return { items: found };
  const token = JSON.stringify([listHash, ...valuesOf(last.keys)]);
  return { items: found, nextPageToken: Buffer.from(token).toString('base64url') };
}

function compare(keys: SortKeys, others: readonly string[]): number {
  for (const [index, { value, descends }] of keys.entries()) {
    const order = compareValues(value, others[index] ?? '');
    if (order !== 0) return descends ? -order : order;
  }
  return 0;
}

function readSize(text: string | undefined): number {
  if (text === undefined || text === '' || text === '0') return pageSizeDefault;
  if (!/^\d+$/.test(text)) {
    throw invalidField('page_size', `Invalid value at 'page_size' (TYPE_INT32), ${JSON.stringify(text)}`);
  }
  return Number(text);
}

function readToken(token: string | undefined, listHash: string): string[] | undefined {
  if (token === undefined || token === '') return undefined;
  try {
    const [owner, ...values] = JSON.parse(Buffer.from(token, 'base64url').toString('utf8')) as unknown[];
    if (owner === listHash && values.every((value) => typeof value === 'string')) return values;
  } catch {
    // Refused below, like a token of another list.
  }
  throw invalidField('page_token', `The page token ${JSON.stringify(token)} is not valid for this list.`);
}

type FieldMask = Map<string, FieldMask | null>;

/** Keeps only the parts of a reply that `fields` names. Throws CloudError for invalid syntax. */
export function selectFields(reply: Data, fields: string): Data {
  return pickFields(reply, parseFieldMask(fields)) as Data;
}

function pickFields(value: unknown, wanted: FieldMask | null | undefined): unknown {
  if (wanted === null || wanted === undefined) return value;
  if (Array.isArray(value)) return value.map((item) => pickFields(item, wanted));
  if (value === null || typeof value !== 'object') return value;
  const all = wanted.get('*');
  const kept: Data = {};
  for (const [name, inner] of Object.entries(value)) {
    if (wanted.has(name)) kept[name] = pickFields(inner, wanted.get(name));
    else if (all !== undefined) kept[name] = pickFields(inner, all);
  }
  return kept;
}

function parseFieldMask(text: string): FieldMask {
  const tokens = text.match(/[A-Za-z0-9_@*-]+|[^\sA-Za-z0-9_@*-]/g) ?? [];
  let at = 0;
  const list = (): FieldMask => {
    const wanted: FieldMask = new Map();
    for (;;) {
      let inside = wanted;
      for (;;) {
        const token = tokens[at];
        if (token === undefined || !/^[A-Za-z0-9_@*-]+$/.test(token)) throw badFields(text);
        at += 1;
        const name = camelCase(token);
        const known = inside.get(name);
        const sign = tokens[at];
        if (sign === '/' || sign === '.') {
          at += 1;
          const next: FieldMask = known ?? new Map();
          // A part that is selected as a whole stays so, even if its parts are also named.
          if (known !== null) inside.set(name, next);
          inside = next;
          continue;
        }
        if (sign === '(') {
          at += 1;
          const next = list();
          if (tokens[at] !== ')') throw badFields(text);
          at += 1;
          if (known !== null) inside.set(name, new Map([...(known ?? []), ...next]));
        } else {
          inside.set(name, null);
        }
        break;
      }
      if (tokens[at] !== ',') return wanted;
      at += 1;
    }
  };
  const wanted = list();
  if (at < tokens.length) throw badFields(text);
  return wanted;
}

function badFields(text: string): CloudError {
  return invalidField('fields', `Invalid field selection ${text}`);
}
