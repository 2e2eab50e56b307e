// show, also called details.

import { exitCode } from '../../app/errors.ts';
import type { Client } from '../../app/client.ts';
import { onEither } from '../cluster/either.ts';
import { forEachRef, type Cli, type GlobalFlags } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { viewJson } from '../../app/json.ts';
import { showLines } from '../render/show.ts';
import { isSettled } from '../settled.ts';
import { columnsOf } from '../screen.ts';

export interface ShowFlags {
  readonly jobName: string | undefined;
  readonly namespace: string | undefined;
  readonly context: string | undefined;
}

export async function show(cli: Cli, flags: ShowFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  return onEither(cli, flags, args, {
    record: (client, refs) => showRecord(cli, client, refs),
    async cluster(cluster, job) {
      const { printDetails } = await import('../cluster/details.ts');
      return printDetails(cli, cluster, job);
    },
    async kept(_, job) {
      const { printKeptDetails } = await import('../cluster/details.ts');
      return printKeptDetails(cli, job);
    },
  });
}

async function showRecord(cli: Cli, client: Client, refs: readonly string[]): Promise<number> {
  const { io, screen } = cli;
  let isFirst = true;
  let isAlive = false;
  const code = await forEachRef(cli, refs, async (ref) => {
    const view = await client.show(ref);
    isAlive ||= !isSettled(view);
    if (cli.json) {
      cli.print(JSON.stringify(viewJson(view)));
      return exitCode.ok;
    }
    const columns = columnsOf(io.stdout);
    const lines = showLines(view, { columns, ink: screen.out, unicode: screen.unicode, now: io.now() });
    // A blank line between jobs, where there are several.
    io.stdout.write(`${isFirst ? '' : '\n'}${lines.join('\n')}\n`);
    isFirst = false;
    return exitCode.ok;
  });
  if (isAlive) await replaceKilled(cli, client, true);
  return code;
}
