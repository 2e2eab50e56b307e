// Remove job: a Job is removed with its pods, and its removal is seen before it is reported.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterRemoval } from '../../app/cluster/cluster.ts';
import { second, type Duration } from '../../core/time.ts';
import { findJob, jobPath, pathOf, unlessForbidden, type Scope } from './scope.ts';

/** How often is looked whether what was deleted is gone; doubled up to the second. */
const looks: { readonly first: Duration; readonly most: Duration } = { first: 0.1 * second, most: second };

/** Cluster.remove. */
export async function removeJob(scope: Scope, name: string, signal: AbortSignal | undefined): Promise<ClusterRemoval> {
  const { api, place } = scope;
  const there = await findJob(scope, name, signal);
  if (there === null) return 'absent';
  const uid = there.metadata?.uid ?? '';
  const what = `delete the job ${name}`;
  await api.find({
    method: 'DELETE',
    path: jobPath(scope, name),
    // The one that was looked at, and not another that has its name by now.
    body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Background', preconditions: { uid } },
    signal,
    what,
  });
  let wait = looks.first;
  const until = async (isGone: () => Promise<boolean>): Promise<void> => {
    while (!(await isGone())) {
      await sleep(wait, undefined, signal === undefined ? {} : { signal });
      wait = Math.min(wait * 2, looks.most);
    }
  };
  await until(async () => {
    const now = await findJob(scope, name, signal);
    return now === null || now.metadata?.uid !== uid;
  });
  const pods = {
    path: pathOf('/api/v1', 'pods', place.namespace),
    query: { labelSelector: `controller-uid=${uid}`, limit: 1 },
    signal,
    what,
  };
  await until(async () => {
    // Without the right to see pods the Job's own answer has to do.
    const left = await unlessForbidden(() => api.ask<{ readonly items?: readonly object[] | null }>(pods), {
      items: [],
    });
    return (left.items ?? []).length === 0;
  });
  return 'gone';
}
