// show, also called details.

import type { Client } from '../../app/client.ts';
import { onEither } from '../cluster/either.ts';
import { printEachRef, type Cli, type GlobalFlags } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { viewJson } from '../../app/json.ts';
import { showLines } from '../render/show.ts';
import { isSettled } from '../settled.ts';
import { columnsOf } from '../screen.ts';

export interface ShowFlags {
  readonly jobName?: string | undefined;
  readonly namespace?: string | undefined;
  readonly context?: string | undefined;
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
  const look = { columns: columnsOf(io.stdout), ink: screen.out, unicode: screen.unicode };
  let isAlive = false;
  const code = await printEachRef(cli, refs, async (ref) => {
    const view = await client.show(ref);
    isAlive ||= !isSettled(view);
    return { objects: () => [viewJson(view)], lines: () => showLines(view, { ...look, now: io.now() }) };
  });
  if (isAlive) await replaceKilled(cli, client, true);
  return code;
}
