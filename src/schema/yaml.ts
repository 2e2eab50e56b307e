// YAML: converts documents of the `yaml` package to trees. YAML includes JSON, so it also finds positions in JSON.

import {
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
import { reportProblem } from './kinds.ts';
import type { SourcePosition, Report } from './problems.ts';
import { maxDepth, type Entry, type Scalar, type Tree } from './tree.ts';

/** Limit for all values: aliases can multiply a small text into a huge tree. */
const maxNodes = 20_000;

/** Without `uniqueKeys`, because `treeOf` reports repeated keys with their exact positions. */
const options = { prettyErrors: false, logLevel: 'error', uniqueKeys: false } as const;

/** Undefined when the text is nested too deeply for the library's stack. */
export function parseYaml(text: string, lineCounter?: LineCounter): Document.Parsed | undefined {
  try {
    return parseDocument(text, lineCounter === undefined ? options : { ...options, lineCounter });
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** True if the text has more tokens than that; an entry of a map has about seven. Much faster than parsing. */
export function hasMoreTokens(text: string, most: number): boolean {
  let tokens = 0;
  for (const _token of new Lexer().lex(text)) if ((tokens += 1) > most) return true;
  return false;
}

/**
 * Resolves aliases and merge keys. A node has its own position, that of its text, or that of its parent. Undefined after
 * reporting that the document is too large.
 */
export function treeOf(
  document: Document,
  positionAt: (offset: number) => SourcePosition,
  report: Report,
  ownPositions: ReadonlyMap<unknown, SourcePosition> = new Map(),
): Tree | undefined {
  let nodes = 0;
  let isWithinLimit = true;
  const anchors = new Map<string, unknown>();
  const visited = new WeakSet<object>();

  const positionOf = (node: unknown, parent: SourcePosition): SourcePosition => {
    const offset = startOffset(node);
    return ownPositions.get(node) ?? (offset === undefined ? parent : positionAt(offset));
  };

  const convert = (
    node: unknown,
    path: readonly (string | number)[],
    parent: SourcePosition,
    openNodes: readonly unknown[],
  ): Tree => {
    const position = positionOf(node, parent);
    const emptyScalar: Scalar = { kind: 'scalar', value: null, source: '', position };
    nodes += 1;
    if (nodes > maxNodes) {
      const message = `the file has more than ${maxNodes} values after its aliases (*name) are resolved`;
      if (isWithinLimit) reportProblem({ position: positionAt(0) }, [], report, message);
      isWithinLimit = false;
      return emptyScalar;
    }
    if (path.length > maxDepth) {
      reportProblem({ position }, path.slice(0, 4), report, `is nested deeper than ${maxDepth} levels`);
      return { kind: 'unknown', position };
    }
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined || openNodes.includes(target)) {
        const reason = target === undefined ? `there is no anchor &${node.source} before it` : 'it contains itself';
        reportProblem({ position }, path, report, `the alias *${node.source} cannot be resolved: ${reason}`);
        return { kind: 'unknown', position };
      }
      // A mistake behind an alias is in the anchor, so positions are the anchor's.
      return convert(target, path, parent, openNodes);
    }
    if (isNode(node) && !visited.has(node)) {
      visited.add(node);
      if (!isAlias(node) && node.anchor !== undefined) anchors.set(node.anchor, node);
    }
    if (isMap(node)) {
      const entries = new Map<string, Entry>();
      const inner = [...openNodes, node];
      const merges: { tree: Tree; position: SourcePosition }[] = [];
      for (const pair of node.items) {
        const keyPosition = ownPositions.get(pair.value) ?? positionOf(pair.key, position);
        if (!isScalar(pair.key) || pair.key.value === null) {
          reportProblem({ position: keyPosition }, path, report, 'a key must be a single value, not a list or a map');
          continue;
        }
        const key = scalarOf(pair.key, keyPosition).source;
        if (entries.has(key)) {
          const message = 'appears twice in this map; remove one of them';
          reportProblem({ position: keyPosition }, [...path, key], report, message);
          continue;
        }
        const value = convert(pair.value, [...path, key], keyPosition, inner);
        if (isMergeKey(pair.key)) merges.push({ tree: value, position: keyPosition });
        else entries.set(key, { position: keyPosition, value });
      }
      for (const merge of merges) mergeInto(entries, merge.tree, merge.position, path, report);
      return { kind: 'map', entries, position, keyPosition: parent };
    }
    if (isSeq(node)) {
      const inner = [...openNodes, node];
      const items = node.items.map((item, index) =>
        convert(isPair(item) ? null : item, [...path, index], position, inner),
      );
      return { kind: 'list', items, position };
    }
    if (isScalar(node)) return scalarOf(node, position);
    return emptyScalar;
  };

  const tree = convert(document.contents, [], positionAt(0), []);
  return isWithinLimit ? tree : undefined;
}

/** `<<: *base` adds the keys of another map that the map itself does not have. */
function mergeInto(
  entries: Map<string, Entry>,
  from: Tree,
  position: SourcePosition,
  path: readonly (string | number)[],
  report: Report,
): void {
  for (const source of from.kind === 'list' ? from.items : [from]) {
    if (source.kind === 'unknown') continue;
    if (source.kind !== 'map') {
      reportProblem({ position }, [...path, '<<'], report, 'must be a map (<<: *name)');
      continue;
    }
    for (const [key, entry] of source.entries) if (!entries.has(key)) entries.set(key, entry);
  }
}

export function isMergeKey(key: unknown): boolean {
  return isScalar(key) && key.value === '<<' && key.type === 'PLAIN';
}

/** As the file has it: `0x10` is not `16`. */
export function textOf(node: unknown): string {
  return isScalar(node) ? (node.source ?? String(node.value)) : '';
}

function scalarOf(node: { readonly value: unknown; readonly source?: string }, position: SourcePosition): Scalar {
  const { value } = node;
  const isPlain =
    typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' || value === null;
  // YAML's core schema has no other scalars. A scalar made by a tag keeps its text.
  const known = isPlain ? value : (node.source ?? '');
  return { kind: 'scalar', value: known, source: node.source ?? String(known), position };
}

function startOffset(node: unknown): number | undefined {
  if (typeof node !== 'object' || node === null || !('range' in node)) return undefined;
  const { range } = node as { range?: readonly number[] | null };
  return range?.[0];
}

/** Undefined after reporting that the text is not JSON (RFC 8259) or is too large. */
export function parseJson(text: string, report: Report): Tree | undefined {
  try {
    JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    const { message } = error as SyntaxError;
    const position = filePosition(mistakeOffset(text, message));
    return reportProblem({ position }, [], report, message.replace(/( in JSON)? at position .*$|, (\.\.\.)?".*$/s, ''));
  }
  // YAML does not treat a single carriage return as white space.
  return treeOf(parseDocument(text.replaceAll('\r', '\n'), options), filePosition, report);
}

/** V8 reports the position of a mistake, except of an unexpected token: it follows the longest text without one. */
function mistakeOffset(text: string, message: string): number {
  const [, position] = / at position (\d+)/.exec(message) ?? [];
  if (position !== undefined) return Number(position);
  let [correct, wrong] = [0, text.length + 1];
  while (wrong - correct > 1) {
    const end = Math.floor((correct + wrong) / 2);
    if (hasUnexpectedToken(text.slice(0, end))) wrong = end;
    else correct = end;
  }
  return correct;
}

function hasUnexpectedToken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (error) {
    return String(error).startsWith('SyntaxError: Unexpected token');
  }
}

function filePosition(offset: number): SourcePosition {
  return { in: 'file', offset };
}
