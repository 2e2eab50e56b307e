// Reads the jobs of the clusters for the list. While a cluster does not answer, its last rows stay.

import { openClusterLists } from '../../app/cluster/job-list.ts';
import { ownerLabels } from '../../app/cluster/job-object.ts';
import type { JobList } from '../../app/client.ts';
import { actorOf, session } from '../session.ts';
import { openParts } from './source.ts';

/** The archive answers for jobs that were submitted to other namespaces, and for those that a cluster has deleted. */
export function openLists(isConfigured: boolean): () => Promise<JobList> {
  const lists = openClusterLists(openParts(), { all: true }, isConfigured ? {} : null);
  return () => lists.next();
}

/** The owners of the user's own jobs in clusters. */
export function ownLabels(): readonly string[] {
  const actor = actorOf(session.peek());
  return actor === null ? [] : ownerLabels(actor);
}
