// Delete in a cluster: one job, or every Job of a namespace. Nothing is reported gone before it is seen gone.

import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { clusterLabels, labelValue } from '../../app/cluster/job-object.ts';
import { clusterPhase } from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { fanOut } from '../../app/fan-out.ts';
import { ageText, countText } from '../../app/figures.ts';
import { given } from '../../core/given.ts';
import { complainAbout, sayAnswer, type Cli } from '../context.ts';
import { untilLeft } from '../leave.ts';
import { confirm } from '../prompt.ts';
import { aligned } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { PlaceFlags } from './either.ts';
import { glances, isUnready } from './glance.ts';
import { removal } from './removal.ts';

/** Deletions that are under way at once: an API server takes many, and its controllers few. */
const atOnce = 8;
/** Rows of what will be removed, before a question. */
const rowsMost = 50;

/** One job, until it is gone with its pods; and off the list. 130 when the reader left before. */
export function deleteClusterJob(cli: Cli, cluster: Cluster, job: ClusterJob): Promise<number> {
  return untilLeft(cli, (signal) => deleteOne(cli, cluster, job, signal));
}

async function deleteOne(cli: Cli, cluster: Cluster, job: ClusterJob, signal: AbortSignal): Promise<number> {
  const { context, namespace } = cluster.place();
  const { name, uid } = job;
  const came = await removal(cli, cluster, job, signal);
  if (came === null) return exitCode.interrupted;
  const keeper = await cli.services.keeper();
  if (came === 'gone') await keeper.deleted(uid);
  await keeper.hide(uid);
  const message =
    came === 'gone'
      ? `${name} is deleted: it and its pods are gone from ${context}/${namespace}.`
      : `${name} was not in ${context}/${namespace} any more.`;
  return sayAnswer(cli, { id: name, ok: true, message, code: exitCode.ok });
}

/** Every Job of the namespace, whoever made it, or with `own` those of this user. Asks first. */
export async function deleteAllJobs(
  cli: Cli,
  flags: PlaceFlags & { readonly own?: boolean | undefined },
): Promise<number> {
  const cluster = await cli.services.cluster(given({ context: flags.context, namespace: flags.namespace }));
  try {
    const { context, namespace } = cluster.place();
    const where = `${context}/${namespace}`;
    const mine = labelValue(cli.io.user);
    const labels = `${clusterLabels.managedBy}=jobman,${clusterLabels.owner}=${mine}`;
    const jobs = (await Array.fromAsync(cluster.jobs(flags.own === true ? { labels } : {}))).flat();
    if (jobs.length === 0) {
      cli.note(flags.own === true ? `You have no jobs in ${where}.` : `There are no jobs in ${where}.`);
      return exitCode.ok;
    }
    const foreign = jobs.filter(({ owner }) => owner !== mine).length;
    if (!cli.json) await sayWhat(cli, cluster, jobs, mine);
    const others = foreign === 0 ? '' : `, ${foreign} of them not yours`;
    const counted = countText(jobs.length, 'job');
    const question = `Delete ${counted} in ${where}${others}?`;
    const refused = `${counted} in ${where}${others}: nothing was deleted.`;
    if (!(await confirm(cli, question, refused))) {
      cli.note(refused);
      return exitCode.failed;
    }
    return await untilLeft(cli, (signal) => deleteEach(cli, cluster, jobs, signal));
  } finally {
    await cluster.close();
  }
}

/** One that fails keeps no other from its end; the worst exit code is the command's. Whoever leaves, leaves the rest alone. */
async function deleteEach(
  cli: Cli,
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  signal: AbortSignal,
): Promise<number> {
  let worst: number = exitCode.ok;
  let left = 0;
  await fanOut(jobs, atOnce, async (job) => {
    if (signal.aborted) {
      left += 1;
      return;
    }
    try {
      const code = await deleteOne(cli, cluster, job, signal);
      worst = Math.max(worst, code);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      worst = Math.max(worst, complainAbout(error, cli));
    }
  });
  if (left > 0) cli.complain(`Nothing was asked about the other ${countText(left, 'job')}.`);
  return worst;
}

/** On standard error, beside the question that follows. */
async function sayWhat(cli: Cli, cluster: Cluster, jobs: readonly ClusterJob[], mine: string): Promise<void> {
  const now = cli.io.now();
  const shown = jobs.slice(0, rowsMost);
  // As `list` names it: a Job alone does not say that its pod has no image.
  const found = await glances(cluster, shown.filter(isUnready), now);
  const rows = shown.map((job) => [
    job.name,
    found.get(job.uid)?.phase ?? clusterPhase(job),
    ageText(now - job.createdAt),
    job.owner === null ? 'made by another tool' : job.owner === mine ? 'yours' : `of ${job.owner}`,
  ]);
  const lines = aligned(
    [['JOB', 'STATUS', 'AGE', 'WHOSE'], ...rows],
    ['left', 'left', 'right', 'left'],
    columnsOf(cli.io.stderr),
  );
  for (const line of lines) cli.note(line);
  if (jobs.length > rowsMost) cli.note(`and ${jobs.length - rowsMost} more`);
}
