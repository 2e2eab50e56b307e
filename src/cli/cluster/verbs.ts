// Verbs: what the owner says to a job of a cluster. Whether a word means anything to it is decided in app/cluster/client.ts; here
// it is done, and answered as for every other job.

import type { V1Job } from '@kubernetes/client-node';
import type { AskAnswer } from '../../app/client.ts';
import { clusterCan, type ClusterKeeper, type ClusterVerb, rerunNames, rerunObject } from '../../app/cluster/client.ts';
import type { Cluster, ClusterJob, ClusterRemoval } from '../../app/cluster/cluster.ts';
import type { KeptJob } from '../../app/cluster/kept.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { type Duration, second } from '../../core/time.ts';
import { type Cli, complainAbout, sayAnswer } from '../context.ts';
import { pause, untilLeft } from '../leave.ts';
import { begin, sayKept } from './submission.ts';
import { podsOf } from './verdict.ts';
import { clusterLabels, labelValue } from '../../app/cluster/job-object.ts';
import { clusterPhase } from '../../app/cluster/verdict.ts';
import { fanOut } from '../../app/fan-out.ts';
import { ageText, countText } from '../../app/figures.ts';
import { given } from '../../core/given.ts';
import { confirm } from '../prompt.ts';
import { aligned } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { PlaceFlags } from './either.ts';
import { glances, isUnready } from './list.ts';

const copiedWithin: Duration = 20 * second;
const lookEvery: Duration = 0.25 * second;

interface Asked {
  readonly cli: Cli;
  readonly keeper: ClusterKeeper;
  readonly cluster: Cluster;
  readonly job: ClusterJob;
}

/** One command to one job. */
export async function askCluster(
  cli: Cli,
  keeper: ClusterKeeper,
  cluster: Cluster,
  job: ClusterJob,
  verb: ClusterVerb,
): Promise<number> {
  const asked: Asked = { cli, keeper, cluster, job };
  const can = clusterCan(job, verb);
  if (can.kind === 'no') return sayAnswer(cli, refusal(job.name, can.sentence));
  if (can.kind === 'done') return sayDone(cli, job.name, can.sentence);
  switch (verb) {
    case 'stop':
      await cluster.patch(job.name, { spec: { suspend: true } });
      await wakeController(asked);
      return sayDone(cli, job.name, await stoppedText(cluster, job));
    case 'start':
    case 'resume':
      switch (await untilLeft(cli, (signal) => stoppedPodsGone(asked, signal))) {
        case 'left':
          return exitCode.interrupted;
        case 'started':
          return sayDone(cli, job.name, `${job.name} was started meanwhile by another command.`);
        case 'gone':
      }
      await cluster.patch(job.name, { spec: { suspend: false } });
      await wakeController(asked);
      return sayDone(
        cli,
        job.name,
        `${job.name} is started; its pods begin anew, and its program finds its own checkpoint.`,
      );
    case 'rerun': {
      const object = await cluster.raw(job.name);
      if (object === null) throw new JobmanError(`${job.name} was deleted meanwhile.`, exitCode.notFound);
      return rerun(cli, keeper, cluster, object);
    }
    case 'cancel':
      return untilLeft(cli, (signal) => cancel(asked, signal));
  }
}

/** Names of its pods that have not ended. Where pods may not be listed, the Job's own counts answer, without names. */
async function livePods(cluster: Cluster, job: ClusterJob): Promise<readonly string[]> {
  try {
    const pods = await podsOf(cluster, job);
    return pods.filter(({ phase }) => phase !== 'Succeeded' && phase !== 'Failed').map(({ name }) => name);
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code !== exitCode.failed) throw error;
    const now = await cluster.job(job.name);
    return Array.from({ length: now === null ? 0 : now.active + (now.terminating ?? 0) }, () => 'a pod');
  }
}

/** True only of pods that were seen gone; a pod has half a minute to end by itself. */
async function stoppedText(cluster: Cluster, job: ClusterJob): Promise<string> {
  const back = `Back: jobman start ${job.name}`;
  let live: number;
  try {
    live = (await livePods(cluster, job)).length;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return `${job.name} is being stopped; its pods could not be checked: ${error.message} ${back}`;
  }
  if (live === 0) return `${job.name} is stopped: it has no pods, and it holds nothing. ${back}`;
  const pods = live === 1 ? 'its pod is' : `its ${live} pods are`;
  return `${job.name} is being stopped: ${pods} terminating, which may take half a minute. ${back}`;
}

/**
 * Waits until none of its earlier pods runs, so that no two programs of the job run at once. Throws JobmanError (not found) for a
 * job that is deleted meanwhile. `started`: another command has started it, so its pods are new ones.
 */
async function stoppedPodsGone(
  { cli, cluster, job }: Asked,
  signal: AbortSignal,
): Promise<'gone' | 'started' | 'left'> {
  for (let turn = 0; ; turn += 1) {
    const live = await livePods(cluster, job);
    if (live.length === 0) return 'gone';
    if (turn === 0) cli.note(`${job.name}: waiting until its stopped pods are gone: ${live.join(', ')}.`);
    await pause(lookEvery, signal);
    if (signal.aborted) {
      cli.complain(`Left before the stopped pods of ${job.name} were gone; it was not started.`);
      return 'left';
    }
    const now = await cluster.job(job.name);
    if (now === null || now.uid !== job.uid || now.deleting)
      throw new JobmanError(`${job.name} was deleted meanwhile; it was not started.`, exitCode.notFound);
    if (!now.suspended) return 'started';
  }
}

