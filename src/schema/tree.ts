// Tree: what a file holds, as maps, lists and scalars, each with the place where it was written. JSON (json.ts) and YAML
// (yaml.ts) are both read into it.

import type { Found, Place } from './problems.ts';

export type Tree = Scalar | List | Mapping | Unknown;

/** Something that could not be made out and has been reported; whoever meets it is silent about it. */
export interface Unknown {
  readonly kind: 'unknown';
  readonly place: Place;
}

export interface Scalar {
  readonly kind: 'scalar';
  readonly value: string | number | boolean | null;
  /** The scalar as it was written, without quotes: a version `3.10` is not the number 3.1. */
  readonly source: string;
  readonly place: Place;
}

interface List {
  readonly kind: 'list';
  readonly items: readonly Tree[];
  readonly place: Place;
}

export interface Mapping {
  readonly kind: 'map';
  readonly entries: ReadonlyMap<string, Entry>;
  readonly place: Place;
  /** The place of the key that the map belongs to: missing keys are reported there. */
  readonly owner: Place;
  /** Further entries under a name that is already there. YAML reports them while it is read. */
  readonly repeated?: readonly Repeated[];
}

export interface Repeated {
  readonly name: string;
  readonly place: Place;
  readonly first: Place;
}

export interface Entry {
  readonly place: Place;
  readonly value: Tree;
}

export class JsonTextError extends Error {
  readonly found: Found;

  constructor(found: Found) {
    super(found.message);
    this.name = 'JsonTextError';
    this.found = found;
  }
}

/** Deeper nesting is a mistake or an attack on the stack. */
export const nestedMost = 64;

/** JSON.parse takes these within a text, and people cannot see them. */
export const unseen = /[\u007f-\u009f]/;

export function childOf(tree: Tree, name: string | number): Tree | undefined {
  if (tree.kind === 'list') return tree.items[Number(name)];
  return tree.kind === 'map' ? tree.entries.get(String(name))?.value : undefined;
}

export function isNull(tree: Tree | undefined): boolean {
  return tree === undefined || (tree.kind === 'scalar' && tree.value === null);
}

/** `???` is OmegaConf's word for a value that must be given before use. */
export function isMissing(tree: Tree): boolean {
  return tree.kind === 'scalar' && tree.value === '???';
}

export function plain(tree: Tree): unknown {
  switch (tree.kind) {
    case 'scalar':
      return tree.value;
    case 'list':
      return tree.items.map(plain);
    case 'map':
      return Object.fromEntries([...tree.entries].map(([key, entry]) => [key, plain(entry.value)]));
    case 'unknown':
      return null;
  }
}
