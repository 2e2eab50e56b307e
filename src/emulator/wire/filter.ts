/**
 * `filter` and `orderBy` of the lists that take them (locations, accelerator types, versions, operations), in the notation
 * of Google's AIP-160 and AIP-132: `type = "v6e-*" AND NOT name : pod`, `done = true`, `type desc, name`.
 */
import { camelCase } from './decode.ts';
import { badField, type CloudError } from './errors.ts';
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
export function compareValues(one: string, other: string): number {
  const numbers = [Number(one), Number(other)] as const;
  if (one !== '' && other !== '' && numbers.every(Number.isFinite) && numbers[0] !== numbers[1]) {
    return numbers[0] - numbers[1];
  }
  return one < other ? -1 : one > other ? 1 : 0;
}
