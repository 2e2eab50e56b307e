// The owner's commands to a cluster job; app/cluster/commands.ts decides whether a command applies.

import type { V1Job } from '@kubernetes/client-node';
import {
  checkClusterCommand,
  type ClusterArchive,
  type ClusterVerb,
  rerunNames,
  rerunObject,
} from '../../app/cluster/commands.ts';
import type { Cluster, ClusterJob, ClusterRemoval } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { type Duration, second } from '../../core/model/time.ts';
import { type Cli, reportError, printDone, printRefusal } from '../context.ts';
import { untilInterrupted } from '../interrupt.ts';
import { beginArchive, printArchiveStart } from './submission.ts';
import { podsOf } from '../../app/cluster/observe-job.ts';
import { clusterLabels, ownerLabels } from '../../app/cluster/job-object.ts';
import { mapConcurrent, pause } from '../../app/concurrency.ts';
import { pluralize } from '../../app/format.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { confirm } from '../prompt.ts';
import { listLines } from '../render/list.ts';
import { columnsOf } from '../screen.ts';
import type { ContextFlags } from '../jobs/handle.ts';
import { rowsOf } from './list.ts';

const copyTimeout: Duration = 20 * second;
const pollInterval: Duration = 0.25 * second;

interface CommandContext {
  readonly cli: Cli;
  readonly archive: ClusterArchive;
  readonly cluster: Cluster;
  readonly job: ClusterJob;
}

export async function runClusterVerb(command: CommandContext, verb: ClusterVerb): Promise<number> {
  const { cli, archive, cluster, job } = command;
  const can = checkClusterCommand(job, verb);
  if (can.kind === 'refused') return printRefusal(cli, job.name, can.message);
  if (can.kind === 'already_done') return printDone(cli, job.name, can.message);
  switch (verb) {
    case 'stop':
      await cluster.patch(job.name, { spec: { suspend: true } });
      await wakeForArchive(command);
      return printDone(cli, job.name, formatStopped(job));
    case 'start':
    case 'resume':
      switch (await untilInterrupted(cli, (signal) => waitForStoppedPods(command, signal))) {
        case 'left':
          return exitCode.interrupted;
        case 'started':
          return printDone(cli, job.name, `Job ${job.name} was started meanwhile by another command.`);
        case 'gone':
      }
      await cluster.patch(job.name, { spec: { suspend: false } });
      await wakeForArchive(command);
      return printDone(
        cli,
        job.name,
        `Job ${job.name} is started with new pods; its program finds its own checkpoint.`,
      );
    case 'rerun': {
      const object = await cluster.raw(job.name);
      if (object === null) throw new JobmanError(`Job ${job.name} was deleted meanwhile.`, exitCode.notFound);
      return rerun(cli, archive, cluster, object);
    }
    case 'cancel':
      return untilInterrupted(cli, (signal) => removeJob(command, 'cancel', signal));
  }
}

function formatStopped({ name, active, terminating = 0 }: ClusterJob): string {
  const back = `Back: jobman start ${name}`;
  const count = active + terminating;
  if (count === 0) return `Job ${name} is stopped: it has no pods, and it holds nothing. ${back}`;
  const pods = count === 1 ? 'its pod is' : `its ${count} pods are`;
  return `Job ${name} is being stopped: ${pods} terminating, which may take half a minute. ${back}`;
}

/**
 * Waits until no earlier pod of the job runs, so that two of its programs never run at once. `started`: another command
 * has started the job meanwhile. Throws JobmanError (not found) for a deleted job.
 */
async function waitForStoppedPods(
  { cli, cluster, job }: CommandContext,
  signal: AbortSignal,
): Promise<'gone' | 'started' | 'left'> {
  for (let round = 0; ; round += 1) {
    const pods = await podsOf(cluster, job);
    const live = pods.flatMap(({ name, phase }) => (phase === 'Succeeded' || phase === 'Failed' ? [] : [name]));
    if (live.length === 0) return 'gone';
    if (round === 0) cli.note(`${job.name}: waiting until its stopped pods are deleted: ${live.join(', ')}.`);
    await pause(pollInterval, signal);
    if (signal.aborted) {
      cli.printStderr(`Interrupted before the stopped pods of ${job.name} were deleted; it was not started.`);
      return 'left';
    }
    const now = await cluster.job(job.name);
    if (now === null || now.uid !== job.uid || now.deleting)
      throw new JobmanError(`Job ${job.name} was deleted meanwhile; it was not started.`, exitCode.notFound);
    if (!now.suspended) return 'started';
  }
}

