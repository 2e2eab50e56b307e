// The active jobs of a cluster and their pods for `top`. While the cluster does not answer, the last ones stay.

import { isFinishedPhase } from '../../core/decide/phase.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import { JobmanError } from '../errors.ts';
import { formatLocalTimeOfDay } from '../format.ts';
import type { JobScope } from '../job-source.ts';
import { createPoller } from '../poller.ts';
import type { ClusterActivity, TopWorker } from '../top.ts';
import { unknownFigures } from '../worker-figures.ts';
import type { Client } from '../client.ts';
import type { ArchivedLine, ClusterJob, ClusterPod } from './objects.ts';
import type { Cluster, PodUsage } from './cluster.ts';
import type { ClusterParts } from './cluster-record.ts';
import { clusterRow } from './job-list.ts';
import { clusterPhase, clusterSummary } from './job-result.ts';
import { mainContainer } from './observe-job.ts';
import { parseQuantity, quantityNumber } from './quantity.ts';

/** Limit for one round of requests. */
const answerTimeout: Duration = 10 * second;

/** Reads the activity again and again until `close`. `first` resolves after the first round, even if it failed. */
export function watchActivity(parts: ClusterParts, { context, namespace }: JobScope, interval: Duration) {
  const { io } = parts;
  let opened: Promise<Cluster> | undefined;
  let jobs: readonly ClusterActivity[] = [];
  let note: string | null = null;
  let answeredAt: Instant | null = null;
  let revision = 0;

  async function read(end: AbortSignal): Promise<void> {
    try {
      opened ??= parts.cluster(omitUndefined({ context, namespace, quiet: true }));
      jobs = await readActivity(
        await opened,
        (await parts.clusterSubmissions()).isUsed ? await parts.client() : null,
        io.now(),
        AbortSignal.any([end, AbortSignal.timeout(answerTimeout)]),
      );
      answeredAt = io.now();
      note = null;
    } catch (error) {
      if (end.aborted) return;
      // A cluster that could not be opened may be configured meanwhile.
      await close();
      const why = error instanceof JobmanError ? error.message : `it did not answer within ${answerTimeout / second} s`;
      note = `cluster not ${answeredAt === null ? 'read' : `updated since ${formatLocalTimeOfDay(answeredAt)}`}: ${why}`;
    }
    revision += 1;
  }

  async function close(): Promise<void> {
    const cluster = opened;
    opened = undefined;
    await cluster?.then((one) => one.close()).catch(() => undefined);
  }

  const poller = createPoller(io, interval, read);
  return {
    get revision(): number {
      return revision;
    },
    first: poller.first,
    jobs: (): readonly ClusterActivity[] => jobs,
    note: (): string | null => note,
    async close(): Promise<void> {
      await poller.close();
      await close();
    },
  };
}

async function readActivity(
  cluster: Cluster,
  client: Client | null,
  now: Instant,
  signal: AbortSignal,
): Promise<readonly ClusterActivity[]> {
  const listed = (await Array.fromAsync(cluster.jobs({ signal }))).flat();
  const jobs = listed.filter((job) => !isFinishedPhase(clusterPhase(job)));
  if (jobs.length === 0) return [];
  const fields = 'status.phase!=Succeeded,status.phase!=Failed';
  const [pages, usage] = await Promise.all([
    Array.fromAsync(cluster.pods({ labels: 'job-name', fields, signal })),
    readUsage(cluster, signal),
  ]);
  const byJob = Map.groupBy(pages.flat(), ({ job }) => job);
  return Promise.all(
    jobs.map(async (job): Promise<ClusterActivity> => {
      const own = (byJob.get(job.name) ?? []).filter(({ jobUid }) => (jobUid ?? job.uid) === job.uid);
      // From our copies of the logs, which the controller follows for the jobs of this installation.
      const lines =
        (await client?.lastArchivedLines(
          job.uid,
          own.map(({ name }) => name),
        )) ?? [];
      const pods = own.map((pod) => {
        const main = mainContainer(pod.containers)?.name;
        const log = lines.find((line) => line.pod === pod.name && line.container === main);
        return podRow(job, pod, { usage: usage.get(pod.name), log });
      });
      const row = clusterRow(job, cluster.context(), now, clusterSummary(job, own, now) ?? undefined);
      return { row, pods };
    }),
  );
}

/** Empty without the resource metrics API: then the pods are shown without their usage. */
async function readUsage(cluster: Cluster, signal: AbortSignal): Promise<ReadonlyMap<string, PodUsage>> {
  try {
    return new Map(((await cluster.podUsage({ signal })) ?? []).map((usage) => [usage.pod, usage]));
  } catch (error) {
    if (error instanceof JobmanError || signal.aborted) return new Map();
    throw error;
  }
}

function podRow(
  job: ClusterJob,
  pod: ClusterPod,
  { usage, log }: { readonly usage: PodUsage | undefined; readonly log: ArchivedLine | undefined },
): TopWorker {
  const waiting = pod.containers.find(({ state, reason }) => state === 'waiting' && reason !== null);
  const limits = Object.values(pod.limits ?? {}).map(amountOf);
  // Containers without a limit may use the whole node, so that their sum is no limit.
  const memoryLimit =
    limits.length === pod.containers.length && limits.length > 0 ? limits.reduce((sum, one) => sum + one, 0) : null;
  const cpus = amountOf(pod.requests['cpu']);
  const memory = memoryLimit ?? amountOf(pod.requests['memory']);
  return {
    kind: 'worker',
    job: job.name,
    worker: pod.index,
    pod: pod.name,
    host: pod.node,
    state: pod.phase,
    restarts: pod.containers.reduce((sum, { restarts }) => sum + restarts, 0),
    logAt: log?.at ?? null,
    lastLine: log?.line ?? null,
    ...unknownFigures,
    cpuPercent: usage === undefined || cpus === 0 ? null : (100 * usage.cpus) / cpus,
    memoryUsedBytes: usage?.memoryBytes ?? null,
    memoryTotalBytes: memory === 0 ? null : memory,
    measuredAt: usage?.at ?? null,
    silentSinceAt: null,
    message: pod.reason ?? waiting?.reason ?? null,
  };
}

function amountOf(written: string | undefined): number {
  const quantity = parseQuantity(written ?? '');
  return quantity === undefined ? 0 : quantityNumber(quantity);
}
