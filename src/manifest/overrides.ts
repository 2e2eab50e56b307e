import { isScalar, parseDocument, type Document, type Node } from 'yaml';
import type { Override } from '../core/model/spec.ts';
import { aliasesAt, kindAt, siblingKeys } from './keys.ts';
import { parsePath, type Report } from '../schema/problems.ts';
import { parseText, parseValue } from './yaml.ts';
import type { Mapping, Tree, Entry } from '../schema/tree.ts';
import { type Path, reportProblem } from '../schema/kinds.ts';

const redacted = '***';
const silentReport: Report = { problem: () => undefined, warning: () => undefined };

export function overridesOf(sets: readonly SetArgument[]): readonly Override[] {
  return sets.map(({ path, value }) => ({ key: path, value: isSecret(path, value ?? '') ? redacted : (value ?? '') }));
}

/** Edits the text and comments each value. When YAML has no position for one, comments at the top list all values. */
export function withOverrides(text: string, tree: Mapping, overrides: readonly Override[]): string {
  if (overrides.length === 0) return text;
  const edited = setInDocument(text, overrides);
  const sets = overrides.map(({ key, value }) => ({ path: key, value }));
  const expected = comparableText(applySets(tree, sets, aliasesAt, silentReport));
  const isRight = edited !== undefined && comparableText(parseText(edited, silentReport).tree) === expected;
  if (isRight) return edited;
  return `${overrides.map((one) => `#${commentOf(one)}\n`).join('')}${text}`;
}

