// The environment of a command of `tpu`: that of any command, and the lab.

import type { Lab, LabServices } from '../../lab/lab.ts';
import type { WordsInUse } from '../../lab/names.ts';
import type { Cli } from '../context.ts';
import type { Words } from './words.ts';

export interface TpuCli extends Cli {
  readonly services: LabServices;
  readonly lab: Lab;
  /** The value of --user; people.ts finds the user. */
  readonly me: string | undefined;
  /** The names of commands and the keys that they take: words that a new name must not be. */
  readonly reserved: { readonly verbs: ReadonlySet<string>; readonly keys: ReadonlySet<string> };
  /** The keys that the command takes itself, which are no configs. */
  readonly ownKeys: readonly string[];
}

/** A command: gets its words resolved, returns the exit code; throws JobmanError for what it cannot do. */
export type TpuBody = (desk: TpuCli, words: Words) => Promise<number>;

/** What is said on lines already, which a new name must not be: commands, their keys, users and TPUs. */
export async function wordsInUse({ reserved, lab: { record } }: TpuCli): Promise<WordsInUse> {
  const [users, tpus, tpuAliases] = await Promise.all([record.users(), record.tpus(), record.tpuAliases()]);
  return {
    ...reserved,
    users: users.map(({ name }) => name),
    tpus: tpus.map(({ name }) => name),
    tpuAliases,
  };
}
