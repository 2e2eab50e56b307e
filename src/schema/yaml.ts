// YAML: a document of the `yaml` package as a tree, and the places in a JSON text, which is YAML, too.

import {
  CST,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  parseDocument,
  type Document,
  type LineCounter,
} from 'yaml';
import { refuse } from './kinds.ts';
import { newFindings, type Found, type Place, type Report } from './problems.ts';
import { JsonTextError, nestedMost, unseen, type Entry, type Repeated, type Scalar, type Tree } from './tree.ts';

/** Aliases can multiply a small text into a huge tree; no honest manifest has this many values. */
const nodesMost = 20_000;

/** Repeated keys are found here, where their places are known exactly. */
const options = { prettyErrors: false, logLevel: 'error', uniqueKeys: false } as const;

/** The text as the library reads it; undefined where it is nested so deeply that the library's stack does not suffice. */
export function parseYaml(text: string, lineCounter?: LineCounter): Document.Parsed | undefined {
  try {
    return parseDocument(text, lineCounter === undefined ? options : { ...options, lineCounter });
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** The document as a tree, aliases and merge keys followed; undefined after reporting what is too much. */
export function treeOf(
  document: Document.Parsed,
  at: (offset: number) => Place,
  report: Report,
  repeatedKeys: 'reported' | 'kept' = 'reported',
): Tree | undefined {
  let nodes = 0;
  let given = true;
  // An alias stands for the nearest node of that name before it.
  const anchors = new Map<string, unknown>();
  const visited = new WeakSet<object>();

  const convert = (
    node: unknown,
    path: readonly (string | number)[],
    offset: number,
    open: readonly unknown[],
  ): Tree => {
    const place = at(rangeStart(node) ?? offset);
    const nothing: Scalar = { kind: 'scalar', value: null, source: '', place };
    nodes += 1;
    if (nodes > nodesMost) {
      const message = `the manifest has more than ${nodesMost} values, once its aliases (*name) are followed`;
      if (given) refuse({ place: at(0) }, [], report, message);
      given = false;
      return nothing;
    }
    if (path.length > nestedMost) {
      refuse({ place }, path.slice(0, 4), report, `is nested deeper than ${nestedMost} levels`);
      return { kind: 'unknown', place };
    }
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined || open.includes(target)) {
        const what = target === undefined ? `no anchor &${node.source} stands before it` : 'it contains itself';
        refuse({ place }, path, report, `the alias *${node.source} cannot be followed: ${what}`);
        return { kind: 'unknown', place };
      }
      // A mistake behind an alias is one of the anchor, so the places are those of the anchor.
      return convert(target, path, offset, open);
    }
    if (isNode(node) && !visited.has(node)) {
      visited.add(node);
      if (!isAlias(node) && node.anchor !== undefined) anchors.set(node.anchor, node);
    }
    if (isMap(node)) {
      const entries = new Map<string, Entry>();
      const repeated: Repeated[] = [];
      const inner = [...open, node];
      const merges: { tree: Tree; place: Place }[] = [];
      for (const pair of node.items) {
        const keyOffset = rangeStart(pair.key) ?? rangeStart(node) ?? offset;
        const keyPlace = at(keyOffset);
        if (!isScalar(pair.key) || pair.key.value === null) {
          refuse({ place: keyPlace }, path, report, 'a key must be a plain word');
          continue;
        }
        const key = scalarOf(pair.key, keyPlace).source;
        const first = entries.get(key)?.place;
        if (first !== undefined && repeatedKeys === 'kept') repeated.push({ name: key, place: keyPlace, first });
        else if (first !== undefined) {
          refuse({ place: keyPlace }, [...path, key], report, 'stands twice in this map; keep one of them');
        }
        if (first !== undefined) continue;
        const value = convert(pair.value, [...path, key], keyOffset, inner);
        if (key === '<<' && pair.key.type === 'PLAIN') merges.push({ tree: value, place: keyPlace });
        else entries.set(key, { place: keyPlace, value });
      }
      for (const merge of merges) mergeInto(entries, merge.tree, merge.place, path, report);
      return { kind: 'map', entries, place, owner: at(offset), ...(repeated.length > 0 && { repeated }) };
    }
    if (isSeq(node)) {
      const inner = [...open, node];
      const items = node.items.map((item, index) =>
        convert(isPair(item) ? null : item, [...path, index], rangeStart(node) ?? offset, inner),
      );
      return { kind: 'list', items, place };
    }
    if (isScalar(node)) return scalarOf(node, place);
    return nothing;
  };

  const tree = convert(document.contents, [], 0, []);
  return given ? tree : undefined;
}

/** `<<: *base` puts the keys of another map below one's own. */
function mergeInto(
  entries: Map<string, Entry>,
  from: Tree,
  place: Place,
  path: readonly (string | number)[],
  report: Report,
): void {
  for (const source of from.kind === 'list' ? from.items : [from]) {
    if (source.kind === 'unknown') continue;
    if (source.kind !== 'map') {
      refuse({ place }, [...path, '<<'], report, 'merges a map (<<: *name), this is none');
      continue;
    }
    for (const [key, entry] of source.entries) if (!entries.has(key)) entries.set(key, entry);
  }
}

