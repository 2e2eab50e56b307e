// Key tables: the table of keys as tables for people, which docs/configuration.md holds.

import { manifest } from '../../src/manifest/keys.ts';
import { formatDefault, type Key, type Keys } from '../../src/schema/kinds.ts';

interface KeyRow {
  /** From the section on: `budget.failures`, `identities[].private_key`. */
  readonly key: string;
  readonly aliases: readonly string[];
  readonly type: string;
  readonly defaultValue: string;
  readonly about: string;
  readonly example: string | undefined;
}

export interface SectionRows {
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

/** The rows of a section as a Markdown table. */
export function markdownTable({ rows }: SectionRows): string {
  const cell = (text: string): string => text.replaceAll('|', '\\|');
  const lines = rows.map(({ key, aliases, type, defaultValue, about, example }) => {
    const also = aliases.length === 0 ? '' : ` (also ${aliases.map((name) => `\`${name}\``).join(', ')})`;
    const shown = example === undefined ? '' : `\`${example}\``;
    return `| \`${key}\`${also} | ${[type, defaultValue, about, shown].map(cell).join(' | ')} |`;
  });
  return ['| Key | Type | When not given | Meaning | Example |', '|---|---|---|---|---|', ...lines].join('\n');
}

function rowsOf(keys: Keys, before: string, shown: readonly unknown[] = []): readonly KeyRow[] {
  const seen = [...shown];
  return Object.entries(keys).flatMap(([name, key]) => {
    const element = key.kind.element?.keys;
    const below = element ?? key.kind.keys;
    const rows = [rowOf(`${before}${name}`, key)];
    // A group of keys that stands at two places of a section (the cache of a mount) is spelled out once.
    if (below === undefined || seen.includes(below)) return rows;
    seen.push(below);
    return [...rows, ...rowsOf(below, `${before}${name}${element === undefined ? '' : '[]'}.`, seen)];
  });
}

function rowOf(name: string, key: Key<unknown>): KeyRow {
  const { aliases = [], description: about, example } = key;
  return { key: name, aliases, type: key.kind.description, defaultValue: formatDefault(key), about, example };
}
