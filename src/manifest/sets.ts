// Sets: `create --set command.lr=0.01`, values of the command line over those of the file.

import { parsePath } from './paths.ts';
import { refuse, type Path } from '../schema/kinds.ts';
import type { Report } from '../schema/problems.ts';
import { parseValue } from './yaml.ts';
import type { Entry, Mapping, Tree } from '../schema/tree.ts';

export interface SetValue {
  /** `command.lr`, `command.workers[0]`. */
  readonly path: string;
  /** Read as YAML (a number, a list in brackets); what is no YAML is text. Null when no `=` was given, which is a problem. */
  readonly value: string | null;
}

/** `key=value` taken apart at its first `=`. */
export function parseSet(text: string): SetValue {
  const equals = text.indexOf('=');
  return equals < 0 ? { path: text, value: null } : { path: text.slice(0, equals), value: text.slice(equals + 1) };
}

/**
 * The tree with every set applied, in order. Sections that are missing are made. `aliases` tells the other names of a key:
 * they are dropped, since the command line means to replace what the file says under any of them.
 */
export function applySets(tree: Mapping, sets: readonly SetValue[], aliases: Way['aliases'], report: Report): Mapping {
  let result: Tree = tree;
  for (const { path: text, value } of sets) {
    const set = value === null ? text : `${text}=${value}`;
    const path = parsePath(text);
    if (path === undefined || value === null) {
      const message =
        path === undefined
          ? 'is no path of a key; write it as command.lr=0.01'
          : `gives no value; write it as ${text}=VALUE`;
      refuse({ place: { in: 'set', set: text === '' ? set : text } }, [], report, message);
      continue;
    }
    result = put(result, 0, { path, leaf: parseValue(value, text), set: text, aliases, report });
  }
  return result.kind === 'map' ? result : tree;
}

/** One `--set` on its way into the tree. */
interface Way {
  readonly path: Path;
  readonly leaf: Tree;
  readonly set: string;
  readonly aliases: (path: Path) => readonly string[];
  readonly report: Report;
}

/** The part of the tree that is `depth` levels down the way, with the value in it. */
function put(into: Tree | undefined, depth: number, way: Way): Tree {
  const { path, leaf, set, aliases, report } = way;
  const part = path[depth];
  if (part === undefined) return leaf;
  const place = { in: 'set', set } as const;
  // A section that is absent, empty (`local:`) or null is made.
  const held = into?.kind === 'scalar' && into.value === null ? undefined : into;
  const kept = held ?? into ?? leaf;
  const reject = (message: string): Tree => {
    refuse({ place }, path.slice(0, depth), report, message);
    return kept;
  };

  if (typeof part === 'number' || (held?.kind === 'list' && /^\d+$/.test(part))) {
    const index = Number(part);
    const items = held === undefined ? [] : held.kind === 'list' ? held.items : undefined;
    if (items === undefined) return reject(`is no list, so it has no element ${index}`);
    if (index > items.length) return reject(`has ${items.length} elements; the next one is [${items.length}]`);
    const element = put(items[index], depth + 1, way);
    return {
      kind: 'list',
      items: [...items.slice(0, index), element, ...items.slice(index + 1)],
      place: held?.place ?? place,
    };
  }

  const entries: ReadonlyMap<string, Entry> | undefined =
    held === undefined ? new Map() : held.kind === 'map' ? held.entries : undefined;
  if (entries === undefined)
    return reject(`is a ${held?.kind === 'list' ? 'list' : 'value'}, so it has no key ${part}`);
  const changed = new Map(entries);
  const entry = changed.get(part);
  const last = depth === path.length - 1;
  if (last) for (const other of aliases(path)) changed.delete(other);
  changed.set(part, {
    place: last ? place : (entry?.place ?? place),
    value: put(entry?.value, depth + 1, way),
  });
  return {
    kind: 'map',
    entries: changed,
    place: held?.place ?? place,
    owner: held?.kind === 'map' ? held.owner : place,
  };
}
