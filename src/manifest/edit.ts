// Edit: changes one value in the text of a manifest, for a form next to it. The rest of the text stays as it is, byte for byte
// where that is possible, with all comments in any case.

import { Document, isAlias, isMap, isNode, isScalar, isSeq, stringify, type Node, type Pair, type YAMLMap } from 'yaml';
import type { Path } from '../schema/kinds.ts';
import { parseYaml, textOf } from '../schema/yaml.ts';
import { aliasesAt } from './keys.ts';

/** The value of a key in the text. `other`: one that only the text can show, such as a map. */
export type WrittenValue =
  | { readonly kind: 'absent' }
  | { readonly kind: 'single'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly string[] }
  | { readonly kind: 'other' };

export type NewValue = string | number | boolean | readonly string[];

const format = { lineWidth: 0, flowCollectionPadding: false } as const;

/** Undefined for a text that is no YAML map, in which no key can be edited. */
export function parseForEditing(text: string): Document | undefined {
  const document = parseYaml(text);
  if (document === undefined || document.errors.length > 0) return undefined;
  const { contents } = document;
  return contents === null || isMap(contents) || isEmpty(contents) ? document : undefined;
}

/** Keys may be written with another of their names. */
export function valueAt(document: Document, path: Path): WrittenValue {
  const node: unknown = document.getIn(usedPath(document, path), true);
  if (node === undefined || isEmpty(node)) return { kind: 'absent' };
  if (isScalar(node)) return { kind: 'single', text: typeof node.value === 'string' ? node.value : textOf(node) };
  if (isSeq(node) && node.items.every((item) => isScalar(item)))
    return { kind: 'list', items: node.items.map((item) => textOf(item)) };
  return { kind: 'other' };
}

/** True if the text has the section, even an empty one. */
export function hasKey(document: Document, path: Path): boolean {
  return document.hasIn(usedPath(document, path));
}

/** The text with that value; null removes the key. Undefined if the text cannot have it, such as below an alias. */
export function withValue(text: string, path: Path, value: NewValue | null): string | undefined {
  const before = parseForEditing(text);
  const wanted = parseForEditing(text);
  if (before === undefined || wanted === undefined) return undefined;
  const at = usedPath(before, path);
  try {
    if (!change(wanted, at, value)) return undefined;
    const contents = JSON.stringify(wanted.toJS());
    const spliced = splice(text, before, at, value);
    if (spliced !== undefined && contentsOf(spliced) === contents) return spliced;
    const whole = wanted.toString(format);
    return contentsOf(whole) === contents ? whole : undefined;
  } catch (error) {
    // The library refuses a path below a single value, and aliases that multiply.
    if (error instanceof Error) return undefined;
    throw error;
  }
}

function contentsOf(text: string): string | undefined {
  const document = parseForEditing(text);
  return document === undefined ? undefined : JSON.stringify(document.toJS());
}

function usedPath(document: Document, path: Path): Path {
  const used: (string | number)[] = [];
  for (const [depth, part] of path.entries()) {
    const names = [part, ...aliasesAt(path.slice(0, depth + 1))];
    used.push(names.find((name) => document.hasIn([...used, name])) ?? part);
  }
  return used;
}

function isEmpty(node: unknown): boolean {
  return node === null || (isScalar(node) && node.value === null);
}

/** False if the key is below an alias, whose value other keys share. */
function change(document: Document, path: Path, value: NewValue | null): boolean {
  if (value === null) {
    document.deleteIn(path);
    return true;
  }
  for (let depth = 0; depth < path.length; depth += 1) {
    const parent: unknown = depth === 0 ? document.contents : document.getIn(path.slice(0, depth), true);
    if (isAlias(parent)) return false;
    if (depth === 0 && isEmpty(parent)) document.contents = document.createNode({});
    else if (parent !== undefined && isEmpty(parent)) document.setIn(path.slice(0, depth), document.createNode({}));
  }
  const last: unknown = document.getIn(path, true);
  const node = document.createNode(value, { flow: true }) as Node;
  if (isNode(last)) {
    node.comment = last.comment ?? null;
    node.commentBefore = last.commentBefore ?? null;
  }
  document.setIn(path, node);
  return true;
}