function setInDocument(text: string, overrides: readonly Override[]): string | undefined {
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

function makeParents(document: Document, path: Path): void {
  for (let depth = 1; depth < path.length; depth += 1) {
    const at = path.slice(0, depth);
    const existing = document.getIn(at, true);
    if (existing !== undefined && !(isScalar(existing) && existing.value === null)) continue;
    document.setIn(at, document.createNode(typeof path[depth] === 'number' ? [] : {}));
  }
}

/** The value as a YAML node; like `parseValue`, invalid YAML becomes a string. */
function nodeOf(document: Document, value: string): Node {
  const { contents, errors } = parseDocument(value, { logLevel: 'error' });
  const isText =
    errors.length > 0 || contents === null || comparableText(parseValue(value, '')) === comparableText(textTree(value));
  return isText ? document.createNode(value) : contents;
}

function textTree(value: string): Tree {
  return { kind: 'scalar', value, source: value, position: { in: 'set', set: '' } };
}

function commentOf({ key, value }: Override): string {
  const note = value === redacted ? ' (not stored: it looks like a secret; use job.secrets)' : '';
  return ` --set ${key}=${value.replaceAll(/\s+/g, ' ')}${note}`;
}

function comparableText(tree: Tree | undefined): string {
  return JSON.stringify(tree, (name, value: unknown) => {
    if (name === 'position' || name === 'keyPosition') return undefined;
    return value instanceof Map ? [...value].toSorted(([one], [other]) => (one < other ? -1 : 1)) : value;
  });
}

const secretKeyPattern = '(?:key|token|secret|password|passwd|passphrase|pwd|credentials?)';
/** `HF_TOKEN`, `api-key`, `apikey`, `wandbKey`; not `keyword`, `monkey` or `max_tokens`. */
const secretName = new RegExp(`(?:^|[_-]|api|auth|access|private)${secretKeyPattern}$`, 'i');
const secretCamelName = /[a-z\d](?:Key|Token|Secret|Password|Passwd|Passphrase|Pwd|Credentials?)$/;
/** `{HF_TOKEN: x}`, `token=x`, `--api-key x`, `[--api-key, x]`. */
const secretPair = new RegExp(
  `${secretKeyPattern}["']?\\s*[:=]\\s*\\S|--?[\\w-]*${secretKeyPattern}["']?(?:\\s*,|\\s)\\s*\\S`,
  'i',
);
/** Values that are secrets under any name: a password in a URL, and tokens and keys of a known form. */
const secretForm =
  /:\/\/[^\s/@:]*:[^\s/@]+@|\b(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|AIza|ya29\.)[\w-]{8,}|\beyJ[\w-]{8,}\.[\w-]+\.|-----BEGIN [A-Z ]*PRIVATE KEY|\bbearer\s+\S/i;

/** True for a value that is most likely a secret. Values of `job.secrets` are sources, not secrets. */
function isSecret(key: string, value: string): boolean {
  if (secretForm.test(value)) return true;
  const path = parsePath(key) ?? [];
  if (path[0] === 'job' && path[1] === 'secrets') return false;
  if (path.some((name, index) => isSecretName(path.slice(0, index + 1), name))) return true;
  return kindAt(path)?.isScript !== true && secretPair.test(value);
}

/** Keys of jobman, such as `ssh.key`, name files, so only the user's own keys count. */
function isSecretName(path: Path, name: string | number): boolean {
  if (typeof name === 'number' || Object.hasOwn(siblingKeys(path) ?? {}, name)) return false;
  return secretName.test(name) || secretCamelName.test(name);
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

/** The tree with every set applied in order. Creates missing sections, and drops other names (`aliases`) of a key. */
export function applySets(
  tree: Mapping,
  sets: readonly SetArgument[],
  aliases: SetOperation['aliases'],
  report: Report,
): Mapping {
  let result: Tree = tree;
  for (const { path: text, value } of sets) {
    const set = value === null ? text : `${text}=${value}`;
    const path = parsePath(text);
    if (path === undefined || value === null) {
      const message =
        path === undefined
          ? 'is not the path of a key; write it like command.lr=0.01'
          : `has no value; write ${text}=VALUE`;
      reportProblem({ position: { in: 'set', set: text === '' ? set : text } }, [], report, message);
      continue;
    }
    result = setAt(result, 0, { path, leaf: parseValue(value, text), set: text, aliases, report });
  }
  return result.kind === 'map' ? result : tree;
}

interface SetOperation {
  readonly path: Path;
  readonly leaf: Tree;
  readonly set: string;
  readonly aliases: (path: Path) => readonly string[];
  readonly report: Report;
}

function setAt(into: Tree | undefined, depth: number, change: SetOperation): Tree {
  const { path, leaf, set, aliases, report } = change;
  const part = path[depth];
  if (part === undefined) return leaf;
  const position = { in: 'set', set } as const;
  const existing = into?.kind === 'scalar' && into.value === null ? undefined : into;
  const unchanged = existing ?? into ?? leaf;
  const reject = (message: string): Tree => {
    reportProblem({ position }, path.slice(0, depth), report, message);
    return unchanged;
  };

  if (typeof part === 'number' || (existing?.kind === 'list' && /^\d+$/.test(part))) {
    const index = Number(part);
    const items = existing === undefined ? [] : existing.kind === 'list' ? existing.items : undefined;
    if (items === undefined) return reject(`is not a list, so it has no element ${index}`);
    if (index > items.length) return reject(`has ${items.length} elements; append with [${items.length}]`);
    const element = setAt(items[index], depth + 1, change);
    return {
      kind: 'list',
      items: [...items.slice(0, index), element, ...items.slice(index + 1)],
      position: existing?.position ?? position,
    };
  }

  const entries: ReadonlyMap<string, Entry> | undefined =
    existing === undefined ? new Map() : existing.kind === 'map' ? existing.entries : undefined;
  if (entries === undefined)
    return reject(`is a ${existing?.kind === 'list' ? 'list' : 'value'}, so it has no key ${part}`);
  const changed = new Map(entries);
  const entry = changed.get(part);
  const last = depth === path.length - 1;
  if (last) for (const other of aliases(path)) changed.delete(other);
  changed.set(part, {
    position: last ? position : (entry?.position ?? position),
    value: setAt(entry?.value, depth + 1, change),
  });
  return {
    kind: 'map',
    entries: changed,
    position: existing?.position ?? position,
    keyPosition: existing?.kind === 'map' ? existing.keyPosition : position,
  };
}