export async function rerun(cli: Cli, archive: ClusterArchive, cluster: Cluster, object: V1Job): Promise<number> {
  const context = cluster.context();
  const before = object.metadata?.name ?? '';
  try {
    const { installation, isArchived } = await beginArchive(cli, archive, context);
    const [owner = ''] = ownerLabels(await cli.services.actor());
    for (const name of rerunNames(object)) {
      // A name that the archive has would then mean two jobs.
      if ((await cluster.job(name)) !== null || (await archive.jobs({ name, namespace: context.namespace })).length > 0)
        continue;
      const made = await cluster.create(rerunObject(object, name, { owner, installation }));
      const code = printDone(
        cli,
        name,
        `Job ${name} runs what ${before} ran, from the beginning, in ${context.context}/${context.namespace}.`,
      );
      if (isArchived) await printArchiveStart(cli, archive.recordSubmitted(context, made));
      return code;
    }
    return printRefusal(
      cli,
      before,
      `${before} was run again so often that its names are used up; submit it under another.`,
    );
  } finally {
    await archive.close();
  }
}

/** Deletes the Job once its logs are archived, or after a time limit; `delete` also takes it off the list. */
async function removeJob(command: CommandContext, verb: 'cancel' | 'delete', signal: AbortSignal): Promise<number> {
  const { cli, archive, cluster, job } = command;
  const { name, uid } = job;
  const { context, namespace } = cluster.context();
  const isArchived = await wakeForArchive(command);
  const missing = isArchived ? await logsNotCopied(command, signal) : [];
  if (signal.aborted) {
    cli.printStderr(`Interrupted while the logs were still being archived; job ${name} did not change.`);
    return exitCode.interrupted;
  }
  if (missing.length > 0)
    cli.note(
      `The archive may lack the end of the logs of job ${name}: ${missing.join(', ')} could not be archived in time.`,
    );
  if (job.active > 0) cli.note(`${name}: its pods are ending; this may take half a minute.`);
  let removal: ClusterRemoval;
  try {
    removal = await cluster.remove(name, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
    cli.printStderr(`Interrupted before ${name} was deleted; the deletion continues. See: jobman why ${name}`);
    return exitCode.interrupted;
  }
  if (removal === 'gone') await archive.recordDeleted(uid);
  if (verb === 'delete') await archive.hide(uid);
  if (removal === 'absent') return printDone(cli, name, `Job ${name} is no longer in ${context}/${namespace}.`);
  const kept = isArchived ? '; its logs and history are kept' : '';
  const subject = verb === 'cancel' ? `Job ${name} is cancelled: it` : `Job ${name}`;
  return printDone(cli, name, `${subject} and its pods are deleted from ${context}/${namespace}${kept}.`);
}

async function logsNotCopied(
  { cli, archive, cluster, job }: CommandContext,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const until = cli.io.now() + copyTimeout;
  for (;;) {
    const pods = await podsOf(cluster, job);
    const wanted = pods.flatMap((pod) =>
      pod.containers.flatMap(({ name, state }) => (state === 'waiting' ? [] : [`${pod.name} ${name}`])),
    );
    const archived = await archive.job(job.uid);
    const files = archived === undefined ? [] : await archive.logs(archived);
    const missing = wanted.filter((one) => !files.some(({ pod, container }) => `${pod} ${container}` === one));
    if (missing.length === 0 || cli.io.now() >= until || signal.aborted) return missing;
    await pause(pollInterval, signal);
  }
}

/** False if the controller cannot archive the result: the command continues without it. */
async function wakeForArchive({ cli, archive, job: { installation } }: CommandContext): Promise<boolean> {
  if (!archive.isUsed || installation === null || installation !== (await cli.services.installationId())) return false;
  const { settings } = await cli.services.clusterSettings();
  return settings.kubernetes.keepLogs && printArchiveStart(cli, archive.wake());
}

// ------------------------------------------------------------------------------------------ delete

/** Concurrent deletions: the API server accepts many, its controllers handle few. */
const maxConcurrent = 8;
const maxRows = 50;

/** Waits until the job and its pods are gone; 130 if the user leaves before. */
export function deleteClusterJob(command: CommandContext): Promise<number> {
  return untilInterrupted(command.cli, (signal) => removeJob(command, 'delete', signal));
}

/** Deletes the jobs of all owners, or with `own` only this user's. Asks for confirmation. */
export async function deleteAllJobs(
  cli: Cli,
  flags: ContextFlags & { readonly own?: boolean | undefined },
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
      const { styleErr: styler, unicode } = cli.screen;
      for (const line of listLines(rows, { columns: columnsOf(cli.io.stderr), styler, unicode, now: cli.io.now() }))
        cli.note(line);
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
  const archive = await cli.services.clusterArchive();
  let worst: number = exitCode.ok;
  let left = 0;
  await mapConcurrent(jobs, maxConcurrent, async (job) => {
    if (signal.aborted) {
      left += 1;
      return;
    }
    try {
      const code = await removeJob({ cli, archive, cluster, job }, 'delete', signal);
      worst = Math.max(worst, code);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      worst = Math.max(worst, reportError(error, cli, { job: job.name }));
    }
  });
  if (left > 0) cli.printStderr(`The other ${pluralize(left, 'job')} did not change.`);
  return worst;
}