function scalarOf(node: { readonly value: unknown; readonly source?: string }, place: Place): Scalar {
  const { value } = node;
  const isPlain =
    typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' || value === null;
  // The core schema of YAML knows no other scalars; one that a tag made is taken as it was written.
  const known = isPlain ? value : (node.source ?? '');
  return { kind: 'scalar', value: known, source: node.source ?? String(known), place };
}

function rangeStart(node: unknown): number | undefined {
  if (typeof node !== 'object' || node === null || !('range' in node)) return undefined;
  const { range } = node as { range?: readonly number[] | null };
  return range?.[0];
}

// ------------------------------------------------------------------------------------------ JSON

/** The value of the text, with places. `called` names the text in messages. Throws JsonTextError where it is no JSON (RFC 8259). */
export function parseJson(written: string, called = 'the file'): Tree {
  // YAML does not know the single carriage return as white space.
  const text = written.replaceAll('\r', '\n');
  const mistake = jsonMistake(text, called);
  if (mistake !== undefined) throw new JsonTextError(mistake);
  const tree = treeOf(parseDocument(text, options), inFile, newFindings(), 'kept');
  if (tree === undefined) throw new JsonTextError(foundAt(0, `${called} holds more than ${nodesMost} values`));
  return tree;
}

function isJson(source: string): boolean {
  try {
    JSON.parse(source);
    return !unseen.test(source);
  } catch {
    return false;
  }
}

/** The first place at which a text is YAML at most: comments, bare words and trailing commas are no JSON. */
function jsonMistake(text: string, called: string): Found | undefined {
  const open: ('}' | ']')[] = [];
  let awaited: 'value' | 'name' | 'colon' | 'comma' = 'value';
  let before = { source: '', offset: 0 };
  for (const token of tokensOf(text)) {
    const { source, offset } = token;
    const end = open.at(-1);
    const isEnd = source === end && (awaited === 'comma' || /^[{[]$/.test(before.source));
    if (isEnd) {
      open.pop();
      awaited = 'comma';
    } else if (awaited === 'colon') {
      if (source !== ':') return foundAt(offset, noColon(before.source));
      awaited = 'value';
    } else if (awaited === 'comma') {
      if (end === undefined) return foundAt(offset, `${called} should hold one object, and goes on here`);
      if (source !== ',') return foundAt(offset, `"," or "${end}" is missing before this`);
      awaited = end === '}' ? 'name' : 'value';
    } else if (source === end && before.source === ',') {
      return foundAt(before.offset, 'no comma may stand after the last one');
    } else if (awaited === 'name') {
      if (/^[\w$]/.test(source)) return foundAt(offset, 'a name stands between double quotes');
      if (!source.startsWith('"') || !isJson(source)) return foundAt(offset, notJson(source));
      awaited = 'colon';
    } else if (source === '{' || source === '[') {
      if (open.length >= nestedMost) return foundAt(offset, 'this is nested too deep');
      open.push(source === '{' ? '}' : ']');
      awaited = source === '{' ? 'name' : 'value';
    } else {
      if (!isJson(source)) return foundAt(offset, notJson(source));
      awaited = 'comma';
    }
    before = token;
  }
  const end = open.at(-1);
  if (awaited === 'colon') return foundAt(text.length, noColon(before.source));
  if (awaited !== 'comma') return foundAt(text.length, `${called} ends here`);
  return end === undefined ? undefined : foundAt(text.length, `${called} ends here, and "${end}" is missing`);
}

/** The tokens that are not white space. The library takes bare words with a space between them for one. */
function* tokensOf(text: string): Generator<{ readonly source: string; readonly offset: number }> {
  let offset = 0;
  for (const token of new Lexer().lex(text)) {
    // Tokens of these characters say how the next one is to be read.
    if (token === CST.DOCUMENT || token === CST.FLOW_END || token === CST.SCALAR) continue;
    const parts = /^["'#]/.test(token) ? [{ 0: token, index: 0 }] : token.matchAll(/[^ \t\r\n\uFEFF]+/g);
    for (const { 0: source, index } of parts) yield { source, offset: offset + index };
    offset += token.length;
  }
}

function noColon(name: string): string {
  return `a colon should follow the name ${name}`;
}

function notJson(source: string): string {
  if (source.startsWith('"')) return 'this text does not end on its line, or holds a wrong \\';
  if (source.startsWith("'")) return 'texts stand between double quotes';
  if (/^(?:\/\/|\/\*|#)/.test(source)) return 'JSON has no comments';
  return `${JSON.stringify(String.fromCodePoint(source.codePointAt(0) ?? 0))} cannot stand here`;
}

function inFile(offset: number): Place {
  return { in: 'file', offset };
}

function foundAt(offset: number, message: string): Found {
  return { place: inFile(offset), path: '', message };
}
