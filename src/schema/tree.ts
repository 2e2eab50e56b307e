// Tree: the contents of a file as maps, lists and scalars with their positions, from JSON (json.ts) or YAML (yaml.ts).

import type { SourcePosition } from './problems.ts';

export type Tree = Scalar | List | Mapping | Unknown;

/** A value with a reported problem; readers do not report it again. */
export interface Unknown {
  readonly kind: 'unknown';
  readonly position: SourcePosition;
}

export interface Scalar {
  readonly kind: 'scalar';
  readonly value: string | number | boolean | null;
  /** The scalar as written, without quotes: version `3.10` is not the number 3.1. */
  readonly source: string;
  readonly position: SourcePosition;
}

interface List {
  readonly kind: 'list';
  readonly items: readonly Tree[];
  readonly position: SourcePosition;
}

export interface Mapping {
  readonly kind: 'map';
  readonly entries: ReadonlyMap<string, Entry>;
  readonly position: SourcePosition;
  /** Position of the key that has the map as its value; missing keys are reported there. */
  readonly keyPosition: SourcePosition;
}

export interface Entry {
  readonly position: SourcePosition;
  readonly value: Tree;
}

/** Deeper nesting is a mistake or an attack on the stack. */
export const maxDepth = 64;

export function childOf(tree: Tree, name: string | number): Tree | undefined {
  if (tree.kind === 'list') return tree.items[Number(name)];
  return tree.kind === 'map' ? tree.entries.get(String(name))?.value : undefined;
}

/** The value at a path; undefined where there is none. A value below an unknown one is unknown. */
export function treeAt(tree: Tree | undefined, path: readonly (string | number)[]): Tree | undefined {
  let at = tree;
  for (const part of path) at = at === undefined || at.kind === 'unknown' ? at : childOf(at, part);
  return at;
}

export function isNull(tree: Tree | undefined): boolean {
  return tree === undefined || (tree.kind === 'scalar' && tree.value === null);
}

/** OmegaConf's notation for a value that must be given before use. */
export function isMissing(tree: Tree): boolean {
  return tree.kind === 'scalar' && tree.value === '???';
}

export function toPlainValue(tree: Tree): unknown {
  switch (tree.kind) {
    case 'scalar':
      return tree.value;
    case 'list':
      return tree.items.map(toPlainValue);
    case 'map':
      return Object.fromEntries([...tree.entries].map(([key, entry]) => [key, toPlainValue(entry.value)]));
    case 'unknown':
      return null;
  }
}
