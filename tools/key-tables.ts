// The keys of a manifest as rows for people, for docs/configuration.md.

import { manifest } from '../src/manifest/keys.ts';
import { formatDefault, type Key, type Keys } from '../src/schema/kinds.ts';

interface KeyRow {
  /** From the section on: `budget.failures`, `identities[].private_key`. */
  readonly key: string;
  readonly aliases: readonly string[];
  readonly type: string;
  readonly defaultValue: string;
  readonly jobs: string;
  readonly about: string;
  readonly example: string | undefined;
}

interface SectionRows {
  readonly section: string;
  readonly about: string;
  readonly rows: readonly KeyRow[];
}

/** Every section with all its keys, in the order of the table. */
export function keyReference(): readonly SectionRows[] {
  return Object.entries(manifest.keys ?? {}).map(([section, key]) => ({
    section,
    about: key.description,
    rows: rowsOf(key.kind.keys ?? {}, ''),
  }));
}

function rowsOf(keys: Keys, before: string, shown: readonly unknown[] = []): readonly KeyRow[] {
  const seen = [...shown];
  return Object.entries(keys).flatMap(([name, key]) => {
    const element = key.kind.element?.keys;
    const below = element ?? key.kind.keys;
    const rows = [rowOf(`${before}${name}`, key)];
    // Keys that occur twice in a section, such as those of a mount's cache, are listed once.
    if (below === undefined || seen.includes(below)) return rows;
    seen.push(below);
    return [...rows, ...rowsOf(below, `${before}${name}${element === undefined ? '' : '[]'}.`, seen)];
  });
}

function rowOf(name: string, key: Key<unknown>): KeyRow {
  const { aliases = [], description: about, example, jobs = ['all'] } = key;
  const type = key.kind.description;
  return { key: name, aliases, type, defaultValue: formatDefault(key), jobs: jobs.join(', '), about, example };
}
