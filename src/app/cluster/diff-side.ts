// One side of `jobman diff`: a job in a cluster, or of its archive.

import type { V1Container, V1Job } from '@kubernetes/client-node';
import type { MetricsView } from '../client.ts';
import { withMetrics, type DiffSide } from '../diff.ts';
import { JobmanError } from '../errors.ts';
import type { ClusterJob, ClusterPod } from './objects.ts';
import { withoutClusterKeys } from './job-object.ts';
import type { ClusterResult } from './job-result.ts';

interface SideParts {
  readonly job: ClusterJob;
  readonly pods: readonly ClusterPod[];
  /** Null if the archive has no copy of the Job. */
  readonly object: V1Job | null;
  readonly result: ClusterResult;
}

/** The Job without what the cluster adds to it. Containers and variables go by their names. */
export function clusterDiffSide({ job, pods, object, result }: SideParts): DiffSide {
  const { template, selector: _selector, ...spec } = object?.spec ?? { template: {} };
  const { containers, initContainers = [], ...podSpec } = template.spec ?? { containers: [] };
  const all = [...initContainers, ...containers];
  const byContainer = (of: (container: V1Container) => unknown): object =>
    Object.fromEntries(all.map((container) => [container.name, of(container)]));
  return {
    job: job.name,
    name: job.name,
    attempt: null,
    values: {
      spec:
        object === null
          ? null
          : {
              labels: withoutClusterKeys(object.metadata?.labels),
              annotations: withoutClusterKeys(object.metadata?.annotations),
              ...spec,
              pod: { ...podSpec, containers: byContainer(({ env: _env, image: _image, ...container }) => container) },
            },
      environment: byContainer(({ env = [], envFrom = [] }) => ({
        ...Object.fromEntries(env.map(({ name, value, valueFrom }) => [name, valueFrom ?? value ?? ''])),
        ...(envFrom.length === 0 ? {} : { envFrom }),
      })),
      image: object === null ? [...new Set(job.images)] : byContainer(({ image }) => image),
      hosts: { flavor: job.flavor, requests: job.requests, nodes: [...new Set(pods.map(({ node }) => node))] },
      job: { phase: result.phase },
      result: {
        message: result.message,
        podsSucceeded: job.succeeded,
        podsFailed: job.failed,
        ranMs: job.startedAt === null || job.endedAt === null ? null : job.endedAt - job.startedAt,
      },
    },
    files: null,
  };
}

/** The metrics are in the logs of the pods, which may be gone: then the side has the reason instead. */
export async function withPodMetrics(side: DiffSide, read: () => Promise<MetricsView>): Promise<DiffSide> {
  try {
    const metrics = await read();
    return metrics.names.length > 0 ? withMetrics(side, metrics) : { ...side, metricsProblem: 'its logs have none' };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return { ...side, metricsProblem: error.message };
  }
}
