// Words in use: what a new name must not be, because a line would read it as that.

import type { LabRecord } from '../../lab/record.ts';
import type { WordsInUse } from '../../lab/names.ts';
import { formerWords } from './former-words.ts';
import { table } from './table.ts';
import { keysOf } from './words.ts';

/** What is said on lines already: commands, their keys, users and TPUs. */
export async function wordsInUse(record: LabRecord): Promise<WordsInUse> {
  const [users, tpus, tpuAliases] = await Promise.all([record.users(), record.tpus(), record.tpuAliases()]);
  return {
    verbs,
    keys: new Set(table.flatMap(({ takes }) => keysOf(takes))),
    users: users.map(({ name }) => name),
    tpus: tpus.map(({ name }) => name),
    tpuAliases,
  };
}

/** The words of all commands, and of those that are gone: somebody's script may still say them. */
const verbs: ReadonlySet<string> = new Set([...table.flatMap(({ words }) => words), ...formerWords, 'help']);
