// Manifest keys: one table of every key, with a file for each section in keys/. The parser, the JSON Schema and the
// tables of docs/configuration.md use this table, so that they cannot disagree.

import { findKey, aliasesOf, section } from './kinds.ts';
import type { Keys, Kind, Path, Schema, ValueOf } from '../schema/kinds.ts';
import type { Tree } from '../schema/tree.ts';
import { command, hosts, job, local, vars } from './keys/job.ts';
import { conda, docker, venv } from './keys/environments.ts';
import { gcsfuse, type cache, setup, ssh } from './keys/setup.ts';
import { kubernetes } from './keys/kubernetes.ts';
import { notify } from './keys/notify.ts';
import { recovery } from './keys/recovery.ts';
import { tpu } from './keys/tpu.ts';

export type { ModuleName } from './keys/setup.ts';

export const manifest = section(
  {
    job,
    tpu,
    hosts,
    local,
    kubernetes,
    setup,
    ssh,
    gcsfuse,
    docker,
    conda,
    venv,
    command,
    recovery,
    notify,
    vars,
  },
  undefined,
  { brevo_email: 'is not supported; write notify: {to: mail:ADDRESS} instead' },
);

export type SectionName = Extract<keyof ManifestValue, string>;
type ManifestValue = ValueOf<typeof manifest>;
export type Section<N extends keyof ManifestValue> = NonNullable<ManifestValue[N]>;
export type CacheSection = ValueOf<typeof cache>;

/** Kind of the value at a path; undefined when the table has no such key. */
export function kindAt(path: Path): Kind<unknown> | undefined {
  let kind: Kind<unknown> | undefined = manifest;
  for (const part of path) {
    if (kind === undefined) return undefined;
    if (typeof part === 'number' && kind.element !== undefined) kind = kind.element;
    else kind = kind.keys === undefined ? undefined : (findKey(kind.keys, String(part))?.kind ?? kind.customKeys);
  }
  return kind;
}

export function siblingKeys(path: Path): Keys | undefined {
  return kindAt(path.slice(0, -1))?.keys;
}

export function aliasesAt(path: Path): readonly string[] {
  const keys = siblingKeys(path);
  const last = path.at(-1);
  return keys === undefined || last === undefined ? [] : aliasesOf(keys, String(last));
}

/** The last part of `path` as `node` has it: by another name of its key, or as the index of a list. */
export function usedName(node: Tree | undefined, path: Path): string | number {
  const part = path.at(-1) ?? '';
  if (node?.kind === 'list') return Number(part);
  if (node?.kind !== 'map') return part;
  return [String(part), ...aliasesAt(path)].find((name) => node.entries.has(name)) ?? part;
}

/** JSON Schema of manifests. It accepts every manifest that `create` accepts. */
export function manifestSchema(): Schema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'jobman manifest',
    description: 'A job for jobman: where it runs, its setup, and its command.',
    ...manifest.schema,
  };
}