/** The text with only the lines of that value changed; undefined if this simple way does not apply. */
function splice(text: string, document: Document, path: Path, value: NewValue | null): string | undefined {
  const parents = path.slice(0, -1).map((_, depth) => pairAt(document, path.slice(0, depth + 1)));
  const pair = pairAt(document, path);
  const map: unknown = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (value === null)
    return pair === undefined || !isMap(map) ? undefined : withoutPair(text, map, pair, parents.at(-1));
  if (pair !== undefined) return withPairValue(text, pair, value);
  const name = String(path.at(-1));
  if (isMap(map) && map.items.length > 0) return withNewPair(text, map, name, value);
  if (path.length === 1) return append(text, `${name}: ${sourceOf(value, '')}`);
  const [section] = parents;
  if (path.length !== 2) return undefined;
  if (section === undefined) return append(text, `${String(path[0])}:\n  ${name}: ${sourceOf(value, '  ')}`);
  const { key, value: empty } = section;
  // `local: {}` or `tpu:` alone on its line.
  const start = endOf(key);
  const end = isNode(empty) && empty.range ? empty.range[1] : undefined;
  if (start === undefined || end === undefined || !/^:\s*(\{\s*\})?\s*$/.test(text.slice(start, end))) return undefined;
  return `${text.slice(0, start)}:${text.slice(Math.max(end, start + 1), lineEnd(text, end))}\n  ${name}: ${sourceOf(value, '  ')}${text.slice(lineEnd(text, end))}`;
}

function pairAt(document: Document, path: Path): Pair | undefined {
  const map: unknown = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  return isMap(map) ? map.items.find(({ key }) => textOf(key) === String(path.at(-1))) : undefined;
}

function withPairValue(text: string, { key, value: old }: Pair, value: NewValue): string | undefined {
  const [start, end] = isNode(old) && old.range ? old.range : [];
  const keyStart = startOf(key);
  if (start === undefined || end === undefined || keyStart === undefined) return undefined;
  const source = sourceOf(value, indentAt(text, keyStart) ?? '');
  if (isEmpty(old) && start === end) {
    // The library puts an empty value after the comment of its line.
    const colon = (endOf(key) ?? 0) + 1;
    return `${text.slice(0, colon)} ${source}${text.slice(colon)}`;
  }
  const newLine = text.slice(start, end).endsWith('\n') ? '\n' : '';
  return `${text.slice(0, start)}${source}${newLine}${text.slice(end)}`;
}

function withNewPair(text: string, map: YAMLMap, name: string, value: NewValue): string | undefined {
  const [first, last] = [map.items[0], map.items.at(-1)];
  const [start, end] = [startOf(first?.key), endOf(last?.value) ?? endOf(last?.key)];
  if (start === undefined || end === undefined) return undefined;
  if (map.flow === true) return `${text.slice(0, end)}, ${name}: ${sourceOf(value, '')}${text.slice(end)}`;
  const indent = indentAt(text, start);
  if (indent === undefined) return undefined;
  const content = text.slice(0, end).trimEnd().length;
  return insertLine(text, lineEnd(text, content), `${indent}${name}: ${sourceOf(value, indent)}`);
}

function withoutPair(text: string, map: YAMLMap, pair: Pair, parent: Pair | undefined): string | undefined {
  const [start, end] = [startOf(pair.key), endOf(pair.value) ?? endOf(pair.key)];
  if (start === undefined || end === undefined || map.flow === true) return undefined;
  const content = Math.max(start, text.slice(0, end).trimEnd().length);
  const after = Math.min(lineEnd(text, content) + 1, text.length);
  if (map.items.length > 1 || parent === undefined) {
    const from = text.lastIndexOf('\n', start - 1) + 1;
    return indentAt(text, start) === undefined ? undefined : text.slice(0, from) + text.slice(after);
  }
  // An empty section stays, because `local: {}` has a meaning. Comments in it would be lost.
  const colon = endOf(parent.key);
  if (colon === undefined || text.slice(colon, start).trim() !== ':') return undefined;
  return `${text.slice(0, colon)}: {}\n${text.slice(after)}`;
}

/** YAML of the value, for a key with that indentation. */
function sourceOf(value: NewValue, indent: string): string {
  if (typeof value === 'object') {
    const document = new Document(value);
    if (isSeq(document.contents)) document.contents.flow = true;
    return document.toString(format).trimEnd();
  }
  // The lines of a value without a key would not be indented.
  const source = stringify({ k: value }, { lineWidth: 0, blockQuote: 'literal' }).slice('k: '.length).trimEnd();
  return source.replaceAll(/\n(?=[^\n])/g, `\n${indent}`);
}

function append(text: string, lines: string): string {
  const whole = text === '' || text.endsWith('\n') ? text : `${text}\n`;
  return `${whole}${whole === '' ? '' : '\n'}${lines}\n`;
}

function insertLine(text: string, end: number, line: string): string {
  return `${text.slice(0, end)}\n${line}${text.slice(end)}${end === text.length ? '\n' : ''}`;
}

/** The white space before that position in its line; undefined if something else is there. */
function indentAt(text: string, position: number): string | undefined {
  const before = text.slice(text.lastIndexOf('\n', position - 1) + 1, position);
  return before.trim() === '' ? before : undefined;
}

function lineEnd(text: string, position: number): number {
  const end = text.indexOf('\n', position);
  return end === -1 ? text.length : end;
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined;
}

function endOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[1] : undefined;
}