/** One word to a job that the cluster has forgotten, or that cannot be asked: it can be run again where the cluster answers. */
export async function askKept(
  cli: Cli,
  keeper: ClusterKeeper,
  { job, object }: KeptJob,
  cluster: Cluster | null,
  verb: ClusterVerb,
): Promise<number> {
  if (verb !== 'rerun' || cluster === null) {
    return sayAnswer(cli, refusal(job.name, `${job.name} is not in its cluster, so there is nothing to ${verb}.`));
  }
  if (object === null) {
    return sayAnswer(cli, refusal(job.name, `What ${job.name} ran was not kept, so it cannot be run again.`));
  }
  return rerun(cli, keeper, cluster, JSON.parse(object) as V1Job);
}

async function rerun(cli: Cli, keeper: ClusterKeeper, cluster: Cluster, object: V1Job): Promise<number> {
  const place = cluster.place();
  const before = object.metadata?.name ?? '';
  try {
    const { installation, isKept } = await begin(cli, keeper, place);
    for (const name of rerunNames(object)) {
      // A name that is kept would mean two jobs, as far as our copies go.
      if ((await cluster.job(name)) !== null || (await keeper.jobs({ name, namespace: place.namespace })).length > 0)
        continue;
      const made = await cluster.create(rerunObject(object, name, { owner: cli.io.user, installation }));
      const code = sayDone(
        cli,
        name,
        `${name} runs what ${before} ran, from the beginning, in ${place.context}/${place.namespace}.`,
      );
      if (isKept) await sayKept(cli, keeper.submitted(place, made));
      return code;
    }
    return sayAnswer(
      cli,
      refusal(before, `${before} was run again so often that its names are used up; submit it under another.`),
    );
  } finally {
    await keeper.close();
  }
}

/** The logs are to outlive it, so what runs is first seen to be copied. */
async function cancel(asked: Asked, signal: AbortSignal): Promise<number> {
  const { cli, keeper, cluster, job } = asked;
  const { context, namespace } = cluster.place();
  const isKept = await wakeController(asked);
  const missing = isKept ? await logsNotCopied(asked, signal) : [];
  if (signal.aborted) {
    cli.complain(`Left while its logs were still being copied; ${job.name} was not cancelled.`);
    return exitCode.interrupted;
  }
  if (missing.length > 0)
    cli.note(`Not all that ${job.name} printed may be kept: ${missing.join(', ')} could not be copied in time.`);
  if ((await removal(cli, cluster, job, signal)) === null) return exitCode.interrupted;
  await keeper.deleted(job.uid);
  const kept = isKept ? '; its logs and history are kept' : '';
  return sayDone(
    cli,
    job.name,
    `${job.name} is cancelled: it and its pods are gone from ${context}/${namespace}${kept}.`,
  );
}

async function logsNotCopied({ cli, keeper, cluster, job }: Asked, signal: AbortSignal): Promise<readonly string[]> {
  const until = cli.io.now() + copiedWithin;
  for (;;) {
    const pods = await podsOf(cluster, job);
    const wanted = pods.flatMap((pod) =>
      pod.containers.flatMap(({ name, state }) => (state === 'waiting' ? [] : [`${pod.name} ${name}`])),
    );
    const kept = await keeper.job(job.uid);
    const files = kept === undefined ? [] : await keeper.logs(kept);
    const missing = wanted.filter((one) => !files.some(({ pod, container }) => `${pod} ${container}` === one));
    if (missing.length === 0 || cli.io.now() >= until || signal.aborted) return missing;
    await pause(lookEvery, signal);
  }
}

/** The controller should see what comes of it. True when it does; that it cannot be started is no reason not to do as asked. */
async function wakeController({ cli, keeper, job: { installation } }: Asked): Promise<boolean> {
  // Jobs of another tool or another home are not archived here.
  if (!keeper.isUsed || installation === null || installation !== (await cli.services.installation())) return false;
  const { settings } = await cli.services.clusterSettings();
  return settings.kubernetes.keepLogs && sayKept(cli, keeper.wake());
}

function sayDone(cli: Cli, name: string, message: string): number {
  return sayAnswer(cli, { id: name, ok: true, message, code: exitCode.ok });
}

function refusal(name: string, message: string): AskAnswer {
  return { id: name, ok: false, message, code: exitCode.conflict };
}

// ------------------------------------------------------------------------------------------ delete

/** Deletions that are under way at once: an API server takes many, and its controllers few. */
const atOnce = 8;
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

/** Null when the signal came first, which is said. */
async function removal(
  cli: Cli,
  cluster: Cluster,
  { name, active }: Pick<ClusterJob, 'name' | 'active'>,
  signal: AbortSignal,
): Promise<ClusterRemoval | null> {
  if (active > 0) cli.note(`${name}: its pods are asked to end; they may take half a minute.`);
  try {
    return await cluster.remove(name, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
    cli.complain(`Left before ${name} was seen gone; what the cluster was told stays told. See: jobman why ${name}`);
    return null;
  }
}
