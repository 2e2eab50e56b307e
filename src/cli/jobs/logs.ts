import { absentError } from '../../app/cluster/cluster-record.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { FoundJob } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import type { Cli } from '../context.ts';
import type { LogsFlags } from '../table/flags.ts';
import { readCode } from './resolve.ts';

/** For `logs`. */
export async function printLogs(cli: Cli, jobs: Jobs, job: FoundJob, flags: LogsFlags): Promise<number> {
  const record = await jobs.record(job);
  if (record === null) {
    const { printStoredLogs } = await import('../logs/stored.ts');
    return printStoredLogs(cli, await cli.services.client(), job.id, flags);
  }
  const { followClusterLogs, printClusterLogs } = await import('../cluster/logs.ts');
  const { cluster, archived } = record;
  if (flags.follow === true && archived === null && cluster !== null) {
    const end = await followClusterLogs(cli, cluster, record.job, flags);
    return end === 'left' ? exitCode.interrupted : exitCode.ok;
  }
  if (flags.previous === true && archived !== null)
    throw new JobmanError(
      'The archive does not separate the output before a restart of the container.',
      exitCode.notFound,
    );
  const reason = async () => (await jobs.why(job)).message;
  await printClusterLogs(cli, { cluster: archived === null ? cluster : null, job: record.job, reason }, flags);
  return readCode(job);
}

/** Follows the last lines on a screen that `q` leaves. True if the job has finished before `leave`. */
export async function followLast(
  cli: Cli,
  jobs: Jobs,
  job: FoundJob,
  tail: number,
  leave: AbortSignal,
): Promise<boolean> {
  const record = await jobs.record(job);
  if (record === null) {
    const { followLog } = await import('../follow/follow.ts');
    const form = { form: 'terminal', numbered: true, fold: true, colour: cli.screen.colour } as const;
    const exitHints = ['q returns to the list', 'q returns'] as const;
    const options = { query: {}, rules: { ...form, tail, follow: true }, leave, exitHints };
    return (await followLog(cli, await cli.services.client(), job.id, options)).kind === 'finished';
  }
  const { cluster, archived, found } = record;
  if (cluster === null || archived !== null) throw absentError(found);
  const { followClusterLogs } = await import('../cluster/logs.ts');
  cli.note(`-- log of ${found.id}; q returns to the list`);
  return (await followClusterLogs(cli, cluster, record.job, { follow: true, tail }, leave)) === 'ended';
}
