// Follows a job until its verdict.

import type { Client } from '../../app/client.ts';
import { exitCode, isNotFoundError } from '../../app/errors.ts';
import type { FoundJob, LogsQuery } from '../../app/job-source.ts';
import { createStoreSource, storedJob } from '../../app/store-source.ts';
import { type Cli, printError, verdictCode } from '../context.ts';
import { type LogSource, outputRules, printJobLogs } from '../logs/print.ts';

interface FollowOptions {
  readonly leave: AbortSignal;
  readonly noFold?: boolean;
  readonly query?: LogsQuery;
}

/** Resolves with the verdict's exit code; leaving ends no job. */
export async function followToVerdict(
  cli: Cli,
  source: LogSource,
  job: FoundJob,
  { leave, noFold = false, query = {} }: FollowOptions,
): Promise<number> {
  const rules = outputRules(cli, noFold);
  try {
    const end = await printJobLogs(cli, source, job, {
      query: { ...query, follow: true },
      rules,
      leave,
      reportsPhases: true,
    });
    // A closed pipe has no reader for another message.
    if (end.kind === 'output_closed') return exitCode.ok;
    if (end.kind === 'finished') return end.phase === null ? exitCode.failed : verdictCode({ phase: end.phase });
    const [name, short] = job.cluster === null ? [`Job ${job.id}`, String(Number(job.id))] : [job.id, job.id];
    cli.printStderr(`Detached. ${name} keeps running. Attach again: jobman logs ${short} -f`);
    return exitCode.interrupted;
  } catch (error) {
    if (!isNotFoundError(error)) throw error;
    return printError(cli, `Job ${job.id} was deleted meanwhile.`, exitCode.failed, { job: job.id });
  }
}

/** Of a stored job. */
export function followToEnd(
  cli: Cli,
  client: Client,
  id: string,
  leave: AbortSignal,
  noFold: boolean,
  after?: number,
): Promise<number> {
  const source = createStoreSource(client, cli.io);
  return followToVerdict(cli, source, storedJob(id), { leave, noFold, query: { after } });
}
