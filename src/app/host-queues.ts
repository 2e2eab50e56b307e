// Queues of the hosts, computed on demand: storing them would be a write for each job behind one that begins.

import {
  queuePositionOf,
  queuesOf,
  waitsForSlot,
  type Pool,
  type PoolQueue,
  type QueuePosition,
} from '../core/policy/admission.ts';
import type { Job } from '../core/model/job.ts';
import type { Store } from './ports.ts';

export interface QueueSources {
  readonly store: Pick<Store, 'list'>;
  readonly pools: () => Promise<readonly Pool[]>;
}

/** A job that has left the list may hold its slot until its program has ended. */
export const readJobs = async ({ pools, store }: QueueSources) =>
  Promise.all([pools(), store.list({ maxFinished: 0, includeRemoved: true })]);

export async function readHostQueues(sources: QueueSources): Promise<readonly PoolQueue[]> {
  const [pools, { jobs }] = await readJobs(sources);
  return queuesOf(pools, jobs);
}

export async function readQueuePosition(sources: QueueSources, job: Job): Promise<QueuePosition | undefined> {
  if (!waitsForSlot(job)) return undefined;
  const [pools, { jobs }] = await readJobs(sources);
  return queuePositionOf(pools, jobs, job);
}
