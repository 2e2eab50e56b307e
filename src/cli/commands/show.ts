// show, why: one job on one screen, and why it is in its phase.

import type { Client } from '../../app/client.ts';
import { viewJson, whyJson } from '../../app/json.ts';
import { onEither } from '../cluster/either.ts';
import { type Cli, type GlobalFlags, printEachRef } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { showLines, whyLines } from '../render/show.ts';
import { columnsOf } from '../screen.ts';
import { isSettledPhase } from '../../core/phase.ts';

interface ShowFlags {
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
    isAlive ||= !isSettledPhase(view.phase);
    return { objects: () => [viewJson(view)], lines: () => showLines(view, { ...look, now: io.now() }) };
  });
  if (isAlive) await replaceKilled(cli, client, true);
  return code;
}

interface WhyFlags extends ShowFlags {
  readonly explain?: boolean | undefined;
}

export async function why(cli: Cli, flags: WhyFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  return onEither(cli, flags, args, {
    record: (client, refs) => whyOfRecord(cli, client, refs, flags.explain === true),
    async cluster(cluster, job) {
      const { printWhy } = await import('../cluster/verdict.ts');
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
