// Blob collector: removes the blobs that no job needs.

import { BlobError, messageOf } from '../app/errors.ts';
import { pluralize } from '../app/format.ts';
import type { AccessStore, Blobs, Clock, Store } from '../app/ports.ts';
import { contentsOf, isFile, readTree } from '../app/tree.ts';
import type { Digest } from '../catalogue/digest.ts';
import { workdirTreeOf } from '../core/model/job.ts';
import { day, hour, second, type Duration } from '../core/model/time.ts';

/** A client may still create a job with a blob that it has stored or found within this time. */
const draftTime: Duration = day;

/** Jobs that wait for the controller come first. */
const firstDelay: Duration = 10 * second;
const interval: Duration = hour;
const jobsPerRead = 100;

/** The returned function collects if it is time. A failure is logged and tried again after the interval. */
export function createBlobCollector(parts: {
  readonly store: Pick<Store, 'list' | 'loadMany'>;
  readonly blobs: Pick<Blobs, 'collect' | 'read'>;
  readonly access: Pick<AccessStore, 'removeUploads'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: { info(line: string): void; warn(line: string): void };
}): () => Promise<void> {
  const { store, blobs, access, clock, log } = parts;
  let nextAt = clock.now() + firstDelay;
  return async () => {
    const now = clock.now();
    if (now < nextAt) return;
    nextAt = now + interval;
    try {
      const since = now - draftTime;
      const removed = await blobs.collect(since, () => neededBlobs(store, blobs));
      if (removed.length === 0) return;
      await access.removeUploads(removed, since);
      log.info(`removed ${pluralize(removed.length, 'stored file')} that no job needs`);
    } catch (error) {
      log.warn(`cannot remove the stored files that no job needs: ${messageOf(error)}`);
    }
  };
}

/** Of all jobs in the list, because each may be started again. */
async function neededBlobs(
  store: Pick<Store, 'list' | 'loadMany'>,
  blobs: Pick<Blobs, 'read'>,
): Promise<ReadonlySet<Digest>> {
  const ids = (await store.list({ maxFinished: null })).jobs.map(({ id }) => id);
  const needed = new Set<Digest>();
  const trees = new Set<Digest>();
  for (let from = 0; from < ids.length; from += jobsPerRead) {
    for (const { job } of await store.loadMany(ids.slice(from, from + jobsPerRead))) {
      const tree = workdirTreeOf(job);
      if (tree !== null) trees.add(tree);
      for (const { files } of job.spec.steps) for (const file of files) if (file.kind === 'blob') needed.add(file.blob);
    }
  }
  for (const tree of trees) for (const digest of await blobsOfTree(blobs, tree)) needed.add(digest);
  return needed;
}

/** Without the list, a missing or damaged one, no job can use the other contents. */
async function blobsOfTree(blobs: Pick<Blobs, 'read'>, tree: Digest): Promise<readonly Digest[]> {
  try {
    const entries = await readTree(blobs, tree);
    return [
      tree,
      ...entries
        .filter(isFile)
        .flatMap(contentsOf)
        .map(({ digest }) => digest),
    ];
  } catch (error) {
    if (error instanceof BlobError) return [];
    throw error;
  }
}
