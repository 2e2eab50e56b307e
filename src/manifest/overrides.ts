// Overrides: what `--set` put over a manifest, as the record of a job has it: the manifest with these values in place, and a
// list. Values that look like secrets are in neither.

import { isScalar, parseDocument } from 'yaml';
import type { Document, Node } from 'yaml';
import type { Override } from '../core/spec.ts';
import { aliasesAt, kindAt, keysAround } from './keys.ts';
import { parsePath } from './paths.ts';
import type { Report } from '../schema/problems.ts';
import { applySets } from './sets.ts';
import type { SetValue } from './sets.ts';
import { parseText, parseValue } from './yaml.ts';
import type { Mapping, Tree } from '../schema/tree.ts';
import type { Path } from '../schema/kinds.ts';

const hidden = '***';
const silent: Report = { problem: () => undefined, warning: () => undefined };

/** The overrides of a manifest without problems, in their order. */
export function overridesOf(sets: readonly SetValue[]): readonly Override[] {
  return sets.map(({ path, value }) => ({ key: path, value: isSecret(path, value ?? '') ? hidden : (value ?? '') }));
}

/**
 * The text of the manifest with these values in it, each with a comment that names its `--set`. Comments and order stay. Where
 * YAML offers no place for a value (below an alias), the text stays as it is and the overrides are comments at its top.
 */
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

/** All values of a tree and their order, without places, for a comparison. */
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
