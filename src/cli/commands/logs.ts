import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { escapeLine } from '../../app/format.ts';
import { type Cli, type GlobalFlags } from '../context.ts';
import { createWaker, restartIfKilled } from '../controller.ts';
import { printLogs } from '../logs/print.ts';
import { forEachJob } from '../jobs/resolve.ts';
import type { LogsFlags } from '../table/flags.ts';

export async function logs(cli: Cli, flags: LogsFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { namespace } = flags;
  if (namespace !== undefined && /^\d+$/.test(namespace)) {
    throw usageError(`-n is the namespace in a cluster, not a number of lines.`, [
      `For the last lines: --tail ${namespace}`,
    ]);
  }
  if (flags.raw === true && cli.json) throw usageError('--raw and --json exclude each other.');
  const count = args.length + (flags.jobName === undefined ? 0 : 1);
  if (flags.follow === true && count > 1) {
    throw usageError('Follow one job at a time; `jobman list --watch` shows all jobs.');
  }
  const { job, ...target } = count > 0 ? {} : await newestJob(cli, flags);
  return forEachJob(
    cli,
    { ...flags, ...target },
    job === undefined ? args : [job],
    'read',
    async (found, jobs) => {
      if (count > 1) cli.note(`-- ${found.id}`);
      if (flags.firstError !== true) return printLogs(cli, jobs, found, flags);
      const { printFirstError } = await import('../logs/first-error.ts');
      return printFirstError(cli, jobs, found, flags);
    },
    async () => {
      if (flags.follow !== true && flags.firstError !== true) await restartIfKilled(cli, createWaker(cli));
    },
  );
}

interface NewestJob {
  readonly job?: string;
  readonly context?: string | undefined;
  readonly namespace?: string | undefined;
}

/** Also of the jobs that this installation submitted to a cluster. */
async function newestJob(cli: Cli, { namespace, context }: LogsFlags): Promise<NewestJob> {
  const [client, { archivedRows }, { ownerLabels }] = await Promise.all([
    cli.services.client(),
    import('../../app/cluster/job-list.ts'),
    import('../../app/cluster/job-object.ts'),
  ]);
  const [{ rows }, archived, actor] = await Promise.all([
    client.list({ own: true }),
    archivedRows(cli.services, {}, new Set()),
    client.whoAmI(),
  ]);
  const own = ownerLabels(actor);
  const submitted = archived.filter(({ owner }) => owner !== null && own.includes(owner));
  const isInCluster = namespace !== undefined || context !== undefined;
  const [newest] = [...(isInCluster ? [] : rows), ...submitted].toSorted(
    (one, other) => other.createdAt - one.createdAt,
  );
  if (newest === undefined) {
    throw new JobmanError('You have no jobs yet. `jobman create train.yaml` creates one.', exitCode.notFound);
  }
  const { id, name, zone, backend } = newest;
  cli.note(`The newest job is ${backend === 'kubernetes' ? `${id} in ${zone}` : `${id} (${escapeLine(name)})`}.`);
  if (backend !== 'kubernetes') return { job: id };
  const { splitZone } = await import('../../app/cluster/job-view.ts');
  return { job: id, ...splitZone(zone) };
}
