// YAML: converts documents of the `yaml` package to trees. YAML includes JSON, so it also finds positions in JSON.

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
import { reportProblem } from './kinds.ts';
import { newFindings, type FoundProblem, type SourcePosition, type Report } from './problems.ts';
import {
  JsonTextError,
  maxDepth,
  invisibleCharacters,
  type Entry,
  type DuplicateKey,
  type Scalar,
  type Tree,
} from './tree.ts';

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

/** Resolves aliases and merge keys. Undefined after reporting that the document is too large. */
export function treeOf(
  document: Document.Parsed,
  positionAt: (offset: number) => SourcePosition,
  report: Report,
  duplicateKeys: 'reported' | 'kept' = 'reported',
): Tree | undefined {
  let nodes = 0;
  let isWithinLimit = true;
  const anchors = new Map<string, unknown>();
  const visited = new WeakSet<object>();

  const convert = (
    node: unknown,
    path: readonly (string | number)[],
    offset: number,
    openNodes: readonly unknown[],
  ): Tree => {
    const position = positionAt(startOffset(node) ?? offset);
    const emptyScalar: Scalar = { kind: 'scalar', value: null, source: '', position };
    nodes += 1;
    if (nodes > maxNodes) {
      const message = `the manifest has more than ${maxNodes} values after its aliases (*name) are resolved`;
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
      return convert(target, path, offset, openNodes);
    }
    if (isNode(node) && !visited.has(node)) {
      visited.add(node);
      if (!isAlias(node) && node.anchor !== undefined) anchors.set(node.anchor, node);
    }
    if (isMap(node)) {
      const entries = new Map<string, Entry>();
      const duplicates: DuplicateKey[] = [];
      const inner = [...openNodes, node];
      const merges: { tree: Tree; position: SourcePosition }[] = [];
      for (const pair of node.items) {
        const keyOffset = startOffset(pair.key) ?? startOffset(node) ?? offset;
        const keyPosition = positionAt(keyOffset);
        if (!isScalar(pair.key) || pair.key.value === null) {
          reportProblem({ position: keyPosition }, path, report, 'a key must be a single value, not a list or a map');
          continue;
        }
        const key = scalarOf(pair.key, keyPosition).source;
        const first = entries.get(key)?.position;
        if (first !== undefined && duplicateKeys === 'kept')
          duplicates.push({ name: key, position: keyPosition, firstPosition: first });
        else if (first !== undefined) {
          reportProblem(
            { position: keyPosition },
            [...path, key],
            report,
            'appears twice in this map; remove one of them',
          );
        }
        if (first !== undefined) continue;
        const value = convert(pair.value, [...path, key], keyOffset, inner);
        if (key === '<<' && pair.key.type === 'PLAIN') merges.push({ tree: value, position: keyPosition });
        else entries.set(key, { position: keyPosition, value });
      }
      for (const merge of merges) mergeInto(entries, merge.tree, merge.position, path, report);
      return {
        kind: 'map',
        entries,
        position,
        keyPosition: positionAt(offset),
        ...(duplicates.length > 0 && { duplicates }),
      };
    }
    if (isSeq(node)) {
      const inner = [...openNodes, node];
      const items = node.items.map((item, index) =>
        convert(isPair(item) ? null : item, [...path, index], startOffset(node) ?? offset, inner),
      );
      return { kind: 'list', items, position };
    }
    if (isScalar(node)) return scalarOf(node, position);
    return emptyScalar;
  };

  const tree = convert(document.contents, [], 0, []);
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

/** Values with positions. `name` names the text in messages. Throws JsonTextError when it is no JSON (RFC 8259). */
export function parseJson(source: string, name = 'the file'): Tree {
  // YAML does not treat a single carriage return as white space.
  const text = source.replaceAll('\r', '\n');
  const finding = findJsonMistake(text, name);
  if (finding !== undefined) throw new JsonTextError(finding);
  const tree = treeOf(parseDocument(text, options), filePosition, newFindings(), 'kept');
  if (tree === undefined) throw new JsonTextError(findingAt(0, `${name} has more than ${maxNodes} values`));
  return tree;
}

function isJson(source: string): boolean {
  try {
    JSON.parse(source);
    return !invisibleCharacters.test(source);
  } catch {
    return false;
  }
}

/** The first mistake in the JSON: comments, unquoted text and trailing commas are valid only in YAML. */
function findJsonMistake(text: string, name: string): FoundProblem | undefined {
  const open: ('}' | ']')[] = [];
  let expected: 'value' | 'name' | 'colon' | 'comma' = 'value';
  let previous = { source: '', offset: 0 };
  for (const token of tokensOf(text)) {
    const { source, offset } = token;
    const end = open.at(-1);
    const isEnd = source === end && (expected === 'comma' || /^[{[]$/.test(previous.source));
    if (isEnd) {
      open.pop();
      expected = 'comma';
    } else if (expected === 'colon') {
      if (source !== ':') return findingAt(offset, missingColonMessage(previous.source));
      expected = 'value';
    } else if (expected === 'comma') {
      if (end === undefined) return findingAt(offset, `${name} must contain one object; this is text after its end`);
      if (source !== ',') return findingAt(offset, `"," or "${end}" is missing before this`);
      expected = end === '}' ? 'name' : 'value';
    } else if (source === end && previous.source === ',') {
      return findingAt(previous.offset, 'remove this comma: nothing follows it');
    } else if (expected === 'name') {
      if (/^[\w$]/.test(source)) return findingAt(offset, 'put this name in double quotes');
      if (!source.startsWith('"') || !isJson(source)) return findingAt(offset, notJsonMessage(source));
      expected = 'colon';
    } else if (source === '{' || source === '[') {
      if (open.length >= maxDepth) return findingAt(offset, 'this is nested too deep');
      open.push(source === '{' ? '}' : ']');
      expected = source === '{' ? 'name' : 'value';
    } else {
      if (!isJson(source)) return findingAt(offset, notJsonMessage(source));
      expected = 'comma';
    }
    previous = token;
  }
  const end = open.at(-1);
  if (expected === 'colon') return findingAt(text.length, missingColonMessage(previous.source));
  if (expected !== 'comma') return findingAt(text.length, `${name} ends here`);
  return end === undefined ? undefined : findingAt(text.length, `${name} ends here, but "${end}" is missing`);
}

/** Tokens without white space. The library returns unquoted texts with a space between them as one token. */
function* tokensOf(text: string): Generator<{ readonly source: string; readonly offset: number }> {
  let offset = 0;
  for (const token of new Lexer().lex(text)) {
    // These tokens only announce how to read the next one.
    if (token === CST.DOCUMENT || token === CST.FLOW_END || token === CST.SCALAR) continue;
    const parts = /^["'#]/.test(token) ? [{ 0: token, index: 0 }] : token.matchAll(/[^ \t\r\n\uFEFF]+/g);
    for (const { 0: source, index } of parts) yield { source, offset: offset + index };
    offset += token.length;
  }
}

function missingColonMessage(name: string): string {
  return `a colon must follow the name ${name}`;
}

function notJsonMessage(source: string): string {
  if (source.startsWith('"')) return 'this text does not end on its line, or contains an invalid \\ escape';
  if (source.startsWith("'")) return 'put this text in double quotes';
  if (/^(?:\/\/|\/\*|#)/.test(source)) return 'JSON has no comments';
  return `${JSON.stringify(String.fromCodePoint(source.codePointAt(0) ?? 0))} is not valid here`;
}

function filePosition(offset: number): SourcePosition {
  return { in: 'file', offset };
}

function findingAt(offset: number, message: string): FoundProblem {
  return { position: filePosition(offset), path: '', message };
}
