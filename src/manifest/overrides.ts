// Overrides: values of `--set` over those of the file, and what the record of a job keeps of them: the manifest with these values
// in place, and a list. Values that look like secrets are in neither.

import { isScalar, parseDocument, type Document, type Node } from 'yaml';
import type { Override } from '../core/spec.ts';
import { aliasesAt, kindAt, keysAround } from './keys.ts';
import { parsePath, type Report } from '../schema/problems.ts';
import { parseText, parseValue } from './yaml.ts';
import type { Mapping, Tree, Entry } from '../schema/tree.ts';
import { type Path, refuse } from '../schema/kinds.ts';

const hidden = '***';
const silent: Report = { problem: () => undefined, warning: () => undefined };

export function overridesOf(sets: readonly SetValue[]): readonly Override[] {
  return sets.map(({ path, value }) => ({ key: path, value: isSecret(path, value ?? '') ? hidden : (value ?? '') }));
}

/** The text of the manifest with these values in it, each with a comment. Where YAML has no place for one, comments at the top. */
export function withOverrides(text: string, tree: Mapping, overrides: readonly Override[]): string {
  if (overrides.length === 0) return text;
  const written = inPlace(text, overrides);
  const sets = overrides.map(({ key, value }) => ({ path: key, value }));
  const wanted = valuesOf(applySets(tree, sets, aliasesAt, silent));
  const isRight = written !== undefined && valuesOf(parseText(written, silent).tree) === wanted;
  if (isRight) return written;
  return `${overrides.map((one) => `#${commentOf(one)}\n`).join('')}${text}`;
}

function inPlace(text: string, overrides: readonly Override[]): string | undefined {
  const document: Document = parseDocument(text, { logLevel: 'error', uniqueKeys: false });
  try {
    for (const override of overrides) {
      const path = parsePath(override.key) ?? [];
      const node = nodeOf(document, override.value);
      const before = document.getIn(path, true);
      const kept = isScalar(before) && typeof before.comment === 'string' ? `${before.comment};` : '';
      node.comment = `${kept}${commentOf(override)}`;
      for (const other of aliasesAt(path)) document.deleteIn([...path.slice(0, -1), other]);
      makeParents(document, path);
      document.setIn(path, node);
    }
    return document.toString({ lineWidth: 0, flowCollectionPadding: /[{[] /.test(text) });
  } catch {
    return undefined;
  }
}

/** Sections that are absent or null are made, as `applySets` makes them. */
function makeParents(document: Document, path: Path): void {
  for (let depth = 1; depth < path.length; depth += 1) {
    const at = path.slice(0, depth);
    const held = document.getIn(at, true);
    if (held !== undefined && !(isScalar(held) && held.value === null)) continue;
    document.setIn(at, document.createNode(typeof path[depth] === 'number' ? [] : {}));
  }
}

/** The value as YAML reads it; what is no YAML is text, as for `parseValue`. */
function nodeOf(document: Document, value: string): Node {
  const { contents, errors } = parseDocument(value, { logLevel: 'error' });
  const isText = errors.length > 0 || contents === null || valuesOf(parseValue(value, '')) === valuesOf(textOf(value));
  return isText ? document.createNode(value) : contents;
}

function textOf(value: string): Tree {
  return { kind: 'scalar', value, source: value, place: { in: 'set', set: '' } };
}

function commentOf({ key, value }: Override): string {
  const why = value === hidden ? ' (not kept: it looks like a secret; use job.secrets)' : '';
  return ` --set ${key}=${value.replaceAll(/\s+/g, ' ')}${why}`;
}

function valuesOf(tree: Tree | undefined): string {
  return JSON.stringify(tree, (name, value: unknown) => {
    if (name === 'place' || name === 'owner') return undefined;
    return value instanceof Map ? [...value].toSorted(([one], [other]) => (one < other ? -1 : 1)) : value;
  });
}

const secretWord = '(?:key|token|secret|password|passwd|passphrase|pwd|credentials?)';
/** `HF_TOKEN`, `api-key`, `apikey`, `wandbKey`; not `keyword`, `monkey` or `max_tokens`. */
const secretName = new RegExp(`(?:^|[_-]|api|auth|access|private)${secretWord}$`, 'i');
const secretCamelName = /[a-z\d](?:Key|Token|Secret|Password|Passwd|Passphrase|Pwd|Credentials?)$/;
/** `{HF_TOKEN: x}`, `token=x`, `--api-key x`, `[--api-key, x]`. */
const secretPair = new RegExp(
  `${secretWord}["']?\\s*[:=]\\s*\\S|--?[\\w-]*${secretWord}["']?(?:\\s*,|\\s)\\s*\\S`,
  'i',
);
/** Values that are secrets under any name: a password in an address, and tokens and keys of a known form. */
const secretForm =
  /:\/\/[^\s/@:]*:[^\s/@]+@|\b(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|AIza|ya29\.)[\w-]{8,}|\beyJ[\w-]{8,}\.[\w-]+\.|-----BEGIN [A-Z ]*PRIVATE KEY|\bbearer\s+\S/i;

/** True for a value under a name of the user's own that is most likely a secret. `job.secrets` says where one is, not what. */
function isSecret(key: string, value: string): boolean {
  if (secretForm.test(value)) return true;
  const path = parsePath(key) ?? [];
  if (path[0] === 'job' && path[1] === 'secrets') return false;
  if (path.some((name, index) => isSecretName(path.slice(0, index + 1), name))) return true;
  return kindAt(path)?.isScript !== true && secretPair.test(value);
}

/** Keys of jobman itself, such as `ssh.key`, name files. */
function isSecretName(path: Path, name: string | number): boolean {
  if (typeof name === 'number' || Object.hasOwn(keysAround(path) ?? {}, name)) return false;
  return secretName.test(name) || secretCamelName.test(name);
}

// ------------------------------------------------------------------------------------------ --set

export interface SetValue {
  /** `command.lr`, `command.workers[0]`. */
  readonly path: string;
  /** Read as YAML (a number, a list in brackets); what is no YAML is text. Null when no `=` was given, which is a problem. */
  readonly value: string | null;
}

export function parseSet(text: string): SetValue {
  const equals = text.indexOf('=');
  return equals < 0 ? { path: text, value: null } : { path: text.slice(0, equals), value: text.slice(equals + 1) };
}

/** The tree with every set applied, in order; missing sections are made. Other names of a key (`aliases`) are dropped. */
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

interface Way {
  readonly path: Path;
  readonly leaf: Tree;
  readonly set: string;
  readonly aliases: (path: Path) => readonly string[];
  readonly report: Report;
}

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
