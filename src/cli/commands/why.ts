// why: one sentence, what it rests on, and what comes next.

import type { Client } from '../../app/client.ts';
import { onEither } from '../cluster/either.ts';
import { printEachRef, type Cli, type GlobalFlags } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { whyJson } from '../../app/json.ts';
import { whyLines } from '../render/why.ts';
import type { ShowFlags } from './show.ts';
import { columnsOf } from '../screen.ts';

export interface WhyFlags extends ShowFlags {
  readonly explain?: boolean | undefined;
}

export async function why(cli: Cli, flags: WhyFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  return onEither(cli, flags, args, {
    record: (client, refs) => whyOfRecord(cli, client, refs, flags.explain === true),
    async cluster(cluster, job) {
      const { printWhy } = await import('../cluster/why.ts');
      return printWhy(cli, cluster, job);
    },
    async kept(_, job) {
      const { whyKept } = await import('../cluster/kept.ts');
      return whyKept(cli, job);
    },
  });
}

async function whyOfRecord(cli: Cli, client: Client, refs: readonly string[], isExplained: boolean): Promise<number> {
  const { io } = cli;
  const code = await printEachRef(cli, refs, async (ref) => {
    const answer = await client.why(ref);
    return {
      objects: () => [whyJson(answer, isExplained)],
      lines: () => whyLines(answer, columnsOf(io.stdout), io.now(), isExplained),
    };
  });
  await replaceKilled(cli, client);
  return code;
}
