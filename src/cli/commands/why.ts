// why: one sentence, what it rests on, and what comes next.

import { exitCode } from '../../app/errors.ts';
import type { Client } from '../../app/client.ts';
import { onEither } from '../cluster/either.ts';
import { forEachRef, type Cli, type GlobalFlags } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { whyJson } from '../../app/json.ts';
import { whyLines } from '../render/why.ts';
import type { ShowFlags } from './show.ts';
import { columnsOf } from '../screen.ts';

export interface WhyFlags extends ShowFlags {
  readonly explain: boolean | undefined;
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
  let isFirst = true;
  const code = await forEachRef(cli, refs, async (ref) => {
    const answer = await client.why(ref);
    if (cli.json) {
      cli.print(JSON.stringify(whyJson(answer, isExplained)));
      return exitCode.ok;
    }
    const columns = columnsOf(io.stdout);
    io.stdout.write(`${isFirst ? '' : '\n'}${whyLines(answer, columns, io.now(), isExplained).join('\n')}\n`);
    isFirst = false;
    return exitCode.ok;
  });
  await replaceKilled(cli, client);
  return code;
}
