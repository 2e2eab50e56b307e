import type { Client } from '../../app/client.ts';
import { viewJson } from '../../app/json.ts';
import { handleJobs, type JobFlags } from '../cluster/resolve-jobs.ts';
import { type Cli, type GlobalFlags, printEachJob } from '../context.ts';
import { restartIfKilled } from '../controller.ts';
import { showLines, whyLines } from '../render/show.ts';
import { columnsOf } from '../screen.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';

export async function show(cli: Cli, flags: JobFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  if (args.length === 0 && flags.jobName === undefined) {
    const { list } = await import('./list.ts');
    return list(cli, flags);
  }
  return handleJobs(cli, flags, args, {
    stored: (client, refs) => showStored(cli, client, refs),
    async cluster(cluster, job) {
      const { printDetails } = await import('../cluster/details.ts');
      return printDetails(cli, cluster, job);
    },
    async archived(_, job) {
      const { printArchivedDetails } = await import('../cluster/details.ts');
      return printArchivedDetails(cli, job);
    },
  });
}

async function showStored(cli: Cli, client: Client, refs: readonly string[]): Promise<number> {
  const { io, screen } = cli;
  const layout = { columns: columnsOf(io.stdout), styler: screen.styleOut, unicode: screen.unicode };
  let isAlive = false;
  const code = await printEachJob(cli, refs, async (ref) => {
    const view = await client.show(ref);
    isAlive ||= !isFinishedPhase(view.phase);
    return { objects: () => [viewJson(view)], lines: () => showLines(view, { ...layout, now: io.now() }) };
  });
  if (isAlive) await restartIfKilled(cli, client, true);
  return code;
}

interface WhyFlags extends JobFlags {
  readonly explain?: boolean | undefined;
}

export async function why(cli: Cli, flags: WhyFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  return handleJobs(cli, flags, args, {
    stored: (client, refs) => whyStored(cli, client, refs, flags.explain === true),
    async cluster(cluster, job) {
      const { printWhy } = await import('../cluster/observe.ts');
      return printWhy(cli, cluster, job);
    },
    async archived(_, job) {
      const { whyArchived } = await import('../cluster/archive.ts');
      return whyArchived(cli, job);
    },
  });
}

async function whyStored(cli: Cli, client: Client, refs: readonly string[], isExplained: boolean): Promise<number> {
  const { io } = cli;
  const code = await printEachJob(cli, refs, async (ref) => {
    const answer = await client.why(ref);
    return {
      objects: () => [answer],
      lines: () => whyLines(answer, columnsOf(io.stdout), io.now(), isExplained),
    };
  });
  await restartIfKilled(cli, client);
  return code;
}
