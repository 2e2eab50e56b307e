// YAML: the text as maps, lists and scalars, each with the place where it was written. Everything after this file works on
// the tree and knows nothing of YAML.

import { isAlias, isMap, isNode, isPair, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import type { Document } from 'yaml';
import { refuse } from '../schema/kind.ts';
import type { Place, Report } from '../schema/problems.ts';
import type { Entry, Mapping, Scalar, Tree } from '../schema/tree.ts';

/** Aliases can multiply a small text into a huge tree; no honest manifest has this many values. */
const nodesMost = 20_000;
/** Deeper nesting is a mistake or an attack on the stack. */
const depthMost = 64;

/** Repeated keys are found here, where their places are known exactly. */
const options = { prettyErrors: false, logLevel: 'error', uniqueKeys: false } as const;

export interface ParsedText {
  /** Undefined when the text is no YAML map, or empty; the report then says so. */
  readonly tree: Mapping | undefined;
  readonly linePos: (offset: number) => { line: number; col: number };
}

/** Parses a manifest's text. Every mistake of the YAML itself is reported; never throws for what a text holds. */
export function parseText(text: string, report: Report): ParsedText {
  const lines = new LineCounter();
  const linePos = (offset: number) => lines.linePos(offset);
  const whole: Place = { in: 'file', offset: 0 };
  const document = parsed(text, lines);
  if (document === undefined) {
    return { tree: refuse({ place: whole }, [], report, `is nested deeper than ${depthMost} levels`), linePos };
  }

  const seen = new Set<number>();
  for (const error of document.errors) {
    // One slip often raises several errors at one place; the first names it best.
    if (seen.has(linePos(error.pos[0]).line)) continue;
    seen.add(linePos(error.pos[0]).line);
    refuse({ place: { in: 'file', offset: error.pos[0] } }, [], report, yamlWords(error));
  }
  for (const warning of document.warnings) {
    refuse({ place: { in: 'file', offset: warning.pos[0] } }, [], report, `YAML: ${firstLine(warning.message)}`);
  }
  if (document.errors.length > 0) return { tree: undefined, linePos };
  if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) {
    return { tree: refuse({ place: whole }, [], report, 'the manifest is empty'), linePos };
  }
  const tree = treeOf(document, (offset) => ({ in: 'file', offset }), report);
  if (tree !== undefined && tree.kind !== 'map') {
    const is = tree.kind === 'list' ? 'a list' : 'a single value';
    const message = `a manifest is a map of sections (job:, tpu:, command:), this is ${is}`;
    return { tree: refuse(tree, [], report, message), linePos };
  }
  return { tree, linePos };
}

/** Parses a value of the command line (`--set a.b=VALUE`) as YAML; what is no YAML is text. */
export function parseValue(text: string, set: string): Tree {
  const place: Place = { in: 'set', set };
  const plain: Scalar = { kind: 'scalar', value: text, source: text, place };
  const document = parsed(text);
  if (document === undefined || document.errors.length > 0 || document.warnings.length > 0) return plain;
  // An alias in a value has nothing to stand for; such a text is taken as it is.
  let failed = false;
  const fail: Report = { problem: () => (failed = true), warning: () => {} };
  const tree = document.contents === null ? undefined : treeOf(document, () => place, fail);
  if (text === '') return { ...plain, value: '' };
  return tree === undefined || failed ? plain : tree;
}

/** The text as the library reads it; undefined where it is nested so deeply that the library's stack does not suffice. */
function parsed(text: string, lineCounter?: LineCounter): Document.Parsed | undefined {
  try {
    return parseDocument(text, lineCounter === undefined ? options : { ...options, lineCounter });
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** The parsed document as a tree, aliases and merge keys followed. Undefined after having reported what is too much. */
function treeOf(document: Document.Parsed, at: (offset: number) => Place, report: Report): Tree | undefined {
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
    if (path.length > depthMost) {
      refuse({ place }, path.slice(0, 4), report, `is nested deeper than ${depthMost} levels`);
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
        if (entries.has(key)) {
          refuse({ place: keyPlace }, [...path, key], report, 'stands twice in this map; keep one of them');
          continue;
        }
        const value = convert(pair.value, [...path, key], keyOffset, inner);
        if (key === '<<' && pair.key.type === 'PLAIN') merges.push({ tree: value, place: keyPlace });
        else entries.set(key, { place: keyPlace, value });
      }
      for (const merge of merges) mergeInto(entries, merge.tree, merge.place, path, report);
      return { kind: 'map', entries, place, owner: at(offset) };
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

/** The parser's own words for the frequent slips say what the grammar wanted; ours say what to do. */
function yamlWords(error: { readonly code: string; readonly message: string }): string {
  switch (error.code) {
    case 'TAB_AS_INDENT':
      return 'a tab indents this line; YAML wants spaces';
    case 'MULTIPLE_DOCS':
      return 'a manifest is one YAML document; a second one begins here (---)';
    case 'BLOCK_AS_IMPLICIT_KEY':
      return 'a value with a second `key:` in it: put it on its own line, or in quotes';
    case 'MULTILINE_IMPLICIT_KEY':
      return 'a key goes on over several lines: the line before lacks its colon, or a quote is not closed';
    case 'BAD_INDENT':
      return 'this line is indented otherwise than what it belongs to';
    case 'MISSING_CHAR':
      if (error.message.startsWith('Implicit map keys')) return 'a word without a colon; write `key: value`';
      if (error.message.startsWith('Missing closing')) return 'a quote is not closed';
      return `YAML: ${firstLine(error.message)}`;
    default:
      if (error.message.includes('call stack')) return `is nested deeper than ${depthMost} levels`;
      return `YAML: ${firstLine(error.message)}`;
  }
}

function firstLine(text: string): string {
  const [line = ''] = text.split('\n', 1);
  return line.replace(/[.:]$/, '');
}
