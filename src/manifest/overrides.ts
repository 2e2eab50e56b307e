import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  visit,
  type Alias,
  type Document,
  type Node,
  type Pair,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { isSecretName, redactPatterns } from '../catalogue/redact.ts';
import type { Override } from '../core/model/spec.ts';
import { aliasesAt, kindAt, siblingKeys } from './keys.ts';
import { parsePath, type Report, type SourcePosition } from '../schema/problems.ts';
import { isMergeKey, parseYaml, textOf } from '../schema/yaml.ts';
import { reportProblem } from '../schema/kinds.ts';

const redacted = '***';

export function overridesOf(sets: readonly SetArgument[]): readonly Override[] {
  return sets.map(({ path, value }) => ({ key: path, value: isSecret(path, value ?? '') ? redacted : (value ?? '') }));
}

/** The text with the overrides, each with a comment. */
export function storedTextOf(text: string, overrides: readonly Override[]): string {
  const document = overrides.length === 0 ? undefined : parseYaml(text);
  if (document === undefined) return text;
  const sets = overrides.map(({ key, value }) => ({ path: key, value }));
  applySets(document, sets, { problem: () => undefined, warning: () => undefined });
  visit(document, { Scalar: (_key, node) => keepText(node) });
  return document.toString({ lineWidth: 0, flowCollectionPadding: /[{[] /.test(text) });
}

/** True for a value that is most likely a secret. Values of `job.secrets` are sources, not secrets. */
function isSecret(key: string, value: string): boolean {
  const path = parsePath(key) ?? [];
  if (path[0] === 'job' && path[1] === 'secrets') return redactPatterns(value) !== value;
  // Keys of jobman, such as `ssh.private_key`, name files, so only the user's own keys count.
  const isOwn = (name: string | number, depth: number) =>
    typeof name === 'string' && !Object.hasOwn(siblingKeys(path.slice(0, depth + 1)) ?? {}, name);
  if (path.some((name, depth) => isOwn(name, depth) && isSecretName(String(name)))) return true;
  return kindAt(path)?.isScript !== true && redactPatterns(value) !== value;
}

export interface SetArgument {
  readonly path: string;
  /** Parsed as YAML; invalid YAML becomes a string. Null when the argument has no `=`, which is a problem. */
  readonly value: string | null;
}

export function parseSetArgument(text: string): SetArgument {
  const equals = text.indexOf('=');
  return equals < 0 ? { path: text, value: null } : { path: text.slice(0, equals), value: text.slice(equals + 1) };
}

/**
 * Sets the values in order, each with a comment, and returns the positions of the new nodes. Creates missing sections, and
 * drops other names (`aliases`) of a key.
 */
export function applySets(
  document: Document,
  sets: readonly SetArgument[],
  report: Report,
): ReadonlyMap<unknown, SourcePosition> {
  const positions = new Map<unknown, SourcePosition>();
  for (const { path: text, value } of sets) {
    const path = parsePath(text);
    if (path === undefined || value === null) {
      const message =
        path === undefined
          ? 'is not the path of a key; write it like command.lr=0.01'
          : `has no value; write ${text}=VALUE`;
      reportProblem({ position: { in: 'set', set: text === '' ? `=${value ?? ''}` : text } }, [], report, message);
      continue;
    }
    const position: SourcePosition = { in: 'set', set: text };
    const node = valueNode(document, value);
    positions.set(node, position);
    let at: unknown = document.contents;
    for (const [depth, part] of path.entries()) {
      const obstacle = obstacleAt(at, part);
      if (obstacle !== undefined) {
        reportProblem({ position }, path.slice(0, depth), report, obstacle);
        break;
      }
      const parent = at as YAMLMap | YAMLSeq;
      const isLast = depth === path.length - 1;
      const others = isLast ? aliasesAt(path) : [];
      if (isMap(parent)) copyMergedKeys(parent, isLast ? others : [String(part)], document);
      const key = isMap(parent) ? keyOf(parent, part, document) : Number(part);
      const existing: unknown = parent.get(key, true);
      if (isLast) {
        for (const other of others) parent.delete(other);
        node.comment = `${isScalar(existing) && existing.comment ? `${existing.comment};` : ''}${commentOf(text, value)}`;
        parent.set(key, node);
        break;
      }
      at = isAlias(existing) ? ownCopy(existing, document) : existing;
      if (at === undefined || (isScalar(at) && at.value === null)) {
        at = document.createNode(typeof path[depth + 1] === 'number' ? [] : {});
        positions.set(at, position);
      }
      parent.set(key, at);
    }
  }
  return positions;
}

/** The value behind an alias, so that the set changes only this use of it. */
function ownCopy(alias: Alias, document: Document): unknown {
  const target = alias.resolve(document);
  return target === undefined ? undefined : cloneOf(target);
}

/** Without anchors, so that a later alias still refers to the original. */
function cloneOf(node: Node): Node {
  const clone = node.clone() as Node;
  visit(clone, { Value: (_key, value) => void delete value.anchor });
  return clone;
}

/** The key as the map has it, because `1` and `true` are not text in YAML. */
function keyOf(map: YAMLMap, part: string | number, document: Document): unknown {
  const name = String(part);
  return map.items.find(({ key }) => isScalar(key) && textOf(key) === name)?.key ?? document.createNode(name);
}

/** Replaces the merge keys (`<<: *base`) by copies of what they add, if they add one of `names` that the map lacks. */
function copyMergedKeys(map: YAMLMap, names: readonly string[], document: Document): void {
  const own = new Set(map.items.map(({ key }) => textOf(key)));
  const merged = [...mergedPairs(map, document, new Set())].filter(({ key }) => !own.has(textOf(key)));
  if (!merged.some(({ key }) => names.includes(textOf(key)))) return;
  map.items = map.items.filter((pair) => !isMergeKey(pair.key));
  for (const { key, value } of merged)
    if (!map.has(key)) map.set(cloneOf(key as Node), isNode(value) ? cloneOf(value) : value);
}

/** In the order in which they win. */
function* mergedPairs(map: YAMLMap, document: Document, visited: Set<YAMLMap>): Generator<Pair> {
  visited.add(map);
  for (const { value } of map.items.filter(({ key }) => isMergeKey(key))) {
    for (const item of isSeq(value) ? value.items : [value]) {
      const source = isAlias(item) ? item.resolve(document) : item;
      if (!isMap(source) || visited.has(source)) continue;
      yield* source.items.filter(({ key }) => isScalar(key) && !isMergeKey(key));
      yield* mergedPairs(source, document, visited);
    }
  }
}

function obstacleAt(at: unknown, part: string | number): string | undefined {
  const isIndex = typeof part === 'number' || /^\d+$/.test(part);
  if (isSeq(at) && isIndex)
    return Number(part) > at.items.length
      ? `has ${at.items.length} elements; append with [${at.items.length}]`
      : undefined;
  if (typeof part === 'number') return `is not a list, so it has no element ${part}`;
  return isMap(at) ? undefined : `is a ${isSeq(at) ? 'list' : 'value'}, so it has no key ${part}`;
}

/** The value as YAML. Invalid YAML and a reference to an anchor become a string. */
export function valueNode(document: Document, value: string): Node {
  const parsed = parseYaml(value);
  let hasAlias = false;
  if (parsed !== undefined)
    visit(parsed, {
      Alias: () => void (hasAlias = true),
      Scalar: (_key, node) => keepText(node),
      // Its offsets are not those of the manifest.
      Node: (_key, node) => void (node.range = null),
    });
  const isInvalid = parsed === undefined || parsed.errors.length > 0 || parsed.warnings.length > 0 || hasAlias;
  return isInvalid || parsed.contents === null ? document.createNode(value) : parsed.contents;
}

/** The library cannot write values of other tags (`!!binary`), and rounds numbers of more than 15 digits. */
function keepText(node: Scalar): void {
  const { value, source = '' } = node;
  const isRounded = typeof value === 'number' && source.replaceAll(/\D/g, '').length > 15;
  if (!isRounded && (value === null || ['string', 'number', 'boolean'].includes(typeof value))) return;
  node.value = source;
  delete node.tag;
}

function commentOf(key: string, value: string): string {
  const note = value === redacted ? ' (not stored: it looks like a secret; use job.secrets)' : '';
  return ` --set ${key}=${value.replaceAll(/\s+/g, ' ')}${note}`;
}
