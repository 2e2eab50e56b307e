// Verbs: what the owner says to a job of a cluster. Whether a word means anything to it is decided in app/cluster/client.ts; here
// it is done, and answered as for every other job.

import type { V1Job } from '@kubernetes/client-node';
import type { AskAnswer } from '../../app/client.ts';
import { clusterCan, rerunNames, rerunObject, type ClusterKeeper, type ClusterVerb } from '../../app/cluster/client.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import type { KeptJob } from '../../app/cluster/kept.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/time.ts';
import { sayAnswer, type Cli } from '../context.ts';
import { pause, untilLeft } from '../leave.ts';
import { begin, sayKept } from './keep.ts';
import { removal } from './removal.ts';
import { podsOf } from './sight.ts';

/** A cancel waits so long for copies of the logs. */
const copiedWithin: Duration = 20 * second;
const lookEvery: Duration = 0.25 * second;

/** One word to one job. */
export async function askCluster(
  cli: Cli,
  keeper: ClusterKeeper,
  cluster: Cluster,
  job: ClusterJob,
  verb: ClusterVerb,
): Promise<number> {
  const can = clusterCan(job, verb);
  if (can.kind === 'no') return sayAnswer(cli, refusal(job.name, can.sentence));
  if (can.kind === 'done') return sayDone(cli, job.name, can.sentence);
  switch (verb) {
    case 'stop':
      await cluster.patch(job.name, { spec: { suspend: true } });
      await look(cli, keeper, job);
      return sayDone(cli, job.name, await stoppedText(cluster, job));
    case 'start':
    case 'resume':
      switch (await untilLeft(cli, (signal) => stoppedPodsGone(cli, cluster, job, signal))) {
        case 'left':
          return exitCode.interrupted;
        case 'started':
          return sayDone(cli, job.name, `${job.name} was started meanwhile by another command.`);
        case 'gone':
      }
      await cluster.patch(job.name, { spec: { suspend: false } });
      await look(cli, keeper, job);
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
      return untilLeft(cli, (signal) => cancel(cli, keeper, cluster, job, signal));
  }
}

/**
 * Names of its pods that have not ended, those that are being ended among them. Where pods may not be listed the Job's own counts
 * answer, without names.
 */
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
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
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
async function cancel(
  cli: Cli,
  keeper: ClusterKeeper,
  cluster: Cluster,
  job: ClusterJob,
  signal: AbortSignal,
): Promise<number> {
  const { context, namespace } = cluster.place();
  const isKept = await look(cli, keeper, job);
  const missing = isKept ? await logsNotCopied(cli, keeper, cluster, job, signal) : [];
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

/** Waits until each container that has printed has a copy; answers those that have none in time. */
async function logsNotCopied(
  cli: Cli,
  keeper: ClusterKeeper,
  cluster: Cluster,
  job: ClusterJob,
  signal: AbortSignal,
): Promise<readonly string[]> {
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
async function look(cli: Cli, keeper: ClusterKeeper, { installation }: ClusterJob): Promise<boolean> {
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
