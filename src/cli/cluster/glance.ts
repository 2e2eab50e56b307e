// Glance: what pods tell of jobs that have some which do not run. A Job alone says that its pod does not run yet, for hours if its
// image does not exist; why, only the pod knows. It is asked for beside the list, in one request, and does without an answer.

import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { clusterGlance, clusterPhase, refusedText, type ClusterVerdict } from '../../app/cluster/verdict.ts';
import { JobmanError } from '../../app/errors.ts';
import { isSettledPhase } from '../../core/phase.ts';
import { second, type Duration, type Instant } from '../../core/time.ts';
import { besideMost } from './within.ts';

/** The fields of a row that pods know better. */
export type Glance = Pick<ClusterVerdict, 'phase' | 'reason'>;

/** The newest jobs of which pods are asked for. Their names stand in one address, which proxies allow a few thousand letters. */
const jobsMost = 100;

/** True if a pod of it exists and does not run, by the Job alone. */
export function isUnready(job: ClusterJob): boolean {
  return job.active > job.ready && !job.suspended && !job.deleting && !isSettledPhase(clusterPhase(job));
}

/**
 * True if the pods of the job have to be read, for the cause of its failure or for how long its program ran: the times of the Job
 * include the wait for a node and an image. False for successful jobs of several pods, whose programs have no single time.
 */
export function isToldByPods(job: ClusterJob): boolean {
  if (job.suspended || job.deleting) return false;
  const phase = clusterPhase(job);
  if (phase === 'failed') return job.failed > 0 && job.failed <= podsMost;
  const isSingle = job.parallelism === 1 && (job.completions ?? 1) === 1;
  return isSingle && (phase === 'succeeded' || (phase === 'running' && !isUnready(job)));
}

/** True if it has no pod although it should have one by now: an event of the Job may say why. */
export function isPodless(job: ClusterJob, now: Instant): boolean {
  const isNew = now - (job.startedAt ?? job.createdAt) < podWithin;
  return job.active === 0 && !isNew && !job.suspended && !job.deleting && clusterPhase(job) === 'queued';
}

/** A cluster creates the first pod of a job within a second or two. */
const podWithin: Duration = 3 * second;

/** Failed pods of one job that are read for a list; the newest has the cause. */
const podsMost = 20;

/** Collects the jobs of a list of which pods or events are asked for. */
export interface Glancing {
  /** True if their answer may change the row of the job. */
  add(job: ClusterJob): boolean;
  /** By the uids of the jobs, where they add something to what the Job tells. An answer that is late or refused is left out. */
  read(): Promise<ReadonlyMap<string, Glance>>;
}

/** The options of a request for pods or events. */
interface GlanceOptions {
  readonly left?: AbortSignal;
  /** The jobs are of several namespaces. */
  readonly isEverywhere?: boolean;
}

/** Asks nothing before `read`, and nothing for no jobs. */
export function createGlancing(cluster: Cluster, now: Instant, options: GlanceOptions = {}): Glancing {
  const [unready, byPods, podless] = [createNewest(), createNewest(), createNewest()];
  return {
    add(job) {
      const list = isUnready(job) ? unready : isToldByPods(job) ? byPods : isPodless(job, now) ? podless : undefined;
      list?.add(job);
      return list !== undefined;
    },
    async read() {
      const found = await Promise.all([
        glances(cluster, unready.jobs(), now, options),
        glances(cluster, byPods.jobs(), now, { ...options, withEnded: true }),
        refusals(cluster, podless.jobs(), options),
      ]);
      return new Map(found.flatMap((some) => [...some]));
    },
  };
}

/** The newest of many jobs that come one by one. */
function createNewest(): { add(job: ClusterJob): void; jobs(): readonly ClusterJob[] } {
  let kept: ClusterJob[] = [];
  const newest = (): ClusterJob[] => kept.toSorted((one, other) => other.createdAt - one.createdAt).slice(0, jobsMost);
  return {
    add(job) {
      kept.push(job);
      // Ten thousand that wait are not held for the sake of a hundred.
      if (kept.length >= 10 * jobsMost) kept = newest();
    },
    jobs: newest,
  };
}

/** By their uids, where pods add something to what the Job tells; `withEnded`: also pods that have ended. */
export async function glances(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  now: Instant,
  { withEnded = false, ...options }: GlanceOptions & { readonly withEnded?: boolean } = {},
): Promise<ReadonlyMap<string, Glance>> {
  const found = new Map<string, Glance>();
  if (jobs.length === 0) return found;
  const query = {
    labels: `job-name in (${jobs.map(({ name }) => name).join(',')})`,
    ...(withEnded ? {} : { fields: 'status.phase!=Succeeded,status.phase!=Failed' }),
    ...soon(options),
  };
  const pods: ClusterPod[] = [];
  await unlessLate(query.signal, async () => {
    for await (const page of cluster.pods(query)) pods.push(...page);
  });
  for (const job of jobs) {
    const own = pods.filter(
      (pod) => pod.job === job.name && pod.namespace === job.namespace && (pod.jobUid ?? job.uid) === job.uid,
    );
    const glance = clusterGlance(job, own, now);
    if (glance !== null) found.set(job.uid, glance);
  }
  return found;
}

/** By their uids, the jobs for which the cluster refuses to create a pod. */
async function refusals(
  cluster: Cluster,
  jobs: readonly ClusterJob[],
  options: GlanceOptions,
): Promise<ReadonlyMap<string, Glance>> {
  const found = new Map<string, Glance>();
  if (jobs.length === 0) return found;
  const query = soon(options);
  await unlessLate(query.signal, async () => {
    const byUid = new Map((await cluster.refusedPods(query)).map((event) => [event.object.uid, event]));
    for (const job of jobs) {
      const event = byUid.get(job.uid);
      if (event !== undefined) found.set(job.uid, { phase: clusterPhase(job), reason: refusedText(job, event) });
    }
  });
  return found;
}

/** Where to ask, and for how long. */
function soon({ left, isEverywhere = false }: GlanceOptions): {
  readonly signal: AbortSignal;
  readonly everywhere?: true;
} {
  const late = AbortSignal.timeout(besideMost);
  const signal = left === undefined ? late : AbortSignal.any([late, left]);
  return { signal, ...(isEverywhere ? { everywhere: true } : {}) };
}

async function unlessLate(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof JobmanError) && !signal.aborted) throw error;
  }
}
