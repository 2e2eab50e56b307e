import { type Cli, type GlobalFlags } from '../context.ts';
import { restartIfKilled } from '../controller.ts';
import { printEachJob } from '../jobs/resolve.ts';
import type { JobFlags } from '../jobs/handle.ts';

export async function show(cli: Cli, flags: JobFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  if (args.length === 0 && flags.jobName === undefined) {
    const { list } = await import('./list.ts');
    return list(cli, flags);
  }
  return printEachJob(
    cli,
    flags,
    args,
    (job) => job.show(),
    (client) => restartIfKilled(cli, client),
  );
}

interface WhyFlags extends JobFlags {
  readonly explain?: boolean | undefined;
}

export function why(cli: Cli, flags: WhyFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const isExplained = flags.explain === true;
  return printEachJob(
    cli,
    flags,
    args,
    (job) => job.why(isExplained),
    (client) => restartIfKilled(cli, client),
  );
}

interface HistoryFlags extends JobFlags {
  readonly timeline?: boolean | undefined;
}

export function history(cli: Cli, flags: HistoryFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const isTimeline = flags.timeline === true;
  return printEachJob(
    cli,
    flags,
    args,
    (job) => job.history(isTimeline),
    (client) => restartIfKilled(cli, client),
  );
}
