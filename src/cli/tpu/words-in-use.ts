// Words in use: what a new name must not be, because a line would read it as that.

import type { WordsInUse } from '../../lab/names.ts';
import type { TpuCli } from './tpu-cli.ts';

/** Commands, their keys, users and TPUs. */
export async function wordsInUse({ reserved, lab: { record } }: TpuCli): Promise<WordsInUse> {
  const [users, tpus, tpuAliases] = await Promise.all([record.users(), record.tpus(), record.tpuAliases()]);
  return {
    ...reserved,
    users: users.map(({ name }) => name),
    tpus: tpus.map(({ name }) => name),
    tpuAliases,
  };
}
