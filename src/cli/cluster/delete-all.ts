import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { recordOfJob } from '../../app/cluster/cluster-record.ts';
import { clusterLabels, ownerLabels } from '../../app/cluster/job-object.ts';
import { rowsOf } from '../../app/cluster/job-list.ts';
import { performOnCluster } from '../../app/cluster/perform.ts';
import { mapConcurrent } from '../../app/concurrency.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { reportError, type Cli } from '../context.ts';
import { untilInterrupted } from '../interrupt.ts';
import { printSteps } from '../jobs/perform.ts';
import type { ScopeFlags } from '../jobs/resolve.ts';
import { confirm } from '../prompt.ts';
import { listLines } from '../render/list.ts';
import { columnsOf, layoutOf } from '../screen.ts';

/** Concurrent deletions: the API server accepts many, its controllers handle few. */
const maxConcurrent = 8;
const maxRows = 50;

/** Deletes the jobs of all owners, or with `own` only this user's. Asks for confirmation. */
export async function deleteAllJobs(
  cli: Cli,
  flags: ScopeFlags & { readonly own?: boolean | undefined },
): Promise<number> {
  const cluster = await cli.services.cluster(omitUndefined({ context: flags.context, namespace: flags.namespace }));
  try {
    const { context, namespace } = cluster.context();
    const where = `${context}/${namespace}`;
    const mine = ownerLabels(await cli.services.actor());
    const labels = `${clusterLabels.managedBy}=jobman,${clusterLabels.owner} in (${mine.join(',')})`;
    const jobs = (await Array.fromAsync(cluster.jobs(flags.own === true ? { labels } : {}))).flat();
    if (jobs.length === 0) {
      cli.note(flags.own === true ? `You have no jobs in ${where}.` : `There are no jobs in ${where}.`);
      return exitCode.ok;
    }
    const foreign = jobs.filter(({ owner }) => owner === null || !mine.includes(owner)).length;
    if (!cli.json) {
      const rows = await rowsOf(cluster, jobs.slice(0, maxRows), cli.io.now());
      const layout = { ...layoutOf(cli), columns: columnsOf(cli.io.stderr), styler: cli.screen.styleErr };
      for (const line of listLines(rows, layout)) cli.note(line);
      if (jobs.length > maxRows) cli.note(`and ${jobs.length - maxRows} more`);
    }
    const others = foreign === 0 ? '' : `, ${foreign} of them not yours`;
    const counted = pluralize(jobs.length, 'job');
    const question = `Delete ${counted} in ${where}${others}?`;
    const refused = `${counted} in ${where}${others}: nothing was deleted.`;
    if (!(await confirm(cli, question, refused))) {
      cli.note(refused);
      return exitCode.failed;
    }
    return await untilInterrupted(cli, (signal) => deleteEach(cli, cluster, jobs, signal));
  } finally {
    await cluster.close();
  }
}

/** A failure does not stop the other deletions; Ctrl-C does. Resolves with the worst exit code. */
async function deleteEach(
  cli: Cli,
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  signal: AbortSignal,
): Promise<number> {
  const { context } = cluster.context();
  let worst: number = exitCode.ok;
  let left = 0;
  await mapConcurrent(jobs, maxConcurrent, async (job) => {
    if (signal.aborted) {
      left += 1;
      return;
    }
    try {
      const record = recordOfJob(job, { context, cluster, archived: null, copy: null });
      const steps = performOnCluster(cli.services, record, 'delete', { signal });
      const code = await printSteps(cli, steps);
      worst = Math.max(worst, code);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      worst = Math.max(worst, reportError(error, cli, { job: job.name }));
    }
  });
  if (left > 0) cli.printStderr(`The other ${pluralize(left, 'job')} did not change.`);
  return worst;
}
