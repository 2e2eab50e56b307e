// The usage of a cluster's job, from its last observation in the archive.

import { clusterUsageOf, type UsageRow } from '../../reports/usage.ts';
import type { ArchivedJob } from './objects.ts';

/** Pods by the order of their creation. A pod without an end has ended with its job at the latest. */
export function archivedUsage({
  job,
  pods,
  context,
  goneAt,
  flavorPrice = null,
}: Pick<ArchivedJob, 'job' | 'pods' | 'context' | 'goneAt' | 'flavorPrice'>): readonly UsageRow[] {
  const { uid, name, namespace, owner, flavor } = job;
  return clusterUsageOf({
    uid,
    name,
    owner,
    context,
    namespace,
    flavor,
    flavorPrice,
    pods: pods.map((pod) => {
      const containers = pod.containers.filter(({ init }) => !init);
      const starts = containers.flatMap(({ startedAt }) => startedAt ?? []);
      const ends = containers.flatMap(({ endedAt }) => endedAt ?? []);
      const hasEnded = pod.phase === 'Succeeded' || pod.phase === 'Failed';
      const endedAt = hasEnded && ends.length > 0 ? Math.max(...ends) : (job.endedAt ?? goneAt);
      const gpus = Object.entries(pod.requests).map(([resource, amount]) =>
        /\/(?:gpu|tpu)$/.test(resource) ? Number(amount) : 0,
      );
      return {
        name: pod.name,
        gpus: gpus.reduce((sum, count) => sum + count, 0),
        createdAt: pod.createdAt,
        startedAt: starts.length === 0 ? null : Math.min(...starts),
        endedAt,
        hasFailed: pod.phase === 'Failed',
      };
    }),
  });
}
